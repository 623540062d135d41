"""The protobuf form of OpenAPI v3: bytes for single members. Of whole documents kube-apiserver is asked (tests/integration)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aggserver.publish.openapi_v3_protobuf import encode
from tests.integration.protobuf import contents


def inside(data: bytes, *numbers: int) -> bytes:
    """What is in the first field of that number, in that, and so on."""
    for number in numbers:
        found = dict(reversed(list(contents(data))))[number]
        assert isinstance(found, bytes)
        data = found
    return data


def schema(node: dict[str, Any]) -> bytes:
    """The message of a schema that is named in the components."""
    return inside(encode({"components": {"schemas": {"n": node}}}), 5, 1, 1, 2, 1)


@pytest.mark.parametrize(
    ("node", "wanted"),
    [
        pytest.param({}, "", id="empty"),
        pytest.param({"type": "string", "nullable": True}, "08 01 ca 01 06 737472696e67", id="in-order-of-the-fields"),
        pytest.param({"minimum": 0}, "", id="zero-is-not-said"),
        pytest.param({"default": 0}, "8a 02 09 09 0000000000000000", id="but-of-defaults"),
        pytest.param({"default": False}, "8a 02 02 10 00", id="default-false"),
        pytest.param({"default": ""}, "8a 02 02 1a 00", id="default-text"),
        pytest.param({"default": {"a": 1}}, "8a 02 00", id="default-object"),
        pytest.param({"items": {}}, "f2 01 04 0a 02 0a 00", id="items"),
        pytest.param({"additionalProperties": True}, "82 02 02 10 01", id="additional-true"),
        pytest.param({"additionalProperties": {}}, "82 02 04 0a 02 0a 00", id="additional-schema"),
        pytest.param({"allOf": [{"$ref": "#/a"}]}, "d2 01 07 12 05 0a 03 232f61", id="reference"),
        pytest.param({"not": {}}, "ea 01 00", id="not"),
        pytest.param({"enum": ["a"]}, "c2 01 04 12 02 610a", id="enum-as-yaml"),
        pytest.param({"x-k": ["a"]}, "a2 02 0d 0a 03 782d6b 12 06 12 04 2d20610a", id="extension"),
    ],
)
def test_schema(node: dict[str, Any], wanted: str) -> None:
    assert schema(node).hex() == wanted.replace(" ", "")


def test_an_operation() -> None:
    content = {"application/json": {"schema": {"$ref": "#/a"}}}
    document = {
        "paths": {
            "/p": {
                "patch": {
                    "operationId": "o",
                    "requestBody": {"content": content, "required": True},
                    "responses": {"200": {"description": "OK", "content": content}, "401": {"description": "no"}},
                    "x-kubernetes-action": "patch",
                },
                "parameters": [{"name": "n", "in": "path", "required": True, "schema": {"type": "string"}}],
            }
        }
    }
    before = json.dumps(document)
    item = inside(encode(document), 4, 1, 2)
    assert [number for number, _ in contents(item)] == [10, 13]
    operation = inside(item, 10)
    assert [number for number, _ in contents(operation)] == [5, 7, 8, 13]
    assert inside(operation, 7, 1, 2, 1, 1) == b"application/json"
    assert [inside(value, 1) for _, value in contents(inside(operation, 8)) if isinstance(value, bytes)] == [b"200", b"401"]
    assert dict(contents(inside(item, 13, 1))) == {1: b"n", 2: b"path", 4: 1, 10: b"\x0a\x09\xca\x01\x06string"}
    assert json.dumps(document) == before
