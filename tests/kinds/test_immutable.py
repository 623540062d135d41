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


@pytest.mark.parametrize("name", CASES)
def test_change(name: str) -> None:
    type_name, old, change, wanted = CASES[name]
    found = changed_immutables(type_name, {**old, **change}, old)
    assert ([str(problem) for problem in found] or [""])[0].startswith(wanted)
    assert bool(found) == bool(wanted)
    assert changed_immutables(type_name, old, old) == []
