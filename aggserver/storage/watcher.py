"""One watch on a cacher: what is still to be told, and the end.

Made by `cacher.Cacher.watch`, iterated by the handler of the request. The cacher only appends to it and wakes it, so a client
that reads slowly holds up nobody: its watch is ended when too much is pending, and it comes back with the last revision it
saw.
Source: k8s.io/apiserver pkg/storage/cacher/cache_watcher.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from aggserver.storage.changes import BOOKMARK, WatchEvent
from aggserver.storage.interface import StorageError

__all__ = ["CacheWatcher"]

MAX_PENDING = 16 * 1024  # events: some ten seconds of the fastest writers; upstream gives up after 1,000 and 50 ms
MAX_PENDING_BYTES = 16 << 20  # of objects, which pending events keep in memory (shared with other watches as slow)
BATCH_BYTES = 1 << 20  # of objects handed out at once: whoever sends them makes one piece of it, for each watch its own

T = TypeVar("T")

# The next part of what comes before the live events; None when there is no more of it.
Past = Callable[[], Awaitable[list[WatchEvent[T]] | None]]


class CacheWatcher(Generic[T]):
    """Iteration gives lists of events, never empty: all that is pending, up to `BATCH_BYTES`, so a busy client is told of many at
    once.

    It ends when the watch was closed, the cacher was closed or the client was too slow, and raises StorageError when events were
    lost: `Compacted` asks the client to list anew. One task iterates; a cancelled `anext` loses nothing.
    """

    __slots__ = ("_bytes", "_error", "_forget", "_over", "_past", "_pending", "_progress", "_waiter", "matches", "prefix")

    def __init__(
        self,
        prefix: str,
        matches: Callable[[T], bool] | None,
        *,
        forget: Callable[[CacheWatcher[T]], None],
        progress: Callable[[], int],
    ) -> None:
        self.prefix = prefix
        self.matches = matches
        self._forget = forget
        self._progress = progress
        self._past: Past[T] | None = None
        self._pending: list[WatchEvent[T]] = []
        self._bytes = 0
        self._waiter: asyncio.Future[None] | None = None
        self._over = False
        self._error: StorageError | None = None

    def begin(self, past: Past[T]) -> None:
        """Tells `past` before what is offered from now on."""
        self._past = past

    def __aiter__(self) -> CacheWatcher[T]:
        return self

    async def __anext__(self) -> list[WatchEvent[T]]:
        while self._past is not None:
            if batch := await self._earlier(self._past):
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
            batch = await past()
        except StorageError:
            self.close()
            raise
        if self._past is None:
            return None  # closed meanwhile
        if batch is None:
            self._past = None
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
            revision = self._progress()
            self.offer(WatchEvent(BOOKMARK, None, revision))

    def end(self, error: StorageError | None = None) -> None:
        """No more events; the past and what is pending are still told, then iteration ends, or raises `error`."""
        self._over = True
        self._error = error
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def close(self) -> None:
        """Ends it and frees what it holds, at once. May be called twice."""
        self._forget(self)
        self._past = None
        self._pending = []
        self._bytes = 0
        self.end()
