"""jh2's side of an HTTP/2 connection, where the library takes more than a server that anybody may reach can give.

jh2 keeps the protocol's books: frames, compression, states, flow control. What is decided here:
- How much is done for a client at once (`receive`), and how many frames it may send that do no good (`Allowance`): anybody may
  open a connection, and a control frame costs its sender nothing.
- What a connection may hold: streams that are over are let go at once, `MAX_CLOSED_STREAMS` of them are remembered; settings that
  nobody knows are dropped, and the table of our header compression has the size that Go's server gives it.
- What the library lets pass and RFC 7541 does not: see `_huffman_strings`.
- A DATA frame is written without five copies of it.

The names with an underscore are the library's own, so its minor version is pinned. Called by `http2.py` alone.
Sources: RFC 9113 and 7541; golang.org/x/net/http2/server.go v0.49.0; the token bucket of nghttp2 1.57 (nghttp2_ratelim).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from jh2.config import H2Configuration
from jh2.connection import ConnectionInputs, H2Connection, _decode_headers
from jh2.errors import ErrorCodes
from jh2.events import Event
from jh2.exceptions import DenialOfServiceError, FrameTooLargeError, ProtocolError
from jh2.frame_buffer import FrameBuffer
from jh2.hpack.huffman_constants import REQUEST_CODES_LENGTH
from jh2.hyperframe.exceptions import InvalidPaddingError
from jh2.hyperframe.frame import HeadersFrame, SettingsFrame
from jh2.settings import SettingCodes, Settings
from jh2.stream import StreamInputs

from aggserver.server.requests import STREAM_WINDOW

__all__ = ["FRAMES_PER_TURN", "MAX_STREAMS", "Allowance", "Library"]

# Upstream's number for aggregated servers (pkg/server/options/recommended.go): the aggregator sends everybody's watches down one
# connection. kube-apiserver itself has 100.
MAX_STREAMS = 1000

# Bytes of bodies that may wait for their applications on one connection.
CONNECTION_WINDOW = 100 * STREAM_WINDOW

MAX_FRAME_SIZE = STREAM_WINDOW
MAX_HEADER_LIST = 64 * 1024  # bytes; bearer tokens, selectors and X-Remote-Extra headers are long

# Frames of one connection taken in before all others get their turn: about a millisecond. Go has a thread for each.
FRAMES_PER_TURN = 64

# Frames that do no good: so many at once, and so many a second for ever. nghttp2's figures; Go counts only those whose answers
# the client does not read (10,000), since its other connections have processors of their own.
USELESS_BURST = 1000
USELESS_PER_SECOND = 33

# What is useful gives back: an answer the PRIORITY, WINDOW_UPDATEs and the RST_STREAM that may come with its request, DATA of
# ours two WINDOW_UPDATEs, and one more for every KB (Go's client sends two for 4 KB).
CREDIT_OF_ANSWER = 4
CREDIT_OF_DATA = 2
BYTES_PER_CREDIT = 1024

# A body may come in small frames, but not in none but small ones.
BODY_BYTES_PER_CREDIT = 64

# How streams ended, for frames that were under way: by it a late one is told from one that is wrong. DATA, WINDOW_UPDATE and
# RST_STREAM are taken on any stream that was, so this is for trailers alone. 35 KB; the library has 65,536, which is 9 MB.
MAX_CLOSED_STREAMS = 256

# Bytes of the table by which our headers are compressed, whatever the client allows: we say much the same each time. Go's
# (MaxEncoderHeaderTableSize).
ENCODER_TABLE = 4096

# Of a frame: length in 24 bits, type, flags, stream; RFC 9113, 4.1.
_FRAME_HEAD = struct.Struct(">HBBBL")
_HEAD_BYTES = 9
_DATA, _HEADERS, _SETTINGS = 0x0, 0x1, 0x4
_END_STREAM = 0x1
_SETTING_BYTES = 6
_KNOWN_SETTINGS = frozenset(map(int, SettingCodes))

# Of the numbers in header blocks, which are lengths and indices.
_INTEGER_BITS = 28

_HUFFMAN_BITS = bytes(REQUEST_CODES_LENGTH[:256])


class CompressionError(ProtocolError):  # type: ignore[misc]
    """A header block that can't be decoded: the tables of both sides are not the same any more."""

    error_code = ErrorCodes.COMPRESSION_ERROR


