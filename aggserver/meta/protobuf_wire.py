"""Protobuf's wire format: numbers of variable length, tags, and the fields of a message.

Called by `protobuf.py` for Kubernetes' own objects and by `publish/gnostic.py` for OpenAPI documents. Pure.
Source: protobuf's encoding guide.
"""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["FIXED32", "FIXED64", "LENGTH", "VARINT", "ProtobufError", "fields", "tag", "varint"]

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
_UINT64_MASK = (1 << 64) - 1


class ProtobufError(ValueError):
    """The bytes are no message of this kind."""


def varint(number: int) -> bytes:
    """A negative number takes ten bytes, as the 64 bits that it is."""
    number &= _UINT64_MASK
    if number < 0x80:
        return bytes((number,))
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def tag(number: int, wire: int) -> bytes:
    return varint(number << 3 | wire)


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(field number, number or bytes) of a message, in order. Raises ProtobufError."""
    at = 0
    while at < len(data):
        found, at = _read_varint(data, at)
        wire = found & 7
        if wire == VARINT:
            value, at = _read_varint(data, at)
            yield found >> 3, value
            continue
        if wire == LENGTH:
            length, at = _read_varint(data, at)
        elif wire in (FIXED64, FIXED32):
            length = 8 if wire == FIXED64 else 4
        else:
            raise ProtobufError(f"proto: illegal wireType {wire}")
        if at + length > len(data):
            raise ProtobufError("unexpected EOF")
        yield found >> 3, data[at : at + length]
        at += length


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ProtobufError("unexpected EOF")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _UINT64_MASK, at
    raise ProtobufError("proto: integer overflow")
