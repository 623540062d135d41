"""Helpers for the cases of `contract.py`: suites of functions that get a store, and a sink that records.

A case gets an empty, open store, which may be a prefix of an etcd that others write to. So a case must not assume a revision that
the store has not returned, nor that its own writes have consecutive revisions; and it must wait for events (`Recorder.reached`),
which may come after the write returned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from aggserver.storage.interface import Event, KeyValue, Storage, StorageError, Subscription
from tests.waiting import HANG_SECONDS

__all__ = ["FAR", "PODS", "A", "B", "C", "Case", "Recorder", "Suite", "follow", "keys"]

PODS = "/core/pods/"
A, B, C = (f"{PODS}default/{name}" for name in "abc")
FAR = 1 << 40  # revisions ahead of what any store reaches during a case

# Timeout in seconds, long enough for a busy machine.

Case = Callable[[Storage], Awaitable[None]]


class Suite(list[Case]):
    """The cases of one subject; the decorator `case` adds one."""

    def case(self, function: Case) -> Case:
        self.append(function)
        return function


class Recorder:
    """A sink that records events, and checks their order."""

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
        """Wait until all events up to `revision` were delivered. Requests progress, as a cacher does."""
        if self.revision < revision and self.subscription is not None:
            self.subscription.progress()
        async with asyncio.timeout(HANG_SECONDS):
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
