"""Rewriter: writes stored objects again in the storage version of their resource.

An object keeps its content, with uid, generation, managedFields and times, and gets a new resourceVersion. Each is written by
compare and swap to the revision that was read, so a rewrite never undoes the write of somebody else, and two servers may rewrite
the same objects. Objects are converted in batches; the others of a batch are written even if one can't be read or converted.
Source: k8s.io/kubernetes pkg/controller/storageversionmigrator, v1.36.3, which sends empty patches to the API.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from aggserver.conversion.converter import ConversionError
from aggserver.meta import codec, errors
from aggserver.meta.json_types import JSONObject
from aggserver.registry import stored
from aggserver.registry.resource_storage import ResourceStorage
from aggserver.schema.pruning import MalformedError
from aggserver.storage.interface import Conflict, Corrupt, KeyValue, NotFound, TooLarge

__all__ = ["Rewriter", "Rewritten"]

_API_VERSION = b'{"apiVersion":"'
# Bytes of objects that are decoded before other requests get their turn.
_TURN = 64 * 1024
# Attempts for an object that others keep writing, in one call.
_TRIES = 5


@dataclass(slots=True)
class Rewritten:
    """The result for some objects. done: how many are in the storage version now, or were deleted. failed: key -> why.

    overtaken: how many of `done` were written by somebody else meanwhile.
    """

    done: int = 0
    overtaken: int = 0
    failed: dict[str, str] = field(default_factory=dict)


class Rewriter:
    def __init__(self, resource: ResourceStorage, kind: str) -> None:
        self._resource = resource
        self._kind = kind
        self._head = _API_VERSION + resource.api_version.encode() + b'"'

    @property
    def prefix(self) -> str:
        return self._resource.prefix

    def is_current(self, item: KeyValue) -> bool:
        """Whether an object is stored in the storage version."""
        if item.fault:
            return False
        if item.value.startswith(_API_VERSION):
            return item.value.startswith(self._head)
        try:
            # Other servers may order the members of an object differently.
            tree = codec.decode_stored(item.value)
        except ValueError:
            return False
        return isinstance(tree, dict) and tree.get("apiVersion") == self._resource.api_version

    async def rewrite(self, items: Sequence[KeyValue]) -> Rewritten:
        """Rewrite objects that are not in the storage version. Raises Superseded and StorageError."""
        result = Rewritten()
        waiting = list(items)
        for _ in range(_TRIES):
            if not waiting:
                break
            changed: list[KeyValue] = []
            encoded = await self._converted(waiting, result)
            outcomes = await asyncio.gather(*(self._write(item, value) for item, value in encoded), return_exceptions=True)
            for (item, _), outcome in zip(encoded, outcomes, strict=True):
                if isinstance(outcome, Conflict):
                    if self.is_current(outcome.current):
                        result.done += 1
                        result.overtaken += 1
                    else:
                        changed.append(outcome.current)
                elif isinstance(outcome, TooLarge):
                    result.failed[item.key] = str(outcome)
                elif isinstance(outcome, BaseException):
                    raise outcome
                else:
                    result.done += 1
            waiting = changed
        for item in waiting:
            result.failed[item.key] = "others write it all the time"
        return result

    async def _write(self, item: KeyValue, value: bytes) -> None:
        with suppress(NotFound):
            await self._resource.update(item.key, value, item.revision)

    async def _converted(self, items: Sequence[KeyValue], result: Rewritten) -> list[tuple[KeyValue, bytes]]:
        """The bytes to store for each object that can be converted."""
        sources: list[KeyValue] = []
        trees: list[JSONObject] = []
        taken = 0
        for item in items:
            try:
                trees.append(self._read(item))
                sources.append(item)
            except Corrupt as error:
                result.failed[item.key] = f"it can't be read: {error.why}"
            taken += len(item.value)
            if taken > _TURN:
                taken = 0
                await asyncio.sleep(0)
        found: list[tuple[KeyValue, bytes]] = []
        for item, tree in await self._convert(sources, trees, result):
            try:
                self._resource.prune(tree)
                value = stored.encode(tree, self._resource.api_version, self._kind)
            except (MalformedError, TypeError) as error:
                result.failed[item.key] = str(error)
                continue
            if len(value) > self._resource.max_object_bytes and len(value) > len(item.value):
                result.failed[item.key] = str(errors.ObjectTooLarge(self._resource.max_object_bytes))
                continue
            found.append((item, value))
            taken += len(value)
            if taken > _TURN:
                taken = 0
                await asyncio.sleep(0)
        return found

    async def _convert(
        self, items: Sequence[KeyValue], trees: Sequence[JSONObject], result: Rewritten
    ) -> list[tuple[KeyValue, JSONObject]]:
        """Convert the objects, except those that the converter refuses. It names the refused object, or refuses all at once."""
        waiting = list(zip(items, trees, strict=True))
        while waiting:
            copies = (
                [codec.decode_stored(codec.encode_json(tree)) for _, tree in waiting] if len(waiting) > 1 else [waiting[0][1]]
            )
            try:
                done = await self._resource.converter.convert(copies, self._resource.api_version)
            except errors.StatusError as error:
                index = error.index if isinstance(error, ConversionError) else None
                answered = error.answered if isinstance(error, ConversionError) else True
                if len(waiting) == 1 or not answered:
                    # One object, or a webhook that can't be reached: smaller batches would fail as well.
                    result.failed.update((item.key, error.message) for item, _ in waiting)
                    return []
                if index is None:
                    return await self._one_by_one(waiting, result)
                item, _ = waiting.pop(index)
                result.failed[item.key] = error.message
            else:
                return [(item, tree) for (item, _), tree in zip(waiting, done, strict=True)]
        return []

    async def _one_by_one(
        self, waiting: Sequence[tuple[KeyValue, JSONObject]], result: Rewritten
    ) -> list[tuple[KeyValue, JSONObject]]:
        found: list[tuple[KeyValue, JSONObject]] = []
        for number, (item, tree) in enumerate(waiting):
            found += await self._convert([item], [tree], result)
            if not found and number + 1 == _TRIES:
                # The converter probably refuses everything. The rest is tried again later, in another order.
                why = result.failed[item.key]
                result.failed.update((other.key, why) for other, _ in waiting[number + 1 :])
                break
        return found

    def _read(self, item: KeyValue) -> JSONObject:
        """The decoded object, pruned and defaulted in the version in which it is stored. Raises Corrupt."""
        tree = stored.make(item).decoded()
        if self._resource.conform_stored is not None:
            try:
                self._resource.conform_stored(tree)
            except errors.ObjectTooLarge:
                return stored.make(item).decoded()  # without the defaults, as reads show it
            except MalformedError as error:
                raise Corrupt(item.key, item.revision, str(error)) from None
        return tree
