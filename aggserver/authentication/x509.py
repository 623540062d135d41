"""Client certificates: the certificate of a connection, whether a CA bundle verifies it, and the user it names.

The TLS handshake (`server/tls.py`) verifies the certificate against the union of all client CAs, which does not say which of them
signed it. `verify` checks it against the `Roots` of one authenticator (front proxy or client CA), and keeps the result with the
connection.
Pure: the time is an argument, nothing is read or logged.
Source: k8s.io/apiserver pkg/authentication/request/x509/x509.go, v0.36.3; error texts of Go's crypto/x509.

Differs from Go: RSA keys under 2048 bits and CAs with Ed25519 keys are rejected, because the verifier of `cryptography` rejects
them. Two kinds of certificates would be accepted, as by Go, but OpenSSL rejects them in the handshake: those whose only extended
key usage is "any", and those with a key usage that has neither digital signature nor key agreement.
Certificates of X.509 version 1, which have no extensions (`openssl x509 -req` makes them), are verified by this module, and only
if a root has signed them directly, since that verifier rejects them.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.utils import CryptographyDeprecationWarning
from cryptography.x509 import verification
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from aggserver.authentication.user import UserInfo
from aggserver.errors import AggserverError

__all__ = [
    "CREDENTIAL_ID_KEY",
    "CertificateError",
    "PeerCertificate",
    "Roots",
    "VerifiedCertificate",
    "is_signed_rightly",
    "request_problem",
    "user_from",
    "verify",
]

CREDENTIAL_ID_KEY = "authentication.kubernetes.io/credential-id"
UID_OID = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")  # Kubernetes' attribute for a user's UID (KEP-4412)

# A connection is verified against two sets of roots, front proxy and client CA; while CAs are replaced, against the old and the
# new ones. Beyond this number the oldest result is dropped, and computed again on demand.
MAX_REMEMBERED = 4

# The shortest RSA keys that the verifier of `cryptography` accepts.
_MIN_RSA_BITS = 2048
_OF_ROOTS = (x509.BasicConstraints, x509.KeyUsage, x509.ExtendedKeyUsage)
_FOR_CLIENTS = frozenset({ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE})

# Go's errors for a wrong signature, by the type of the key.
_WRONG_SIGNATURES = {
    "ECPublicKey": "x509: ECDSA verification failure",
    "RSAPublicKey": "crypto/rsa: verification error",
    "Ed25519PublicKey": "x509: Ed25519 verification failure",
}
PEM_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


class CertificateError(AggserverError):
    """A certificate that is invalid or not verified. The text is that of Go's verifier."""


class Roots:
    """The certificates of a CA bundle. Compared by identity: after a bundle was read again, every connection is verified anew.

    ders: the certificates in DER, for the handshake's bundle.
    skipped: one text for each PEM block that is not a valid certificate, for the log.
    """

    __slots__ = ("certificates", "ders", "skipped", "store")

    def __init__(self, certificates: Sequence[x509.Certificate], ders: Sequence[bytes], skipped: Sequence[str]) -> None:
        self.certificates = tuple(certificates)
        self.ders = tuple(ders)
        self.skipped = tuple(skipped)
        self.store = verification.Store(list(certificates))

    @classmethod
    def from_pem(cls, pem: bytes) -> Roots:
        """The certificates of a PEM bundle; text between them is ignored. Raises CertificateError if there is no valid one.

        An invalid certificate is skipped instead of rejecting the bundle: during a rotation bundles are edited by hand, and a
        typing error in the new CA must not lock out the clients of the old one.
        """
        certificates: list[x509.Certificate] = []
        ders: list[bytes] = []
        skipped: list[str] = []
        for number, block in enumerate(PEM_CERTIFICATE.findall(pem), start=1):
            try:
                certificate, der = _load_pem(block)
            except (ValueError, UnsupportedAlgorithm) as error:
                skipped.append(f"certificate {number} of the bundle: {error}")
            else:
                certificates.append(certificate)
                ders.append(der)
        if not certificates:
            raise CertificateError("data does not contain any valid RSA or ECDSA certificates")
        return cls(certificates, ders, skipped)

    def vouch_for(self, others: Roots) -> bool:
        """Whether certificates issued by one of `others` may verify against these roots.

        That is so if one of `others` was signed by one of these, or is the same CA. CAs are the same if they have the same key:
        when a CA is renewed, one bundle may have its old certificate and the other the new one.
        """
        keys = {_public_key(one) for one in self.certificates}
        return any(
            _public_key(other) in keys or any(_is_signed_by(other, one) for one in self.certificates)
            for other in others.certificates
        )


