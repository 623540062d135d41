"""Web applications that users mount beside their resources: FastAPI, Starlette, Django, any ASGI application.

They have a port of their own with plain HTTP, so that no path of theirs meets one of the API, and nobody mistakes a user of
theirs for one that the front proxy has named: identity headers are removed. An application is started and ended by ASGI's
lifespan protocol; one that does not start is answered with 503, and stops nothing else.
Source: ASGI 3.0, the HTTP, websocket and lifespan protocols.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Any

from aggserver.app.engine import listen_at
from aggserver.endpoints.request import ASGIApp, Message, Receive, Scope, Send
from aggserver.options import Options
from aggserver.server.serving import Server

__all__ = ["WebApps"]

log = logging.getLogger("aggserver.web")

# Seconds that an application may take to start, and to end.
_START_SECONDS = 60.0
_END_SECONDS = 10.0
_IDENTITY = b"x-remote-"


class WebApps:
    """mounts: by path, such as `/ui`. `run` is the task, `asgi` the application of the port."""

    def __init__(self, mounts: Mapping[str, ASGIApp], options: Options) -> None:
        # The longest first: /ui/admin before /ui.
        self._mounts = {path: _Mounted(path, mounts[path]) for path in sorted(mounts, key=len, reverse=True)}
        self._options = options

    async def run(self) -> None:
        """Until cancelled. Raises StartError if the port can't be had."""
        socket = listen_at(self._options.bind_address, self._options.web_port or 0, "--web-port")
        server = Server(self.asgi, [socket], None, on_stopping=_nothing, on_shutdown=_nothing, grace=_END_SECONDS)
        async with contextlib.AsyncExitStack() as stack:
            for mounted in self._mounts.values():
                await mounted.start()
                stack.push_async_callback(mounted.end)
            await server.start()
            host = self._options.bind_address
            log.info("web applications on http://%s:%d: %s", host, server.port, ", ".join(sorted(self._mounts)))
            serving = asyncio.ensure_future(server.run())
            try:
                await asyncio.shield(serving)
            finally:
                server.request_stop()
                server.request_stop()  # the second one waits for nobody
                await asyncio.gather(serving, return_exceptions=True)

    async def asgi(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        for prefix, mounted in self._mounts.items():
            if path == prefix or path.startswith(prefix.rstrip("/") + "/"):
                await mounted(scope, receive, send)
                return
        await _plain(scope, send, 404, b"404 page not found\n")


class _Mounted:
    """One application and its lifespan."""

    def __init__(self, prefix: str, app: ASGIApp) -> None:
        self._prefix = prefix.rstrip("/")
        self._app = app
        self._events: asyncio.Queue[Message] = asyncio.Queue()
        self._started: asyncio.Future[str] | None = None
        self._ended = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._state: dict[str, Any] = {}
        self._why = "it has not started"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._why:
            await _plain(scope, send, 503, f"{self._prefix}: {self._why}\n".encode())
            return
        headers = [(name, value) for name, value in scope["headers"] if not name.startswith(_IDENTITY)]
        root = scope.get("root_path", "") + self._prefix
        await self._app({**scope, "headers": headers, "root_path": root, "state": dict(self._state)}, receive, send)

    async def start(self) -> None:
        started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._started = started
        self._events.put_nowait({"type": "lifespan.startup"})
        self._task = asyncio.create_task(self._lifespan(started))
        try:
            async with asyncio.timeout(_START_SECONDS):
                self._why = await started
        except TimeoutError:
            self._why = "it did not start in time"
        if self._why:
            log.error("the web application at %s does not run: %s", self._prefix or "/", self._why)

    async def end(self) -> None:
        self._events.put_nowait({"type": "lifespan.shutdown"})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                await self._ended.wait()
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _lifespan(self, started: asyncio.Future[str]) -> None:
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self._state}

        async def send(message: Message) -> None:
            kind = message["type"]
            if kind.startswith("lifespan.startup") and not started.done():
                failed = kind == "lifespan.startup.failed"
                started.set_result(str(message.get("message") or "its start has failed") if failed else "")
            elif kind.startswith("lifespan.shutdown"):
                self._ended.set()

        try:
            await self._app(scope, self._events.get, send)
        except Exception as error:
            # As the protocol says: an application without lifespan raises, and is served without.
            log.debug("the web application at %s has no lifespan: %s", self._prefix or "/", error)
        finally:
            self._ended.set()
            if not started.done():
                started.set_result("")


def _nothing() -> None:
    return None


async def _plain(scope: Scope, send: Send, status: int, body: bytes) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1000})
        return
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
