"""HTTP/2 on one connection: the events of `protocol.py` as calls of the application, and its responses as frames.

Clients multiplex watches and writes on one connection for hours. So no request may harm its neighbours, and no connection others:
- A stream that is malformed, exceeds the limit, fails half-way, or sends data after its early response is reset alone.
- A body that the application has not read is bounded by flow control: the window opens as the body is consumed.
- A response is sent by the request's own task, which waits when the client's window or the socket's buffer is full: there is no
  queue of pieces and no sending task. A stream whose client takes nothing for STALL_SECONDS is reset, so that no response is held
  for ever. Streams that wait for the connection's window are woken in turn, as far as it has room: waking all of them for each
  small WINDOW_UPDATE would be much work for little data.
- At shutdown, and after a response with `connection: close` (to an unauthenticated client), GOAWAY makes the client open its
  next stream elsewhere. A stream that crosses the GOAWAY is refused, and the client may retry it. The connection ends with its
  last response.
Sources: RFC 9113; limits of k8s.io/apiserver pkg/server/secure_serving.go and golang.org/x/net/http2/server.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from functools import partial
from typing import Any, Protocol

from aggserver.server.http2.frames import ErrorCode, ProtocolError
from aggserver.server.http2.protocol import (
    MAX_STREAMS,
    ClientLeaving,
    DataReceived,
    Event,
    RequestReceived,
    ServerConnection,
    StreamLost,
    WindowOpened,
)
from aggserver.server.requests import STALL_SECONDS, ASGIApp, AtOnce, Inbox, Message, Requests, never

__all__ = ["HTTP2", "Wire"]

log = logging.getLogger(__name__)

# If a client opens streams and resets them at once, their requests still run but do not count as its streams (CVE-2023-44487).
# Like Go, we end a connection that has so many times as many requests as it may have streams.
REQUESTS_PER_STREAM = 4

# Bytes of a body that are written before other requests get a turn. A list page of 1.8 MB takes 1.3 times as long in writes of
# 64 KB.
WRITE_BYTES = 256 * 1024

# Room for a body, in bytes, below which a request is not answered at once: what most answers need.
LEAST_ROOM = 4096

# The header by which an application ends the connection after this response. HTTP/2 has no such header and uses GOAWAY; Go's
# server translates it in the same way.
CLOSE = (b"connection", b"close")


class Wire(Protocol):
    """The socket, as HTTP/2 needs it. `server/connection.py` is the implementation.

    is_full: it has too many unsent bytes.
    """

    is_full: bool

    def write(self, data: bytes) -> None: ...

    async def drain(self) -> None:
        """Wait while it is full. Raises nothing."""

    def idle(self, is_idle: bool) -> None:
        """Take note of whether no request is in progress. Called when a request begins, and when the last one has ended."""

    def date(self) -> list[tuple[bytes, bytes]]:
        """The Date header."""


class HTTP2:
    """The server's side of one connection. scope: the part that the ASGI scopes of all its requests share, with `state`.

    at_once: answers what needs no task, before the application is asked. max_streams: that the client may have at once.

    over: nothing more is read. failed: because the client has broken the protocol or a limit; a GOAWAY tells it.
    """

    def __init__(
        self,
        app: ASGIApp,
        requests: Requests,
        wire: Wire,
        scope: dict[str, Any],
        at_once: AtOnce = never,
        max_streams: int = MAX_STREAMS,
    ) -> None:
        self._app = app
        self._at_once = at_once
        self._requests = requests
        self._scope = scope
        self._streams: dict[int, _Stream] = {}
        self._waiting: OrderedDict[int, asyncio.Future[None]] = OrderedDict()  # streams, for room in the connection's window
        self._waking = False
        self._loop = asyncio.get_running_loop()
        self.over = False
        self.failed = False
        self.wire = wire
        self.protocol = ServerConnection(self._loop.time, max_streams)
        self._max_requests = REQUESTS_PER_STREAM * max_streams

    def initiate(self) -> None:
        self.protocol.initiate()
        self.flush()

    def flush(self) -> None:
        if data := self.protocol.data_to_send():
            self.wire.write(data)

    def receive(self, data: bytes) -> bool:
        """Handle bytes from the client, as many as may be in one turn. Returns whether to call it in the next turn with b""."""
        if self.over:
            return False
        try:
            events, more = self.protocol.receive(data)
        except ProtocolError as error:
            log.debug("connection ended: %s", error)
            self._fail()
            return False
        for event in events:
            self._handle(event)
        self.flush()
        return more and not self.over

    def closed(self) -> None:
        """Call when the connection is gone: notifies every request that its client has disconnected."""
        self.over = True
        for stream in self._streams.values():
            stream.lose()
        self._streams.clear()

    @property
    def leaving(self) -> bool:
        """Whether the client has been told to open no more streams."""
        return self.protocol.leaving

    def goodbye(self) -> None:
        """Sends GOAWAY with the last stream seen: streams up to it are finished, the client retries later ones elsewhere."""
        if self.leaving or self.over:
            return
        self.protocol.goodbye()
        self.flush()
        self._note_idle()

    # The events of the protocol

    def _handle(self, event: Event) -> None:
        if isinstance(event, RequestReceived):
            self._begin(event)
        elif isinstance(event, WindowOpened) and event.stream_id == 0:
            self._wake_next()
        elif isinstance(event, ClientLeaving):
            self._note_idle()
        elif (stream := self._streams.get(event.stream_id)) is None:
            return
        elif isinstance(event, DataReceived):
            stream.inbox.put({"type": "http.request", "body": event.data, "more_body": not event.ended})
        elif isinstance(event, StreamLost):
            stream.lose()
            self.forget(stream.id)
        else:
            stream.wake()

    def _begin(self, event: RequestReceived) -> None:
        if len(self._requests.tasks) > self._max_requests:
            self.protocol.terminate(ErrorCode.ENHANCE_YOUR_CALM)
            self._fail()
        if self.over:
            return
        stream_id = event.stream_id
        scope = self._scope | event.scope
        if event.ended and self._has_answered(stream_id, scope):
            return
        inbox = Inbox(partial(self._consumed, stream_id))
        if event.ended:
            inbox.put({"type": "http.request", "body": b"", "more_body": False})
        stream = self._streams[stream_id] = _Stream(self, stream_id, inbox, is_head=scope["method"] == "HEAD")
        self.wire.idle(False)
        self._requests.call(self._app, scope, inbox, stream.send)

    def _has_answered(self, stream_id: int, scope: dict[str, Any]) -> bool:
        """Whether the request was answered at once. Its body must fit into the windows and the socket, so that nothing waits."""
        room = min(self.protocol.room(stream_id), WRITE_BYTES)
        if self.wire.is_full or room < LEAST_ROOM or (answer := self._at_once(scope, room)) is None:
            return False
        headers = answer.headers
        if is_last := CLOSE in headers:
            headers = [pair for pair in headers if pair != CLOSE]
        self.protocol.send_head(stream_id, answer.status, headers + self.wire.date(), ended=not answer.body)
        if answer.body:
            self.protocol.send_data(stream_id, answer.body, ended=True)
        self.flush()
        self._note_idle()
        if is_last:
            self.goodbye()
        return True

    def _fail(self) -> None:
        self.failed = True
        self.flush()  # the GOAWAY with its reason
        self.closed()

    def _consumed(self, stream_id: int, size: int) -> None:
        if not self.over:
            self.protocol.consumed(stream_id, size)
            self.flush()

    # Called by streams

    def forget(self, stream_id: int) -> None:
        """Forget a stream that has ended."""
        self._streams.pop(stream_id, None)
        self._note_idle()

    def _note_idle(self) -> None:
        if not self._streams:
            self.wire.idle(True)

    def wait_in_turn(self, stream_id: int) -> asyncio.Future[None]:
        """A future that is done when the connection's window has room, and all that waited before have been woken."""
        waiter = self._waiting[stream_id] = self._loop.create_future()
        return waiter

    def leave(self, stream_id: int) -> None:
        """Wait no more."""
        self._waiting.pop(stream_id, None)

    def _wake_next(self) -> None:
        """Wake the first stream that waits for the connection's window, and the next one when it has taken what it can."""
        if self.protocol.window > 0 and self._waiting and not self._waking:
            _, waiter = self._waiting.popitem(last=False)
            if not waiter.done():
                waiter.set_result(None)
            self._waking = True
            self._loop.call_soon(self._woken)  # behind the waiter's task

    def _woken(self) -> None:
        self._waking = False
        self._wake_next()