@dataclass(frozen=True, slots=True)
class VerifiedCertificate:
    """The subject of a verified client certificate. The times, in seconds since the epoch, are when the whole chain is valid."""

    common_name: str
    organizations: tuple[str, ...]
    uids: tuple[str, ...]
    fingerprint: str  # SHA-256 of the DER, in hex
    not_before: float
    not_after: float


class PeerCertificate:
    """The certificates that a client sent in the handshake, and the results of verifying them.

    One per connection, shared by its requests. Nothing is parsed before the first verification.
    der: the leaf. chain: the certificates that the client sent after it, in that order.
    """

    __slots__ = ("_certificate", "_outcomes", "chain", "der")

    def __init__(self, der: bytes, chain: tuple[bytes, ...] = ()) -> None:
        self.der = der
        self.chain = chain
        self._certificate: x509.Certificate | None = None
        self._outcomes: dict[Roots, VerifiedCertificate | CertificateError] = {}

    def certificate(self) -> x509.Certificate:
        """The parsed leaf. Raises CertificateError if it can't be parsed."""
        if self._certificate is None:
            self._certificate = _parse(self.der)
        return self._certificate

    def outcome(self, roots: Roots) -> VerifiedCertificate | CertificateError | None:
        return self._outcomes.get(roots)

    def remember(self, roots: Roots, outcome: VerifiedCertificate | CertificateError) -> None:
        if roots not in self._outcomes and len(self._outcomes) >= MAX_REMEMBERED:
            del self._outcomes[next(iter(self._outcomes))]
        self._outcomes[roots] = outcome


def verify(peer: PeerCertificate, roots: Roots, now: float) -> VerifiedCertificate:
    """The peer's certificate, verified against `roots` at `now` (seconds since the epoch). Raises CertificateError.

    After the first request of a connection this costs a dictionary look-up and two comparisons.
    """
    outcome = peer.outcome(roots)
    if isinstance(outcome, CertificateError):
        raise CertificateError(*outcome.args)
    if outcome is None or not outcome.not_before <= now <= outcome.not_after:
        # When the chain has expired there may be another valid one: a CA may have been renewed with the same key.
        outcome = _verify_now(peer, roots, now)
        peer.remember(roots, outcome)
    return outcome


def user_from(verified: VerifiedCertificate) -> UserInfo | None:
    """The user that a certificate names: the CN is the name, each O a group. None if it has no CN.

    Raises CertificateError for a UID attribute that is empty or repeated.
    """
    if not verified.common_name:
        return None
    return UserInfo(
        name=verified.common_name,
        uid=_uid(verified.uids),
        groups=verified.organizations,
        extra={CREDENTIAL_ID_KEY: (f"X509SHA256={verified.fingerprint}",)},
    )


def _uid(uids: tuple[str, ...]) -> str:
    if not uids:
        return ""
    if len(uids) > 1:
        raise CertificateError(f"expected 1 UID, but found multiple: [{' '.join(uids)}]")
    if not uids[0]:
        raise CertificateError("UID cannot be an empty string")
    return uids[0]


def _verify_now(peer: PeerCertificate, roots: Roots, now: float) -> VerifiedCertificate:
    """Verify without cached results. A rejection that does not depend on the time is cached; another one is not."""
    leaf = peer.certificate()
    _check_times(leaf, now)
    verifier = (
        verification.PolicyBuilder()
        .store(roots.store)
        .time(datetime.fromtimestamp(now, UTC).replace(tzinfo=None))
        .extension_policies(ca_policy=_CA_POLICY, ee_policy=_CLIENT_POLICY)
        .build_client_verifier()
    )
    intermediates = [_parse(der) for der in peer.chain]
    try:
        chain = _version_1_chain(leaf, roots, now) or verifier.verify(leaf, intermediates).chain
    except verification.VerificationError as error:
        refusal, lasting = _refusal(leaf, (*intermediates, *roots.certificates), str(error), now)
        if lasting:
            peer.remember(roots, refusal)
        raise refusal from error
    return VerifiedCertificate(
        common_name=(_values(leaf, NameOID.COMMON_NAME) or ("",))[-1],  # Go's parser keeps the last one
        organizations=_values(leaf, NameOID.ORGANIZATION_NAME),
        uids=_values(leaf, UID_OID),
        fingerprint=sha256(peer.der).hexdigest(),
        not_before=max(one.not_valid_before_utc.timestamp() for one in chain),
        not_after=min(one.not_valid_after_utc.timestamp() for one in chain),
    )


