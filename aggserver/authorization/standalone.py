"""The authorizer of a server without a cluster: by its own roles, or by the modes of --authorization-mode.

    RBAC         by roles and bindings
    AlwaysAllow  everybody may do everything
    AlwaysDeny   nobody may do anything
    Node         a kubelet may read what concerns its node, and write what tells of it (see `nodes`)

The modes are asked in order until one allows. Members of system:masters and the always allowed paths (health) pass before any of
them, so that no roles are read for an administrator.
Source: k8s.io/kubernetes pkg/kubeapiserver/authorizer/reload.go, v1.36.3; k8s.io/apiserver pkg/authorization/union,
pkg/authorization/authorizerfactory/builtin.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol

from aggserver.authentication.user import UserInfo, node_name
from aggserver.authorization.attributes import Attributes
from aggserver.authorization.delegating import ALLOWED, HEALTH_PATHS, Decision, OpenPaths, is_always_allowed

# Imported with the first request of a user who is no administrator; `nodes` with that of a kubelet.
if TYPE_CHECKING:
    from aggserver.authorization.node_graph import NodeGraph
    from aggserver.authorization.nodes import NodeAuthorizer
    from aggserver.authorization.rbac import Policy, PolicyRule

__all__ = ["ResolvedRules", "RuleResolver", "StandaloneAuthorizer", "bootstrap_policy", "empty_graph"]


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


async def empty_graph() -> NodeGraph:
    """The graph of a server without Pods."""
    from aggserver.authorization.node_graph import NodeGraph

    return NodeGraph()


class StandaloneAuthorizer:
    """policy: returns the roles and bindings, perhaps after they were read. graph: the same for what concerns the nodes.

    modes: see above. open_paths: see `OpenPaths`.
    """

    def __init__(
        self,
        policy: Callable[[], Awaitable[Policy]] = bootstrap_policy,
        graph: Callable[[], Awaitable[NodeGraph]] = empty_graph,
        *,
        modes: Iterable[str] = ("Node", "RBAC"),
        open_paths: Iterable[str] = HEALTH_PATHS,
    ) -> None:
        self._policy = policy
        self._graph = graph
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
            elif mode == "Node":
                node = node_name(attributes.user)
                if node is not None:
                    decision = await self._nodes.authorize(node, attributes)
                    if decision.allowed:
                        return decision
                    reasons += [decision.reason] if decision.reason else []
            elif mode == "RBAC":
                policy = await self._policy()
                why = policy.why(attributes)
                if why is not None:
                    return Decision(True, why)
                trouble = policy.found(attributes.user, attributes.namespace).trouble()
                reasons += [f"RBAC: {trouble}"] if trouble else []
        return Decision(False, "\n".join(reasons))

    @cached_property
    def _nodes(self) -> NodeAuthorizer:
        from aggserver.authorization.nodes import NodeAuthorizer

        return NodeAuthorizer(self._graph)

    async def rules_for(self, user: UserInfo, namespace: str) -> ResolvedRules:
        """The user's rules in the namespace. As upstream, they do not include what `is_always_allowed`."""
        from aggserver.authorization.escalation import EVERYTHING

        rules: list[PolicyRule] = []
        troubles: list[str] = []
        incomplete = False
        for mode in self._modes:
            if mode == "AlwaysAllow":
                rules += EVERYTHING
            elif mode == "Node" and node_name(user) is not None:
                incomplete = True
                troubles.append("node authorizer does not support user rule resolution")
            elif mode == "RBAC":
                found = (await self._policy()).found(user, namespace)
                rules += found.rules
                troubles += filter(None, [found.trouble()])
        return ResolvedRules(
            rules, incomplete, troubles[0] if len(troubles) == 1 else f"[{', '.join(troubles)}]" if troubles else ""
        )
