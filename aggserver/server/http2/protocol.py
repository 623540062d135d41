"""jh2's side of an HTTP/2 connection, with limits on what a client can make the server do.

jh2 does the protocol's bookkeeping without I/O: frames, compression, stream states, flow control. This module decides:
- How many frames of one client are handled in a turn (`receive`), and how many without effect it may send (`allowance.py`).
- What a connection may hold: streams are dropped when they are over, and MAX_CLOSED_STREAMS of them are remembered; unknown
  settings are dropped; our compression table has the size that Go's server gives it.
- Which header blocks are refused although jh2 would take them (`header_block.py`).
- How a DATA frame is written without the five copies that jh2 makes of it.

Names with an underscore are jh2's own, so pyproject.toml pins its minor version.
Sources: RFC 9113 and 7541; golang.org/x/net/http2/server.go v0.49.0.
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
from jh2.hyperframe.exceptions import InvalidPaddingError
from jh2.hyperframe.frame import HeadersFrame, SettingsFrame
from jh2.settings import SettingCodes, Settings
from jh2.stream import StreamInputs

from aggserver.server.http2.allowance import BODY_BYTES_PER_CREDIT, BYTES_PER_CREDIT, CREDIT_PER_DATA, Allowance
from aggserver.server.http2.header_block import CompressionError, check_padding, huffman_strings
from aggserver.server.requests import STREAM_WINDOW

__all__ = ["FRAMES_PER_TURN", "MAX_STREAMS", "LimitedConnection"]

# Upstream's number for aggregated servers (pkg/server/options/recommended.go): the aggregator sends the watches of all its
# clients on one connection. kube-apiserver itself has 100.
MAX_STREAMS = 1000

# The most bytes of requests' bodies on one connection that may wait for the application.
CONNECTION_WINDOW = 100 * STREAM_WINDOW

MAX_FRAME_SIZE = STREAM_WINDOW
MAX_HEADER_LIST = 64 * 1024  # bytes; bearer tokens, selectors and X-Remote-Extra headers are long

# Frames of one connection that are handled before other connections get a turn: about a millisecond. Go has a goroutine for each.
FRAMES_PER_TURN = 64

# How many closed streams are remembered, with how they ended, to distinguish late trailers from wrong ones. (DATA, WINDOW_UPDATE
# and RST_STREAM are accepted on any closed stream.) They take 35 KB; jh2's own number is 65,536, which takes 9 MB.
MAX_CLOSED_STREAMS = 256

# The most bytes of the table that compresses our headers, even if the client allows more: most responses have the same headers.
# Go's number (MaxEncoderHeaderTableSize).
ENCODER_TABLE = 4096

# The head of a frame: length in 24 bits, type, flags, stream; RFC 9113, 4.1.
_FRAME_HEAD = struct.Struct(">HBBBL")
_HEAD_BYTES = 9
_DATA, _HEADERS, _SETTINGS = 0x0, 0x1, 0x4
_END_STREAM = 0x1
_SETTING_BYTES = 6
_KNOWN_SETTINGS = frozenset(map(int, SettingCodes))


class _Frames(FrameBuffer):  # type: ignore[misc]
    """jh2's reader of frames, which checks the head of a frame before it waits for the rest and parses it."""

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
            return  # the outcome of this frame counts instead: a response, a refusal or a reset
        if kind == _DATA:
            self._allowance.earn(length // BODY_BYTES_PER_CREDIT)
            cost = 0 if flags & _END_STREAM else 1
        else:
            cost = 1 + length // _SETTING_BYTES if kind == _SETTINGS else 1
        self._allowance.spend(cost)
        if self._headers_buffer and sum(len(frame.data) for frame in self._headers_buffer) > MAX_HEADER_LIST:
            raise DenialOfServiceError("an endless header block")


class LimitedConnection(H2Connection):  # type: ignore[misc]
    """jh2's connection. `allowance` is charged here for what a client sends; `sender.py` credits it for responses."""

    MAX_CLOSED_STREAMS = MAX_CLOSED_STREAMS

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(
            # Our own code makes the headers in lower case: checking and rewriting them took a fifth of the time of a response.
            config=H2Configuration(
                client_side=False,
                header_encoding=None,
                validate_inbound_headers=False,  # it ends the connection where `request_head.py` refuses one stream
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
        # jh2 copies these from its first settings, before they can be replaced
        self.max_inbound_frame_size = MAX_FRAME_SIZE
        self.decoder.max_header_list_size = MAX_HEADER_LIST

    def initiate(self) -> None:
        """Add our connection preface to the data to send."""
        self.initiate_connection()
        self.increment_flow_control_window(CONNECTION_WINDOW - self.inbound_flow_control_window)

    def receive(self, data: bytes) -> tuple[list[Event], bool]:
        """Add bytes from the client, and handle up to FRAMES_PER_TURN frames.

        Returns their events, and whether more frames wait for a call with b"". Raises ProtocolError; a GOAWAY is then among the
        data to send.
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
        """Drops a closed stream, and remembers how it ended. Returns False for a stream that is open, and keeps it."""
        stream = self.streams.get(stream_id)
        if stream is not None:
            if not stream.closed:
                return False
            del self.streams[stream_id]
            self._closed_streams[stream_id] = stream.closed_by
        return True

    def refuse(self, stream_id: int, code: ErrorCodes) -> None:
        """Resets a stream without a response. Raises DenialOfServiceError; a GOAWAY is then among the data to send."""
        self.reset_stream(stream_id, code)
        self.forget(stream_id)
        try:
            self.allowance.spend(1)
        except DenialOfServiceError as error:
            self._terminate_connection(error.error_code)
            raise

    def data_frames(self, stream_id: int, data: memoryview, *, end_stream: bool) -> bytes:
        """DATA frames of any size for which flow control has room, as bytes to write behind the data to send.

        In place of jh2's `send_data`, which runs its state machines for each frame and copies it five times: half the time of a
        long list. Raises ProtocolError.
        """
        stream = self._get_stream_by_id(stream_id)
        self.state_machine.process_input(ConnectionInputs.SEND_DATA)
        stream.state_machine.process_input(StreamInputs.SEND_DATA)
        if end_stream:
            stream.state_machine.process_input(StreamInputs.SEND_END_STREAM)
        self.outbound_flow_control_window -= len(data)
        stream.outbound_flow_control_window -= len(data)
        self.allowance.earn(CREDIT_PER_DATA + len(data) // BYTES_PER_CREDIT)
        pieces: list[bytes | memoryview] = []
        limit = self.max_outbound_frame_size
        for start in range(0, len(data) or 1, limit):
            part = data[start : start + limit]
            last = end_stream and start + limit >= len(data)
            flags = _END_STREAM if last else 0
            pieces += (_FRAME_HEAD.pack(len(part) >> 8, len(part) & 0xFF, _DATA, flags, stream_id), part)
        return b"".join(pieces)

    # In place of jh2's handling of a frame

    def _receive_headers_frame(self, frame: HeadersFrame) -> tuple[list[Any], list[Event]]:
        """As jh2 does, with the checks that its decoder leaves out, and without its count of the open streams.

        jh2 counts all streams at each request, and ends the connection if there are too many; `connection.py` refuses only the
        stream.
        """
        strings = huffman_strings(frame.data)
        try:
            headers = _decode_headers(self.decoder, frame.data)
        except DenialOfServiceError:
            raise
        except ProtocolError as error:
            raise CompressionError(str(error)) from None
        check_padding(strings, headers)
        events: list[Event] = self.state_machine.process_input(ConnectionInputs.RECV_HEADERS)
        stream = self._get_or_create_stream(frame.stream_id, 1)  # clients have odd numbers
        frames, received = stream.receive_headers(headers, "END_STREAM" in frame.flags, None)
        if "PRIORITY" in frame.flags:
            received += self._receive_priority_frame(frame)[1]
        return frames, events + received

    def _receive_settings_frame(self, frame: SettingsFrame) -> tuple[list[Any], list[Event]]:
        """As jh2 does, but unknown settings are dropped and the table's size is limited: jh2 would keep any number and size."""
        frame.settings = known = {code: value for code, value in frame.settings.items() if code in _KNOWN_SETTINGS}
        if known.get(SettingCodes.HEADER_TABLE_SIZE, 0) > ENCODER_TABLE:
            known[SettingCodes.HEADER_TABLE_SIZE] = ENCODER_TABLE
        result: tuple[list[Any], list[Event]] = super()._receive_settings_frame(frame)
        return result
