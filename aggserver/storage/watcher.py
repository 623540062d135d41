"""One watch on a cacher: its pending events and its end.

`Cacher.watch` makes it, and the request's handler iterates it. The cacher only appends events and wakes it, so a slow client does
not delay others. The watch of a slow client is closed when too many events are pending, or when their objects are no longer in
the cache's window and would be in memory for this watch only. The client then resumes from the last resourceVersion it received.
Source: k8s.io/apiserver pkg/storage/cacher/cache_watcher.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
from typing import Generic, Protocol, TypeVar

from aggserver.storage.changes import BOOKMARK, Cached, WatchEvent
from aggserver.storage.interface import StorageError
from aggserver.storage.past import PART_BYTES, Past
from aggserver.storage.predicate import Predicate

__all__ = ["CacheWatcher", "WatchHub"]

MAX_PENDING = 16 * 1024  # events: ten seconds of the fastest writers; upstream closes a watch after 1,000 events and 50 ms
MAX_PENDING_BYTES = 16 << 20  # of objects in pending events, which may be shared with other slow watches
BATCH_BYTES = PART_BYTES  # of objects per batch, which the handler sends as one piece, encoded for each watch

T = TypeVar("T", bound=Cached)


class WatchHub(Protocol[T]):
    """The interface of the cacher to a watch."""

    def join(self, watcher: CacheWatcher[T]) -> None:
        """Offer live events to the watch, because it has got all past ones."""

    def forget(self, watcher: CacheWatcher[T]) -> None: ...

    def progress(self) -> int:
        """Request progress; returns the newest known revision."""


class CacheWatcher(Generic[T]):
    """An asynchronous iterator of non-empty lists of events: all that are pending, up to `BATCH_BYTES`.

    It ends when the watch or the cacher was closed or the client was too slow, and raises StorageError when events were lost:
    after `Compacted` the client must list again. Only one task may iterate. Cancelling `anext` loses no live events.
    """

    __slots__ = ("_bytes", "_error", "_first", "_hub", "_over", "_past", "_pending", "_waiter", "predicate", "prefix")

    def __init__(self, prefix: str, predicate: Predicate[T] | None, hub: WatchHub[T], past: Past[T] | None) -> None:
        """past: the events to deliver first. Without it `hub` must offer live events from the start."""
        self.prefix = prefix
        self.predicate = predicate
        self._hub = hub
        self._past = past
        self._first: list[WatchEvent[T]] | None = None
        self._pending: list[WatchEvent[T]] = []
        self._bytes = 0
        self._waiter: asyncio.Future[None] | None = None
        self._over = False
        self._error: StorageError | None = None

    async def look_ahead(self) -> None:
        """Read the first part of the past now, so that errors such as Compacted are raised here. Raises StorageError."""
        if self._past is not None:
            self._first = await self._earlier(self._past)

    def __aiter__(self) -> CacheWatcher[T]:
        return self

    async def __anext__(self) -> list[WatchEvent[T]]:
        if self._first:
            first, self._first = self._first, None
            return first
        while (past := self._past) is not None:
            await past.pause()
            if batch := await self._earlier(past):
                return batch
        while not self._pending:
            if self._error is not None:
                raise self._error
            if self._over:
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._next()

    def _next(self) -> list[WatchEvent[T]]:
        if self._bytes <= BATCH_BYTES:
            batch, self._pending = self._pending, []
            self._bytes = 0
            return batch
        count = size = 0
        while size < BATCH_BYTES:
            size += self._pending[count].size
            count += 1
        batch = self._pending[:count]
        del self._pending[:count]
        self._bytes -= size
        return batch

    async def _earlier(self, past: Past[T]) -> list[WatchEvent[T]] | None:
        try:
            batch = await past.next()
        except StorageError:
            self.close()
            raise
        if self._past is None:
            return None  # closed meanwhile
        if batch is None:
            self._past = None
            if not self._over:
                self._hub.join(self)
        return batch

    def offer(self, event: WatchEvent[T]) -> bool:
        """Add an event. Returns False if too much is pending; then the watch must be closed."""
        self._pending.append(event)
        self._bytes += event.size
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        return len(self._pending) <= MAX_PENDING and self._bytes <= MAX_PENDING_BYTES

    @property
    def pending(self) -> tuple[int, int]:
        """(events, bytes of their objects) that the client has not taken."""
        return len(self._pending), self._bytes

    def bookmark(self) -> None:
        """Add a bookmark with the newest revision up to which this watch has got all events.

        Does nothing while past events are being delivered: their revisions are older than the cacher's.
        """
        if self._past is None and not self._over:
            revision = self._hub.progress()
            self.offer(WatchEvent(BOOKMARK, None, revision))

    @property
    def kept(self) -> int:
        """The number of keys that its past keeps in memory."""
        return 0 if self._past is None else self._past.kept

    def lags(self, floor: int) -> bool:
        """Whether pending events are no longer in the window, which begins after `floor`. Also trims the past."""
        if self._past is not None:
            self._past.trim()
        return bool(self._pending) and self._pending[0].revision <= floor

    def end(self, revision: int, error: StorageError | None = None) -> None:
        """Accept no more events. The past up to `revision` and the pending events are still delivered, then iteration ends.

        With an error, the past is dropped, and iteration raises the error after the pending events.
        """
        if error is not None:
            self._past = None
        if self._past is not None:
            self._past.upto = revision
        self._over = True
        self._error = error
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def close(self) -> None:
        """End the watch now, without its pending events. May be called twice."""
        self._hub.forget(self)
        self._past = self._first = None
        self._pending = []
        self._bytes = 0
        self.end(0)
