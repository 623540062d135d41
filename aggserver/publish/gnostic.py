"""Gnostic: encoding of OpenAPI's JSON documents as gnostic's protobuf messages.

A table maps each JSON member to its protobuf field; a member that is not in the table is left out, since gnostic has no field for
it. Proto3 omits zeros, so `minimum: 0` is lost, as with kube-apiserver.
Pure. The tables are in `openapi_v2_protobuf.py` and `openapi_v3_protobuf.py`. Source: github.com/google/gnostic-models v0.7.0.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

import orjson

from aggserver.meta.protobuf_wire import FIXED64, LENGTH, VARINT, tag, varint, with_length
from aggserver.publish import gnostic_yaml

__all__ = [
    "EXTENSION",
    "Field",
    "Table",
    "always",
    "any_value",
    "as_list",
    "double",
    "extensions",
    "flag",
    "integer",
    "members",
    "named",
    "one_double",
    "one_flag",
    "repeated",
    "text",
    "utf8",
]

# A Shape encodes a JSON value as the content of a field. A Field encodes it with tag and length, or as b"" if it is zero.
Shape = Callable[[Any], bytes]
Field = Callable[[Any], bytes]
Table = dict[str, Field]

# The key in a table for all members that start with it.
EXTENSION = "x-"
# The number of cached YAML texts: a few of them are repeated in each of hundreds of operations.
_CACHE_SIZE = 4096


def utf8(value: str) -> bytes:
    return value.encode()


def any_value(value: Any) -> bytes:
    """Gnostic's Any: the value as YAML text."""
    return _any_value(orjson.dumps(value))


@lru_cache(_CACHE_SIZE)
def _any_value(value: bytes) -> bytes:
    return _YAML_TEXT(gnostic_yaml.encode(orjson.loads(value)))


def always(number: int, shape: Shape) -> Field:
    """A field with a message, written even if it is empty, since the schema `{}` has a meaning."""
    head = tag(number, LENGTH)
    return lambda value: head + with_length(shape(value))


def text(number: int) -> Field:
    write = always(number, utf8)
    return lambda value: write(value) if value else b""


def flag(number: int) -> Field:
    true = tag(number, VARINT) + b"\x01"
    return lambda value: true if value else b""


def integer(number: int) -> Field:
    head = tag(number, VARINT)
    # A JSON number may be written 3.0.
    return lambda value: head + varint(int(value)) if value else b""


def double(number: int) -> Field:
    write = one_double(number)
    return lambda value: write(value) if value else b""


def one_flag(number: int) -> Field:
    """A field with a bool in a oneof, where false is written too."""
    head = tag(number, VARINT)
    return lambda value: head + bytes((bool(value),))


def one_double(number: int) -> Field:
    head = tag(number, FIXED64)
    return lambda value: head + struct.pack("<d", value)


def repeated(number: int, shape: Shape) -> Field:
    write = always(number, shape)
    return lambda values: b"".join(map(write, values))


def named(number: int, shape: Shape) -> Field:
    """A field for a JSON object with arbitrary names: for each member a message with name and value."""
    head = tag(number, LENGTH)
    key, value = text(1), always(2, shape)

    def write(members: Mapping[str, Any]) -> bytes:
        out: list[bytes] = []
        for name, member in members.items():
            out += (head, with_length(key(name) + value(member)))
        return b"".join(out)

    return write


def members(table: Mapping[str, Field]) -> Shape:
    """The shape of a JSON object with a field for each member, written in the order of the table, which is upstream's."""

    def inside(value: Mapping[str, Any]) -> bytes:
        known = [name for name in table if name in value] if len(value) > 1 else value
        out = [table[name](value[name]) for name in known if name in table]
        if (others := table.get(EXTENSION)) is not None:
            out += [others({name: value[name]}) for name in value if name.startswith(EXTENSION)]
        return b"".join(out)

    return inside


def as_list(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else (value,)


def extensions(number: int) -> Field:
    return named(number, any_value)


_YAML_TEXT = text(2)
