"""Defaulting: the rules as a table, and the generated walk against the plain form."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggserver.schema import structural
from aggserver.schema.defaulting import compile_defaulter
from tests.schema.plain_defaulting import default


def number(value: Any, **others: Any) -> dict[str, Any]:
    return {"type": "integer", "default": value, **others}


A_IS_1 = {"type": "object", "properties": {"a": number(1)}}

CASES: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "missing": (A_IS_1, {}, {"a": 1}),
    "there": (A_IS_1, {"a": 2}, {"a": 2}),
    "zero is there": (A_IS_1, {"a": 0}, {"a": 0}),
    "null": (A_IS_1, {"a": None}, {"a": 1}),
    "nullable null": ({"properties": {"a": number(1, nullable=True)}}, {"a": None}, {"a": None}),
    "nullable, missing": ({"properties": {"a": number(1, nullable=True)}}, {}, {"a": 1}),
    "false, 0, '' and empty are defaults": (
        {
            "properties": {
                "a": {"default": False},
                "b": number(0),
                "c": {"default": ""},
                "d": {"default": []},
                "e": {"default": {}},
            }
        },
        {},
        {"a": False, "b": 0, "c": "", "d": [], "e": {}},
    ),
    "null is none": ({"properties": {"a": {"default": None}}}, {}, {}),
    "a parent that is missing stays so": ({"properties": {"p": A_IS_1}}, {}, {}),
    "a parent with a default is filled in": ({"properties": {"p": A_IS_1 | {"default": {"b": 1}}}}, {}, {"p": {"a": 1, "b": 1}}),
    "a parent that is null and has a default": ({"properties": {"p": A_IS_1 | {"default": {}}}}, {"p": None}, {"p": {"a": 1}}),
    "items": ({"properties": {"l": {"items": A_IS_1}}}, {"l": [{}, {"a": 2}, 5]}, {"l": [{"a": 1}, {"a": 2}, 5]}),
    "null items": ({"properties": {"l": {"items": number(1)}}}, {"l": [None, 2]}, {"l": [1, 2]}),
    "null items without a default stay": ({"properties": {"l": {"items": {"type": "integer"}}}}, {"l": [None]}, {"l": [None]}),
    "nullable items": ({"properties": {"l": {"items": number(1, nullable=True)}}}, {"l": [None]}, {"l": [None]}),
    "null items become objects, which are filled in": (
        {"properties": {"l": {"items": A_IS_1 | {"default": {"b": 2}}}}},
        {"l": [None]},
        {"l": [{"a": 1, "b": 2}]},
    ),
    "values of a map": ({"properties": {"m": {"additionalProperties": A_IS_1}}}, {"m": {"x": {}}}, {"m": {"x": {"a": 1}}}),
    "null values of a map": ({"properties": {"m": {"additionalProperties": number(1)}}}, {"m": {"x": None}}, {"m": {"x": 1}}),
    "properties before additionalProperties": (
        {"properties": {"p": {"type": "object"}}, "additionalProperties": A_IS_1},
        {"p": {}, "q": {}},
        {"p": {}, "q": {"a": 1}},
    ),
    "lists of lists": ({"properties": {"l": {"items": {"items": A_IS_1}}}}, {"l": [[{}]]}, {"l": [[{"a": 1}]]}),
    "the wrong type is left": ({"properties": {"p": A_IS_1, "l": {"items": A_IS_1}}}, {"p": [{}], "l": {}}, {"p": [{}], "l": {}}),
    "1, 1.0 and true are three defaults": (
        {"properties": {"a": {"default": 1}, "b": {"default": 1.0}, "c": {"default": True}}},
        {},
        {"a": 1, "b": 1.0, "c": True},
    ),
    "a field named like code": ({"properties": {'"]; x': number(1)}}, {}, {'"]; x': 1}),
}


@pytest.mark.parametrize(("schema", "before", "after"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("form", ["plain", "compiled"])
def test_default(schema: dict[str, Any], before: Any, after: Any, form: str) -> None:
    compiled = structural.compile(schema)
    obj = copy.deepcopy(before)
    if form == "plain":
        default(obj, compiled)
    else:
        compile_defaulter(compiled)(obj)
    assert repr(sorted_keys(obj)) == repr(sorted_keys(after))


@pytest.mark.parametrize("form", ["plain", "compiled"])
def test_defaults_are_copied(form: str) -> None:
    compiled = structural.compile({"properties": {"a": {"default": {"l": [1]}}, "b": {"default": []}}})
    fill = compile_defaulter(compiled) if form == "compiled" else lambda obj: default(obj, compiled)
    first: dict[str, Any] = {}
    fill(first)
    first["a"]["l"].append(2)
    first["b"].append(2)
    second: dict[str, Any] = {}
    fill(second)
    assert second == {"a": {"l": [1]}, "b": []}


KEYS = st.sampled_from(["a", "b", "c"])
VALUES = st.recursive(
    st.none() | st.integers(0, 2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=10,
)


def schemas() -> st.SearchStrategy[dict[str, Any]]:
    leaf = st.fixed_dictionaries({}, optional={"nullable": st.booleans(), "default": VALUES})
    return st.recursive(
        leaf,
        lambda inner: st.builds(
            lambda left, right: left | right,
            leaf,
            st.fixed_dictionaries(
                {},
                optional={
                    "properties": st.dictionaries(KEYS, inner, max_size=3),
                    "items": inner,
                    "additionalProperties": st.booleans() | inner,
                },
            ),
        ),
        max_leaves=12,
    )


@given(schemas(), st.dictionaries(KEYS, VALUES, max_size=3))
def test_compiled_is_plain_and_twice_is_once(schema: dict[str, Any], obj: dict[str, Any]) -> None:
    compiled = structural.compile(schema)
    quick, plain = copy.deepcopy(obj), copy.deepcopy(obj)
    fill = compile_defaulter(compiled)
    fill(quick)
    default(plain, compiled)
    assert repr(sorted_keys(quick)) == repr(sorted_keys(plain))
    fill(quick)
    assert quick == plain


def sorted_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: sorted_keys(value[key]) for key in sorted(value)}
    return [sorted_keys(item) for item in value] if isinstance(value, list) else value
