"""Defaults of a schema: values that it must take itself. The expected texts are kube-apiserver's."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.meta.field import Path
from aggserver.schema import structural
from aggserver.schema.defaults import validate_defaults

STRING = {"type": "string"}
EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}


def spec(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}


# Schema -> errors; S stands for the path of spec's properties.
S = "schema.properties[spec].properties"
CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "good": (spec(a={**STRING, "default": "x"}), []),
    "type": (
        spec(a={**STRING, "default": 5}),
        [f'{S}[a].default: Invalid value: "integer":  in body must be of type string: "integer"'],
    ),
    "several": (
        spec(b={"type": "integer", "maximum": 1, "default": 2}, a={**STRING, "enum": ["y"], "default": "x"}),
        [
            f'{S}[a].default: Unsupported value: "x": supported values: "y"',
            f"{S}[b].default: Invalid value: 2:  in body should be less than or equal to 1",
        ],
    ),
    "unknown": (
        spec(a={"type": "object", "properties": {"b": STRING}, "default": {"b": "x", "c": 1}}),
        [f'{S}[a].default: Invalid value: {{"b":"x","c":1}}: must not have unknown fields'],
    ),
    "unknown deep": (
        spec(a={"type": "array", "items": {"type": "object", "properties": {"b": STRING}}, "default": [{"c": 1}]}),
        [f'{S}[a].default: Invalid value: [{{"c":1}}]: must not have unknown fields'],
    ),
    "required": (
        spec(a={"type": "object", "properties": {"b": STRING}, "required": ["b"], "default": {}}),
        [f"{S}[a].default.b: Required value"],
    ),
    "in items": (
        spec(a={"type": "array", "items": {"type": "object", "properties": {"b": {**STRING, "minLength": 2, "default": "x"}}}}),
        [f'{S}[a].items.properties[b].default: Invalid value: "x":  in body should be at least 2 chars long'],
    ),
    "not in values": (
        {"type": "object", "properties": {"spec": {"type": "object", "additionalProperties": {**STRING, "default": 5}}}},
        [],
    ),
    "format": (
        spec(a={**STRING, "format": "ipv4", "default": "x"}),
        [f'{S}[a].default: Invalid value: "x":  in body must be of type ipv4: "x"'],
    ),
    "unknown format": (spec(a={**STRING, "format": "foo", "default": "x"}), []),
    "int-or-string": (spec(a={"x-kubernetes-int-or-string": True, "default": "x"}), []),
    "embedded good": (spec(a={**EMBEDDED, "default": {"apiVersion": "v1", "kind": "Pod"}}), []),
    "embedded missing": (spec(a={**EMBEDDED, "default": {"kind": "Pod"}}), [f"{S}[a].default.apiVersion: Required value"]),
    "embedded malformed": (
        spec(a={**EMBEDDED, "default": {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": []}}}),
        [
            (
                f'{S}[a].default.metadata: Invalid value: {{"labels":[]}}: '
                "json: cannot unmarshal array into Go struct field ObjectMeta.labels of type map[string]string"
            ),
        ],
    ),
    "embedded kind": (
        spec(a={**EMBEDDED, "default": {"apiVersion": "v1", "kind": 5}}),
        [f"{S}[a].default.kind: Invalid value: 5: must be a string"],
    ),
    "in embedded name": (
        spec(
            a={**EMBEDDED, "properties": {"metadata": {"type": "object", "properties": {"name": {**STRING, "default": "a/b"}}}}}
        ),
        [
            (
                f'{S}[a].properties[metadata].properties[name].default: Invalid value: "a/b": must result in valid metadata: '
                "metadata.name: Invalid value: \"a/b\": may not contain '/'"
            ),
        ],
    ),
    "in embedded name good": (
        spec(a={**EMBEDDED, "properties": {"metadata": {"type": "object", "properties": {"name": {**STRING, "default": "ab"}}}}}),
        [],
    ),
    "in embedded kind": (
        spec(a={**EMBEDDED, "properties": {"kind": {**STRING, "default": "%"}, "apiVersion": {**STRING, "default": "a/b/c"}}}),
        [
            (
                f'{S}[a].properties[apiVersion].default: Invalid value: "a/b/c": must result in valid metadata: '
                'apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c'
            ),
            (
                f'{S}[a].properties[kind].default: Invalid value: "%": must result in valid metadata: '
                'kind: Invalid value: "%": may have mixed case, but should otherwise match: '
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
                "start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
                "regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ),
        ],
    ),
    "in embedded kind value": (
        spec(a={**EMBEDDED, "properties": {"kind": {**STRING, "maxLength": 2, "default": "Pod"}}}),
        [f"{S}[a].properties[kind].default: Too long: may not be more than 2 bytes"],
    ),
    "in root metadata": (
        {"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": {**STRING, "default": "A b"}}}}},
        [],
    ),
    "in root metadata labels": (
        {
            "type": "object",
            "properties": {
                "metadata": {
                    "type": "object",
                    "properties": {"name": {**STRING, "default": "%"}, "generateName": {**STRING, "default": "./"}},
                }
            },
        },
        [
            (
                'schema.properties[metadata].properties[generateName].default: Invalid value: "./": '
                "must result in valid metadata: "
                "metadata.generateName: Invalid value: \"./\": may not contain '/'"
            ),
            (
                'schema.properties[metadata].properties[name].default: Invalid value: "%": must result in valid metadata: '
                "metadata.name: Invalid value: \"%\": may not contain '%'"
            ),
        ],
    ),
    "false": (spec(a={"type": "boolean", "default": False}), []),
    "zero": (spec(a={"type": "integer", "default": 0}), []),
}


@pytest.mark.parametrize("name", CASES)
def test_defaults(name: str) -> None:
    schema, expected = CASES[name]
    found = validate_defaults(structural.compile(schema), Path("schema"))
    assert list(map(str, found)) == expected


def test_a_definition_may_keep_what_it_had() -> None:
    schema = structural.compile(CASES["unknown"][0])
    assert validate_defaults(schema, Path("schema"), pruned=False) == []
