"""Requests that policies are tried with."""

from __future__ import annotations

from typing import Any

from aggserver.admission.chain import CREATE, Attributes
from aggserver.admission.matching import Target
from aggserver.admission.policy.environment import Inputs
from aggserver.authentication.user import UserInfo
from aggserver.cel.library.authz import Check, Decision
from aggserver.meta.json_types import JSONObject
from aggserver.meta.resource import ResourceInfo

__all__ = ["NAMESPACE", "SHIP", "SHIPS", "attributes", "inputs"]

SHIPS = ResourceInfo("example.com", "v1", "ships", "Ship", "ShipList", namespaced=True)
USER = UserInfo("alice", "u1", ("crew", "system:authenticated"), {"scope": ("a", "b")})
SHIP: JSONObject = {
    "apiVersion": "example.com/v1",
    "kind": "Ship",
    "metadata": {"name": "ada", "namespace": "north", "labels": {"x": "1", "y": "2"}},
    "spec": {"replicas": 2, "masts": ["fore", "main"], "note": None},
}
NAMESPACE: JSONObject = {
    "metadata": {"name": "north", "labels": {"env": "test"}, "creationTimestamp": "2026-01-02T03:04:05Z"},
    "spec": {"finalizers": ["kubernetes"]},
    "status": {"phase": "Active"},
}


def attributes(operation: str = CREATE, *, name: str = "ada", subresource: str = "", options: Any = None) -> Attributes:
    return Attributes(
        operation, USER, SHIPS, subresource, "Ship", "example.com/v1", "north", name, dry_run=False, options=options or {}
    )


def inputs(
    obj: JSONObject | None = SHIP,
    old: JSONObject | None = None,
    *,
    answers: dict[Check, Decision] | None = None,
    given: Attributes | None = None,
) -> Inputs:
    of = given or attributes()
    return Inputs(of, Target("example.com", "v1", "ships", "example.com/v1", "Ship"), obj, old, NAMESPACE, answers or {})
