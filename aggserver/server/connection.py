"""One accepted connection: from the bytes of its socket to ASGI calls and back, by HTTP/2 (`http2/`) or HTTP/1.1 (`http1.py`).

`serving.py` makes a `Connection` for each accepted socket and awaits its `serve`. This module does what both protocols share:
- Joins the writes of one turn of the event loop: a response is one TLS record and one system call, not three.
- Lets writers wait, in turn, while too many bytes are unsent.
- Closes idle connections, with one timer per connection instead of a task per request. These two make 1.5 to 1.7 times as many
  small requests a second on HTTP/1.1 as hypercorn's own loop (316 bytes, TLS, uvloop).
- At shutdown sends GOAWAY on busy HTTP/2 connections, so that clients open their next stream elsewhere, and closes idle ones.
Source: hypercorn 0.18 asyncio/tcp_server.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sys
from collections import deque
from collections.abc import Callable
from time import time
from typing import Any, cast
from wsgiref.handlers import format_date_time

from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.typing import AppWrapper, ConnectionState, TaskGroup
from hypercorn.utils import parse_socket_addr

from aggserver.server.http1 import HTTP1
from aggserver.server.http2.connection import HTTP2
from aggserver.server.http2.protocol import MAX_STREAMS
from aggserver.server.requests import ASGIApp, AtOnce, Requests, never
from aggserver.server.tls import knew_all_cas, peer_certificate

__all__ = ["ASGIApp", "Connection", "EngineConfig", "WorkerContext"]

log = logging.getLogger(__name__)

# Longer than the 90 s after which Go's client closes an idle connection. Otherwise a request could arrive while we close it.
KEEP_ALIVE_SECONDS = 120

# This many joined bytes are written without waiting for the end of the turn: four full TLS records.
WRITE_NOW = 64 * 1024

# Unsent bytes of a connection above which a writer waits. The event loops' own limit for TLS is 512 KiB, which is 50 MB with a
# hundred clients that read nothing.
UNSENT = 32 * 1024

READ_SIZE = 64 * 1024

# Bytes that are read and dropped after the last that mattered, so that a client that ends its connection is noticed.
MAX_DROPPED = 128 * 1024

# How long a client has to read a GOAWAY, and everything before it, until its connection is closed: Go's goAwayTimeout.
LINGER_SECONDS = 1.0

# Unsent bytes above which no more HTTP/2 frames of a client are read: it may request answers (PING, SETTINGS) faster than it
# reads them. This is more than the unsent responses of a busy connection.
MAX_UNREAD = 16 * WRITE_NOW


class EngineConfig(Config):
    """hypercorn's settings for an API server, and a Date header that is formatted once a second."""

    accesslog = None
    errorlog = log
    include_server_header = False
    keep_alive_max_requests = sys.maxsize
    keep_alive_timeout = KEEP_ALIVE_SECONDS
    h2_max_concurrent_streams = MAX_STREAMS
    h11_max_incomplete_size = 64 * 1024  # bytes of a request's head: bearer tokens, selectors and X-Remote-Extra headers are long

    _date: tuple[int, list[tuple[bytes, bytes]]] = (0, [])

    def response_headers(self, protocol: str) -> list[tuple[bytes, bytes]]:
        second = int(time())
        if self._date[0] != second:
            self._date = (second, [(b"date", format_date_time(second).encode("ascii"))])
        return self._date[1]


