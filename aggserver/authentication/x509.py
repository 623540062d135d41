"""Client certificates: which certificate a connection came with, whether a CA vouches for it, and whom it names.

The handshake proves possession of the key against the union of all client CAs (`server/tls.py`); it can't say which CA signed.
This module decides that, once per connection and per CA generation, for the front-proxy and the client-CA authenticators, which
call `verify` with their own `Roots`. Pure: time is an argument, nothing is read or logged.
Source: k8s.io/apiserver pkg/authentication/request/x509/x509.go, v0.36.3; error texts of Go's crypto/x509.

Differs from Go: RSA keys under 2048 bits and CAs with Ed25519 keys are refused, because the verifier of `cryptography` does. A
certificate whose only usage is "any" is accepted here and by Go, but never gets here: OpenSSL refuses it in the handshake.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.utils import CryptographyDeprecationWarning
from cryptography.x509 import verification
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from aggserver.authentication.user import UserInfo

__all__ = ["CREDENTIAL_ID_KEY", "CertificateError", "PeerCertificate", "Roots", "VerifiedCertificate", "user_from", "verify"]

CREDENTIAL_ID_KEY = "authentication.kubernetes.io/credential-id"
UID_OID = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")  # Kubernetes' own attribute for a user's uid (KEP-4412)

# A connection meets two sets of roots, front proxy and clients; a second generation of both must not push out the first while
# requests of the old one are still in flight. Past this number the oldest outcome is forgotten and computed again on demand.
MAX_REMEMBERED = 4

PEM_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


class CertificateError(Exception):
    """A certificate that identifies nobody; the text is what Go's verifier would say."""


class Roots:
    """One generation of CAs. Compared by identity: new PEM bytes make a new object, and with it verification is done anew.

    ders: the certificates, for the handshake's bundle.
    skipped: one text for each PEM block that is no readable certificate, for the log of whoever loaded the bundle.
    """

    __slots__ = ("certificates", "ders", "skipped", "store")

    def __init__(self, certificates: Sequence[x509.Certificate], ders: Sequence[bytes], skipped: Sequence[str]) -> None:
        self.certificates = tuple(certificates)
        self.ders = tuple(ders)
        self.skipped = tuple(skipped)
        self.store = verification.Store(list(certificates))

    @classmethod
    def from_pem(cls, pem: bytes) -> Roots:
        """All certificates of a bundle, whatever stands between them. Raises CertificateError when there is none.

        An unreadable certificate is left out rather than taking the others down: a bundle is edited by hand during a rotation,
        and losing the CA that signed every client is worse than losing the one with the typing error.
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
        """Whether what one of `others` signs may verify against these: one is the same CA, or was signed by one of these.

        The same CA is one of the same key: it may have been renewed, and only one of the two bundles have the new certificate.
        """
        keys = {_public_key(one) for one in self.certificates}
        return any(
            _public_key(other) in keys or any(_is_signed_by(other, one) for one in self.certificates)
            for other in others.certificates
        )


@dataclass(frozen=True, slots=True)
class VerifiedCertificate:
    """A client certificate that one set of roots vouches for. The times are seconds since the epoch, for the whole chain."""

    common_name: str
    organizations: tuple[str, ...]
    uids: tuple[str, ...]
    fingerprint: str  # SHA-256 of the DER, in hex
    not_before: float
    not_after: float


class PeerCertificate:
    """What the client sent in the handshake, and what was found out about it since.

    One per connection, made when the connection is accepted and shared by its requests; nothing is parsed until someone verifies.
    der: the leaf. chain: what followed it on the wire, in that order.
    """

    __slots__ = ("_certificate", "_outcomes", "chain", "der")

    def __init__(self, der: bytes, chain: tuple[bytes, ...] = ()) -> None:
        self.der = der
        self.chain = chain
        self._certificate: x509.Certificate | None = None
        self._outcomes: dict[Roots, VerifiedCertificate | CertificateError] = {}

    def certificate(self) -> x509.Certificate:
        """The parsed leaf. Raises CertificateError when it can't be parsed."""
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
    """The peer's certificate as `roots` vouch for it at `now` (seconds since the epoch). Raises CertificateError.

    Called for every request: a dictionary look-up and two comparisons after the first one of a connection.
    """
    outcome = peer.outcome(roots)
    if isinstance(outcome, CertificateError):
        raise CertificateError(*outcome.args)
    if outcome is None or not outcome.not_before <= now <= outcome.not_after:
        # past the end of the chain that was found there may be another one: a CA that was renewed with the same key
        outcome = _verify_now(peer, roots, now)
        peer.remember(roots, outcome)
    return outcome


def user_from(verified: VerifiedCertificate) -> UserInfo | None:
    """The user a certificate of the client CA names: CN is the name, each O a group. None for a certificate without a CN.

    Raises CertificateError for a uid attribute that is empty or repeated.
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
    """Verify without a memory of earlier calls. Refusals that time can't change are remembered here; others are not."""
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
        chain = verifier.verify(leaf, intermediates).chain
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


def _refusal(
    leaf: x509.Certificate, candidates: Sequence[x509.Certificate], text: str, now: float
) -> tuple[CertificateError, bool]:
    """Go's words for what the verifier refused, and whether the same roots will still refuse tomorrow."""
    if "unaccounted-for critical extensions" in text:
        return CertificateError("x509: unhandled critical extension"), True
    try:
        _client_usage(None, leaf, _extended_key_usage(leaf))
    except ValueError as error:
        return CertificateError(str(error)), True
    for candidate in candidates:
        # an expired CA is the one cause an administrator looks for and the verifier doesn't name
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
    # old kubeadm wrote CAs with the serial number 0, which the library warns about and Go accepts
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


def _is_ca(_: object, __: x509.Certificate, extension: x509.BasicConstraints) -> None:
    if not extension.ca:
        raise ValueError("x509: certificate is not authorized to sign other certificates")


def _may_sign(_: object, __: x509.Certificate, extension: x509.KeyUsage | None) -> None:
    if extension is not None and not extension.key_cert_sign:
        raise ValueError("x509: certificate is not authorized to sign other certificates")


def _client_usage(_: object, __: x509.Certificate, extension: x509.ExtendedKeyUsage | None) -> None:
    """Go asks for clientAuth, or any usage, from every certificate of the chain that restricts its usage at all."""
    if extension is None:
        return
    if ExtendedKeyUsageOID.CLIENT_AUTH not in extension and ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE not in extension:
        raise ValueError("x509: certificate specifies an incompatible key usage")


def _policies() -> tuple[verification.ExtensionPolicy, verification.ExtensionPolicy]:
    """CA and client policies. The library's own follow the web's rules: they want a SAN, which no Kubernetes client has."""
    either = verification.Criticality.AGNOSTIC
    permit: Callable[[], verification.ExtensionPolicy] = verification.ExtensionPolicy.permit_all
    client = permit().may_be_present(x509.ExtendedKeyUsage, either, _client_usage)
    authority = (
        permit()
        .require_present(x509.BasicConstraints, either, _is_ca)
        .may_be_present(x509.KeyUsage, either, _may_sign)
        .may_be_present(x509.ExtendedKeyUsage, either, _client_usage)
    )
    return authority, client


_CA_POLICY, _CLIENT_POLICY = _policies()
