"""CompiledSchema: which steps each entrance takes, and when rules are evaluated."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from aggserver.meta import field
from aggserver.meta.errors import ObjectTooLarge
from aggserver.meta.field import Path
from aggserver.meta.json_types import JSONObject
from aggserver.schema import compiled
from aggserver.schema.compiled import CompiledSchema

STRING = {"type": "string"}
EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
SCHEMA: JSONObject = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {"a": STRING | {"default": "x"}, "n": {"type": "integer"}, "template": EMBEDDED},
            "x-kubernetes-validations": [{"rule": "!has(self.n) || !has(oldSelf.n) || self.n >= oldSelf.n"}],
        }
    },
}
GIVEN: JSONObject = {"metadata": {"name": "m", "labels": None, "other": 1}, "spec": {"a": None, "b": 1}}
PRUNED: JSONObject = {"metadata": {"name": "m"}, "spec": {"a": None}}
DEFAULTED: JSONObject = {"metadata": {"name": "m"}, "spec": {"a": "x"}}
DROPPED = ["metadata.other", "spec.b"]


def test_a_request_is_pruned_and_defaulted() -> None:
    obj = copy.deepcopy(GIVEN)
    assert (CompiledSchema(SCHEMA).conform(obj), obj) == (DROPPED, DEFAULTED)


def test_a_converted_object_is_pruned_only() -> None:
    obj = copy.deepcopy(GIVEN)
    assert (CompiledSchema(SCHEMA).prune_converted(obj), obj) == (DROPPED, PRUNED)
    without: JSONObject = {"metadata": "x", "other": 1}
    assert CompiledSchema(SCHEMA).prune_converted(without) == ["other"]


def test_defaults_alone() -> None:
    obj: JSONObject = {"metadata": {"name": "m"}, "spec": {"b": 1}}
    CompiledSchema(SCHEMA).default(obj)
    assert obj == {"metadata": {"name": "m"}, "spec": {"a": "x", "b": 1}}


def test_a_default_that_makes_an_object_too_large() -> None:
    items = {"type": "object", "properties": {"l": {"type": "array", "items": {"properties": {"a": {"default": "x"}}}}}}
    with pytest.raises(ObjectTooLarge, match=r"limit is 2$"):
        CompiledSchema(items, max_object_bytes=2).conform({"metadata": {}, "l": [{}]})
    CompiledSchema(items).conform({"metadata": {}, "l": [{}]})


# name: (before, after)
STORED: dict[str, tuple[JSONObject, JSONObject]] = {
    "good": ({"metadata": {"name": "m", "generation": 2}, "spec": {"a": "y"}}, {"metadata": {"name": "m", "generation": 2}}),
    "no generation": ({"metadata": {"name": "m"}, "spec": {"a": "y"}}, {"metadata": {"name": "m", "generation": 1}}),
    "metadata that can't be decoded": (
        {"metadata": {"name": "m", "labels": ["x"]}, "spec": {"a": "y"}},
        {"metadata": {"name": "m", "generation": 1}},
    ),
    "metadata of a resource that can't be decoded": (
        {"metadata": {"name": "m"}, "spec": {"a": "y", "template": {"kind": 1, "metadata": {"labels": ["x"], "name": "t"}}}},
        {"metadata": {"name": "m", "generation": 1}, "spec": {"a": "y", "template": {"metadata": {"name": "t"}}}},
    ),
    "what the schema no longer has": (
        {"metadata": {"name": "m"}, "spec": {"b": 1}},
        {"metadata": {"name": "m", "generation": 1}, "spec": {"a": "x"}},
    ),
}


@pytest.mark.parametrize("name", STORED)
def test_a_stored_object_is_read_whatever_it_has(name: str) -> None:
    before, after = STORED[name]
    obj = copy.deepcopy(before)
    CompiledSchema(SCHEMA).conform_stored(obj)
    assert obj == {"spec": {"a": "y"}} | after


def test_what_blocks_rules() -> None:
    schema = CompiledSchema(SCHEMA)
    obj, old = {"spec": {"n": 1}}, {"spec": {"n": 2}}
    assert schema.on_rules(obj, None, []).errors == []
    (broken,) = schema.on_rules(obj, old, [field.invalid(Path("spec"), 1, "why")]).errors
    assert str(broken).startswith("spec: Invalid value: ")
    (told,) = schema.on_rules(obj, old, [field.required(Path("spec"))]).errors
    assert str(told) == (
        "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
        "correct the existing errors to complete validation"
    )
    without: Any = {"type": "object"}
    assert CompiledSchema(without).on_rules(obj, old, [field.required(Path("spec"))]).errors == []


def test_a_heavy_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    wide: JSONObject = {"type": "object", "properties": {f"p{number}": STRING for number in range(500)}}
    monkeypatch.setattr(compiled, "_HEAVY", 501)
    assert CompiledSchema(wide).is_heavy
    monkeypatch.setattr(compiled, "_HEAVY", 502)
    assert not CompiledSchema(wide).is_heavy
