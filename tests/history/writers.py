"""Writers: creates, updates, patches, status writes, deletions, of one or of some, and creations anew, of a few names that all of
them fight for. Some objects are created with finalizers, which the writers take away once the object is being deleted.

A writer acts on what it believes, which is what it was answered last; another one may have been there since, and then it is
refused and looks again. Every write carries a marker of its own in spec or status.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.history.recording import (
    ACKNOWLEDGED,
    REFUSED,
    UNKNOWN,
    Key,
    Object,
    Write,
    finalizers,
    is_deleted,
    key_of,
    revision_of,
    uid_of,
)
from tests.history.wire import GROUP, KINDS, Gone, Shared, Wire, path_of

__all__ = ["COLORS", "KEYS", "LABELS", "Writer"]

COLORS = ("red", "green")
LABELS = ("sales", "support")
FINALIZERS = ("history.example.com/ledger", "history.example.com/archive")
KEYS: Sequence[Key] = [
    *(Key("notes", namespace, f"note-{number}") for namespace in ("default", "other") for number in range(8)),
    *(Key("signs", "", f"sign-{number}") for number in range(6)),
]

_MERGE = "application/merge-patch+json"


class Writer:
    """Writes until `goal` writes of all writers are acknowledged. pause: seconds between two writes.

    plain: without finalizers and deletions of many, so that answers say of each object whether it is there.

    `looked` is what it was told when it looked for an object.
    """

    def __init__(
        self, name: str, wire: Wire, shared: Shared, chance: random.Random, goal: int, pause: float = 0.0, *, plain: bool = False
    ) -> None:
        self.name = name
        self.writes: list[Write] = []
        self.looked: list[tuple[Key, Object]] = []
        self._wire = wire
        self._shared = shared
        self._chance = chance
        self._goal = goal
        self._pause = pause
        self._finalized = 0.0 if plain else 0.3  # of the objects that are created
        self._known: dict[Key, Object] = {}
        self._verbs: list[tuple[Callable[[Key, Object, str], Any], int]] = [
            (self._update, 4),
            (self._patch, 4),
            (self._move, 3),
            (self._status, 3),
            (self._delete, 3),
            (self._delete_collection, 0 if plain else 1),
        ]

    async def run(self) -> None:
        while self._shared.progress.count < self._goal or not self._shared.settled.is_set():
            await self._shared.up.wait()
            key = self._chance.choice(KEYS)
            marker = f"{self.name}-{len(self.writes)}"
            known = self._known.get(key)
            try:
                if known is None:
                    await self._create(key, marker)
                elif is_deleted(known) and self._chance.random() < 0.5:
                    await self._finalize(key, known, marker)
                else:
                    verbs, weights = zip(*self._verbs, strict=True)
                    await self._chance.choices(verbs, weights)[0](key, known, marker)
                if self.writes and self.writes[-1].key == key and self.writes[-1].outcome == REFUSED:
                    await self._look(key)
            except Gone:
                self._known.pop(key, None)
            if self._pause:
                await asyncio.sleep(self._pause)

    # Each sends one write.

    async def _create(self, key: Key, marker: str) -> None:
        color = self._chance.choice(COLORS)
        metadata: dict[str, Any] = {"name": key.name, "labels": {"team": self._chance.choice(LABELS)}}
        if self._chance.random() < self._finalized:
            metadata["finalizers"] = self._chance.sample(FINALIZERS, self._chance.randint(1, len(FINALIZERS)))
        wanted = {"metadata": metadata, "spec": {"marker": marker, "color": color}}
        body = {"apiVersion": GROUP, "kind": KINDS[key.resource], **wanted}
        await self._write("create", key, marker, ("POST", path_of(key.resource, key.namespace), body), wanted)

    async def _update(self, key: Key, known: Object, marker: str) -> None:
        wanted = {"spec": {"marker": marker, "color": self._chance.choice(COLORS)}}
        body = {"apiVersion": GROUP, "kind": KINDS[key.resource], **known, **wanted}
        await self._write("update", key, marker, ("PUT", path_of(*key), body), wanted, base=revision_of(known))

    async def _patch(self, key: Key, known: Object, marker: str) -> None:
        wanted = {"spec": {"marker": marker}}
        await self._write("patch", key, marker, ("PATCH", path_of(*key), wanted), wanted)

    async def _move(self, key: Key, known: Object, marker: str) -> None:
        """Into another selection or out of one; only as the writer knows the object, or as it is."""
        labels = {"team": self._chance.choice(LABELS)}
        wanted: Mapping[str, Any] = {"metadata": {"labels": labels}, "spec": {"marker": marker}}
        if self._chance.random() < 0.5:
            await self._write("patch", key, marker, ("PATCH", path_of(*key), wanted), wanted)
            return
        body = {**wanted, "metadata": {"labels": labels, "resourceVersion": str(revision_of(known))}}
        await self._write("patch", key, marker, ("PATCH", path_of(*key), body), wanted, base=revision_of(known))

    async def _status(self, key: Key, known: Object, marker: str) -> None:
        wanted = {"status": {"marker": marker}}
        path = f"{path_of(*key)}/status"
        if self._chance.random() < 0.5:
            await self._write("patch", key, marker, ("PATCH", path, wanted), wanted)
            return
        body = {"apiVersion": GROUP, "kind": KINDS[key.resource], **known, **wanted}
        await self._write("update", key, marker, ("PUT", path, body), wanted, base=revision_of(known))

    async def _delete(self, key: Key, known: Object, marker: str) -> None:
        body = {"preconditions": {"uid": uid_of(known)}} if self._chance.random() < 0.5 else None
        await self._write("delete", key, marker, ("DELETE", path_of(*key), body), {})

    async def _finalize(self, key: Key, known: Object, marker: str) -> None:
        """Takes one of several finalizers away, as a change like any other, or all that are left, and with them the object."""
        left = finalizers(known)[1:]
        metadata = {"uid": uid_of(known), "finalizers": list(left)}
        if left:
            wanted = {"metadata": metadata, "spec": {"marker": marker}}
            await self._write("patch", key, marker, ("PATCH", path_of(*key), wanted), wanted)
        else:
            wanted = {"metadata": {"uid": uid_of(known)}}
            await self._write("finalize", key, marker, ("PATCH", path_of(*key), {"metadata": metadata}), wanted)

    async def _delete_collection(self, key: Key, known: Object, marker: str) -> None:
        """All of a namespace or of a resource that have the object's label, which are few."""
        sent = self._shared.tick()
        keys = [each for each in KEYS if each[:2] == key[:2]]
        gone: dict[Key, str] = dict.fromkeys(keys, "")  # while nothing is answered, any of them may be
        try:
            query = {"labelSelector": f"team={known['metadata']['labels']['team']}"}
            status, answer = await self._wire.call("DELETE", path_of(key.resource, key.namespace), query)
            if status < 300:
                gone = {key_of(key.resource, item): uid_of(item) for item in answer["items"]}
                self._shared.progress.add()
        finally:
            done = self._shared.tick()
            for each, uid in gone.items():
                self.writes.append(Write(self.name, "deletecollection", each, marker, UNKNOWN, sent, done, uid=uid))
                self._known.pop(each, None)

    async def _write(
        self, verb: str, key: Key, marker: str, request: tuple[str, str, Any], wanted: Mapping[str, Any], base: int = 0
    ) -> None:
        """Sends and records it. Raises Gone."""
        method, path, body = request
        sent = self._shared.tick()
        obj: Object | None = None
        uid, outcome = "", UNKNOWN
        try:
            content_type = _MERGE if method == "PATCH" else "application/json"
            status, answer = await self._wire.call(method, path, body=body, content_type=content_type)
            if status < 300:
                self._shared.progress.add()
                outcome = ACKNOWLEDGED
                if verb == "finalize":
                    uid, outcome = uid_of(answer), UNKNOWN
                elif verb == "delete" and "details" in answer:
                    uid = answer["details"]["uid"]
                else:
                    obj = self._shared.same(key.resource, answer)
                    uid = uid_of(obj) if verb == "delete" else ""
            elif status < 500:
                outcome = REFUSED
        finally:
            done = self._shared.tick()
            self.writes.append(Write(self.name, verb, key, marker, outcome, sent, done, obj, uid, base, wanted))
        if obj is None:
            self._known.pop(key, None)
        else:
            self._known[key] = obj

    async def _look(self, key: Key) -> None:
        """What is there now, after a refusal. Raises Gone."""
        status, answer = await self._wire.call("GET", path_of(*key))
        if status == 200:
            self._known[key] = self._shared.same(key.resource, answer)
            self.looked.append((key, self._known[key]))
