"""Protobuf's wire format: varints, tags, and the fields of a message.

All protobuf is read and written with it: Kubernetes' objects (`scheme/protobuf.py`), OpenAPI documents (`publish/gnostic.py`) and
etcd's messages (`storage/etcd_wire.py`). All lengths are checked: a field that is truncated, or longer than the message that
contains it, is an error. Pure. Source: protobuf's encoding guide.
"""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["FIXED32", "FIXED64", "LENGTH", "VARINT", "ProtobufError", "fields", "signed", "tag", "varint", "with_length"]

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
_WITH_NUMBER = (LENGTH, VARINT)
_SIZES = {FIXED64: 8, FIXED32: 4}  # bytes

_UINT64_MASK = (1 << 64) - 1
# The shift of the tenth and last byte of a varint. Its bits beyond 64 are dropped, as in Go.
_LAST_SHIFT = 63
_CUT_OFF = "unexpected EOF"


class ProtobufError(ValueError):
    """The bytes are not a valid message of this kind."""


def varint(number: int) -> bytes:
    """Encode a varint. A negative number is encoded as 64 bits, in ten bytes."""
    number &= _UINT64_MASK
    if number < 0x80:
        return bytes((number,))
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def signed(number: int) -> int:
    """The int64 or int32 of a decoded varint."""
    return number - (1 << 64) if number >> 63 else number


def tag(number: int, wire: int) -> bytes:
    return varint(number << 3 | wire)


def with_length(content: bytes) -> bytes:
    """The content of a field after its tag: its length and its bytes."""
    size = len(content)
    return (size.to_bytes(1) if size < 0x80 else varint(size)) + content


def fields(data: bytes, at: int = 0, end: int | None = None) -> Iterator[tuple[int, int, int]]:
    """The fields of the message data[at:end], in order: (field number, value, 0) for a varint, else (field number, start, stop),
    where data[start:stop] are the bytes of a string, a message or a number of fixed size. Nothing is copied.

    end: not beyond the end of `data`. Raises ProtobufError with Go's message at the first malformed field.
    """
    if end is None:
        end = len(data)
    try:
        while at < end:
            head = data[at]
            at += 1
            if head >= 0x80:
                head, at = _longer(data, at, head)
            wire = head & 7
            if wire in _WITH_NUMBER:
                value = data[at]
                at += 1
                if value >= 0x80:
                    value, at = _longer(data, at, value)
                stop = at + value
                if wire == VARINT:
                    # A varint that extends beyond the end of its message.
                    if at > end:
                        raise ProtobufError(_CUT_OFF)
                    yield head >> 3, value, 0
                    continue
            elif wire in _SIZES:
                stop = at + _SIZES[wire]
            else:
                raise ProtobufError(f"proto: illegal wireType {wire}")
            if stop > end:
                raise ProtobufError(_CUT_OFF)
            yield head >> 3, at, stop
            at = stop
    except IndexError:
        raise ProtobufError(_CUT_OFF) from None


def _longer(data: bytes, at: int, first: int) -> tuple[int, int]:
    """Decode a varint of several bytes; returns it and the position after it. Raises IndexError if it is truncated."""
    value, shift = first & 0x7F, 7
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _UINT64_MASK, at
        if shift == _LAST_SHIFT:
            raise ProtobufError("proto: integer overflow")
        shift += 7
