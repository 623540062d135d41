"""The objects of flow control: UIDs that are told before the objects exist, changes that take effect, and what is repaired."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aggserver.controllers.flow_control import FlowControlController, repaired
from aggserver.kinds.flow_control import flow_schemas, priority_levels
from aggserver.kinds.served import Kinds
from tests.fakes.asgi import Client
from tests.fakes.clock import settled, until
from tests.fakes.server import ADMIN, ALICE, LocalServer

GROUP = "/apis/flowcontrol.apiserver.k8s.io/v1"
SCHEMAS, LEVELS = f"{GROUP}/flowschemas", f"{GROUP}/prioritylevelconfigurations"
SCHEMA_UID, LEVEL_UID = "x-kubernetes-pf-flowschema-uid", "x-kubernetes-pf-prioritylevel-uid"
# Without status, as a client sends it.
LEVEL: dict[str, Any] = {
    "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
    "kind": "PriorityLevelConfiguration",
    "metadata": {"name": "own"},
    "spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}}},
}
SCHEMA: dict[str, Any] = {
    "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
    "kind": "FlowSchema",
    "metadata": {"name": "own"},
    "spec": {
        "priorityLevelConfiguration": {"name": "own"},
        "matchingPrecedence": 50,
        "rules": [
            {
                "subjects": [{"kind": "User", "user": {"name": "alice"}}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            }
        ],
    },
}


@pytest.fixture
async def server() -> AsyncIterator[LocalServer]:
    server = LocalServer(reading=400, mutating=200, fair=True)
    await server.start()
    task = run(server)
    yield server
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await server.stop()


def run(server: LocalServer) -> asyncio.Task[None]:
    kinds = Kinds(server.environment, server.engine.admission)
    server.engine.installer.install([("kinds", [each for each in kinds.served() if each.info.group.startswith("flowcontrol")])])
    assert server.engine.flow_control is not None
    environment = server.environment
    controller = FlowControlController(
        server.engine.flow_control, server.storage, kinds, environment.new_uid, server.clock, server.timers.call_later
    )
    return asyncio.create_task(controller.run())


async def told(client: Client) -> tuple[str, str]:
    answer = await client.get("/version")
    return answer.header(SCHEMA_UID), answer.header(LEVEL_UID)


async def uids(client: Client, path: str) -> dict[str, str]:
    return {each["metadata"]["name"]: each["metadata"]["uid"] for each in (await client.get(path)).json()["items"]}


async def dangling(client: Client, name: str) -> Any:
    conditions = (await client.get(f"{SCHEMAS}/{name}")).json().get("status", {}).get("conditions") or [{}]
    return conditions[0].get("status"), conditions[0].get("reason")


async def reaches(check: Any) -> None:
    """Wait until a coroutine function returns True."""
    for _ in range(2000):
        if await check():
            return
        await settled()
    raise AssertionError("it is never so")


async def test_uids_are_told_before_the_objects_exist(server: LocalServer) -> None:
    admin, alice = server.client(ADMIN), server.client(ALICE)
    before = await told(admin), await told(alice)
    assert "" not in (*before[0], *before[1])
    schemas, levels = await uids(admin, SCHEMAS), await uids(admin, LEVELS)
    assert before == ((schemas["exempt"], levels["exempt"]), (schemas["global-default"], levels["global-default"]))
    assert (await told(admin), await told(alice)) == before
    assert await dangling(admin, "catch-all") == ("False", "Found")


async def test_a_restart_finds_them(server: LocalServer) -> None:
    admin = server.client(ADMIN)
    before = await uids(admin, SCHEMAS)
    again = LocalServer(server.storage, reading=400, mutating=200, fair=True)
    task = run(again)
    client = again.client(ADMIN)

    async def is_told() -> bool:
        return (await told(client))[0] == before["exempt"]

    await reaches(is_told)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_changes_take_effect(server: LocalServer) -> None:
    admin, alice = server.client(ADMIN), server.client(ALICE)
    made = (await admin.post(SCHEMAS, SCHEMA)).json()

    async def is_dangling() -> bool:
        return await dangling(admin, "own") == ("True", "NotFound")

    await reaches(is_dangling)
    assert (await told(alice))[0] != made["metadata"]["uid"]
    level = (await admin.post(LEVELS, LEVEL)).json()

    async def is_found() -> bool:
        server_timers(server)
        return await dangling(admin, "own") == ("False", "Found") and (await told(alice))[0] == made["metadata"]["uid"]

    await reaches(is_found)
    assert (await told(alice))[1] == level["metadata"]["uid"]
    assert (await admin.delete(f"{LEVELS}/own")).status == 200

    async def is_lost() -> bool:
        server_timers(server)
        return await is_dangling() and (await told(alice))[0] != made["metadata"]["uid"]

    await reaches(is_lost)


def server_timers(server: LocalServer) -> None:
    """Let the pauses between two configurations pass, but not the minute before a repair."""
    for timer in [each for each in server.timers.pending if each.seconds < 30]:
        timer.cancel()
        timer.callback()


async def test_what_every_cluster_has_is_repaired(server: LocalServer) -> None:
    admin = server.client(ADMIN)
    await uids(admin, SCHEMAS)
    assert (await admin.delete(f"{SCHEMAS}/probes")).status == 200
    patch: dict[str, Any] = {"spec": {"matchingPrecedence": 9000}}
    assert (await admin.merge(f"{SCHEMAS}/service-accounts", patch)).status == 200
    kept = {**patch, "metadata": {"annotations": {"apf.kubernetes.io/autoupdate-spec": "false"}}}
    kept["spec"] = {"matchingPrecedence": 8000}
    assert (await admin.merge(f"{SCHEMAS}/global-default", kept)).status == 200
    patch["spec"] = {"matchingPrecedence": 700}
    assert (await admin.merge(f"{SCHEMAS}/system-nodes", patch)).status == 200
    old = {**SCHEMA, "metadata": {"name": "of-an-old-release", "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}}}
    assert (await admin.post(SCHEMAS, old)).status == 201
    await until(lambda: any(timer.seconds == 60 for timer in server.timers.pending))

    async def is_repaired() -> bool:
        for timer in list(server.timers.pending):
            if timer.seconds <= 60:
                timer.cancel()
                timer.callback()
        found = {each["metadata"]["name"]: each["spec"] for each in (await admin.get(SCHEMAS)).json()["items"]}
        return (
            "probes" in found
            and "of-an-old-release" not in found
            and found["system-nodes"]["matchingPrecedence"] == 500
            and found["global-default"]["matchingPrecedence"] == 8000
        )

    await reaches(is_repaired)


async def test_what_was_just_made_needs_no_repair(server: LocalServer) -> None:
    admin = server.client(ADMIN)
    for path, wanted in ((SCHEMAS, flow_schemas()), (LEVELS, priority_levels())):
        found = {each["metadata"]["name"]: each for each in (await admin.get(path)).json()["items"]}
        for obj in wanted:
            assert repaired(found[obj["metadata"]["name"]], obj) is None


@pytest.mark.parametrize(
    ("name", "annotation", "generation", "wanted"),
    [
        ("probes", "true", 2, ("true", True)),
        ("probes", "false", 1, None),
        ("probes", None, 1, ("true", True)),
        ("probes", None, 2, ("false", False)),
        ("probes", "maybe", 2, ("false", False)),
        ("catch-all", "false", 2, ("true", True)),
    ],
)
def test_who_decides(name: str, annotation: str | None, generation: int, wanted: tuple[str, bool] | None) -> None:
    """wanted: the annotation afterwards, and whether the values are restored; None if nothing is changed."""
    obj = next(each for each in flow_schemas() if each["metadata"]["name"] == name)
    annotations = {} if annotation is None else {"apf.kubernetes.io/autoupdate-spec": annotation}
    changed = {**obj["spec"], "matchingPrecedence": 77}
    current = {**obj, "metadata": {"name": name, "generation": generation, "annotations": annotations}, "spec": changed}
    becomes = repaired(current, obj)
    if wanted is None or becomes is None:
        assert becomes is wanted
        return
    assert becomes["metadata"]["annotations"] == {"apf.kubernetes.io/autoupdate-spec": wanted[0]}
    assert becomes["spec"] == (obj["spec"] if wanted[1] else changed)


def test_the_shares_of_exempt_may_be_chosen() -> None:
    obj = next(each for each in priority_levels() if each["metadata"]["name"] == "exempt")
    chosen = {**obj, "spec": {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 10, "lendablePercent": 50}}}
    assert repaired(chosen, obj) is None
