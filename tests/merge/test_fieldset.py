"""Field sets: their algebra, and what is a set at all."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.merge import fieldset
from aggserver.merge.fieldset import FieldSetError

A, B, C = "f:a", "f:b", "f:c"

# name: (left, right, union, intersection, difference, recursive difference)
ALGEBRA: dict[str, tuple[dict[str, Any], ...]] = {
    "leaves": ({A: {}, B: {}}, {B: {}, C: {}}, {A: {}, B: {}, C: {}}, {B: {}}, {A: {}}, {A: {}}),
    "a parent and its child": ({A: {}}, {A: {B: {}}}, {A: {".": {}, B: {}}}, {}, {A: {}}, {A: {}}),
    "a child and its parent": ({A: {B: {}}}, {A: {}}, {A: {".": {}, B: {}}}, {}, {A: {B: {}}}, {}),
    "both, and the parent": ({A: {".": {}, B: {}}}, {A: {}}, {A: {".": {}, B: {}}}, {A: {}}, {A: {B: {}}}, {}),
    "both, and the child": ({A: {".": {}, B: {}}}, {A: {B: {}}}, {A: {".": {}, B: {}}}, {A: {B: {}}}, {A: {}}, {A: {}}),
    "nothing": ({A: {}}, {}, {A: {}}, {}, {A: {}}, {A: {}}),
    "deep": ({A: {B: {C: {}}}}, {A: {B: {C: {}}}}, {A: {B: {C: {}}}}, {A: {B: {C: {}}}}, {}, {}),
}


@pytest.mark.parametrize("name", ALGEBRA)
def test_algebra(name: str) -> None:
    left, right, union, intersection, difference, recursive = ALGEBRA[name]
    assert fieldset.union(left, right) == union
    assert fieldset.intersection(left, right) == intersection
    assert fieldset.difference(left, right) == difference
    assert fieldset.recursive_difference(left, right) == recursive


def test_order() -> None:
    fields = {
        'v:"x"': {},
        'k:{"port":443}': {},
        'k:{"port":80}': {},
        "f:b": {},
        "i:1": {},
        ".": {},
        "f:a": {"f:z": {}, "f:y": {}},
    }
    made = fieldset.ordered(fields)
    assert list(made) == [".", "f:a", "f:b", "i:1", 'k:{"port":443}', 'k:{"port":80}', 'v:"x"']
    assert list(made["f:a"]) == ["f:y", "f:z"]
    members = [path[0] for path in fieldset.paths(fields) if len(path) == 1]
    assert members == ["f:b", 'k:{"port":80}', 'k:{"port":443}', 'v:"x"', "i:1"]


def test_the_order_of_values() -> None:
    """By kind: numbers, strings, booleans, lists, objects, null; and then by value."""
    values = ["-1", "2", "10", '"A"', '"a"', "false", "true", "[1]", "[2]", "[true]", '{"a":1}', '{"a":2}', '{"b":0}', "null"]
    wanted = [f"v:{value}" for value in values]
    for given in (wanted[::-1], sorted(wanted)):
        assert [path[0] for path in fieldset.paths({element: {} for element in given})] == wanted


def test_paths() -> None:
    fields = {"f:spec": {".": {}, 'k:{"name":"a","port":1}': {".": {}, "f:x": {}}, "v:1.5": {}}, "f:z": {}}
    assert [fieldset.path_text(path) for path in fieldset.paths(fields)] == [
        ".spec",
        ".z",
        '.spec[name="a",port=1]',
        ".spec[=1.5]",
        '.spec[name="a",port=1].x',
    ]


def test_contains() -> None:
    fields = {A: {B: {}}}
    assert fieldset.contains(fields, (A, B))
    assert not fieldset.contains(fields, (A,))
    assert not fieldset.contains(fields, (A, B, C))
    assert not fieldset.contains(fields, ())


@pytest.mark.parametrize(
    ("given", "made"),
    [
        pytest.param(None, {}, id="null"),
        pytest.param({"f:a": {}, "x:b": {"f:c": {}}}, {"f:a": {}}, id="of an unknown kind"),
        pytest.param({'k:{"b": 1, "a": "x"}': {}}, {'k:{"a":"x","b":1}': {}}, id="keys in another order"),
        pytest.param({'v:"\\u0078"': {}, 'v:"x"': {A: {}}}, {'v:"x"': {".": {}, A: {}}}, id="one element written twice"),
        pytest.param({"f:a": None}, {"f:a": {}}, id="null below it"),
        pytest.param({'v:"x" y': {}, 'k:{"a":1} }': {}}, {'v:"x"': {}, 'k:{"a":1}': {}}, id="more after a value"),
    ],
)
def test_parse(given: Any, made: dict[str, Any]) -> None:
    assert fieldset.parse(given) == made


def _deep(levels: int) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for _ in range(levels):
        fields = {A: fields}
    return fields


@pytest.mark.parametrize(
    ("given", "text"),
    [
        pytest.param([], "an object", id="a list"),
        pytest.param({"f": {}}, "2 characters", id="short"),
        pytest.param({"fa": {}}, "missing colon", id="no colon"),
        pytest.param({"k:{": {}}, "property name", id="no JSON"),
        pytest.param({"k:[]": {}}, "object", id="a key that is no object"),
        pytest.param({"i:x": {}}, "invalid syntax", id="no index"),
        pytest.param({"i:1_0": {}}, "invalid syntax", id="an index that only Python reads"),
        pytest.param({"v:NaN": {}}, "invalid character 'N'", id="a value that only Python reads"),
        pytest.param({"v:-Infinity": {}}, "invalid character '-'", id="another"),
        pytest.param({"f:a": 1}, "expect { or n", id="a number below a field"),
        pytest.param({"f:a": {"f:b": []}}, "expect { or n", id="a list below a field"),
        pytest.param(_deep(10_000), "max depth", id="deep"),
    ],
)
def test_no_set(given: Any, text: str) -> None:
    with pytest.raises(FieldSetError, match=text):
        fieldset.parse(given)


class _Large(dict[str, Any]):
    """A set that is looked up in, but not gone through."""

    def __iter__(self) -> Any:
        raise AssertionError

    items = __iter__


def test_the_smaller_set_is_gone_through() -> None:
    small, large = {A: {}}, _Large({A: {B: {}}, B: {}})
    assert fieldset.intersection(small, large) == fieldset.intersection(large, small) == {}
    assert fieldset.difference(small, large) is small
    assert fieldset.recursive_difference({C: {}}, large) == {C: {}}


def test_unions_of_few() -> None:
    one = {A: {}}
    assert fieldset.union_of([]) == {}
    assert fieldset.union_of([one]) is one
    assert fieldset.union_of([one, {B: {}}, {C: {}}]) == {A: {}, B: {}, C: {}}
