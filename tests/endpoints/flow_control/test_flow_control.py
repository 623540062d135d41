"""Requests that are classified, wait, are served and rejected, in a server in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aggserver.endpoints.flow_control import flow_control as module
from aggserver.endpoints.flow_control.matching import schema
from aggserver.endpoints.request import AnyResponse, Request, Response, StreamResponse
from tests.fakes.asgi import Answer, Exchange
from tests.fakes.clock import settled
from tests.fakes.server import ADMIN, ALICE, LocalServer

SCHEMA_UID, LEVEL_UID = "x-kubernetes-pf-flowschema-uid", "x-kubernetes-pf-prioritylevel-uid"
TOO_MANY = b"Too many requests, please try again later.\n"


class Held:
    """A handler whose requests wait until they are let go."""

    def __init__(self) -> None:
        self.inside = 0
        self.order: list[str] = []
        self._waiting: list[Any] = []

    async def __call__(self, request: Request) -> AnyResponse:
        self.inside += 1
        self.order.append(request.path)
        let_go = asyncio.Event()
        self._waiting.append(let_go)
        await let_go.wait()
        self.inside -= 1
        return Response(200, b"{}")

    def release(self, count: int = 1000) -> None:
        for let_go in self._waiting[:count]:
            let_go.set()
        del self._waiting[:count]


def level(name: str, limited: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"level-{name}"}, "spec": {"type": "Limited", "limited": limited}}


def queues(length: int, queues: int = 1, hand: int = 1) -> dict[str, Any]:
    return {"type": "Queue", "queuing": {"queues": queues, "handSize": hand, "queueLengthLimit": length}}


def flow_schema(name: str, level: str, method: str = "ByUser", precedence: int = 100) -> dict[str, Any]:
    everybody = [{"kind": "Group", "group": {"name": "system:authenticated"}}]
    rule = {
        "subjects": everybody,
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": True}],
    }
    spec = {"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence, "rules": [rule]}
    return {"metadata": {"name": name, "uid": f"schema-{name}"}, "spec": spec | {"distinguisherMethod": {"type": method}}}


@pytest.fixture
async def server() -> AsyncIterator[LocalServer]:
    """One seat for Alice."""
    server = LocalServer(reading=1, fair=True)
    await server.start()
    server.rules.allowed = {("alice", "get", f"/{number}") for number in range(20)}
    configure(server, {"nominalConcurrencyShares": 1000, "borrowingLimitPercent": 0, "limitResponse": queues(2)})
    yield server
    await server.stop()


def configure(server: LocalServer, limited: dict[str, Any]) -> None:
    assert server.engine.flow_control is not None
    server.engine.flow_control.configure([schema(flow_schema("own", "own"))], [level("own", limited)])


def get(server: LocalServer, number: int) -> Exchange:
    return server.client(ALICE).send("GET", f"/{number}")


async def whole(exchange: Exchange) -> Answer:
    await exchange.start()
    body = b""
    while piece := await exchange.piece():
        body += piece
    await exchange.task
    return Answer(exchange.status, exchange.headers, body)


def metrics(server: LocalServer) -> dict[str, float]:
    text = server.engine.metrics.exposition().decode()
    lines = [line for line in text.splitlines() if line.startswith("apiserver_flowcontrol_") and 'priority_level="own"' in line]
    return {line.removeprefix("apiserver_flowcontrol_").rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


async def test_responses_name_the_objects(server: LocalServer) -> None:
    answer = await server.client(ALICE).get("/version")
    assert (answer.header(SCHEMA_UID), answer.header(LEVEL_UID)) == ("schema-own", "level-own")
    refused = await server.client(ALICE).get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
    assert (refused.status, refused.header(SCHEMA_UID)) == (403, "schema-own")
    # Those that stand in for missing ones have no UID.
    other = await server.client(ADMIN).get("/version")
    assert (other.header(SCHEMA_UID), other.header(LEVEL_UID)) == ("", "")


async def test_they_wait_and_are_served_in_order(server: LocalServer) -> None:
    server.handler = held = Held()
    sent = [get(server, number) for number in range(3)]
    await settled()
    assert held.order == ["/0"]
    counted = metrics(server)
    labels = 'flow_schema="own",priority_level="own"'
    assert counted[f"current_inqueue_requests{{{labels}}}"] == 2
    assert counted[f"current_executing_requests{{{labels}}}"] == 1
    assert counted[f"current_executing_seats{{{labels}}}"] == 1
    rejected = get(server, 3)
    await settled()
    answer = await whole(rejected)
    assert (answer.status, answer.body) == (429, TOO_MANY)
    assert answer.header("content-type") == "text/plain; charset=utf-8"
    assert answer.header("retry-after") == "1"
    assert answer.header(SCHEMA_UID) == "schema-own"
    for number in range(3):
        assert held.order == [f"/{each}" for each in range(number + 1)]
        held.release(1)
        await settled()
    assert [(await whole(each)).status for each in sent] == [200, 200, 200]
    counted = metrics(server)
    assert counted[f"dispatched_requests_total{{{labels}}}"] == 3
    assert counted['rejected_requests_total{flow_schema="own",priority_level="own",reason="queue-full"}'] == 1
    assert counted['request_wait_duration_seconds_count{execute="true",flow_schema="own",priority_level="own"}'] == 3
    assert counted['request_wait_duration_seconds_count{execute="false",flow_schema="own",priority_level="own"}'] == 1
    assert counted[f"current_executing_requests{{{labels}}}"] == 0


async def test_an_administrator_does_not_wait(server: LocalServer) -> None:
    server.handler = held = Held()
    first = get(server, 0)
    admin = server.client(ADMIN).send("GET", "/1")
    await settled()
    assert held.inside == 2
    held.release()
    assert [(await whole(each)).status for each in (first, admin)] == [200, 200]


async def test_a_client_that_has_gone_waits_no_longer(server: LocalServer) -> None:
    server.handler = held = Held()
    first = get(server, 0)
    second, third = get(server, 1), get(server, 2)
    await settled()
    second.disconnect()
    await settled()
    held.release(1)
    await settled()
    assert held.order == ["/0", "/2"]
    held.release()
    await whole(first)
    await whole(third)
    assert metrics(server)['rejected_requests_total{flow_schema="own",priority_level="own",reason="cancelled"}'] == 1


async def test_none_waits_longer_than_a_quarter_of_its_time(server: LocalServer) -> None:
    server.handler = held = Held()
    first = get(server, 0)
    await settled()
    late = server.client(ALICE).send("GET", "/1?timeout=80ms")
    answer = await whole(late)
    assert (answer.status, answer.body) == (429, TOO_MANY)
    assert held.order == ["/0"]
    held.release()
    await whole(first)
    assert metrics(server)['rejected_requests_total{flow_schema="own",priority_level="own",reason="time-out"}'] == 1


async def test_without_queues_they_are_rejected(server: LocalServer) -> None:
    configure(server, {"nominalConcurrencyShares": 1000, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"}})
    server.handler = held = Held()
    first, second = get(server, 0), get(server, 1)
    await settled()
    assert (await whole(second)).status == 429
    held.release()
    await whole(first)


async def test_a_watch_counts_until_it_has_begun(server: LocalServer) -> None:
    server.rules.allowed.add(("alice", "watch", "namespaces"))

    async def begin(request: Request) -> AnyResponse:
        return StreamResponse(Endless())

    server.handler = begin
    watches = [server.client(ALICE).send("GET", "/api/v1/namespaces?watch=1") for _ in range(5)]
    await settled()
    assert metrics(server)['dispatched_requests_total{flow_schema="own",priority_level="own"}'] == 5
    for each in watches:
        each.disconnect()
        await each.task


class Endless:
    """Chunks that never come."""

    def __aiter__(self) -> Endless:
        return self

    async def __anext__(self) -> bytes:
        await asyncio.Event().wait()
        return b""

    async def aclose(self) -> None:
        pass


async def test_waiting_requests_survive_a_change(server: LocalServer) -> None:
    """A level that is deleted serves what waits in it; one that gets more seats serves it at once."""
    server.handler = held = Held()
    sent = [get(server, number) for number in range(3)]
    await settled()
    assert server.engine.flow_control is not None
    server.engine.flow_control.configure([], [])
    held.release(1)
    await settled()
    assert held.order == ["/0", "/1"]
    configure(server, {"nominalConcurrencyShares": 1000, "limitResponse": queues(2)})
    for _ in range(3):
        held.release()
        await settled()
    assert [(await whole(each)).status for each in sent] == [200, 200, 200]


async def test_a_schema_without_its_level_is_left_out(server: LocalServer) -> None:
    assert server.engine.flow_control is not None
    schemas = [flow_schema("dangling", "nowhere", precedence=50), flow_schema("own", "own")]
    server.engine.flow_control.configure(
        map(schema, schemas), [level("own", {"nominalConcurrencyShares": 1, "limitResponse": queues(2)})]
    )
    assert (await server.client(ALICE).get("/version")).header(SCHEMA_UID) == "schema-own"


async def test_what_clients_make_up_is_not_kept(server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_KNOWN_FLOWS", 10)
    assert server.engine.flow_control is not None
    client = server.client(ALICE)
    for number in range(30):
        await client.get(f"/apis/made.up/v1/namespaces/{number}/things")
    assert len(server.engine.flow_control._flows) <= 10
    text = server.engine.metrics.exposition().decode()
    assert "alice" not in text


async def test_dumps(server: LocalServer) -> None:
    server.handler = held = Held()
    sent = [get(server, number) for number in range(3)]
    await settled()
    pages = server.engine.flow_control.dumps() if server.engine.flow_control is not None else {}
    texts = {path.rpartition("/")[2]: [line.split() for line in page().splitlines()] for path, page in pages.items()}
    own = next(row for row in texts["dump_priority_levels"] if row[0] == "own,")
    assert own == ["own,", "1,", "false,", "false,", "2,", "1,", "1,", "0,", "0,", "0"]
    head, queue = texts["dump_queues"]
    assert (len(head), queue[:5], queue[6]) == (9, ["own,", "0,", "2,", "0,", "0,"], "2,")
    head, *requests = texts["dump_requests"]
    assert [row[3] for row in requests] == ["0,", "1,", "-1,"]
    assert {(row[1], row[4], row[6]) for row in requests} == {("own,", "alice,", "1,")}
    held.release()
    for exchange in sent:
        await settled()
        held.release()
        await whole(exchange)
    answer = await server.client(ADMIN).get("/debug/api_priority_and_fairness/dump_priority_levels")
    assert answer.status == 200
    assert (await server.client(ALICE).get("/debug/api_priority_and_fairness/dump_requests")).status == 403
