"""The escalation check as a plugin: what it asks for whom, and what it lets pass."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from aggserver.admission.chain import CREATE, DELETE, UPDATE, Attributes
from aggserver.authentication.user import UserInfo
from aggserver.authorization.standalone import StandaloneAuthorizer
from aggserver.controllers.roles import GROUP
from aggserver.meta.errors import StatusError
from aggserver.meta.resource import ResourceInfo
from aggserver.standalone.escalation import EscalationCheck
from tests.standalone.roles import World, binding, role

PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
SECRETS = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
ESCALATE = {"apiGroups": [GROUP], "resources": ["roles"], "verbs": ["escalate"], "resourceNames": ["named"]}
BIND = {"apiGroups": [GROUP], "resources": ["clusterroles"], "verbs": ["bind"], "resourceNames": ["secrets"]}
KINDS = {"roles": "Role", "clusterroles": "ClusterRole", "rolebindings": "RoleBinding"}
JANE = UserInfo("jane", groups=("g",))


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    await made.start()
    for name, rule, user in (
        ("pods", PODS, "jane"),
        ("secrets", SECRETS, "-"),
        ("escalate", ESCALATE, "eve"),
        ("bind", BIND, "bob"),
    ):
        await made.create(role(name, rule))
        await made.create(binding(name, "ClusterRole", name, user))
    yield made
    await made.close()


@pytest.fixture
def check(world: World) -> EscalationCheck:
    return EscalationCheck(StandaloneAuthorizer(world.controller.policy), world.controller.policy, world.kinds.store)


def attributes(
    resource: str, operation: str = CREATE, *, user: UserInfo = JANE, name: str = "x", group: str = GROUP
) -> Attributes:
    namespace = "" if resource.startswith("cluster") else "ns"
    info = ResourceInfo(group, "v1", resource, KINDS[resource], f"{KINDS[resource]}List", namespaced=bool(namespace))
    return Attributes(operation, user, info, "", info.kind, info.api_version, namespace, name, dry_run=False)


def test_whom_it_concerns(check: EscalationCheck) -> None:
    assert check.concerns(attributes("roles"))
    assert check.concerns(attributes("rolebindings", UPDATE))
    assert not check.concerns(attributes("roles", DELETE))
    assert not check.concerns(attributes("roles", group="other.example.com"))
    assert not check.concerns(attributes("roles", user=UserInfo("admin", groups=("system:masters",))))


MAY: dict[str, tuple[Attributes, dict[str, Any], dict[str, Any] | None, bool]] = {
    # name: (attributes, object, the one it replaces, allowed)
    "what one has": (attributes("roles"), role("x", PODS), None, True),
    "more": (attributes("roles"), role("x", SECRETS), None, False),
    "a change": (attributes("roles", UPDATE), role("x", SECRETS), role("x"), False),
    "for the garbage collector": (
        attributes("roles", UPDATE),
        role("x", SECRETS, ownerReferences=[], finalizers=["a/b"]),
        role("x", SECRETS, resourceVersion="1", managedFields=[{}]),
        True,
    ),
    "for others": (attributes("roles", UPDATE), role("x", SECRETS, labels={"a": "b"}), role("x", SECRETS), False),
    "by escalate": (attributes("roles", UPDATE, user=UserInfo("eve"), name="named"), role("named", SECRETS), role("named"), True),
    "by escalate for another": (attributes("roles", UPDATE, user=UserInfo("eve")), role("x", SECRETS), role("x"), False),
    "a create has no name": (attributes("roles", user=UserInfo("eve"), name="named"), role("named", SECRETS), None, False),
    "a binding": (attributes("rolebindings"), binding("x", "ClusterRole", "pods", "a", "ns"), None, True),
    "a binding of more": (attributes("rolebindings"), binding("x", "ClusterRole", "secrets", "a", "ns"), None, False),
    "by bind": (attributes("rolebindings", user=UserInfo("bob")), binding("x", "ClusterRole", "secrets", "a", "ns"), None, True),
    "by bind of another": (
        attributes("rolebindings", user=UserInfo("bob")),
        binding("x", "ClusterRole", "pods", "a", "ns"),
        None,
        False,
    ),
}


@pytest.mark.parametrize("name", MAY)
async def test_who_may(check: EscalationCheck, name: str) -> None:
    given, obj, old, allowed = MAY[name]
    if allowed:
        assert await check.mutate(given, obj, old) is False
        return
    with pytest.raises(StatusError, match="is attempting to grant RBAC permissions not currently held") as caught:
        await check.mutate(given, obj, old)
    assert (caught.value.code, caught.value.reason) == (403, "Forbidden")


async def test_a_role_that_is_missing(check: EscalationCheck) -> None:
    with pytest.raises(StatusError, match=f'rolebindings.{GROUP} "lost" not found') as caught:
        await check.mutate(attributes("rolebindings"), binding("x", "Role", "lost", "a", "ns"), None)
    assert caught.value.code == 404
    with pytest.raises(StatusError, match='unsupported role reference kind: "Robot"'):
        await check.mutate(attributes("rolebindings"), binding("x", "Robot", "lost", "a", "ns"), None)


async def test_an_aggregation_needs_everything(check: EscalationCheck) -> None:
    rule = {"aggregationRule": {"clusterRoleSelectors": [{}]}}
    for obj, old in (({**role("x"), **rule}, None), (role("x", PODS), {**role("x"), **rule})):
        with pytest.raises(StatusError, match="must have cluster-admin privileges to use the aggregationRule"):
            await check.mutate(attributes("clusterroles", UPDATE if old else CREATE), obj, old)
