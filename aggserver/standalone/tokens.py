"""`serviceaccounts/token`: makes signed tokens of ServiceAccounts (`kubectl create token`). Tokens are not stored.

Source: k8s.io/kubernetes pkg/registry/core/serviceaccount/storage/token.go, pkg/apis/authentication/{v1/defaults,
validation/validation}.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from aggserver.authentication.jws import SigningKey, sign
from aggserver.authentication.service_accounts import Ref, issued
from aggserver.authentication.user import UserInfo
from aggserver.meta import codec, errors, field, times
from aggserver.meta.field import FieldError, Path
from aggserver.meta.golang import quote
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo
from aggserver.registry.own_kinds import own_fields
from aggserver.registry.preparation import place_in_namespace
from aggserver.registry.rest import Context, WriteRequest
from aggserver.registry.store import Store
from aggserver.registry.stored import StoredObject

__all__ = ["Issuing", "TokenRequests"]

# As upstream, the server reads the objects as itself: the user needs no permission for that.
_SERVER = UserInfo("system:apiserver")

_GROUP, _REQUEST = "authentication.k8s.io", "TokenRequest"
_DEFAULT_SECONDS = 3600
_MIN_SECONDS, _MAX_SECONDS = 600, 1 << 32

# For Pods, kubelet asks for tokens of an hour and 7 seconds. They are valid for a year, since old clients read a token only once.
_PROJECTED_SECONDS = 3607
_EXTENDED_SECONDS = 365 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Issuing:
    """How tokens are made. key: returns the signing key, made at its first use. audiences: of this server.

    max_seconds: the longest validity of a token; 0 for no limit. new_id: makes UUIDs. clock: seconds since the epoch.
    """

    issuer: str
    audiences: Sequence[str]
    max_seconds: int
    key: Callable[[], Awaitable[SigningKey]]
    new_id: Callable[[], str]
    clock: Callable[[], float]


class TokenRequests:
    """`serviceaccounts/token`. stores: the Store of a resource of the core group; raises KeyError for one that is not served."""

    _FIELDS = own_fields(
        ResourceInfo(_GROUP, "v1", "serviceaccounts", _REQUEST, "", namespaced=True),
        "authentication/v1.TokenRequest",
        "token",
    )

    def __init__(self, issuing: Issuing, stores: Callable[[str], Store]) -> None:
        self._issuing = issuing
        self._stores = stores

    async def create(self, request: WriteRequest, obj: JSONObject) -> StoredObject:
        context, metadata = request.context, obj["metadata"]
        place_in_namespace(metadata, context.namespace, namespaced=True)
        spec = obj["spec"] = obj.get("spec") or {}
        if spec.get("expirationSeconds") is None:
            spec["expirationSeconds"] = _DEFAULT_SECONDS
        now = self._issuing.clock()
        self._FIELDS.update(None, obj, request.options.field_manager, times.format_time(now))
        await request.admission.mutate(obj, None)
        account = await self._account(context, obj)
        obj["metadata"]["creationTimestamp"] = times.format_time(now)
        obj.pop("status", None)
        if problems := _problems(obj["spec"]):
            raise errors.invalid(_GROUP, _REQUEST, "", problems)
        await request.admission.validate(obj, None)
        bound = await self._bound(context, obj["spec"].get("boundObjectRef"))
        status = await self._token(context, account, bound, obj["spec"], now)
        content = {"metadata": obj["metadata"], "spec": _shown(obj["spec"]), "status": status}
        return StoredObject("", codec.encode_json({"kind": _REQUEST, "apiVersion": f"{_GROUP}/v1", **content}), 0)

    async def _account(self, context: Context, obj: JSONObject) -> Ref:
        """The ServiceAccount that the path names, after the request's own name and UID were checked and filled in."""
        name, metadata = context.name, obj["metadata"]
        if metadata.get("name") and metadata["name"] != name:
            why = "must match the service account name if specified"
            raise errors.invalid(_GROUP, _REQUEST, name, [field.invalid(Path("metadata.name"), metadata["name"], why)])
        account = await self._ref("serviceaccounts", context.namespace, name)
        if metadata.get("uid") and metadata["uid"] != account.uid:
            which = f"({metadata['uid']}) does not match the UID of the service account ({account.uid})"
            raise errors.conflict(_GROUP, _REQUEST, name, f"the UID in the token request {which}")
        obj["metadata"] = {**metadata, "name": name, "uid": account.uid}
        if not obj["spec"].get("audiences"):
            obj["spec"]["audiences"] = list(self._issuing.audiences)
        return account

    async def _bound(self, context: Context, wanted: JSONObject | None) -> dict[str, Ref]:
        """The objects that the token is bound to, by kind in lower case; for a Pod also its Node. wanted: the boundObjectRef."""
        if wanted is None:
            return {}
        group, _, version = (wanted.get("apiVersion") or "").rpartition("/")
        kind, name = wanted.get("kind") or "", wanted.get("name") or ""
        if group or kind not in ("Pod", "Node", "Secret"):
            raise errors.bad_request(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
        namespace = "" if kind == "Node" else context.namespace
        obj = await self._object(f"{kind.lower()}s", namespace, name)
        if kind == "Pod" and (obj.get("spec") or {}).get("serviceAccountName", "") != context.name:
            which = f"serviceaccount {quote(context.name)} to pod running with different serviceaccount name."
            raise errors.bad_request(f"cannot bind token for {which}")
        ref = _ref(obj)
        bound = {kind.lower(): ref}
        if kind == "Pod" and (node_name := (obj.get("spec") or {}).get("nodeName")):
            bound["node"] = await self._node(node_name)
        if wanted.get("uid") and wanted["uid"] != ref.uid:
            which = f"({wanted['uid']}) does not match the UID in record. The object might have been deleted and then recreated"
            raise errors.conflict(group, kind, name, f"the UID in the bound object reference {which}")
        return bound

    async def _node(self, name: str) -> Ref:
        """The Node of a Pod; without a uid if it does not exist."""
        try:
            return await self._ref("nodes", "", name)
        except errors.StatusError as error:
            if error.code != 404:
                raise
            return Ref(name, "")

    async def _token(self, context: Context, account: Ref, bound: dict[str, Ref], spec: JSONObject, now: float) -> JSONObject:
        """The status with a new token. Shortens `spec.expirationSeconds` to what is allowed."""
        issuing, wanted = self._issuing, spec["expirationSeconds"]
        if 0 < issuing.max_seconds < wanted:
            context.warnings.append(f"requested expiration of {wanted} seconds shortened to {issuing.max_seconds} seconds")
            spec["expirationSeconds"] = wanted = issuing.max_seconds
        ours = set(spec["audiences"]) <= set(issuing.audiences)
        extended = "pod" in bound and wanted == _PROJECTED_SECONDS and ours
        claims = issued(
            issuing.issuer,
            context.namespace,
            account,
            bound,
            spec["audiences"],
            now=now,
            seconds=_EXTENDED_SECONDS if extended else wanted,
            warn_after=wanted if extended else 0,
            token_id=issuing.new_id(),
        )
        token = sign(await issuing.key(), claims)
        return {"token": token, "expirationTimestamp": times.format_time(now + wanted)}

    async def _ref(self, resource: str, namespace: str, name: str) -> Ref:
        return _ref(await self._object(resource, namespace, name))

    async def _object(self, resource: str, namespace: str, name: str) -> JSONObject:
        """An object of the core group. Raises StatusError 404."""
        return (await self._stores(resource).get(Context(_SERVER, namespace), name)).decoded()


def _problems(spec: JSONObject) -> list[FieldError]:
    path, seconds = Path("spec.expirationSeconds"), spec["expirationSeconds"]
    if seconds < _MIN_SECONDS:
        return [field.invalid(path, seconds, "may not specify a duration less than 10 minutes")]
    if seconds > _MAX_SECONDS:
        return [field.invalid(path, seconds, "may not specify a duration larger than 2^32 seconds")]
    return []


def _shown(spec: JSONObject) -> JSONObject:
    names = ("audiences", "expirationSeconds", "boundObjectRef")
    return {name: spec.get(name) for name in names}


def _ref(obj: JSONObject) -> Ref:
    metadata = obj["metadata"]
    return Ref(metadata["name"], metadata["uid"])
