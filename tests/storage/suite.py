"""What the cases of a store's contract are made of: suites of functions over a store, and a sink that records.

A case gets an open store that holds nothing, and must pass whoever else writes to what lies below it: the store may be one folder
of an etcd that others use too. So a case never knows a revision before it was given one, nor that two writes of its own follow
each other without a revision between them; and it awaits events (`Recorder.reached`), which may come after the write returned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from aggserver.storage.interface import Event, KeyValue, Storage, StorageError, Subscription

__all__ = ["FAR", "PODS", "A", "B", "C", "Case", "Recorder", "Suite", "follow", "keys"]

PODS = "/core/pods/"
A, B, C = (f"{PODS}default/{name}" for name in "abc")
FAR = 1 << 40  # revisions ahead: no store comes that far during a case

# Seconds for what must happen, on the busiest machine.
_PATIENCE = 20

Case = Callable[[Storage], Awaitable[None]]


class Suite(list[Case]):
    """Cases of one subject; `case` adds one."""

    def case(self, function: Case) -> Case:
        self.append(function)
        return function


class Recorder:
    """A sink that keeps what it gets and checks the order on the way."""

    subscription: Subscription | None = None

    def __init__(self) -> None:
        self.seen: list[Event] = []
        self.revision = 0
        self._progress = asyncio.Event()
        self.error: StorageError | None = None

    def events(self, batch: Sequence[Event], revision: int) -> None:
        for event in batch:
            assert event.revision > (self.seen[-1].revision if self.seen else 0)
            self.seen.append(event)
        assert revision >= max(self.revision, self.seen[-1].revision if self.seen else 0)
        self.revision = revision
        self._progress.set()

    def lost(self, error: StorageError) -> None:
        self.error = error

    async def reached(self, revision: int) -> None:
        """Returns once everything up to `revision`, which has happened, was delivered. Asks for progress as a cacher does."""
        if self.revision < revision and self.subscription is not None:
            self.subscription.progress()
        async with asyncio.timeout(_PATIENCE):
            while self.revision < revision:
                self._progress.clear()
                await self._progress.wait()

    def short(self) -> list[tuple[int, str, bytes | None]]:
        return [(event.revision, event.key, event.value) for event in self.seen]


async def follow(store: Storage, prefix: str, after: int) -> tuple[Recorder, Subscription]:
    recorder = Recorder()
    recorder.subscription = await store.watch(prefix, after, recorder)
    return recorder, recorder.subscription


def keys(items: Sequence[KeyValue]) -> list[str]:
    return [item.key for item in items]
