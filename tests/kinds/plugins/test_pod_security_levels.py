"""The levels of PodSecurity, beyond what `tests/integration/cases_kind_admission.py` compares with kube-apiserver."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.kinds.plugins.pod_security_levels import NamespacePolicy, Standard, detail, evaluate, policy_of, reasons

_BASELINE, _RESTRICTED = Standard("baseline"), Standard("restricted")
_SAFE = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def _spec(**context: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "i", "securityContext": context}]}


CASES: dict[str, tuple[Standard, dict[str, Any], str]] = {
    # standard, spec, the detail of what it violates
    "nothing for privileged": (Standard(), {"hostNetwork": True}, ""),
    "privileged": (
        _BASELINE,
        _spec(privileged=True),
        'privileged (container "c" must not set securityContext.privileged=true)',
    ),
    "a host process": (
        _BASELINE,
        {**_spec(), "securityContext": {"windowsOptions": {"hostProcess": True}}},
        "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)",
    ),
    "probes before their check": (
        Standard("baseline", 33),
        {"containers": [{"name": "c", "livenessProbe": {"httpGet": {"host": "h"}}}]},
        "",
    ),
    "probes since their check": (
        Standard("baseline", 34),
        {"containers": [{"name": "c", "livenessProbe": {"httpGet": {"host": "h"}}}]},
        'probe or lifecycle host (container "c" uses probe or lifecycle host "h")',
    ),
    "a version that is not there yet": (Standard("restricted", 99), _spec(**_SAFE), ""),
    "one check for two levels": (
        _RESTRICTED,
        {**_spec(**_SAFE), "volumes": [{"name": "v", "hostPath": {"path": "/"}}]},
        'restricted volume types (volume "v" uses restricted volume type "hostPath")',
    ),
    "Windows": (
        _RESTRICTED,
        {**_spec(runAsNonRoot=True), "os": {"name": "windows"}},
        "",
    ),
    "Windows before its exception": (
        Standard("restricted", 20),
        {**_spec(runAsNonRoot=True, seccompProfile={"type": "Localhost"}), "os": {"name": "windows"}},
        'allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false)',
    ),
}


@pytest.mark.parametrize(("standard", "spec", "expected"), CASES.values(), ids=CASES)
def test_violations(standard: Standard, spec: dict[str, Any], expected: str) -> None:
    assert detail(evaluate(standard, {}, spec)) == expected


def test_annotations() -> None:
    annotations = {"container.apparmor.security.beta.kubernetes.io/c": "unconfined"}
    assert reasons(evaluate(_BASELINE, annotations, _spec())) == "forbidden AppArmor profile"
    old = {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}
    assert reasons(evaluate(Standard("baseline", 18), old, _spec())) == "seccompProfile"
    assert evaluate(_BASELINE, old, _spec()) == []


POLICIES: dict[str, tuple[dict[str, str], NamespacePolicy, int]] = {
    # labels, policy, number of errors
    "none": ({}, NamespacePolicy(), 0),
    "a warning of what is enforced": ({"enforce": "baseline"}, NamespacePolicy(_BASELINE, Standard(), _BASELINE), 0),
    "in its version": (
        {"enforce": "baseline", "enforce-version": "v1.5"},
        NamespacePolicy(Standard("baseline", 5), Standard(), Standard("baseline", 5)),
        0,
    ),
    "in a version of its own": (
        {"enforce": "baseline", "enforce-version": "v1.5", "warn-version": "v1.6"},
        NamespacePolicy(Standard("baseline", 5), Standard(), Standard("baseline", 6)),
        0,
    ),
    "no warning": ({"enforce": "baseline", "warn": "privileged"}, NamespacePolicy(_BASELINE), 0),
    "a wrong level": ({"enforce": "x", "audit": "x", "warn": "x"}, NamespacePolicy(_RESTRICTED), 3),
    "a wrong version": ({"audit": "baseline", "audit-version": "v1.05"}, NamespacePolicy(Standard(), _BASELINE), 1),
}


@pytest.mark.parametrize(("labels", "policy", "errors"), POLICIES.values(), ids=POLICIES)
def test_labels(labels: dict[str, str], policy: NamespacePolicy, errors: int) -> None:
    found, problems = policy_of({f"pod-security.kubernetes.io/{name}": value for name, value in labels.items()})
    assert (found, len(problems)) == (policy, errors)
