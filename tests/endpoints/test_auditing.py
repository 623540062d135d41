"""Auditing: which events a request has, whatever becomes of it, and what they say of it.

That they are kube-apiserver's is shown by tests/integration/test_same_audit.py; here is what that can't bring about.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable
from typing import Any, cast

import pytest

from aggserver.audit import events
from aggserver.audit.events import Event, log_line
from aggserver.audit.policy import AuditPolicy
from aggserver.endpoints import audited
from aggserver.endpoints.auditing import Auditor
from aggserver.endpoints.filters import is_long_running
from aggserver.endpoints.request import AnyResponse, LongBody, Request, Response
from aggserver.meta import errors
from tests.endpoints.test_lane import CLIENT_GO, ONE, ROOM, scope_of
from tests.fakes.clock import settled
from tests.fakes.definitions import CRONTABS, CRONTABS_PATH, crontab
from tests.fakes.server import ALICE, NOW, LocalServer

POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- {level: None, verbs: [list]}
- {level: RequestResponse, nonResourceURLs: [/long, /apis*]}
- {level: RequestResponse, verbs: [patch, watch, update]}
- {level: Metadata}
"""


class Audits:
    """A policy, and a sink that keeps what it gets. taken: what it answers."""

    def __init__(self, policy: str = POLICY, *, may_wait: bool = False) -> None:
        self.found: list[dict[str, Any]] = []
        self.counted: dict[str, int] = {}
        self.taken: bool = True
        self.wait: asyncio.Event | None = None
        self.auditor = Auditor(
            AuditPolicy.read(policy.encode()), self._take, self, lambda: NOW, is_long_running, may_wait=may_wait
        )

    def _take(self, event: Event) -> bool | Awaitable[bool]:
        self.found.append(json.loads(log_line(event)))
        return self.taken if self.wait is None else self._later(self.wait)

    async def _later(self, wait: asyncio.Event) -> bool:
        await wait.wait()
        return self.taken

    @property
    def stages(self) -> list[str]:
        stages = [event["stage"] for event in self.found]
        self.found.clear()
        return stages

    @property
    def last(self) -> dict[str, Any]:
        return self.found[-1]

    def level(self, level: str) -> None:
        self._count(level)

    def event(self) -> None:
        self._count("events")

    def rejected(self) -> None:
        self._count("rejected")

    def lost(self, plugin: str, count: int) -> None:
        raise AssertionError("nothing here loses events")

    def _count(self, what: str) -> None:
        self.counted[what] = self.counted.get(what, 0) + 1


async def served(audits: Audits) -> AsyncIterator[LocalServer]:
    server = LocalServer(auditor=audits.auditor)
    await server.start()
    server.serve(CRONTABS)
    client = server.client()
    assert (await client.post(CRONTABS_PATH, crontab())).status == 201
    assert (await client.get(ONE)).status == 200
    audits.found.clear()
    audits.counted.clear()
    yield server
    await server.stop()


@pytest.fixture
def audits() -> Audits:
    return Audits()


@pytest.fixture
async def server(audits: Audits) -> AsyncIterator[LocalServer]:
    async for made in served(audits):
        yield made


async def outcome(server: LocalServer, result: Any) -> None:
    async def handler(request: Request) -> AnyResponse:
        if isinstance(result, BaseException):
            raise result
        assert isinstance(result, Response)
        return result

    server.handler = handler


async def test_a_request_that_fails_has_an_event(server: LocalServer, audits: Audits) -> None:
    await outcome(server, KeyError("the secret"))
    assert (await server.client().get("/x")).status == 500
    event = audits.last
    assert event["responseStatus"] == {
        "metadata": {},
        "status": "Failure",
        "message": "APIServer panic'd: KeyError",
        "reason": "InternalError",
        "code": 500,
    }
    assert "secret" not in json.dumps(audits.found)
    assert audits.stages == ["RequestReceived", "Panic"]


async def test_a_request_that_is_refused(server: LocalServer, audits: Audits) -> None:
    await outcome(server, errors.bad_request("no"))
    await server.client().get("/x")
    assert audits.last["responseStatus"]["message"] == "no"
    assert audits.stages == ["RequestReceived", "ResponseComplete"]


async def test_a_request_that_takes_too_long(audits: Audits) -> None:
    server = LocalServer(auditor=audits.auditor, timeout=0.01)
    await server.start()

    async def never(request: Request) -> AnyResponse:
        await asyncio.Event().wait()
        raise AssertionError

    server.handler = never
    assert (await server.client().get("/x")).status == 504
    assert (audits.last["responseStatus"]["code"], audits.last["responseStatus"]["reason"]) == (504, "Timeout")
    assert audits.stages == ["RequestReceived", "ResponseComplete"]
    await server.stop()


async def test_a_request_that_is_given_up(server: LocalServer, audits: Audits) -> None:
    begun = asyncio.Event()

    async def never(request: Request) -> AnyResponse:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    server.handler = never
    exchange = server.client().send("GET", "/x")
    await begun.wait()
    exchange.task.cancel()
    await asyncio.gather(exchange.task, return_exceptions=True)
    assert audits.last["responseStatus"] == {
        "metadata": {},
        "status": "Success",
        "message": "Connection closed early",
        "code": 200,
    }
    assert audits.stages == ["RequestReceived", "ResponseComplete"]


