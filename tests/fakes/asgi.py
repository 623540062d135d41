"""Client: an HTTP client that calls an ASGI application directly, without a network.

Responses are returned as values. A watch returns its events one at a time, and the client can disconnect at any moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from aggserver.authentication.user import UserInfo
from aggserver.endpoints.request import ASGIApp
from tests.waiting import HANG_SECONDS

Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True)
class Answer:
    """A complete response. Header names are in lower case."""

    status: int
    headers: Headers
    body: bytes

    def header(self, name: str) -> str:
        return next((value.decode() for key, value in self.headers if key == name.encode()), "")

    @property
    def warnings(self) -> list[str]:
        return [value.decode() for key, value in self.headers if key == b"warning"]

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def message(self) -> str:
        """The message of a Status."""
        text: str = self.json()["message"]
        return text


class Exchange:
    """One request and its response. The application runs in its own task. While `taking` is not set, the client reads nothing."""

    def __init__(self, app: ASGIApp, scope: dict[str, Any], body: bytes, *, whole: bool = True) -> None:
        self.status = 0
        self.headers: Headers = []
        self.taking = asyncio.Event()
        self.taking.set()
        self._messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._messages.put_nowait({"type": "http.request", "body": body, "more_body": not whole})
        self._sent: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._rest = b""
        self._over = False
        self.task = asyncio.create_task(self._run(app, scope))

    async def _run(self, app: ASGIApp, scope: dict[str, Any]) -> None:
        try:
            await app(scope, self._messages.get, self._send)
        finally:
            self._sent.put_nowait(None)

    async def _send(self, message: Any) -> None:
        await self.taking.wait()
        self._sent.put_nowait(message)

    def disconnect(self) -> None:
        self._messages.put_nowait({"type": "http.disconnect"})

    async def message(self) -> dict[str, Any] | None:
        """The next message that the application has sent; None if it has ended."""
        async with asyncio.timeout(HANG_SECONDS):
            return await self._sent.get()

    @property
    def pending(self) -> int:
        """The number of messages that were sent and not read yet."""
        return self._sent.qsize()

    async def start(self) -> None:
        """Wait for the head of the response."""
        message = await self.message()
        if message is None:
            await self.task
            raise AssertionError("no answer")
        assert message["type"] == "http.response.start"
        self.status, self.headers = message["status"], list(message["headers"])

    async def piece(self) -> bytes:
        """The next piece of the body; empty at its end."""
        while not self._over:
            message = await self.message()
            self._over = message is None or not message.get("more_body", False)
            if message is not None and message.get("body"):
                body: bytes = message["body"]
                return body
        return b""

    async def event(self) -> Any:
        """The next event of a watch; None at its end."""
        while b"\n" not in self._rest:
            piece = await self.piece()
            if not piece:
                assert not self._rest, "the stream ends within an event"
                return None
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    async def events(self, count: int) -> list[Any]:
        return [await self.event() for _ in range(count)]

    async def rest(self) -> list[Any]:
        """Every event until the end."""
        found = []
        while (event := await self.event()) is not None:
            found.append(event)
        return found


@dataclass(frozen=True)
class Client:
    """Sends requests as `user`, which is in the scope where the client certificate would be (see `fakes.server`)."""

    app: ASGIApp
    user: UserInfo | None

    def as_user(self, user: UserInfo | None) -> Client:
        return replace(self, user=user)

    def send(
        self,
        method: str,
        target: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        whole: bool = True,
        http_version: str = "1.1",
    ) -> Exchange:
        """Start a request. body: bytes, or a JSON value. whole: False if the end of the body is never sent."""
        raw = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        pairs = [(name.lower().encode(), value.encode("latin-1")) for name, value in (headers or {}).items()]
        if raw:
            pairs += [(b"content-type", content_type.encode())] if content_type else []
            pairs += [(b"content-length", str(len(raw)).encode())]
        path, _, query = target.partition("?")
        scope = {
            "type": "http",
            "http_version": http_version,
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": pairs,
            "state": {"peer_certificate": self.user},
        }
        return Exchange(self.app, scope, raw, whole=whole)

    async def request(self, method: str, target: str, body: Any = None, **more: Any) -> Answer:
        exchange = self.send(method, target, body, **more)
        await exchange.start()
        pieces = []
        while piece := await exchange.piece():
            pieces.append(piece)
        await exchange.task
        return Answer(exchange.status, exchange.headers, b"".join(pieces))

    async def get(self, target: str, **more: Any) -> Answer:
        return await self.request("GET", target, **more)

    async def post(self, target: str, body: Any, **more: Any) -> Answer:
        return await self.request("POST", target, body, **more)

    async def put(self, target: str, body: Any, **more: Any) -> Answer:
        return await self.request("PUT", target, body, **more)

    async def merge(self, target: str, body: Any, **more: Any) -> Answer:
        """A JSON merge patch."""
        return await self.request("PATCH", target, body, content_type="application/merge-patch+json", **more)

    async def delete(self, target: str, body: Any = None, **more: Any) -> Answer:
        return await self.request("DELETE", target, body, **more)

    @contextlib.asynccontextmanager
    async def watch(self, target: str, **more: Any) -> AsyncIterator[Exchange]:
        """A running watch. At the end of the block the client disconnects, and waits until the application has returned."""
        exchange = self.send("GET", target, **more)
        await exchange.start()
        try:
            yield exchange
        finally:
            exchange.disconnect()
            await exchange.task
