"""The check that only users who may read params refer to them. Otherwise a policy could reveal their content to its author.

To write a policy with a paramKind, a user needs the permission to `get` all objects of that kind; to write a binding with a
paramRef, to `get` or `list` the objects that it refers to. Members of system:masters are not checked. As upstream, the error is a
validation error, and is returned only if there is no other.
Source: k8s.io/kubernetes pkg/registry/admissionregistration/*/authz.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from aggserver.admission.chain import DELETE, Attributes
from aggserver.authentication.user import PRIVILEGED_GROUP, UserInfo
from aggserver.authorization import attributes as authorization
from aggserver.authorization.delegating import Authorizer
from aggserver.informers.informer import CONTROLLER
from aggserver.meta import errors, field
from aggserver.meta.field import Path
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.meta.resource import ResourceInfo
from aggserver.meta.versions import parse_group_version
from aggserver.registry.rest import Context
from aggserver.registry.store import Store

__all__ = ["ParamPermissions"]

_GROUP = "admissionregistration.k8s.io"
# The resources of bindings, and of the policies that they bind.
_BINDINGS = {
    "mutatingadmissionpolicybindings": "mutatingadmissionpolicies",
    "validatingadmissionpolicybindings": "validatingadmissionpolicies",
}
_POLICIES = frozenset(_BINDINGS.values())


class ParamPermissions:
    """A validating plugin. find_resources: (apiVersion, kind) -> the resources of that kind; raises
    LookupError if there are none. stores: of admissionregistration.k8s.io.
    """

    def __init__(
        self,
        authorizer: Authorizer,
        find_resources: Callable[[str, str], Awaitable[list[ResourceInfo]]],
        stores: Mapping[str, Store],
    ) -> None:
        self._authorizer = authorizer
        self._find_resources = find_resources
        self._stores = stores

    def concerns(self, attributes: Attributes) -> bool:
        resource = attributes.resource
        return (
            resource.group == _GROUP
            and (resource.resource in _POLICIES or resource.resource in _BINDINGS)
            and attributes.operation != DELETE
            and not attributes.subresource
            and PRIVILEGED_GROUP not in attributes.user.groups
        )

    async def validate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> None:
        """Check the write. Raises StatusError (422)."""
        spec, before = _spec(obj), _spec(old)
        if attributes.resource.resource in _POLICIES:
            member, why = "paramKind", await self._trouble_of_policy(attributes.user, spec, before)
        else:
            member, why = "paramRef", await self._trouble_of_binding(attributes, spec)
        if why is not None:
            name = (obj or {}).get("metadata", {}).get("name", "")
            problem = field.forbidden(Path("spec").child(member), why)
            raise errors.invalid(_GROUP, attributes.resource.kind, name, [problem])

    async def _trouble_of_policy(self, user: UserInfo, spec: JSONMapping, before: JSONMapping) -> str | None:
        param_kind = spec.get("paramKind")
        if param_kind is None or param_kind == before.get("paramKind"):
            return None
        kind, api_version = param_kind.get("kind", ""), param_kind.get("apiVersion", "")
        group, resource, _ = await self._resource_of(param_kind)
        if await self._may(user, "get", group, resource, "*", "*"):
            return None
        what = f"referenced paramKind (kind={kind}, apiVersion={api_version})"
        return f'user {_printed(user)} must have "get" permission on all objects of the {what}'

    async def _trouble_of_binding(self, attributes: Attributes, spec: JSONMapping) -> str | None:
        user, ref, name = attributes.user, spec.get("paramRef"), spec.get("policyName", "")
        if ref is None:
            return None
        group, resource, unknown = "*", "*", ""
        policy = await self._policy(_BINDINGS[attributes.resource.resource], name)
        if policy is None:
            unknown = f"get policy {name}"
        elif (param_kind := _spec(policy).get("paramKind")) is not None:
            group, resource, is_known = await self._resource_of(param_kind)
            unknown = (
                "" if is_known else f"resolve paramKind &{{{param_kind.get('apiVersion', '')} {param_kind.get('kind', '')}}}"
            )
        verb = "get" if ref.get("name") else "list"
        if await self._may(user, verb, group, resource, ref.get("namespace") or "", ref.get("name") or ""):
            return None
        if unknown:
            who = f'user {_printed(user)} does not have "{verb}" permission for all groups, versions and resources'
            return f"unable to {unknown} to determine minimum required permissions and {who}"
        # Upstream's text for mutating policies has the two in the wrong order.
        who, what = (verb, _printed(user)) if "mutating" in attributes.resource.resource else (_printed(user), verb)
        return f'user {who} does not have "{what}" permission on the object referenced by paramRef'

    async def _policy(self, resource: str, name: str) -> JSONObject | None:
        found = await self._stores[resource].find(Context(CONTROLLER), name)
        return None if found is None else found.decoded()

    async def _resource_of(self, param_kind: JSONMapping) -> tuple[str, str, bool]:
        """Group and resource of a kind, and whether it is served. The resource is `*` if not."""
        api_version = param_kind.get("apiVersion", "")
        try:
            found = await self._find_resources(api_version, param_kind.get("kind", ""))
        except LookupError:
            return parse_group_version(api_version)[0], "*", False
        return found[0].group, found[0].resource, True

    async def _may(self, user: UserInfo, verb: str, group: str, resource: str, namespace: str, name: str) -> bool:
        asked = authorization.Attributes(user, verb, group, "*", resource, namespace=namespace, name=name)
        return (await self._authorizer.authorize(asked)).allowed


def _spec(obj: JSONMapping | None) -> JSONMapping:
    return (obj or {}).get("spec") or {}


def _printed(user: UserInfo) -> str:
    """The user as Go prints it."""
    extra = " ".join(f"{key}:[{' '.join(user.extra[key])}]" for key in sorted(user.extra))
    return f"&{{{user.name} {user.uid} [{' '.join(user.groups)}] map[{extra}]}}"
