"""Samples of a schema: what is varied, and that most are valid."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.meta.json_types import JSONObject
from aggserver.schema import structural
from aggserver.schema.samples import samples
from aggserver.schema.validation import validate

STRING = {"type": "string", "enum": ["x"]}


def made(properties: dict[str, Any], most: int = 100, first: tuple[tuple[str, ...], ...] = (), **more: Any) -> list[JSONObject]:
    schema = {"type": "object", "properties": properties, **more}
    return list(samples(structural.compile(schema), most, first))


CASES: dict[str, tuple[dict[str, Any], dict[str, Any], list[JSONObject]]] = {
    "no fields": ({}, {}, [{}, {}]),
    "a field": ({"a": STRING}, {}, [{"a": "x"}, {}, {}]),
    "a required field": ({"a": STRING}, {"required": ["a"]}, [{"a": "x"}, {"a": "x"}]),
    "values of an enum": (
        {"a": {"type": "string", "enum": ["x", "y"]}},
        {"required": ["a"]},
        [{"a": "x"}, {"a": "x"}, {"a": "y"}],
    ),
    "an example comes before others": ({"a": {"type": "integer", "example": 42}}, {}, [{"a": 42}, {}, {}]),
    "a bound": ({"a": {"type": "integer", "minimum": 9000, "maximum": 9001}}, {}, [{"a": 9000}, {}, {"a": 9001}, {}]),
    "a field without a value that fits": ({"a": {"type": "string", "pattern": "^never-in-a-list$"}}, {}, [{}, {}]),
    "a list": ({"a": {"type": "array", "items": STRING}}, {}, [{"a": ["x"]}, {}, {}, {"a": []}]),
    "a map": ({"a": {"type": "object", "additionalProperties": STRING}}, {}, [{"a": {"key": "x"}}, {}, {}, {"a": {}}]),
    "alternatives": (
        {"a": STRING, "b": STRING},
        {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        [{"a": "x", "b": "x"}, {}, {"b": "x"}, {"a": "x"}],
    ),
    "a child that its parent requires": (
        {"p": {"type": "object", "required": ["c"], "properties": {"c": STRING, "d": STRING}}},
        {},
        [{"p": {"c": "x", "d": "x"}}, {}, {}, {"p": {"c": "x"}}],
    ),
    "a parent that nothing makes valid": (
        {"a": STRING, "p": {"type": "object", "required": ["c"], "properties": {"c": {"type": "string", "pattern": "^never$"}}}},
        {},
        [{"a": "x"}, {}, {}, {"p": {}}],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_samples(name: str) -> None:
    properties, more, wanted = CASES[name]
    assert made(properties, **more) == wanted


def test_the_first_fields_are_varied_first() -> None:
    fields = {f"f{number}": {"type": "string", "enum": ["x", "y"]} for number in range(50)}
    found = made(fields, 4, (("f40",),))
    assert found[2]["f40"] == "y"
    assert "f40" not in found[3]


def test_a_large_schema_has_few_and_bounded_samples() -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(3):
        deep = {"type": "object", "properties": {f"f{number}": deep for number in range(30)}}
    found = list(samples(structural.compile(deep), 1000))
    assert 10 < len(found) < 100
    assert not validate(found[0], deep)
