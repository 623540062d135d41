"""CertificateKeeper: keeps the server's own CA and serving certificate in a store, and renews them in time.

Used when no `--tls-cert-file` is given: the CA bundle goes into the caBundle of APIServices, or into a kubeconfig.
Times are seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from aggserver.certificates.issuing import BACKDATE_SECONDS, KeyPair, SubjectNames, issue_serving, load_key, new_ca
from aggserver.certificates.store import (
    CA_CERT,
    CA_KEY,
    NEXT_CA_CERT,
    NEXT_CA_KEY,
    OLD_CA_CERTS,
    SERVING_CERT,
    SERVING_KEY,
    CertificateStore,
    StoreConflictError,
)

__all__ = ["CertificateKeeper", "Certificates", "needs_renewal"]

# Seconds between the publication of a new CA and its first signature, so that by then every APIService and kubeconfig has it.
PUBLISH_SECONDS = 24 * 3600

# Seconds between checks whether a renewal is due. Certificates live for months at least, but somebody may replace or delete what
# is kept, and of several servers only one makes the new CA: until the others have read it, they serve what nobody trusts any
# more.
CHECK_SECONDS = 60.0

# Replicas that start together race for the first save. The losers load the winner's certificates at the next attempt.
SAVE_ATTEMPTS = 5

_CA_NAME = "aggserver-ca"


@dataclass(frozen=True, slots=True)
class Certificates:
    """The certificates to use now. ca_bundle: PEM, for clients to trust. ca: signs client certificates."""

    serving: KeyPair
    ca_bundle: bytes
    ca: KeyPair


class CertificateKeeper:
    """The rules of renewal:

    - The serving certificate is renewed when a third of its life is left, when the names change, or if its key or CA doesn't fit.
    - When a third of the CA's life is left, a successor is made and published in the bundle; after PUBLISH_SECONDS it takes over
      signing. The predecessor stays in the bundle until it expires, and no certificate that it signed expires later.

    names: what the serving certificate is for. clock: seconds since the epoch.
    """

    def __init__(self, store: CertificateStore, names: SubjectNames, clock: Callable[[], float]) -> None:
        self._store = store
        self._names = names
        self._clock = clock

    async def ensure(self) -> Certificates:
        """Loads the certificates, renews what is due, saves if anything changed, and returns them.

        Raises StoreConflictError if another replica saved in between, in each of SAVE_ATTEMPTS attempts.
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

    async def authority(self) -> tuple[KeyPair, bytes]:
        """The CA that signs now and the bundle, for a program that runs beside the server. Renews nothing, but makes a first CA.

        Raises ValueError if there is a CA that can't be used.
        """
        kept, now = await self._store.load(), self._clock()
        if CA_CERT not in kept:
            kept = self._with_ca({}, now)
            await self._store.save(dict(kept))
        if not _pair_fits(kept[CA_CERT], kept.get(CA_KEY)) or _ended(kept[CA_CERT], now):
            raise ValueError(f"{CA_CERT} and {CA_KEY} are no CA that can sign now; a start of the server makes another")
        return KeyPair(kept[CA_CERT], kept[CA_KEY]), _bundle(kept)

    def _certificates(self, files: Mapping[str, bytes]) -> Certificates:
        return Certificates(
            serving=KeyPair(files[SERVING_CERT], files[SERVING_KEY]),
            ca_bundle=_bundle(files),
            ca=KeyPair(files[CA_CERT], files[CA_KEY]),
        )

    async def follow(
        self, on_change: Callable[[Certificates], Awaitable[None]], sleep: Callable[[float], Awaitable[None]]
    ) -> None:
        """Runs `ensure` every CHECK_SECONDS, for ever, and calls `on_change` after each change since the first one."""
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
        """The files with a CA that can sign now, and with its successor if one is due."""
        files = dict(kept)
        if not _pair_fits(files.get(CA_CERT), files.get(CA_KEY)) or _ended(files[CA_CERT], now):
            ca = new_ca(_CA_NAME, now)
            return {CA_CERT: ca.cert_pem, CA_KEY: ca.key_pem}
        if old := files.pop(OLD_CA_CERTS, None):
            lasting = _unexpired(old, now)
            files.update({OLD_CA_CERTS: lasting} if lasting else {})
        if needs_renewal(files[CA_CERT], now):
            if not _pair_fits(files.get(NEXT_CA_CERT), files.get(NEXT_CA_KEY)):
                successor = new_ca(_CA_NAME, now)
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


def _bundle(files: Mapping[str, bytes]) -> bytes:
    return b"".join(files.get(name, b"") for name in (CA_CERT, NEXT_CA_CERT, OLD_CA_CERTS))


def needs_renewal(cert_pem: bytes, now: float) -> bool:
    """Whether less than a third of the certificate's life is left. Raises ValueError if it is no certificate in PEM."""
    certificate = x509.load_pem_x509_certificate(cert_pem)
    start, end = certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp()
    return end - now < (end - start) / 3


def _pair_fits(cert_pem: bytes | None, key_pem: bytes | None) -> bool:
    """Whether both exist, can be read, and belong together. An interrupted save may have left something else."""
    if cert_pem is None or key_pem is None:
        return False
    try:
        return x509.load_pem_x509_certificate(cert_pem).public_key() == load_key(key_pem).public_key()
    except (ValueError, TypeError):
        return False


def _signed_by(certificate: x509.Certificate, ca: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(ca)
    except Exception:  # ValueError, TypeError or InvalidSignature, all of which mean that this CA did not sign it
        return False
    return True


def _unexpired(bundle: bytes, now: float) -> bytes:
    lasting = (one for one in x509.load_pem_x509_certificates(bundle) if one.not_valid_after_utc.timestamp() > now)
    return b"".join(one.public_bytes(serialization.Encoding.PEM) for one in lasting)


def _ended(cert_pem: bytes, now: float) -> bool:
    return x509.load_pem_x509_certificate(cert_pem).not_valid_after_utc.timestamp() <= now


def _start(cert_pem: bytes) -> float:
    return x509.load_pem_x509_certificate(cert_pem).not_valid_before_utc.timestamp()
