"""Controllers of a server without a cluster beside virtual resources: failure is never absence, and holds up nothing else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.fakes.clock import settled, until
from tests.fakes.definitions import CRONTABS, crontab
from tests.fakes.server import LocalServer, gone
from tests.resources.served import GROUP, Apps, Rows, ticket_app

TEAM = "/api/v1/namespaces/team"
CRONTABS_IN = "/apis/stable.example.com/v1/namespaces/{}/crontabs"
TICKETS_IN = f"/apis/{GROUP}/v1/namespaces/{{}}/tickets"


@pytest.fixture
async def running(server: LocalServer, apps: Apps) -> Apps:
    server.run()
    server.serve(CRONTABS)
    return apps


async def _condition(apps: Apps, wanted: str) -> Any:
    namespace = (await apps.client.get(TEAM)).json()
    conditions = namespace.get("status", {}).get("conditions", ())
    return next((each["message"] for each in conditions if each["type"] == wanted and each["status"] == "True"), None)


KINDS: dict[str, dict[str, Any]] = {"direct": {}, "polled": {"poll": 10.0}}
OWNERS = {"it is there": "owner", "it is not there": "nothing", "the source fails": "owner"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OWNERS)
async def test_dependents_of_virtual_objects_are_not_collected(running: Apps, name: str, kind: str) -> None:
    rows = Rows()
    rows.set("owner")
    await running.serve_tickets(rows, **KINDS[kind])
    if name == "the source fails":
        rows.before["list"] = rows.before["get"] = _fail
    reference = {"apiVersion": f"{GROUP}/v1", "kind": "Ticket", "name": OWNERS[name], "uid": "any"}
    for index in range(3):
        obj = crontab(f"c{index}")
        obj["metadata"]["ownerReferences"] = [reference]
        assert (await running.client.post(CRONTABS_IN.format("default"), obj)).status == 201
    # One whose owner is known to be gone is collected, which shows that the collector is at work.
    lost = crontab("lost")
    lost["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Namespace", "name": "default", "uid": "another"}]
    assert (await running.client.post(CRONTABS_IN.format("default"), lost)).status == 201
    await gone(running.client, f"{CRONTABS_IN.format('default')}/lost")
    await running.pauses.end()
    await until(lambda: running.server.garbage_collector.idle)
    found = (await running.client.get(CRONTABS_IN.format("default"))).json()["items"]
    assert [each["metadata"]["name"] for each in found] == ["c0", "c1", "c2"]


def _fail() -> None:
    raise ConnectionError("secret 4711")


@pytest.mark.parametrize("kind", KINDS)
async def test_virtual_objects_are_deleted_with_their_namespace(running: Apps, kind: str) -> None:
    rows = Rows()
    rows.set("a", "team")
    rows.set("b", "default")
    await running.serve_tickets(rows, **KINDS[kind])
    await running.server.namespace("team")
    assert (await running.client.post(CRONTABS_IN.format("team"), crontab("c"))).status == 201
    await running.client.delete(TEAM)
    await gone(running.client, TEAM)
    assert list(rows.rows) == [("default", "b")]
    assert (await running.client.get(f"{CRONTABS_IN.format('team')}/c")).status == 404


async def test_a_resource_that_can_not_be_deleted_from_keeps_no_namespace(running: Apps) -> None:
    rows = Rows(before={"list": _fail})
    await running.serve_tickets(rows, verbs="get list create")
    await running.server.namespace("team")
    await running.client.delete(TEAM)
    await gone(running.client, TEAM)


async def test_a_source_that_fails_keeps_the_namespace(running: Apps) -> None:
    rows = Rows(before={"list": _fail})
    rows.set("a", "team")
    await running.serve_tickets(rows)
    await running.server.namespace("team")
    assert (await running.client.post(CRONTABS_IN.format("team"), crontab("c"))).status == 201
    await running.client.delete(TEAM)
    await until(lambda: 5.0 in running.server.timers.seconds)
    text = await _condition(running, "NamespaceDeletionContentFailure")
    assert f"tickets.{GROUP}: Internal error occurred: the source of tickets.{GROUP} has failed" in text
    assert "4711" not in text
    assert (await running.client.get(f"{CRONTABS_IN.format('team')}/c")).status == 404  # all else is deleted
    rows.before.clear()
    running.server.timers.fire(5.0)
    await gone(running.client, TEAM)
    assert rows.rows == {}


async def test_a_source_that_hangs_holds_up_no_other_namespace(running: Apps) -> None:
    rows = Rows()
    await running.serve_tickets(rows)
    in_team = asyncio.Event()

    async def hang() -> None:
        in_team.set()
        await asyncio.Event().wait()

    for name in ("team", "other"):
        await running.server.namespace(name)
    rows.before["list"] = hang
    await running.client.delete(TEAM)
    await in_team.wait()
    rows.before.clear()
    await running.client.delete("/api/v1/namespaces/other")
    await gone(running.client, "/api/v1/namespaces/other")
    assert (await running.client.get(TEAM)).status == 200


async def test_finalizers_keep_the_namespace(running: Apps) -> None:
    rows = Rows()
    rows.set("a", "team", finalizers=["example.com/hold"])
    await running.serve_tickets(rows, keeps="metadata")
    await running.server.namespace("team")
    await running.client.delete(TEAM)
    await until(lambda: 0.5 in running.server.timers.seconds)
    assert await _condition(running, "NamespaceContentRemaining") == (
        f"Some resources are remaining: tickets.{GROUP} has 1 resource instances"
    )
    assert "example.com/hold in 1 resource instances" in await _condition(running, "NamespaceFinalizersRemaining")
    assert (await running.client.merge(f"{TICKETS_IN.format('team')}/a", {"metadata": {"finalizers": None}})).status == 200
    running.server.timers.fire(0.5)
    await gone(running.client, TEAM)


async def test_a_stale_mirror_that_has_nothing_there_keeps_no_namespace(running: Apps) -> None:
    """As in a cluster, whose namespace controller lists all that can be deleted in each namespace."""
    rows = Rows()
    rows.set("a", "default")
    app, _ = ticket_app(rows, poll=10.0)
    served = await running.serve(app)
    await running.client.get(TICKETS_IN.format("default"))
    rows.before["list"] = _fail
    await running.pauses.end()
    running.server.clock.advance(3600.0)
    assert served.trouble()
    assert (await running.client.get(TICKETS_IN.format("default"))).status == 503
    assert (await running.client.get(f"/apis/{GROUP}/v1/tickets")).status == 503
    empty = await running.client.get(TICKETS_IN.format("team"))
    assert (empty.status, empty.json()["items"]) == (200, [])
    assert "has failed for 3600 s" in empty.warnings[0]
    assert (await running.client.delete(TICKETS_IN.format("team"))).status == 200
    assert (await running.client.delete(TICKETS_IN.format("default"))).status == 503
    await running.server.namespace("team")
    await running.client.delete(TEAM)
    await gone(running.client, TEAM)
    await settled()
    assert list(rows.rows) == [("default", "a")]
