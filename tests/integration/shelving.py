"""Shelves and Ladders, the custom resources of operators that go on through moves, and who writes them all the time.

tests/operators/shelves reconciles Shelves, tests/operators/ladders.py Ladders. Both are of one group-version, so that they move
together.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any

from tests.controlplane.cluster import Cluster
from tests.history.wire import Gone, Wire

__all__ = ["GROUP", "LADDERS", "NAMESPACE", "SHELVES", "Churn", "as_handled", "definition", "handled", "manifest"]

GROUP = "shelves.example.com"
SHELVES, LADDERS = f"shelves.{GROUP}", f"ladders.{GROUP}"
NAMESPACE = "shelves"
_KINDS = {SHELVES: "Shelf", LADDERS: "Ladder"}
NAMES = 12
PAUSE = 0.05  # seconds between two writes


def definition(name: str) -> dict[str, Any]:
    """name: SHELVES or LADDERS."""
    plural, kind = name.partition(".")[0], _KINDS[name]
    properties = {
        "spec": {"type": "object", "properties": {"mark": {"type": "integer"}}},
        "status": {
            "type": "object",
            "properties": {"mark": {"type": "integer"}, "observedGeneration": {"type": "integer"}},
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
    }
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def manifest(definition: str, name: str, mark: int) -> dict[str, Any]:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": f"{GROUP}/v1", "kind": _KINDS[definition], "metadata": metadata, "spec": {"mark": mark}}


class Churn:
    """Creates, changes and deletes objects of one kind until stopped. marks: of what was acknowledged last, by name."""

    def __init__(self, wire: Wire, chance: random.Random, definition: str = SHELVES) -> None:
        self.marks: dict[str, int] = {}
        self.acknowledged = 0
        self.definition = definition
        self._path = f"/apis/{GROUP}/v1/namespaces/{NAMESPACE}/{definition.partition('.')[0]}"
        self._wire = wire
        self._chance = chance
        self._stop = asyncio.Event()
        self._mark = 0

    def stop(self) -> None:
        self._stop.set()

    async def run(self) -> None:
        """Until stopped; may be called again."""
        while not self._stop.is_set():
            self._mark = mark = self._mark + 1
            name = f"churned-{self._chance.randrange(NAMES)}"
            if name not in self.marks:
                if not await self._write("POST", self._path, manifest(self.definition, name, mark)):
                    continue
                self.marks[name] = mark
            elif self._chance.random() < 0.7:
                await self._write("PATCH", f"{self._path}/{name}", {"spec": {"mark": mark}})
                self.marks[name] = mark
            else:
                await self._write("DELETE", f"{self._path}/{name}", None)
                del self.marks[name]
            self.acknowledged += 1
            await asyncio.sleep(PAUSE)
        self._stop.clear()

    async def _write(self, method: str, path: str, body: Any) -> bool:
        """Until it is acknowledged; False if there is one of that name, which still waits for its finalizer."""
        content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
        while True:
            try:
                status, answer = await self._wire.call(method, path, body=body, content_type=content_type)
            except Gone:
                status, answer = 503, {}
            if status in (200, 201):
                return True
            await asyncio.sleep(0.1)
            if status == 409 and method == "POST":
                return False
            assert status in (429, 503), answer


def as_handled(marks: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """What `handled` says once the operator has handled objects with these marks as they are."""
    return {name: (mark, mark) for name, mark in marks.items()}


def handled(cluster: Cluster, definition: str) -> dict[str, tuple[int, int]]:
    """Of each object: its mark, and that of its status, which the operator has seen."""
    items = cluster.get(definition, "-n", NAMESPACE)["items"]
    return {item["metadata"]["name"]: (item["spec"]["mark"], (item.get("status") or {}).get("mark", 0)) for item in items}
