"""What one small body can make a schema do: bounded in bytes, and in the same place by the generated and the plain form."""

from __future__ import annotations

import builtins
import copy
import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from aggserver.meta import errors
from aggserver.meta.errors import ObjectTooLarge
from aggserver.meta.field import Path
from aggserver.meta.json_types import JSONObject
from aggserver.schema import constructs, structural
from aggserver.schema.compiled import CompiledSchema
from aggserver.schema.defaulting import MAX_OBJECT_BYTES, compile_defaulter
from aggserver.schema.pruning import prune
from aggserver.schema.validation import validate
from aggserver.schema.validity import Validity

MIB = 1024 * 1024


def obj(**properties: Any) -> JSONObject:
    return {"type": "object", "properties": properties}


def items(schema: JSONObject, **more: Any) -> JSONObject:
    return {"type": "array", "items": schema, **more}


def values(schema: JSONObject, **more: Any) -> JSONObject:
    return {"type": "object", "additionalProperties": schema, **more}


def text(size: int) -> JSONObject:
    return {"type": "string", "default": "x" * size}


A_MEMBER = obj(a=text(100))
# `,"a":"xxx"`: quotes and colon, and one comma for each.
A_MEMBERS_BYTES = 100 + 7

# Schema, value, bytes that the defaults take within items and additionalProperties.
COUNTED: dict[str, tuple[JSONObject, Any, int]] = {
    "nothing repeated": (obj(a=text(100), b=obj(c=text(100)) | {"default": {}}), {}, 0),
    "items": (obj(l=items(A_MEMBER)), {"l": [{}, {}, {"a": ""}]}, 2 * A_MEMBERS_BYTES),
    "null items": (obj(l=items(text(100))), {"l": [None, None, "x"]}, 2 * 102),
    "values of a map": (obj(m=values(A_MEMBER)), {"m": {"x": {}, "y": {}}}, 2 * A_MEMBERS_BYTES),
    "null values of a map": (obj(m=values(text(100))), {"m": {"x": None}}, 102),
    "lists in lists": (obj(l=items(items(A_MEMBER))), {"l": [[{}, {}], [{}]]}, 3 * A_MEMBERS_BYTES),
    "items of a default": (obj(l=items(A_MEMBER, default=[{}, {}])), {}, 2 * A_MEMBERS_BYTES),
    "items of a default of items": (
        obj(l=items(obj(k=items(A_MEMBER, default=[{}, {}])))),
        {"l": [{}]},
        len('"k":[{},{}],') + 2 * A_MEMBERS_BYTES,
    ),
    "text that is longer encoded": (obj(l=items(obj(a={"default": "é\n"}))), {"l": [{}]}, len('"a":"é\\n",'.encode())),
}


def defaulter(schema: JSONObject, limit: int) -> Callable[[JSONObject], None]:
    return compile_defaulter(structural.compile(schema), limit)


@pytest.mark.parametrize(("schema", "value", "size"), COUNTED.values(), ids=COUNTED)
def test_defaults_are_counted(schema: JSONObject, value: Any, size: int) -> None:
    expected = copy.deepcopy(value)
    defaulter(schema, MAX_OBJECT_BYTES)(expected)
    exactly = copy.deepcopy(value)
    defaulter(schema, size)(exactly)
    assert exactly == expected
    if size:
        with pytest.raises(ObjectTooLarge, match=f"limit is {size - 1}$") as refusal:
            defaulter(schema, size - 1)(copy.deepcopy(value))
        assert (refusal.value.code, refusal.value.reason) == (413, "RequestEntityTooLarge")


# Schema, value of some kilobytes, that would become hundreds of megabytes.
EXPLODING: dict[str, tuple[JSONObject, Any]] = {
    "items": (obj(l=items(obj(a={"type": "object", "default": {"k": ["x"] * 2000}}))), {"l": [{}] * 5000}),
    "null items": (obj(l=items({"type": "array", "default": ["x"] * 2000})), {"l": [None] * 5000}),
    "values of a map": (
        obj(m=values(obj(a={"type": "array", "default": ["x"] * 2000}))),
        {"m": {str(index): {} for index in range(2000)}},
    ),
    "defaults of items of defaults": (
        obj(l=items(obj(l=items(obj(l=items(A_MEMBER, default=[{}] * 1000)), default=[{}] * 1000)), default=[{}] * 1000)),
        {},
    ),
}


def peak(work: Callable[[], Any]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("schema", "value"), EXPLODING.values(), ids=EXPLODING)
def test_defaults_stop(schema: JSONObject, value: Any) -> None:
    limit = 256 * 1024
    fill, body = defaulter(schema, limit), json.loads(json.dumps(value))

    def refused() -> None:
        with pytest.raises(ObjectTooLarge):
            fill(body)

    # The list of one-letter texts has eight bytes for the four of each in JSON.
    assert peak(refused) < 16 * limit


LONG = "k" * 100_000
MANY = 10_000


