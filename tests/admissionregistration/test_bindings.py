"""What is wrong with a binding. `tests/integration/cases_registrations.py` has many more cases, with upstream's answers."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.admissionregistration.bindings import validate

BAD: dict[str, tuple[dict[str, Any], list[str]]] = {
    # name: (spec, errors)
    "nothing": ({}, []),
    "no policy": ({"policyName": ""}, ["spec.policyName: Required value"]),
    "no action": (
        {"validationActions": []},
        ["spec.validationActions: Required value: at least one validation action is required"],
    ),
    "actions twice": (
        {"validationActions": ["Deny", "Deny", "x"]},
        [
            'spec.validationActions[1]: Duplicate value: "Deny"',
            'spec.validationActions[2]: Unsupported value: "x": supported values: "Audit", "Deny", "Warn"',
        ],
    ),
    "deny and warn": (
        {"validationActions": ["Deny", "Warn"]},
        [
            'spec.validationActions: Invalid value: ["Deny","Warn"]: must not contain both Deny and Warn (repeating the same '
            "validation failure information in the API response and headers serves no purpose)"
        ],
    ),
    "name and selector": (
        {"paramRef": {"name": "a", "selector": {}, "parameterNotFoundAction": "Deny"}},
        [
            "spec.paramRef.name: Forbidden: name and selector are mutually exclusive",
            "spec.paramRef.selector: Forbidden: name and selector are mutually exclusive",
        ],
    ),
    "neither": (
        {"paramRef": {"parameterNotFoundAction": "deny"}},
        [
            "spec.paramRef: Required value: one of name or selector must be specified",
            'spec.paramRef.parameterNotFoundAction: Unsupported value: "deny": supported values: "Deny", "Allow"',
        ],
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_binding(name: str) -> None:
    spec, wanted = BAD[name]
    plain = {"policyName": "p", "validationActions": ["Deny"]}
    assert list(map(str, validate({"spec": {**plain, **spec}}, mutating=False))) == wanted


def test_a_binding_of_a_mutating_policy_has_no_actions() -> None:
    assert validate({"spec": {"policyName": "p"}}, mutating=True) == []