class Connection(asyncio.Protocol):
    """One accepted connection. opened: called with it when its handshake is done; then `serve` is to be awaited.

    at_once: answers requests of HTTP/2 that need no task, before `app` is asked.

    HTTP/2's frames are handled in the event loop's own call; waking a task for each read would take longer than the frames of a
    get. HTTP/1.1 reads from a stream. is_full: too many unsent bytes wait for the client.
    """

    def __init__(
        self,
        app: ASGIApp,
        config: Config,
        context: WorkerContext,
        opened: Callable[[Connection], None],
        at_once: AtOnce = never,
    ) -> None:
        self._app = app
        self._at_once = at_once
        self._config = config
        self._max_streams = config.h2_max_concurrent_streams
        self._context = context
        self._opened = opened
        self._loop = asyncio.get_running_loop()
        self._requests = Requests(self._loop, self._failed)
        self._transport: asyncio.Transport
        self._state: dict[str, Any] = {}
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._flush_due = False
        self._idle_since: float | None = self._loop.time()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._http1: HTTP1 | None = None
        self._http2: HTTP2 | None = None
        self._reader: asyncio.StreamReader | None = None  # HTTP/1.1's
        self._read_all: asyncio.Future[None] = self._loop.create_future()  # done when HTTP/2 reads no more
        self._is_paused = False  # HTTP/2 handles what it has read before it reads more
        self._turn_due = False
        self._dropped = 0  # bytes read after the last that mattered
        self._drainers: deque[asyncio.Future[None]] = deque()
        self._lost: asyncio.Future[None] = self._loop.create_future()  # done when the socket is closed
        self.is_full = False

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)
        transport.set_write_buffer_limits(high=UNSENT)
        ssl_object = transport.get_extra_info("ssl_object")
        self._state = {"peer_certificate": peer_certificate(ssl_object), "knew_all_cas": knew_all_cas(ssl_object)}
        if ssl_object is not None and ssl_object.selected_alpn_protocol() == "h2":
            self._http2 = self._make_http2()
            self._http2.initiate()
        else:
            self._reader = asyncio.StreamReader(loop=self._loop)
            self._reader.set_transport(transport)
        self._opened(self)

    def data_received(self, data: bytes) -> None:
        if self._reader is not None:
            self._reader.feed_data(data)
        elif self._http2 is not None and not self._http2.over:
            self._handle_frames(data)
        else:
            self._dropped += len(data)
            if self._dropped > MAX_DROPPED:
                self._transport.pause_reading()

    def eof_received(self) -> bool:
        """Returns whether the connection stays half open: a client of plain HTTP/1.1 may have sent its last request."""
        self._end_reading(None)
        return self._transport.get_extra_info("ssl_object") is None

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_reading(exc)
        self.is_full = False
        self._wake_drainers()
        if not self._lost.done():
            self._lost.set_result(None)

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False
        self._wake_drainers()
        if self._is_paused:
            self._call_next_turn()

    def _end_reading(self, error: Exception | None) -> None:
        if self._reader is not None:
            if error is None:
                self._reader.feed_eof()
            else:
                self._reader.set_exception(error)
        if not self._read_all.done():
            self._read_all.set_result(None)

    async def serve(self) -> None:
        """Serve the connection until either side has closed it and the last request has ended. Raises nothing."""
        try:
            async with self._requests:
                if self._http2 is not None:
                    await self._serve_http2(self._http2)
                elif self._reader is not None:
                    await self._serve_http1(self._reader)
        except OSError as error:
            # The client is gone, and its requests have been notified. The stream reader keeps the error. Its traceback refers to
            # these frames, so it is removed to let this connection's memory be freed.
            error.__traceback__ = None
        except Exception as error:
            self._failed(error)
        finally:
            await self._close()
            # Breaks the reference cycles, so that some 100 KB are freed now and not at the next garbage collection.
            self._http1 = self._http2 = None
            self._requests.release()

    # HTTP/2

    def _make_http2(self) -> HTTP2:
        socket = self._transport.get_extra_info("socket")
        return HTTP2(
            self._app,
            self._requests,
            self,
            {
                "type": "http",
                "asgi": {"spec_version": "2.1", "version": "3.0"},
                "http_version": "2",
                "scheme": "https",
                "root_path": "",
                "client": parse_socket_addr(socket.family, socket.getpeername()),
                "server": parse_socket_addr(socket.family, socket.getsockname()),
                "state": self._state,
                "extensions": {},
            },
            self._at_once,
            self._max_streams,
        )

    async def _serve_http2(self, http2: HTTP2) -> None:
        self._watch_idle()
        await self._read_all
        http2.closed()
        if http2.failed:
            await self._linger()  # nothing more is read: the client may be flooding us
            self._transport.abort()
        await self._close()

    def _handle_frames(self, data: bytes) -> None:
        """Handle the frames of one turn, and stop reading while there are more, or while the client does not read our answers."""
        http2 = self._http2
        if http2 is None:
            return
        try:
            more = http2.receive(data)
        except Exception as error:
            self._failed(error)
            return
        is_unread = self._transport.get_write_buffer_size() > MAX_UNREAD
        if http2.over:
            self._end_reading(None)
        elif more or is_unread:
            self._is_paused = True
            self._transport.pause_reading()
            if not is_unread:
                self._call_next_turn()
        elif self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()

    def _call_next_turn(self) -> None:
        if not self._turn_due:
            self._turn_due = True
            self._loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._turn_due = False
        self._handle_frames(b"")

    async def _linger(self) -> None:
        """Give the client time to read a GOAWAY. A close with unread bytes would reset the connection and lose the GOAWAY."""
        self._flush()
        with contextlib.suppress(OSError):  # TimeoutError is one
            async with asyncio.timeout(LINGER_SECONDS):
                await asyncio.shield(self._lost)

    # HTTP/1.1

    async def _serve_http1(self, reader: asyncio.StreamReader) -> None:
        connected = self._transport.get_extra_info("socket")
        self._http1 = http1 = HTTP1(
            cast(AppWrapper, self._app),
            self._config,
            self._context,
            cast(TaskGroup, self._requests),
            ConnectionState(self._state),
            self._transport.get_extra_info("ssl_object") is not None,
            parse_socket_addr(connected.family, connected.getpeername()),
            parse_socket_addr(connected.family, connected.getsockname()),
            self._send,
        )
        try:
            await http1.initiate()
            self._watch_idle()
            while data := await reader.read(READ_SIZE):
                await http1.handle(RawData(data))
        finally:
            # Also after a reset. Otherwise the request would go on: a watch for half an hour, with all its memory.
            await http1.handle(Closed())

    def stop(self) -> None:
        """Close now if idle, otherwise after the last request. HTTP/2 clients get a GOAWAY, to open new streams elsewhere."""
        if self._idle_since is not None:
            self._requests.spawn(self._end)
        elif self._http2 is not None:
            self._http2.goodbye()

    def abort(self) -> None:
        """Drops the connection and cancels its requests."""
        self._transport.abort()
        self._requests.cancel()

    async def _send(self, event: Event) -> None:
        """Handle an event of the HTTP/1.1 protocol: bytes to write, a close, or whether a request is in progress."""
        if isinstance(event, RawData):
            self.write(event.data)
            await self.drain()
        elif isinstance(event, Closed):
            await self._close()
        elif isinstance(event, Updated):
            self.idle(event.idle)

    # `http2.sender.Wire`, which HTTP/2 calls

    def write(self, data: bytes) -> None:
        if len(data) >= WRITE_NOW:
            self._flush()  # joining them would copy megabytes to save one small write
            self._put(data)
        else:
            self._pending.append(data)
            self._pending_bytes += len(data)
            if self._pending_bytes >= WRITE_NOW:
                self._flush()
            elif not self._flush_due:
                self._flush_due = True
                self._loop.call_soon(self._flush)

    async def drain(self) -> None:
        """Waits in turn: all writers at once would fill the buffer again, each by as much as it may write without waiting."""
        while self.is_full:
            waiter = self._loop.create_future()
            self._drainers.append(waiter)
            await waiter

    def _wake_drainers(self) -> None:
        """Wake the first writer that waits, and the next one when it has written."""
        if self.is_full:
            return
        while self._drainers:
            waiter = self._drainers.popleft()
            if not waiter.done():
                waiter.set_result(None)
                self._loop.call_soon(self._wake_drainers)  # behind the waiter's task
                return

    def idle(self, is_idle: bool) -> None:
        self._idle_since = self._loop.time() if is_idle else None
        if is_idle and self._context.terminated.is_set():
            self._requests.spawn(self._end)
        elif is_idle and self._http2 is not None and self._http2.leaving:
            self._requests.spawn(self._leave)

    def date(self) -> list[tuple[bytes, bytes]]:
        return self._config.response_headers("h2")

    def _flush(self) -> None:
        self._flush_due = False
        if self._pending:
            self._put(b"".join(self._pending))
            self._pending.clear()
            self._pending_bytes = 0

    def _put(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    def _watch_idle(self) -> None:
        """Close after the idle time. Requests only record when they end; the timer checks how long ago that was."""
        since = self._idle_since
        due = (since if since is not None else self._loop.time()) + self._config.keep_alive_timeout
        if due <= self._loop.time():
            self._requests.spawn(self._end)
        else:
            self._idle_timer = self._loop.call_at(due, self._watch_idle)

    async def _leave(self) -> None:
        await self._linger()
        await self._end()

    async def _end(self) -> None:
        """Close from our side. Remaining requests are notified of a disconnect of their client."""
        if self._http1 is not None:
            await self._http1.handle(Closed())
        if self._http2 is not None:
            self._http2.closed()
        await self._close(wait_for_client=False)

    async def _close(self, *, wait_for_client: bool = True) -> None:
        """Close. wait_for_client: wait until the client ends TLS, because our buffers may still hold data for it."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._flush()
        if not self._transport.is_closing():
            self._transport.close()
            if not wait_for_client and not self._transport.get_write_buffer_size():
                self._stop_reading()
        await asyncio.shield(self._lost)

    def _stop_reading(self) -> None:
        """End the client's side of the connection too: many clients never read from an idle connection, and would not close it.

        TLS then ends at once, and the socket is closed when everything is written. asyncio has only `abort` for this, which drops
        unsent bytes. The descriptor is duplicated because uvloop's sockets can't be shut down.
        """
        with socket.socket(fileno=os.dup(self._transport.get_extra_info("socket").fileno())) as same:
            same.shutdown(socket.SHUT_RD)

    def _failed(self, error: BaseException) -> None:
        """Handle an unexpected error of a protocol: log one line and close only this connection."""
        if not isinstance(error, OSError):
            log.error("connection closed: %s: %s", type(error).__name__, error)
        self._transport.abort()
