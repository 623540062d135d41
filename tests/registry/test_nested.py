from __future__ import annotations

from typing import Any

import pytest

from aggserver.registry.nested import NestedError, find_integer, find_string, go_text, put

OBJECT = {"a": {"b": 1, "s": "x", "n": None, "f": 1.5, "l": [1, "x"], "m": {"z": 1, "y": [None]}, "t": True}}

FOUND: dict[str, tuple[str, int | None]] = {
    "there": (".a.b", 1),
    "without the first dot": ("a.b", 1),
    "not there": (".a.x", None),
    "nothing on the way": (".x.b", None),
    "null on the way": (".a.n.x", None),
}


@pytest.mark.parametrize("case", FOUND)
def test_found(case: str) -> None:
    path, value = FOUND[case]
    assert find_integer(OBJECT, path) == value


OTHERS: dict[str, tuple[str, str]] = {
    "string": (".a.s", ".a.s accessor error: x is of the type string, expected int64"),
    "null": (".a.n", ".a.n accessor error: <nil> is of the type <nil>, expected int64"),
    "bool": (".a.t", ".a.t accessor error: true is of the type bool, expected int64"),
    "float": (".a.f", ".a.f accessor error: 1.5 is of the type float64, expected int64"),
    "list": (".a.l", ".a.l accessor error: [1 x] is of the type []interface {}, expected int64"),
    "map": ("a.m", ".a.m accessor error: map[y:[<nil>] z:1] is of the type map[string]interface {}, expected int64"),
    "on the way": (".a.b.c.d", ".a.b.c accessor error: 1 is of the type int64, expected map[string]interface{}"),
}


@pytest.mark.parametrize("case", OTHERS)
def test_of_another_type(case: str) -> None:
    path, message = OTHERS[case]
    with pytest.raises(NestedError) as refused:
        find_integer(OBJECT, path)
    assert str(refused.value) == message


def test_strings() -> None:
    assert find_string(OBJECT, ".a.s") == "x"
    assert find_string(OBJECT, ".a.x") is None
    with pytest.raises(NestedError, match="1 is of the type int64, expected string"):
        find_string(OBJECT, ".a.b")


PUT: dict[str, tuple[Any, str, Any]] = {
    "replaced": ({"a": {"b": 1}}, ".a.b", {"a": {"b": 5}}),
    "made": ({}, ".a.b.c", {"a": {"b": {"c": 5}}}),
    "beside": ({"a": {"x": 1}}, "a.b", {"a": {"x": 1, "b": 5}}),
}


@pytest.mark.parametrize("case", PUT)
def test_put(case: str) -> None:
    obj, path, expected = PUT[case]
    put(obj, path, 5)
    assert obj == expected


@pytest.mark.parametrize("there", [None, 1, [], "x"])
def test_put_in_the_way(there: Any) -> None:
    with pytest.raises(NestedError, match=r"value cannot be set because \.a\.b is not a map\[string\]interface\{\}"):
        put({"a": {"b": there}}, ".a.b.c", 5)


def test_go_text_of_large_floats() -> None:
    assert go_text([1e21, 0.1, False]) == "[1e+21 0.1 false]"
