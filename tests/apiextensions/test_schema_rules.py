"""Rules of schemas: kube-apiserver's answers (tests/cases/crd_schemas.yaml), what may stay, and schemas that mean ill."""

from __future__ import annotations

import time
from pathlib import Path as File
from typing import Any

import pytest
import yaml

from aggserver.apiextensions import schema_rules, validation
from aggserver.apiextensions.schema_rules import SchemaOptions, unrecognized_formats
from aggserver.meta.field import Path
from aggserver.schema import internal
from aggserver.schema.constructs import Strictness
from aggserver.schema.rules import UPSTREAM

CASES = yaml.safe_load((File(__file__).parents[1] / "cases" / "crd_schemas.yaml").read_text())
STRICT = SchemaOptions(structural=True, pruned_defaults=True, strict=Strictness(), rule_options=UPSTREAM)

JSONObject = dict[str, Any]


def errors(schema: JSONObject, *, status: bool = False, options: SchemaOptions = STRICT) -> list[str]:
    return [str(error) for error in schema_rules.validate(schema, Path("s"), status=status, unchanged=False, options=options)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_schema(case: JSONObject) -> None:
    assert errors(case["schema"]) == case["errors"]


def test_root_with_status() -> None:
    assert errors({"type": "object", "required": ["a"], "properties": {}}, status=True) == []
    (error,) = errors({"type": "object", "maxProperties": 1, "anyOf": []}, status=True)
    assert error.startswith('s: Invalid value: {"ID":"","Schema":"","Ref":null,"Description":"","Type":"object",')
    assert error.endswith(
        "only [Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern "
        "MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields "
        "XValidations] fields are allowed at the root of the schema if the status subresource is enabled"
    )


def crd(schema: JSONObject, **spec: Any) -> JSONObject:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "as.b.example"},
        "spec": {
            "group": "b.example",
            "scope": "Cluster",
            "names": {"plural": "as", "kind": "A"},
            "versions": [version],
            **spec,
        },
    }


def around(schema: JSONObject) -> JSONObject:
    return {"type": "object", "properties": {"a": schema}}


LIST_OF_OBJECTS = {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}}}
# What an older server accepted.
STORED: dict[str, tuple[JSONObject, JSONObject]] = {
    "a type of its own": (around({"type": "text"}), {}),
    "a set of objects": (around(LIST_OF_OBJECTS | {"x-kubernetes-list-type": "set"}), {}),
    "an optional key": (
        around(LIST_OF_OBJECTS | {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}),
        {},
    ),
    "a set of nulls": (
        around({"type": "array", "items": {"type": "string", "nullable": True}, "x-kubernetes-list-type": "set"}),
        {},
    ),
    "a default with a field of its own": (around({"type": "object", "properties": {}, "default": {"b": 1}}), {}),
    "no structure": ({"properties": {"a": {"allOf": [{"type": "string"}]}}}, {"preserveUnknownFields": True}),
}


@pytest.mark.parametrize(("schema", "spec"), STORED.values(), ids=STORED)
def test_what_was_accepted_stays(schema: JSONObject, spec: JSONObject) -> None:
    stored = crd(schema, **spec)
    assert validation.validate(stored) != []
    assert validation.validate_update(stored, stored) == []
    # What was right before stays so.
    assert validation.validate_update(stored, crd({"type": "object"})) != []


def test_structure_is_asked_for_where_something_rests_on_it() -> None:
    loose: JSONObject = {"properties": {"a": {}}}
    before = crd(loose, preserveUnknownFields=True)
    after = crd({"properties": {"a": {}, "b": {"x-kubernetes-int-or-string": True}}}, preserveUnknownFields=True)
    assert validation.validate_update(before, before) == []
    assert validation.validate_update(after, before) != []
    assert validation.validate_update(crd(loose), before) != []


def test_unrecognized_formats() -> None:
    schema = {"properties": {"a": {"type": "string", "format": "date-time"}, "b": {"type": "object", "format": "date"}}}
    assert unrecognized_formats(crd(schema)["spec"]) == ["date"]
    two = [{"name": name, "schema": {"openAPIV3Schema": schema}} for name in ("v1", "v2")]
    assert unrecognized_formats({"versions": two}) == ["date"]


def test_text_of_a_schema() -> None:
    text = internal.text({"type": "object", "maximum": 1, "items": [{}], "additionalProperties": {"type": "string"}})
    assert '"Type":"object"' in text
    assert '"Maximum":1,' in text
    assert '"AdditionalProperties":{"Allows":true,"Schema":{"ID":"",' in text
    assert '"Items":{"Schema":null,"JSONSchemas":[{"ID":"",' in text


def deep(levels: int) -> JSONObject:
    schema: JSONObject = {"type": "string"}
    for _ in range(levels):
        schema = around(schema)
    return schema


ILL: dict[str, tuple[JSONObject, bool]] = {
    "a thousand levels": (deep(1000), False),
    "ninety levels": (deep(90), True),
    "ten thousand properties": ({"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(10_000)}}, True),
    "a pattern that backtracks": (around({"type": "string", "pattern": "(a+)+$" * 20}), True),
    "a pattern that explodes": (around({"type": "string", "pattern": "((a{1,100}){1,100}){1,100}"}), False),
    "a large enum": (around({"type": "string", "enum": ["x" * 100] * 30_000}), True),
}


@pytest.mark.parametrize(("schema", "is_good"), ILL.values(), ids=ILL)
def test_ill_will_is_answered(schema: JSONObject, is_good: bool) -> None:
    began = time.process_time()
    assert (validation.validate(crd(schema)) == []) is is_good
    assert time.process_time() - began < 20  # for ever, where something grows without bounds
