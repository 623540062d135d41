"""OpenAPI v2 as protobuf: the document of `openapi_v2.build` as gnostic's message `openapi.v2.Document`.

kubectl asks for the whole of v2 in no other form: to check a `kind: List`, whose items the server sees one by one, and for
`kubectl explain --output=plaintext-openapiv2`. The tables below say of every JSON member which field it becomes; they have the
members that our document can contain, and a member that is not there is left out, since gnostic has no place for it either.
Proto3 writes no zero: `minimum: 0` is not said, by kube-apiserver neither.
Pure. Called by `endpoints/openapi.py`, in a thread. Source: github.com/google/gnostic-models v0.7.0 openapiv2/OpenAPIv2.proto;
protobuf's encoding guide.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

__all__ = ["encode"]

# A shape makes of a JSON value the inside of a field. A field makes tag, length and inside of it, or nothing of a zero.
Shape = Callable[[Any], bytes]
Field = Callable[[Any], bytes]
Table = dict[str, Field]

_VARINT, _FIXED64, _LENGTH = 0, 1, 2
# The table's entry for all members that begin so.
_EXTENSION = "x-"
_INT64_MASK = (1 << 64) - 1


def encode(document: Mapping[str, Any]) -> bytes:
    """The bytes of the message. document: a tree as `openapi_v2.build` returns it, which stays as it is."""
    return _DOCUMENT(document)


def _varint(number: int) -> bytes:
    if number < 0x80:
        return bytes((number,))
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _tag(number: int, wire: int) -> bytes:
    return _varint(number << 3 | wire)


def _utf8(value: str) -> bytes:
    return value.encode()


# What YAML takes for a line break or refuses, but JSON allows inside a string.
_NOT_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def _any(value: Any) -> bytes:
    """Gnostic's Any: the value as a text of YAML, which JSON is but for a few characters."""
    text = orjson.dumps(value).decode()
    return _YAML_TEXT(_NOT_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def _always(number: int, shape: Shape) -> Field:
    """A message, which is written even when empty: `{}` as a schema says something."""
    tag = _tag(number, _LENGTH)

    def write(value: Any) -> bytes:
        inside = shape(value)
        return tag + _varint(len(inside)) + inside

    return write


def _text(number: int) -> Field:
    write = _always(number, _utf8)
    return lambda value: write(value) if value else b""


def _flag(number: int) -> Field:
    true = _tag(number, _VARINT) + b"\x01"
    return lambda value: true if value else b""


def _integer(number: int) -> Field:
    tag = _tag(number, _VARINT)
    # A JSON number may be written 3.0; a negative one takes ten bytes.
    return lambda value: tag + _varint(int(value) & _INT64_MASK) if value else b""


def _double(number: int) -> Field:
    tag = _tag(number, _FIXED64)
    return lambda value: tag + struct.pack("<d", value) if value else b""


def _repeated(number: int, shape: Shape) -> Field:
    write = _always(number, shape)
    return lambda values: b"".join(map(write, values))


def _named(number: int, shape: Shape) -> Field:
    """A JSON object as gnostic has it: one message of name and value for each member."""
    tag = _tag(number, _LENGTH)
    key, value = _text(1), _always(2, shape)

    def write(members: Mapping[str, Any]) -> bytes:
        out: list[bytes] = []
        for name, member in members.items():
            inside = key(name) + value(member)
            out += (tag, _varint(len(inside)), inside)
        return b"".join(out)

    return write


def _members(table: Mapping[str, Field]) -> Shape:
    """A JSON object whose members have each their own field."""

    def inside(value: Mapping[str, Any]) -> bytes:
        out = []
        for name, member in value.items():
            if (field := table.get(name)) is not None:
                out.append(field(member))
            elif name.startswith(_EXTENSION):
                out.append(table[_EXTENSION]({name: member}))
        return b"".join(out)

    return inside


def _as_list(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else (value,)


def _extensions(number: int) -> Field:
    return _named(number, _any)


_YAML_TEXT = _text(2)

# Filled below, since a schema has schemas inside.
_SCHEMA_FIELDS: Table = {}
_SCHEMA = _members(_SCHEMA_FIELDS)
_ONE_SCHEMA = _always(1, _SCHEMA)
_SCHEMAS = _repeated(1, _SCHEMA)
_STRINGS = _repeated(1, _utf8)


def _additional(value: Any) -> bytes:
    """AdditionalPropertiesItem. One of two, so that `false` is written too."""
    return _ONE_SCHEMA(value) if isinstance(value, Mapping) else _tag(2, _VARINT) + bytes((bool(value),))


_EXTERNAL_DOCS = _members({"description": _text(1), "url": _text(2), _EXTENSION: _extensions(3)})

_SCHEMA_FIELDS.update(
    {
        "$ref": _text(1),
        "format": _text(2),
        "title": _text(3),
        "description": _text(4),
        "default": _always(5, _any),
        "multipleOf": _double(6),
        "maximum": _double(7),
        "exclusiveMaximum": _flag(8),
        "minimum": _double(9),
        "exclusiveMinimum": _flag(10),
        "maxLength": _integer(11),
        "minLength": _integer(12),
        "pattern": _text(13),
        "maxItems": _integer(14),
        "minItems": _integer(15),
        "uniqueItems": _flag(16),
        "maxProperties": _integer(17),
        "minProperties": _integer(18),
        "required": _repeated(19, _utf8),
        "enum": _repeated(20, _any),
        "additionalProperties": _always(21, _additional),
        "type": _always(22, lambda value: _STRINGS(_as_list(value))),
        "items": _always(23, lambda value: _SCHEMAS(_as_list(value))),
        "properties": _always(25, _named(1, _SCHEMA)),
        "externalDocs": _always(29, _EXTERNAL_DOCS),
        "example": _always(30, _any),
        _EXTENSION: _extensions(31),
    }
)

# In a list of parameters; a schema's own reference is one of its members.
_REFERENCE = _always(2, lambda value: _text(1)(value["$ref"]))

_BODY_PARAMETER = _always(
    1,
    _members(
        {
            "description": _text(1),
            "name": _text(2),
            "in": _text(3),
            "required": _flag(4),
            "schema": _always(5, _SCHEMA),
            _EXTENSION: _extensions(6),
        }
    ),
)
_COMMON: Table = {"required": _flag(1), "in": _text(2), "description": _text(3), "name": _text(4)}
_QUERY_PARAMETER = _always(
    3, _members({**_COMMON, "type": _text(6), "format": _text(7), "uniqueItems": _flag(20), _EXTENSION: _extensions(23)})
)
_PATH_PARAMETER = _always(
    4, _members({**_COMMON, "type": _text(5), "format": _text(6), "uniqueItems": _flag(19), _EXTENSION: _extensions(22)})
)
_PLAIN_PARAMETERS = {
    "query": _always(2, _QUERY_PARAMETER),
    "path": _always(2, _PATH_PARAMETER),
}


def _parameter(value: Mapping[str, Any]) -> bytes:
    return _PLAIN_PARAMETERS.get(value["in"], _BODY_PARAMETER)(value)


_ONE_PARAMETER = _always(1, _parameter)


def _parameter_or_reference(value: Mapping[str, Any]) -> bytes:
    return _REFERENCE(value) if "$ref" in value else _ONE_PARAMETER(value)


_PARAMETERS = _repeated(8, _parameter_or_reference)

# SchemaItem is a schema or a file; ResponseValue a response or a reference: ours are the first.
_RESPONSE = _always(1, _members({"description": _text(1), "schema": _always(2, _ONE_SCHEMA), _EXTENSION: _extensions(5)}))

_OPERATION = _members(
    {
        "tags": _repeated(1, _utf8),
        "summary": _text(2),
        "description": _text(3),
        "operationId": _text(5),
        "produces": _repeated(6, _utf8),
        "consumes": _repeated(7, _utf8),
        "parameters": _PARAMETERS,
        "responses": _always(9, _named(1, _RESPONSE)),
        "schemes": _repeated(10, _utf8),
        "deprecated": _flag(11),
        _EXTENSION: _extensions(13),
    }
)

_PATH_ITEM = _members(
    {
        "get": _always(2, _OPERATION),
        "put": _always(3, _OPERATION),
        "post": _always(4, _OPERATION),
        "delete": _always(5, _OPERATION),
        "patch": _always(8, _OPERATION),
        "parameters": _repeated(9, _parameter_or_reference),
        _EXTENSION: _extensions(10),
    }
)

_INFO = _members({"title": _text(1), "version": _text(2), "description": _text(3), _EXTENSION: _extensions(7)})

_DOCUMENT = _members(
    {
        "swagger": _text(1),
        "info": _always(2, _INFO),
        "paths": _always(8, _named(2, _PATH_ITEM)),
        "definitions": _always(9, _named(1, _SCHEMA)),
        "parameters": _always(10, _named(1, _parameter)),
        _EXTENSION: _extensions(16),
    }
)
