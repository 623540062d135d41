"""Kubernetes' protobuf, read only: the few kinds that Go's typed clients send in it.

kubectl and client-go's typed clients write built-in kinds as `application/vnd.kubernetes.protobuf` whatever they read: a magic
number, an envelope that names the kind, and the message. Here it becomes the same JSON object that a JSON body would have been;
answers stay JSON, which the same clients accept. Custom resources have no protobuf form, upstream neither. Called for request
bodies by `endpoints/handlers/body.py`. Pure. Source: the generated.proto files of k8s.io/apimachinery and k8s.io/api, v0.36.3;
protobuf's encoding guide.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from typing import Any

import orjson

from aggserver.meta import times
from aggserver.meta.golang import from_float
from aggserver.meta.protobuf_messages import ENVELOPE, KINDS, Field, Message

__all__ = ["ProtobufError", "UnknownKind", "decode"]

_MAGIC = b"k8s\x00"
# The deepest schema that is taken has a hundred levels of two messages each.
_MAX_DEPTH = 250
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class ProtobufError(ValueError):
    """The bytes are no message of this kind."""


class UnknownKind(ValueError):
    """A kind that is not read here; the text is its name."""


def decode(body: bytes) -> dict[str, Any]:
    """The object, with apiVersion and kind as the envelope names them. Raises ProtobufError, UnknownKind."""
    if not body.startswith(_MAGIC):
        raise ProtobufError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    envelope = _decode(body[len(_MAGIC) :], ENVELOPE, 0)
    type_meta = envelope.get("typeMeta", {})
    kind = type_meta.get("kind", "")
    message = KINDS.get(kind)
    if message is None:
        raise UnknownKind(kind)
    return {**type_meta, **_decode(envelope.get("raw", b""), message, 0)}


def _decode(data: bytes, message: Message, depth: int) -> Any:
    """The JSON value of a message; `depth` messages are around it."""
    if depth > _MAX_DEPTH:
        raise ProtobufError(f"messages nest deeper than {_MAX_DEPTH}")
    out: dict[str, Any] = {}
    for number, value in _members(data):
        field = message.fields.get(number)
        if field is None:
            continue
        if field.is_map:
            key, converted = _entry(field, value, depth)
            out.setdefault(field.name, {})[key] = converted
            continue
        converted = _converted(field, value, depth)
        if field.repeated:
            out.setdefault(field.name, []).append(converted)
        elif converted or field.pointer:
            out[field.name] = converted
    return out if message.value is None else message.value(out)


def _entry(field: Field, value: int | bytes, depth: int) -> tuple[str, Any]:
    """An entry of a map: a message of a key and a value."""
    if not isinstance(value, bytes):
        raise ProtobufError(f"{field.name} is a number")
    key = _leaf(field.name, "string", b"")
    converted: Any = "" if field.kind == "string" else {}
    for number, part in _members(value):
        if number == 1 and isinstance(part, bytes):
            key = _leaf(field.name, "string", part)
        elif number == 2:
            converted = _converted(field, part, depth)
    return key, converted


def _converted(field: Field, value: int | bytes, depth: int) -> Any:
    kind = field.kind
    if kind in ("int", "bool"):
        if not isinstance(value, int):
            raise ProtobufError(f"{field.name} is no number")
        return bool(value) if kind == "bool" else value - (1 << 64) if value >> 63 else value
    if not isinstance(value, bytes):
        raise ProtobufError(f"{field.name} is a number")
    if isinstance(kind, Message):
        return _decode(value, kind, depth + 1)
    return _time(value) if kind == "time" else _leaf(field.name, kind, value)


def _leaf(name: str, kind: str, value: bytes) -> Any:
    try:
        if kind == "json":
            return orjson.loads(value) if value else None
        if kind == "double":
            (number,) = struct.unpack("<d", value)
            return from_float(number)
        if kind == "bytes":
            return base64.b64encode(value).decode()
        return value if kind == "raw" else value.decode()
    except (ValueError, struct.error) as error:
        raise ProtobufError(f"{name}: {error}") from None


def _time(value: bytes) -> str:
    seconds = 0
    for number, part in _members(value):
        if number == 1 and isinstance(part, int):
            seconds = part - (1 << 64) if part >> 63 else part
    try:
        return times.format_time(seconds) if seconds else ""
    except (ValueError, OverflowError) as error:
        raise ProtobufError(f"a time is out of range: {error}") from None


def _members(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(field number, number or bytes) of a message, in order."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        wire = tag & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield tag >> 3, value
            continue
        if wire == _BYTES:
            length, at = _varint(data, at)
        elif wire in (_FIXED64, _FIXED32):
            length = 8 if wire == _FIXED64 else 4
        else:
            raise ProtobufError(f"proto: illegal wireType {wire}")
        if at + length > len(data):
            raise ProtobufError("unexpected EOF")
        yield tag >> 3, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ProtobufError("unexpected EOF")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
    raise ProtobufError("proto: integer overflow")
