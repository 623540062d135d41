"""Writers that never stop while a resource moves, and what they hold against what is there at the end.

Each writer owns the names that it writes, so that it knows after each answer what must be there: a write that was acknowledged
and is not there later is a fault, and so is one that comes back. What the server asks to try again (503 and 429 with Retry-After)
it tries again, as client-go does. When a connection breaks, the write may have been carried out or not; the next look decides.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any

from tests.history.wire import Gone, Wire

__all__ = ["DEFINITION", "KIND", "NAME", "PATH", "Writer", "differences"]

GROUP = "moving.example.com"
KIND = "Parcel"
NAME = f"parcels.{GROUP}"
PATH = f"/apis/{GROUP}/v1/namespaces/default/parcels"

DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": NAME},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "parcels", "singular": "parcel", "kind": KIND, "listKind": f"{KIND}List"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "description": "What is on its way.",
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["mark"],
                                "properties": {"mark": {"type": "integer"}, "note": {"type": "string"}},
                            },
                            "status": {"type": "object", "properties": {"seen": {"type": "integer"}}},
                        },
                    }
                },
            }
        ],
    },
}

_MERGE = "application/merge-patch+json"
_APPLY = "application/apply-patch+yaml"
# Codes by which a server asks for another attempt.
_AGAIN = (429, 500, 502, 503, 504)


class Writer:
    """known: mark and uid of the objects that are there, by name. faults: what was acknowledged and then not so, as text."""

    def __init__(self, number: int, wire: Wire, chance: random.Random, names: int = 6) -> None:
        self.acknowledged = 0
        self.refused: dict[int, int] = {}
        self.faults: list[str] = []
        self.known: dict[str, tuple[int, str]] = {}
        self._names = [f"w{number}-{index}" for index in range(names)]
        self._wire = wire
        self._chance = chance
        self._mark = 0
        self._stop = asyncio.Event()

    def stop(self) -> None:
        self._stop.set()

    def again(self) -> None:
        """Ready for another `run`, with what it knows."""
        self._stop.clear()

    async def run(self, pause: float = 0.0) -> None:
        """Writes until stopped. pause: seconds between writes."""
        while not self._stop.is_set():
            name = self._chance.choice(self._names)
            self._mark += 1
            if name not in self.known:
                await self._write(name, "POST", PATH, self._object(name))
            else:
                verb = self._chance.choice(("update", "patch", "apply", "delete"))
                path = f"{PATH}/{name}"
                if verb == "delete":
                    await self._write(name, "DELETE", path, None)
                elif verb == "update":
                    await self._update(name, path)
                elif verb == "patch":
                    await self._write(name, "PATCH", path, {"spec": {"mark": self._mark}}, _MERGE)
                else:
                    await self._write(name, "PATCH", path, self._object(name), _APPLY, fieldManager="writer", force="true")
            await asyncio.sleep(pause)

    def _object(self, name: str) -> dict[str, Any]:
        spec = {"mark": self._mark, "note": "x" * self._chance.randrange(200)}
        return {"apiVersion": f"{GROUP}/v1", "kind": KIND, "metadata": {"name": name}, "spec": spec}

    async def _update(self, name: str, path: str) -> None:
        status, found = await self._until_answered("GET", path)
        self._hold(name, status, found)
        if status == 200:
            found["spec"]["mark"] = self._mark
            await self._write(name, "PUT", path, found)

    async def _write(
        self, name: str, method: str, path: str, body: Any, content_type: str = "application/json", **query: str
    ) -> None:
        """One write, until it is acknowledged or refused for good. One whose connection broke is looked up."""
        wanted = None if method == "DELETE" else self._mark
        while not self._stop.is_set():
            try:
                status, answer = await self._wire.call(method, path, query, body, content_type)
            except Gone:
                await asyncio.sleep(0.05)
                await self._look(name, wanted)
                return
            if status in _AGAIN:
                self.refused[status] = self.refused.get(status, 0) + 1
                # The proxy's words for a connection that broke: carried out or not. They are plain text; so are those for a
                # connection that was never made, which are no exception here.
                if status in (500, 502, 504) or "kind" not in answer:
                    await self._look(name, wanted)
                    return
                await asyncio.sleep(_pause(answer))
                continue
            if status == 409 and method == "PUT":
                await self._look(name, None, unchanged=True)
                return
            if status not in (200, 201):
                self.faults.append(f"{method} {name}: {status} {answer.get('message')}; known was {self.known.get(name)}")
                await self._look(name, wanted)
                return
            self.acknowledged += 1
            self._learn(name, answer if wanted is not None else None)
            return

    def _learn(self, name: str, found: Mapping[str, Any] | None) -> None:
        if found is None:
            self.known.pop(name, None)
            return
        before = self.known.get(name)
        uid = found["metadata"]["uid"]
        if before is not None and before[1] != uid:
            self.faults.append(f"{name} has another uid: {before[1]} became {uid}")
        self.known[name] = (found["spec"]["mark"], uid)

    async def _look(self, name: str, wanted: int | None, *, unchanged: bool = False) -> None:
        """Looks up an object whose last write may have been carried out, and takes what is there for known."""
        status, found = await self._until_answered("GET", f"{PATH}/{name}")
        mark = found["spec"]["mark"] if status == 200 else None
        before = self.known[name][0] if name in self.known else None
        if mark not in ((before,) if unchanged else (before, wanted)):
            self.faults.append(f"{name} has mark {mark}; acknowledged was {before}, and then tried {wanted}")
        self.known.pop(name, None)
        if status == 200:
            self.known[name] = (found["spec"]["mark"], found["metadata"]["uid"])

    def _hold(self, name: str, status: int, found: Mapping[str, Any]) -> None:
        mark, uid = self.known[name]
        seen = (found["spec"]["mark"], found["metadata"]["uid"]) if status == 200 else (status, found.get("message"))
        if seen != (mark, uid):
            self.faults.append(f"{name} is {seen}; acknowledged was {(mark, uid)}")

    async def _until_answered(self, method: str, path: str) -> tuple[int, dict[str, Any]]:
        while True:
            try:
                status, answer = await self._wire.call(method, path)
            except Gone:
                await asyncio.sleep(0.05)
                continue
            if status not in _AGAIN:
                return status, answer
            self.refused[status] = self.refused.get(status, 0) + 1
            await asyncio.sleep(_pause(answer))


def _pause(answer: Mapping[str, Any]) -> float:
    return float((answer.get("details") or {}).get("retryAfterSeconds", 0)) or 0.05


def differences(writers: Sequence[Writer], items: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the writers know against what a list has, as plain text; names that no writer owns are left out."""
    listed = {item["metadata"]["name"]: (item["spec"]["mark"], item["metadata"]["uid"]) for item in items}
    known = {name: value for writer in writers for name, value in writer.known.items()}
    names = {name for name in known.keys() | listed.keys() if name.startswith("w")}
    return [
        f"{name}: written {known.get(name)}, there is {listed.get(name)}"
        for name in sorted(names)
        if known.get(name) != listed.get(name)
    ]
