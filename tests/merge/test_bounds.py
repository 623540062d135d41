"""Bounds: managedFields and objects that are meant to hurt take no more than their size, and end as upstream ends them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from aggserver.merge.atom import DEDUCED, of_resource
from aggserver.merge.managed_fields import FieldManager
from aggserver.meta.errors import StatusError
from aggserver.schema import structural
from tests.waiting import HANG_SECONDS

JSONObject = dict[str, Any]
V1 = "example.com/v1"
NOON, LATER = "2026-01-01T12:00:00Z", "2026-01-01T12:00:01Z"
# A body's limit.
THREE_MEGABYTES = 3 * 1024 * 1024
# Levels that no Python compares: up to 3.13 it counts them, since 3.14 it looks at how much of the stack is left.
TOO_DEEP = 100_000


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    began = time.process_time()
    yield
    # What grows with the square of these sizes takes hours.
    assert time.process_time() - began < HANG_SECONDS


def manager(schema: JSONObject | None = None) -> FieldManager:
    atom = DEDUCED if schema is None else of_resource(structural.compile(schema))
    return FieldManager(V1, "Thing", lambda _: atom, lambda obj, version: {**obj, "apiVersion": version})


def thing(entries: list[JSONObject] | None = None, **members: Any) -> JSONObject:
    metadata = {"name": "a"} | ({} if entries is None else {"managedFields": entries})
    return {"apiVersion": V1, "kind": "Thing", "metadata": metadata, **members}


def entry(name: str, fields: JSONObject, operation: str = "Update", when: str = NOON) -> JSONObject:
    return {
        "apiVersion": V1,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        "manager": name,
        "operation": operation,
        "time": when,
    }


def deep(levels: int) -> JSONObject:
    fields: JSONObject = {}
    for _ in range(levels):
        fields = {"f:a": fields}
    return fields


def large(shape: str) -> JSONObject:
    """Three megabytes of different elements."""
    elements = (shape.replace("#", str(number)) for number in range(THREE_MEGABYTES // (len(shape) + 10)))
    return {"f:spec": {element: {} for element in elements}}


@pytest.mark.parametrize("shape", ["f:#", 'k:{"name":"#"}', "v:#", "i:#", 'k:{"b":#,"a":[{"c":"#"}]}'])
def test_sets_of_three_megabytes(shape: str) -> None:
    sent = thing([entry("m", large(shape))], spec={"a": 2})
    manager().update(thing([entry("m", {"f:spec": {"f:a": {}}})], spec={"a": 1}), sent, "n", LATER)
    (first, second) = sent["metadata"]["managedFields"]
    assert (first["manager"], second["manager"]) == ("m", "n")
    live = thing([entry("m", orjson.loads(orjson.dumps(first["fieldsV1"])))], spec={"a": 1})
    made = manager().apply(live, thing(spec={"a": 2}), "m", force=True, now=LATER)
    assert made["spec"] == {"a": 2}


def test_sets_that_are_too_deep_are_passed_over() -> None:
    kept = [entry("m", {"f:spec": {"f:a": {}}})]
    sent = thing([entry("m", deep(TOO_DEEP))], spec={"a": 1})
    manager().update(thing(kept, spec={"a": 1}), sent, "n", LATER)
    assert sent["metadata"]["managedFields"] == kept


def test_stored_sets_that_are_too_deep() -> None:
    """Nobody can send them here; another server may have stored them. What needs no look at them still works."""
    stored = thing([entry("m", deep(TOO_DEEP), "Apply")], spec={"a": 1})
    sent = thing([entry("m", deep(TOO_DEEP), "Apply")], spec={"a": 2})
    manager().update(stored, sent, "n", LATER)
    assert "managedFields" not in sent["metadata"]
    made = manager().apply(stored, thing(spec={"a": 2}), "n", force=False, now=LATER)
    assert made["spec"] == {"a": 2}
    with pytest.raises(StatusError, match="failed to decode managed fields: error decoding set: exceeded max depth"):
        manager().apply(stored, thing(spec={"a": 2}), "m", force=False, now=LATER)


def test_ten_thousand_appliers() -> None:
    entries = [entry(f"m{number}", {"f:spec": {"f:a": {}, f"f:b{number}": {}}}, "Apply") for number in range(10_000)]
    live = thing(entries, spec={"a": 1})
    sent = thing(spec={"a": 2})
    manager().update(live, sent, "n", LATER)
    assert len(sent["metadata"]["managedFields"]) == 10_001
    with pytest.raises(StatusError, match="Apply failed with 10000 conflicts"):
        manager().apply(live, thing(spec={"a": 2}), "n", force=False, now=LATER)
    made = manager().apply(live, thing(spec={"a": 2}), "n", force=True, now=LATER)
    assert len(made["metadata"]["managedFields"]) == 10_001
    # One that says less than before: what all the others have is looked at.
    made = manager().apply(live, thing(spec={"c": 2}), "m1", force=True, now=LATER)
    assert made["spec"] == {"a": 1, "c": 2}


def test_ten_thousand_updaters_become_ten() -> None:
    entries = [entry(f"m{number}", {"f:spec": {f"f:b{number}-{field}": {} for field in range(10)}}) for number in range(10_000)]
    sent = thing(spec={"a": 2})
    manager().update(thing(entries, spec={"a": 1}), sent, "n", LATER)
    made = {each["manager"]: each for each in sent["metadata"]["managedFields"]}
    assert len(made) == 10
    assert len(made["ancient-changes"]["fieldsV1"]["f:spec"]) > 99_000


def nested(levels: int, innermost: Any) -> Any:
    value = innermost
    for _ in range(levels):
        value = {"a": value}
    return value


def test_objects_as_deep_as_bodies_can_be() -> None:
    value = nested(245, 1)
    made = thing(spec=value)
    manager().update(None, made, "m", NOON)
    stored = orjson.loads(orjson.dumps(made))
    changed = thing(spec=nested(245, 2))
    manager().update(stored, changed, "n", LATER)
    assert {each["manager"] for each in changed["metadata"]["managedFields"]} == {"m", "n"}
    # A list where there was a number is for the plain form.
    other = thing(spec=nested(244, [1]))
    manager().update(stored, other, "n", LATER)
    assert [each["manager"] for each in other["metadata"]["managedFields"]] == ["m", "n"]
    applied = manager().apply(stored, thing(spec=nested(245, 3)), "p", force=True, now=LATER)
    applied = manager().apply(applied, thing(spec={"b": 1}), "p", force=True, now=LATER)
    assert {each["manager"] for each in applied["metadata"]["managedFields"]} == {"m", "p"}


def parts_schema(*keys: str) -> JSONObject:
    items = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    parts = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys), "items": items}
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": {"parts": parts}}}}


def test_list_keys_that_change_under_stored_ownership() -> None:
    parts = {"parts": [{"a": "x", "b": "y"}]}
    stored = manager(parts_schema("a")).apply(None, thing(spec=parts), "m", force=False, now=NOON)
    made = manager(parts_schema("b")).apply(stored, thing(spec={"parts": [{"a": "z", "b": "y"}]}), "m", force=False, now=LATER)
    assert made["spec"]["parts"] == [{"a": "z", "b": "y"}]
    (only,) = made["metadata"]["managedFields"]
    assert list(only["fieldsV1"]["f:spec"]["f:parts"]) == ['k:{"b":"y"}']
