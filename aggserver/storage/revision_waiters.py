"""RevisionWaiters: those who wait until a follower of a store has come to a revision."""

from __future__ import annotations

import asyncio
import heapq

from aggserver.storage.interface import StorageError

__all__ = ["RevisionWaiters"]


class RevisionWaiters:
    """Of one follower."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    async def wait(self, revision: int, seconds: float) -> None:
        """Return when `reached` was called with this revision or a later one. Raises TimeoutError, and what `fail` was given."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (revision, id(future), future)
        heapq.heappush(self._waiting, entry)
        try:
            async with asyncio.timeout(seconds):
                await future
        finally:
            if entry in self._waiting:
                self._waiting.remove(entry)
                heapq.heapify(self._waiting)

    def reached(self, revision: int) -> None:
        while self._waiting and self._waiting[0][0] <= revision:
            future = heapq.heappop(self._waiting)[2]
            if not future.done():
                future.set_result(None)

    def fail(self, error: StorageError) -> None:
        """Nobody waits any more: the follower has ended."""
        waiting, self._waiting = self._waiting, []
        for _, _, future in waiting:
            if not future.done():
                future.set_exception(error)
