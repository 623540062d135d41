"""Warnings about expressions that don't fit the schemas: the cases of upstream's typechecking_test.go."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.admission.policy.type_checking import check_types
from aggserver.meta.versions import GroupVersionKind
from aggserver.schema import structural

SHIP = GroupVersionKind("example.com", "v1", "Ship")
RULES = {"resourceRules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["ships"]}]}
FOO = {"type": "object", "properties": {"foo": {"type": "string"}}}
NUMBER = {"type": "object", "properties": {"foo": {"type": "integer"}}}
NESTED = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "properties": {"text": {"type": "string"}}},
        "status": {"type": "object", "properties": {"any": {"type": "object", "additionalProperties": True}}},
    },
}


def validations(*expressions: str, **others: Any) -> dict[str, Any]:
    return {"matchConstraints": RULES, "validations": [{"expression": each} for each in expressions], **others}


def checked(spec: dict[str, Any], schema: dict[str, Any] | None, kind: GroupVersionKind = SHIP) -> list[tuple[str, str]]:
    known = {("example.com", "v1", "ships"): [kind]}
    compiled = None if schema is None else structural.compile(schema)
    return [tuple(each) for each in check_types(spec, lambda *names: known.get(names, []), lambda _: compiled)]


PARAMS = {"apiVersion": "v1", "kind": "Config"}

# A policy, a schema, and the field and a part of the text of each warning.
CASES: dict[str, tuple[dict[str, Any], dict[str, Any] | None, list[tuple[str, str]]]] = {
    "an empty policy": ({}, FOO, []),
    "no schema": (validations("object.foo == 'bar'"), None, []),
    "it fits": (validations("object.foo == 'bar'"), FOO, []),
    "metadata is always there": (validations("object.metadata.name == 'bar'"), FOO, []),
    "an undefined field": (
        validations("object.bar == 'bar'"),
        FOO,
        [
            (
                "expression",
                "example.com/v1, Kind=Ship: ERROR: <input>:1:7: undefined field 'bar'\n | object.bar == 'bar'\n | ......^\n",
            )
        ],
    ),
    "an undefined field of the old object": (validations("oldObject.bar == 1"), FOO, [("expression", "undefined field 'bar'")]),
    "a field twice": (validations("object.spec.text == 'a' || object.spec.text == 'b'"), NESTED, []),
    "a field of another type": (
        validations("object.foo == 'bar'"),
        NUMBER,
        [("expression", "found no matching overload for '_==_' applied to '(int, string)'")],
    ),
    "params": (
        validations("object.foo == params.bar", paramKind=PARAMS),
        FOO,
        [("expression", "undefined field 'bar'")],
    ),
    "params without a type": (validations("params != null", paramKind=PARAMS), {}, []),
    "no params": (validations("params != null"), FOO, [("expression", "undeclared reference to 'params'")]),
    "two expressions": (
        validations("object.foo == 'bar'", "object.bar == 'foo'"),
        FOO,
        [("[1].expression", "undefined field 'bar'")],
    ),
    "a messageExpression": (
        {
            "matchConstraints": RULES,
            "validations": [{"expression": "object.foo == 'bar'", "messageExpression": "object.foo + 114514"}],
        },
        FOO,
        [("messageExpression", "found no matching overload for '_+_' applied to '(string, int)'")],
    ),
    "the authorizer": (validations("authorizer.group('').resource('endpoints').check('create').allowed()"), FOO, []),
    "a wrong use of it": (
        validations("authorizer.allowed()"),
        FOO,
        [("expression", "found no matching overload for 'allowed' applied to 'kubernetes.authorization.Authorizer.()'")],
    ),
    "unknown properties": (validations("has(object.spec.text)"), NESTED, []),
    "a schema without a type": (validations("object.any.thing == 1"), {}, []),
    "any type of the value": (validations("'text'"), FOO, []),
    "a variable": (validations("variables.works", variables=[{"name": "works", "expression": "true"}]), FOO, []),
    "a missing variable": (
        validations("variables.nope", variables=[{"name": "works", "expression": "true"}]),
        FOO,
        [("expression", "undefined field 'nope'")],
    ),
    "a variable of another type": (
        validations("variables.name == object.foo", variables=[{"name": "name", "expression": "'something'"}]),
        NUMBER,
        [("expression", "found no matching overload for '_==_' applied to '(string, int)'")],
    ),
    "an error in a variable is not reported": (
        validations("variables.name == object.foo", variables=[{"name": "name", "expression": "object.foo == 'str'"}]),
        NUMBER,
        [],
    ),
    "an undefined field of the request": (validations("request.foo == 1"), FOO, [("expression", "undefined field 'foo'")]),
}


@pytest.mark.parametrize(("spec", "schema", "wanted"), CASES.values(), ids=CASES)
def test_warnings(spec: dict[str, Any], schema: dict[str, Any] | None, wanted: list[tuple[str, str]]) -> None:
    warnings = checked(spec, schema)
    assert len(warnings) == len(wanted)
    for (field_ref, warning), (end, text) in zip(warnings, wanted, strict=True):
        assert field_ref.startswith("spec.validations[")
        assert field_ref.endswith(end)
        assert text in warning


# Rules, and the resources that are looked up for them.
RULED: dict[str, tuple[list[dict[str, list[str]]], list[str]]] = {
    "specific": ([{"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]}], ["apps/v1/deployments"]),
    "several, sorted": (
        [{"apiGroups": ["batch", "apps"], "apiVersions": ["v1"], "resources": ["jobs", "deployments"]}],
        ["apps/v1/deployments", "apps/v1/jobs", "batch/v1/deployments", "batch/v1/jobs"],
    ),
    "all resources": ([{"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["*"]}], []),
    "all groups": ([{"apiGroups": ["*"], "apiVersions": ["v1"], "resources": ["deployments"]}], []),
    "all versions": ([{"apiGroups": ["apps"], "apiVersions": ["*"], "resources": ["deployments"]}], []),
    "subresources": ([{"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments/scale"]}], []),
    "mixtures": (
        [
            {"apiGroups": ["apps"], "apiVersions": ["*"], "resources": ["deployments"]},
            {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments", "deployments/scale", "*/status"]},
        ],
        ["apps/v1/deployments"],
    ),
}


@pytest.mark.parametrize(("rules", "wanted"), RULED.values(), ids=RULED)
def test_resources(rules: list[dict[str, list[str]]], wanted: list[str]) -> None:
    asked: list[str] = []

    def kinds(*names: str) -> list[GroupVersionKind]:
        asked.append("/".join(names))
        return []

    check_types({"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": "true"}]}, kinds, lambda _: None)
    assert asked == wanted


def test_ten_kinds_at_most() -> None:
    schema = structural.compile(FOO)
    rule = {"apiGroups": ["g"], "apiVersions": ["v1"], "resources": [f"r{number:02}" for number in range(20)]}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "object.bar"}]}
    (warning,) = check_types(spec, lambda g, v, r: [GroupVersionKind(g, v, r)], lambda _: schema)
    assert warning.warning.count("Kind=") == 10
