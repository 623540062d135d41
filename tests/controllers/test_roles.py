"""The roles of a server without a cluster: bootstrap objects, aggregation, and what the authorizer learns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aggserver.authentication.user import UserInfo
from aggserver.authorization import bootstrap
from aggserver.authorization.attributes import Attributes
from aggserver.informers.informer import ALL, CONTROLLER
from aggserver.registry.rest import Context
from aggserver.storage.interface import Unavailable
from tests.fakes.clock import settled, until
from tests.fakes.work import longest_turn
from tests.standalone.roles import World, binding, role

PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
SECRETS = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
JANE = UserInfo("jane")
AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    await made.start()
    yield made
    await made.close()


def get(resource: str, namespace: str = "") -> Attributes:
    return Attributes(JANE, "get", resource=resource, namespace=namespace)


async def test_nothing_is_written_before_somebody_asks(world: World) -> None:
    await settled()
    assert await world.storage.count("/") == 0
    await world.controller.policy()
    objects = bootstrap.objects()
    for obj in objects:
        metadata = obj["metadata"]
        stored = await world.get(obj["kind"], metadata["name"], metadata.get("namespace", ""))
        assert {name: stored[name] for name in obj.keys() - {"metadata"}} == {
            name: value for name, value in obj.items() if name != "metadata"
        }
        assert (stored["metadata"]["labels"], stored["metadata"]["annotations"]) == (metadata["labels"], metadata["annotations"])
        assert stored["metadata"]["managedFields"][0]["manager"] == "kube-apiserver"


async def test_a_second_start_writes_nothing(world: World) -> None:
    await world.controller.policy()
    before = await world.storage.revision()
    await world.stop()
    world.run()
    await world.controller.policy()
    assert await world.storage.revision() == before


async def test_what_was_changed_comes_back_at_a_start(world: World) -> None:
    await world.controller.policy()
    await world.change("ClusterRole", "system:basic-user", rules=[PODS])
    await world.change("ClusterRole", "system:discovery", rules=[PODS], metadata={"annotations": {AUTOUPDATE: "false"}})
    await world.delete("ClusterRoleBinding", "system:basic-user")
    await world.delete("ClusterRoleBinding", "system:monitoring")
    await world.create(binding("system:monitoring", "ClusterRole", "view", "jane"))
    await settled()
    assert await world.get("ClusterRoleBinding", "system:basic-user") is None  # until the next start
    await world.stop()
    world.run()
    await world.controller.policy()
    rules = (await world.get("ClusterRole", "system:basic-user"))["rules"]
    assert rules[0] == PODS
    assert {"apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"], "verbs": ["create"]} in rules
    assert (await world.get("ClusterRole", "system:discovery"))["rules"] == [PODS]
    assert (await world.get("ClusterRoleBinding", "system:basic-user")) is not None
    monitoring = await world.get("ClusterRoleBinding", "system:monitoring")
    assert (monitoring["roleRef"]["name"], monitoring["subjects"][0]["name"]) == ("system:monitoring", "system:monitoring")


async def test_the_policy_follows(world: World) -> None:
    policy = await world.controller.policy()
    steps: list[tuple[Any, Attributes, bool]] = [
        (world.create(role("pods", PODS)), get("pods"), False),
        (world.create(binding("pods", "ClusterRole", "pods", "jane")), get("pods"), True),
        (world.change("ClusterRole", "pods", rules=[SECRETS]), get("pods"), False),
        (world.create(role("local", PODS, namespace="ns")), get("pods", "ns"), False),
        (world.create(binding("local", "Role", "local", "jane", "ns")), get("pods", "ns"), True),
        (world.delete("RoleBinding", "local", "ns"), get("pods", "ns"), False),
        (world.delete("ClusterRoleBinding", "pods"), get("secrets"), False),
    ]
    for write, asked, allowed in steps:
        await write
        await settled()
        assert (policy.why(asked) is not None) is allowed
    assert await world.controller.policy() is policy


async def test_roles_from_before_are_known(world: World) -> None:
    await world.create(role("pods", PODS))
    await world.create(binding("pods", "ClusterRole", "pods", "jane"))
    assert (await world.controller.policy()).why(get("pods")) is not None


async def test_aggregation(world: World) -> None:
    policy = await world.controller.policy()
    await world.create(binding("view", "ClusterRole", "admin", "jane"))
    labels = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    await world.create(role("things", PODS | {"resources": ["things"]}, labels=labels))
    await until(lambda: policy.why(get("things")) is not None)
    admin = await world.get("ClusterRole", "admin")
    assert PODS | {"resources": ["things"]} in admin["rules"]
    entries = {(entry["manager"], entry["operation"]) for entry in admin["metadata"]["managedFields"]}
    assert ("clusterrole-aggregation-controller", "Apply") in entries
    await world.change("ClusterRole", "things", metadata={"labels": {}})
    await until(lambda: policy.why(get("things")) is None)
    # What somebody writes into it is replaced.
    await world.change("ClusterRole", "view", rules=[SECRETS])
    await settled()
    assert SECRETS not in (await world.get("ClusterRole", "view"))["rules"]


async def test_without_aggregation(world: World) -> None:
    """As in a cluster without a controller manager."""
    await world.stop()
    world.run(aggregates=False)
    await world.controller.policy()
    await world.create(role("things", PODS, labels={"rbac.authorization.k8s.io/aggregate-to-view": "true"}))
    await settled()
    for name in ("admin", "edit", "view"):
        assert not (await world.get("ClusterRole", name))["rules"]
    assert (await world.get("ClusterRole", "system:aggregate-to-view"))["rules"]


async def test_rules_of_others_stay_without_any_part(world: World) -> None:
    """As upstream: an apply of no rules takes away only those that the controller has applied."""
    policy = await world.controller.policy()
    selectors = {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"x": "y"}}]}}
    await world.create({**role("whole", PODS), **selectors})
    await settled()
    assert (await world.get("ClusterRole", "whole"))["rules"] == [PODS]
    await world.create(binding("whole", "ClusterRole", "whole", "jane"))
    await world.create(role("part", SECRETS, labels={"x": "y"}))
    await until(lambda: policy.why(get("secrets")) is not None)
    await world.delete("ClusterRole", "part")
    await until(lambda: policy.why(get("secrets")) is None)
    assert not (await world.get("ClusterRole", "whole"))["rules"]


async def test_what_could_not_be_written_is_tried_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    create = world.storage.create

    async def fail(*arguments: Any) -> int:
        raise Unavailable("not today")

    monkeypatch.setattr(world.storage, "create", fail)
    asked = asyncio.create_task(world.controller.policy())
    await until(lambda: world.timers.pending)
    assert not asked.done()
    monkeypatch.setattr(world.storage, "create", create)
    world.timers.fire(world.timers.seconds[0])
    await asked
    assert await world.get("ClusterRole", "cluster-admin") is not None
    listed = await world.store("ClusterRole").list(Context(CONTROLLER), ALL)
    assert len(listed.items) == sum(obj["kind"] == "ClusterRole" for obj in bootstrap.objects())


async def test_a_role_that_cannot_be_completed_keeps_nobody_out(world: World) -> None:
    await world.create(role("pods", PODS))
    await world.create(binding("pods", "ClusterRole", "pods", "jane"))
    await world.storage.create("/rbac.authorization.k8s.io/clusterroles/view", b"no object")
    assert (await world.controller.policy()).why(get("pods")) is not None
    assert await world.get("ClusterRole", "edit") is not None


# --- what administrators can make large ---


def large_role(size: int) -> dict[str, Any]:
    return role("large", *({**PODS, "resources": [f"r{number}"]} for number in range(size)))


def large_binding(size: int) -> dict[str, Any]:
    made = binding("large", "ClusterRole", "pods", "jane")
    return {**made, "subjects": [{**made["subjects"][0], "name": f"user-{number}"} for number in range(size)]}


LARGE = {"rules": large_role, "subjects": large_binding}
# Instructions between two turns of the event loop, of which a microsecond has some twenty.
MOST = 120_000


@pytest.mark.parametrize("name", LARGE)
async def test_others_run_while_what_is_large_is_learned(name: str, world: World) -> None:
    policy = await world.controller.policy()
    objects = [LARGE[name](2000), LARGE[name](4000)]
    sync = world.controller._sync
    for obj in objects:
        for state in (obj, None):
            turns = await longest_turn(sync(obj["kind"], policy, "large", state))
            assert turns < MOST, (name, state is None)
