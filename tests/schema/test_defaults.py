"""Defaults of a schema: values that it must take itself. The expected texts are kube-apiserver's."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from aggserver.meta.field import Path
from aggserver.schema import structural
from aggserver.schema.compiled import CompiledSchema
from aggserver.schema.defaults import prune_defaults, type_defaults, validate_defaults

STRING = {"type": "string"}
EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
RESOURCE = {"apiVersion": "v1", "kind": "A", "metadata": {"name": "x", "unknown": 1}}


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
    "embedded unknown": (spec(a={**EMBEDDED, "default": RESOURCE}), []),
    "embedded unknown beside": (
        spec(a={"type": "object", "properties": {"b": EMBEDDED}, "default": {"b": RESOURCE, "c": 1}}),
        [
            f'{S}[a].default: Invalid value: {{"b":{{"apiVersion":"v1","kind":"A","metadata":{{"name":"x"}}}},"c":1}}: '
            "must not have unknown fields"
        ],
    ),
    "embedded unknown and required": (
        spec(a={**EMBEDDED, "properties": {"b": STRING}, "required": ["b"], "default": RESOURCE}),
        [f"{S}[a].default.b: Required value"],
    ),
    "embedded as its type keeps it": (
        spec(a={**EMBEDDED, "default": RESOURCE, "x-kubernetes-validations": [{"rule": "self.metadata.name == 'x'"}]}),
        [],
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


def embedded(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "x-kubernetes-embedded-resource": True, "properties": properties}


META = {"type": "object", "properties": {"name": {**STRING, "default": "x"}, "unknown": {**STRING, "default": "y"}}}

# Schema of `a`, an object before and after its defaults were applied. kube-apiserver does the same.
APPLIED: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "the whole resource": ({**EMBEDDED, "default": RESOURCE}, None, {"apiVersion": "v1", "kind": "A", "metadata": {"name": "x"}}),
    "in an object": (
        {"type": "object", "properties": {"b": EMBEDDED}, "default": {"b": RESOURCE}},
        None,
        {"b": {"apiVersion": "v1", "kind": "A", "metadata": {"name": "x"}}},
    ),
    "in a list": (
        {"type": "array", "items": EMBEDDED, "default": [RESOURCE]},
        None,
        [{"apiVersion": "v1", "kind": "A", "metadata": {"name": "x"}}],
    ),
    "in a map's values": (
        {"type": "object", "additionalProperties": {"type": "object", "properties": {"b": {**EMBEDDED, "default": RESOURCE}}}},
        {"k": {}},
        {"k": {"b": {"apiVersion": "v1", "kind": "A", "metadata": {"name": "x"}}}},
    ),
    "metadata": (
        embedded(metadata={"type": "object", "default": {"name": "x", "unknown": 1}}),
        {},
        {"metadata": {"name": "x"}},
    ),
    "fields of metadata": (embedded(metadata=META), {"metadata": {}}, {"metadata": {"name": "x"}}),
    "no metadata to fill": (embedded(metadata=META), {"kind": "A"}, {"kind": "A"}),
    "nothing is left": (embedded(metadata={"type": "object", "properties": {"z": {**STRING, "default": "y"}}}), {}, {}),
    "a name that says nothing": (
        embedded(metadata={"type": "object", "properties": {"name": {**STRING, "default": ""}}}),
        {"metadata": {}},
        {"metadata": {}},
    ),
    "what is malformed": (
        {**EMBEDDED, "default": {"apiVersion": 1, "kind": "A", "metadata": {"labels": [], "name": "x"}}},
        None,
        {"kind": "A", "metadata": {"name": "x"}},
    ),
    "fields that the schema doesn't know": (
        {"type": "object", "properties": {"b": STRING}, "default": {"b": "x", "c": 1}},
        None,
        {"b": "x"},
    ),
    "scalars": ({**STRING, "default": "x"}, None, "x"),
}


@pytest.mark.parametrize("name", APPLIED)
def test_what_is_applied(name: str) -> None:
    node, before, after = APPLIED[name]
    obj: dict[str, Any] = {"metadata": {}, **({} if before is None else {"a": before})}
    written = {"type": "object", "properties": {"a": node}}
    kept = copy.deepcopy(written)
    CompiledSchema(written).conform(obj)
    assert obj == {"metadata": {}, "a": after}
    assert written == kept


def test_a_schema_whose_defaults_all_stay_is_the_same() -> None:
    tree = structural.compile(spec(a={**STRING, "default": "x"}, b={"type": "object", "default": {}}))
    assert prune_defaults(tree) is tree


def test_what_a_definition_is_stored_with() -> None:
    inside = {"type": "object", "default": {"name": "x", "unknown": 1}}
    schema = spec(a={**EMBEDDED, "default": RESOURCE}, b=embedded(metadata=inside), c={**STRING, "default": "x"})
    wanted = copy.deepcopy(schema)
    # A default within metadata is tried in a resource of its own, and stays as it is.
    wanted["properties"]["spec"]["properties"]["a"]["default"]["metadata"] = {"name": "x"}
    type_defaults(schema)
    assert schema == wanted
    assert RESOURCE["metadata"] == {"name": "x", "unknown": 1}
