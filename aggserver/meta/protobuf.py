"""Kubernetes' protobuf: bodies of the few kinds that Go's typed clients send in it, and answers of the few that they prefer so.

A magic number, an envelope that names the kind, and the message. kubectl and client-go's typed clients write built-in kinds so
whatever they read; client-go's metadata client asks for PartialObjectMetadata in no other form where it can be had. Custom
resources have no protobuf form, upstream neither. A body becomes the same JSON object that a JSON body would have been; an answer
is made of one.
Called by `endpoints/handlers/body.py` for bodies, by `endpoints/negotiation.py` and `endpoints/handlers/watch.py` for answers.
Pure. Source: the generated.proto files of k8s.io/apimachinery and k8s.io/api, k8s.io/apimachinery
pkg/runtime/serializer/protobuf/protobuf.go, v0.36.3.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

import orjson

from aggserver.meta import times
from aggserver.meta.golang import from_float
from aggserver.meta.protobuf_messages import ANSWERS, ENVELOPE, KINDS, WATCH_EVENT, Field, Message
from aggserver.meta.protobuf_wire import FIXED64, LENGTH, VARINT, ProtobufError, fields, tag, varint

__all__ = ["ProtobufError", "UnknownKind", "decode", "encode", "encode_event", "encode_items", "encode_list"]

_MAGIC = b"k8s\x00"
# The deepest schema that is taken has a hundred levels of two messages each.
_MAX_DEPTH = 250


class UnknownKind(ValueError):
    """A kind that is not read here; the text is its name."""


def decode(body: bytes, kinds: Mapping[str, Message] = KINDS) -> dict[str, Any]:
    """The object, with apiVersion and kind as the envelope names them. Raises ProtobufError, UnknownKind."""
    if not body.startswith(_MAGIC):
        raise ProtobufError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    envelope = _decode(body[len(_MAGIC) :], ENVELOPE, 0)
    type_meta = envelope.get("typeMeta", {})
    kind = type_meta.get("kind", "")
    message = kinds.get(kind)
    if message is None:
        raise UnknownKind(kind)
    return {**type_meta, **_decode(envelope.get("raw", b""), message, 0)}


def _decode(data: bytes, message: Message, depth: int) -> Any:
    """The JSON value of a message; `depth` messages are around it."""
    if depth > _MAX_DEPTH:
        raise ProtobufError(f"messages nest deeper than {_MAX_DEPTH}")
    out: dict[str, Any] = {}
    for number, value in fields(data):
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
    for number, part in fields(value):
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
    for number, part in fields(value):
        if number == 1 and isinstance(part, int):
            seconds = part - (1 << 64) if part >> 63 else part
    try:
        return times.format_time(seconds) if seconds else ""
    except (ValueError, OverflowError) as error:
        raise ProtobufError(f"a time is out of range: {error}") from None


def encode(obj: dict[str, Any]) -> bytes:
    """The bytes of an object of one of the kinds in ANSWERS, whose members have the types that its kind has."""
    type_meta = {"apiVersion": obj["apiVersion"], "kind": obj["kind"]}
    return _MAGIC + _writer(ENVELOPE)({"typeMeta": type_meta, "raw": _writer(ANSWERS[obj["kind"]])(obj)})


def encode_items(kind: str, items: Iterable[dict[str, Any]]) -> bytes:
    """Some of the items of a list of that kind, for `encode_list`."""
    return _writer(ANSWERS[kind])({"items": list(items)})


def encode_list(before: dict[str, Any], items: Iterable[bytes]) -> bytes:
    """The bytes of a list, all of which but its items is in `before`; these are what `encode_items` has made, in order."""
    type_meta = {"apiVersion": before["apiVersion"], "kind": before["kind"]}
    raw = _writer(ANSWERS[before["kind"]])(before) + b"".join(items)
    return _MAGIC + _writer(ENVELOPE)({"typeMeta": type_meta, "raw": raw})


def encode_event(type_: str, obj: bytes) -> bytes:
    """A frame of a watch, its length in front: `obj` is what `encode` has made."""
    event = _writer(WATCH_EVENT)({"type": type_, "object": {"raw": obj}})
    return len(event).to_bytes(4) + event


# Makes bytes of a JSON value: of a message its fields, of a field its tag, too.
_Write = Callable[[Any], bytes]
# By the identity of a message, which lives as long as its table; messages contain themselves.
_WRITERS: dict[int, _Write] = {}


def _writer(message: Message) -> _Write:
    if (made := _WRITERS.get(id(message))) is not None:
        return made
    known: dict[str, _Write] = {}

    def write(value: Any) -> bytes:
        if message.members is not None:
            value = message.members(value)
        return b"".join([known[name](member) for name, member in value.items() if name in known and member is not None])

    _WRITERS[id(message)] = write
    known.update((field.name, _field_writer(number, field)) for number, field in message.fields.items())
    return write


def _field_writer(number: int, field: Field) -> _Write:
    if field.is_map:
        key, value = _single_writer(1, "string"), _single_writer(2, field.kind)
        entry = _with_length(number, lambda pair: key(pair[0]) + value(pair[1]))
        return lambda members: b"".join(map(entry, members.items()))
    write = _single_writer(number, field.kind)
    return (lambda members: b"".join(map(write, members))) if field.repeated else write


def _single_writer(number: int, kind: str | Message) -> _Write:
    if kind in ("int", "bool"):
        head = tag(number, VARINT)
        return lambda value: head + varint(int(value))
    if kind == "double":
        head = tag(number, FIXED64)
        return lambda value: head + struct.pack("<d", value)
    return _with_length(number, _writer(kind) if isinstance(kind, Message) else _LEAVES[kind])


def _with_length(number: int, inside: _Write) -> _Write:
    head = tag(number, LENGTH)

    def write(value: Any) -> bytes:
        content = inside(value)
        size = len(content)
        return head + (size.to_bytes(1) if size < 0x80 else varint(size)) + content

    return write


# The same few moments come again with every object.
@lru_cache(maxsize=1024)
def _moment(text: str) -> bytes:
    return tag(1, VARINT) + varint(int(times.parse_time(text)))


_LEAVES: Mapping[str, _Write] = {
    "string": str.encode,
    "time": _moment,
    "json": orjson.dumps,
    "bytes": base64.b64decode,
    "raw": bytes,
}


# All, before threads could see one half made.
for _message in (ENVELOPE, WATCH_EVENT, *ANSWERS.values()):
    _writer(_message)
