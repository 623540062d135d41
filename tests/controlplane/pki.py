"""Keys and certificates of a control plane: files in one folder, ECDSA P-256, valid for a year from an hour ago.

Not aggserver.certificates: what judges the server must not share its mistakes.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["Authority", "KeyPair", "write_service_account_key"]

LIFETIME = datetime.timedelta(days=365)
CLOCK_SKEW = datetime.timedelta(hours=1)


@dataclass(frozen=True)
class KeyPair:
    """PEM files: a certificate and its private key."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority that writes `<name>.crt` and `<name>.key`, and whatever it issues, into `folder`."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _subject(name, ())
        builder = self._builder(self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(_key_usage(key_cert_sign=True), critical=True)
        self.pair = _write(folder, name, builder.sign(self._key, hashes.SHA256()), self._key)

    def client(self, file_name: str, user: str, groups: Sequence[str] = ()) -> KeyPair:
        """A client certificate: the common name is the user, the organizations are the groups."""
        return self._issue(file_name, _subject(user, groups), ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def server(self, file_name: str, hosts: Sequence[str]) -> KeyPair:
        """A serving certificate for DNS names and IP addresses."""
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        return self._issue(file_name, _subject(hosts[0], ()), ExtendedKeyUsageOID.SERVER_AUTH, names)

    def _issue(
        self, file_name: str, subject: x509.Name, usage: x509.ObjectIdentifier, names: x509.SubjectAlternativeName | None
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(subject, key.public_key())
        builder = builder.add_extension(_key_usage(key_cert_sign=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        return _write(self.folder, file_name, builder.sign(self._key, hashes.SHA256()), key)

    def _builder(self, subject: x509.Name, public_key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        """What all certificates have. The key identifiers are for Python 3.13, whose default context insists on them."""
        begin = datetime.datetime.now(datetime.UTC) - CLOCK_SKEW
        builder = x509.CertificateBuilder(
            issuer_name=self._name,
            subject_name=subject,
            public_key=public_key,
            serial_number=x509.random_serial_number(),
            not_valid_before=begin,
            not_valid_after=begin + LIFETIME,
        )
        ours = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return builder.add_extension(ours, critical=False).add_extension(
            x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False
        )


def write_service_account_key(folder: Path) -> tuple[Path, Path]:
    """Write the key that signs service account tokens; returns the files of the private and of the public key."""
    key = ec.generate_private_key(ec.SECP256R1())
    private, public = folder / "service-account.key", folder / "service-account.pub"
    _write_secret(private, _private_pem(key))
    public.write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo))
    return private, public


def _subject(common_name: str, organizations: Sequence[str]) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, value) for value in organizations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_usage(*, key_cert_sign: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=key_cert_sign,
        crl_sign=key_cert_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _write(folder: Path, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    pair = KeyPair(folder / f"{name}.crt", folder / f"{name}.key")
    pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    _write_secret(pair.key, _private_pem(key))
    return pair


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    # PKCS#8 would do for Go's TLS, but the service account key readers of Kubernetes know this form in every version.
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _write_secret(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
