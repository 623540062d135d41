"""HTTP/2: the frames of one connection to ASGI calls and back.

The protocol itself (frames, compression, states, the books of flow control) is jh2's, which does no I/O, and is bounded by
`http2_protocol.py`; here is what drives it. Clients multiplex watches and writes on one connection for hours, so this decides
that no request may harm its neighbours, and no connection others:
- A stream that is malformed, one too many, fails half-way, or sends data after its early answer is reset alone.
- What an application has not read is bounded by flow control: the window opens as the body is consumed.
- A response is sent by the request's own task, as far as the client's window and the socket's buffer go, then it waits: there is
  no queue of pieces and no sending task. The scheme of priorities is ignored, as RFC 9113 allows.
- A stream whose client takes nothing for STALL_SECONDS is reset, so that nobody holds an answer for ever.
- Between the frames of one connection all others have their turn, and frames that do no good end the connection.
- At shutdown, and after an answer with `connection: close` (to one that nobody vouched for), GOAWAY tells the client to open its
  next stream elsewhere; one that crosses it is refused, which it may retry. With the last answer the connection ends.

jh2, not hypercorn's protocol over h2, by measurement (TLS, answers of 3.7 KB): 60 in place of 138 us for the frames of a get, and
some 20 in place of 70 us around them. Called by `connection.py`.
Sources: RFC 9113; limits of k8s.io/apiserver pkg/server/secure_serving.go and golang.org/x/net/http2/server.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol
from urllib.parse import unquote

from jh2.errors import ErrorCodes
from jh2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from jh2.exceptions import ProtocolError
from jh2.hpack import NeverIndexedHeaderTuple
from jh2.hyperframe.frame import GoAwayFrame
from jh2.settings import SettingCodes

from aggserver.server.http2_protocol import CREDIT_OF_ANSWER, MAX_STREAMS, Library
from aggserver.server.requests import STALL_SECONDS, ASGIApp, Inbox, Message, Requests

__all__ = ["HTTP2", "Wire"]

log = logging.getLogger(__name__)

# A client that opens streams and resets them at once leaves requests behind that it no longer counts (CVE-2023-44487). Go gives
# up on a connection at 4 times the limit, and so do we.
MAX_REQUESTS_PER_CONNECTION = 4 * MAX_STREAMS

# Bytes of a body written before others get their turn.
WRITE_BYTES = 64 * 1024

# Headers with a new value in nearly every answer: kept out of the table of repeated ones, where each would push another out.
UNIQUE_HEADERS = frozenset({b"audit-id", b"content-length", b"etag"})

# What an application says to have the connection end with its answer. HTTP/2 has no such header, and GOAWAY in its place; Go's
# server takes it for the same.
CLOSE = (b"connection", b"close")

# Of header names, which are lower case in HTTP/2, and of values; RFC 9113, 8.2.1.
_NAME = re.compile(rb"[-!#$%&'*+.^_`|~0-9a-z]+").fullmatch
_UNSAFE = re.compile(rb"[\x00\r\n]").search
_PSEUDO = frozenset({b":method", b":scheme", b":authority", b":path"})
_OF_CONNECTIONS = frozenset({b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"})
_TE = frozenset({b"", b"trailers"})  # all that `te` may say


class Wire(Protocol):
    """The socket's side, as an HTTP2 sees it."""

    def write(self, data: bytes) -> None: ...

    async def drain(self) -> None:
        """Waits while the socket has more unsent than is good; raises nothing."""

    def idle(self, is_idle: bool) -> None:
        """Whether a request is in progress."""

    def date(self) -> list[tuple[bytes, bytes]]:
        """The Date header."""