def _version_1_chain(leaf: x509.Certificate, roots: Roots, now: float) -> list[x509.Certificate]:
    """A certificate of version 1, and the root that signed it and may sign; empty for other versions, or without such a root.

    The certificate has no usages, so that as in Go they do not restrict its use.
    """
    if leaf.version is not x509.Version.v1 or not _is_strong(leaf):
        return []
    for root in roots.certificates:
        if _may_sign_clients(root) and _times_error(root, now) is None and _is_signed_by(leaf, root):
            return [leaf, root]
    return []


def _is_strong(certificate: x509.Certificate) -> bool:
    """Whether the verifier accepts its key and the digest of its signature."""
    try:
        key, digest = certificate.public_key(), certificate.signature_hash_algorithm
    except (ValueError, UnsupportedAlgorithm):
        return False
    if not isinstance(digest, (hashes.SHA256, hashes.SHA384, hashes.SHA512)):
        return False
    if isinstance(key, rsa.RSAPublicKey):
        return key.key_size >= _MIN_RSA_BITS
    return isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1))


def _may_sign_clients(root: x509.Certificate) -> bool:
    """Whether a root is a CA, and for clients. False with unknown critical extensions, which could restrict its use."""
    found: dict[type, Any] = {}
    try:
        for extension in root.extensions:
            found[type(extension.value)] = extension.value
            if extension.critical and not isinstance(extension.value, _OF_ROOTS):
                return False
    except ValueError:
        return False
    constraints, usage = found.get(x509.BasicConstraints), found.get(x509.KeyUsage)
    purposes = found.get(x509.ExtendedKeyUsage)
    if constraints is None or not constraints.ca or not _is_strong(root):
        return False
    if purposes is not None and not _FOR_CLIENTS.intersection(purposes):
        return False
    return usage is None or bool(usage.key_cert_sign)


def _refusal(
    leaf: x509.Certificate, candidates: Sequence[x509.Certificate], text: str, now: float
) -> tuple[CertificateError, bool]:
    """Go's error for a certificate that the verifier rejected, and whether that result holds at any time."""
    if "unaccounted-for critical extensions" in text:
        return CertificateError("x509: unhandled critical extension"), True
    try:
        _client_usage(None, leaf, _extended_key_usage(leaf))
    except ValueError as error:
        return CertificateError(str(error)), True
    for candidate in candidates:
        # The verifier does not say that a CA has expired, which is what an administrator needs to know.
        if candidate.subject == leaf.issuer and (expired := _times_error(candidate, now)) is not None:
            name = (_values(candidate, NameOID.COMMON_NAME) or (f"serial:{candidate.serial_number}",))[-1]
            hint = f'(possibly because of "{expired}" while trying to verify candidate authority certificate "{name}")'
            return CertificateError(f"x509: certificate signed by unknown authority {hint}"), False
    return CertificateError("x509: certificate signed by unknown authority"), True


def _check_times(certificate: x509.Certificate, now: float) -> None:
    error = _times_error(certificate, now)
    if error is not None:
        raise error


def _times_error(certificate: x509.Certificate, now: float) -> CertificateError | None:
    not_before, not_after = certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp()
    return None if not_before <= now <= not_after else _outside(not_before, not_after, now)


def _outside(not_before: float, not_after: float, now: float) -> CertificateError:
    detail = f"after {_rfc3339(not_after)}" if now > not_after else f"before {_rfc3339(not_before)}"
    return CertificateError(f"x509: certificate has expired or is not yet valid: current time {_rfc3339(now)} is {detail}")


