"""Selectable fields of objects in the version that is requested."""

from __future__ import annotations

import pytest

from aggserver.kinds.catalog import KINDS
from aggserver.kinds.fields import field_reader, names

EVENTS = [kind for kind in KINDS if kind.plural == "events"]
CORE = {
    "apiVersion": "v1",
    "involvedObject": {"name": "one", "kind": "Pod"},
    "reason": "Started",
    "reportingComponent": "kubelet",
    "type": "Normal",
}
NEW = {
    "apiVersion": "events.k8s.io/v1",
    "regarding": {"name": "one", "kind": "Pod"},
    "reason": "Started",
    "reportingController": "kubelet",
    "type": "Normal",
}


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        pytest.param(CORE, {"involvedObject.name": "one", "reportingComponent": "kubelet", "source": "kubelet"}, id="core"),
        pytest.param(NEW, {"regarding.name": "one", "reportingController": "kubelet"}, id="events.k8s.io"),
    ],
)
def test_fields_of_events_in_either_form(event: dict, fields: dict[str, str]) -> None:  # type: ignore[type-arg]
    read = field_reader(EVENTS)(event)
    assert fields.items() <= read.items()
    assert (read["reason"], read["type"]) == ("Started", "Normal")


def test_each_form_has_its_own_names() -> None:
    core, new = (names(kind) for kind in sorted(EVENTS, key=lambda kind: kind.group))
    assert core & new == {"reason", "type"}
