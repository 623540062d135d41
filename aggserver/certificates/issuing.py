"""Make certificates: a CA, a serving certificate under it, and client certificates for a kubeconfig.

Takes and returns PEM as bytes, takes the time as an argument, and writes nothing. Times are seconds since the epoch.
Keys are ECDSA P-256: quick to make at start, and accepted by every TLS client of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import TypeAlias

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from aggserver.authentication.x509 import is_signed_rightly
from aggserver.meta.names import dns1123_subdomain

__all__ = [
    "BACKDATE_SECONDS",
    "KeyPair",
    "SigningRequestError",
    "SubjectNames",
    "issue_client",
    "issue_serving",
    "load_key",
    "names_of",
    "new_ca",
    "requested_groups",
    "requested_user",
    "sign_request",
]

PublicKey: TypeAlias = ec.EllipticCurvePublicKey | rsa.RSAPublicKey

CA_DAYS = 3650
SERVING_DAYS = 365

# Clients' clocks may be behind ours; kubeadm backdates by 5 minutes, cert-manager by an hour.
BACKDATE_SECONDS = 3600
# For certificates signed by request, as by kube-controller-manager's signer. Those valid for at least `_SHORT_SECONDS` also end
# that much earlier.
_SIGNED_BACKDATE_SECONDS = 300
_SHORT_SECONDS = 8 * 3600

# The usages in a CertificateSigningRequest that become bits of a client certificate's key usage.
_KEY_USAGES = frozenset({"digital signature", "key encipherment"})


class SigningRequestError(ValueError):
    """A certificate signing request that can't be signed."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its unencrypted private key (SEC 1, RFC 5915), both PEM."""

    cert_pem: bytes
    key_pem: bytes


