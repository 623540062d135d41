"""Certificates the server makes for itself: a CA, a serving certificate under it, client certificates for a kubeconfig.

Bytes in, bytes out (PEM), time as an argument; `CertificateKeeper` applies the rules of renewal to what a `CertificateStore`
holds. Called by `app.py` when no `--tls-cert-file` is given: its CA bundle goes into the caBundle of APIServices or a kubeconfig.
Times are seconds since the epoch. Keys are ECDSA P-256: quick to make at start, and accepted by every TLS client of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Protocol

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from aggserver import disk

__all__ = [
    "CertificateKeeper",
    "CertificateStore",
    "Certificates",
    "FolderStore",
    "KeyPair",
    "Names",
    "StoreConflictError",
    "issue_client",
    "issue_serving",
    "needs_renewal",
    "new_ca",
]

CA_DAYS = 3650
SERVING_DAYS = 365

# Clients' clocks may be behind ours; kubeadm backdates by 5 minutes, cert-manager by an hour.
BACKDATE_SECONDS = 3600

# A new CA is published this long before anything is signed with it, so that every APIService and kubeconfig has it by then.
PUBLISH_SECONDS = 24 * 3600

# How often a running server looks whether something is due; the shortest life is measured in months.
CHECK_SECONDS = 3600.0

# Replicas that start together race for the first save; whoever loses finds the winner's certificates at the next attempt.
SAVE_ATTEMPTS = 5

CA_CERT, CA_KEY = "ca.crt", "ca.key"
NEXT_CA_CERT, NEXT_CA_KEY = "next-ca.crt", "next-ca.key"
OLD_CA_CERTS = "old-ca.crt"
SERVING_CERT, SERVING_KEY = "tls.crt", "tls.key"
NAMES = frozenset({CA_CERT, CA_KEY, NEXT_CA_CERT, NEXT_CA_KEY, OLD_CA_CERTS, SERVING_CERT, SERVING_KEY})


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its unencrypted private key (SEC 1, RFC 5915), both PEM."""

    cert_pem: bytes
    key_pem: bytes


