"""Signs approved CertificateSigningRequests for `kubernetes.io/kube-apiserver-client` with the CA that the server trusts.

So `kubectl certificate approve` makes a user. Requests for other signers are left alone: there are no kubelets, and third-party
signers sign their requests themselves.
Source: k8s.io/kubernetes pkg/controller/certificates/{signer/signer,authority/policies}.go, v1.36.3.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence

from aggserver.informers.informer import CONTROLLER, CallLater, Informer, call_later
from aggserver.meta import times
from aggserver.meta.json_types import JSONObject
from aggserver.registry.rest import Context, WriteOptions, WriteRequest
from aggserver.registry.store import Store

__all__ = ["CertificateSigner", "is_due", "seconds_of", "usage_error"]

_SIGNER = "kubernetes.io/kube-apiserver-client"
_CLIENT, _OPTIONAL = "client auth", ("digital signature", "key encipherment")
Sign = Callable[[bytes, Sequence[str], int], bytes]

_WRITE = WriteOptions(field_manager="aggserver")
# Seconds: kube-controller-manager's --cluster-signing-duration, and its shortest duration for a request.
_LONGEST, _SHORTEST = 365 * 24 * 3600, 600


def is_due(request: JSONObject) -> bool:
    """Whether a request is for this signer, approved, and neither denied, failed nor signed."""
    status = request.get("status") or {}
    conditions = {one.get("type") for one in status.get("conditions") or () if one.get("status", "True") == "True"}
    if "Approved" not in conditions or conditions & {"Denied", "Failed"} or status.get("certificate"):
        return False
    return bool((request.get("spec") or {}).get("signerName") == _SIGNER)


def usage_error(usages: Sequence[str]) -> str:
    """Why these usages are not those of a client's certificate; '' if they are."""
    for usage in usages:
        if usage != _CLIENT and usage not in _OPTIONAL:
            return f"invalid usage for client certificate: {usage}"
    return "" if _CLIENT in usages else f"missing required usage for client certificate: {_CLIENT}"


def seconds_of(wanted: int | None) -> int:
    """The validity of a certificate in seconds. wanted: the request's expirationSeconds."""
    return _LONGEST if wanted is None else min(max(wanted, _SHORTEST), _LONGEST)


class CertificateSigner:
    """The controller. requests: the store of CertificateSigningRequests, whose writes go to the status.

    clock: seconds since the epoch. sign: (a request as PEM, the usages, seconds) -> a certificate as PEM. Raises ValueError.
    """

    def __init__(self, requests: Store, sign: Sign, clock: Callable[[], float], later: CallLater = call_later) -> None:
        self._requests = requests
        self._sign = sign
        self._clock = clock
        self._informer = Informer(requests, self._sync, later)

    async def run(self) -> None:
        await self._informer.run()

    async def _sync(self, name: str, request: JSONObject | None) -> float | None:
        if request is not None and is_due(request):
            await self._requests.update(WriteRequest(Context(CONTROLLER), _WRITE), name, self._signed)
        return None

    async def _signed(self, request: JSONObject) -> JSONObject:
        if not is_due(request):
            return request  # somebody else was faster
        spec, status = request["spec"], request.get("status") or {}
        why = usage_error(spec.get("usages") or ())
        try:
            if not why:
                signed = self._sign(base64.b64decode(spec["request"]), spec["usages"], seconds_of(spec.get("expirationSeconds")))
                certificate = base64.b64encode(signed).decode()
                return {**request, "status": {**status, "certificate": certificate}}
        except ValueError as error:
            why = str(error)
        failed = {
            "type": "Failed",
            "status": "True",
            "reason": "SignerValidationFailure",
            "message": why,
            "lastUpdateTime": times.format_time(self._clock()),
        }
        return {**request, "status": {**status, "conditions": [*(status.get("conditions") or ()), failed]}}