def test_unknown_fields_below_a_long_key() -> None:
    """All paths together would have 2 GB."""
    schema = structural.compile(obj(m=values(obj(a={"type": "integer"}))))
    body = {"m": {LONG: {str(index): 1 for index in range(MANY)}}}
    told: list[str] = []
    assert peak(lambda: told.extend(prune(body, schema))) < 32 * MIB
    assert body == {"m": {LONG: {}}}
    assert 0 < len(told) < 10
    assert all(path.startswith(f"m.{LONG}.") for path in told)


INVALID: dict[str, tuple[JSONObject, Any]] = {
    "items": (items({"type": "integer"}), ["x"] * MANY),
    "items below a long key": (values(items({"type": "integer"})), {LONG: ["x"] * MANY}),
    "a long enum": (items({"type": "string", "enum": ["e" * 1000] * 1000}), ["x"] * MANY),
    "a long text, by many rules": ({"type": "string", "allOf": [{"pattern": f"^a{n}$"} for n in range(300)]}, "x" * MIB),
    "many alternatives of many items": (
        items({"type": "string"}, anyOf=[{"items": {"maxLength": 1, "minLength": n}} for n in range(2, 30)]),
        ["xyz"] * MANY,
    ),
}


@pytest.mark.parametrize(("schema", "value"), INVALID.values(), ids=INVALID)
def test_errors_are_bounded(schema: JSONObject, value: Any) -> None:
    told: list[errors.StatusError] = []

    def judge() -> None:
        told.append(errors.invalid("g", "Kind", "name", validate(value, schema)))

    assert peak(judge) < 64 * MIB
    status = told[0].status()
    assert len(json.dumps(status)) < 8 * MIB
    assert len(status["details"]["causes"]) < 10_000
    assert "further errors are omitted" in status["message"]


def test_few_errors_are_all_told() -> None:
    refusal = errors.invalid("g", "Kind", "name", validate(["x"] * 500, items({"type": "integer"})))
    assert len(refusal.causes) == 500
    assert "omitted" not in refusal.message


def test_what_was_wrong_before_hides_nothing_new() -> None:
    """Errors of items that have not changed fill the walk, and are dropped; what comes after them is judged all the same."""
    schema = obj(old=items({"type": "integer"}), spec=obj(a={"type": "integer"}))
    compiled = CompiledSchema(schema)
    old = {"old": [f"{'x' * 100}{index}" for index in range(MANY)], "spec": {"a": 1}}
    new = {**copy.deepcopy(old), "spec": {"a": "wrong"}}
    (problem,) = compiled.on_update(new, old).values
    assert problem.field == "spec.a"
    assert compiled.on_update(copy.deepcopy(old), old).values == []


# --- alternatives ---


def junctors(name: str, count: int) -> JSONObject:
    each = [{name: [{"maxLength": 5 + (inner + outer) % 7, "pattern": "x" * (outer % 2)} for inner in range(count)]}
            for outer in range(count)]  # fmt: skip
    return {"type": "string", name: each}


@pytest.mark.parametrize("name", ["allOf", "anyOf", "oneOf"])
@pytest.mark.parametrize("value", ["", "x", "xxxxxx", "y", "yyyyyyy", "x" * 20])
def test_many_alternatives_agree_with_the_plain_form(name: str, value: str) -> None:
    for count in (1, 2, 9, 40):
        schema = junctors(name, count)
        assert Validity()(value, schema) == (not validate(value, schema)), count


@pytest.mark.parametrize("name", ["allOf", "anyOf", "oneOf"])
def test_what_many_alternatives_compile_is_bounded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []

    def counted(*arguments: Any) -> Any:
        compiled.append(arguments)
        return builtins.compile(*arguments)

    monkeypatch.setattr("aggserver.schema.generation.compile", counted, raising=False)
    leaves = [{name: [{"maxLength": 9, "minimum": n} for n in range(60)]} for _ in range(60)]
    Validity()("x", {"type": "string", name: leaves})
    assert 0 < len(compiled) <= 1001


def test_thousands_of_flat_alternatives() -> None:
    for name in ("allOf", "anyOf", "oneOf"):
        schema = {"type": "string", name: [{"maxLength": 3, "enum": [str(n)]} for n in range(2000)]}
        assert Validity()("1", schema) == (name != "allOf")
        assert not Validity()("no", schema)


def test_thousands_of_list_keys_are_checked_at_once() -> None:
    names = [f"k{number}" for number in range(20_000)]
    items = {"type": "object", "required": names[1:], "properties": {name: {"type": "string"} for name in names}}
    schema = {
        "type": "array",
        "items": items,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": [*names, names[-1]],
    }
    found, _ = constructs.violations(schema, Path("a"), constructs.Strictness())
    assert [(error.field, error.detail) for error in found] == [
        ("a.x-kubernetes-list-map-keys", "must not contain duplicate entries"),
        (
            "a.items.properties[k0].default",
            "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
        ),
    ]
