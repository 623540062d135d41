"""What is done to webhook configurations, policies and bindings around their writes."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from aggserver.admissionregistration.served import registration_kinds, registration_stores
from aggserver.admissionregistration.strategy import KINDS, RegistrationStatusStrategy, RegistrationStrategy
from aggserver.authentication.user import UserInfo
from aggserver.publish.table import encode_table
from aggserver.registry.rest import Context
from tests.fakes.server import LocalServer

BY_NAME = {kind.name: kind for kind in KINDS}
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
SELECTORS = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
HOOK = {"name": "a.b.c", "clientConfig": {"service": {"name": "a", "namespace": "b"}}, "rules": [RULE]}
FULL_HOOK = {
    **HOOK,
    **SELECTORS,
    "clientConfig": {"service": {"name": "a", "namespace": "b", "port": 443}},
    "rules": [{**RULE, "scope": "*"}],
    "failurePolicy": "Fail",
    "timeoutSeconds": 10,
}

# What Go writes of members without omitempty that nobody gave; validation asks for them.
REQUIRED = {"sideEffects": None, "admissionReviewVersions": None}

DEFAULTS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    # name: (kind, given, filled in)
    "validating webhooks": ("ValidatingWebhookConfiguration", {"webhooks": [HOOK]}, {"webhooks": [FULL_HOOK | REQUIRED]}),
    "mutating webhooks": (
        "MutatingWebhookConfiguration",
        {"webhooks": [HOOK]},
        {"webhooks": [{**FULL_HOOK, **REQUIRED, "reinvocationPolicy": "Never"}]},
    ),
    "validating policy": (
        "ValidatingAdmissionPolicy",
        {"spec": {"matchConstraints": {"resourceRules": [RULE], "matchPolicy": "Exact"}}},
        {
            "spec": {
                "matchConstraints": {**SELECTORS, "resourceRules": [{**RULE, "scope": "*"}], "matchPolicy": "Exact"},
                "failurePolicy": "Fail",
            },
            "status": {},
        },
    ),
    "mutating policy": (
        "MutatingAdmissionPolicy",
        {"spec": {"failurePolicy": "Ignore", "matchConstraints": {"excludeResourceRules": [RULE]}}},
        {
            "spec": {
                "failurePolicy": "Ignore",
                "matchConstraints": {**SELECTORS, "excludeResourceRules": [{**RULE, "scope": "*"}]},
            }
        },
    ),
    "no spec": ("MutatingAdmissionPolicy", {}, {"spec": {"failurePolicy": "Fail"}}),
    "binding": ("ValidatingAdmissionPolicyBinding", {"spec": {"matchResources": {}}}, {"spec": {"matchResources": SELECTORS}}),
    "unknown fields": ("MutatingAdmissionPolicyBinding", {"spec": {"a": 1}, "b": 2}, {"spec": {}}),
}

CONTEXT = Context(UserInfo("someone"))
NOW = "2026-01-02T03:04:05Z"


@pytest.mark.parametrize("name", DEFAULTS)
def test_conform(name: str) -> None:
    kind, given, wanted = copy.deepcopy(DEFAULTS[name])
    obj = {"metadata": {}, **given}
    RegistrationStrategy(BY_NAME[kind]).conform(obj)
    assert obj == {"metadata": {}, **wanted}


def test_generations() -> None:
    strategy = RegistrationStrategy(BY_NAME["ValidatingWebhookConfiguration"])
    obj: dict[str, Any] = {"metadata": {}, "webhooks": []}
    strategy.prepare_for_create(obj, CONTEXT, NOW)
    assert obj["metadata"]["generation"] == 1
    for webhooks, wanted in ([], 1), ([HOOK], 2):
        new = {"metadata": {"generation": 1, "labels": {"a": "b"}}, "webhooks": webhooks}
        strategy.prepare_for_update(new, obj, NOW)
        assert new["metadata"]["generation"] == wanted


def test_only_status_writes_the_status() -> None:
    kind = BY_NAME["ValidatingAdmissionPolicy"]
    old = {"metadata": {"generation": 1, "labels": {"a": "b"}}, "spec": {"failurePolicy": "Fail"}, "status": {"x": 1}}
    new = {"metadata": {"generation": 1, "annotations": {"a": "b"}}, "spec": {}, "status": {"x": 2}}
    by_main, by_status = copy.deepcopy(new), copy.deepcopy(new)
    RegistrationStrategy(kind).prepare_for_update(by_main, old, NOW)
    assert by_main == {**new, "metadata": {**new["metadata"], "generation": 2}, "status": {"x": 1}}
    RegistrationStatusStrategy(kind).prepare_for_update(by_status, old, NOW)
    assert by_status == {
        "metadata": {"generation": 1, "labels": {"a": "b"}},
        "spec": {"failurePolicy": "Fail"},
        "status": {"x": 2},
    }


def test_names_for_files_are_warned_of() -> None:
    strategy = RegistrationStrategy(KINDS[0])
    assert strategy.warnings({"metadata": {"name": "a"}}, None) == ()
    assert strategy.warnings({"metadata": {"name": "a.static.k8s.io"}}, None) == [
        'metadata.name: names ending with ".static.k8s.io" are reserved for static manifest-based configurations and cannot be '
        "managed via the API"
    ]


CONDITION = {"type": "A", "status": "True", "reason": "B", "lastTransitionTime": "2026-01-02T03:04:05Z", "message": ""}
STATUSES: dict[str, tuple[dict[str, Any], list[str]]] = {
    # name: (status, errors)
    "nothing": ({}, []),
    "condition": ({"conditions": [CONDITION]}, []),
    "conditions twice": ({"conditions": [CONDITION] * 2}, ['status.conditions[1].type: Duplicate value: "A"']),
    "status": (
        {"conditions": [{**CONDITION, "status": "yes"}]},
        ['status.conditions[0].status: Unsupported value: "yes": supported values: "False", "True", "Unknown"'],
    ),
    "generation": (
        {"conditions": [{**CONDITION, "observedGeneration": -1}]},
        ["status.conditions[0].observedGeneration: Invalid value: -1: must be greater than or equal to zero"],
    ),
    "long message": (
        {"conditions": [{**CONDITION, "message": "x" * 32769}]},
        ["status.conditions[0].message: Too long: may not be more than 32768 bytes"],
    ),
    "warning": (
        {"typeChecking": {"expressionWarnings": [{}]}},
        [f"status.typeChecking.expressionWarnings[0].{name}: Required value" for name in ("warning", "fieldRef")],
    ),
}


@pytest.mark.parametrize("name", STATUSES)
def test_status(name: str) -> None:
    status, wanted = STATUSES[name]
    strategy = RegistrationStatusStrategy(BY_NAME["ValidatingAdmissionPolicy"])
    assert list(map(str, strategy.validate_update({"metadata": {}, "status": status}, {}).errors)) == wanted


TABLES: dict[str, tuple[str, dict[str, Any], list[Any]]] = {
    # name: (kind, members, cells between name and age)
    "webhooks": ("MutatingWebhookConfiguration", {"webhooks": [{}, {}]}, [2]),
    "no webhooks": ("ValidatingWebhookConfiguration", {}, [0]),
    "policy": (
        "ValidatingAdmissionPolicy",
        {"spec": {"validations": [{}], "paramKind": {"apiVersion": "v1", "kind": "Secret"}}},
        [1, "v1/Secret"],
    ),
    "mutating policy": ("MutatingAdmissionPolicy", {"spec": {"mutations": [{}]}}, [1, "<unset>"]),
    "binding": ("ValidatingAdmissionPolicyBinding", {"spec": {"policyName": "p"}}, ["p", "<unset>"]),
    "param anywhere": ("MutatingAdmissionPolicyBinding", {"spec": {"policyName": "p", "paramRef": {"name": "a"}}}, ["p", "*/a"]),
    "param in a namespace": (
        "MutatingAdmissionPolicyBinding",
        {"spec": {"policyName": "p", "paramRef": {"name": "a", "namespace": "b"}}},
        ["p", "b/a"],
    ),
    "params by labels": (
        "MutatingAdmissionPolicyBinding",
        {"spec": {"paramRef": {"selector": {"matchLabels": {"b": "1", "a": "2"}}}}},
        ["", "&LabelSelector{MatchLabels:map[string]string{a: 2,b: 1,},MatchExpressions:[]LabelSelectorRequirement{},}"],
    ),
}


@pytest.mark.parametrize("name", TABLES)
async def test_tables(server: LocalServer, name: str) -> None:
    kind, members, wanted = TABLES[name]
    stores = registration_stores(server.environment)
    resources = {resource.info.kind: resource for resource in registration_kinds(stores, server.engine.admission)}
    scope = resources[kind].scope("")
    assert scope is not None
    obj = {"metadata": {"name": "n"}, **members}
    rows = [(scope.table.row(obj, b'{"metadata":{}}'), b"")]
    assert json.loads(encode_table(scope.table, rows, "None", {}, 0.0))["rows"][0]["cells"] == ["n", *wanted, "<unknown>"]
