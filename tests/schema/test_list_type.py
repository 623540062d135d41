"""Lists of type set and map: what counts as twice, and how it is told."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.schema import structural
from aggserver.schema.list_type import duplicates, has_duplicates


def of(kind: str, *keys: str, items: Any = None) -> dict[str, Any]:
    schema = {"type": "array", "x-kubernetes-list-type": kind, "items": items or {"x-kubernetes-preserve-unknown-fields": True}}
    return schema | ({"x-kubernetes-list-map-keys": list(keys)} if keys else {})


CASES: dict[str, tuple[dict[str, Any], Any, list[str]]] = {
    "an atomic list": (of("atomic"), ["a", "a"], []),
    "a set": (of("set"), ["a", "b"], []),
    "told once, at the second": (of("set"), ["a", "b", "a", "a"], ['l[2]: Duplicate value: "a"']),
    "several": (of("set"), ["a", "b", "b", "a"], ['l[2]: Duplicate value: "b"', 'l[3]: Duplicate value: "a"']),
    "one, true and 1.5 are different": (of("set"), [1, True, 1.5, "1", None], []),
    "numbers": (of("set"), [1, 1.5, 1.5], ["l[2]: Duplicate value: 1.5"]),
    "nulls": (of("set"), [None, None], ["l[1]: Duplicate value: null"]),
    "objects": (of("set"), [{"a": 1, "b": 2}, {"b": 2, "a": 1}], ['l[1]: Duplicate value: {"a":1,"b":2}']),
    "lists": (of("set"), [[1], [True], [1]], ["l[2]: Duplicate value: [1]"]),
    "a map": (of("map", "k"), [{"k": 1}, {"k": True}, {"k": "1"}, {}], []),
    "a key twice": (of("map", "k"), [{"k": "a", "v": 1}, {"k": "a", "v": 2}], ['l[1]: Duplicate value: {"k":"a"}']),
    "a key that is an object": (of("map", "k"), [{"k": {"a": 1}}, {"k": {"a": 1}}], ['l[1]: Duplicate value: {"k":{"a":1}}']),
    "no key twice": (of("map", "k"), [{"v": 1}, {"v": 2}], ["l[1]: Duplicate value: {}"]),
    "a null key is one": (of("map", "k"), [{"k": None}, {}], []),
    "nulls have no key": (of("map", "k"), [None, {}], ["l[1]: Duplicate value: {}"]),
    "two keys": (of("map", "k", "p"), [{"k": "a", "p": 1}, {"k": "a", "p": 2}, {"k": "a"}, {"p": 1}], []),
    "both twice": (
        of("map", "k", "p"),
        [{"p": 1, "k": "a"}, {"k": "a", "p": 1}],
        ['l[1]: Duplicate value: {"k":"a","p":1}'],
    ),
    "no object": (
        of("map", "k"),
        [{"k": "a"}, "a", "a"],
        ['l[1]: Invalid value: "a": must be an object for an array of list-type map'],
    ),
    "a single one that is no object": (
        of("map", "k"),
        ["a"],
        ['l[0]: Invalid value: "a": must be an object for an array of list-type map'],
    ),
    "no list": (of("set"), {"a": "a"}, []),
    "in lists": (of("atomic", items=of("set")), [["a"], ["a", "a"]], ['l[1][1]: Duplicate value: "a"']),
    "in maps": (
        {"type": "object", "additionalProperties": of("set")},
        {"b": [1, 1], "a": [1, 1]},
        ["l[a][1]: Duplicate value: 1", "l[b][1]: Duplicate value: 1"],
    ),
    "in objects": (
        {"type": "object", "properties": {"b": of("set"), "a": of("set")}},
        {"b": [1, 1], "a": [1, 1]},
        ["l.a[1]: Duplicate value: 1", "l.b[1]: Duplicate value: 1"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_duplicates(name: str) -> None:
    schema, value, expected = CASES[name]
    root = structural.compile({"type": "object", "properties": {"l": schema}})
    assert list(map(str, duplicates({"l": value}, root))) == expected
    if isinstance(value, list) and schema["items"] == of("set")["items"]:
        kind, keys = schema["x-kubernetes-list-type"], schema.get("x-kubernetes-list-map-keys", ())
        assert has_duplicates(value, kind, keys) == bool(expected)
