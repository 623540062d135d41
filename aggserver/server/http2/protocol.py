"""The server's side of one HTTP/2 connection, without I/O: bytes of the client in, events and bytes for the client out.

`receive` takes what was read from the socket and returns events: requests, parts of their bodies, resets, windows that have room.
`send_head`, `send_data`, `reset` and `consumed` say what the application has done. Whatever is to be sent is taken with
`data_to_send`. No method waits, and time is an argument, so that every rule can be tested with bytes alone.

What goes wrong has one of two effects (RFC 9113, 5.4):
- An error of one stream resets it: `_fail`. Its application gets a `StreamLost`; all other streams go on.
- An error of the connection is a `ProtocolError`: GOAWAY with its code is among the data to send, and nothing more is received.

What a client can make us do is bounded:
- `receive` does the work of FRAMES_PER_TURN frames and returns, so that other connections get a turn.
- Frames without effect are counted (`allowance.py`): control frames, DATA with no body, requests and streams that we reset.
- A stream is dropped when its response is complete; MAX_CLOSED_STREAMS of those that were reset are remembered.
- Bodies are bounded by flow control, header blocks by MAX_HEADER_LIST, however many CONTINUATION frames they have.
Priorities are checked and ignored, as RFC 9113 allows. There is no server push, and CONNECT is refused.
Sources: RFC 9113; golang.org/x/net/http2/server.go v0.49.0.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from aggserver.server.http2.allowance import (
    BODY_BYTES_PER_CREDIT,
    BYTES_PER_CREDIT,
    CREDIT_PER_DATA,
    CREDIT_PER_RESPONSE,
    Allowance,
)
from aggserver.server.http2.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEAD,
    HEAD_BYTES,
    HEADERS,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    PRIORITY_FIELDS,
    PUSH_PROMISE,
    RST_STREAM,
    SETTING_BYTES,
    SETTINGS,
    WINDOW_UPDATE,
    ErrorCode,
    ProtocolError,
    Setting,
    frame,
    frame_head,
    goaway,
    rst_stream,
    settings,
    settings_of,
    unpadded,
    window_update,
)
from aggserver.server.http2.header_block import MAX_HEADER_LIST, Field, HeaderDecoder, HeaderEncoder
from aggserver.server.http2.request_head import are_trailers, request_head

__all__ = [
    "FRAMES_PER_TURN",
    "MAX_CLOSED_STREAMS",
    "MAX_FRAME_SIZE",
    "MAX_STREAMS",
    "STREAM_WINDOW",
    "ClientLeaving",
    "DataReceived",
    "Event",
    "RequestReceived",
    "ServerConnection",
    "StreamLost",
    "WindowOpened",
]

# Upstream's number for aggregated servers (pkg/server/options/recommended.go): the aggregator sends the watches of all its
# clients on one connection. kube-apiserver itself has 100.
MAX_STREAMS = 1000

# The most bytes of one request's body that may wait for the application. Upstream's number: 99 % of all requests fit, and so come
# in one frame.
STREAM_WINDOW = 256 * 1024

# The most bytes of requests' bodies on one connection that may wait for the application.
CONNECTION_WINDOW = 100 * STREAM_WINDOW

MAX_FRAME_SIZE = STREAM_WINDOW

# Frames of one connection that are handled before other connections get a turn: about a millisecond. Go has a goroutine for each.
# Header blocks count for more if they are large: a block of 2 KB may hold 2,000 fields.
FRAMES_PER_TURN = 64
FIELDS_PER_FRAME = 16
BLOCK_BYTES_PER_FRAME = 1024

# How many streams are remembered that were reset before their end, since frames that cross the reset are no error. (DATA,
# WINDOW_UPDATE and RST_STREAM are accepted on any closed stream.)
MAX_CLOSED_STREAMS = 256

# What both sides begin with, and the bounds of what a client may set: 6.5.2, 6.9.
DEFAULT_WINDOW = 65_535
MAX_WINDOW = 2**31 - 1
LEAST_FRAME_SIZE = 16_384
MOST_FRAME_SIZE = 2**24 - 1

_OUR_SETTINGS = {
    Setting.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
    Setting.MAX_FRAME_SIZE: MAX_FRAME_SIZE,
    Setting.MAX_HEADER_LIST_SIZE: MAX_HEADER_LIST,
}

# Headers whose value is new in nearly every response. They are kept out of the compression table, where each would replace
# another header.
UNIQUE_HEADERS = frozenset({b"audit-id", b"content-length", b"etag"})

_STREAM_BITS = 0x7FFFFFFF


@dataclass(slots=True)
class RequestReceived:
    """A new request. scope: its own part of the ASGI scope. ended: it has no body."""

    stream_id: int
    scope: dict[str, Any]
    ended: bool


@dataclass(slots=True)
class DataReceived:
    """A part of a request's body, which may be empty if it is the last one. Its bytes are to be given back by `consumed`."""

    stream_id: int
    data: bytes
    ended: bool


