"""Cases for `test_same_answers.py`: what may stand in a definition's schema; `definitions.py` says how it is asked."""

from __future__ import annotations

from typing import Any

from aggserver.meta.json_types import JSONObject
from tests.integration.comparison import Cases
from tests.integration.definitions import ANYTHING, INTEGER, SCHEMA, STRING, object_of, try_out, version

__all__ = ["CASES"]

# Of the property `spec`, unless they say otherwise.
_RESOURCE = {"apiVersion": "v1", "kind": "A", "metadata": {"name": "x", "unknown": 1}}
_PROPERTIES: dict[str, JSONObject] = {
    "type-missing": {},
    "type-unknown": {"type": "text"},
    "type-null": {"type": "null"},
    "preserve-without-type": {"x-kubernetes-preserve-unknown-fields": True},
    "preserve-false": {"type": "object", "x-kubernetes-preserve-unknown-fields": False},
    "array-without-items": {"type": "array"},
    "items-list": {"type": "array", "items": [STRING]},
    "items-without-type": {"type": "array", "items": {}},
    "map-without-type": {"type": "object", "additionalProperties": {}},
    "map": {"type": "object", "additionalProperties": STRING},
    "map-true": {"type": "object", "additionalProperties": True},
    "map-false": {"type": "object", "additionalProperties": False},
    "map-and-properties": {**object_of(a=STRING), "additionalProperties": STRING},
    "map-false-and-properties": {**object_of(a=STRING), "additionalProperties": False},
    "map-true-and-properties": {**object_of(a=STRING), "additionalProperties": True},
    "unique-items": {"type": "array", "items": STRING, "uniqueItems": True},
    "unique-items-false": {"type": "array", "items": STRING, "uniqueItems": False},
    "id": {"type": "string", "id": "a"},
    "dollar-schema": {"type": "string", "$schema": "http://json-schema.org/schema#"},
    "ref": {"type": "string", "$ref": "#/a"},
    "ref-empty": {"type": "string", "$ref": ""},
    "definitions": {"type": "string", "definitions": {"a": {"type": "text"}}},
    "dependencies": {"type": "object", "dependencies": {"a": ["b"], "c": {"type": "null"}}},
    "pattern-properties": {"type": "object", "patternProperties": {"a": STRING}},
    "additional-items": {"type": "array", "items": STRING, "additionalItems": False},
    "unknown-keywords": {"type": "string", "readOnly": True, "deprecated": True, "xml": {}, "discriminator": "x"},
    "nullable": {"type": "string", "nullable": True},
    "format-unknown": {"type": "string", "format": "colour"},
    "format-known": {"type": "string", "format": "date-time"},
    "format-short-name": {"type": "string", "format": "k8s-short-name"},
    "format-of-object": {"type": "object", "format": "date"},
    "format-of-integer": {"type": "integer", "format": "int64"},
    "pattern": {"type": "string", "pattern": "^[a-z]+$"},
    "pattern-lookahead": {"type": "string", "pattern": "(?=a)b"},
    "pattern-bracket": {"type": "string", "pattern": "[a"},
    "pattern-repeat": {"type": "string", "pattern": "a{1001}"},
    "pattern-nested": {"type": "string", "allOf": [{"pattern": "a**"}, {"not": {"pattern": "(a"}}]},
    "pattern-backslash": {"type": "string", "pattern": "a\\"},
    "pattern-any-byte": {"type": "string", "pattern": "\\C"},
    "int-or-string": {"x-kubernetes-int-or-string": True},
    "int-or-string-any-of": {"x-kubernetes-int-or-string": True, "anyOf": [INTEGER, STRING]},
    "int-or-string-all-of": {"x-kubernetes-int-or-string": True, "allOf": [{"anyOf": [INTEGER, STRING]}, {"pattern": "a"}]},
    "int-or-string-one-of": {"x-kubernetes-int-or-string": True, "oneOf": [INTEGER, STRING]},
    "int-or-string-wrong-order": {"x-kubernetes-int-or-string": True, "anyOf": [STRING, INTEGER]},
    "int-or-string-with-more": {"x-kubernetes-int-or-string": True, "anyOf": [INTEGER, {**STRING, "maxLength": 1}]},
    "int-or-string-preserve": {"x-kubernetes-int-or-string": True, "x-kubernetes-preserve-unknown-fields": True},
    "int-or-string-embedded": {"type": "object", "x-kubernetes-int-or-string": True, "x-kubernetes-embedded-resource": True},
    "any-of-types-elsewhere": {"type": "string", "anyOf": [INTEGER, STRING]},
    "nested-everything": {
        "type": "object",
        "allOf": [
            {
                "type": "object",
                "title": "t",
                "description": "d",
                "nullable": True,
                "default": 1,
                "additionalProperties": STRING,
                "x-kubernetes-preserve-unknown-fields": True,
                "x-kubernetes-embedded-resource": True,
                "x-kubernetes-int-or-string": True,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["a"],
                "x-kubernetes-map-type": "atomic",
                "x-kubernetes-validations": [{"rule": "true"}],
            }
        ],
    },
    "nested-additional-false": {"type": "object", "not": {"additionalProperties": False}},
    "nested-metadata": {"type": "object", "not": {"properties": {"metadata": {}}}},
    "nested-properties-unknown": {**object_of(a=STRING), "anyOf": [{"properties": {"b": {"pattern": "x"}}}]},
    "nested-items-unknown": {"type": "string", "oneOf": [{"items": {"pattern": "x"}}]},
    "embedded": {**ANYTHING, "x-kubernetes-embedded-resource": True},
    "embedded-properties": {**object_of(a=STRING), "x-kubernetes-embedded-resource": True},
    "embedded-empty": {"type": "object", "x-kubernetes-embedded-resource": True},
    "embedded-no-type": {"x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
    "embedded-array": {"type": "array", "items": STRING, "x-kubernetes-embedded-resource": True},
    "embedded-map": {**ANYTHING, "additionalProperties": STRING, "x-kubernetes-embedded-resource": True},
    "embedded-kind-integer": {**object_of(kind=INTEGER), "x-kubernetes-embedded-resource": True},
    "embedded-metadata-string": {**object_of(metadata=STRING), "x-kubernetes-embedded-resource": True},
    "embedded-metadata-labels": {**object_of(metadata=object_of(labels=ANYTHING)), "x-kubernetes-embedded-resource": True},
    "embedded-in-metadata": {
        **object_of(metadata=object_of(a={**ANYTHING, "x-kubernetes-embedded-resource": True})),
        "x-kubernetes-embedded-resource": True,
    },
    "embedded-metadata-default-in-map": {
        **object_of(
            metadata=object_of(labels={"type": "object", "additionalProperties": {"type": "string", "default": "x"}}),
        ),
        "x-kubernetes-embedded-resource": True,
    },
    "list-type": {"type": "array", "items": STRING, "x-kubernetes-list-type": "atomic"},
    "list-type-unknown": {"type": "array", "items": STRING, "x-kubernetes-list-type": "Set"},
    "list-type-of-object": {"type": "object", "x-kubernetes-list-type": "set"},
    "list-type-without-type": {"x-kubernetes-int-or-string": True, "x-kubernetes-list-type": "set"},
    "set": {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
    "set-of-objects": {"type": "array", "items": object_of(a=STRING), "x-kubernetes-list-type": "set"},
    "set-of-atomic-objects": {
        "type": "array",
        "items": {**object_of(a=STRING), "x-kubernetes-map-type": "atomic"},
        "x-kubernetes-list-type": "set",
    },
    "set-of-lists": {
        "type": "array",
        "items": {"type": "array", "items": STRING, "x-kubernetes-list-type": "set"},
        "x-kubernetes-list-type": "set",
    },
    "set-of-plain-lists": {
        "type": "array",
        "items": {"type": "array", "items": STRING},
        "x-kubernetes-list-type": "set",
    },
    "set-nullable": {"type": "array", "items": {**STRING, "nullable": True}, "x-kubernetes-list-type": "set"},
    "keys-without-list-type": {"type": "array", "items": object_of(a=STRING), "x-kubernetes-list-map-keys": ["a"]},
    "keys-of-set": {"type": "array", "items": STRING, "x-kubernetes-list-type": "set", "x-kubernetes-list-map-keys": ["a"]},
    "map-type": {"type": "object", "x-kubernetes-map-type": "granular"},
    "map-type-unknown": {"type": "object", "x-kubernetes-map-type": "Atomic"},
    "map-type-of-string": {"type": "string", "x-kubernetes-map-type": "atomic"},
    "map-type-without-type": {"x-kubernetes-int-or-string": True, "x-kubernetes-map-type": "atomic"},
    "default": {"type": "string", "default": "x"},
    "default-null": {"type": "string", "default": None},
    "default-wrong-type": {"type": "string", "default": 5},
    "default-unknown-field": {**object_of(a=STRING), "default": {"b": 1}},
    "default-out-of-range": {"type": "integer", "maximum": 3, "default": 5},
    "default-in-embedded-metadata": {
        **object_of(metadata=object_of(name={**STRING, "default": "A b"})),
        "x-kubernetes-embedded-resource": True,
    },
    "default-nested": {**object_of(a=STRING), "default": {"a": "x"}},
    **{
        f"default-embedded-{name}": {**object_of(a=STRING), "x-kubernetes-embedded-resource": True, "default": default, **more}
        for name, default, more in (
            ("unknown", _RESOURCE, {}),
            ("unknown-and-preserved", {**_RESOURCE, "b": 1}, {"x-kubernetes-preserve-unknown-fields": True}),
            ("unknown-beside", {**_RESOURCE, "b": 1}, {}),
            ("null", {**_RESOURCE, "metadata": None}, {}),
            ("malformed", {**_RESOURCE, "metadata": {"labels": [], "x": 1}}, {}),
            ("bad-name", {**_RESOURCE, "metadata": {"name": "a/b", "x": 1}}, {}),
            ("too-many", _RESOURCE, {"maxProperties": 1}),
            ("required", _RESOURCE, {"required": ["a"]}),
        )
    },
    "default-embedded-inside": {
        **object_of(a={**object_of(b=STRING), "x-kubernetes-embedded-resource": True}),
        "default": {"a": {"apiVersion": "v1", "kind": "A", "metadata": {"name": "x", "unknown": 1}}},
    },
    "default-embedded-in-list": {
        "type": "array",
        "items": {**object_of(b=STRING), "x-kubernetes-embedded-resource": True},
        "default": [{"apiVersion": "v1", "kind": "A", "metadata": {"labels": {"a": None}, "generation": 0, "unknown": 1}}],
    },
    "default-embedded-metadata": {
        **object_of(metadata={"type": "object", "default": {"name": "x", "unknown": 1}}),
        "x-kubernetes-embedded-resource": True,
    },
}


def _list_map(items: Any, *keys: str) -> JSONObject:
    return {"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


_LIST_MAPS: dict[str, JSONObject] = {
    "good": _list_map({**object_of(a=STRING), "required": ["a"]}, "a"),
    "default": _list_map(object_of(a={**STRING, "default": "x"}), "a"),
    "optional": _list_map(object_of(a=STRING), "a"),
    "nullable": _list_map({**object_of(a={**STRING, "nullable": True}), "required": ["a"]}, "a"),
    "items-nullable": _list_map({**object_of(a=STRING), "required": ["a"], "nullable": True}, "a"),
    "no-keys": _list_map({**object_of(a=STRING), "required": ["a"]}),
    "unknown-key": _list_map({**object_of(a=STRING), "required": ["a"]}, "b"),
    "key-twice": _list_map({**object_of(a=STRING), "required": ["a"]}, "a", "a"),
    "key-an-object": _list_map({**object_of(a=object_of(b=STRING)), "required": ["a"]}, "a"),
    "of-strings": _list_map(STRING, "a"),
    "no-items": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]},
    "items-a-list": _list_map([object_of(a=STRING)], "a"),
}


def _ruled(*rules: JSONObject) -> JSONObject:
    return {**object_of(a=STRING, b={"type": "object", "additionalProperties": STRING}), "x-kubernetes-validations": list(rules)}


_RULES: dict[str, JSONObject] = {
    "good": _ruled({"rule": "self.a == 'x'", "message": "must be x", "reason": "FieldValueForbidden", "fieldPath": ".a"}),
    "empty": _ruled({"rule": " "}),
    "message-blank": _ruled({"rule": "true", "message": " "}),
    "message-line-break": _ruled({"rule": "true", "message": "a\nb"}),
    "rule-line-break": _ruled({"rule": "true ||\nfalse"}),
    "message-expression-blank": _ruled({"rule": "true", "messageExpression": " "}),
    "reason": _ruled({"rule": "true", "reason": "Wrong"}),
    "field-path-blank": _ruled({"rule": "true", "fieldPath": " "}),
    "field-path-unknown": _ruled({"rule": "true", "fieldPath": ".c"}),
    "field-path-line-break": _ruled({"rule": "true", "fieldPath": ".a\n"}),
    "field-path-map": _ruled({"rule": "true", "fieldPath": ".b['x y']"}),
    "field-path-map-dot": _ruled({"rule": "true", "fieldPath": ".b.x"}),
    "field-path-unclosed": _ruled({"rule": "true", "fieldPath": ".b['x'"}),
    "field-path-no-dot": _ruled({"rule": "true", "fieldPath": "a"}),
}

_ROOTS: dict[str, JSONObject] = {
    "no-type": {"properties": {"spec": STRING}},
    "string": {"type": "string"},
    "additional-properties": {"type": "object", "additionalProperties": STRING},
    "preserve": ANYTHING,
    "metadata-empty": object_of(metadata={}),
    "metadata-type": object_of(metadata={"type": "object"}),
    "metadata-name": object_of(metadata=object_of(name={**STRING, "maxLength": 5}, generateName=STRING)),
    "metadata-labels": object_of(metadata=object_of(labels=ANYTHING)),
    "metadata-description": object_of(metadata={"type": "object", "description": "x"}),
    "metadata-preserve": object_of(metadata=ANYTHING),
    "metadata-default": object_of(metadata={"type": "object", "default": {}}),
    "metadata-max-properties": object_of(metadata={"type": "object", "maxProperties": 0}),
    "kind-integer": object_of(kind=INTEGER),
    "api-version-default": object_of(apiVersion={**STRING, "default": "v1"}),
    "embedded": {**SCHEMA, "x-kubernetes-embedded-resource": True},
    "completeness": {
        **object_of(a=STRING, list={"type": "array", "items": object_of(b=STRING)}),
        "allOf": [
            {"properties": {"c": {"pattern": "x"}, "list": {"items": {"properties": {"d": {"pattern": "x"}}}}}},
        ],
        "not": {"anyOf": [{"properties": {"e": {"enum": ["x"]}}}, {"items": {"maxLength": 1}}]},
    },
}

# Members of a wrong JSON type: what Go's decoder says.
_MISTYPED_SCHEMAS: dict[str, Any] = {
    "schema": "x",
    "schema-list": [],
    "type": {"type": ["object"]},
    "properties": {"type": "object", "properties": []},
    "property": object_of(a=True),
    "deep": object_of(a=object_of(b={"type": 1})),
    "integer": object_of(a={"type": "string", "maxLength": "x"}),
    "integer-fraction": object_of(a={"type": "string", "maxLength": 1.5}),
    "integer-whole-float": object_of(a={"type": "string", "maxLength": 1000.0}),
    "integer-large": object_of(a={"type": "string", "maxLength": 2**63}),
    "number": object_of(a={"type": "integer", "maximum": True}),
    "boolean": object_of(a={"type": "string", "nullable": 1}),
    "items": object_of(a={"type": "array", "items": "x"}),
    "items-of-items": object_of(a={"type": "array", "items": ["x"]}),
    "additional": {"type": "object", "additionalProperties": "x"},
    "additional-deep": {"type": "object", "additionalProperties": {"type": 1}},
    "all-of": {"type": "object", "allOf": {}},
    "not": {"type": "object", "not": "x"},
    "enum": object_of(a={"type": "string", "enum": "x"}),
    "required": {"type": "object", "required": "x"},
    "required-item": {"type": "object", "required": [1]},
    "rules": {"type": "object", "x-kubernetes-validations": {}},
    "rule": {"type": "object", "x-kubernetes-validations": ["x"]},
    "rule-reason": {"type": "object", "x-kubernetes-validations": [{"rule": "true", "reason": 1}]},
    "preserve": {"type": "object", "x-kubernetes-preserve-unknown-fields": "x"},
    "list-map-keys": object_of(a={"type": "array", "x-kubernetes-list-map-keys": [1]}),
    "dependencies": {"type": "object", "dependencies": {"a": [1]}},
    "docs": {"type": "object", "externalDocs": "x"},
}

CASES: Cases = {
    **{f"crd-spec-{name}": try_out(version(schema=object_of(spec=schema))) for name, schema in _PROPERTIES.items()},
    **{f"crd-list-map-{name}": try_out(version(schema=object_of(spec=schema))) for name, schema in _LIST_MAPS.items()},
    **{f"crd-rule-{name}": try_out(version(schema=object_of(spec=schema))) for name, schema in _RULES.items()},
    **{f"crd-root-{name}": try_out(version(schema=schema)) for name, schema in _ROOTS.items()},
    **{f"crd-mistyped-schema-{name}": try_out(version(schema=schema)) for name, schema in _MISTYPED_SCHEMAS.items()},
}
