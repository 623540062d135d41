"""Verification of client certificates: which are accepted, the errors for the others, and which results are cached."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from aggserver.authentication.x509 import UID_OID, CertificateError, PeerCertificate, Roots, request_problem, user_from, verify

NOW = 1_800_000_000.0
START, END = NOW - 3600, NOW + 3600
CLIENT_AUTH = (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), False)
SERVER_AUTH = (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
ANY_USAGE = (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE]), False)
IS_CA = (x509.BasicConstraints(ca=True, path_length=None), True)
SAN = (x509.SubjectAlternativeName([x509.DNSName("client.example.com")]), False)
POLICIES = (
    x509.CertificatePolicies([x509.PolicyInformation(x509.ObjectIdentifier("1.3.6.1.4.1.57683.9"), ["https://example.com/cps"])]),
    True,
)
STRANGE = (x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"?"), True)
NO_SIGNING = (
    x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    ),
    True,
)


class Issued:
    """A certificate with its key, signed by `by` or by itself."""

    def __init__(self, subject, by=None, *, extensions=(), start=START, end=END, key=None, serial=7):
        self.key = key or ec.generate_private_key(ec.SECP256R1())
        if isinstance(subject, str):
            subject = [(NameOID.COMMON_NAME, subject)]
        self.name = x509.Name([x509.NameAttribute(oid, value) for oid, value in subject])
        builder = (
            x509.CertificateBuilder()
            .subject_name(self.name)
            .issuer_name(by.name if by else self.name)
            .public_key(self.key.public_key())
            .serial_number(serial)
            .not_valid_before(datetime.fromtimestamp(start, UTC))
            .not_valid_after(datetime.fromtimestamp(end, UTC))
        )
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical)
        self.certificate = builder.sign(by.key if by else self.key, hashes.SHA256())
        self.der = self.certificate.public_bytes(serialization.Encoding.DER)
        self.pem = self.certificate.public_bytes(serialization.Encoding.PEM)


def ca(name="ca", **more):
    return Issued(name, extensions=[IS_CA], **more)


def roots(*issued):
    return Roots.from_pem(b"".join(one.pem for one in issued))


CA = ca()
ROOTS = roots(CA)

ACCEPTED = {
    "bare, as openssl x509 -req makes it": [],
    "client usage": [CLIENT_AUTH],
    "any usage": [ANY_USAGE],
    "with a SAN": [CLIENT_AUTH, SAN],
    "a CA itself": [IS_CA],
    "critical policies": [CLIENT_AUTH, POLICIES],
}


@pytest.mark.parametrize("extensions", ACCEPTED.values(), ids=ACCEPTED)
def test_accepted(extensions):
    leaf = Issued("alice", CA, extensions=extensions)
    assert verify(PeerCertificate(leaf.der), ROOTS, NOW).common_name == "alice"


def refused():
    other = ca()  # the same name, another key
    expired_ca = ca("old", end=NOW - 60)
    unsigning = Issued("unsigning", extensions=[IS_CA, NO_SIGNING])
    web_only = Issued("web", extensions=[IS_CA, SERVER_AUTH])
    plain = Issued("plain")
    unknown = "x509: certificate signed by unknown authority"
    outside = "x509: certificate has expired or is not yet valid: current time 2027-01-15T08:00:00Z is "
    return {
        "unknown CA": (Issued("alice", ca("other")), ROOTS, unknown),
        "same name, other key": (Issued("alice", other), ROOTS, unknown),
        "self-signed": (Issued("alice"), ROOTS, unknown),
        "server usage": (
            Issued("alice", CA, extensions=[SERVER_AUTH]),
            ROOTS,
            "x509: certificate specifies an incompatible key usage",
        ),
        "unknown critical extension": (Issued("alice", CA, extensions=[STRANGE]), ROOTS, "x509: unhandled critical extension"),
        "expired": (Issued("alice", CA, end=NOW - 60), ROOTS, outside + "after 2027-01-15T07:59:00Z"),
        "not yet valid": (Issued("alice", CA, start=NOW + 60), ROOTS, outside + "before 2027-01-15T08:01:00Z"),
        "expired CA": (
            Issued("alice", expired_ca),
            roots(expired_ca),
            f'{unknown} (possibly because of "{outside}after 2027-01-15T07:59:00Z" '
            'while trying to verify candidate authority certificate "old")',
        ),
        "CA that may not sign": (Issued("alice", unsigning), roots(unsigning), unknown),
        "CA for servers": (Issued("alice", web_only), roots(web_only), unknown),
        "root that is no CA": (Issued("alice", plain), roots(plain), unknown),
    }


REFUSED = refused()


@pytest.mark.parametrize(("leaf", "against", "text"), REFUSED.values(), ids=REFUSED)
def test_refused(leaf, against, text):
    peer = PeerCertificate(leaf.der)
    for _ in range(2):  # once found out, once remembered
        with pytest.raises(CertificateError) as caught:
            verify(peer, against, NOW)
        assert str(caught.value) == text


def test_a_ca_with_critical_policies():
    authority = Issued("ca", extensions=[IS_CA, POLICIES])
    middle = Issued("middle", authority, extensions=[IS_CA, POLICIES])
    leaf = Issued("alice", middle)
    assert verify(PeerCertificate(leaf.der, (middle.der,)), roots(authority), NOW).common_name == "alice"


def test_malformed_certificate():
    with pytest.raises(CertificateError, match="x509: malformed certificate"):
        verify(PeerCertificate(b"no certificate"), ROOTS, NOW)


def test_intermediates_come_from_the_connection():
    middle = Issued("middle", CA, extensions=[IS_CA])
    leaf = Issued("alice", middle)
    with pytest.raises(CertificateError, match="unknown authority"):
        verify(PeerCertificate(leaf.der), ROOTS, NOW)
    assert verify(PeerCertificate(leaf.der, (middle.der,)), ROOTS, NOW).common_name == "alice"


def test_a_decision_holds_for_its_roots_alone():
    leaf, other = Issued("alice", CA), ca("other")
    peer = PeerCertificate(leaf.der)
    assert verify(peer, ROOTS, NOW) is verify(peer, ROOTS, NOW + 1)
    with pytest.raises(CertificateError):
        verify(peer, roots(other), NOW)
    both = roots(other, CA)
    assert verify(peer, both, NOW).fingerprint == verify(peer, ROOTS, NOW).fingerprint
    for _ in range(10):
        verify(peer, roots(CA), NOW)  # generations of CAs don't pile up on a long-lived connection
    assert sum(peer.outcome(one) is not None for one in (ROOTS, both)) == 0


def test_times_are_checked_on_every_request():
    leaf = Issued("alice", CA, start=NOW - 10, end=NOW + 10)
    peer = PeerCertificate(leaf.der)
    with pytest.raises(CertificateError, match="is before"):
        verify(peer, ROOTS, NOW - 11)
    assert verify(peer, ROOTS, NOW).not_after == NOW + 10
    with pytest.raises(CertificateError, match="is after"):
        verify(peer, ROOTS, NOW + 11)


def test_another_chain_takes_over_when_the_first_ends():
    key = ec.generate_private_key(ec.SECP256R1())
    short, long = ca(key=key, end=NOW + 10, serial=1), ca(key=key, end=NOW + 1000, serial=2)
    peer = PeerCertificate(Issued("alice", short).der)
    bundle = roots(short, long)
    assert verify(peer, bundle, NOW).common_name == "alice"
    assert verify(peer, bundle, NOW + 20).not_after == NOW + 1000


# openssl req -x509 -set_serial 0 -subj /CN=kubernetes -days 36500 -addext basicConstraints=critical,CA:true
SERIAL_ZERO = b"""-----BEGIN CERTIFICATE-----
MIIBbzCCARSgAwIBAgIBADAKBggqhkjOPQQDAjAVMRMwEQYDVQQDDAprdWJlcm5l
dGVzMCAXDTI2MTEyMTAyMDMwMFoYDzIxMjYxMDI4MDIwMzAwWjAVMRMwEQYDVQQD
DAprdWJlcm5ldGVzMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE2Xc9Xmwwvt7U
qrQS0x0uziX3Ey1EXfUa2zZyDBIDjcuVBLplhVHo/ZQF9W8GAA8XZaJvoCq7kUMA
q6YeL3a646NTMFEwHQYDVR0OBBYEFA+B5jYyhKyJ946R5h2k417G6RH4MB8GA1Ud
IwQYMBaAFA+B5jYyhKyJ946R5h2k417G6RH4MA8GA1UdEwEB/wQFMAMBAf8wCgYI
KoZIzj0EAwIDSQAwRgIhAM2HvBLDqMHkHUDQFqzJ0arY8XdoHWl+LtPJ+/eT/SB3
AiEAgbKmTR0oxmGuBp73hcwaTsq8ou13DIcL7i3wSgLVueA=
-----END CERTIFICATE-----
"""


def test_old_kubeadm_ca_with_serial_zero():
    bundle = Roots.from_pem(SERIAL_ZERO + CA.pem)
    assert (len(bundle.certificates), bundle.skipped) == (2, ())
    assert verify(PeerCertificate(Issued("alice", CA).der), bundle, NOW).common_name == "alice"


BUNDLES = {
    "two": (CA.pem + ca("b").pem, 2, 0),
    "comments around": (b"# the CA\n" + CA.pem + "\n Prüfsumme: 12\n".encode() + CA.pem, 2, 0),
    "windows line ends": (CA.pem.replace(b"\n", b"\r\n"), 1, 0),
    "an invalid certificate is skipped": (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n" + CA.pem, 1, 1),
    "keys are no certificates": (CA.pem + b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", 1, 0),
}


@pytest.mark.parametrize(("pem", "found", "skipped"), BUNDLES.values(), ids=BUNDLES)
def test_bundles(pem, found, skipped):
    bundle = Roots.from_pem(pem)
    assert (len(bundle.certificates), len(bundle.ders), len(bundle.skipped)) == (found, found, skipped)


@pytest.mark.parametrize("pem", [b"", b"  \n", b"nothing", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_a_bundle_without_certificates(pem):
    with pytest.raises(CertificateError, match="data does not contain any valid RSA or ECDSA certificates"):
        Roots.from_pem(pem)


def test_rsa_clients():
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    authority = ca("rsa", key=key)
    assert verify(PeerCertificate(Issued("alice", authority).der), roots(authority), NOW).common_name == "alice"


USERS = {
    "name": ([(NameOID.COMMON_NAME, "alice")], ("alice", "", ())),
    "groups in order": (
        [(NameOID.ORGANIZATION_NAME, "b"), (NameOID.ORGANIZATION_NAME, "a"), (NameOID.COMMON_NAME, "system:node:n1")],
        ("system:node:n1", "", ("b", "a")),
    ),
    "uid": ([(NameOID.COMMON_NAME, "alice"), (UID_OID, "u-1")], ("alice", "u-1", ())),
    "the last name counts": ([(NameOID.COMMON_NAME, "a"), (NameOID.COMMON_NAME, "b")], ("b", "", ())),
}


@pytest.mark.parametrize(("subject", "expected"), USERS.values(), ids=USERS)
def test_users(subject, expected):
    leaf = Issued(subject, CA)
    user = user_from(verify(PeerCertificate(leaf.der), ROOTS, NOW))
    assert (user.name, user.uid, user.groups) == expected
    fingerprint = leaf.certificate.fingerprint(hashes.SHA256()).hex()
    assert user.extra == {"authentication.kubernetes.io/credential-id": (f"X509SHA256={fingerprint}",)}


def test_a_certificate_without_a_name_is_nobody():
    leaf = Issued([(NameOID.ORGANIZATION_NAME, "system:masters")], CA)
    assert user_from(verify(PeerCertificate(leaf.der), ROOTS, NOW)) is None


def test_several_uids():
    leaf = Issued([(NameOID.COMMON_NAME, "alice"), (UID_OID, "1"), (UID_OID, "2")], CA)
    with pytest.raises(CertificateError, match=r"expected 1 UID, but found multiple: \[1 2\]"):
        user_from(verify(PeerCertificate(leaf.der), ROOTS, NOW))


def test_fractions_of_seconds_are_no_trouble():
    assert verify(PeerCertificate(Issued("alice", CA).der), ROOTS, NOW + 0.25).common_name == "alice"


RENEWED = ca("ca", key=CA.key, serial=8)
BELOW = Issued("below", CA, extensions=[IS_CA])
NAMESAKE = ca("ca")
OVERLAPS = {
    # (those who vouch, the others): whether a certificate of the others could be one of theirs
    "the same": (roots(CA), roots(CA), True),
    "one of several": (roots(ca("a"), CA), roots(CA, ca("b")), True),
    "renewed with its key": (roots(RENEWED), roots(CA), True),
    "below": (roots(CA), roots(BELOW), True),
    "above": (roots(BELOW), roots(CA), False),
    "another of the same name": (roots(NAMESAKE), roots(CA), False),
    "others": (roots(ca("a")), roots(ca("b")), False),
}


@pytest.mark.parametrize(("these", "others", "overlap"), OVERLAPS.values(), ids=OVERLAPS)
def test_vouching_for_other_roots(these, others, overlap):
    assert these.vouch_for(others) is overlap


def test_a_request_signed_with_sha_1():
    """Go takes it, whose library refuses SHA-1 for certificates only."""
    key = rsa.generate_private_key(65537, 2048)
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    signature = key.sign(request.tbs_certrequest_bytes, padding.PKCS1v15(), hashes.SHA1())
    sha_256, sha_1 = bytes.fromhex("2a864886f70d01010b"), bytes.fromhex("2a864886f70d010105")
    signed = request.public_bytes(serialization.Encoding.DER).replace(request.signature, signature).replace(sha_256, sha_1)
    assert request_problem(signed) == ""
    assert request_problem(signed[:-1] + bytes([signed[-1] ^ 1])) == "crypto/rsa: verification error"


# --- version 1 ---

_VERSION_3 = bytes.fromhex("a003020102")
_ECDSA_SHA256, _ECDSA_SHA1 = bytes.fromhex("300a06082a8648ce3d040302"), bytes.fromhex("300906072a8648ce3d0401")


def der(tag, content):
    size = len(content)
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag]) + (length if size < 0x80 else bytes([0x80 + len(length)]) + length) + content


def version_1(by, *, sha1=False, **more):
    """A certificate as `openssl x509 -req` without extensions makes it: those of `cryptography` are all of version 3."""
    whole = Issued("alice", by, **more).certificate.tbs_certificate_bytes
    content = whole[whole.index(_VERSION_3) + len(_VERSION_3) :]
    algorithm = _ECDSA_SHA1 if sha1 else _ECDSA_SHA256
    signed = der(0x30, content.replace(_ECDSA_SHA256, algorithm, 1))
    signature = by.key.sign(signed, ec.ECDSA(hashes.SHA1() if sha1 else hashes.SHA256()))
    return der(0x30, signed + algorithm + der(0x03, b"\0" + signature))


def test_version_1():
    verified = verify(PeerCertificate(version_1(CA)), ROOTS, NOW)
    assert (verified.common_name, verified.not_after) == ("alice", END)
    old = ca("ca", key=CA.key, end=NOW - 60)
    assert verify(PeerCertificate(version_1(CA)), roots(old, CA), NOW).common_name == "alice"


def version_1_refused():
    unsigning = Issued("unsigning", extensions=[IS_CA, NO_SIGNING])
    web_only = Issued("web", extensions=[IS_CA, SERVER_AUTH])
    strange = Issued("strange", extensions=[IS_CA, STRANGE])
    plain = Issued("plain")
    inner = Issued("inner", CA, extensions=[IS_CA])
    weak = rsa.generate_private_key(65537, 1024)
    return {
        "unknown CA": (version_1(ca("other")), ROOTS),
        "same name, other key": (version_1(ca()), ROOTS),
        "expired": (version_1(CA, end=NOW - 60), ROOTS),
        "expired CA": (version_1(CA), roots(ca("ca", key=CA.key, end=NOW - 60))),
        "weak digest": (version_1(CA, sha1=True), ROOTS),
        "weak key": (version_1(CA, key=weak), ROOTS),
        "CA that may not sign": (version_1(unsigning), roots(unsigning)),
        "CA for servers": (version_1(web_only), roots(web_only)),
        "CA with an unknown critical extension": (version_1(strange), roots(strange)),
        "root that is no CA": (version_1(plain), roots(plain)),
        "not by a root": (version_1(inner), ROOTS),
    }


VERSION_1_REFUSED = version_1_refused()


@pytest.mark.parametrize(("leaf", "against"), VERSION_1_REFUSED.values(), ids=VERSION_1_REFUSED)
def test_version_1_refused(leaf, against):
    with pytest.raises(CertificateError, match=r"x509: certificate (signed by unknown authority|has expired)"):
        verify(PeerCertificate(leaf), against, NOW)
