"""Immutable fields, by a table of changes."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.kinds.immutable import changed_immutables

_POD = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}

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
    "image": ("core/v1.Pod", {"spec": _POD}, {"spec": {**_POD, "containers": [{"name": "c", "image": "j"}]}}, ""),
    "node": (
        "core/v1.Pod",
        {"spec": _POD},
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