async def test_who_is_not_known_has_one_event(server: LocalServer, audits: Audits) -> None:
    assert (await server.client(cast(Any, "a wrong token")).get(ONE)).status == 401
    event = audits.last
    assert (event["user"], event["responseStatus"]["reason"]) == ({}, "Unauthorized")
    assert audits.stages == ["ResponseStarted"]


async def test_who_may_not(server: LocalServer, audits: Audits) -> None:
    await server.client(ALICE).get(ONE)
    assert audits.last["annotations"] == {"authorization.k8s.io/decision": "forbid", "authorization.k8s.io/reason": ""}
    assert audits.stages == ["RequestReceived", "ResponseComplete"]


async def test_the_id_of_the_aggregator_is_kept(server: LocalServer, audits: Audits) -> None:
    answer = await server.client().get(ONE, headers={"Audit-ID": "theirs"})
    assert answer.header("audit-id") == audits.last["auditID"] == "theirs"


async def test_odd_paths(server: LocalServer, audits: Audits) -> None:
    await server.client().get("/apis/%FF/v1/namespaces/%00/a%2Fb?x=%FF")
    assert audits.stages == []  # a list, by its form
    await server.client().delete("/apis/%FF/v1/namespaces/%00/things/a%2Fb?x=%FF")
    assert audits.stages == ["RequestReceived", "ResponseComplete"]


async def test_the_lane_tells_the_same(server: LocalServer, audits: Audits) -> None:
    answer = server.lane(scope_of(headers=CLIENT_GO), ROOM)
    assert answer is not None
    fast = list(audits.found)
    assert audits.counted == {"Metadata": 1, "events": 2}
    audits.found.clear()
    await server.client().get(ONE, headers={**dict(CLIENT_GO), "X-Other": "leaves the lane"})
    for event in (*fast, *audits.found):
        del event["requestReceivedTimestamp"], event["stageTimestamp"]
        event.pop("requestURI")  # the scope of the lane's test has none
    assert fast == audits.found
    assert [event["stage"] for event in fast] == ["RequestReceived", "ResponseComplete"]


async def test_the_lane_counts_what_is_not_recorded(audits: Audits) -> None:
    audits = Audits(POLICY.replace("[list]", "[get]"))
    async for server in served(audits):
        assert server.lane(scope_of(headers=CLIENT_GO), ROOM) is not None
        assert (audits.counted, audits.found) == ({"None": 1}, [])


async def test_the_lane_leaves_what_may_wait() -> None:
    audits = Audits(may_wait=True)
    async for server in served(audits):
        assert server.lane(scope_of(headers=CLIENT_GO), ROOM) is None
        assert audits.counted == {}


async def test_an_event_that_can_not_be_stored_refuses_the_request() -> None:
    audits = Audits(may_wait=True)
    async for server in served(audits):
        audits.taken = False
        answer = await server.client().delete(ONE)
        assert (answer.status, answer.json()["message"]) == (500, "Internal error occurred: failed to store audit event")
        assert (audits.stages, audits.counted["rejected"]) == (["RequestReceived"], 1)
        audits.taken = True
        assert (await server.client().get(ONE)).status == 200


async def test_a_request_waits_for_its_events() -> None:
    audits = Audits(may_wait=True)
    async for server in served(audits):
        audits.wait = asyncio.Event()
        asking = asyncio.create_task(server.client().get(ONE))
        await settled()
        assert (audits.stages, asking.done()) == (["RequestReceived"], False)
        audits.wait.set()
        assert (await asking).status == 200
        assert audits.stages == ["ResponseComplete"]


async def test_a_long_response_is_kept_up_to_a_limit(
    server: LocalServer, audits: Audits, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = [b'{"kind":"L",', b'"items":[]}\n']
    await outcome(server, Response(200, LongBody(None, lambda: pieces)))
    for limit, shown, added in ((1000, {"kind": "L", "items": []}, None), (10, None, {"audit.k8s.io/truncated": "true"})):
        monkeypatch.setattr(audited, "MAX_KEPT_BYTES", limit)
        assert (await server.client().get("/apis/long")).body == b"".join(pieces)
        assert audits.last.get("responseObject") == shown
        assert {key: value for key, value in audits.last["annotations"].items() if "audit" in key} == (added or {})
    assert events.MAX_KEPT_BYTES == 8 * 2**20


async def test_a_list_at_the_level_metadata_is_not_kept(server: LocalServer, audits: Audits) -> None:
    await outcome(server, Response(200, LongBody(None, lambda: [b"{}"])))
    await server.client().get("/other")
    assert "responseObject" not in audits.last
    assert audits.stages == ["RequestReceived", "ResponseComplete"]


async def test_a_watch_tells_that_it_begins(server: LocalServer, audits: Audits) -> None:
    async with server.client().watch(f"{CRONTABS_PATH}?watch=true"):
        await settled()
        assert audits.stages == ["RequestReceived", "ResponseStarted"]
    await settled()
    assert audits.stages == ["ResponseComplete"]


async def test_the_patch_that_was_sent(server: LocalServer, audits: Audits) -> None:
    long = "x" * 200_000
    for patch in ({"spec": {"cronSpec": "* * * * *"}}, {"metadata": {"annotations": {"a": long}}}):
        await server.client().merge(ONE, patch)
        assert audits.last["requestObject"] == patch
        assert audits.last["responseObject"]["metadata"]["name"] == "one"
