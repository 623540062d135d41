"""Waits for the first object of a kind that few servers ever have: its controller and its watch cache are made only then."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aggserver.storage.interface import Event, Storage, StorageError

__all__ = ["until_stored"]

_PAGE = 500  # objects read at once


class _Sink:
    """The subscription's sink: sets `over` when an object with the marker was written, or the store must be read again."""

    def __init__(self, marker: bytes) -> None:
        self.found = False
        self.over = asyncio.Event()
        self._marker = marker

    def events(self, batch: Sequence[Event], revision: int) -> None:
        if any(event.value is not None and self._marker in event.value for event in batch):
            self.found = True
            self.over.set()

    def lost(self, error: StorageError) -> None:
        self.over.set()


async def until_stored(storage: Storage, prefix: str, marker: bytes = b"") -> None:
    """Return when there is an object under the prefix whose JSON has `marker` in it. Raises StorageError."""
    while True:
        page = await storage.list(prefix, limit=_PAGE)
        revision = page.revision
        while True:
            if any(marker in item.value for item in page.items):
                return
            if not page.more:
                break
            page = await storage.list(prefix, revision=revision, start=page.items[-1].key + "\0", limit=_PAGE)
        sink = _Sink(marker)
        subscription = await storage.watch(prefix, revision, sink)
        try:
            await sink.over.wait()
        finally:
            subscription.close()
        if sink.found:
            return
