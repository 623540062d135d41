"""Walkers: that they decide by themselves for values that fit, as the plain forms do, and what they share with their arguments.

Where a walker gives up, the plain form decides, only slower, so no other test sees it.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from aggserver.merge import comparing, fieldset, merging, typed
from aggserver.merge.atom import DEDUCED, Atom, of_schema
from aggserver.merge.walker import Misfit, walker_of
from aggserver.meta.json_types import JSONObject
from aggserver.schema import structural
from tests.merge import worlds

STRING, INTEGER = {"type": "string"}, {"type": "integer"}
ITEM = {
    "type": "object",
    "properties": {"name": STRING, "port": INTEGER, "inner": {"type": "object", "properties": {"x": INTEGER}}},
}
FLAT = {"type": "object", "properties": {"name": STRING, "port": INTEGER, "on": {"type": "boolean"}}}


def list_map(items: JSONObject, *keys: str) -> JSONObject:
    return {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [*keys], "items": items}


SCHEMA: JSONObject = {
    "type": "object",
    "properties": {
        "name": STRING,
        "size": INTEGER,
        "on": {"type": "boolean"},
        "labels": {"type": "object", "additionalProperties": STRING},
        "flat": FLAT,
        "nested": {"type": "object", "properties": {"spec": ITEM}},
        "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": INTEGER}},
        "atoms": {"type": "array", "items": INTEGER},
        "objects": {"type": "array", "items": ITEM},
        "matrix": {"type": "array", "items": {"type": "array", "items": STRING}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": STRING},
        "numbers": {"type": "array", "x-kubernetes-list-type": "set", "items": INTEGER},
        "parts": list_map(ITEM, "name"),
        "flats": list_map(FLAT, "name"),
        "ports": list_map(FLAT, "port"),
        "both": list_map(FLAT, "name", "port"),
        "defaulted": list_map({"type": "object", "properties": {"name": STRING | {"default": "x"}, "port": INTEGER}}, "name"),
        "either": {"x-kubernetes-int-or-string": True},
        "anything": {"x-kubernetes-preserve-unknown-fields": True},
    },
}
ATOM = of_schema(structural.compile(SCHEMA))

# name: (before, after). Each is also asked the other way round, and against nothing.
PAIRS: dict[str, tuple[JSONObject, JSONObject]] = {
    "scalars": ({"name": "a", "size": 1, "on": True}, {"name": "b", "size": 1, "on": False}),
    "numbers that are written in two ways": ({"size": 1}, {"size": 1.0}),
    "zeros of both signs": ({"size": 0.0}, {"size": -0.0}),
    "true and 1": ({"anything": {"a": True}}, {"anything": {"a": 1}}),
    "labels": ({"labels": {"a": "x", "b": "y"}}, {"labels": {"b": "y", "c": "z"}}),
    "empty and null": ({"labels": {}, "set": [], "nested": None}, {"labels": None, "set": None, "nested": {}}),
    "nulls in maps": ({"labels": {"a": None}, "flat": {"name": None}}, {"labels": {"a": "x"}, "flat": {"name": "y"}}),
    "deep": ({"nested": {"spec": {"inner": {"x": 1}, "name": "a"}}}, {"nested": {"spec": {"inner": {"x": 2}, "port": 1}}}),
    "an empty map in a map": ({"nested": {"spec": {}}}, {"nested": {"spec": {"inner": {}}}}),
    "atomic maps": ({"whole": {"a": 1}}, {"whole": {"a": 2}}),
    "atomic lists": ({"atoms": [1, 2]}, {"atoms": [2, 1]}),
    "lists of objects": ({"objects": [{"name": "a"}, {"inner": {"x": 1}}]}, {"objects": [{"name": "a"}, None]}),
    "lists of lists": ({"matrix": [["a"], []]}, {"matrix": [["a"], ["b"]]}),
    "sets": ({"set": ["a", "b", "c"]}, {"set": ["c", "d", "a"]}),
    "sets of numbers": ({"numbers": [1, 2]}, {"numbers": [2, 3]}),
    "items": ({"parts": [{"name": "a", "port": 1}, {"name": "b"}]}, {"parts": [{"name": "b", "port": 1}, {"name": "c"}]}),
    "items with maps": (
        {"parts": [{"name": "a", "inner": {"x": 1}}]},
        {
            "parts": [
                {
                    "name": "a",
                    "inner": {
                        "x": 1,
                    },
                },
                {"name": "b"},
            ]
        },
    ),
    "items whose key has to be quoted": ({"parts": [{"name": 'a"\\'}]}, {"parts": [{"name": "a<b"}]}),
    "flat items": ({"flats": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]}, {"flats": [{"name": "b", "on": True}]}),
    "numbers as keys": ({"ports": [{"port": 80}, {"port": 443}]}, {"ports": [{"port": 443, "name": "a"}]}),
    "two keys": (
        {"both": [{"name": "a", "port": 1}, {"name": "a", "port": 2}]},
        {"both": [{"name": "a", "port": 2, "on": True}]},
    ),
    "a default key": ({"defaulted": [{"port": 1}, {"name": "y"}]}, {"defaulted": [{"name": "x", "port": 2}]}),
    "an order of its own": ({"set": ["a", "b", "c", "d"]}, {"set": ["d", "b"]}),
    "either": ({"either": 1}, {"either": "1"}),
    "of another kind": ({"anything": {"a": [1]}}, {"anything": {"a": {"b": 1}}}),
    "of another kind at the top": ({"anything": {"a": 1}}, {"anything": [1]}),
    "a scalar that becomes a map": ({"anything": 1}, {"anything": {"a": 1}}),
    "null that becomes a map": ({"anything": None}, {"anything": {"a": 1}}),
}
BOTH_WAYS = {
    f"{name}, {how}": pair
    for name, (before, after) in PAIRS.items()
    for how, pair in {
        "there": (before, after),
        "back": (after, before),
        "from nothing": ({}, after),
        "to nothing": (after, {}),
        "the same": (after, json.loads(json.dumps(after))),
    }.items()
}


def text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def check(atom: Atom, before: JSONObject, after: JSONObject) -> None:
    """Holds a walker to the plain form, without letting it give up."""
    walker = walker_of(atom)
    assert walker.fits(before, False)
    assert walker.fits(after, False)
    plain = comparing.plain_compare(before, after, atom)
    found = walker.changes(before, after)
    expected = [fieldset.ordered(each) for each in (plain.removed, plain.modified, plain.added)]
    assert [fieldset.ordered(each or {}) for each in found or ({}, {}, {})] == expected
    assert (found is None) is (expected == [{}, {}, {}])
    assert fieldset.ordered(walker.fields(after) or {}) == fieldset.ordered(typed.plain_field_set(after, atom))
    merged = walker.merge(before, after)
    assert text(merged or None) == text(merging.plain_merge(before, after, atom) or None)
    # Of two that are empty, the applied one is taken.
    if text(merged) == text(before) and not any(empty in text(before) for empty in ("{}", "[]", "null")):
        assert merged is before


@pytest.mark.parametrize("name", BOTH_WAYS)
def test_a_walker_decides_as_the_plain_form_does(name: str) -> None:
    check(ATOM, *BOTH_WAYS[name])


def is_rare(schema: JSONObject, value: Any) -> bool:
    """Whether a value has items of one list with the same key, or keys that are neither strings nor integers."""
    if isinstance(value, dict):
        members = schema.get("properties", {})
        other = schema.get("additionalProperties", {})
        return any(is_rare(members.get(name, other), member) for name, member in value.items())
    if not isinstance(value, list):
        return False
    items = schema.get("items", {})
    if schema.get(structural.LIST_TYPE, "atomic") != "atomic":
        keys = schema.get(structural.LIST_MAP_KEYS, ())
        tokens = [tuple(_key(items, item, name) for name in keys) if keys else (item,) for item in value]
        if len(set(tokens)) < len(tokens) or any(type(part) not in (str, int) for token in tokens for part in token):
            return True
    return any(is_rare(items, item) for item in value)


def _key(items: JSONObject, item: JSONObject, name: str) -> Any:
    return item.get(name, items["properties"][name].get("default"))


def test_a_walker_gives_up_only_where_keys_are_rare() -> None:
    checked = 0
    for seed in range(150):
        chance = random.Random(seed)
        schema = worlds.object_schema(chance)
        atom = DEDUCED if schema is None else of_schema(structural.compile(schema))
        before, after = (worlds.an_object(chance, schema) for _ in range(2))
        if not any(is_rare(schema or {}, value) for value in (before, after)):
            check(atom, before, after)
            checked += 1
    assert checked > 100


MISFITS: dict[str, tuple[JSONObject, JSONObject]] = {
    "an undeclared field": ({"other": 1}, {"name": "a"}),
    "a wrong scalar": ({"name": 1}, {"name": "a"}),
    "a wrong scalar that goes away": ({"name": 1}, {}),
    "a map for a list": ({"parts": {}}, {"parts": [{"name": "a"}]}),
    "a list for a map": ({"nested": []}, {"nested": {"spec": {}}}),
    "a wrong label": ({"labels": {"a": 1}}, {"labels": {"b": "x"}}),
    "a wrong label beside nothing": ({"labels": {"a": 1}}, {"labels": {}}),
    "in an atomic map": ({"whole": {"a": "x"}}, {"whole": {"a": 1}}),
    "in an atomic list": ({"atoms": ["x"]}, {"atoms": [1]}),
    "in an object of an atomic list": ({"objects": [{"inner": {"x": "y"}}]}, {"objects": []}),
    "in a list of lists": ({"matrix": [[1]]}, {"matrix": [["a"]]}),
    "in an item": ({"parts": [{"name": "a", "port": "x"}]}, {"parts": [{"name": "b"}]}),
    "in an item beside nothing": ({"parts": [{"name": "a", "port": "x"}]}, {"parts": []}),
    "in an item beside null": ({"parts": [{"name": "a", "port": "x"}]}, {"parts": None}),
    "an item that is no object": ({"parts": ["a"]}, {"parts": [{"name": "a"}]}),
    "an item without its key": ({"parts": [{"port": 1}]}, {"parts": [{"name": "a"}]}),
    "a key that is no scalar": ({"parts": [{"name": ["a"]}]}, {"parts": [{"name": "a"}]}),
    "a set that has an item twice": ({"set": ["a", "a"]}, {"set": ["a", "b"]}),
    "items with the same key": ({"parts": [{"name": "a"}, {"name": "a"}]}, {"parts": [{"name": "b"}]}),
}


@pytest.mark.parametrize("name", MISFITS)
def test_a_walker_leaves_what_does_not_fit_to_the_plain_form(name: str) -> None:
    stored, new = MISFITS[name]
    walker = walker_of(ATOM)
    assert not walker.fits(stored, False)
    assert walker.fits(new, False)
    with pytest.raises(Misfit):
        walker.merge(stored, new)
    with pytest.raises(Misfit):
        walker.changes(stored, new)


def test_a_merge_shares_all_that_stays() -> None:
    live: JSONObject = {"labels": {"a": "x"}, "nested": {"spec": {"name": "a"}}, "parts": [{"name": "a"}, {"name": "b"}]}
    merged = walker_of(ATOM).merge(live, {"nested": {"spec": {"port": 1}}, "parts": [{"name": "b", "port": 1}], "set": ["a"]})
    assert merged["labels"] is live["labels"]
    assert merged["parts"][0] is live["parts"][0]
    assert live["nested"] == {"spec": {"name": "a"}}


def test_members_that_clients_name_are_not_remembered() -> None:
    walker: Any = walker_of(of_schema(structural.compile(SCHEMA["properties"]["labels"])))
    walker.whole({"a": "x"})
    walker.changes({"a": "x"}, {"b": "y"})
    assert walker._members == {}


def test_few_shapes_are_remembered() -> None:
    schema = {"type": "object", "properties": {f"f{index}": STRING for index in range(70)}}
    walker: Any = walker_of(of_schema(structural.compile(schema)))
    nodes = [walker.whole({f"f{index}": "x"}) for index in range(70)]
    assert nodes[69] == {".": {}, "f:f69": {}}
    assert len(walker._shapes) == 64
    assert walker.whole({"f0": "y"}) is nodes[0]
