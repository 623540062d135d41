"""Objects get what kube-apiserver adds to them: tests/cases/kinds has the objects, and its answers."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from aggserver.kinds.defaults import set_defaults
from tests.cases.kind_objects import created, given
from tests.kinds.written import written

ANSWERS = created()
OBJECTS = {(type_name, name): obj for type_name, name, obj in given()}
_ALLOCATED = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")


def _without_allocated(obj: dict[str, Any]) -> dict[str, Any]:
    """Of Services: addresses are not allocated here, nor is it decided of which families they are."""
    if obj["kind"] == "Service":
        for name in _ALLOCATED:
            obj["spec"].pop(name, None)
    obj["metadata"].pop("generation", None)
    return obj


@pytest.mark.parametrize(("type_name", "name"), OBJECTS)
def test_object_is_as_upstreams(type_name: str, name: str) -> None:
    answer = copy.deepcopy(ANSWERS[type_name, name])
    made = written(type_name, copy.deepcopy(OBJECTS[type_name, name]))
    assert _without_allocated(made) == _without_allocated(answer)


@pytest.mark.parametrize(("type_name", "name"), OBJECTS)
def test_an_answer_is_not_changed(type_name: str, name: str) -> None:
    answer = copy.deepcopy(ANSWERS[type_name, name])
    set_defaults(answer, type_name)
    assert answer == ANSWERS[type_name, name]


def test_values_are_not_shared() -> None:
    first, second = ({"metadata": {}, "spec": {"strategy": {}, "template": {"spec": {}}}} for _ in range(2))
    for obj in (first, second):
        set_defaults(obj, "apps/v1.Deployment")
    first["spec"]["template"]["spec"]["securityContext"]["runAsUser"] = 1
    assert second["spec"]["template"]["spec"]["securityContext"] == {}
