"""Watches over websockets, through the whole chain of filters: which handshakes are valid, and the messages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from aggserver.authentication.user import UserInfo
from tests.fakes.asgi import Client
from tests.fakes.clock import until
from tests.fakes.definitions import CRONTABS, CRONTABS_PATH, crontab
from tests.fakes.server import ADMIN, ALICE, LocalServer
from tests.integration.protobuf import decode_events
from tests.waiting import HANG_SECONDS

WATCH = f"{CRONTABS_PATH}?watch=1"
GOOD = {"origin": "https://a", "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==", "sec-websocket-version": "13"}


@pytest.fixture(autouse=True)
def served(server: LocalServer) -> None:
    server.serve(CRONTABS)


class WebSocket:
    """One request for an upgrade, on the ASGI side."""

    def __init__(self, server: LocalServer, target: str, user: UserInfo | None = ADMIN, **headers: str | None) -> None:
        given = GOOD | {name.replace("_", "-"): value for name, value in headers.items()}
        path, _, query = target.partition("?")
        scope: Mapping[str, Any] = {
            "type": "websocket",
            "http_version": "1.1",
            "path": path,
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in given.items() if value is not None],
            "state": {"peer_certificate": user},
        }
        self._received: asyncio.Queue[Any] = asyncio.Queue()
        self._received.put_nowait({"type": "websocket.connect"})
        self._sent: asyncio.Queue[Any] = asyncio.Queue()
        self.task = asyncio.create_task(server.app(dict(scope), self._received.get, self._sent.put))

    async def next(self) -> Any:
        async with asyncio.timeout(HANG_SECONDS):
            return await self._sent.get()

    async def event(self) -> Any:
        message = await self.next()
        assert message["type"] == "websocket.send"
        assert message["text"].endswith("}\n")
        return json.loads(message["text"])

    async def refusal(self) -> tuple[int, dict[bytes, bytes], bytes]:
        """Status, headers and body of a plain response to the upgrade."""
        start, body = await self.next(), await self.next()
        await self.task
        assert (start["type"], body["type"]) == ("websocket.http.response.start", "websocket.http.response.body")
        return start["status"], dict(start["headers"]), body["body"]

    async def leave(self) -> None:
        self._received.put_nowait({"type": "websocket.disconnect", "code": 1000})
        await self.task


async def test_events(server: LocalServer, client: Client) -> None:
    for name in ("one", "two"):
        await client.post(CRONTABS_PATH, crontab(name))
    websocket = WebSocket(server, WATCH)
    assert await websocket.next() == {"type": "websocket.accept", "subprotocol": None}
    # events that came in one piece are separate messages
    assert [(await websocket.event())["object"]["metadata"]["name"] for _ in range(2)] == ["one", "two"]
    await client.merge(f"{CRONTABS_PATH}/one", {"spec": {"image": "line\nbreak \u2028"}})
    changed = await websocket.event()
    assert (changed["type"], changed["object"]["spec"]["image"]) == ("MODIFIED", "line\nbreak \u2028")
    await websocket.leave()
    metrics = (await client.get("/metrics")).body.decode().splitlines()
    (running,) = [line for line in metrics if "longrunning_requests{" in line and "crontabs" in line]
    assert running.endswith(" 0.0")


async def test_events_in_protobuf(server: LocalServer, client: Client) -> None:
    for name in ("one", "two"):
        await client.post(CRONTABS_PATH, crontab(name))
    accept = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    websocket = WebSocket(server, WATCH, accept=accept)
    assert (await websocket.next())["type"] == "websocket.accept"
    for name in ("one", "two"):
        message = await websocket.next()
        (event,) = decode_events(len(message["bytes"]).to_bytes(4) + message["bytes"])
        assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", name)
    await websocket.leave()


async def test_the_end(server: LocalServer) -> None:
    websocket = WebSocket(server, f"{WATCH}&timeoutSeconds=7")
    assert (await websocket.next())["type"] == "websocket.accept"
    server.timers.fire(7)
    assert await websocket.next() == {"type": "websocket.close", "code": 1000}
    await websocket.task


async def test_an_error_is_an_event(server: LocalServer, client: Client) -> None:
    await client.post(CRONTABS_PATH, crontab("one"))
    await server.storage.compact(3)
    websocket = WebSocket(server, f"{WATCH}&resourceVersion=1")
    assert (await websocket.next())["type"] == "websocket.accept"
    event = await websocket.event()
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    assert await websocket.next() == {"type": "websocket.close", "code": 1000}


HANDSHAKES: dict[str, tuple[dict[str, str | None], str | None]] = {
    # headers, subprotocol of the response
    "no protocol": ({}, None),
    "one": ({"sec_websocket_protocol": " a "}, "a"),
    "empty": ({"sec_websocket_protocol": ""}, None),
    "origin a path": ({"origin": "/x"}, None),
    "origin of an extension": ({"origin": "chrome-extension://x"}, None),
    "any key": ({"sec_websocket_key": "x"}, None),
}


@pytest.mark.parametrize(("headers", "protocol"), HANDSHAKES.values(), ids=HANDSHAKES)
async def test_good_handshakes(server: LocalServer, headers: dict[str, str | None], protocol: str | None) -> None:
    websocket = WebSocket(server, WATCH, **headers)
    assert await websocket.next() == {"type": "websocket.accept", "subprotocol": protocol}
    await websocket.leave()


REFUSED: dict[str, tuple[dict[str, str | None], int, bytes]] = {
    "no key": ({"sec_websocket_key": None}, 400, b"mismatch challenge/response"),
    "no version": ({"sec_websocket_version": None}, 400, b"missing or bad WebSocket Version"),
    "old version": ({"sec_websocket_version": "8"}, 400, b"missing or bad WebSocket Version"),
    "no origin": ({"origin": None}, 403, b"a websocket needs an Origin header with a URL"),
    "origin null": ({"origin": "null"}, 403, b"a websocket needs an Origin header with a URL"),
    "two protocols": ({"sec_websocket_protocol": "a,b"}, 400, b"offer one subprotocol beside the token, or none"),
}


@pytest.mark.parametrize(("headers", "status", "text"), REFUSED.values(), ids=REFUSED)
async def test_bad_handshakes(server: LocalServer, headers: dict[str, str | None], status: int, text: bytes) -> None:
    found, named, body = await WebSocket(server, WATCH, **headers).refusal()
    assert (found, body) == (status, text)
    assert named.get(b"sec-websocket-version") == (b"13" if b"Version" in text else None)
    assert server.timers.pending == [], "the watch is over"


async def test_what_is_no_watch_is_plain_http(server: LocalServer, client: Client) -> None:
    status, headers, body = await WebSocket(server, CRONTABS_PATH, sec_websocket_key=None).refusal()
    assert (status, json.loads(body)["kind"], headers[b"audit-id"]) == (200, "CronTabList", b"audit-1")
    status, _, body = await WebSocket(server, "/livez").refusal()
    assert (status, body) == (200, b"ok")


async def test_the_filters_are_the_same(server: LocalServer) -> None:
    status, _, body = await WebSocket(server, WATCH, user=ALICE).refusal()
    assert (status, json.loads(body)["reason"]) == (403, "Forbidden")
    status, headers, _ = await WebSocket(server, WATCH, accept="application/yaml").refusal()
    assert (status, headers[b"cache-control"]) == (406, b"no-cache, private")


async def test_a_client_that_goes_away_before_the_end_frees_the_watch(server: LocalServer) -> None:
    websocket = WebSocket(server, WATCH)
    await websocket.next()
    await until(lambda: bool(server.timers.pending))
    await websocket.leave()
    assert server.timers.pending == []
