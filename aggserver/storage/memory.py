"""The store in memory: for tests, and for `aggserver dev --data :memory:`.

Writes and delivery use `log.py`. A list at an old revision undoes the later writes in the log. No call yields to the event loop.
Source: `interface.py`.
"""

from __future__ import annotations

import asyncio
import builtins
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence

from aggserver.storage import jumps
from aggserver.storage.figures import StorageFigures
from aggserver.storage.interface import (
    Compacted,
    Conflict,
    Event,
    FutureRevision,
    KeyExists,
    KeyValue,
    Page,
    Precondition,
    Sink,
    Subscription,
    Unavailable,
)
from aggserver.storage.keys import prefix_end
from aggserver.storage.log import Head, PendingWrite, Publisher, Stale, plan

__all__ = ["MemoryStorage"]


def _revision(event: Event) -> int:
    return event.revision


def _head(item: KeyValue | None) -> Head | None:
    return Head(item.revision, item.create_revision) if item is not None else None


class MemoryStorage:
    """A `Storage` in memory. Its content ends with the process, and revisions start at 1."""

    def __init__(self) -> None:
        self._publisher = Publisher(1)
        self._current: dict[str, KeyValue] = {}
        self._keys: list[str] = []
        self._log: list[Event] = []
        self._compacted = 0
        self._open = False

    async def start(self) -> None:
        self._open = True

    async def close(self) -> None:
        self._open = False

    def trouble(self) -> str | None:
        return None

    def figures(self) -> StorageFigures:
        return StorageFigures(revision=self._publisher.revision)

    def location(self, key: str) -> str:
        return key

    async def revision(self) -> int:
        self._check()
        return self._publisher.revision

    async def get(self, key: str) -> KeyValue | None:
        self._check()
        return self._current.get(key)

    async def list(self, prefix: str, *, revision: int = 0, start: str = "", limit: int = 0, counted: bool = True) -> Page:
        self._check()
        at = revision or self._publisher.revision
        self._check_revision(at)
        start, end = max(start, prefix), prefix_end(prefix)
        keys = self._keys[bisect_left(self._keys, start) : bisect_left(self._keys, end)]
        state = {key: self._current[key] for key in keys}
        for event in self._after(at, start, end):
            state.pop(event.key, None)
            if event.previous is not None:
                state[event.key] = event.previous
        items = [state[key] for key in sorted(state)] if at < self._publisher.revision else list(state.values())
        page = items[:limit] if limit else items
        return Page(page, at, len(items) > len(page), len(items) - len(page))

    def _after(self, revision: int, start: str, end: str) -> builtins.list[Event]:
        """The writes after `revision` to the keys of a range, newest first, which is the order to undo them in."""
        events = self._log[bisect_right(self._log, revision, key=_revision) :]
        return [event for event in reversed(events) if start <= event.key < end]

    async def count(self, prefix: str) -> int:
        self._check()
        return bisect_left(self._keys, prefix_end(prefix)) - bisect_left(self._keys, prefix)

    async def create(self, key: str, value: bytes, guard: Precondition | None = None) -> int:
        return await self._write(PendingWrite(key, value, 0, guard))

    async def update(self, key: str, value: bytes, expected: int, guard: Precondition | None = None) -> int:
        return await self._write(PendingWrite(key, value, expected, guard))

    async def delete(self, key: str, expected: int, guard: Precondition | None = None) -> int:
        return await self._write(PendingWrite(key, None, expected, guard))

    async def advance(self, revision: int) -> int:
        self._check()
        now, before = self._publisher.revision, self._current.get(jumps.KEY)
        if revision <= now:
            return now
        made = [*(jumps.decode(before.value) if before else ()), jumps.Jump(now, revision)]
        return await self._write(PendingWrite(jumps.KEY, jumps.encode(made), before.revision if before else 0), revision)

    async def settle(self) -> None:
        self._check()  # nothing to wait for: a write happens within the call

    async def _write(self, write: PendingWrite, revision: int = 0) -> int:
        """Apply a write. revision: the write's revision, 0 for the next one."""
        self._check()
        previous = self._current.get(write.key)
        guarding = write.guard and _head(self._current.get(write.guard.key))
        try:
            event = plan(write, _head(previous), revision or self._publisher.revision + 1, guarding)
        except Stale:
            assert previous is not None
            raise (Conflict if write.expected else KeyExists)(write.key, previous) from None
        event = event._replace(previous=previous)
        self._log.append(event)
        self._apply(event)
        self._publisher.publish((event,), event.revision)
        # Lets watches send the event before the writer has its answer, as with stores that wait for a disk or a server. Clients
        # that read their informer's cache after a write depend on this.
        await asyncio.sleep(0)
        return event.revision

    def _apply(self, event: Event) -> None:
        if event.value is None:
            del self._current[event.key]
            del self._keys[bisect_left(self._keys, event.key)]
            return
        if event.previous is None:
            insort(self._keys, event.key)
        self._current[event.key] = KeyValue(event.key, event.value, event.create_revision, event.revision)

    async def watch(self, prefix: str, after: int, sink: Sink) -> Subscription:
        self._check()
        return await self._publisher.subscribe(prefix, after, sink, self.history)

    async def history(self, prefix: str, after: int, upto: int, limit: int) -> Sequence[Event]:
        self._check()
        if after < self._compacted:
            raise Compacted(after, self._compacted)
        first, last = (bisect_right(self._log, revision, key=_revision) for revision in (after, upto))
        return [event for event in self._log[first:last] if event.key.startswith(prefix)][:limit]

    async def room(self) -> int | None:
        return None

    @property
    def oldest_kept(self) -> int:
        return self._compacted

    async def claim_compaction(self, revision: int) -> bool:
        return True

    async def compact(self, revision: int) -> None:
        self._check()
        if revision > self._publisher.revision:
            raise FutureRevision(revision, self._publisher.revision)
        self._compacted = max(self._compacted, revision)
        del self._log[: bisect_right(self._log, self._compacted, key=_revision)]

    def _check(self) -> None:
        if not self._open:
            raise Unavailable("the store is not open")

    def _check_revision(self, revision: int) -> None:
        if revision > self._publisher.revision:
            raise FutureRevision(revision, self._publisher.revision)
        if revision < self._compacted:
            raise Compacted(revision, self._compacted)