class Allowance:
    """The frames that do no good which a client may still send. `clock` gives seconds, from anywhere."""

    __slots__ = ("_clock", "_left", "_refilled")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._left = USELESS_BURST
        self._refilled = clock()

    def spend(self, cost: int) -> None:
        """Raises DenialOfServiceError, which ends the connection with ENHANCE_YOUR_CALM."""
        if cost > self._left:
            now = self._clock()
            self.earn(int((now - self._refilled) * USELESS_PER_SECOND))
            self._refilled = now
            if cost > self._left:
                raise DenialOfServiceError("more control frames than requests account for")
        self._left -= cost

    def earn(self, credit: int) -> None:
        self._left = min(self._left + credit, USELESS_BURST)


class _Frames(FrameBuffer):  # type: ignore[misc]
    """jh2's reader of frames, which looks at the head of a frame before it waits for the rest or takes it apart."""

    def __init__(self, allowance: Allowance) -> None:
        super().__init__(server=True)
        self._allowance = allowance

    def __next__(self) -> Any:
        start = self._data_offset
        available = len(self._data) - start
        if available >= _HEAD_BYTES:
            high, low, kind, flags, _ = _FRAME_HEAD.unpack_from(self._data, start)
            length = high << 8 | low
            if length > self.max_frame_size:
                raise FrameTooLargeError(f"a frame of {length} bytes")
            if available >= _HEAD_BYTES + length:
                self._count(kind, flags, length)
        return super().__next__()

    def _count(self, kind: int, flags: int, length: int) -> None:
        if kind == _HEADERS:
            return  # what comes of it counts: an answer, a refusal, its reset
        if kind == _DATA:
            self._allowance.earn(length // BODY_BYTES_PER_CREDIT)
            cost = 0 if flags & _END_STREAM else 1
        else:
            cost = 1 + length // _SETTING_BYTES if kind == _SETTINGS else 1
        self._allowance.spend(cost)
        if self._headers_buffer and sum(len(frame.data) for frame in self._headers_buffer) > MAX_HEADER_LIST:
            raise DenialOfServiceError("a header block without end")


class Library(H2Connection):  # type: ignore[misc]
    """jh2's connection. `allowance` is told here of what a client sends, by `http2.py` of what comes of it."""

    MAX_CLOSED_STREAMS = MAX_CLOSED_STREAMS

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(
            # What we send is made by our own code, in lower case: checking and rewriting it cost a fifth of each response.
            config=H2Configuration(
                client_side=False,
                header_encoding=None,
                validate_inbound_headers=False,  # it ends the connection over what `http2.py` ends the stream for
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        self.allowance = Allowance(clock)
        self.incoming_buffer = _Frames(self.allowance)
        self.local_settings = Settings(
            client=False,
            initial_values={
                SettingCodes.MAX_CONCURRENT_STREAMS: MAX_STREAMS,
                SettingCodes.MAX_HEADER_LIST_SIZE: MAX_HEADER_LIST,
                SettingCodes.MAX_FRAME_SIZE: MAX_FRAME_SIZE,
                SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW,
            },
        )
        # the library copies these from the settings it began with, before they could be replaced
        self.max_inbound_frame_size = MAX_FRAME_SIZE
        self.decoder.max_header_list_size = MAX_HEADER_LIST

    def initiate(self) -> None:
        """Our preface, as data to send."""
        self.initiate_connection()
        self.increment_flow_control_window(CONNECTION_WINDOW - self.inbound_flow_control_window)

    def receive(self, data: bytes) -> tuple[list[Event], bool]:
        """Takes bytes in; what came of the first FRAMES_PER_TURN frames, and whether more are waiting for a call with b"".

        Raises ProtocolError, with a GOAWAY among the data to send.
        """
        events: list[Event] = []
        buffer = self.incoming_buffer
        try:
            buffer.add_data(data)
            buffer.max_frame_size = self.max_inbound_frame_size
            for count, frame in enumerate(buffer, start=1):
                events += self._receive_frame(frame)
                if count == FRAMES_PER_TURN:
                    return events, True
        except InvalidPaddingError:
            self._terminate_connection(ErrorCodes.PROTOCOL_ERROR)
            raise ProtocolError("a frame with more padding than bytes") from None
        except ProtocolError as error:
            self._terminate_connection(error.error_code)
            raise
        return events, False

    def forget(self, stream_id: int) -> bool:
        """Lets go of a stream that is closed, and remembers how it was; False for one that is open."""
        stream = self.streams.get(stream_id)
        if stream is not None:
            if not stream.closed:
                return False
            del self.streams[stream_id]
            self._closed_streams[stream_id] = stream.closed_by
        return True

    def refuse(self, stream_id: int, code: ErrorCodes) -> None:
        """Resets a stream that gets no answer. Raises DenialOfServiceError, with a GOAWAY among the data to send."""
        self.reset_stream(stream_id, code)
        self.forget(stream_id)
        try:
            self.allowance.spend(1)
        except DenialOfServiceError as error:
            self._terminate_connection(error.error_code)
            raise

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
        self.allowance.earn(CREDIT_OF_DATA + len(data) // BYTES_PER_CREDIT)
        pieces: list[bytes | memoryview] = []
        limit = self.max_outbound_frame_size
        for start in range(0, len(data) or 1, limit):
            part = data[start : start + limit]
            last = end_stream and start + limit >= len(data)
            flags = _END_STREAM if last else 0
            pieces += (_FRAME_HEAD.pack(len(part) >> 8, len(part) & 0xFF, _DATA, flags, stream_id), part)
        return b"".join(pieces)

    # What the library does with a frame, done otherwise

    def _receive_headers_frame(self, frame: HeadersFrame) -> tuple[list[Any], list[Event]]:
        """As the library's, but for the checks that its decoder leaves out, and its count of streams.

        It walks all of them at every request, and ends the connection where there are too many, which `http2.py` refuses.
        """
        strings = _huffman_strings(frame.data)
        try:
            headers = _decode_headers(self.decoder, frame.data)
        except DenialOfServiceError:
            raise
        except ProtocolError as error:
            raise CompressionError(str(error)) from None
        _check_filling(strings, headers)
        events: list[Event] = self.state_machine.process_input(ConnectionInputs.RECV_HEADERS)
        stream = self._get_or_create_stream(frame.stream_id, 1)  # clients have odd numbers
        frames, received = stream.receive_headers(headers, "END_STREAM" in frame.flags, None)
        if "PRIORITY" in frame.flags:
            received += self._receive_priority_frame(frame)[1]
        return frames, events + received

    def _receive_settings_frame(self, frame: SettingsFrame) -> tuple[list[Any], list[Event]]:
        """The library would keep whatever number a client calls a setting, and a table of any size."""
        frame.settings = known = {code: value for code, value in frame.settings.items() if code in _KNOWN_SETTINGS}
        if known.get(SettingCodes.HEADER_TABLE_SIZE, 0) > ENCODER_TABLE:
            known[SettingCodes.HEADER_TABLE_SIZE] = ENCODER_TABLE
        result: tuple[list[Any], list[Event]] = super()._receive_settings_frame(frame)
        return result


def _huffman_strings(block: bytes) -> list[tuple[int, int, int, int]]:
    """(field, 0 for its name and 1 for its value, length, last octet) of each Huffman-coded string of a header block.

    Raises CompressionError for a block that ends too soon, over which the decoder would panic, and where a change of the table's
    size does not stand before all fields (RFC 7541, 4.2), which it lets pass.
    """
    found: list[tuple[int, int, int, int]] = []
    at, end, field = 0, len(block), 0
    try:
        while at < end:
            first = block[at]
            if first & 0x80:  # a whole field of the table
                at = at + 1 if first != 0xFF else _integer(block, at, 0x7F)[1]
            elif first & 0xE0 == 0x20:
                if field:
                    raise CompressionError("a change of the table's size behind a field")
                at = _integer(block, at, 0x1F)[1]
                continue
            else:  # a name of the table or a new one, and a value
                index, at = _integer(block, at, 0x3F if first & 0x40 else 0x0F)
                for part in (1,) if index else (0, 1):
                    is_huffman = block[at] & 0x80
                    length, at = _integer(block, at, 0x7F)
                    at += length
                    if is_huffman and length:
                        found.append((field, part, length, block[at - 1]))
            field += 1
    except IndexError:
        at = end + 1
    if at > end:
        raise CompressionError("a header block that ends too soon")
    return found


def _integer(block: bytes, at: int, mask: int) -> tuple[int, int]:
    """The number in the bits of `mask` and what continues it, and where it ends; RFC 7541, 5.1. Raises IndexError."""
    number = block[at] & mask
    at += 1
    if number == mask:
        shift = 0
        while True:
            octet = block[at]
            at += 1
            number += (octet & 0x7F) << shift
            if octet < 0x80:
                break
            shift += 7
            if shift > _INTEGER_BITS:
                raise CompressionError("a number that is too large")
    return number, at


def _check_filling(strings: list[tuple[int, int, int, int]], headers: list[tuple[bytes, bytes]]) -> None:
    """Huffman codes are filled up with ones (RFC 7541, 5.2); the decoder takes anything. Raises CompressionError."""
    for field, part, length, last in strings:
        ones = (1 << (8 * length - sum(headers[field][part].translate(_HUFFMAN_BITS)))) - 1
        if last & ones != ones:
            raise CompressionError("a Huffman code that is not filled up with ones")