class HTTP2:
    """One connection's server side. `scope` has what all its requests' scopes have in common, `state` included."""

    def __init__(self, app: ASGIApp, requests: Requests, wire: Wire, scope: dict[str, Any]) -> None:
        self._app = app
        self._requests = requests
        self._wire = wire
        self._scope = scope
        self._streams: dict[int, _Stream] = {}
        self._waiting: set[_Stream] = set()  # for the client's window
        self.leaving = False  # GOAWAY is sent
        self.failed = False  # GOAWAY is sent, with what the client did wrong
        self._over = False
        self._loop = asyncio.get_running_loop()
        self.library = Library(self._loop.time)
        self._handlers: dict[type[Event], Callable[[Any], None]] = {
            RequestReceived: self._begin,
            DataReceived: self._data,
            StreamEnded: self._end_of_body,
            StreamReset: self._reset,
            WindowUpdated: self._window,
            RemoteSettingsChanged: self._settings,
            ConnectionTerminated: self._terminated,
        }

    def initiate(self) -> None:
        self.library.initiate()
        self.flush()

    async def receive(self, data: bytes) -> bool:
        """Takes what the client sent; False: there is no more to be said on this connection.

        Others have their turn in between and at the end: a reader that has more at hand would give them none.
        """
        more = self._take(data)
        while more:
            await asyncio.sleep(0)
            more = self._take(b"")
        await asyncio.sleep(0)
        return not self._over

    def _take(self, data: bytes) -> bool:
        """One turn's worth of it; whether there is more."""
        more = False
        try:
            if not self._over:
                events, more = self.library.receive(data)
                for event in events:
                    handle = self._handlers.get(type(event))
                    if handle is not None:
                        handle(event)
        except ProtocolError:
            self.failed = self._over = True
        self.flush()  # with a GOAWAY and its reason, if that was an error
        return more and not self._over

    def closed(self) -> None:
        """Nothing comes or goes any more: every request is told that its client is gone."""
        self._over = True
        for stream in tuple(self._streams.values()):
            self._lose(stream)
        self._handlers = {}  # they hold this, and this the connection

    def goodbye(self) -> None:
        """GOAWAY with the last stream seen: those up to it are finished, the client retries later ones elsewhere.

        The frame is written past the library, which would refuse to send anything on a connection it has closed.
        """
        if self.leaving or self._over:
            return
        self.leaving = True
        last = self.library.highest_inbound_stream_id
        self._wire.write(GoAwayFrame(0, last_stream_id=last, error_code=ErrorCodes.NO_ERROR).serialize())
        if not self._streams:
            self._wire.idle(True)

    def flush(self) -> None:
        if data := self.library.data_to_send():
            self._wire.write(data)

    # What comes

    def _begin(self, event: RequestReceived) -> None:
        stream_id: int = event.stream_id
        if len(self._requests.tasks) > MAX_REQUESTS_PER_CONNECTION:
            self.library.close_connection(ErrorCodes.ENHANCE_YOUR_CALM)
            self.failed = self._over = True
            return
        if self.leaving or len(self._streams) >= MAX_STREAMS:
            self.library.refuse(stream_id, ErrorCodes.REFUSED_STREAM)
            return
        head = _head(event.headers)
        if head is None:
            self.library.refuse(stream_id, ErrorCodes.PROTOCOL_ERROR)
            return
        scope = self._scope | head
        inbox = Inbox(partial(self._consumed, stream_id))
        stream = self._streams[stream_id] = _Stream(self, stream_id, inbox, is_head=scope["method"] == "HEAD")
        self._wire.idle(False)
        self._requests.call(self._app, scope, inbox, stream.send)

    def _data(self, event: DataReceived) -> None:
        """The body's part of the window opens when it is read, that of padding and of unwanted data at once."""
        stream = self._streams.get(event.stream_id)
        if stream is None:
            self._consumed(event.stream_id, event.flow_controlled_length)
            return
        if padding := event.flow_controlled_length - len(event.data):
            self._consumed(event.stream_id, padding)
        if event.data:  # flow control doesn't bound how many empty frames there are
            stream.inbox.put({"type": "http.request", "body": bytes(event.data), "more_body": True})

    def _end_of_body(self, event: StreamEnded) -> None:
        if (stream := self._streams.get(event.stream_id)) is not None:
            stream.inbox.put({"type": "http.request", "body": b"", "more_body": False})

    def _reset(self, event: StreamReset) -> None:
        if (stream := self._streams.get(event.stream_id)) is not None:
            self._lose(stream)

    def _window(self, event: WindowUpdated) -> None:
        if not event.stream_id:
            self._wake_all()
        elif (stream := self._streams.get(event.stream_id)) is not None:
            stream.wake()

    def _settings(self, event: RemoteSettingsChanged) -> None:
        if SettingCodes.INITIAL_WINDOW_SIZE in event.changed_settings:
            self._wake_all()

    def _wake_all(self) -> None:
        for stream in tuple(self._waiting):
            stream.wake()

    def _terminated(self, event: ConnectionTerminated) -> None:
        self._over = True  # after a GOAWAY of the client's the library sends nothing any more

    def _consumed(self, stream_id: int, size: int) -> None:
        try:
            self.library.acknowledge_received_data(size, stream_id)
        except ProtocolError:
            return  # the connection is closed; nobody waits for the window
        self.flush()

    # What goes

    async def send(self, stream: _Stream, data: bytes, *, ended: bool) -> None:
        """A part of a response's body, and the end of the stream if that is all. Waits for the client's window and the socket.

        Raises ProtocolError if the stream or the connection was closed.
        """
        rest = memoryview(data)
        stalls_at = 0.0
        while True:
            room = self.library.local_flow_control_window(stream.id)
            if rest and room <= 0:
                stalls_at = stalls_at or self._loop.time() + STALL_SECONDS
                await self._room(stream, stalls_at)
            else:
                stalls_at = 0.0
                size = min(room, WRITE_BYTES)
                part, rest = rest[:size], rest[size:]
                self.flush()  # what comes before: the head
                self._wire.write(self.library.data_frames(stream.id, part, end_stream=ended and not rest))
                await self._wire.drain()
            if not rest or stream.closed:
                return

    async def _room(self, stream: _Stream, stalls_at: float) -> None:
        self.flush()
        self._waiting.add(stream)
        timer = self._loop.call_at(stalls_at, self._stalled, stream)
        try:
            await stream.wait()
        finally:
            timer.cancel()
            self._waiting.discard(stream)

    def _stalled(self, stream: _Stream) -> None:
        log.info("reset a stream: its client took nothing for %g s", STALL_SECONDS)
        self.reset(stream.id, ErrorCodes.CANCEL)
        self._lose(stream)

    def head(self, stream: _Stream, status: int, headers: list[tuple[bytes, bytes]], *, ended: bool) -> None:
        """Raises ProtocolError if the stream or the connection was closed."""
        if CLOSE in headers:
            headers = [pair for pair in headers if pair != CLOSE]
        block = [(b":status", b"%d" % status)]
        block += [NeverIndexedHeaderTuple(*pair) if pair[0] in UNIQUE_HEADERS else pair for pair in headers]
        block += self._wire.date()
        self.library.send_headers(stream.id, block, end_stream=ended)
        self.library.allowance.earn(CREDIT_OF_ANSWER)

    def reset(self, stream_id: int, code: ErrorCodes) -> None:
        try:
            self.library.reset_stream(stream_id, code)
        except ProtocolError:
            return  # it is gone already
        self.flush()

    def forget(self, stream: _Stream) -> None:
        """The stream has had its answer, or needs none. A client that still sends its body is told to stop (RFC 9113, 8.1)."""
        self._streams.pop(stream.id, None)
        if not self.library.forget(stream.id):
            self.reset(stream.id, ErrorCodes.NO_ERROR)
            self.library.forget(stream.id)
        if not self._streams:
            self._wire.idle(True)

    def _lose(self, stream: _Stream) -> None:
        """The stream's client is gone."""
        stream.lose()
        self.forget(stream)


