"""The escalation check: nobody grants permissions that they do not have themselves.

Whoever writes a role must have all permissions in it, or the verb `escalate`; whoever writes a binding all permissions of its
role, or the verb `bind`. Members of system:masters are not checked. As upstream, the check comes after mutating admission and
before validation, and changes that only concern the garbage collector pass.
Source: k8s.io/kubernetes pkg/registry/rbac/{escalation_check,helpers}.go, pkg/registry/rbac/*/policybased/storage.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from aggserver.admission.chain import CREATE, DELETE, Attributes
from aggserver.authentication.user import PRIVILEGED_GROUP
from aggserver.authorization import attributes as authorization
from aggserver.authorization.delegating import Authorizer
from aggserver.controllers.roles import GROUP
from aggserver.informers.informer import CONTROLLER
from aggserver.meta import errors
from aggserver.meta.golang import quote
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.registry.rest import Context
from aggserver.registry.store import Store
from aggserver.workers import OBJECTS

if TYPE_CHECKING:
    from aggserver.authorization.rbac import Policy, PolicyRule

__all__ = ["EscalationCheck"]

_ROLES = ("clusterroles", "roles")
# Members of metadata that the garbage collector changes, or that each write sets.
_COLLECTED = ("ownerReferences", "finalizers", "selfLink", "managedFields", "resourceVersion")
# The size by which a rule is counted in `workers.py`: that of a rule with a few verbs and resources.
_RULE_BYTES = 128
_AGGREGATES = "must have cluster-admin privileges to use the aggregationRule"


class EscalationCheck:
    """A mutating plugin that changes nothing, to run last among those. stores: as in `RoleController`."""

    def __init__(
        self, authorizer: Authorizer, policy: Callable[[], Awaitable[Policy]], stores: Callable[[str, str], Store]
    ) -> None:
        self._authorizer = authorizer
        self._policy = policy
        self._stores = stores

    def concerns(self, attributes: Attributes) -> bool:
        return (
            attributes.resource.group == GROUP
            and attributes.operation != DELETE
            and PRIVILEGED_GROUP not in attributes.user.groups
        )

    async def mutate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> bool:
        """Check the write. Returns False. Raises StatusError: 403, or 404 if the role of a binding does not exist."""
        if obj is None or (old is not None and _is_only_collected(obj, old)):
            return False
        if attributes.resource.resource in _ROLES:
            await self._check_role(attributes, obj, old)
        else:
            await self._check_binding(attributes, obj)
        return False

    async def _check_role(self, attributes: Attributes, obj: JSONObject, old: JSONObject | None) -> None:
        from aggserver.authorization.escalation import EVERYTHING
        from aggserver.authorization.rbac import PolicyRule

        # A create has no name in its URL, so a permission for single names does not allow it.
        name = "" if attributes.operation == CREATE else attributes.name
        if await self._may(attributes, "escalate", attributes.resource.resource, name):
            return
        why = await self._missing(attributes, [PolicyRule.of(rule) for rule in obj.get("rules") or ()])
        # An aggregated role can gather any permission, and changing one could keep others from taking a permission away.
        if why is None and (_aggregates(obj) or _aggregates(old or {})) and await self._missing(attributes, EVERYTHING):
            why = _AGGREGATES
        if why is not None:
            raise _forbidden(attributes, why)

    async def _check_binding(self, attributes: Attributes, obj: JSONObject) -> None:
        from aggserver.authorization.rbac import ROLES, PolicyRule

        ref = obj.get("roleRef") or {}
        kind, name = ref.get("kind") or "", ref.get("name") or ""
        if kind not in ROLES:
            raise errors.StatusError(500, "", f"unsupported role reference kind: {quote(kind)}")
        if await self._may(attributes, "bind", ROLES[kind], name, ref.get("apiGroup") or ""):
            return
        context = Context(CONTROLLER, attributes.namespace if kind == "Role" else "")
        try:
            role = (await self._stores(GROUP, ROLES[kind]).get(context, name)).decoded()
        except errors.StatusError as error:
            if error.code == 404:  # as upstream, the error names the requested resource
                raise errors.not_found(GROUP, attributes.resource.resource, name) from None
            raise
        why = await self._missing(attributes, [PolicyRule.of(rule) for rule in role.get("rules") or ()])
        if why is not None:
            raise _forbidden(attributes, why)

    async def _may(self, attributes: Attributes, verb: str, resource: str, name: str, group: str = GROUP) -> bool:
        asked = authorization.Attributes(attributes.user, verb, group, "*", resource, namespace=attributes.namespace, name=name)
        return (await self._authorizer.authorize(asked)).allowed

    async def _missing(self, attributes: Attributes, wanted: Sequence[PolicyRule]) -> str | None:
        from aggserver.authorization.escalation import problem

        found = (await self._policy()).found(attributes.user, attributes.namespace)
        # In a thread, since clients choose how many permissions are compared.
        size = len(wanted) * _RULE_BYTES
        return await OBJECTS.run(
            attributes.user.name, size, problem, attributes.user, found, wanted, attributes.resource.resource
        )


def _forbidden(attributes: Attributes, why: str) -> errors.StatusError:
    return errors.forbidden(GROUP, attributes.resource.resource, attributes.name, why)


def _aggregates(role: JSONMapping) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _is_only_collected(obj: JSONObject, old: JSONObject) -> bool:
    """Whether nothing changes but what the garbage collector needs to remove the object."""
    return _without_collected(obj) == _without_collected(old)


def _without_collected(obj: JSONMapping) -> JSONMapping:
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _COLLECTED and value}
    return {**{name: value for name, value in obj.items() if value}, "metadata": metadata}