@dataclass(slots=True)
class StreamLost:
    """The client has reset the stream, or broken a rule in it: nothing more can be sent."""

    stream_id: int


@dataclass(slots=True)
class WindowOpened:
    """More may be sent, on one stream, or for 0 on the connection."""

    stream_id: int


@dataclass(slots=True)
class ClientLeaving:
    """The client opens no more streams, and waits for the responses to those it has. It has been sent a GOAWAY, too."""


Event = RequestReceived | DataReceived | StreamLost | WindowOpened | ClientLeaving


class _Stream:
    """A request whose response is not complete.

    window: bytes that we may send; below zero if the client has made it smaller. receivable: bytes that the client may send.
    returned: bytes that the application has consumed since the last WINDOW_UPDATE. due: bytes of the body that are still to come,
    by its Content-Length; None without one. ended: the client has sent everything.
    """

    __slots__ = ("due", "ended", "receivable", "returned", "window")

    def __init__(self, window: int, due: int | None, *, ended: bool) -> None:
        self.window = window
        self.receivable = STREAM_WINDOW
        self.returned = 0
        self.due = due
        self.ended = ended


@dataclass(slots=True)
class _HeaderBlock:
    """A header block of which CONTINUATION frames are still to come."""

    stream_id: int
    ended: bool
    depends_on_itself: bool
    fragments: list[bytes]
    size: int


