"""What is in a certificate, and how its key is written."""

from __future__ import annotations

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID

from aggserver.authentication.x509 import PeerCertificate, Roots, user_from, verify
from aggserver.certificates.issuing import SubjectNames, issue_client, issue_serving, new_ca

NOW = 1_800_000_000.0
DAY = 86400.0
NAMES = SubjectNames.for_service("aggserver", "extensions", "127.0.0.1", "localhost")


def load(pem):
    return x509.load_pem_x509_certificate(pem)


def test_names():
    assert NAMES.dns[:2] == ("aggserver.extensions.svc", "aggserver.extensions.svc.cluster.local")
    assert NAMES.ips == ("127.0.0.1",)
    assert SubjectNames.of("::1", "a") == SubjectNames(("a",), ("::1",))


def test_serving_certificate():
    ca = new_ca("my-ca", NOW)
    pair = issue_serving(ca, NAMES.dns, NAMES.ips, NOW, days=30)
    certificate = load(pair.cert_pem)
    san = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert tuple(san.get_values_for_type(x509.DNSName)) == NAMES.dns
    assert [str(ip) for ip in san.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert certificate.not_valid_before_utc.timestamp() < NOW < certificate.not_valid_after_utc.timestamp() <= NOW + 30 * DAY
    certificate.verify_directly_issued_by(load(ca.cert_pem))


def test_a_certificate_ends_with_its_ca():
    ca = new_ca("my-ca", NOW, days=10)
    assert load(issue_serving(ca, ["a"], [], NOW).cert_pem).not_valid_after_utc == load(ca.cert_pem).not_valid_after_utc


def test_client_certificate_authenticates():
    ca = new_ca("my-ca", NOW)
    pair = issue_client(ca, "admin", ["system:masters", "b"], NOW)
    der = load(pair.cert_pem).public_bytes(serialization.Encoding.DER)
    user = user_from(verify(PeerCertificate(der), Roots.from_pem(ca.cert_pem), NOW))
    assert (user.name, user.groups) == ("admin", ("system:masters", "b"))


def test_keys_are_in_the_form_that_every_client_reads():
    """SEC 1, as kubeadm writes them: fabric8, for Java, reads no PKCS #8 keys of elliptic curves."""
    ca = new_ca("ca", NOW)
    for pair in (ca, issue_client(ca, "me", [], NOW), issue_serving(ca, ["a"], [], NOW)):
        assert pair.key_pem.startswith(b"-----BEGIN EC PRIVATE KEY-----\n")
