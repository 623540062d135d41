"""The requests of one connection: the tasks that run the application, and the ASGI `receive` of each.

Shared by HTTP/1.1 (`http1.py`) and HTTP/2 (`http2/`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any, Protocol, cast

from hypercorn.config import Config
from hypercorn.typing import AppWrapper

from aggserver.server.http2.protocol import STREAM_WINDOW

__all__ = ["STALL_SECONDS", "ASGIApp", "AtOnce", "Inbox", "Message", "Requests", "WholeResponse", "never"]

log = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Any], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]


class WholeResponse(Protocol):
    """A whole response. headers: with `connection: close` if the connection is to end after it."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> list[tuple[bytes, bytes]]: ...
    @property
    def body(self) -> bytes: ...


# (ASGI scope of a request without a body, bytes that the response's body may have) -> the response; None if the application is to
# be asked.
AtOnce = Callable[[Scope, int], WholeResponse | None]


def never(scope: Scope, room: int) -> WholeResponse | None:
    """For an application that always waits."""
    return None


# Seconds after which we drop a client that does not read what we send: the same time that upstream allows for a request
# (--request-timeout). kube-apiserver itself has no limit for writes and waits as long as TCP does.
STALL_SECONDS = 60.0


class Inbox:
    """The queue of one request's events to the application. Its `get` is ASGI's `receive`.

    HTTP/1.1 waits while more than STREAM_WINDOW bytes are unread, as many as HTTP/2's flow control allows. consumed: called with
    the number of bytes that the application has read, for flow control. Once the application has returned, events are dropped;
    after a disconnect, each further `get` returns the disconnect again.
    """

    __slots__ = ("_consumed", "_disconnected", "_done", "_events", "_getter", "_room", "_unread")

    def __init__(self, consumed: Callable[[int], None] | None = None) -> None:
        self._events: deque[Message] = deque()
        self._unread = 0
        self._done = False
        self._disconnected: Message | None = None
        self._getter: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._consumed = consumed

    def put(self, event: Message) -> None:
        size = len(event.get("body", b""))
        if self._done:
            self._report(size)
            return
        self._events.append(event)
        self._unread += size
        _wake(self._getter)

    async def __call__(self, event: Message) -> None:
        """Like `put`, for hypercorn's streams: waits for room, because HTTP/1.1 has no flow control of its own."""
        self.put(event)
        while self._unread > STREAM_WINDOW and not self._done:
            self._room = asyncio.get_running_loop().create_future()
            await self._room

    async def get(self) -> Message:
        while not self._events:
            if self._disconnected is not None:
                return self._disconnected
            self._getter = asyncio.get_running_loop().create_future()
            await self._getter
        event = self._events.popleft()
        if event["type"].endswith(".disconnect"):
            self._disconnected = event
        size = len(event.get("body", b""))
        self._unread -= size
        self._report(size)
        return event

    def finish(self) -> None:
        """Call when the application has returned: drops unread events, so that reading from the connection can go on."""
        self._done = True
        self._events.clear()
        self._report(self._unread)
        self._unread = 0

    def _report(self, size: int) -> None:
        _wake(self._room)
        if size and self._consumed is not None:
            self._consumed(size)


class Requests:
    """The tasks of one connection. hypercorn's HTTP/1.1 uses it as its TaskGroup, but a failed task cancels no other.

    on_failure: called with the error of a failed task.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, on_failure: Callable[[BaseException], None]) -> None:
        self._loop = loop
        self._on_failure = on_failure
        self.tasks: set[asyncio.Task[None]] = set()

    async def spawn_app(self, app: AppWrapper, config: Config, scope: Any, send: Any) -> Inbox:
        inbox = Inbox()
        self.call(cast(ASGIApp, app), scope, inbox, send)
        return inbox

    def call(self, app: ASGIApp, scope: Scope, inbox: Inbox, send: Send) -> None:
        """Run the application for one request. Afterwards, `send` is called with None, even if it failed."""
        self._start(_call(app, scope, inbox, send))

    def spawn(self, func: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        self._start(func(*args))

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_failure(error)

    def release(self) -> None:
        """Stop reporting failures, so that the object of `on_failure` can be freed."""
        self._on_failure = _ignore

    def cancel(self) -> None:
        for task in tuple(self.tasks):
            task.cancel()

    async def __aenter__(self) -> Requests:
        return self

    async def __aexit__(self, exc_type: type, exc_value: BaseException, tb: Any) -> None:
        while self.tasks:
            await asyncio.wait(self.tasks)


async def _call(app: ASGIApp, scope: Scope, inbox: Inbox, send: Send) -> None:
    """Run the application, then end the stream, even if it failed."""
    try:
        await app(scope, inbox.get, send)
    except Exception:
        # A bug, since the filters answer every other error; so it is logged with its traceback.
        log.exception("the application failed on %s %s", scope.get("method", "websocket"), scope["path"])
    finally:
        inbox.finish()
        await send(None)


def _ignore(error: BaseException) -> None:
    """The failure handler after `release`."""


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
