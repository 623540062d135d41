"""HTTP/2 frames as bytes, and the errors that end a stream or a connection. Pure.

A frame is a head of 9 bytes (length in 24 bits, type, flags, stream) and a payload. `protocol.py` reads the frames of a client,
in one loop over its bytes; here are the numbers and the frames that we write.
Source: RFC 9113, 4, 6 and 7.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from enum import IntEnum

__all__ = [
    "ACK",
    "CONTINUATION",
    "DATA",
    "END_HEADERS",
    "END_STREAM",
    "GOAWAY",
    "HEAD",
    "HEADERS",
    "HEAD_BYTES",
    "PADDED",
    "PING",
    "PREFACE",
    "PRIORITY",
    "PRIORITY_FIELDS",
    "PUSH_PROMISE",
    "RST_STREAM",
    "SETTINGS",
    "SETTING_BYTES",
    "WINDOW_UPDATE",
    "ErrorCode",
    "ProtocolError",
    "Setting",
    "frame",
    "frame_head",
    "goaway",
    "rst_stream",
    "settings",
    "settings_of",
    "unpadded",
    "window_update",
]

# What a client sends before its first frame: 3.4.
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

# Types: 6.
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)

# Flags. PRIORITY_FIELDS is HEADERS' flag that is named PRIORITY like the frame.
END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
PRIORITY_FIELDS = 0x20

HEAD = struct.Struct(">HBBBL")
HEAD_BYTES = HEAD.size

_SETTING = struct.Struct(">HL")
SETTING_BYTES = _SETTING.size
_LONG = struct.Struct(">L")
_TWO_LONGS = struct.Struct(">LL")


class ErrorCode(IntEnum):
    """Error codes of RST_STREAM and GOAWAY: 7."""

    NO_ERROR = 0x0
    PROTOCOL_ERROR = 0x1
    INTERNAL_ERROR = 0x2
    FLOW_CONTROL_ERROR = 0x3
    STREAM_CLOSED = 0x5
    FRAME_SIZE_ERROR = 0x6
    REFUSED_STREAM = 0x7
    CANCEL = 0x8
    COMPRESSION_ERROR = 0x9
    ENHANCE_YOUR_CALM = 0xB


class Setting(IntEnum):
    """Identifiers in SETTINGS: 6.5.2."""

    HEADER_TABLE_SIZE = 0x1
    ENABLE_PUSH = 0x2
    MAX_CONCURRENT_STREAMS = 0x3
    INITIAL_WINDOW_SIZE = 0x4
    MAX_FRAME_SIZE = 0x5
    MAX_HEADER_LIST_SIZE = 0x6


class ProtocolError(Exception):
    """A connection error (5.4.1): the client has broken the protocol or a limit. The connection ends with GOAWAY and `code`."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.code = code


def frame_head(length: int, kind: int, flags: int, stream_id: int) -> bytes:
    return HEAD.pack(length >> 8, length & 0xFF, kind, flags, stream_id)


def frame(kind: int, flags: int, stream_id: int, payload: bytes) -> bytes:
    return frame_head(len(payload), kind, flags, stream_id) + payload


def rst_stream(stream_id: int, code: ErrorCode) -> bytes:
    return frame(RST_STREAM, 0, stream_id, _LONG.pack(code))


def goaway(last_stream_id: int, code: ErrorCode) -> bytes:
    return frame(GOAWAY, 0, 0, _TWO_LONGS.pack(last_stream_id, code))


def window_update(stream_id: int, increment: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream_id, _LONG.pack(increment))


def settings(values: Mapping[Setting, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(key, value) for key, value in values.items()))


def settings_of(payload: bytes) -> list[tuple[int, int]]:
    """(identifier, value) of each setting, in order, unknown ones too. The payload must be whole settings."""
    return list(_SETTING.iter_unpack(payload))


def unpadded(payload: bytes) -> bytes:
    """The content of a DATA or HEADERS frame with the flag PADDED: 6.1. Raises ProtocolError."""
    if not payload:
        raise ProtocolError(ErrorCode.FRAME_SIZE_ERROR, "a padded frame without the length of its padding")
    padding = payload[0]
    if padding >= len(payload):
        raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "a frame with more padding than bytes")
    return payload[1 : len(payload) - padding]
