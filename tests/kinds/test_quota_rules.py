"""The rules of ResourceQuotas; `quota-invalid` of `tests/integration/test_same_quotas.py` asks kube-apiserver the same."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.kinds.quota_rules import changed_quota, quota_problems, quota_status_problems, quota_warnings


def _quota(hard: Any, *expressions: Any, scopes: Any = ()) -> Any:
    selector = {"scopeSelector": {"matchExpressions": list(expressions)}} if expressions else {}
    return {"spec": {"hard": hard, "scopes": list(scopes), **selector}}


def _selected(scope: str, operator: str, *values: str) -> Any:
    return {"scopeName": scope, "operator": operator, "values": list(values)}


_PODS = {"pods": "1"}
_SELECTOR = "spec.scopeSelector.matchExpressions"

# The quota, and the fields that have errors.
CASES: dict[str, tuple[Any, list[str]]] = {
    "fine": (_quota({"pods": "1", "requests.cpu": "500m", "count/a.b": "1", "requests.example.com/gpu": "1500m"}), []),
    "unknown": (_quota({"other": "1"}), ["spec.hard[other]"] * 2),
    "of no quota": (_quota({"storage": "1"}), ["spec.hard[storage]"]),
    "negative": (_quota({"requests.cpu": "-1"}), ["spec.hard[requests.cpu]"]),
    "fraction": (_quota({"pods": "1500m", "example.com/gpu": "0.5"}), ["spec.hard[example.com/gpu]", "spec.hard[pods]"]),
    "whole": (_quota({"pods": "1.0"}), []),
    "scope": (_quota(_PODS, scopes=["Other"]), ["spec.scopes"]),
    "scope of Pods": (_quota({"pods": "1", "cpu": "1", "services": "1"}, scopes=["Terminating"]), ["spec.scopes"]),
    "scope of what requests nothing": (_quota({"pods": "1", "cpu": "1"}, scopes=["BestEffort"]), ["spec.scopes"]),
    "scope of claims": (_quota({"requests.storage": "1"}, scopes=["VolumeAttributesClass"]), []),
    "scope of others' resources": (_quota({"example.com/gpu": "1"}, scopes=["Terminating"]), []),
    "contradiction": (_quota(_PODS, scopes=["Terminating", "NotTerminating"]), ["spec.scopes"]),
    "values": (_quota(_PODS, _selected("PriorityClass", "In", "a")), []),
    "no values": (_quota(_PODS, _selected("PriorityClass", "NotIn")), [f"{_SELECTOR}.values"]),
    "values for nothing": (_quota(_PODS, _selected("PriorityClass", "Exists", "a")), [f"{_SELECTOR}.values"]),
    "operator": (_quota(_PODS, _selected("PriorityClass", "Like")), [f"{_SELECTOR}.operator"]),
    "only exists": (_quota(_PODS, _selected("BestEffort", "In", "a")), [f"{_SELECTOR}.operator"]),
    "unknown scope": (_quota(_PODS, _selected("Other", "Exists")), [f"{_SELECTOR}.scopeName"]),
    "selected of others": (_quota({"services": "1"}, _selected("PriorityClass", "Exists")), [_SELECTOR]),
    "selected contradiction": (
        _quota(_PODS, _selected("BestEffort", "Exists"), _selected("NotBestEffort", "Exists")),
        [_SELECTOR],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_problems(name: str) -> None:
    quota, fields = CASES[name]
    assert [problem.field for problem in quota_problems(quota)] == fields


def test_scopes_can_not_change() -> None:
    first, second = _quota(_PODS, scopes=["BestEffort", "Terminating"]), _quota({}, scopes=["Terminating", "BestEffort"])
    assert list(changed_quota(first, second)) == []
    assert [problem.field for problem in changed_quota(_quota(_PODS), second)] == ["spec.scopes"]


def test_status() -> None:
    status = {"hard": {"pods": "1"}, "used": {"pods": "-1", "other": "1"}}
    found = [problem.field for problem in quota_status_problems({"status": status}, {})]
    assert found == ["status.used[other]", "status.used[other]", "status.used[pods]"]


def test_warnings() -> None:
    quota = _quota({"cpu": "2", "limits.cpu": "1", "requests.memory": "1Gi", "limits.memory": "1Gi", "requests.storage": "1"})
    assert list(quota_warnings(quota, None)) == ["ResourceQuota cpu (2) should be less than limits.cpu (1)"]
    assert list(quota_warnings(quota, quota)) == []
