"""Waits for the first object of a kind that few servers ever have: its controller and its watch cache are made only then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from aggserver.storage.interface import Event, Storage, StorageError

__all__ = ["until_stored"]

_PAGE = 500  # objects read at once


class _Sink:
    """The subscription's sink: sets `over` when an object was written that is waited for, or the store must be read again."""

    def __init__(self, is_wanted: Callable[[bytes], bool]) -> None:
        self.found = False
        self.over = asyncio.Event()
        self._is_wanted = is_wanted

    def events(self, batch: Sequence[Event], revision: int) -> None:
        if any(event.value is not None and self._is_wanted(event.value) for event in batch):
            self.found = True
            self.over.set()

    def lost(self, error: StorageError) -> None:
        self.over.set()


async def until_stored(storage: Storage, prefix: str, marker: bytes = b"", *, without: Sequence[bytes] = ()) -> None:
    """Return when there is an object under the prefix whose JSON has `marker`, and none of `without`. Raises StorageError."""

    def is_wanted(value: bytes) -> bool:
        return marker in value and not any(each in value for each in without)

    while True:
        page = await storage.list(prefix, limit=_PAGE, counted=False)
        revision = page.revision
        while True:
            if any(is_wanted(item.value) for item in page.items):
                return
            if not page.more:
                break
            page = await storage.list(prefix, revision=revision, start=page.items[-1].key + "\0", limit=_PAGE, counted=False)
        sink = _Sink(is_wanted)
        subscription = await storage.watch(prefix, revision, sink)
        try:
            await sink.over.wait()
        finally:
            subscription.close()
        if sink.found:
            return
