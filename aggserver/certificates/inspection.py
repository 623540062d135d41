"""What a certificate says: names, times, and whether a bundle has the CA that signed it. Pure.

For those who look at certificates of others, as `aggserver doctor`. Takes PEM, and times in seconds since 1970.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cryptography import x509

from aggserver.authentication.x509 import CertificateError, Roots

__all__ = ["SeenCertificate", "in_bundle", "is_signed_by"]


@dataclass(frozen=True, slots=True)
class SeenCertificate:
    """subject: RFC 4514. start, end: of its validity. names: the DNS names and addresses that it is for."""

    subject: str
    start: float
    end: float
    names: Sequence[str]
    made_from: x509.Certificate

    def is_for(self, host: str) -> bool:
        """Whether clients that connect to the host accept it: by its name, or by one with `*` for the first label."""
        wildcard = f"*.{host.partition('.')[2]}"
        return any(name.lower() in (host.lower(), wildcard.lower()) for name in self.names)


def in_bundle(pem: bytes) -> list[SeenCertificate]:
    """The certificates of a PEM bundle, in their order. Raises ValueError if it has no valid one."""
    try:
        return [_seen(each) for each in Roots.from_pem(pem).certificates]
    except CertificateError:
        raise ValueError("it has no certificate in PEM") from None


def is_signed_by(chain: Sequence[SeenCertificate], bundle: Sequence[SeenCertificate]) -> bool:
    """Whether a certificate of the bundle has signed one of the chain, or is one of it. chain: the leaf, then intermediates."""
    return any(each.made_from == root.made_from or _has_signed(root, each) for each in chain for root in bundle)


def _has_signed(root: SeenCertificate, other: SeenCertificate) -> bool:
    try:
        other.made_from.verify_directly_issued_by(root.made_from)
    except Exception:  # ValueError, TypeError or InvalidSignature, all of which mean that this CA did not sign it
        return False
    return True


def _seen(certificate: x509.Certificate) -> SeenCertificate:
    names: list[str] = []
    try:
        san = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = [*san.get_values_for_type(x509.DNSName), *map(str, san.get_values_for_type(x509.IPAddress))]
    except (x509.ExtensionNotFound, ValueError):
        pass  # it is for no name, as clients see it
    return SeenCertificate(
        certificate.subject.rfc4514_string(),
        certificate.not_valid_before_utc.timestamp(),
        certificate.not_valid_after_utc.timestamp(),
        names,
        certificate,
    )
