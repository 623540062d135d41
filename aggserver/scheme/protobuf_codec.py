"""Protobuf of a type: decoding and encoding of messages by the field numbers of its table.

`reader` and `writer` build a function once for each type; these functions run for each object. Decoding returns JSON without
zero values: Go writes zeros of plain members to protobuf too, so only a pointer's zero has a meaning and is kept. Encoding
writes the members that exist, in the object's order.
Pure. Source: the generated.proto files of k8s.io/apimachinery, k8s.io/api and k8s.io/apiextensions-apiserver, v0.36.3, and the
codecs generated from them (generated.pb.go), apimachinery's pkg/apis/meta/v1/time_proto.go.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from aggserver.meta import codec, quantity, times
from aggserver.meta.golang import from_float
from aggserver.meta.protobuf_wire import FIXED64, LENGTH, VARINT, ProtobufError, fields, signed, tag, varint, with_length
from aggserver.scheme.types import Member, Type

__all__ = ["reader", "writer"]

# The deepest schema that is accepted has a hundred levels of two messages each.
_MAX_DEPTH = 250

# Kinds whose fields have the value itself as a varint; fields of all others have bytes.
_NUMBERS = frozenset({"bool", "int32", "int64"})

# The fields of util/intstr.IntOrString.
_IS_TEXT, _INT_VAL, _STR_VAL = 1, 2, 3


_FIELDS_V1 = "v1.FieldsV1"
# What `surrogateescape` decodes a byte to that is no UTF-8.
_NO_UTF8 = re.compile("[\udc80-\udcff]")


# --- reading ---

# (data, start, stop, depth) -> the JSON value of data[start:stop], or of the number `start`. depth: how many messages contain it.
_Read = Callable[[bytes, int, int, int], Any]

_ONE, _LIST, _MAP, _EMBEDDED = range(4)


class _Field(NamedTuple):
    """How a field is read. keep: whether a zero value has a meaning."""

    name: str
    read: _Read
    is_number: bool
    how: int
    keep: bool


_READERS: dict[Type, _Read] = {}


def reader(of: Type) -> Callable[[bytes, int, int], dict[str, Any]]:
    """A function that decodes a message of a struct: (data, start, stop) -> JSON object. Raises ProtobufError with the member."""
    read = _message_reader(of)
    return lambda data, start, stop: read(data, start, stop, 0)


def _message_reader(of: Type) -> _Read:
    """The reader of a type that is a message: a struct, a union, or a list that has a message of its own."""
    if (made := _READERS.get(of)) is not None:
        return made
    known: dict[int, _Field] | None = None

    def read(data: bytes, start: int, stop: int, depth: int) -> Any:
        nonlocal known
        if known is None:  # not earlier, since types contain themselves
            known = _fields(of)
        if depth > _MAX_DEPTH:
            raise ProtobufError(f"messages nest deeper than {_MAX_DEPTH}")
        out: dict[str, Any] = {}
        for number, at, end in fields(data, start, stop):
            field = known.get(number)
            if field is None:
                continue
            name, convert, is_number, how, keep = field
            if is_number is (end != 0):
                raise ProtobufError(f"{name} is no number" if is_number else f"{name} is a number")
            value = convert(data, at, end, depth + 1)
            if how == _ONE:
                if value or keep:
                    out[name] = value
            elif how == _LIST:
                if (items := out.get(name)) is None:
                    out[name] = [value]
                else:
                    items.append(value)
            elif how == _MAP:
                out.setdefault(name, {})[value[0]] = value[1]
            else:
                out.update(value)
        return out

    made = _READERS[of] = _finished(of, read)
    return made


def _fields(of: Type) -> dict[int, _Field]:
    known = {number: _field(member) for number, member in _numbered(of)}
    for number, part in of.embedded.items():
        known[number] = _Field(part.short_name, _message_reader(part), False, _EMBEDDED, False)
    return known


def _numbered(of: Type) -> list[tuple[int, Member]]:
    """The fields of a message with their numbers."""
    if of.is_message:
        return [(1, Member("items", "Items", Type(of.name, of.kind, of.element), 1, False, False))]
    return [(member.number, member) for member in of.members.values() if member.number]


def _finished(of: Type, read: _Read) -> _Read:
    """A reader for types whose JSON is not an object of their members, or `read` itself for all others."""
    if of.is_message:
        return lambda data, start, stop, depth: read(data, start, stop, depth).get("items", [])
    if of.kind != "union":
        return read
    # Go also sets the boolean if there is a schema, so the last member that is present counts.
    names = list(reversed(of.members))
    nothing = False if any(member.type.kind == "bool" for member in of.members.values()) else None

    def alternative(data: bytes, start: int, stop: int, depth: int) -> Any:
        found = read(data, start, stop, depth)
        return next((found[name] for name in names if name in found), nothing)

    return alternative


def _field(member: Member) -> _Field:
    name, of = member.name, member.type
    if of.kind == "map":
        return _Field(name, _entry_reader(name, of), False, _MAP, False)
    if of.kind == "list" and of.element is not None and not of.is_message:
        return _Field(name, _value_reader(name, of.element), of.element.kind in _NUMBERS, _LIST, False)
    # A pointer to a zero time is null in JSON, and so not kept. Some kinds are always kept, since a value that is false in Python
    # need not be zero in Go.
    keep = of.kind in ("bytes", "json", "int-or-string") or (member.pointer and of.kind not in ("time", "micro-time"))
    return _Field(name, _value_reader(name, of), of.kind in _NUMBERS, _ONE, keep)


def _entry_reader(name: str, of: Type) -> _Read:
    """The reader of an entry of a map with string keys, as (key, value)."""
    assert of.element is not None
    value, is_number = _value_reader(name, of.element), of.element.kind in _NUMBERS
    text = _value_reader(name, Type("string", "string"))

    def read(data: bytes, start: int, stop: int, depth: int) -> tuple[str, Any]:
        key, found = "", None
        for number, at, end in fields(data, start, stop):
            if number == 1 and end:
                key = text(data, at, end, depth)
            elif number == 2:
                if is_number is (end != 0):
                    raise ProtobufError(f"{name} is no number" if is_number else f"{name} is a number")
                found = (value(data, at, end, depth),)
        return key, found[0] if found else value(b"", 0, 0, depth)

    return read


def _value_reader(name: str, of: Type) -> _Read:
    if of.kind in _NUMBERS:
        return _boolean if of.kind == "bool" else _integer
    convert = _fields_v1 if of.name == _FIELDS_V1 else _LEAVES.get(of.kind)
    if convert is None:
        return _message_reader(of)

    def read(data: bytes, start: int, stop: int, _: int) -> Any:
        try:
            return convert(data[start:stop])
        except ProtobufError:
            raise
        except (ValueError, struct.error) as error:
            raise ProtobufError(f"{name}: {error}") from None

    return read


def _boolean(_: bytes, value: int, __: int, ___: int) -> bool:
    return bool(value)


def _integer(_: bytes, value: int, __: int, ___: int) -> int:
    return signed(value)


def _string(value: bytes) -> str:
    """Decode a string. In Go it is bytes; each byte that is no UTF-8 becomes U+FFFD in JSON."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return _NO_UTF8.sub("\ufffd", value.decode(errors="surrogateescape"))


