"""CertificateSigningRequests of users: which ones are signed, with what, and why others fail."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from aggserver.authentication.x509 import PeerCertificate, Roots, user_from, verify
from aggserver.certificates.issuing import SigningRequestError, new_ca, sign_request
from aggserver.controllers.signer import CertificateSigner, is_due, seconds_of, usage_error
from aggserver.kinds.catalog import KINDS
from aggserver.kinds.served import Kinds
from aggserver.kinds.subresources import ApprovalStrategy
from aggserver.registry.rest import Context, WriteOptions
from tests.cases.signing_requests import REQUEST
from tests.fakes.server import ADMIN, LocalServer

KIND = next(kind for kind in KINDS if kind.name == "CertificateSigningRequest")
SIGNER = "kubernetes.io/kube-apiserver-client"
APPROVED = {"type": "Approved", "status": "True", "reason": "r"}


def pem(name: str = "carol", group: str = "devs", key: Any = None, *names: str) -> bytes:
    subject = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, group), x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(each) for each in names]), critical=False)
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return builder.sign(key or ec.generate_private_key(ec.SECP256R1()), algorithm).public_bytes(Encoding.PEM)


def request(*conditions: dict[str, str], signer: str = SIGNER, **status: Any) -> dict[str, Any]:
    return {"spec": {"signerName": signer}, "status": {"conditions": list(conditions), **status}}


DUE = {
    "approved": (request(APPROVED), True),
    "approved, as before there was a status": (request({"type": "Approved"}), True),
    "not approved": (request(), False),
    "not approved any more": (request({"type": "Approved", "status": "False"}), False),
    "denied": (request({"type": "Denied", "status": "True"}), False),
    "failed": (request(APPROVED, {"type": "Failed", "status": "True"}), False),
    "signed": (request(APPROVED, certificate="x"), False),
    "for another": (request(APPROVED, signer="kubernetes.io/kubelet-serving"), False),
    "new": ({"spec": {"signerName": SIGNER}}, False),
}


@pytest.mark.parametrize(("given", "due"), DUE.values(), ids=DUE)
def test_which_are_due(given: dict[str, Any], due: bool) -> None:
    assert is_due(given) is due


def test_usages() -> None:
    assert usage_error(["client auth"]) == ""
    assert usage_error(["digital signature", "key encipherment", "client auth"]) == ""
    assert usage_error(["client auth", "server auth"]) == "invalid usage for client certificate: server auth"
    assert usage_error(["digital signature"]) == "missing required usage for client certificate: client auth"


@pytest.mark.parametrize(("wanted", "seconds"), [(None, 31536000), (1, 600), (3600, 3600), (1 << 31, 31536000)])
def test_how_long(wanted: int | None, seconds: int) -> None:
    assert seconds_of(wanted) == seconds


NOW = 1_800_000_000.0
CA = new_ca("ca", NOW)


def signed(request_pem: bytes, *usages: str, seconds: int = 3600) -> x509.Certificate:
    return x509.load_pem_x509_certificate(sign_request(CA, request_pem, usages, NOW, seconds, refused_group="system:masters"))


@pytest.mark.parametrize(("seconds", "end"), [(600, 600), (28799, 28799), (28800, 28500), (31536000, 31535700)])
def test_when_it_holds(seconds: int, end: int) -> None:
    """From five minutes before, and in all not longer than what was asked for, unless that is less than eight hours."""
    certificate = signed(REQUEST, "client auth", seconds=seconds)
    assert certificate.not_valid_before_utc.timestamp() == NOW - 300
    assert certificate.not_valid_after_utc.timestamp() == NOW + end


def test_what_is_signed() -> None:
    key = ec.generate_private_key(ec.SECP384R1())
    certificate = signed(pem("carol", "devs", key, "a.example.com"), "client auth", "key encipherment")
    assert certificate.public_key() == key.public_key()
    assert certificate.not_valid_after_utc.timestamp() == NOW + 3600
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    assert (usage.digital_signature, usage.key_encipherment) == (True, True)  # without the first, OpenSSL refuses it
    purposes = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(purposes) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["a.example.com"]
    user = user_from(verify(PeerCertificate(certificate.public_bytes(Encoding.DER)), Roots.from_pem(CA.cert_pem), NOW))
    assert user is not None
    assert (user.name, user.groups) == ("carol", ("devs",))


def tampered() -> bytes:
    der = bytearray(x509.load_pem_x509_csr(pem()).public_bytes(Encoding.DER))
    der[-1] ^= 1
    return b"-----BEGIN CERTIFICATE REQUEST-----\n" + base64.encodebytes(bytes(der)) + b"-----END CERTIFICATE REQUEST-----\n"


REFUSED = {
    "no request": (b"text", "unable to parse certificate request: "),
    "another's signature": (tampered(), "unable to verify certificate request signature"),
    "an administrator": (
        pem("carol", "system:masters"),
        "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed",
    ),
    "another kind of key": (pem("carol", "devs", ed25519.Ed25519PrivateKey.generate()), "neither RSA nor ECDSA"),
}


@pytest.mark.parametrize(("given", "why"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_signed(given: bytes, why: str) -> None:
    with pytest.raises(SigningRequestError, match=why):
        signed(given, "client auth")


# --- the controller ---


@pytest.fixture
async def kinds(server: LocalServer) -> AsyncIterator[Kinds]:
    made = Kinds(server.environment, server.engine.admission)
    store = made.status_store("certificates.k8s.io", "certificatesigningrequests")
    ca = new_ca("ca", server.clock())

    def sign(request_pem: bytes, usages: Sequence[str], seconds: int) -> bytes:
        return sign_request(ca, request_pem, usages, server.clock(), seconds, refused_group="system:masters")

    task = asyncio.create_task(CertificateSigner(store, sign, server.clock, server.timers.call_later).run())
    yield made
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    made.end_watches()


async def status_of(kinds: Kinds, request_pem: bytes, *usages: str) -> Any:
    """The status of a request that was approved, once somebody has dealt with it."""
    group, resource = "certificates.k8s.io", "certificatesigningrequests"
    context, name = Context(ADMIN), "csr"
    spec = {"request": base64.b64encode(request_pem).decode(), "signerName": SIGNER, "usages": list(usages)}
    obj = {"apiVersion": f"{group}/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name}, "spec": spec}
    await kinds.store(group, resource).create(context, obj, WriteOptions())

    async def approved(tree: Any) -> Any:
        return {**tree, "status": {"conditions": [{**APPROVED, "message": "m"}]}}

    approval = kinds.store(group, resource).with_strategy(ApprovalStrategy(KIND))
    await approval.update(context, name, approved, WriteOptions())
    for _ in range(1000):
        status = (await kinds.store(group, resource).get(context, name)).decoded()["status"]
        if "certificate" in status or len(status["conditions"]) > 1:
            return status
        await asyncio.sleep(0)
    raise AssertionError("nothing happens")


async def test_an_approved_request_is_signed(kinds: Kinds) -> None:
    status = await status_of(kinds, pem(), "client auth")
    certificate = x509.load_pem_x509_certificate(base64.b64decode(status["certificate"]))
    assert certificate.subject.rfc4514_string() == "CN=carol,O=devs"
    assert [one["type"] for one in status["conditions"]] == ["Approved"]


@pytest.mark.parametrize(
    ("request_pem", "usages", "why"),
    [
        (pem(), ["server auth"], "invalid usage for client certificate: server auth"),
        (pem("root", "system:masters"), ["client auth"], "signer with system:masters group is not allowed"),
    ],
    ids=["for a server", "an administrator"],
)
async def test_a_request_that_fails(kinds: Kinds, request_pem: bytes, usages: list[str], why: str) -> None:
    status = await status_of(kinds, request_pem, *usages)
    failed = status["conditions"][1]
    assert (failed["type"], failed["status"], failed["reason"]) == ("Failed", "True", "SignerValidationFailure")
    assert why in failed["message"]
    assert "certificate" not in status
