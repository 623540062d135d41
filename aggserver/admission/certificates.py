"""Who may approve and sign CertificateSigningRequests, and which group they must not ask for: three plugins of kube-apiserver.

An approval needs the verb `approve`, and a change of status the verb `sign`, both on the resource `signers` of
certificates.k8s.io: for the name of the signer, or for all signers of its domain (`example.com/*`).
Source: k8s.io/kubernetes plugin/pkg/admission/certificates/{approval,signing,subjectrestriction}/admission.go,
pkg/certauthorization/certauthorization.go, v1.36.3.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Collection

from aggserver.admission.chain import CREATE, UPDATE, Attributes
from aggserver.authentication.user import PRIVILEGED_GROUP, UserInfo
from aggserver.meta import errors
from aggserver.meta.errors import StatusError
from aggserver.meta.golang import quote
from aggserver.meta.json_types import JSONObject

__all__ = ["CertificateApproval", "CertificateSigning", "CertificateSubjectRestriction", "MayUse"]

_GROUP, _RESOURCE = "certificates.k8s.io", "certificatesigningrequests"
_RESOURCES = frozenset({(_GROUP, _RESOURCE)})
_CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"

# (the user, approve or sign, the name of a signer) -> whether they may.
MayUse = Callable[[UserInfo, str, str], Awaitable[bool]]


class CertificateApproval:
    resources = _RESOURCES

    def __init__(self, may_use: MayUse) -> None:
        self._may_use = may_use

    def concerns(self, attributes: Attributes) -> bool:
        return attributes.subresource == "approval" and _is_of(attributes, UPDATE)

    async def validate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> None:
        signer = _signer(old)
        if not await _may_use_any(self._may_use, attributes.user, "approve", signer):
            raise _forbidden(attributes, f"user not permitted to approve requests with signerName {quote(signer)}")


class CertificateSigning:
    resources = _RESOURCES

    def __init__(self, may_use: MayUse) -> None:
        self._may_use = may_use

    def concerns(self, attributes: Attributes) -> bool:
        return attributes.subresource == "status" and _is_of(attributes, UPDATE)

    async def validate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> None:
        if _issued(obj) == _issued(old):
            return
        signer = _signer(old)
        if not await _may_use_any(self._may_use, attributes.user, "sign", signer):
            raise _forbidden(attributes, f"user not permitted to sign requests with signerName {quote(signer)}")


class CertificateSubjectRestriction:
    """Refuses requests for a client certificate in the group system:masters.

    groups_in: returns the groups that a request (PEM) asks for. Raises ValueError if it can't be parsed.
    """

    resources = _RESOURCES

    def __init__(self, groups_in: Callable[[bytes], Collection[str]]) -> None:
        self._groups_in = groups_in

    def concerns(self, attributes: Attributes) -> bool:
        return not attributes.subresource and _is_of(attributes, CREATE)

    async def validate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> None:
        if obj is None or _signer(obj) != _CLIENT_SIGNER:
            return
        try:
            groups = self._groups_in(base64.b64decode(obj["spec"].get("request") or ""))
        except ValueError as error:
            raise _forbidden(attributes, f"failed to parse CSR: {error}", obj) from None
        if PRIVILEGED_GROUP in groups:
            why = f"use of {_CLIENT_SIGNER} signer with {PRIVILEGED_GROUP} group is not allowed"
            raise _forbidden(attributes, why, obj)


async def _may_use_any(may_use: MayUse, user: UserInfo, verb: str, signer: str) -> bool:
    return await may_use(user, verb, signer) or await may_use(user, verb, f"{signer.partition('/')[0]}/*")


def _is_of(attributes: Attributes, operation: str) -> bool:
    info = attributes.resource
    return attributes.operation == operation and info.resource == _RESOURCE and info.group == _GROUP


def _signer(request: JSONObject | None) -> str:
    name: str = ((request or {}).get("spec") or {}).get("signerName") or ""
    return name


def _issued(request: JSONObject | None) -> tuple[object, object]:
    status = (request or {}).get("status") or {}
    return status.get("certificate") or "", status.get("conditions") or []


def _forbidden(attributes: Attributes, why: str, obj: JSONObject | None = None) -> StatusError:
    metadata = (obj or {}).get("metadata") or {}
    name = attributes.name or metadata.get("name") or metadata.get("generateName") or "Unknown"
    return errors.forbidden(_GROUP, _RESOURCE, name, why)
