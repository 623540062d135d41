"""Structural: the tree of a schema, and what keeps a schema from having one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggserver.meta.field import Path
from aggserver.schema import structural
from aggserver.schema.structural import Structural


def test_every_member() -> None:
    schema = {
        "type": "object",
        "description": "kept as written",
        "properties": {"a": {"type": "string", "nullable": True, "default": "x", "pattern": "^x"}},
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
        "x-kubernetes-map-type": "atomic",
        "additionalProperties": {
            "type": "array",
            "items": {"x-kubernetes-int-or-string": True},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["a", "b"],
        },
    }
    values = Structural(
        type="array",
        items=Structural(x_int_or_string=True, schema=schema["additionalProperties"]["items"]),
        list_type="map",
        list_map_keys=("a", "b"),
        schema=schema["additionalProperties"],
    )
    compiled = structural.compile(schema)
    assert compiled == Structural(
        type="object",
        properties={"a": Structural(type="string", nullable=True, default="x", schema=schema["properties"]["a"])},
        additional_properties=values,
        x_preserve_unknown_fields=True,
        x_embedded_resource=True,
        map_type="atomic",
        schema=schema,
    )
    assert compiled.values is compiled.additional_properties


@pytest.mark.parametrize("allows", [True, False])
def test_boolean_additional_properties(allows: bool) -> None:
    compiled = structural.compile({"additionalProperties": allows})
    assert compiled.additional_properties is allows
    assert compiled.values is None


def test_nulls_are_missing() -> None:
    nulls: dict[str, Any] = dict.fromkeys(["type", "properties", "items", "additionalProperties", "default", "nullable", "allOf"])
    assert structural.problems(nulls, Path("s")) == []
    assert structural.compile(nulls) == Structural(schema=nulls)
    assert structural.compile({"properties": {"a": None}}).properties == {"a": Structural()}


TYPE = "Invalid value"
PROBLEMS: dict[str, tuple[Any, list[str]]] = {
    "no object": ([], ["s: Invalid value: []: must be a schema (an object)"]),
    "a type that is no string": ({"type": ["string", "null"]}, ['s.type: Invalid value: ["string","null"]: must be a string']),
    "all are found": (
        {"type": 1, "properties": {"a": {"nullable": "yes"}, "b": {"maxLength": True}}, "required": "a"},
        [
            "s.type: Invalid value: 1: must be a string",
            's.properties[a].nullable: Invalid value: "yes": must be a boolean',
            "s.properties[b].maxLength: Invalid value: true: must be an integer",
            's.required: Invalid value: "a": must be a list',
        ],
    ),
    "properties": ({"properties": [1]}, ["s.properties: Invalid value: [1]: must be an object"]),
    "a property": ({"properties": {"a": 1}}, ["s.properties[a]: Invalid value: 1: must be a schema (an object)"]),
    "items that are a list": ({"items": [{"type": 1}]}, ["s.items[0].type: Invalid value: 1: must be a string"]),
    "additionalProperties": (
        {"additionalProperties": "x"},
        ['s.additionalProperties: Invalid value: "x": must be a schema (an object)'],
    ),
    "junctors": ({"anyOf": [{}, {"not": {"type": 1}}]}, ["s.anyOf[1].not.type: Invalid value: 1: must be a string"]),
    "numbers": ({"maximum": "1", "minimum": 1.5}, ['s.maximum: Invalid value: "1": must be a number']),
    "required": ({"required": ["a", 1]}, ["s.required[1]: Invalid value: 1: must be a string"]),
    "preserve-unknown-fields": (
        {"x-kubernetes-preserve-unknown-fields": "yes"},
        ['s.x-kubernetes-preserve-unknown-fields: Invalid value: "yes": must be a boolean'],
    ),
    "what is forbidden has a form too": (
        {"$ref": 1, "definitions": {"a": 1}, "dependencies": {"b": [1], "c": {"type": 1}}},
        [
            "s.$ref: Invalid value: 1: must be a string",
            "s.definitions[a]: Invalid value: 1: must be a schema (an object)",
            "s.dependencies[b][0]: Invalid value: 1: must be a string",
            "s.dependencies[c].type: Invalid value: 1: must be a string",
        ],
    ),
    "rules": (
        {"x-kubernetes-validations": [{"rule": 1, "optionalOldSelf": "x"}, 2]},
        [
            "s.x-kubernetes-validations[0].rule: Invalid value: 1: must be a string",
            's.x-kubernetes-validations[0].optionalOldSelf: Invalid value: "x": must be a boolean',
            "s.x-kubernetes-validations[1]: Invalid value: 2: must be an object",
        ],
    ),
    "members of other dialects are ignored": ({"deprecated": 1, "xml": [], "x-foo": {}}, []),
}


@pytest.mark.parametrize(("schema", "texts"), PROBLEMS.values(), ids=PROBLEMS)
def test_problems(schema: Any, texts: list[str]) -> None:
    assert [str(problem) for problem in structural.problems(schema, Path("s"))] == texts


def test_too_deep() -> None:
    schema: dict[str, Any] = {}
    for _ in range(3000):
        schema = {"items": schema}
    (problem,) = structural.problems(schema, Path("s"))
    assert problem.detail == f"must not nest deeper than {structural.MAX_DEPTH} schemas"


def test_default_too_deep() -> None:
    value: Any = 1
    for _ in range(3000):
        value = [value]
    (problem,) = structural.problems({"default": value}, Path("s"))
    assert problem.field == "s.default"
    assert problem.detail == f"must not nest deeper than {structural.MAX_DEPTH} objects and lists"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(sorted(structural.SCHEMA.members)) | st.text(max_size=2), inner, max_size=5)
    ),
    max_leaves=25,
)


@given(JSON)
def test_whatever_has_no_problems_compiles(schema: Any) -> None:
    if not structural.problems(schema, Path("s")):
        structural.compile(schema)