def _rfc3339(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _values(certificate: x509.Certificate, oid: x509.ObjectIdentifier) -> tuple[str, ...]:
    return tuple(value for item in certificate.subject.get_attributes_for_oid(oid) if isinstance(value := item.value, str))


def _extended_key_usage(certificate: x509.Certificate) -> x509.ExtendedKeyUsage | None:
    try:
        return certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except (x509.ExtensionNotFound, ValueError):
        return None


def _load_pem(block: bytes) -> tuple[x509.Certificate, bytes]:
    # Old versions of kubeadm wrote CAs with serial number 0, which Go accepts and this library warns about.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CryptographyDeprecationWarning)
        certificate = x509.load_pem_x509_certificate(block)
        return certificate, certificate.public_bytes(Encoding.DER)


def _public_key(certificate: x509.Certificate) -> bytes:
    return certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _is_signed_by(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _parse(der: bytes) -> x509.Certificate:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CryptographyDeprecationWarning)
        try:
            return x509.load_der_x509_certificate(der)
        except (ValueError, UnsupportedAlgorithm) as error:
            raise CertificateError(f"x509: malformed certificate: {error}") from error


def is_signed_rightly(request: x509.CertificateSigningRequest) -> bool:
    """Whether the request is signed with the key in it. SHA-1 is accepted as in Go, but not by `cryptography`: the signature only
    proves that the sender has the key.

    Raises ValueError, TypeError and UnsupportedAlgorithm.
    """
    key = request.public_key()
    if not isinstance(request.signature_hash_algorithm, hashes.SHA1) or not isinstance(key, rsa.RSAPublicKey):
        return request.is_signature_valid
    try:
        key.verify(request.signature, request.tbs_certrequest_bytes, padding.PKCS1v15(), request.signature_hash_algorithm)
    except InvalidSignature:
        return False
    return True


def request_problem(der: bytes) -> str:
    """Why this is no certificate signing request with a valid signature; '' if it is one."""
    try:
        request = x509.load_der_x509_csr(der)
        if is_signed_rightly(request):
            return ""
        return _WRONG_SIGNATURES.get(type(request.public_key()).__name__, "x509: signature is not valid")
    except UnsupportedAlgorithm:
        return "x509: cannot verify signature: algorithm unimplemented"
    except (ValueError, TypeError) as error:
        return f"asn1: structure error: {error}"


def _is_ca(_: object, __: x509.Certificate, extension: x509.BasicConstraints) -> None:
    if not extension.ca:
        raise ValueError("x509: certificate is not authorized to sign other certificates")


def _may_sign(_: object, __: x509.Certificate, extension: x509.KeyUsage | None) -> None:
    if extension is not None and not extension.key_cert_sign:
        raise ValueError("x509: certificate is not authorized to sign other certificates")


def _client_usage(_: object, __: x509.Certificate, extension: x509.ExtendedKeyUsage | None) -> None:
    """Check an extended key usage as Go does: every certificate of the chain that has one must allow clientAuth, or any."""
    if extension is None:
        return
    if ExtendedKeyUsageOID.CLIENT_AUTH not in extension and ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE not in extension:
        raise ValueError("x509: certificate specifies an incompatible key usage")


def _policies() -> tuple[verification.ExtensionPolicy, verification.ExtensionPolicy]:
    """CA and client policies. The library's defaults are for the web: they require a SAN, which no Kubernetes client has."""
    either = verification.Criticality.AGNOSTIC
    permit: Callable[[], verification.ExtensionPolicy] = verification.ExtensionPolicy.permit_all
    # Certificate policies may be critical: Go understands them, and Kubernetes requires none.
    client = permit().may_be_present(x509.ExtendedKeyUsage, either, _client_usage)
    client = client.may_be_present(x509.CertificatePolicies, either, None)
    authority = (
        permit()
        .require_present(x509.BasicConstraints, either, _is_ca)
        .may_be_present(x509.KeyUsage, either, _may_sign)
        .may_be_present(x509.ExtendedKeyUsage, either, _client_usage)
        .may_be_present(x509.CertificatePolicies, either, None)
    )
    return authority, client


_CA_POLICY, _CLIENT_POLICY = _policies()