@dataclass(frozen=True, slots=True)
class Names:
    """What a serving certificate is for: DNS names and IP addresses, in any order."""

    dns: tuple[str, ...]
    ips: tuple[str, ...] = ()

    @classmethod
    def for_service(cls, service: str, namespace: str, *extra: str) -> Names:
        """The names under which a cluster reaches a service; `extra` may be names or addresses."""
        own = (f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local", f"{service}.{namespace}", service)
        return cls.of(*own, *extra)

    @classmethod
    def of(cls, *hosts: str) -> Names:
        """Sorts hosts into names and addresses."""
        ips = tuple(host for host in hosts if _is_ip(host))
        return cls(tuple(host for host in hosts if host not in ips), ips)


def new_ca(common_name: str, now: float, days: int = CA_DAYS) -> KeyPair:
    """A self-signed CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    usage = _key_usage(key_cert_sign=True, crl_sign=True)
    builder = (
        _builder(subject, subject, key.public_key(), now, now + days * 86400)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
    )
    return _pair(builder.sign(key, hashes.SHA256()), key)


def issue_serving(ca: KeyPair, dns_names: Sequence[str], ips: Sequence[str], now: float, days: int = SERVING_DAYS) -> KeyPair:
    """A serving certificate for the names and addresses; it ends with its CA at the latest. At least one of them is needed."""
    alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in dns_names]
    alternatives.extend(x509.IPAddress(ip_address(ip)) for ip in ips)
    # the names are in the SAN, where clients look; the CN is for people, and X.520 allows 64 characters
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, (*dns_names, *ips)[0][:64])])
    san = x509.SubjectAlternativeName(alternatives)
    return _issue(ca, subject, [(san, False)], ExtendedKeyUsageOID.SERVER_AUTH, now, days)


def issue_client(ca: KeyPair, user: str, groups: Sequence[str], now: float, days: int = SERVING_DAYS) -> KeyPair:
    """A client certificate that authenticates as `user` (CN) in `groups` (O)."""
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, user)])
    return _issue(ca, subject, [], ExtendedKeyUsageOID.CLIENT_AUTH, now, days)


def needs_renewal(cert_pem: bytes, now: float) -> bool:
    """Whether less than a third of the certificate's life is left. Raises ValueError for PEM that is no certificate."""
    certificate = x509.load_pem_x509_certificate(cert_pem)
    start, end = certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp()
    return end - now < (end - start) / 3


class StoreConflictError(Exception):
    """Another replica saved between our load and our save; its certificates are now the right ones."""


class CertificateStore(Protocol):
    """Where the certificates live between starts: a folder or a Secret. Keys are file names, values PEM."""

    async def load(self) -> dict[str, bytes]:
        """All that is kept; empty at the first start."""

    async def save(self, files: dict[str, bytes]) -> None:
        """Replace everything that is kept. Raises StoreConflictError when it changed since `load`."""


class FolderStore:
    """A folder on disk: 0700, files 0600, each replaced atomically. Other files in the folder are left alone."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def load(self) -> dict[str, bytes]:
        return {name: (self.path / name).read_bytes() for name in NAMES if (self.path / name).is_file()}

    async def save(self, files: dict[str, bytes]) -> None:
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, content in files.items():
            disk.replace(self.path / name, content)
        for name in NAMES - files.keys():
            (self.path / name).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Certificates:
    """What to serve with now. `ca_bundle` is what clients should trust; `ca` signs client certificates."""

    serving: KeyPair
    ca_bundle: bytes
    ca: KeyPair


class CertificateKeeper:
    """Keeps CA and serving certificate in a store, and renews both in time.

    - Serving: renewed when a third of its life is left, when the wanted names change, or when it doesn't fit its key or CA.
    - CA: with a third of its life left a successor is made and published in the bundle; after PUBLISH_SECONDS it takes over
      signing. The predecessor stays in the bundle until it expires, and nothing it signed can outlive it.
    """

    def __init__(self, store: CertificateStore, names: Names, clock: Callable[[], float], ca_name: str = "aggserver-ca") -> None:
        self._store = store
        self._names = names
        self._clock = clock
        self._ca_name = ca_name

    async def ensure(self) -> Certificates:
        """Load, renew what is due, save if anything changed, and say what to serve with.

        Raises StoreConflictError when others saved in between each of SAVE_ATTEMPTS times.
        """
        for attempt in range(1, SAVE_ATTEMPTS + 1):
            kept = await self._store.load()
            wanted = self._renewed(kept, self._clock())
            try:
                if wanted != kept:
                    await self._store.save(wanted)
                break
            except StoreConflictError:
                if attempt == SAVE_ATTEMPTS:
                    raise
        return self._certificates(wanted)

    def _certificates(self, files: Mapping[str, bytes]) -> Certificates:
        return Certificates(
            serving=KeyPair(files[SERVING_CERT], files[SERVING_KEY]),
            ca_bundle=b"".join(files.get(name, b"") for name in (CA_CERT, NEXT_CA_CERT, OLD_CA_CERTS)),
            ca=KeyPair(files[CA_CERT], files[CA_KEY]),
        )

    async def follow(
        self, on_change: Callable[[Certificates], Awaitable[None]], sleep: Callable[[float], Awaitable[None]]
    ) -> None:
        """Check for ever, every CHECK_SECONDS of `sleep`, and report each change; what `ensure` says first counts as known."""
        known = await self.ensure()
        while True:
            await sleep(CHECK_SECONDS)
            current = await self.ensure()
            if current != known:
                await on_change(current)
                known = current

    def _renewed(self, kept: Mapping[str, bytes], now: float) -> dict[str, bytes]:
        files = self._with_ca(kept, now)
        ca = KeyPair(files[CA_CERT], files[CA_KEY])
        trusted = files[CA_CERT] + files.get(OLD_CA_CERTS, b"")
        if not self._serves(files, trusted, now):
            serving = issue_serving(ca, self._names.dns, self._names.ips, now)
            files[SERVING_CERT], files[SERVING_KEY] = serving.cert_pem, serving.key_pem
        return files

    def _with_ca(self, kept: Mapping[str, bytes], now: float) -> dict[str, bytes]:
        """The files with a CA that can sign now, and a successor where one is due."""
        files = dict(kept)
        if not _pair_fits(files.get(CA_CERT), files.get(CA_KEY)) or _ended(files[CA_CERT], now):
            ca = new_ca(self._ca_name, now)
            return {CA_CERT: ca.cert_pem, CA_KEY: ca.key_pem}
        if old := files.pop(OLD_CA_CERTS, None):
            lasting = _unexpired(old, now)
            files.update({OLD_CA_CERTS: lasting} if lasting else {})
        if needs_renewal(files[CA_CERT], now):
            if not _pair_fits(files.get(NEXT_CA_CERT), files.get(NEXT_CA_KEY)):
                successor = new_ca(self._ca_name, now)
                files[NEXT_CA_CERT], files[NEXT_CA_KEY] = successor.cert_pem, successor.key_pem
            elif now - (_start(files[NEXT_CA_CERT]) + BACKDATE_SECONDS) >= PUBLISH_SECONDS:
                files[OLD_CA_CERTS] = files[CA_CERT] + files.get(OLD_CA_CERTS, b"")
                files[CA_CERT], files[CA_KEY] = files.pop(NEXT_CA_CERT), files.pop(NEXT_CA_KEY)
        return files

    def _serves(self, files: Mapping[str, bytes], trusted: bytes, now: float) -> bool:
        cert_pem = files.get(SERVING_CERT)
        if cert_pem is None or not _pair_fits(cert_pem, files.get(SERVING_KEY)) or needs_renewal(cert_pem, now):
            return False
        certificate = x509.load_pem_x509_certificate(cert_pem)
        san = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        dns, ips = set(san.get_values_for_type(x509.DNSName)), {str(ip) for ip in san.get_values_for_type(x509.IPAddress)}
        if dns != set(self._names.dns) or ips != {str(ip_address(ip)) for ip in self._names.ips}:
            return False
        return any(_signed_by(certificate, ca) for ca in x509.load_pem_x509_certificates(trusted))


def _issue(
    ca: KeyPair,
    subject: x509.Name,
    extensions: Sequence[tuple[x509.ExtensionType, bool]],
    purpose: x509.ObjectIdentifier,
    now: float,
    days: int,
) -> KeyPair:
    authority = x509.load_pem_x509_certificate(ca.cert_pem)
    authority_key = _load_key(ca.key_pem)
    end = min(now + days * 86400, authority.not_valid_after_utc.timestamp())
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _builder(subject, authority.subject, key.public_key(), now, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    return _pair(builder.sign(authority_key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, now: float, end: float
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_moment(now) - timedelta(seconds=BACKDATE_SECONDS))
        .not_valid_after(_moment(end))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _key_usage(*, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        encipher_only=False,
        decipher_only=False,
    )


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    # As kubeadm and Go write keys of elliptic curves: fabric8's Java client can read no others from a kubeconfig.
    sec1 = serialization.PrivateFormat.TraditionalOpenSSL
    key_pem = key.private_bytes(serialization.Encoding.PEM, sec1, serialization.NoEncryption())
    return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), key_pem)


def _load_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    """Raises ValueError for anything but the kind of key this module writes."""
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("not an ECDSA private key")
    return key


def _pair_fits(cert_pem: bytes | None, key_pem: bytes | None) -> bool:
    """Whether both are there, readable, and belong together: a store may have been cut off in the middle of a save."""
    if cert_pem is None or key_pem is None:
        return False
    try:
        return x509.load_pem_x509_certificate(cert_pem).public_key() == _load_key(key_pem).public_key()
    except (ValueError, TypeError):
        return False


def _signed_by(certificate: x509.Certificate, ca: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(ca)
    except Exception:  # ValueError, TypeError or InvalidSignature: whichever it is, this CA did not sign it
        return False
    return True


def _unexpired(bundle: bytes, now: float) -> bytes:
    lasting = (one for one in x509.load_pem_x509_certificates(bundle) if one.not_valid_after_utc.timestamp() > now)
    return b"".join(one.public_bytes(serialization.Encoding.PEM) for one in lasting)


def _ended(cert_pem: bytes, now: float) -> bool:
    return x509.load_pem_x509_certificate(cert_pem).not_valid_after_utc.timestamp() <= now


def _start(cert_pem: bytes) -> float:
    return x509.load_pem_x509_certificate(cert_pem).not_valid_before_utc.timestamp()


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=0)


def _is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
