"""One connection: bytes of a socket to ASGI calls and back, through hypercorn's HTTP/1.1 and HTTP/2 protocols.

`serving.py` makes a `Connection` of every accepted socket and waits for its `serve`. hypercorn has the protocols, written for the
whole web; an API server differs where this module does:
- Clients multiplex watches and writes on one connection for hours, so no request may harm its neighbours: a body nobody reads, a
  path that is not ASCII and data after an early answer end with their stream (hypercorn 0.18 ends the connection, or hangs it).
- What an application has not read is bounded by HTTP/2's flow control: the window opens as the body is consumed.
- Writes of one turn of the event loop are joined: a response is one TLS record and one system call, not three.
- The idle time is one timer per connection, not a task per request. These two and unchecked response headers make small requests
  1.5 to 1.7 times as many on HTTP/1.1 and 1.6 to 2.8 times on HTTP/2 as with hypercorn's own loop (316 bytes, TLS, uvloop).
- At shutdown busy HTTP/2 connections get a GOAWAY, so that clients open their next stream elsewhere, and idle ones are closed.
Sources: hypercorn 0.18 asyncio/tcp_server.py and protocol/h2.py; limits of k8s.io/apiserver pkg/server/secure_serving.go,
v0.36.3.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from functools import partial
from time import time
from typing import Any, cast
from wsgiref.handlers import format_date_time

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings
from hpack import Encoder, NeverIndexedHeaderTuple
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol import ProtocolWrapper
from hypercorn.protocol.events import Body, EndBody, EndData, Response, StreamClosed
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.protocol.h2 import H2Protocol
from hypercorn.typing import AppWrapper, ConnectionState
from hypercorn.utils import parse_socket_addr
from hyperframe.frame import GoAwayFrame

__all__ = ["ASGIApp", "Connection", "EngineConfig", "WorkerContext"]

log = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Callable[[], Awaitable[Message]], Send], Awaitable[None]]

# More than the 90 s after which Go's client closes an idle connection: were ours the shorter time, a request could meet the
# close.
KEEP_ALIVE_SECONDS = 120

# Upstream's number for aggregated servers (pkg/server/options/recommended.go): the aggregator sends everybody's watches down one
# connection. kube-apiserver itself has 100.
MAX_STREAMS = 1000

# A client that opens streams and resets them at once leaves requests behind that it no longer counts (CVE-2023-44487). Go gives
# up on a connection at 4 times the limit, and so do we.
MAX_REQUESTS_PER_CONNECTION = 4 * MAX_STREAMS

# Bytes of a body that may wait for the application: of one request (upstream: 99 % of all requests are smaller and come in one
# frame) and of all of a connection.
STREAM_WINDOW = 256 * 1024
CONNECTION_WINDOW = 100 * STREAM_WINDOW

# Bytes to gather before a write that does not wait for the end of the turn: four full TLS records.
WRITE_NOW = 64 * 1024

READ_SIZE = 64 * 1024

# Headers with a new value in nearly every answer: kept out of HTTP/2's table of repeated ones, where each would push another out.
UNIQUE_HEADERS = frozenset({b"audit-id", b"content-length", b"etag"})


class EngineConfig(Config):
    """hypercorn's settings, as an API server needs them, and a Date header made once a second."""

    accesslog = None
    errorlog = log
    include_server_header = False
    keep_alive_max_requests = sys.maxsize  # the default of 1,000 cuts an HTTP/2 connection off in the middle of its watches
    keep_alive_timeout = KEEP_ALIVE_SECONDS
    h2_max_concurrent_streams = MAX_STREAMS
    h2_max_inbound_frame_size = STREAM_WINDOW
    h11_max_incomplete_size = 64 * 1024  # of a request's head; bearer tokens, selectors and X-Remote-Extra headers are long

    _date: tuple[int, list[tuple[bytes, bytes]]] = (0, [])

    def response_headers(self, protocol: str) -> list[tuple[bytes, bytes]]:
        second = int(time())
        if self._date[0] != second:
            self._date = (second, [(b"date", format_date_time(second).encode("ascii"))])
        return self._date[1]