def _json(message: bytes) -> Any:
    """Decode a message whose only field is JSON text."""
    text = _raw(message)
    return codec.decode_checking_keys(text)[0] if text else None


def _fields_v1(message: bytes) -> Any:
    """Like `_json`, for fieldsV1. The text of malformed ones is kept, since Go parses them later, and ignores such errors."""
    text = _raw(message)
    try:
        return codec.decode_checking_keys(text)[0] if text else None
    except codec.DecodeError:
        return _string(text)


def _raw(message: bytes) -> bytes:
    text = b""
    for number, start, stop in fields(message):
        if number == 1:
            if not stop:
                raise ProtobufError("raw is a number")
            text = message[start:stop]
    return text


def _double(value: bytes) -> int | float:
    (number,) = struct.unpack("<d", value)
    return from_float(number)


def _time(message: bytes) -> str:
    """Decode a time. Its nanoseconds are dropped, since JSON has none."""
    seconds = _numbers(message).get(1, 0)
    return _formatted(times.format_time, seconds) if seconds else ""


def _micro_time(message: bytes) -> str:
    found = _numbers(message)
    return _formatted(times.format_micro_time, found.get(1, 0), found.get(2, 0) // 1000) if found else ""


def _formatted(form: Callable[..., str], *numbers: int) -> str:
    try:
        return form(*numbers)
    except (ValueError, OverflowError) as error:
        raise ProtobufError(f"a time is out of range: {error}") from None


def _numbers(message: bytes) -> dict[int, int]:
    """The values of a message's numeric fields, by field number."""
    return {number: signed(value) for number, value, stop in fields(message) if not stop}


def _texts(message: bytes) -> dict[int, bytes]:
    return {number: message[start:stop] for number, start, stop in fields(message) if stop}


def _quantity(message: bytes) -> str:
    found = _texts(message)
    return quantity.canonical(_string(found[1])) if 1 in found else "0"


def _int_or_string(message: bytes) -> int | str:
    found = _numbers(message)
    return _string(_texts(message).get(_STR_VAL, b"")) if found.get(_IS_TEXT) else found.get(_INT_VAL, 0)


_LEAVES: Mapping[str, Callable[[bytes], Any]] = {
    "string": _string,
    "bytes": lambda value: base64.b64encode(value).decode(),
    "float64": _double,
    "json": _json,
    "time": _time,
    "micro-time": _micro_time,
    "quantity": _quantity,
    "int-or-string": _int_or_string,
}


# --- writing ---

# JSON value -> protobuf: the fields of a message, or one field with its tag.
_Write = Callable[[Any], bytes]
_WRITERS: dict[Type, _Write] = {}


def writer(of: Type) -> _Write:
    """A function that encodes a message of a type, without its length. Members without a field, and nulls, are left out."""
    if (made := _WRITERS.get(of)) is not None:
        return made
    known: dict[str, _Write] = {}

    def write(value: Any) -> bytes:
        return b"".join([known[name](member) for name, member in value.items() if name in known and member is not None])

    def write_with_embedded(value: Any) -> bytes:
        return b"".join([write(value), *(part(value) for part in embedded)])

    def write_alternative(value: Any) -> bytes:
        member = of.alternative(value)
        return known[member.name](value) if member is not None else b""

    def write_items(value: Any) -> bytes:
        return known["items"](value)

    made = write_with_embedded if of.embedded else write
    if of.is_message or of.kind == "union":
        made = write_items if of.is_message else write_alternative
    _WRITERS[of] = made
    embedded = [_with_length(number, writer(part)) for number, part in of.embedded.items()]
    known.update((member.name, _field_writer(number, member.type)) for number, member in _numbered(of))
    return made


def _field_writer(number: int, of: Type) -> _Write:
    if of.kind == "map" and of.element is not None:
        key, value = _value_writer(1, Type("string", "string")), _value_writer(2, of.element)
        entry = _with_length(number, lambda pair: key(pair[0]) + value(pair[1]))
        return lambda members: b"".join(map(entry, members.items()))
    if of.kind == "list" and of.element is not None and not of.is_message:
        write = _value_writer(number, of.element)
        return lambda items: b"".join(map(write, items))
    return _value_writer(number, of)


def _value_writer(number: int, of: Type) -> _Write:
    if of.kind in _NUMBERS:
        head = tag(number, VARINT)
        return lambda value: head + varint(int(value))
    if of.kind == "float64":
        head = tag(number, FIXED64)
        return lambda value: head + struct.pack("<d", value)
    return _with_length(number, _CONTENTS.get(of.kind) or writer(of))


def _with_length(number: int, inside: _Write) -> _Write:
    head = tag(number, LENGTH)

    def write(value: Any) -> bytes:
        # `with_length` inlined, since most fields are short strings.
        content = inside(value)
        size = len(content)
        return head + (size.to_bytes(1) if size < 0x80 else varint(size)) + content

    return write


# Cached, since many objects have the same few times.
@lru_cache(maxsize=1024)
def _moment(text: str) -> bytes:
    return tag(1, VARINT) + varint(int(times.parse_time(text)))


def _micro_moment(text: str) -> bytes:
    seconds, microseconds = times.parse_micro_time(text)
    return tag(1, VARINT) + varint(seconds) + tag(2, VARINT) + varint(microseconds * 1000)


def _written_int_or_string(value: int | str) -> bytes:
    number, text = (0, value) if isinstance(value, str) else (value, "")
    head = tag(_IS_TEXT, VARINT) + varint(isinstance(value, str)) + tag(_INT_VAL, VARINT) + varint(number)
    return head + tag(_STR_VAL, LENGTH) + with_length(text.encode())


_RAW = tag(1, LENGTH)
_CONTENTS: Mapping[str, _Write] = {
    "string": str.encode,
    "bytes": base64.b64decode,
    "json": lambda value: _RAW + with_length(orjson.dumps(value)),
    "time": _moment,
    "micro-time": _micro_moment,
    "quantity": lambda value: _RAW + with_length(value.encode()),
    "int-or-string": _written_int_or_string,
}
