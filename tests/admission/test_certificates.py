"""Who may approve and sign CertificateSigningRequests, and who may not be in one."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.admission.certificates import CertificateApproval, CertificateSigning, CertificateSubjectRestriction
from aggserver.admission.chain import Attributes, Chain
from aggserver.authentication.user import UserInfo
from aggserver.meta.errors import StatusError
from aggserver.meta.resource import ResourceInfo

ALICE = UserInfo("alice")
INFO = ResourceInfo("certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", "", namespaced=False)
CLIENT = "kubernetes.io/kube-apiserver-client"


class Rights:
    """What somebody may do with signers; `asked` is what was asked for."""

    def __init__(self, *allowed: tuple[str, str]) -> None:
        self._allowed = allowed
        self.asked: list[tuple[str, str]] = []

    async def may_use(self, user: UserInfo, verb: str, signer: str) -> bool:
        assert user is ALICE
        self.asked.append((verb, signer))
        return (verb, signer) in self._allowed


def groups_in(pem: bytes) -> list[str]:
    if not pem:
        raise ValueError("no PEM")
    return pem.decode().split(",")


def request(signer: str = "example.com/s", groups: str = "bQ==", **status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x"}, "spec": {"signerName": signer, "request": groups}, "status": status}


async def said(rights: Rights, operation: str, subresource: str, obj: Any, old: Any = None, info: ResourceInfo = INFO) -> str:
    """Why it is refused; '' if it isn't."""
    attributes = Attributes(operation, ALICE, info, subresource, info.kind, info.api_version, "", "x", dry_run=False, options={})
    plugins = [
        CertificateApproval(rights.may_use),
        CertificateSigning(rights.may_use),
        CertificateSubjectRestriction(groups_in),
    ]
    try:
        await Chain((), plugins).bind(attributes).validate(obj, old)
    except StatusError as error:
        return error.message.removeprefix('certificatesigningrequests.certificates.k8s.io "x" is forbidden: ')
    return ""


APPROVED = request(conditions=[{"type": "Approved"}])
MAY_NOT_APPROVE = 'user not permitted to approve requests with signerName "example.com/s"'
MAY_NOT_SIGN = 'user not permitted to sign requests with signerName "example.com/s"'
CASES: dict[str, tuple[list[tuple[str, str]], str, Any, Any, str]] = {
    # (rights, subresource, the new object, the old one): why it is refused
    "approve": ([("approve", "example.com/s")], "approval", APPROVED, request(), ""),
    "approve all of a domain": ([("approve", "example.com/*")], "approval", APPROVED, request(), ""),
    "approve another": ([("approve", "example.com/t")], "approval", APPROVED, request(), MAY_NOT_APPROVE),
    "approve what may be signed": ([("sign", "example.com/s")], "approval", APPROVED, request(), MAY_NOT_APPROVE),
    "the signer is that before": (
        [("approve", "example.com/t")],
        "approval",
        request("example.com/t"),
        request(),
        MAY_NOT_APPROVE,
    ),
    "sign": ([("sign", "example.com/*")], "status", request(certificate="x"), request(), ""),
    "sign without a right": ([], "status", request(certificate="x"), request(), MAY_NOT_SIGN),
    "conditions without a right": ([], "status", APPROVED, request(), MAY_NOT_SIGN),
    "a status that says the same": ([], "status", request(certificate="", conditions=[]), request(), ""),
    "metadata": ([], "", request(), request(), ""),
}


@pytest.mark.parametrize(("rights", "subresource", "obj", "old", "why"), CASES.values(), ids=CASES)
async def test_updates(rights: list[tuple[str, str]], subresource: str, obj: Any, old: Any, why: str) -> None:
    assert await said(Rights(*rights), "UPDATE", subresource, obj, old) == why


CREATED = {
    "a group": (request(CLIENT), ""),
    "administrators": (
        request(CLIENT, "bSxzeXN0ZW06bWFzdGVycw=="),
        f"use of {CLIENT} signer with system:masters group is not allowed",
    ),
    "administrators of another signer": (request(groups="c3lzdGVtOm1hc3RlcnM="), ""),
    "no request": (request(CLIENT, ""), "failed to parse CSR: no PEM"),
    "no base64": (request(CLIENT, "!"), "failed to parse CSR: no PEM"),
}


@pytest.mark.parametrize(("obj", "why"), CREATED.values(), ids=CREATED)
async def test_creates(obj: dict[str, Any], why: str) -> None:
    assert await said(Rights(), "CREATE", "", obj) == why


async def test_others_are_not_asked_about() -> None:
    rights = Rights()
    pods = ResourceInfo("", "v1", "pods", "Pod", "", namespaced=True)
    assert await said(rights, "UPDATE", "status", request(certificate="x"), request(), pods) == ""
    assert await said(rights, "DELETE", "", None, request()) == ""
    assert rights.asked == []