class Inbox:
    """The events of one request on their way to the application: what it awaits as `receive`.

    Bounded by bytes, not by events: putting waits when `limit` bytes are unread, unless flow control bounds them (`consumed` is
    set). Once the application has returned, events are dropped; after the disconnect, every further `get` repeats it.
    """

    __slots__ = ("_disconnected", "_done", "_events", "_getter", "_limit", "_room", "_unread", "consumed")

    def __init__(self, limit: int = STREAM_WINDOW) -> None:
        self._events: deque[Message] = deque()
        self._limit = limit
        self._unread = 0
        self._done = False
        self._disconnected: Message | None = None
        self._getter: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self.consumed: Callable[[int], None] | None = None

    async def __call__(self, event: Message) -> None:
        """Put: the name hypercorn's streams call it by is `app_put`."""
        size = len(event.get("body", b""))
        if self._done:
            self._report(size)
            return
        self._events.append(event)
        self._unread += size
        _wake(self._getter)
        while self._unread > self._limit and self.consumed is None and not self._done:
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
        if size and self.consumed is not None:
            self.consumed(size)


class Requests:
    """The tasks of one connection, as hypercorn's protocols start them (its TaskGroup, without the fate shared by all)."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_failure: Callable[[BaseException], None]) -> None:
        self._loop = loop
        self._on_failure = on_failure
        self.tasks: set[asyncio.Task[None]] = set()

    async def spawn_app(self, app: AppWrapper, config: Config, scope: Any, send: Any) -> Inbox:
        inbox = Inbox()
        self._start(_call(cast(ASGIApp, app), scope, inbox, send))
        return inbox

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

    def cancel(self) -> None:
        for task in tuple(self.tasks):
            task.cancel()

    async def __aenter__(self) -> Requests:
        return self

    async def __aexit__(self, exc_type: type, exc_value: BaseException, tb: Any) -> None:
        while self.tasks:
            await asyncio.wait(self.tasks)


async def _call(app: ASGIApp, scope: Scope, inbox: Inbox, send: Callable[[Any], Awaitable[None]]) -> None:
    """One request: the application, and after it the end of the stream, in every case."""
    try:
        await app(scope, inbox.get, send)
    except Exception:
        # what an application lets out is a bug of ours (filters answer everything else), and the only traceback this room prints
        log.exception("the application failed on %s %s", scope.get("method", ""), scope.get("path", ""))
    finally:
        inbox.finish()
        await send(None)


class PlainEncoder(Encoder):
    """HPACK without Huffman codes: they take 4 % of the time of a small answer to save some ten bytes of it."""

    def encode(self, headers: Any, huffman: bool = False) -> bytes:
        return super().encode(headers, huffman)


class HTTP2(H2Protocol):
    """hypercorn's HTTP/2 with flow control by consumption, streams that fail alone, and GOAWAY."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._requests = cast(Requests, self.task_group)
        # What we send is made by our own code, in lower case: checking and rewriting it again cost a fifth of each response.
        self.connection = h2.connection.H2Connection(
            config=h2.config.H2Configuration(
                client_side=False,
                header_encoding=None,
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        self.connection.encoder = PlainEncoder()
        codes = h2.settings.SettingCodes
        self.connection.local_settings = h2.settings.Settings(
            client=False,
            initial_values={
                codes.MAX_CONCURRENT_STREAMS: self.config.h2_max_concurrent_streams,
                codes.MAX_HEADER_LIST_SIZE: self.config.h2_max_header_list_size,
                codes.MAX_FRAME_SIZE: self.config.h2_max_inbound_frame_size,
                codes.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
                codes.ENABLE_CONNECT_PROTOCOL: 1,
            },
        )
        # the library copies this one from the settings it began with, before they could be replaced
        self.connection.max_inbound_frame_size = self.config.h2_max_inbound_frame_size

    async def initiate(self, headers: list[tuple[bytes, bytes]] | None = None, settings: bytes | None = None) -> None:
        await super().initiate(headers, settings)
        self.connection.increment_flow_control_window(CONNECTION_WINDOW - self.connection.inbound_flow_control_window)
        await self._flush()

    async def goodbye(self) -> None:
        """GOAWAY with the last stream seen: those up to it are finished, the client retries later ones elsewhere.

        The frame is written past the library, which would refuse to send anything on a connection it has closed.
        """
        last = self.connection.highest_inbound_stream_id
        frame = GoAwayFrame(0, last_stream_id=last, error_code=h2.errors.ErrorCodes.NO_ERROR).serialize()
        await self.send(RawData(data=frame))

    async def stream_send(self, event: StreamEvent) -> None:
        if isinstance(event, Response):
            event = Response(event.stream_id, [_packed(*pair) for pair in event.headers], event.status_code)
        buffer = self.stream_buffers.get(event.stream_id)
        if buffer is not None and isinstance(event, EndBody | EndData):
            # What fits goes out with the head, in this turn. hypercorn leaves all to its sending task, which comes too late for
            # the end of a stream if the connection closes meanwhile.
            buffer.set_complete()
            await self._send_data(event.stream_id)
            if event.stream_id not in self.stream_buffers:
                return
        elif buffer is not None and isinstance(event, StreamClosed) and not buffer.complete:
            # the application failed half-way: without a reset the client would wait for the rest for ever
            self._refuse(event.stream_id, h2.errors.ErrorCodes.INTERNAL_ERROR)
            await self._forget(event.stream_id)
            await self._flush()
        await super().stream_send(event)

    async def _handle_events(self, events: list[h2.events.Event]) -> None:
        for event in events:
            if isinstance(event, h2.events.DataReceived):
                await self._receive(event)
                continue
            await super()._handle_events([event])
            if isinstance(event, h2.events.StreamReset):
                await self._forget(event.stream_id)
            if isinstance(event, h2.events.StreamReset | h2.events.RequestReceived) and not self.streams:
                # hypercorn counts a connection as busy after a stream that was reset or refused
                await self.send(Updated(idle=True))
        await self._flush()

    async def _forget(self, stream_id: int) -> None:
        """Let go of what a stream still had to send; hypercorn keeps it for as long as the connection lives."""
        if (buffer := self.stream_buffers.pop(stream_id, None)) is not None:
            await buffer.close()
            self.priority.remove_stream(stream_id)

    async def _receive(self, event: h2.events.DataReceived) -> None:
        """Data: the body's part of the window opens when it is read, that of padding and of unwanted data at once."""
        stream = self.streams.get(event.stream_id)
        length = event.flow_controlled_length
        if stream is None:
            self._consumed(event.stream_id, length)
            self._refuse(event.stream_id, h2.errors.ErrorCodes.NO_ERROR)  # RFC 9113, 8.1: answered, send no more
            return
        inbox = getattr(stream, "app_put", None)
        if isinstance(inbox, Inbox) and inbox.consumed is not None:
            length -= len(event.data)
        if length:
            self._consumed(event.stream_id, length)
        await stream.handle(Body(stream_id=event.stream_id, data=event.data))

    def _consumed(self, stream_id: int, size: int) -> None:
        try:
            self.connection.acknowledge_received_data(size, stream_id)
        except h2.exceptions.ProtocolError:
            return  # the connection is closed; nobody waits for the window
        if data := self.connection.data_to_send():
            self._requests.spawn(self._send_bytes, data)

    async def _send_bytes(self, data: bytes) -> None:
        await self.send(RawData(data=data))

    def _refuse(self, stream_id: int, code: h2.errors.ErrorCodes) -> None:
        try:
            self.connection.reset_stream(stream_id, code)
        except h2.exceptions.ProtocolError:
            return  # it was reset already

    async def _create_stream(self, request: h2.events.RequestReceived) -> None:
        stream_id = request.stream_id
        if len(self._requests.tasks) > MAX_REQUESTS_PER_CONNECTION:
            self.connection.close_connection(h2.errors.ErrorCodes.ENHANCE_YOUR_CALM)
            await self._flush()
            await self.send(Closed())
            return
        pseudo = dict(request.headers)
        if not pseudo.get(b":path", b"\xff").isascii() or not pseudo[b":method"].isascii():
            # a plain CONNECT has no path, and URLs are escaped; the code behind would end the connection over either
            self._refuse(stream_id, h2.errors.ErrorCodes.PROTOCOL_ERROR)
            return
        await super()._create_stream(request)
        inbox = getattr(self.streams[stream_id], "app_put", None)
        if isinstance(inbox, Inbox) and self.streams[stream_id].scope["type"] == "http":
            inbox.consumed = partial(self._consumed, stream_id)

    async def _send_data(self, stream_id: int) -> None:
        """One DATA frame of a stream, which also ends the stream if it is the last one."""
        buffer = self.stream_buffers[stream_id]
        try:
            room = min(self.connection.local_flow_control_window(stream_id), self.connection.max_outbound_frame_size)
            data = await buffer.pop(max(0, room))
            ended = buffer.complete
            if data or ended:
                self.connection.send_data(stream_id, data, end_stream=ended)
                await self._flush()
            else:
                self.priority.block(stream_id)
        except h2.exceptions.ProtocolError:
            ended = True  # the stream or the connection was closed while this waited
        if ended:
            await self._forget(stream_id)


class _Protocols(ProtocolWrapper):
    """hypercorn's choice of protocol by ALPN, with our HTTP/2."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        if isinstance(self.protocol, H2Protocol):
            self.protocol = HTTP2(*args[:-1])


class Connection:
    """One accepted connection. `state` goes into every request's `scope["state"]`."""

    def __init__(
        self,
        app: ASGIApp,
        config: Config,
        context: WorkerContext,
        state: dict[str, Any],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._app = app
        self._config = config
        self._context = context
        self._state = state
        self._reader = reader
        self._writer = writer
        self._loop = asyncio.get_running_loop()
        self._requests = Requests(self._loop, self._failed)
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._flush_due = False
        self._idle_since: float | None = self._loop.time()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._protocol: _Protocols | None = None

    async def serve(self) -> None:
        """Until either side closes and the last request has ended. Raises nothing: clients fail in every way there is."""
        try:
            async with self._requests:
                self._protocol = protocol = self._negotiated()
                await protocol.initiate()
                self._watch_idle()
                await self._read(protocol)
        except OSError:
            pass  # the client is gone; its requests have been told
        except Exception as error:
            self._failed(error)
        finally:
            await self._close()

    def stop(self) -> None:
        """Shutdown: close when idle, else when the last request has ended; tell HTTP/2 clients to go elsewhere."""
        if self._idle_since is not None:
            self._requests.spawn(self._end)
        elif self._protocol is not None and isinstance(self._protocol.protocol, HTTP2):
            self._requests.spawn(self._protocol.protocol.goodbye)

    def abort(self) -> None:
        """Drop the connection and cancel what still runs on it."""
        self._writer.transport.abort()
        self._requests.cancel()

    def _negotiated(self) -> _Protocols:
        socket = self._writer.get_extra_info("socket")
        ssl_object = self._writer.get_extra_info("ssl_object")
        return _Protocols(
            cast(AppWrapper, self._app),
            self._config,
            self._context,
            self._requests,
            ConnectionState(self._state),
            ssl_object is not None,
            parse_socket_addr(socket.family, socket.getpeername()),
            parse_socket_addr(socket.family, socket.getsockname()),
            self._send,
            ssl_object.selected_alpn_protocol() if ssl_object is not None else "http/1.1",
        )

    async def _read(self, protocol: _Protocols) -> None:
        while data := await self._reader.read(READ_SIZE):
            await protocol.handle(RawData(data))
        await protocol.handle(Closed())

    async def _send(self, event: Event) -> None:
        """What the protocols call to write, close, or say whether a request is in progress."""
        if isinstance(event, RawData):
            await self._write(event.data)
        elif isinstance(event, Closed):
            await self._close()
        elif isinstance(event, Updated):
            self._idle_since = self._loop.time() if event.idle else None
            if event.idle and self._context.terminated.is_set():
                await self._end()

    async def _write(self, data: bytes) -> None:
        if len(data) >= WRITE_NOW:
            self._flush()  # joining would copy a list of megabytes to save one small write
            self._put(data)
        else:
            self._pending.append(data)
            self._pending_bytes += len(data)
            if self._pending_bytes >= WRITE_NOW:
                self._flush()
            elif not self._flush_due:
                self._flush_due = True
                self._loop.call_soon(self._flush)
        if self._writer.transport.get_write_buffer_size() > WRITE_NOW:
            try:
                await self._writer.drain()
            except (OSError, RuntimeError):
                return  # the reader meets the same end and tells the requests

    def _flush(self) -> None:
        self._flush_due = False
        if self._pending:
            self._put(b"".join(self._pending))
            self._pending.clear()
            self._pending_bytes = 0

    def _put(self, data: bytes) -> None:
        if not self._writer.transport.is_closing():
            self._writer.write(data)

    def _watch_idle(self) -> None:
        """Close after the idle time. Requests only note when they end; the timer finds out how long ago that was."""
        since = self._idle_since
        due = (since if since is not None else self._loop.time()) + self._config.keep_alive_timeout
        if due <= self._loop.time():
            self._requests.spawn(self._end)
        else:
            self._idle_timer = self._loop.call_at(due, self._watch_idle)

    async def _end(self) -> None:
        """Close from our side; requests that are somehow left are told that the client is gone."""
        if self._protocol is not None:
            await self._protocol.handle(Closed())
        await self._close()

    async def _close(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._flush()
        try:
            self._writer.close()
            await self._writer.wait_closed()
        except (OSError, RuntimeError):
            return  # closed by the client, in one way or another

    def _failed(self, error: BaseException) -> None:
        """A protocol gave up in a way it does not know: one line, and the end of this connection alone."""
        if not isinstance(error, OSError):
            log.error("connection closed: %s: %s", type(error).__name__, error)
        self._writer.transport.abort()


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


def _packed(name: bytes, value: bytes) -> tuple[bytes, bytes]:
    return NeverIndexedHeaderTuple(name, value) if name in UNIQUE_HEADERS else (name, value)
