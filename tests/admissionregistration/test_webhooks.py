"""What is wrong with a webhook configuration. `tests/integration/cases_registrations.py` has more, with upstream's answers."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.admissionregistration.webhooks import validate

RULE = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"], "scope": "*"}


def hook(**members: Any) -> dict[str, Any]:
    plain = {
        "name": "a.example.com",
        "clientConfig": {"url": "https://example.com"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [RULE],
    }
    return {name: value for name, value in {**plain, **members}.items() if value is not None}


def errors(*hooks: Any, old: Any = None) -> list[str]:
    before = None if old is None else {"webhooks": list(old)}
    return [str(error) for error in validate({"webhooks": list(hooks)}, before)]


BAD: dict[str, tuple[dict[str, Any], list[str]]] = {
    # name: (webhook, errors)
    "nothing": ({}, []),
    "name": (
        {"name": "a.b"},
        ['name: Invalid value: "a.b": should be a domain with at least three segments separated by dots'],
    ),
    "side effects": (
        {"sideEffects": "Some"},
        ['sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"'],
    ),
    "no side effects": ({"sideEffects": None}, ["sideEffects: Required value: must specify one of None, NoneOnDryRun"]),
    "timeout": (
        {"timeoutSeconds": 31},
        ["timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds"],
    ),
    "versions": (
        {"admissionReviewVersions": ["v2"]},
        ['admissionReviewVersions: Invalid value: ["v2"]: must include at least one of v1, v1beta1'],
    ),
    "no versions": (
        {"admissionReviewVersions": None},
        ["admissionReviewVersions: Required value: must specify one of v1, v1beta1"],
    ),
    "no config": ({"clientConfig": None}, ["clientConfig: Required value: exactly one of url or service is required"]),
    "rule": (
        {"rules": [{**RULE, "resources": ["*", "pods"], "operations": ["*", "CREATE"]}]},
        [
            'rules[0].operations: Invalid value: ["*","CREATE"]: if \'*\' is present, must not specify other operations',
            'rules[0].resources: Invalid value: ["*","pods"]: if \'*\' is present, must not specify other resources without '
            "subresources",
        ],
    ),
    "selector": (
        {"objectSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
        ["objectSelector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"],
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_webhook(name: str) -> None:
    members, wanted = BAD[name]
    assert errors(hook(**members)) == [f"webhooks[0].{text}" for text in wanted]


def test_names_are_unique() -> None:
    assert errors(hook(), hook()) == ['webhooks[1].name: Duplicate value: "a.example.com"']


OLD: dict[str, tuple[Any, Any]] = {
    # what an update may keep if the stored object has it: (of the stored webhook, of the new one)
    "side effects": ({"sideEffects": "Some"}, {"sideEffects": "Unknown"}),
    "versions": ({"admissionReviewVersions": ["v0"]}, {"admissionReviewVersions": ["v3"]}),
    "values of selectors": (
        {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b c"]}]}},
        {"objectSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["d e"]}]}},
    ),
    "conditions": ({"matchConditions": [{"name": ""}]}, {"matchConditions": [{"name": ""}]}),
}


@pytest.mark.parametrize("name", OLD)
def test_an_update_may_keep_what_was_so_before(name: str) -> None:
    before, after = OLD[name]
    assert errors(hook(**after), old=[hook(**before)]) == []
    assert errors(hook(**after), old=[hook()])
    assert errors(hook(**after))


def test_names_may_stay_the_same() -> None:
    assert errors(hook(), hook(), old=[hook(), hook()]) == []
