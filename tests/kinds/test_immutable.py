"""Immutable fields, by a table of changes."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.kinds.immutable import changed_immutables

_POD: dict[str, Any] = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}

# Type, object, changed members of it, and the start of the error; '' for none.
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any], str]] = {
    "data": ("core/v1.ConfigMap", {"data": {"a": "b"}}, {"data": {}}, ""),
    "frozen data": (
        "core/v1.ConfigMap",
        {"immutable": True, "data": {"a": "b"}},
        {"data": {}},
        "data: Forbidden: ",
    ),
    "frozen no more": (
        "core/v1.Secret",
        {"immutable": True},
        {"immutable": False},
        "immutable: Forbidden: ",
    ),
    "type": ("core/v1.Secret", {"type": "a"}, {"type": "b"}, 'type: Invalid value: "b": field is immutable'),
    "selector": (
        "apps/v1.Deployment",
        {"spec": {"selector": {"a": "b"}}},
        {"spec": {"selector": {}}},
        "spec.selector: ",
    ),
    "replicas": ("apps/v1.StatefulSet", {"spec": {"replicas": 1}}, {"spec": {"replicas": 2}}, ""),
    "service": (
        "apps/v1.StatefulSet",
        {"spec": {"serviceName": "a"}},
        {"spec": {"serviceName": "b"}},
        "spec: Forbidden: ",
    ),
    "image": ("core/v1.Pod", {"metadata": {}, "spec": _POD}, {"spec": {**_POD, "containers": [{"name": "c", "image": "j"}]}}, ""),
    "node": (
        "core/v1.Pod",
        {"metadata": {}, "spec": _POD},
        {"spec": {**_POD, "nodeName": "m"}},
        "spec: Forbidden: pod updates",
    ),
    "note": ("events/v1.Event", {"note": "a"}, {"note": "b"}, 'message: Invalid value: "b": field is immutable'),
    "value": ("scheduling/v1.PriorityClass", {"value": 1}, {"value": 2}, "value: Forbidden: may not be changed in an update."),
}


def _job(template: dict[str, Any], *, suspend: bool = True) -> dict[str, Any]:
    return {"spec": {"suspend": suspend, "template": template}}


_MOVED = {"metadata": {"labels": {"a": "b"}}, "spec": {**_POD, "nodeSelector": {"zone": "a"}, "tolerations": [{"key": "k"}]}}
_SMALLER = {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}}], "nodeName": "n"}}
_STARTED = {"startTime": "2026-01-01T00:00:00Z"}
_SUSPENDED = {**_STARTED, "conditions": [{"type": "Suspended", "status": "True"}]}
_TEMPLATE = {"spec": _POD}

CASES |= {
    "suspended Job moves": ("batch/v1.Job", _job(_TEMPLATE), _job(_MOVED, suspend=False), ""),
    "suspended Job gets resources": ("batch/v1.Job", _job(_TEMPLATE), _job(_SMALLER), ""),
    "Job that was suspended moves": ("batch/v1.Job", {**_job(_TEMPLATE), "status": _SUSPENDED}, _job(_MOVED), ""),
    "suspended Job gets another image": (
        "batch/v1.Job",
        _job(_TEMPLATE),
        _job({"spec": {**_POD, "containers": [{"name": "c", "image": "j"}]}}),
        "spec.template.spec: Invalid value: ",
    ),
    "running Job moves": ("batch/v1.Job", _job(_TEMPLATE, suspend=False), _job(_MOVED), "spec.template: Invalid value: "),
    "started Job moves": (
        "batch/v1.Job",
        {**_job(_TEMPLATE), "status": _STARTED},
        _job(_MOVED),
        "spec.template: Invalid value: ",
    ),
    "Job with Pods moves": (
        "batch/v1.Job",
        {**_job(_TEMPLATE), "status": {**_SUSPENDED, "active": 1}},
        _job(_MOVED),
        "spec.template: Invalid value: ",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_change(name: str) -> None:
    type_name, old, change, wanted = CASES[name]
    found = changed_immutables(type_name, {**old, **change}, old)
    assert ([str(problem) for problem in found] or [""])[0].startswith(wanted)
    assert bool(found) == bool(wanted)
    assert changed_immutables(type_name, old, old) == []


_GATED = {**_POD, "schedulingGates": [{"name": "example.com/a"}]}


def _requiring(*terms: Any, **more: Any) -> Any:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}, **more}


def _term(*zones: str) -> Any:
    return {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]} for zone in zones]}


_OTHER = "spec: Forbidden: pod updates may not change fields other than"
_SELECTOR = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
_TERMS = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
_TOLERATION = {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3}
_DEADLINE = "spec.activeDeadlineSeconds: Invalid value: "

# The spec of a Pod, what changes of it, and the starts of the errors.
PODS: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "gate removed": (_GATED, {"schedulingGates": []}, []),
    "gate added": (
        _POD,
        {"schedulingGates": [{"name": "g"}]},
        ["spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'g'"],
    ),
    "node selector": (_POD, {"nodeSelector": {"a": "b"}}, [_OTHER]),
    "node selector while gated": (_GATED, {"nodeSelector": {"a": "b"}}, []),
    "node selector with the last gate": (_GATED, {"nodeSelector": {"a": "b"}, "schedulingGates": []}, []),
    "node selector of another": (
        {**_GATED, "nodeSelector": {"a": "b"}},
        {"nodeSelector": {"a": "c"}},
        [f'spec.nodeSelector: Invalid value: {{"a":"c"}}: {_SELECTOR}'],
    ),
    "no node selector": (
        {**_GATED, "nodeSelector": {"a": "b"}},
        {"nodeSelector": {}},
        [f"spec.nodeSelector: Invalid value: null: {_SELECTOR}"],
    ),
    "affinity": (_POD, {"affinity": _requiring(_term("a"))}, [_OTHER]),
    "affinity while gated": (_GATED, {"affinity": _requiring(_term("a"))}, []),
    "expression while gated": ({**_GATED, "affinity": _requiring(_term("a"))}, {"affinity": _requiring(_term("a", "b"))}, []),
    "fields while gated": (
        {**_GATED, "affinity": _requiring(_term("a"))},
        {"affinity": _requiring({**_term("a"), "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]})},
        [],
    ),
    "other expression": (
        {**_GATED, "affinity": _requiring(_term("a"))},
        {"affinity": _requiring(_term("b"))},
        [f"{_TERMS}[0]: Invalid value: "],
    ),
    "expression to an empty term": (
        {**_GATED, "affinity": _requiring({})},
        {"affinity": _requiring(_term("b"))},
        [f"{_TERMS}[0]: Invalid value: "],
    ),
    "another term": (
        {**_GATED, "affinity": _requiring(_term("a"))},
        {"affinity": _requiring(_term("a"), _term("b"))},
        [f"{_TERMS}: Invalid value: "],
    ),
    "no affinity": ({**_GATED, "affinity": _requiring(_term("a"))}, {"affinity": None}, [f"{_TERMS}: Invalid value: null: "]),
    "preferred while gated": (
        {**_GATED, "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}},
        {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 2}]}}},
        [],
    ),
    "pod affinity while gated": (_GATED, {"affinity": {"podAffinity": {"x": [1]}}}, [_OTHER]),
    "both affinities while gated": (_GATED, {"affinity": _requiring(_term("a"), podAffinity={"x": [1]})}, [_OTHER]),
    "toleration added": ({**_POD, "tolerations": [_TOLERATION]}, {"tolerations": [{"key": "x"}, _TOLERATION]}, []),
    "toleration for longer": (
        {**_POD, "tolerations": [_TOLERATION]},
        {"tolerations": [{**_TOLERATION, "tolerationSeconds": 9}]},
        [],
    ),
    "tolerations that are wrong": (
        {**_POD, "tolerations": [_TOLERATION]},
        {"tolerations": [_TOLERATION, {"key": "x", "operator": "Other", "effect": "Some"}, {"key": "y", "tolerationSeconds": 3}]},
        [
            'spec.tolerations[1].operator: Unsupported value: "Other": supported values: "Equal", "Exists"',
            'spec.tolerations[1].effect: Unsupported value: "Some": supported values: "NoSchedule", ',
            "spec.tolerations[2].effect: Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is set",
        ],
    ),
    "no affinity in place of an empty one": ({**_POD, "affinity": {}}, {"affinity": None}, [_OTHER]),
    "toleration removed": (
        {**_POD, "tolerations": [_TOLERATION]},
        {"tolerations": []},
        ["spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"],
    ),
    "grace": ({**_POD, "terminationGracePeriodSeconds": 30}, {"terminationGracePeriodSeconds": 1}, [_OTHER]),
    "grace that was negative": ({**_POD, "terminationGracePeriodSeconds": -1}, {"terminationGracePeriodSeconds": 1}, []),
    "negative grace to two": ({**_POD, "terminationGracePeriodSeconds": -1}, {"terminationGracePeriodSeconds": 2}, [_OTHER]),
    "deadline": (_POD, {"activeDeadlineSeconds": 5}, []),
    "deadline lowered": ({**_POD, "activeDeadlineSeconds": 5}, {"activeDeadlineSeconds": 4}, []),
    "deadline raised": (
        {**_POD, "activeDeadlineSeconds": 5},
        {"activeDeadlineSeconds": 6, "nodeName": "m"},
        [f"{_DEADLINE}6: must be less than or equal to previous value"],
    ),
    "deadline removed": (
        {**_POD, "activeDeadlineSeconds": 5},
        {"activeDeadlineSeconds": None},
        [f"{_DEADLINE}null: must not update from a positive integer to nil value"],
    ),
    "deadline below zero": (_POD, {"activeDeadlineSeconds": -1}, [f"{_DEADLINE}-1: must be between 0 and 2147483647, inclusive"]),
    "container added": (
        _POD,
        {"containers": [*_POD["containers"], {"name": "d", "image": "i"}]},
        ["spec.containers: Forbidden: pod updates may not add or remove containers"],
    ),
    "image with a space": (
        _POD,
        {"containers": [{"name": "c", "image": "i "}]},
        ['spec.containers[0].image: Invalid value: "i ": must not have leading or trailing whitespace'],
    ),
    "no image": (_POD, {"containers": [{"name": "c"}]}, ["spec.containers[0].image: Required value"]),
    "empty members": (_POD, {"volumes": [], "containers": [{"name": "c", "image": "i", "env": []}]}, []),
}


@pytest.mark.parametrize("name", PODS)
def test_change_of_a_pod(name: str) -> None:
    spec, change, wanted = PODS[name]
    old = {"metadata": {}, "spec": spec}
    found = list(map(str, changed_immutables("core/v1.Pod", {"metadata": {}, "spec": {**spec, **change}}, old)))
    assert [text[: len(start)] for text, start in zip(found, wanted, strict=True)] == wanted


def test_annotations_that_the_kubelet_reads() -> None:
    def pod(**annotations: str) -> Any:
        return {
            "metadata": {"annotations": {f"kubernetes.io/config.{name}": text for name, text in annotations.items()}},
            "spec": {},
        }

    path = "metadata.annotations[kubernetes.io/config.mirror]: Forbidden: "
    found = [
        list(map(str, changed_immutables("core/v1.Pod", now, old)))
        for now, old in (
            (pod(mirror="a"), pod()),
            (pod(mirror="b"), pod(mirror="a")),
            (pod(), pod(mirror="a")),
            (pod(x="a"), pod()),
        )
    ]
    added, changed = f"{path}may not add mirror pod annotation", f"{path}may not remove or update mirror pod annotation"
    assert found == [[added], [changed], [changed], []]