class ServerConnection:
    """One connection. clock: monotonic seconds.

    highest_stream: the last one that the client has opened. leaving: GOAWAY was sent; later streams are refused.
    window: bytes that we may send on all streams together.
    """

    def __init__(self, clock: Callable[[], float], max_streams: int = MAX_STREAMS) -> None:
        self._max_streams = max_streams
        self.allowance = Allowance(clock)
        self.highest_stream = 0
        self.leaving = False
        self.window = DEFAULT_WINDOW
        self._decoder = HeaderDecoder()
        self._encoder = HeaderEncoder()
        self._streams: dict[int, _Stream] = {}
        self._reset: OrderedDict[int, bool] = OrderedDict()  # streams that were reset before their end; True: by us
        self._initial_window = DEFAULT_WINDOW  # of the client's
        self._frame_size = LEAST_FRAME_SIZE  # the most that the client accepts
        self._receivable = CONNECTION_WINDOW
        self._returned = 0
        self._unread = bytearray()  # behind the last whole frame
        self._preface: bytes | None = PREFACE  # what is still to come of it; None when the client's first SETTINGS have come, too
        self._block: _HeaderBlock | None = None
        self._events: list[Event] = []
        self._work = 0  # frames that this turn's work is worth
        self._out: list[bytes | memoryview] = []

    def initiate(self) -> None:
        """Send our SETTINGS, and open the connection's window, which has no setting."""
        self._out += (
            settings({Setting.MAX_CONCURRENT_STREAMS: self._max_streams, **_OUR_SETTINGS}),
            window_update(0, CONNECTION_WINDOW - DEFAULT_WINDOW),
        )

    def data_to_send(self) -> bytes:
        """Everything that is to be sent since the last call."""
        data = b"".join(self._out)
        self._out.clear()
        return data

    # What the client sends

    def receive(self, data: bytes) -> tuple[list[Event], bool]:
        """Add bytes from the client, and handle FRAMES_PER_TURN frames, or fewer that are as much work.

        Returns their events, and whether more frames may wait for a call with b"". Raises ProtocolError; a GOAWAY is then among
        the data to send.
        """
        self._events = []
        try:
            more = self._take(data)
        except ProtocolError as error:
            self.terminate(error.code)
            raise
        return self._events, more

    def _take(self, data: bytes) -> bool:
        source: bytes | bytearray = data
        if self._unread:
            self._unread += data
            source = self._unread
        at, end = 0, len(source)
        self._work = 0
        if self._preface:
            at = self._match_preface(source)
        while end - at >= HEAD_BYTES and self._work < FRAMES_PER_TURN:
            high, low, kind, flags, stream_id = HEAD.unpack_from(source, at)
            length = high << 8 | low
            if length > MAX_FRAME_SIZE:
                raise ProtocolError(ErrorCode.FRAME_SIZE_ERROR, f"a frame of {length} bytes")
            start = at + HEAD_BYTES
            if start + length > end:
                break
            at = start + length
            self._work += 1
            self._handle(kind, flags, stream_id & _STREAM_BITS, bytes(source[start:at]))
        if source is self._unread:
            del self._unread[:at]
        elif at < end:
            self._unread += memoryview(data)[at:]
        return self._work >= FRAMES_PER_TURN

    def _match_preface(self, source: bytes | bytearray) -> int:
        """How many bytes of the preface are in `source`, which is at the beginning of the connection."""
        assert self._preface is not None
        size = min(len(source), len(self._preface))
        if source[:size] != self._preface[:size]:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "not HTTP/2")
        self._preface = self._preface[size:]
        return size

    def _handle(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        if self._block is not None and kind != CONTINUATION:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "a frame within a header block")
        if self._preface is not None:
            if kind != SETTINGS or flags & ACK:
                raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "no SETTINGS at the beginning")
            self._preface = None
        if kind == HEADERS:
            self._headers(flags, stream_id, payload)  # costs nothing: its outcome counts, which is a response or a reset
        elif kind == DATA:
            self._data(flags, stream_id, payload)
        else:
            self.allowance.spend(1 + len(payload) // SETTING_BYTES if kind == SETTINGS else 1)
            if (handler := _HANDLERS.get(kind)) is not None:
                handler(self, flags, stream_id, payload)

    def _headers(self, flags: int, stream_id: int, payload: bytes) -> None:
        if not stream_id & 1:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "HEADERS on a stream that is not a client's")
        if flags & PADDED:
            payload = unpadded(payload)
        depends_on_itself = False
        if flags & PRIORITY_FIELDS:
            depends_on_itself = _depends_on(payload) == stream_id
            payload = payload[5:]
        ended = bool(flags & END_STREAM)
        if flags & END_HEADERS:
            self._header_block(stream_id, payload, ended=ended, depends_on_itself=depends_on_itself)
        else:
            self._block = _HeaderBlock(stream_id, ended, depends_on_itself, [payload], len(payload))

    def _continuation(self, flags: int, stream_id: int, payload: bytes) -> None:
        block = self._block
        if block is None or block.stream_id != stream_id:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "CONTINUATION of nothing")
        block.fragments.append(payload)
        block.size += len(payload)
        if block.size > MAX_HEADER_LIST:
            raise ProtocolError(ErrorCode.ENHANCE_YOUR_CALM, "an endless header block")
        if flags & END_HEADERS:
            self._block = None
            whole = b"".join(block.fragments)
            self._header_block(stream_id, whole, ended=block.ended, depends_on_itself=block.depends_on_itself)

    def _header_block(self, stream_id: int, block: bytes, *, ended: bool, depends_on_itself: bool) -> None:
        fields = self._decoder.decode(block)  # also of a stream that is refused, to keep the tables of both sides alike
        self._work += len(fields) // FIELDS_PER_FRAME + len(block) // BLOCK_BYTES_PER_FRAME
        stream = self._streams.get(stream_id)
        if stream is not None:
            if depends_on_itself:
                self._fail(stream_id, ErrorCode.PROTOCOL_ERROR)
            else:
                self._trailers(stream_id, stream, fields, ended=ended)
        elif stream_id > self.highest_stream:
            self._request(stream_id, fields, ended=ended, depends_on_itself=depends_on_itself)
        elif stream_id in self._reset:
            self.allowance.spend(1)
            self._late(stream_id)
        else:
            raise ProtocolError(ErrorCode.STREAM_CLOSED, "HEADERS on a closed stream")

    def _request(self, stream_id: int, fields: list[Field], *, ended: bool, depends_on_itself: bool) -> None:
        self.highest_stream = stream_id
        cost = 1 + len(fields) // FIELDS_PER_FRAME
        if self.leaving or len(self._streams) >= self._max_streams:
            self._refuse(stream_id, ErrorCode.REFUSED_STREAM, cost)
            return
        head = request_head(fields)
        if head is None or depends_on_itself or (ended and head.length):
            self._refuse(stream_id, ErrorCode.PROTOCOL_ERROR, cost)
            return
        self._streams[stream_id] = _Stream(self._initial_window, head.length, ended=ended)
        self._events.append(RequestReceived(stream_id, head.scope, ended))

    def _trailers(self, stream_id: int, stream: _Stream, fields: list[Field], *, ended: bool) -> None:
        if stream.ended:
            self._fail(stream_id, ErrorCode.STREAM_CLOSED)
        elif not ended or stream.due or not are_trailers(fields):
            self._fail(stream_id, ErrorCode.PROTOCOL_ERROR)
        else:
            stream.ended = True
            self._events.append(DataReceived(stream_id, b"", True))

    def _data(self, flags: int, stream_id: int, payload: bytes) -> None:
        size = len(payload)  # flow control counts padding, too
        ended = bool(flags & END_STREAM)
        stream = self._streams.get(stream_id)
        self.allowance.earn(size // BODY_BYTES_PER_CREDIT)
        if not ended or stream is None:
            self.allowance.spend(1)
        self._check_opened(stream_id)
        data = unpadded(payload) if flags & PADDED else payload
        self._receivable -= size
        if self._receivable < 0:
            raise ProtocolError(ErrorCode.FLOW_CONTROL_ERROR, "more DATA than the connection's window")
        if stream is None:
            self._give_back(size)
            self._late(stream_id)
            return
        stream.receivable -= size
        if stream.due is not None:
            stream.due -= len(data)
        code = _error_of_data(stream, ended=ended)
        if code is not None:
            self._give_back(size)
            self._fail(stream_id, code)
            return
        stream.ended = ended
        if size > len(data):
            self.consumed(stream_id, size - len(data))
        if data or ended:
            self._events.append(DataReceived(stream_id, data, ended))

    def _priority(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id == 0:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "PRIORITY of the connection")
        if len(payload) != 5:
            raise ProtocolError(ErrorCode.FRAME_SIZE_ERROR, "PRIORITY of another size")
        if _depends_on(payload) == stream_id:
            if self._is_idle(stream_id):
                raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "PRIORITY of a stream over itself")
            self._fail(stream_id, ErrorCode.PROTOCOL_ERROR)

    def _rst_stream(self, flags: int, stream_id: int, payload: bytes) -> None:
        self._check_opened(stream_id)
        if len(payload) != 4:
            raise ProtocolError(ErrorCode.FRAME_SIZE_ERROR, "RST_STREAM of another size")
        if self._streams.pop(stream_id, None) is not None:
            self._remember(stream_id, by_us=False)
            self._events.append(StreamLost(stream_id))

    def _settings(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "SETTINGS of a stream")
        if len(payload) % SETTING_BYTES or (flags & ACK and payload):
            raise ProtocolError(ErrorCode.FRAME_SIZE_ERROR, "SETTINGS of another size")
        if flags & ACK:
            return
        initial_window = self._initial_window
        for key, value in settings_of(payload):
            if key == Setting.HEADER_TABLE_SIZE:
                self._encoder.limit_table(value)
            elif key == Setting.INITIAL_WINDOW_SIZE:
                if value > MAX_WINDOW:
                    raise ProtocolError(ErrorCode.FLOW_CONTROL_ERROR, "an initial window that is too large")
                initial_window = value  # the last of a frame: the others have no effect
            elif key == Setting.MAX_FRAME_SIZE:
                if not LEAST_FRAME_SIZE <= value <= MOST_FRAME_SIZE:
                    raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "a size of frames that is not allowed")
                self._frame_size = value
            elif key == Setting.ENABLE_PUSH and value > 1:
                raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "neither push nor no push")
        self._set_initial_window(initial_window)
        self._out.append(frame(SETTINGS, ACK, 0, b""))

    def _set_initial_window(self, value: int) -> None:
        """Also the windows of open streams change by the difference, even below zero: 6.9.2."""
        change = value - self._initial_window
        self._initial_window = value
        if not change:
            return
        self.allowance.spend(len(self._streams) // FRAMES_PER_TURN)  # it is as much work as some frames
        for stream_id, stream in self._streams.items():
            stream.window += change
            if stream.window > MAX_WINDOW:
                raise ProtocolError(ErrorCode.FLOW_CONTROL_ERROR, "a window that is too large")
            if change > 0 and stream.window > 0:
                self._events.append(WindowOpened(stream_id))

    def _push_promise(self, flags: int, stream_id: int, payload: bytes) -> None:
        raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "PUSH_PROMISE of a client")

    def _ping(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "PING of a stream")
        if len(payload) != 8:
            raise ProtocolError(ErrorCode.FRAME_SIZE_ERROR, "PING of another size")
        if not flags & ACK:
            self._out.append(frame(PING, ACK, 0, payload))

    def _goaway(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "GOAWAY of a stream")
        if len(payload) < 8:
            raise ProtocolError(ErrorCode.FRAME_SIZE_ERROR, "GOAWAY of another size")
        if not self.leaving:
            self.goodbye()
            self._events.append(ClientLeaving())

    def _window_update(self, flags: int, stream_id: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise ProtocolError(ErrorCode.FRAME_SIZE_ERROR, "WINDOW_UPDATE of another size")
        increment = int.from_bytes(payload, "big") & _STREAM_BITS
        if stream_id == 0:
            self.window += increment
            if not increment:
                raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE by nothing")
            if self.window > MAX_WINDOW:
                raise ProtocolError(ErrorCode.FLOW_CONTROL_ERROR, "a window that is too large")
            self._events.append(WindowOpened(0))
            return
        self._check_opened(stream_id)
        stream = self._streams.get(stream_id)
        if stream is None:
            return
        stream.window += increment
        if not increment:
            self._fail(stream_id, ErrorCode.PROTOCOL_ERROR)
        elif stream.window > MAX_WINDOW:
            self._fail(stream_id, ErrorCode.FLOW_CONTROL_ERROR)
        elif stream.window > 0:
            self._events.append(WindowOpened(stream_id))

    # Streams that end before their response

    def _is_idle(self, stream_id: int) -> bool:
        """Whether nobody has opened the stream. Those with even numbers are ours, and we open none."""
        return stream_id > self.highest_stream or not stream_id & 1

    def _check_opened(self, stream_id: int) -> None:
        if self._is_idle(stream_id):
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "a frame of a stream that is not open")

    def _refuse(self, stream_id: int, code: ErrorCode, cost: int = 1) -> None:
        """Reset a stream without a response. It was no use to anybody, so it counts."""
        self._out.append(rst_stream(stream_id, code))
        self._remember(stream_id, by_us=True)
        self.allowance.spend(cost)

    def _fail(self, stream_id: int, code: ErrorCode) -> None:
        """Reset a stream in which the client has broken a rule. This costs as much as if the client had reset it."""
        if self._streams.pop(stream_id, None) is not None:
            self._events.append(StreamLost(stream_id))
        self._refuse(stream_id, code)

    def _late(self, stream_id: int) -> None:
        """Handle HEADERS or DATA of a closed stream: those that follow our own reset may have crossed it, others are an error."""
        if not self._reset.get(stream_id):
            self._out.append(rst_stream(stream_id, ErrorCode.STREAM_CLOSED))
            self._remember(stream_id, by_us=True)

    def _remember(self, stream_id: int, *, by_us: bool) -> None:
        self._reset[stream_id] = by_us
        if len(self._reset) > MAX_CLOSED_STREAMS:
            self._reset.popitem(last=False)

    # What the server sends. Streams that are closed are the caller's to know: by StreamLost, `reset`, or the end of the response.

    def send_head(self, stream_id: int, status: int, headers: Iterable[tuple[bytes, bytes]], *, ended: bool) -> None:
        """Send the head of a response. ended: it has no body."""
        fields = [(b":status", b"%d" % status, False)]
        fields += [(name, value, name in UNIQUE_HEADERS) for name, value in headers]
        block = self._encoder.encode(fields)
        flags = END_STREAM if ended else 0
        limit = self._frame_size
        if len(block) <= limit:
            self._out += (frame_head(len(block), HEADERS, flags | END_HEADERS, stream_id), block)
        else:
            for start in range(0, len(block), limit):
                part = block[start : start + limit]
                kind, more = (CONTINUATION, 0) if start else (HEADERS, flags)
                self._out.append(frame(kind, more | (END_HEADERS if start + limit >= len(block) else 0), stream_id, part))
        self.allowance.earn(CREDIT_PER_RESPONSE)
        if ended:
            self._end(stream_id)

    def room(self, stream_id: int) -> int:
        """How many bytes of a body may be sent now; below 1 for none, as on a stream whose StreamLost is not read yet."""
        stream = self._streams.get(stream_id)
        return 0 if stream is None else min(self.window, stream.window)

    def send_data(self, stream_id: int, data: memoryview | bytes, *, ended: bool) -> None:
        """Send a part of a body for which there is `room`, as the DATA frames that it takes. ended: it is the last one."""
        size = len(data)
        self.window -= size
        self._streams[stream_id].window -= size
        self.allowance.earn(CREDIT_PER_DATA + size // BYTES_PER_CREDIT)
        limit = self._frame_size
        flags = END_STREAM if ended else 0
        if size <= limit:
            self._out += (frame_head(size, DATA, flags, stream_id), data)
        else:
            for start in range(0, size, limit):
                part = data[start : start + limit]
                self._out += (frame_head(len(part), DATA, flags if start + limit >= size else 0, stream_id), part)
        if ended:
            self._end(stream_id)

    def reset(self, stream_id: int, code: ErrorCode) -> None:
        """Break off a response."""
        del self._streams[stream_id]
        self._remember(stream_id, by_us=True)
        self._out.append(rst_stream(stream_id, code))

    def _end(self, stream_id: int) -> None:
        """The response is complete. A client that still sends the request's body is told to stop: 8.1."""
        if self._streams[stream_id].ended:
            del self._streams[stream_id]
        else:
            self.reset(stream_id, ErrorCode.NO_ERROR)

    def consumed(self, stream_id: int, size: int) -> None:
        """Let the client send `size` more bytes, because the application has read as many, or never will.

        The windows are opened when half of them is consumed: a small body needs no WINDOW_UPDATE.
        """
        self._give_back(size)
        stream = self._streams.get(stream_id)
        if stream is not None and not stream.ended:
            stream.returned += size
            if stream.returned >= STREAM_WINDOW // 2:
                self._out.append(window_update(stream_id, stream.returned))
                stream.receivable += stream.returned
                stream.returned = 0

    def _give_back(self, size: int) -> None:
        self._returned += size
        if self._returned >= CONNECTION_WINDOW // 2:
            self._out.append(window_update(0, self._returned))
            self._receivable += self._returned
            self._returned = 0

    def goodbye(self) -> None:
        """GOAWAY: streams up to the last one seen are finished, the client retries later ones elsewhere."""
        self.leaving = True
        self._out.append(goaway(self.highest_stream, ErrorCode.NO_ERROR))

    def terminate(self, code: ErrorCode) -> None:
        """GOAWAY with an error. Nothing more is received or sent."""
        self._out.append(goaway(self.highest_stream, code))


_HANDLERS: dict[int, Callable[[ServerConnection, int, int, bytes], None]] = {
    PRIORITY: ServerConnection._priority,
    RST_STREAM: ServerConnection._rst_stream,
    SETTINGS: ServerConnection._settings,
    PUSH_PROMISE: ServerConnection._push_promise,
    PING: ServerConnection._ping,
    GOAWAY: ServerConnection._goaway,
    WINDOW_UPDATE: ServerConnection._window_update,
    CONTINUATION: ServerConnection._continuation,
}


def _depends_on(payload: bytes) -> int:
    """The stream that the fields of a priority name. Raises ProtocolError if they are not whole."""
    if len(payload) < 5:
        raise ProtocolError(ErrorCode.FRAME_SIZE_ERROR, "half a priority")
    return int.from_bytes(payload[:4], "big") & _STREAM_BITS


def _error_of_data(stream: _Stream, *, ended: bool) -> ErrorCode | None:
    """The rule that DATA just counted in `stream` has broken."""
    if stream.ended:
        return ErrorCode.STREAM_CLOSED
    if stream.receivable < 0:
        return ErrorCode.FLOW_CONTROL_ERROR
    if stream.due is not None and (stream.due < 0 or (ended and stream.due)):
        return ErrorCode.PROTOCOL_ERROR
    return None
