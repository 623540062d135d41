"""The protobuf form of OpenAPI v2: bytes for single members, and whole documents read back by a small decoder of its own."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from aggserver.meta.resource import ResourceInfo
from aggserver.publish import openapi_v2
from aggserver.publish.discovery import CUSTOM_RESOURCE_VERBS, SUBRESOURCE_VERBS, APIResource, APISubresource
from aggserver.publish.models import Published
from aggserver.publish.openapi_v2_protobuf import encode

# Per message and field number: the member's name and what is in it. A star: repeated. A map: named messages.
# "one" is a message around its only field, "choice" around one of several: neither is there in JSON.
MESSAGES: dict[str, dict[int, tuple[str, str]]] = {
    "Document": {
        1: ("swagger", "text"),
        2: ("info", "Info"),
        8: ("paths", "Paths"),
        9: ("definitions", "Schemas"),
        10: ("parameters", "Parameters"),
        16: ("x-", "extension"),
    },
    "Info": {1: ("title", "text"), 2: ("version", "text")},
    "Paths": {2: ("", "map PathItem")},
    "Schemas": {1: ("", "map Schema")},
    "Parameters": {1: ("", "map Parameter")},
    "Responses": {1: ("", "map ResponseValue")},
    "ResponseValue": {1: ("", "choice Response")},
    "Response": {1: ("description", "text"), 2: ("schema", "SchemaItem")},
    "SchemaItem": {1: ("", "choice Schema")},
    "ParametersItem": {1: ("", "choice Parameter"), 2: ("", "choice Reference")},
    "Reference": {1: ("$ref", "text")},
    "Parameter": {1: ("", "choice Body"), 2: ("", "choice NonBody")},
    "NonBody": {3: ("", "choice Query"), 4: ("", "choice Path")},
    "Body": {
        1: ("description", "text"),
        2: ("name", "text"),
        3: ("in", "text"),
        4: ("required", "flag"),
        5: ("schema", "Schema"),
    },
    "Query": {
        1: ("required", "flag"),
        2: ("in", "text"),
        3: ("description", "text"),
        4: ("name", "text"),
        6: ("type", "text"),
        20: ("uniqueItems", "flag"),
    },
    "Path": {
        1: ("required", "flag"),
        2: ("in", "text"),
        3: ("description", "text"),
        4: ("name", "text"),
        5: ("type", "text"),
        19: ("uniqueItems", "flag"),
    },
    "PathItem": {
        **{number: (name, "Operation") for number, name in ((2, "get"), (3, "put"), (4, "post"), (5, "delete"), (8, "patch"))},
        9: ("parameters", "*ParametersItem"),
    },
    "Operation": {
        1: ("tags", "*text"),
        3: ("description", "text"),
        5: ("operationId", "text"),
        6: ("produces", "*text"),
        7: ("consumes", "*text"),
        8: ("parameters", "*ParametersItem"),
        9: ("responses", "Responses"),
        10: ("schemes", "*text"),
        13: ("x-", "extension"),
    },
    "Schema": {
        1: ("$ref", "text"),
        2: ("format", "text"),
        3: ("title", "text"),
        4: ("description", "text"),
        5: ("default", "any"),
        6: ("multipleOf", "double"),
        7: ("maximum", "double"),
        8: ("exclusiveMaximum", "flag"),
        9: ("minimum", "double"),
        10: ("exclusiveMinimum", "flag"),
        **{
            number: (name, "integer")
            for number, name in ((11, "maxLength"), (12, "minLength"), (14, "maxItems"), (15, "minItems"))
        },
        13: ("pattern", "text"),
        16: ("uniqueItems", "flag"),
        17: ("maxProperties", "integer"),
        18: ("minProperties", "integer"),
        19: ("required", "*text"),
        20: ("enum", "*any"),
        21: ("additionalProperties", "Additional"),
        22: ("type", "Strings"),
        23: ("items", "Items"),
        25: ("properties", "Schemas"),
        29: ("externalDocs", "Docs"),
        30: ("example", "any"),
        31: ("x-", "extension"),
    },
    "Additional": {1: ("", "choice Schema"), 2: ("", "choice flag")},
    "Strings": {1: ("", "choice text")},
    "Items": {1: ("", "choice Schema")},
    "Docs": {1: ("description", "text"), 2: ("url", "text")},
}
Wire = Iterator[tuple[int, Any]]


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def fields(data: bytes) -> Wire:
    """(number, value) of each field: a number, eight bytes, or the inside."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = varint(data, at)
            yield number, value
            continue
        assert wire in (1, 2)
        size, at = (8, at) if wire == 1 else varint(data, at)
        assert at + size <= len(data)
        yield number, data[at : at + size]
        at += size