class _Stream:
    """One request and its response: `send` is ASGI's, and runs in the task that runs the application.

    It ends when its response is complete, when its client is gone, or when the application returns without a complete response.
    inbox: the queue from which the application receives. closed: nothing more is sent.
    """

    __slots__ = ("_head", "_http2", "_is_head", "_waiter", "closed", "id", "inbox")

    def __init__(self, http2: HTTP2, stream_id: int, inbox: Inbox, *, is_head: bool) -> None:
        self.id = stream_id
        self.inbox = inbox
        self.closed = False
        self._http2 = http2
        self._is_head = is_head
        self._head: Message | None = None
        self._waiter: asyncio.Future[None] | None = None

    async def send(self, message: Message | None) -> None:
        """ASGI's `send`. message: None when the application has returned."""
        if message is not None and message["type"] == "http.response.start":
            self._head = message  # leaves with the first part of the body: one write, and often one TLS record
            return
        head, self._head = self._head, None
        # GOAWAY follows the response: some clients would not read a response behind it. It is sent even if the stream was reset;
        # otherwise a client could avoid it by a reset.
        is_last = head is not None and CLOSE in head["headers"]
        if self.closed:
            pass
        elif message is None:
            self._reset(ErrorCode.INTERNAL_ERROR)  # a response that is not complete, for which the client would wait
        else:
            await self._send_body(head, message.get("body", b""), ended=not message.get("more_body", False))
        if is_last:
            self._http2.goodbye()

    async def _send_body(self, head: Message | None, data: bytes, *, ended: bool) -> None:
        """Send a part of the response's body. head: that of the response, before the first part."""
        http2 = self._http2
        if head is not None:
            headers = [pair for pair in head["headers"] if pair != CLOSE]
            bare = self._is_head or head["status"] in (204, 304)
            only = bare or (ended and not data)
            http2.protocol.send_head(self.id, head["status"], [*headers, *http2.wire.date()], ended=only)
            if only:
                self._finished()
                return
        if http2.wire.is_full or len(data) > min(http2.protocol.room(self.id), WRITE_BYTES):
            http2.flush()  # the head, which may go before there is room for the body
            await self._send_parts(data, ended=ended)
            return
        if data or ended:
            http2.protocol.send_data(self.id, data, ended=ended)
        if ended:
            self._finished()
        else:
            http2.flush()
        await http2.wire.drain()

    async def _send_parts(self, data: bytes, *, ended: bool) -> None:
        """Send what does not fit into the windows, or into one write. Waits for the client's windows and the socket."""
        http2 = self._http2
        rest = memoryview(data)
        stalls_at = 0.0
        while True:
            await http2.wire.drain()
            if self.closed:
                return
            size = min(len(rest), http2.protocol.room(self.id), WRITE_BYTES)
            if rest and size <= 0:
                stalls_at = stalls_at or http2._loop.time() + STALL_SECONDS
                await self._wait_for_room(stalls_at)
                continue
            stalls_at = 0.0
            part, rest = rest[:size], rest[size:]
            last = ended and not rest
            if part or last:
                http2.protocol.send_data(self.id, part, ended=last)
            if last:
                self._finished()
            else:
                http2.flush()
            if not rest:
                await http2.wire.drain()
                return

    async def _wait_for_room(self, stalls_at: float) -> None:
        """Wait for one of both windows. There may be no room afterwards."""
        http2 = self._http2
        loop = http2._loop
        if http2.protocol.window <= 0:
            waiter = self._waiter = http2.wait_in_turn(self.id)
        else:
            waiter = self._waiter = loop.create_future()
        timer = loop.call_at(stalls_at, self._stalled)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiter = None
            http2.leave(self.id)

    def _stalled(self) -> None:
        if not self.closed:
            log.info("resetting a stream: its client has taken nothing for %g s", STALL_SECONDS)
            self._reset(ErrorCode.CANCEL)
            self.lose()

    def _reset(self, code: ErrorCode) -> None:
        self._http2.protocol.reset(self.id, code)
        self._finished()

    def _finished(self) -> None:
        self.closed = True
        self._http2.flush()
        self._http2.forget(self.id)

    def wake(self) -> None:
        """The stream's window may have room, or the stream is closed."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def lose(self) -> None:
        """Send nothing more, and notify the application that its client is gone."""
        self.closed = True
        self.inbox.put({"type": "http.disconnect"})
        self.wake()
