"""What is wrong with a policy. `tests/integration/cases_registrations.py` has many more cases, with upstream's answers."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.admissionregistration import defaults
from aggserver.admissionregistration.policies import validate_mutating, validate_validating

RULE = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
CONSTRAINTS = {"resourceRules": [RULE]}


def validating(**spec: Any) -> dict[str, Any]:
    return _policy({"validations": [{"expression": "true"}]}, spec)


def mutating(**spec: Any) -> dict[str, Any]:
    mutation = {"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'remove', path: '/a'}]"}}
    return _policy({"mutations": [mutation], "reinvocationPolicy": "Never"}, spec)


def _policy(plain: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    members = {"matchConstraints": {"resourceRules": [dict(RULE)]}, **plain, **spec}
    obj = {"metadata": {"name": "p"}, "spec": {name: value for name, value in members.items() if value is not None}}
    defaults.of_policy(obj)
    return obj


BOTH: dict[str, tuple[dict[str, Any], list[str]]] = {
    # name: (spec, errors)
    "nothing": ({}, []),
    "failure policy": (
        {"failurePolicy": "x"},
        ['spec.failurePolicy: Unsupported value: "x": supported values: "Fail", "Ignore"'],
    ),
    "no constraints": ({"matchConstraints": None}, ["spec.matchConstraints: Required value"]),
    "no rules": ({"matchConstraints": {}}, ["spec.matchConstraints.resourceRules: Required value"]),
    "param kind": (
        {"paramKind": {"apiVersion": "a/b/c"}},
        [
            'spec.paramKind.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c',
            "spec.paramKind.kind: Required value",
        ],
    ),
    "variable": (
        {"variables": [{"name": "in", "expression": "1"}, {"name": "a"}]},
        [
            'spec.variables[0].name: Invalid value: "in": must be a valid CEL identifier',
            "spec.variables[1].expression: Required value: expression is not specified",
        ],
    ),
    "conditions": (
        {"matchConditions": [{"name": "a", "expression": "true"}, {"name": "a", "expression": " "}]},
        ["spec.matchConditions[1].expression: Required value", 'spec.matchConditions[1].name: Duplicate value: "a"'],
    ),
}


@pytest.mark.parametrize("name", BOTH)
def test_both_kinds(name: str) -> None:
    spec, wanted = BOTH[name]
    assert list(map(str, validate_validating(validating(**spec)))) == wanted
    assert list(map(str, validate_mutating(mutating(**spec)))) == wanted


BLANK = "must be non-empty if specified"
VALIDATIONS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "none": (
        {"validations": None},
        [
            f"spec.{name}: Required value: validations or auditAnnotations must contain at least one item"
            for name in ("validations", "auditAnnotations")
        ],
    ),
    "blank texts": (
        {"validations": [{"expression": "true", "message": " ", "messageExpression": "\n"}]},
        [
            f'spec.validations[0].messageExpression: Invalid value: "\\n": {BLANK}',
            f'spec.validations[0].message: Invalid value: " ": {BLANK}',
        ],
    ),
    "reason": (
        {"validations": [{"expression": "true", "reason": "Gone"}]},
        [
            'spec.validations[0].reason: Unsupported value: "Gone": supported values: "Forbidden", "Invalid", '
            '"RequestEntityTooLarge"'
        ],
    ),
    "long annotation": (
        {"auditAnnotations": [{"key": "a", "valueExpression": f"'{'x' * 5120}'"}]},
        ["spec.auditAnnotations[0].valueExpression: Required value: must not exceed 5120 bytes in length"],
    ),
    "annotations twice": (
        {"auditAnnotations": [{"key": "a", "valueExpression": "'x'"}] * 2},
        ['spec.auditAnnotations[1].key: Duplicate value: "a"'],
    ),
}


@pytest.mark.parametrize("name", VALIDATIONS)
def test_a_validating_policy(name: str) -> None:
    spec, wanted = VALIDATIONS[name]
    assert list(map(str, validate_validating(validating(**spec)))) == wanted


def test_an_internal_name_is_shown_for_too_many_annotations() -> None:
    annotations = [{"key": f"a{index}", "valueExpression": "'x'"} for index in range(21)]
    (error,) = validate_validating(validating(auditAnnotations=annotations))
    assert str(error).startswith('spec.auditAnnotations: Invalid value: [{"Key":"a0","ValueExpression":"\'x\'"},')


MUTATIONS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "none": ({"mutations": None}, ["spec.mutations: Required value: mutations must contain at least one item"]),
    "no reinvocation": ({"reinvocationPolicy": None}, ["spec.reinvocationPolicy: Required value"]),
    "wrong part": (
        {"mutations": [{"patchType": "ApplyConfiguration", "jsonPatch": {}}]},
        [
            "spec.mutations[0].applyConfiguration: Required value: must be specified when patchType is ApplyConfiguration",
            'spec.mutations[0].jsonPatch: Invalid value: "{jsonPatch}": must not be specified when patchType is '
            "ApplyConfiguration",
        ],
    ),
    "delete": (
        {"matchConstraints": {"resourceRules": [{**RULE, "operations": ["DELETE"]}]}},
        [
            'spec.matchConstraints.resourceRules.operations: Unsupported value: "DELETE": supported values: "*", "CONNECT", '
            '"CREATE", "UPDATE"'
        ],
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutating_policy(name: str) -> None:
    spec, wanted = MUTATIONS[name]
    assert list(map(str, validate_mutating(mutating(**spec)))) == wanted


def test_conditions_that_do_not_change_are_not_judged_again() -> None:
    bad = {"matchConditions": [{"name": "a b", "expression": "true"}]}
    assert validate_validating(validating(**bad), validating(**bad)) == []
    assert validate_validating(validating(**bad), validating())
    # What they may name depends on whether there are params.
    assert validate_validating(validating(**bad), validating(**bad, paramKind={"apiVersion": "v1", "kind": "A"}))
