"""HTTP/2: the frames of one connection to ASGI calls and back.

The protocol itself (frames, compression, states, the books of flow control) is jh2's, which does no I/O; here is what drives
it. Clients multiplex watches and writes on one connection for hours, so this decides that no request may harm its neighbours:
- A stream that is malformed, fails half-way, or sends data after its early answer is reset alone.
- What an application has not read is bounded by flow control: the window opens as the body is consumed.
- A response is sent by the request's own task, as far as the client's window and the socket's buffer go, then it waits: there is
  no queue of pieces and no sending task. The scheme of priorities is ignored, as RFC 9113 allows.
- At shutdown GOAWAY tells the client to open its next stream elsewhere; one that crosses it is refused, which it may retry.

jh2, not hypercorn's protocol over h2, by measurement (TLS, answers of 3.7 KB): 60 in place of 138 us for the frames of a get, and
some 20 in place of 70 us around them. Called by `connection.py`.
Sources: RFC 9113; limits of k8s.io/apiserver pkg/server/secure_serving.go and golang.org/x/net/http2/server.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
import re
import struct
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol
from urllib.parse import unquote

from jh2.config import H2Configuration
from jh2.connection import ConnectionInputs, H2Connection
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
from jh2.settings import SettingCodes, Settings
from jh2.stream import StreamInputs

from aggserver.server.requests import STREAM_WINDOW, ASGIApp, Inbox, Message, Requests

__all__ = ["HTTP2", "Wire"]

# Upstream's number for aggregated servers (pkg/server/options/recommended.go): the aggregator sends everybody's watches down one
# connection. kube-apiserver itself has 100.
MAX_STREAMS = 1000

# A client that opens streams and resets them at once leaves requests behind that it no longer counts (CVE-2023-44487). Go gives
# up on a connection at 4 times the limit, and so do we.
MAX_REQUESTS_PER_CONNECTION = 4 * MAX_STREAMS

# Bytes of bodies that may wait for their applications on one connection.
CONNECTION_WINDOW = 100 * STREAM_WINDOW

MAX_FRAME_SIZE = STREAM_WINDOW
MAX_HEADER_LIST = 64 * 1024  # bytes; bearer tokens, selectors and X-Remote-Extra headers are long

# Bytes of a body written before others get their turn.
WRITE_BYTES = 64 * 1024

# Headers with a new value in nearly every answer: kept out of the table of repeated ones, where each would push another out.
UNIQUE_HEADERS = frozenset({b"audit-id", b"content-length", b"etag"})

# Of header names, which are lower case in HTTP/2, and of values; RFC 9113, 8.2.1.
_NAME = re.compile(rb"[-!#$%&'*+.^_`|~0-9a-z]+").fullmatch
_UNSAFE = re.compile(rb"[\x00\r\n]").search
_PSEUDO = frozenset({b":method", b":scheme", b":authority", b":path"})
_OF_CONNECTIONS = frozenset({b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"})

# Of a DATA frame: length in 24 bits, type, flags, stream; RFC 9113, 4.1.
_FRAME_HEAD = struct.Struct(">HBBBL").pack
_END_STREAM = 0x1

# Streams the library may hold before it is made to count them, see `_Library`.
COUNT_FROM = 64


class Wire(Protocol):
    """The socket's side, as an HTTP2 sees it."""

    def write(self, data: bytes) -> None: ...

    async def drain(self) -> None:
        """Waits while the socket has more unsent than is good; raises nothing."""

    def idle(self, is_idle: bool) -> None:
        """Whether a request is in progress."""

    def date(self) -> list[tuple[bytes, bytes]]:
        """The Date header."""


class _Library(H2Connection):  # type: ignore[misc]
    """jh2's connection, where two of its ways cost too much."""

    _counted_at = COUNT_FROM

    @property
    def open_inbound_streams(self) -> int:
        """A bound: the number of streams held, closed ones included, as long as it is below the limit.

        The library walks all its streams at every request, to count those that are open and to drop the rest.
        """
        held = len(self.streams)
        if held < min(self._counted_at, MAX_STREAMS):
            return held
        count: int = super().open_inbound_streams
        self._counted_at = max(COUNT_FROM, 2 * len(self.streams))
        return count

    def data_frames(self, stream_id: int, data: memoryview, *, end_stream: bool) -> bytes:
        """`send_data` of any size that flow control has room for, as the bytes to write after all that the library has to send.

        The library takes each frame through its states and copies it five times, half the time of a long list.
        Raises ProtocolError.
        """
        stream = self._get_stream_by_id(stream_id)
        self.state_machine.process_input(ConnectionInputs.SEND_DATA)
        stream.state_machine.process_input(StreamInputs.SEND_DATA)
        if end_stream:
            stream.state_machine.process_input(StreamInputs.SEND_END_STREAM)
        self.outbound_flow_control_window -= len(data)
        stream.outbound_flow_control_window -= len(data)
        pieces: list[bytes | memoryview] = []
        limit = self.max_outbound_frame_size
        for start in range(0, len(data) or 1, limit):
            part = data[start : start + limit]
            last = end_stream and start + limit >= len(data)
            pieces += (_FRAME_HEAD(len(part) >> 8, len(part) & 0xFF, 0, _END_STREAM if last else 0, stream_id), part)
        return b"".join(pieces)