def _head(block: Iterable[tuple[bytes, bytes]]) -> dict[str, Any] | None:
    """The request's part of a scope; None for a malformed one (RFC 9113, 8.2 and 8.3), or a CONNECT, which has no path."""
    pseudo: dict[bytes, bytes] = {}
    headers: list[tuple[bytes, bytes]] = []
    for name, value in block:
        if name.startswith(b":"):
            if headers or name in pseudo or name not in _PSEUDO:
                return None
            pseudo[name] = value
        elif name in _OF_CONNECTIONS or not _NAME(name) or (name == b"te" and value not in _TE):
            return None
        else:
            headers.append((name, value))
        if _UNSAFE(value):
            return None
    method, target, authority = pseudo.get(b":method", b""), pseudo.get(b":path", b""), pseudo.get(b":authority")
    if not _NAME(method.lower()) or not target.isascii() or not target.startswith((b"/", b"*")) or b":scheme" not in pseudo:
        return None
    if authority is not None:
        headers = [(b"host", authority), *(pair for pair in headers if pair[0] != b"host")]
    path, _, query = target.partition(b"?")
    return {
        "method": method.decode().upper(),
        "path": unquote(path.decode()),
        "raw_path": path,
        "query_string": query,
        "headers": headers,
    }


class _Stream:
    """One request: its `send` of ASGI, until its answer is complete, its client is gone or the application gives up."""

    __slots__ = ("_connection", "_head", "_is_head", "_waiter", "closed", "id", "inbox")

    def __init__(self, connection: HTTP2, stream_id: int, inbox: Inbox, *, is_head: bool) -> None:
        self.id = stream_id
        self.inbox = inbox
        self._connection = connection
        self._is_head = is_head
        self._head: Message | None = None
        self.closed = False
        self._waiter: asyncio.Future[None] | None = None

    async def send(self, message: Message | None) -> None:
        if message is not None and message["type"] == "http.response.start":
            self._head = message  # goes out with the first part of the body: one write, and often one record
            return
        # Behind the answer, which some clients would not read after it; and also where they are gone, or a reset would spare it.
        is_last = self._head is not None and CLOSE in self._head["headers"]
        try:
            if self.closed:
                self._head = None
            elif message is None:
                self._abandoned()
            else:
                await self._body(message.get("body", b""), ended=not message.get("more_body", False))
        except ProtocolError:
            self._finished()  # closed meanwhile
        if is_last:
            self._connection.goodbye()

    async def _body(self, data: bytes, *, ended: bool) -> None:
        head, self._head = self._head, None
        if head is not None:
            bare = self._is_head or head["status"] in (204, 304)
            self._connection.head(self, head["status"], head["headers"], ended=bare or (ended and not data))
            if bare or (ended and not data):
                self._connection.flush()
                self._finished()
                return
        if data or ended:
            await self._connection.send(self, data, ended=ended)
        else:
            self._connection.flush()
        if ended:
            self._finished()

    def _abandoned(self) -> None:
        """The application returned half-way: without a reset the client would wait for the rest for ever."""
        self._connection.reset(self.id, ErrorCodes.INTERNAL_ERROR)
        self._finished()

    def _finished(self) -> None:
        if not self.closed:
            self.closed = True
            self._connection.forget(self)

    def lose(self) -> None:
        """No more is sent, and the application hears of it."""
        self.closed = True
        self.inbox.put({"type": "http.disconnect"})
        self.wake()

    async def wait(self) -> None:
        """Until `wake`."""
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