@dataclass(frozen=True, slots=True)
class SubjectNames:
    """The DNS names and IP addresses that a serving certificate is valid for, in any order."""

    dns: tuple[str, ...]
    ips: tuple[str, ...] = ()

    @classmethod
    def for_service(cls, service: str, namespace: str, *extra: str) -> SubjectNames:
        """The names by which a cluster reaches a service. extra: further names or addresses."""
        own = (f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local", f"{service}.{namespace}", service)
        return cls.of(*own, *extra)

    @classmethod
    def of(cls, *hosts: str) -> SubjectNames:
        """Sort hosts into names and addresses."""
        ips = tuple(host for host in hosts if _is_ip(host))
        return cls(tuple(host for host in hosts if host not in ips), ips)


def new_ca(common_name: str, now: float, days: int = CA_DAYS) -> KeyPair:
    """A self-signed CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    usage = _key_usage(key_cert_sign=True, crl_sign=True)
    builder = (
        _builder(subject, subject, key.public_key(), now - BACKDATE_SECONDS, now + days * 86400)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
    )
    return _pair(builder.sign(key, hashes.SHA256()), key)


def issue_serving(ca: KeyPair, dns_names: Sequence[str], ips: Sequence[str], now: float, days: int = SERVING_DAYS) -> KeyPair:
    """A serving certificate for names and addresses, at least one in total. It expires with its CA at the latest."""
    alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in dns_names]
    alternatives.extend(x509.IPAddress(ip_address(ip)) for ip in ips)
    # Clients read the names from the SAN. The CN is for people; X.520 limits it to 64 characters.
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, (*dns_names, *ips)[0][:64])])
    san = x509.SubjectAlternativeName(alternatives)
    return _issue(ca, subject, [(san, False)], ExtendedKeyUsageOID.SERVER_AUTH, now, days)


def sign_request(
    ca: KeyPair, request_pem: bytes, usages: Collection[str], now: float, seconds: float, *, refused_group: str
) -> bytes:
    """A client certificate (PEM) for a certificate signing request, with its subject and key.

    seconds: how long it is valid at most. It begins five minutes before `now`, and ends five minutes earlier unless its life is
    short. usages: as in a CertificateSigningRequest. refused_group: no subject may be in it. Raises SigningRequestError.
    """
    try:
        request = x509.load_pem_x509_csr(request_pem)
        if not is_signed_rightly(request):
            raise SigningRequestError("unable to verify certificate request signature")
        extensions: list[tuple[x509.ExtensionType, bool]] = []
        if not _KEY_USAGES.isdisjoint(usages):
            # Digital signature is always included: Go does not check the key usage of a client certificate, but this server's
            # OpenSSL refuses one that has a key usage without digital signature.
            extensions.append((_key_usage(digital_signature=True, key_encipherment="key encipherment" in usages), True))
        names = (each for each in request.extensions if isinstance(each.value, x509.SubjectAlternativeName))
        extensions.extend((each.value, each.critical) for each in names)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise SigningRequestError(f"unable to parse certificate request: {error}") from None
    if refused_group in requested_groups(request_pem):
        raise SigningRequestError(f"use of kubernetes.io/kube-apiserver-client signer with {refused_group} group is not allowed")
    key = request.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey | rsa.RSAPublicKey):
        raise SigningRequestError("unable to sign a certificate for a key that is neither RSA nor ECDSA")
    end = now + seconds - (0 if seconds < _SHORT_SECONDS else _SIGNED_BACKDATE_SECONDS)
    times = now - _SIGNED_BACKDATE_SECONDS, end
    signed = _signed(ca, request.subject, key, extensions, ExtendedKeyUsageOID.CLIENT_AUTH, *times)
    return signed.public_bytes(serialization.Encoding.PEM)


def requested_groups(request_pem: bytes) -> list[str]:
    """The groups that a certificate signing request asks for: the organizations of its subject. Raises ValueError."""
    return _requested(request_pem, NameOID.ORGANIZATION_NAME)


def requested_user(request_pem: bytes) -> str:
    """The user name that a certificate signing request asks for: the last common name, as Go's parser; '' for none.

    Raises ValueError.
    """
    return (_requested(request_pem, NameOID.COMMON_NAME) or [""])[-1]


def _requested(request_pem: bytes, which: x509.ObjectIdentifier) -> list[str]:
    try:
        subject = x509.load_pem_x509_csr(request_pem).subject
    except UnsupportedAlgorithm as error:
        raise SigningRequestError(str(error)) from None
    return [str(one.value) for one in subject.get_attributes_for_oid(which)]


def issue_client(ca: KeyPair, user: str, groups: Sequence[str], now: float) -> KeyPair:
    """A client certificate that authenticates as `user` (CN) in `groups` (O)."""
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, user)])
    return _issue(ca, subject, [], ExtendedKeyUsageOID.CLIENT_AUTH, now, SERVING_DAYS)


def _issue(
    ca: KeyPair,
    subject: x509.Name,
    extensions: Sequence[tuple[x509.ExtensionType, bool]],
    purpose: x509.ObjectIdentifier,
    now: float,
    days: int,
) -> KeyPair:
    key = ec.generate_private_key(ec.SECP256R1())
    more = [(_key_usage(digital_signature=True), True), *extensions]
    return _pair(_signed(ca, subject, key.public_key(), more, purpose, now - BACKDATE_SECONDS, now + days * 86400), key)


def _signed(
    ca: KeyPair,
    subject: x509.Name,
    key: PublicKey,
    extensions: Sequence[tuple[x509.ExtensionType, bool]],
    purpose: x509.ObjectIdentifier,
    start: float,
    end: float,
) -> x509.Certificate:
    """A certificate signed by the CA. It ends with the CA at the latest."""
    authority = x509.load_pem_x509_certificate(ca.cert_pem)
    authority_key = load_key(ca.key_pem)
    end = min(end, authority.not_valid_after_utc.timestamp())
    builder = (
        _builder(subject, authority.subject, key, start, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    return builder.sign(authority_key, hashes.SHA256())


def _builder(subject: x509.Name, issuer: x509.Name, public_key: PublicKey, start: float, end: float) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_moment(start))
        .not_valid_after(_moment(end))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _key_usage(
    *,
    digital_signature: bool = False,
    key_encipherment: bool = False,
    key_cert_sign: bool = False,
    crl_sign: bool = False,
) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=key_encipherment,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        encipher_only=False,
        decipher_only=False,
    )


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    # SEC 1, as kubeadm and Go write keys of elliptic curves: fabric8's Java client reads no other form from a kubeconfig.
    sec1 = serialization.PrivateFormat.TraditionalOpenSSL
    key_pem = key.private_bytes(serialization.Encoding.PEM, sec1, serialization.NoEncryption())
    return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), key_pem)


def load_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    """Read an ECDSA private key, the only kind that this module makes. Raises ValueError for anything else."""
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("not an ECDSA private key")
    return key


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=0)


def _is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def names_of(cert_pem: bytes) -> list[str]:
    """The host names that a certificate is for: its common name if that may be one, and the DNS names of its extension."""
    certificate = x509.load_pem_x509_certificate(cert_pem)
    common = [str(each.value) for each in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    found = [name for name in common[:1] if name == "*" or not dns1123_subdomain(name.removeprefix("*."))]
    for extension in certificate.extensions:
        if isinstance(extension.value, x509.SubjectAlternativeName):
            found += extension.value.get_values_for_type(x509.DNSName)
    return found
