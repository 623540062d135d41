"""The authorizer of a server without a cluster: by its own roles, or by whatever --authorization-mode names.

    RBAC         by roles and bindings
    AlwaysAllow  everybody may do everything
    AlwaysDeny   nobody may do anything
    Node         decides nothing: upstream's gives kubelets what concerns the Pods on their node

The modes are asked in order until one allows. Members of system:masters and the always allowed paths (health) pass before any of
them, so that no roles are read for an administrator.
Source: k8s.io/kubernetes pkg/kubeapiserver/authorizer/reload.go, v1.36.3; k8s.io/apiserver pkg/authorization/union,
pkg/authorization/authorizerfactory/builtin.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from aggserver.authentication.user import UserInfo
from aggserver.authorization.attributes import Attributes
from aggserver.authorization.delegating import ALLOWED, HEALTH_PATHS, Decision, OpenPaths, is_always_allowed

# Imported with the first request of somebody who is no administrator.
if TYPE_CHECKING:
    from aggserver.authorization.rbac import Policy, PolicyRule

__all__ = ["ResolvedRules", "RuleResolver", "StandaloneAuthorizer", "bootstrap_policy"]

_NODE_PREFIX, _NODE_GROUP = "system:node:", "system:nodes"


class ResolvedRules(NamedTuple):
    """What a user may do in a namespace. trouble: why something may be missing; incomplete: whether something surely is."""

    rules: list[PolicyRule]
    incomplete: bool = False
    trouble: str = ""


class RuleResolver(Protocol):
    async def rules_for(self, user: UserInfo, namespace: str) -> ResolvedRules: ...


async def bootstrap_policy() -> Policy:
    """For a server that has no roles of its own."""
    from aggserver.authorization import bootstrap

    return bootstrap.policy()


class StandaloneAuthorizer:
    """policy: returns the roles and bindings; may wait until they are read. modes: see above. open_paths: see `OpenPaths`."""

    def __init__(
        self,
        policy: Callable[[], Awaitable[Policy]] = bootstrap_policy,
        *,
        modes: Iterable[str] = ("RBAC",),
        open_paths: Iterable[str] = HEALTH_PATHS,
    ) -> None:
        self._policy = policy
        self._modes = tuple(modes)
        self._open_paths = OpenPaths(open_paths)

    async def authorize(self, attributes: Attributes) -> Decision:
        if is_always_allowed(attributes, self._open_paths):
            return ALLOWED
        reasons: list[str] = []
        for mode in self._modes:
            if mode == "AlwaysAllow":
                return ALLOWED
            if mode == "AlwaysDeny":
                reasons.append("Everything is forbidden.")
            elif mode == "RBAC":
                policy = await self._policy()
                why = policy.why(attributes)
                if why is not None:
                    return Decision(True, why)
                trouble = policy.found(attributes.user, attributes.namespace).trouble()
                reasons += [f"RBAC: {trouble}"] if trouble else []
        return Decision(False, "\n".join(reasons))

    async def rules_for(self, user: UserInfo, namespace: str) -> ResolvedRules:
        """What the user may do in the namespace. As upstream, what passes before the modes are asked is not in it."""
        from aggserver.authorization.escalation import EVERYTHING

        rules: list[PolicyRule] = []
        troubles: list[str] = []
        incomplete = False
        for mode in self._modes:
            if mode == "AlwaysAllow":
                rules += EVERYTHING
            elif mode == "Node" and user.name.startswith(_NODE_PREFIX) and _NODE_GROUP in user.groups:
                incomplete = True
                troubles.append("node authorizer does not support user rule resolution")
            elif mode == "RBAC":
                found = (await self._policy()).found(user, namespace)
                rules += found.rules
                troubles += filter(None, [found.trouble()])
        return ResolvedRules(
            rules, incomplete, troubles[0] if len(troubles) == 1 else f"[{', '.join(troubles)}]" if troubles else ""
        )
