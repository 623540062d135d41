"""Warnings about objects of the built-in kinds: tests/cases/kinds has objects, and what kube-apiserver warns of."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from aggserver.kinds.warnings import warnings
from tests.cases.kind_objects import warned
from tests.cases.kind_objects import warnings as recorded
from tests.kinds.written import written

OBJECTS = {(type_name, name): obj for type_name, name, obj in warned()}
RECORDED = recorded()


def _stored(type_name: str, name: str) -> dict[str, Any]:
    return written(type_name, copy.deepcopy(OBJECTS[type_name, name]))


@pytest.mark.parametrize(("type_name", "name"), OBJECTS)
def test_warnings_are_upstreams(type_name: str, name: str) -> None:
    assert warnings(_stored(type_name, name), None, type_name) == RECORDED[type_name][name]


# What else is said, and not said, of an update.
UPDATES: dict[str, tuple[str, str, int, list[str]]] = {
    "pods are not looked at": ("core/v1.Pod", "twice", 2, []),
    "a template that is the same": ("core/v1.PodTemplate", "labels", 1, []),
    "a template that has changed": ("core/v1.PodTemplate", "labels", 2, RECORDED["core/v1.PodTemplate"]["labels"]),
    "names do not change": ("apps/v1.Deployment", "dotted.name", 2, RECORDED["apps/v1.Deployment"]["dotted.name"][1:]),
    "services": ("core/v1.Service", "external", 1, RECORDED["core/v1.Service"]["external"]),
    "tokens that are the same": ("storage/v1.CSIDriver", "tokens", 2, []),
    "an ingress": ("networking/v1.Ingress", "annotated", 2, []),
}


@pytest.mark.parametrize(("type_name", "name", "generation", "expected"), UPDATES.values(), ids=UPDATES)
def test_updates(type_name: str, name: str, generation: int, expected: list[str]) -> None:
    new, old = _stored(type_name, name), _stored(type_name, name)
    old["metadata"]["generation"], new["metadata"]["generation"] = 1, generation
    assert warnings(new, old, type_name) == expected
