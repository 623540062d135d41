"""Atoms: what of metadata is owned one by one, and what as a whole."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.merge.atom import of_resource
from aggserver.merge.typed import field_set
from aggserver.schema import structural

TIME = "2026-01-02T03:04:05Z"
REFERENCE = {"apiVersion": "v1", "kind": "A", "name": "a", "controller": True, "blockOwnerDeletion": False}
METADATA: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "labels": ({"labels": {"x": "y"}}, {"f:labels": {"f:x": {}}}),
    "annotations": ({"annotations": {"x": "y"}}, {"f:annotations": {"f:x": {}}}),
    "finalizers": ({"finalizers": ["b", "a"]}, {"f:finalizers": {'v:"b"': {}, 'v:"a"': {}}}),
    "owners": ({"ownerReferences": [{"uid": "u", **REFERENCE}]}, {"f:ownerReferences": {'k:{"uid":"u"}': {}}}),
    "an owner without uid": ({"ownerReferences": [REFERENCE]}, {"f:ownerReferences": {'k:{"uid":""}': {}}}),
    "managedFields": ({"managedFields": [{"manager": "a", "time": TIME, "fieldsV1": {"f:x": {}}}]}, {"f:managedFields": {}}),
    "scalars": (
        {"name": "a", "generation": 1, "creationTimestamp": TIME, "deletionGracePeriodSeconds": 0},
        {"f:name": {}, "f:generation": {}, "f:creationTimestamp": {}, "f:deletionGracePeriodSeconds": {}},
    ),
}


@pytest.mark.parametrize("name", METADATA)
def test_metadata(name: str) -> None:
    metadata, fields = METADATA[name]
    found = field_set({"metadata": metadata}, of_resource(structural.compile({"type": "object"})))
    assert found == {"f:metadata": fields}
