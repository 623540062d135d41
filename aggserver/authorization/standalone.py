"""The authorizer of a server without a cluster: by its own roles, or by the modes of --authorization-mode.

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

# aggserver.authorization.bootstrap is imported with the first request of a user who is no administrator.
if TYPE_CHECKING:
    from aggserver.authorization.rbac import Policy, PolicyRule

__all__ = ["ResolvedRules", "RuleResolver", "StandaloneAuthorizer", "bootstrap_policy"]

_NODE_PREFIX, _NODE_GROUP = "system:node:", "system:nodes"


class ResolvedRules(NamedTuple):
    """A user's rules in a namespace. incomplete: whether rules are known to be missing. trouble: errors; '' if there are none."""

    rules: list[PolicyRule]
    incomplete: bool = False
    trouble: str = ""


class RuleResolver(Protocol):
    async def rules_for(self, user: UserInfo, namespace: str) -> ResolvedRules: ...


async def bootstrap_policy() -> Policy:
    """The policy of a server that stores no roles."""
    from aggserver.authorization import bootstrap

    return bootstrap.policy()


class StandaloneAuthorizer:
    """policy: returns the roles and bindings, perhaps after they were read. modes: see above. open_paths: see `OpenPaths`."""

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
        """The user's rules in the namespace. As upstream, they do not include what `is_always_allowed`."""
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
