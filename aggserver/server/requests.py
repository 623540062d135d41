"""Requests of one connection: the tasks that run the application, and what each is handed as `receive`.

Shared by HTTP/1.1 (hypercorn's protocol, in `connection.py`) and HTTP/2 (`http2.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any, cast

from hypercorn.config import Config
from hypercorn.typing import AppWrapper

__all__ = ["STALL_SECONDS", "STREAM_WINDOW", "ASGIApp", "Inbox", "Message", "Requests"]

log = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Any], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

# Bytes of one request's body that may wait for the application (upstream: 99 % of all requests are smaller and in in one frame).
STREAM_WINDOW = 256 * 1024

# A client that takes nothing of what there is for it is let go after so many seconds: the time that upstream gives a request
# (--request-timeout). kube-apiserver itself waits for such a client as long as TCP does: it sets no limit on writes.
STALL_SECONDS = 60.0


class Inbox:
    """The events of one request on their way to the application: what it awaits as `receive`.

    Bounded by bytes, not by events: by waiting when `limit` bytes are unread, or by HTTP/2's flow control, which is told what was
    `consumed`. Once the application has returned, events are dropped; after the disconnect, every further `get` repeats it.
    """

    __slots__ = ("_consumed", "_disconnected", "_done", "_events", "_getter", "_limit", "_room", "_unread")

    def __init__(self, consumed: Callable[[int], None] | None = None, limit: int = STREAM_WINDOW) -> None:
        self._events: deque[Message] = deque()
        self._limit = limit
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
        """As hypercorn's streams put: they wait for room, since HTTP/1.1 has no flow control of its own."""
        self.put(event)
        while self._unread > self._limit and not self._done:
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
        """The application returned: drop what it did not read, and let the connection read on."""
        self._done = True
        self._events.clear()
        self._report(self._unread)
        self._unread = 0

    def _report(self, size: int) -> None:
        _wake(self._room)
        if size and self._consumed is not None:
            self._consumed(size)


class Requests:
    """The tasks of one connection; what hypercorn's HTTP/1.1 has as its TaskGroup, without the fate shared by all."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_failure: Callable[[BaseException], None]) -> None:
        self._loop = loop
        self._on_failure = on_failure
        self.tasks: set[asyncio.Task[None]] = set()

    async def spawn_app(self, app: AppWrapper, config: Config, scope: Any, send: Any) -> Inbox:
        inbox = Inbox()
        self.call(cast(ASGIApp, app), scope, inbox, send)
        return inbox

    def call(self, app: ASGIApp, scope: Scope, inbox: Inbox, send: Send) -> None:
        """Runs the application on one request. After it, in every case, `send` is called with None."""
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
        """Nobody is told of failures any more: whoever was is free."""
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
    """One request: the application, and after it the end of the stream, in every case."""
    try:
        await app(scope, inbox.get, send)
    except Exception:
        # what an application lets out is a bug of ours (filters answer everything else), and the only traceback this room prints
        log.exception("the application failed on %s %s", scope.get("method", "websocket"), scope["path"])
    finally:
        inbox.finish()
        await send(None)


def _ignore(error: BaseException) -> None:
    """Where there is nobody left to hear of it."""


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)