def read(kind: str, value: Any) -> Any:
    """A field's value as the JSON it came from."""
    if kind == "text":
        return value.decode()
    if kind == "flag":
        return bool(value)
    if kind == "integer":
        return value - (1 << 64) if value >> 63 else value
    if kind == "double":
        return struct.unpack("<d", value)[0]
    if kind == "any":
        return yaml.safe_load(dict(fields(value))[2].decode())
    return read_message(kind, value)


def read_message(kind: str, data: bytes) -> Any:
    out: dict[str, Any] = {}
    for number, value in fields(data):
        name, what = MESSAGES[kind][number]
        form, _, inner = what.partition(" ")
        if form == "choice":
            return read(inner, value)
        if form in ("map", "extension"):
            pair = dict(fields(value))
            out[pair[1].decode()] = read(inner or "any", pair[2])
        elif what.startswith("*"):
            out.setdefault(name, []).append(read(what[1:], value))
        else:
            assert name not in out
            out[name] = read(what, value)
    return out


def without_zeros(node: Any, parent: str = "") -> Any:
    """What proto3 can say: no zero, and no empty list. Values of extensions, enums and examples are texts, and stay whole."""
    if not isinstance(node, dict):
        return [without_zeros(entry) for entry in node] if isinstance(node, list) else node
    out = {}
    for key, value in node.items():
        named = parent in ("properties", "definitions", "paths", "parameters", "responses")
        if not named and (key.startswith("x-") or key in ("enum", "example", "default")):
            out[key] = value
        elif named or key == "additionalProperties" or isinstance(value, dict) or value:
            out[key] = without_zeros(value, "" if named else key)
    return out


def schema(node: dict[str, Any]) -> bytes:
    """The inside of the message Schema."""
    _, definitions = next(fields(encode({"definitions": {"S": node}})))
    _, named = next(fields(definitions))
    pair = dict(fields(named))
    assert pair[1] == b"S"
    inside = pair[2]
    assert isinstance(inside, bytes)
    return inside


@pytest.mark.parametrize(
    ("node", "wanted"),
    [
        pytest.param({}, "", id="nothing"),
        pytest.param({"$ref": "#/d"}, "0a 03 23 2f 64", id="reference"),
        pytest.param({"description": "ü"}, "22 02 c3 bc", id="text-utf8"),
        pytest.param({"description": ""}, "", id="text-empty"),
        pytest.param({"description": "a" * 200}, "22 c8 01" + "61" * 200, id="long-text"),
        pytest.param({"maximum": 1.5}, "39 00 00 00 00 00 00 f8 3f", id="double"),
        pytest.param({"minimum": -1}, "49 00 00 00 00 00 00 f0 bf", id="double-from-integer"),
        pytest.param({"minimum": 0}, "", id="zero"),
        pytest.param({"exclusiveMinimum": True}, "50 01", id="flag"),
        pytest.param({"exclusiveMinimum": False}, "", id="flag-unset"),
        pytest.param({"maxLength": 300}, "58 ac 02", id="integer"),
        pytest.param({"maxLength": 3.0}, "58 03", id="integer-written-as-float"),
        pytest.param({"maxLength": -1}, "58" + "ff" * 9 + "01", id="negative-integer"),
        pytest.param({"uniqueItems": True}, "80 01 01", id="tag-of-two-bytes"),
        pytest.param({"required": ["a", ""]}, "9a 01 01 61 9a 01 00", id="texts"),
        pytest.param({"enum": ["a", None]}, "a2 01 04 12 02 61 0a a2 01 07 12 05 6e 75 6c 6c 0a", id="enum-as-yaml"),
        pytest.param({"additionalProperties": True}, "aa 01 02 10 01", id="additional-true"),
        pytest.param({"additionalProperties": False}, "aa 01 02 10 00", id="additional-false-is-said"),
        pytest.param({"additionalProperties": {}}, "aa 01 02 0a 00", id="additional-anything"),
        pytest.param({"type": "x"}, "b2 01 03 0a 01 78", id="type"),
        pytest.param({"type": ["x", "y"]}, "b2 01 06 0a 01 78 0a 01 79", id="types"),
        pytest.param({"items": {"title": "t"}}, "ba 01 05 0a 03 1a 01 74", id="items"),
        pytest.param({"properties": {}}, "ca 01 00", id="no-properties"),
        pytest.param({"properties": {"p": {}}}, "ca 01 07 0a 05 0a 01 70 12 00", id="empty-schema-is-written"),
        pytest.param({"x-k": True}, "fa 01 0e 0a 03 78 2d 6b 12 07 12 05 74 72 75 65 0a", id="extension"),
        pytest.param({"properties": {"x-k": {}}}, "ca 01 09 0a 07 0a 03 78 2d 6b 12 00", id="property-like-an-extension"),
        pytest.param({"nullable": True, "oneOf": []}, "", id="no-place-for-it"),
    ],
)
def test_schema(node: dict[str, Any], wanted: str) -> None:
    assert schema(node).hex() == wanted.replace(" ", "")


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"a": [1, -2.5, None, True, "true"], "b": {}}, id="tree"),
        pytest.param("no: #comment\n\ttab \"quoted\" 'single' \\", id="yaml's-own-signs"),
        pytest.param("\x00\x1b\x7f\x80\x85\x9f\u2028\u2029\ufeff\ufffe\uffff", id="what-yaml-refuses-or-breaks"),
        pytest.param("über 😀", id="beyond-ascii"),
        pytest.param(["1", "true", "null", "~", "2001-01-01", "0x1F"], id="texts-that-look-otherwise"),
    ],
)
def test_values_are_yaml(value: Any) -> None:
    assert read_message("Schema", schema({"x-v": value, "example": value, "enum": [value]})) == {
        "x-v": value,
        "example": value,
        "enum": [value],
    }


