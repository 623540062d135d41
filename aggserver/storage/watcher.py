"""One watch on a cacher: what is still to be told, and the end.

Made by `cacher.Cacher.watch`, iterated by the handler of the request. The cacher only appends to it and wakes it, so a client
that reads slowly holds up nobody: its watch is ended when too much is pending, or when what is pending is held in memory for it
alone, and it comes back with the last revision it saw.
Source: k8s.io/apiserver pkg/storage/cacher/cache_watcher.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from aggserver.storage.changes import BOOKMARK, Cached, WatchEvent
from aggserver.storage.interface import StorageError
from aggserver.storage.past import PART_BYTES, Past

__all__ = ["CacheWatcher", "Feed"]

MAX_PENDING = 16 * 1024  # events: some ten seconds of the fastest writers; upstream gives up after 1,000 and 50 ms
MAX_PENDING_BYTES = 16 << 20  # of objects, which pending events keep in memory (shared with other watches as slow)
BATCH_BYTES = PART_BYTES  # of objects handed out at once: whoever sends them makes one piece of it, for each watch its own

T = TypeVar("T", bound=Cached)


class Feed(Protocol[T]):
    """The cacher, as its watches see it."""

    def join(self, watcher: CacheWatcher[T]) -> None:
        """From now on events are offered to it: it has been told all that went before."""

    def forget(self, watcher: CacheWatcher[T]) -> None: ...

    def progress(self) -> int:
        """The newest revision."""


class CacheWatcher(Generic[T]):
    """Iteration gives lists of events, never empty: all that is pending, up to `BATCH_BYTES`, so a busy client is told of many at
    once.

    It ends when the watch was closed, the cacher was closed or the client was too slow, and raises StorageError when events were
    lost: `Compacted` asks the client to list anew. One task iterates; a cancelled `anext` loses nothing that is live.
    """

    __slots__ = ("_bytes", "_error", "_feed", "_first", "_over", "_past", "_pending", "_waiter", "matches", "prefix")

    def __init__(self, prefix: str, matches: Callable[[T], bool] | None, feed: Feed[T], past: Past[T] | None) -> None:
        """past: what is told first; without it the feed offers events from the start."""
        self.prefix = prefix
        self.matches = matches
        self._feed = feed
        self._past = past
        self._first: list[WatchEvent[T]] | None = None
        self._pending: list[WatchEvent[T]] = []
        self._bytes = 0
        self._waiter: asyncio.Future[None] | None = None
        self._over = False
        self._error: StorageError | None = None

    async def look_ahead(self) -> None:
        """Reads the first part of the past, so that a past that is forgotten is known at once. Raises StorageError."""
        if self._past is not None:
            self._first = await self._earlier(self._past)

    def __aiter__(self) -> CacheWatcher[T]:
        return self

    async def __anext__(self) -> list[WatchEvent[T]]:
        if self._first:
            first, self._first = self._first, None
            return first
        while (past := self._past) is not None:
            # Parts follow upon each other as fast as the client takes them: the others' turn comes between.
            await asyncio.sleep(0)
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
                self._feed.join(self)
        return batch

    def offer(self, event: WatchEvent[T]) -> bool:
        """Adds an event; False if there were too many, and the watch is over."""
        self._pending.append(event)
        self._bytes += event.size
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        return len(self._pending) <= MAX_PENDING and self._bytes <= MAX_PENDING_BYTES

    def bookmark(self) -> None:
        """Adds a bookmark at the newest revision up to which this watch has been told all.

        Nothing while the past is still being told: its revisions come after the objects they belong to.
        """
        if self._past is None and not self._over:
            revision = self._feed.progress()
            self.offer(WatchEvent(BOOKMARK, None, revision))

    def lags(self, floor: int) -> bool:
        """Whether events are pending that the window, which begins after `floor`, no longer has; the past lets go of such."""
        if self._past is not None:
            self._past.trim()
        return bool(self._pending) and self._pending[0].revision <= floor

    def end(self, revision: int, error: StorageError | None = None) -> None:
        """No more events; the past up to `revision` and what is pending are still told, then iteration ends.

        With an error iteration raises it: the past is no longer there.
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
        """Ends it and frees what it holds, at once. May be called twice."""
        self._feed.forget(self)
        self._past = self._first = None
        self._pending = []
        self._bytes = 0
        self.end(0)
