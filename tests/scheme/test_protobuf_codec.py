"""Messages of types whose JSON is not simply an object of their members, and bytes that are no message."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path
from typing import Any

import pytest

from aggserver.meta.protobuf_wire import LENGTH, VARINT, ProtobufError, tag, varint, with_length
from aggserver.scheme import protobuf
from aggserver.scheme.protobuf_codec import reader, writer
from aggserver.scheme.types import Type, lookup

META = lookup("meta/v1.ObjectMeta")
SCHEMA = lookup("apiextensions/v1.JSONSchemaProps")
MANAGER = lookup("meta/v1.ManagedFieldsEntry")


def read(data: bytes, of: Type) -> dict[str, Any]:
    return reader(of)(data, 0, len(data))


def field(number: int, content: bytes = b"") -> bytes:
    return tag(number, LENGTH) + with_length(content)


ROUND_TRIPS: dict[str, tuple[str, dict[str, Any]]] = {
    "a list that is a message": ("meta/v1.APIResource", {"name": "things", "verbs": ["get", "list"]}),
    "a map of such lists": ("authentication/v1.UserInfo", {"username": "u", "extra": {"scopes": ["a", "b"], "none": []}}),
    "a map of strings": ("meta/v1.ObjectMeta", {"labels": {"a": "b", "": ""}}),
    "a map of structs": ("apiextensions/v1.JSONSchemaProps", {"properties": {"a": {}, "b": {"type": "string"}}}),
    "numbers": ("apiextensions/v1.JSONSchemaProps", {"maximum": 1.5, "minimum": 0, "maxLength": 2**63 - 1, "minLength": -1}),
    "pointers to zeros": ("apiextensions/v1.JSONSchemaProps", {"$ref": "", "x-kubernetes-preserve-unknown-fields": False}),
    "pointers to structs": ("apiextensions/v1.CustomResourceSubresources", {"status": {}}),
    "a schema or a boolean": (
        "apiextensions/v1.JSONSchemaProps",
        {"additionalProperties": False, "additionalItems": {"type": "string"}, "not": {"additionalProperties": True}},
    ),
    "a schema or several": ("apiextensions/v1.JSONSchemaProps", {"items": {}, "not": {"items": [{}, {"type": "string"}]}}),
    "a schema or names": ("apiextensions/v1.JSONSchemaProps", {"dependencies": {"a": {}, "b": ["c"]}}),
    "any JSON": ("apiextensions/v1.JSONSchemaProps", {"default": {"a": [None]}, "enum": [None, 1, "x"]}),
    "bytes": ("apiextensions/v1.WebhookClientConfig", {"caBundle": "AAH/"}),
    "times": ("meta/v1.ObjectMeta", {"creationTimestamp": "2026-01-02T03:04:05Z", "deletionTimestamp": "1969-12-31T23:59:59Z"}),
    "fields of a manager": ("meta/v1.ManagedFieldsEntry", {"fieldsV1": {}}),
}


@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_what_is_written_is_read_as_it_was(name: str) -> None:
    of, value = ROUND_TRIPS[name]
    assert read(writer(lookup(of))(value), lookup(of)) == value


@pytest.mark.parametrize(
    ("of", "data", "wanted"),
    [
        pytest.param(META, field(8) + field(9), {}, id="no time, in a pointer or not"),
        pytest.param(META, field(11), {"labels": {"": ""}}, id="an entry of nothing"),
        # Go sets Allows with a schema.
        pytest.param(
            SCHEMA,
            field(30, tag(1, VARINT) + b"\x01" + field(2)),
            {"additionalProperties": {}},
            id="a schema and the boolean beside it",
        ),
        pytest.param(SCHEMA, field(30), {"additionalProperties": False}, id="neither schema nor boolean"),
        pytest.param(SCHEMA, field(24), {"items": None}, id="neither schema nor schemas"),
        pytest.param(SCHEMA, field(8), {"default": None}, id="JSON of no text"),
        # A character cut off is one U+FFFD for each of its bytes in Go, and one for all in Python.
        pytest.param(META, field(1, b"a\xff\xe2\x82z"), {"name": "a\ufffd\ufffd\ufffdz"}, id="no UTF-8"),
        pytest.param(
            META, field(11, field(1, b"\xff") + field(2, b"\xed\xa0\x80")), {"labels": {"\ufffd": "\ufffd" * 3}}, id="in a map"
        ),
        pytest.param(SCHEMA, field(8, field(1, b'"\xff"')), {"default": "\ufffd"}, id="JSON that is no UTF-8"),
        pytest.param(MANAGER, field(7, field(1, b'{"f:a":{}}')), {"fieldsV1": {"f:a": {}}}, id="fields"),
        pytest.param(MANAGER, field(7, field(1, b"{\xff")), {"fieldsV1": "{\ufffd"}, id="fields that are none"),
    ],
)
def test_what_is_read(of: Type, data: bytes, wanted: dict[str, Any]) -> None:
    assert read(data, of) == wanted


@pytest.mark.parametrize(
    ("of", "data", "text"),
    [
        pytest.param(META, tag(1, VARINT) + b"\x01", "name is a number", id="a number for a string"),
        pytest.param(META, field(7), "generation is no number", id="bytes for a number"),
        pytest.param(META, tag(11, VARINT) + b"\x01", "labels is a number", id="a number for a map"),
        pytest.param(META, field(11, tag(2, VARINT) + b"\x01"), "labels is a number", id="a number for a value of a map"),
        pytest.param(META, field(8, tag(1, VARINT) + varint(2**62)), "a time is out of range", id="a time of no year"),
        pytest.param(SCHEMA, field(9, b"1234"), "maximum: unpack", id="half a double"),
        pytest.param(SCHEMA, field(8, field(1, b"{")), "default: ", id="no JSON"),
        pytest.param(SCHEMA, field(8, tag(1, VARINT) + b"\x01"), "raw is a number", id="a number for JSON"),
        pytest.param(SCHEMA, field(28, b"\x0a\x7f"), "unexpected EOF", id="cut off"),
    ],
)
def test_malformed(of: Type, data: bytes, text: str) -> None:
    with pytest.raises(ProtobufError, match=text):
        read(data, of)


def test_whatever_the_bytes_are_the_error_is_ours() -> None:
    """A body with some of its bytes changed is read or refused."""
    data = (Path(__file__).parent / "definition.protobuf").read_bytes()
    chance = random.Random(12)
    for _ in range(500):
        changed = bytearray(data)
        for _ in range(chance.randint(1, 4)):
            changed[chance.randrange(4, len(data))] = chance.randrange(256)
        with contextlib.suppress(protobuf.ProtobufError, protobuf.UnknownKind):
            protobuf.decode(bytes(changed))
