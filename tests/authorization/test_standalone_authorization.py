"""The authorizer of a server without a cluster: its modes, and what it decides without them."""

from __future__ import annotations

import pytest

from aggserver.authentication.user import UserInfo
from aggserver.authorization.attributes import Attributes
from aggserver.authorization.rbac import Policy, PolicyRule
from aggserver.authorization.standalone import StandaloneAuthorizer

JANE = UserInfo("jane", groups=("system:authenticated",))
ADMIN = UserInfo("admin", groups=("system:masters",))
NODE = UserInfo("system:node:a", groups=("system:nodes", "system:authenticated"))
PODS = PolicyRule(("get",), ("",), ("pods",))
EVERYTHING = [PolicyRule(("*",), ("*",), ("*",)), PolicyRule(("*",), paths=("*",))]


def policy() -> Policy:
    user = {"kind": "User", "name": "jane"}
    return Policy(
        [
            {"kind": "ClusterRole", "metadata": {"name": "pods"}, "rules": [PODS.as_json()]},
            *(
                {
                    "kind": "ClusterRoleBinding",
                    "metadata": {"name": name},
                    "roleRef": {"kind": "ClusterRole", "name": name},
                    "subjects": [user],
                }
                for name in ("pods", "lost")
            ),
        ]
    )


def authorizer(*modes: str) -> StandaloneAuthorizer:
    async def known() -> Policy:
        return policy()

    return StandaloneAuthorizer(known, modes=modes)


ALLOWED = 'RBAC: allowed by ClusterRoleBinding "pods" of ClusterRole "pods" to User "jane"'
LOST = 'clusterrole.rbac.authorization.k8s.io "lost" not found'

MODES: dict[str, tuple[tuple[bool, str], tuple[bool, str]]] = {
    # modes: (decision for a pod, for a secret)
    "RBAC": ((True, ALLOWED), (False, f"RBAC: {LOST}")),
    "Node,RBAC": ((True, ALLOWED), (False, f"RBAC: {LOST}")),
    "RBAC,AlwaysAllow": ((True, ALLOWED), (True, "")),
    "AlwaysAllow": ((True, ""), (True, "")),
    "AlwaysDeny,RBAC": ((True, ALLOWED), (False, f"Everything is forbidden.\nRBAC: {LOST}")),
    "AlwaysDeny": ((False, "Everything is forbidden."), (False, "Everything is forbidden.")),
    "Node": ((False, ""), (False, "")),
}


@pytest.mark.parametrize("modes", MODES)
async def test_modes(modes: str) -> None:
    asked = authorizer(*modes.split(","))
    for resource, expected in zip(("pods", "secrets"), MODES[modes], strict=True):
        assert await asked.authorize(Attributes(JANE, "get", resource=resource)) == expected


RULES = {
    "RBAC": ([PODS], False, LOST),
    "Node,RBAC": ([PODS], False, LOST),
    "AlwaysAllow": (EVERYTHING, False, ""),
    "AlwaysDeny": ([], False, ""),
}


@pytest.mark.parametrize("modes", RULES)
async def test_rules(modes: str) -> None:
    assert await authorizer(*modes.split(",")).rules_for(JANE, "ns") == RULES[modes]


async def test_rules_of_a_node() -> None:
    trouble = "node authorizer does not support user rule resolution"
    assert await authorizer("Node", "RBAC").rules_for(NODE, "ns") == ([], True, trouble)


async def test_an_administrator_needs_no_roles() -> None:
    async def unknown() -> Policy:
        raise AssertionError

    asked = StandaloneAuthorizer(unknown, modes=["AlwaysDeny", "RBAC"])
    assert await asked.authorize(Attributes(ADMIN, "delete", resource="pods")) == (True, "")
    assert await asked.authorize(Attributes(JANE, "get", path="/healthz")) == (True, "")
    with pytest.raises(AssertionError):
        await asked.authorize(Attributes(JANE, "get", resource="pods", path="/healthz"))


async def test_the_bootstrap_rules_hold_without_roles() -> None:
    asked = StandaloneAuthorizer()
    decision = await asked.authorize(Attributes(JANE, "create", "authorization.k8s.io", "v1", "selfsubjectaccessreviews"))
    name = '"system:basic-user"'
    assert decision.reason == f'RBAC: allowed by ClusterRoleBinding {name} of ClusterRole {name} to Group "system:authenticated"'
    assert await asked.authorize(Attributes(JANE, "get", resource="pods")) == (False, "")
