"""Validation: the tables (tests/cases), places, order, and input that is made to hurt."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aggserver.merge.patch import merge_patch
from aggserver.meta import codec
from aggserver.schema.compiled import CompiledSchema, Findings
from aggserver.schema.pruning import MalformedError
from aggserver.schema.validation import validate
from aggserver.schema.validity import Validity
from tests.cases.judged import JUDGED_SPEC, JUDGED_STATUS, RATCHETING, VALUES

JUDGED = CompiledSchema({"type": "object", "properties": {"spec": JUDGED_SPEC, "status": JUDGED_STATUS}})
STRING = {"type": "string"}


def as_read(value: Any) -> Any:
    return codec.decode_json(json.dumps(value).encode())


def conformed(obj: Any) -> dict[str, Any]:
    read: dict[str, Any] = as_read(obj)
    JUDGED.conform(read)
    return read


def texts(findings: Findings) -> list[str]:
    return sorted(map(str, (*findings.values, *findings.structure)))


@pytest.mark.parametrize("name", VALUES)
def test_values(name: str) -> None:
    case = VALUES[name]
    if "malformed" in case:
        with pytest.raises(MalformedError) as error:
            conformed({"spec": case["spec"]})
        assert str(error.value) == case["malformed"]
    else:
        assert texts(JUDGED.on_create(conformed({"spec": case["spec"]}))) == case.get("errors", [])


@pytest.mark.parametrize("name", RATCHETING)
def test_ratcheting(name: str) -> None:
    case = RATCHETING[name]
    old = conformed({"spec": case["before"]})
    new = conformed(merge_patch(old, {"spec": as_read(case["change"])}))
    assert texts(JUDGED.on_update(new, old)) == case.get("errors", [])


CONDITION = {"type": "a", "status": "True"}
TWICE = 'status.conditions[1]: Duplicate value: {"type":"a"}'
STATUS: dict[str, tuple[Any, Any, list[str]]] = {
    "good": ({"status": {"phase": "Ready"}}, {}, []),
    "places begin at status, texts within it": (
        {"status": {"phase": "Gone", "replicas": "x"}},
        {},
        [
            'status.phase: Unsupported value: "Gone": supported values: "Ready"',
            'status.replicas: Invalid value: "string": replicas in body must be of type integer: "string"',
        ],
    ),
    "the whole": ({"status": "x"}, {}, ['status: Invalid value: "string":  in body must be of type object: "string"']),
    "required": ({"status": {}}, {}, ["status.phase: Required value"]),
    "none": ({}, {"status": {"phase": "Gone"}}, []),
    "nothing of spec": ({"spec": {"range": 99}, "status": {"phase": "Ready"}}, {"spec": {"range": 99}}, []),
    "as it was": ({"status": {"phase": "Gone", "replicas": 1}}, {"status": {"phase": "Gone"}}, []),
    "missing as before, but the status is another": (
        {"status": {"replicas": 1}},
        {"status": {}},
        ["status.phase: Required value"],
    ),
    "duplicates": ({"status": {"phase": "Ready", "conditions": [CONDITION, CONDITION]}}, {}, [TWICE]),
    "duplicates where there were some anywhere": (
        {"spec": {"set": ["a", "a"]}, "status": {"phase": "Ready", "conditions": [CONDITION, CONDITION]}},
        {"spec": {"set": ["a", "a"]}},
        [],
    ),
}


@pytest.mark.parametrize("name", STATUS)
def test_status(name: str) -> None:
    new, old, expected = STATUS[name]
    assert texts(JUDGED.on_status(new, old)) == expected


def test_status_without_a_schema() -> None:
    schema = CompiledSchema({"type": "object", "properties": {"spec": {"type": "object"}}})
    assert schema.on_status({"spec": 1, "status": {"a": 1}}, {}) == ([], [])


def test_the_kind_of_the_root_is_judged_also_where_it_stays() -> None:
    kinds = {"kind": {"type": "string", "enum": ["A"]}}
    judged = CompiledSchema({"type": "object", "properties": {**kinds, "spec": {"type": "object", "properties": kinds}}})
    at_root, below = {"kind": "B"}, {"kind": "A", "spec": {"kind": "B"}}
    assert texts(judged.on_update({**at_root, "spec": {}}, at_root)) == ['kind: Unsupported value: "B": supported values: "A"']
    assert texts(judged.on_update({**below, "x": 1}, below)) == []


def test_order() -> None:
    """Type, junctors, limits; additional properties, properties, what is required; names sorted."""
    schema = {
        "type": "object",
        "properties": {
            "z": {"type": "string", "anyOf": [{"minLength": 9}], "maxLength": 0, "format": "date", "enum": ["x"]},
            "a": {"type": "integer", "multipleOf": 2, "minimum": 5, "maximum": 1},
        },
        "required": ["y", "b"],
        "minProperties": 9,
        "additionalProperties": {"type": "boolean"},
    }
    assert [error.detail or error.reason for error in validate({"z": "é", "a": 3, "d": 1, "c": 1}, schema)] == [
        " in body should have at least 9 properties",
        '.c in body must be of type boolean: "integer"',
        '.d in body must be of type boolean: "integer"',
        "a in body should be a multiple of 2",
        "a in body should be greater than or equal to 5",
        "a in body should be less than or equal to 1",
        '"z" must validate at least one schema (anyOf)',
        "z in body should be at least 9 chars long",
        "may not be more than 0 bytes",
        'z in body must be of type date: "é"',
        'supported values: "x"',
        "FieldValueRequired",
        "FieldValueRequired",
    ]


def test_a_text_is_told_once() -> None:
    schema = {"allOf": [{"minLength": 5}, {"minLength": 5}], **STRING}
    assert [error.detail for error in validate("x", schema)] == [
        " in body should be at least 5 chars long",
        '"" must validate all the schemas (allOf). None validated',
    ]


def test_values_are_judged_in_place_of_changed() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": STRING}}}
    value = {"a": ["b", 1]}
    validate(value, schema)
    assert Validity()(value, schema) is False
    assert value == {"a": ["b", 1]}


# --- input that is made to hurt ---


def test_a_pattern_that_backtracking_never_ends_with() -> None:
    schema = {"type": "string", "pattern": "^(([a-z])+.)+[A-Z]([a-z])+$"}
    assert not Validity()("a" * 100_000, schema)
    assert Validity()("a" * 100_000 + "Ab", schema)


def test_ten_thousand_properties() -> None:
    names = [f"property{number}" for number in range(10_000)]
    schema = {"type": "object", "properties": {name: {"type": "string", "maxLength": 5} for name in names}, "required": names}
    assert Validity()(dict.fromkeys(names, "short"), schema)
    assert len(validate(dict.fromkeys(names, "longer"), schema)) == len(validate({}, schema)) == 10_000


def deep(levels: int) -> tuple[dict[str, Any], Any, Any]:
    """(schema, a value that fits, one that doesn't at the very bottom)."""
    schema: dict[str, Any] = {"type": "string"}
    good: Any = "x"
    bad: Any = 1
    for level in range(levels):
        if level % 2:
            schema, good, bad = {"type": "array", "items": schema}, [good], [bad]
        else:
            schema, good, bad = {"type": "object", "properties": {"a": schema}}, {"a": good}, {"a": bad}
    return schema, good, bad


def test_the_deepest_schema_that_is_taken() -> None:
    schema, good, bad = deep(99)
    compiled = CompiledSchema(schema)
    assert compiled.on_create(good) == ([], [])
    assert len(compiled.on_create(bad).values) == 1
    assert len(compiled.on_update(bad, good).values) == 1
    assert compiled.on_update(bad, bad).values == []


def test_an_object_deeper_than_its_schema() -> None:
    schema = CompiledSchema(
        {"type": "object", "properties": {"a": {"x-kubernetes-preserve-unknown-fields": True, "maxItems": 1}}}
    )
    value: Any = []
    for _ in range(240):
        value = [value]
    obj = {"a": [value, value]}
    assert len(schema.on_create(obj).values) == len(schema.on_update(obj, {"a": []}).values) == 1
    assert schema.on_update(obj, as_read(obj)).values == []


def test_large_objects() -> None:
    items = [{"name": f"n{number}", "port": number, "value": "abc"} for number in range(60_000)]
    obj = {"spec": {"map": items, "set": [str(number) for number in range(60_000)]}}
    assert len(codec.encode_json(obj)) > 3 * 1024 * 1024
    assert JUDGED.on_create(obj) == ([], [])
    items[-1] = {**items[0], "value": "longer"}
    found = JUDGED.on_update(obj, {"spec": {"map": items[:-1]}})
    assert list(map(str, found.values)) == ["spec.map[59999].value: Too long: may not be more than 3 bytes"]
    assert list(map(str, found.structure)) == ['spec.map[59999]: Duplicate value: {"name":"n0"}']