class HTTP2:
    """One connection's server side. `scope` has what all its requests' scopes have in common, `state` included."""

    def __init__(self, app: ASGIApp, requests: Requests, wire: Wire, scope: dict[str, Any]) -> None:
        self._app = app
        self._requests = requests
        self._wire = wire
        self._scope = scope
        self._streams: dict[int, _Stream] = {}
        self._waiting: set[_Stream] = set()  # for the client's window
        self._refusing = False
        self._over = False
        # What we send is made by our own code, in lower case: checking and rewriting it cost a fifth of each response.
        self.library = library = _Library(
            config=H2Configuration(
                client_side=False,
                header_encoding=None,
                validate_inbound_headers=False,  # it ends the connection over what `_head` ends the stream for
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        library.local_settings = Settings(
            client=False,
            initial_values={
                SettingCodes.MAX_CONCURRENT_STREAMS: MAX_STREAMS,
                SettingCodes.MAX_HEADER_LIST_SIZE: MAX_HEADER_LIST,
                SettingCodes.MAX_FRAME_SIZE: MAX_FRAME_SIZE,
                SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
            },
        )
        # the library copies these from the settings it began with, before they could be replaced
        library.max_inbound_frame_size = MAX_FRAME_SIZE
        library.decoder.max_header_list_size = MAX_HEADER_LIST
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
        self.library.initiate_connection()
        self.library.increment_flow_control_window(CONNECTION_WINDOW - self.library.inbound_flow_control_window)
        self.flush()

    def receive(self, data: bytes) -> bool:
        """Takes what the client sent; False: there is no more to be said on this connection."""
        try:
            events = self.library.receive_data(data)
        except ProtocolError:
            self.flush()  # a GOAWAY with the reason
            return False
        for event in events:
            handle = self._handlers.get(type(event))
            if handle is not None:
                handle(event)
        self.flush()
        return not self._over

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
        self._refusing = True
        last = self.library.highest_inbound_stream_id
        self._wire.write(GoAwayFrame(0, last_stream_id=last, error_code=ErrorCodes.NO_ERROR).serialize())

    def flush(self) -> None:
        if data := self.library.data_to_send():
            self._wire.write(data)

    # What comes

    def _begin(self, event: RequestReceived) -> None:
        stream_id: int = event.stream_id
        if len(self._requests.tasks) > MAX_REQUESTS_PER_CONNECTION:
            self.library.close_connection(ErrorCodes.ENHANCE_YOUR_CALM)
            self._over = True
            return
        if self._refusing:
            self.refuse(stream_id, ErrorCodes.REFUSED_STREAM)
            return
        head = _head(event.headers)
        if head is None:
            self.refuse(stream_id, ErrorCodes.PROTOCOL_ERROR)
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
            self.refuse(event.stream_id, ErrorCodes.NO_ERROR)  # RFC 9113, 8.1: answered, send no more
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
        while True:
            room = self.library.local_flow_control_window(stream.id)
            if rest and room <= 0:
                await self._room(stream)
            else:
                size = min(room, WRITE_BYTES)
                part, rest = rest[:size], rest[size:]
                self.flush()  # what comes before: the head
                self._wire.write(self.library.data_frames(stream.id, part, end_stream=ended and not rest))
                await self._wire.drain()
            if not rest or stream.closed:
                return

    async def _room(self, stream: _Stream) -> None:
        self.flush()
        self._waiting.add(stream)
        try:
            await stream.wait()
        finally:
            self._waiting.discard(stream)

    def head(self, stream: _Stream, status: int, headers: list[tuple[bytes, bytes]], *, ended: bool) -> None:
        """Raises ProtocolError if the stream or the connection was closed."""
        block = [(b":status", b"%d" % status)]
        block += [NeverIndexedHeaderTuple(*pair) if pair[0] in UNIQUE_HEADERS else pair for pair in headers]
        block += self._wire.date()
        self.library.send_headers(stream.id, block, end_stream=ended)

    def refuse(self, stream_id: int, code: ErrorCodes) -> None:
        try:
            self.library.reset_stream(stream_id, code)
        except ProtocolError:
            return  # it is gone already
        self.flush()

    def forget(self, stream: _Stream) -> None:
        """The stream has had its answer."""
        self._streams.pop(stream.id, None)
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
        elif name in _OF_CONNECTIONS or not _NAME(name):
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
        if self.closed:
            return
        try:
            if message is None:
                self._abandoned()
            elif message["type"] == "http.response.start":
                self._head = message  # goes out with the first part of the body: one write, and often one record
            else:
                await self._body(message.get("body", b""), ended=not message.get("more_body", False))
        except ProtocolError:
            self._finished()  # closed meanwhile

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
        self._connection.refuse(self.id, ErrorCodes.INTERNAL_ERROR)
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