@pytest.mark.parametrize(
    ("parameter", "wanted"),
    [
        pytest.param({"name": "b", "in": "body", "schema": {}}, "0a 0b 12 01 62 1a 04 626f6479 2a 00", id="body"),
        pytest.param({"name": "q", "in": "query"}, "12 0c 1a 0a 12 05 7175657279 22 01 71", id="query"),
        pytest.param({"name": "p", "in": "path", "required": True}, "12 0d 22 0b 08 01 12 04 70617468 22 01 70", id="path"),
    ],
)
def test_parameters(parameter: dict[str, Any], wanted: str) -> None:
    inside = bytes.fromhex(wanted.replace(" ", ""))
    assert dict(fields(encode({"parameters": {"n": parameter}}))) == {10: field(1, field(1, b"n") + field(2, inside))}
    in_list = field(8, field(2, field(1, b"/p") + field(2, field(9, field(1, inside)))))
    assert encode({"paths": {"/p": {"parameters": [parameter]}}}) == in_list


def field(number: int, inside: bytes) -> bytes:
    return bytes((number << 3 | 2, len(inside))) + inside


def test_a_reference_to_a_parameter() -> None:
    wanted = field(8, field(2, field(1, b"/p") + field(2, field(9, field(2, field(1, b"#/parameters/a"))))))
    assert encode({"paths": {"/p": {"parameters": [{"$ref": "#/parameters/a"}]}}}) == wanted


def crontabs() -> list[Published]:
    definitions = list(yaml.safe_load_all((Path(__file__).parent / "crontabs.yaml").read_text()))
    return [
        Published(
            APIResource(
                ResourceInfo(
                    group=crd["spec"]["group"],
                    version=version["name"],
                    resource=crd["spec"]["names"]["plural"],
                    kind=crd["spec"]["names"]["kind"],
                    list_kind=crd["spec"]["names"]["kind"] + "List",
                    namespaced=crd["spec"]["scope"] == "Namespaced",
                ),
                CUSTOM_RESOURCE_VERBS,
                subresources=tuple(APISubresource(name, "", SUBRESOURCE_VERBS) for name in ("status", "scale")),
            ),
            version["schema"]["openAPIV3Schema"],
        )
        for crd in definitions
        for version in crd["spec"]["versions"]
    ]


@pytest.mark.parametrize(
    "resources", [pytest.param([], id="no-resources"), pytest.param(crontabs(), id="definitions-with-all-members")]
)
def test_nothing_of_the_document_is_lost(resources: list[Published]) -> None:
    document = openapi_v2.build(resources, info_version="v1.2.3")
    before = json.dumps(document)
    assert read_message("Document", encode(document)) == without_zeros(document)
    assert json.dumps(document) == before
