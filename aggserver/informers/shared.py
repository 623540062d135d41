"""SharedTask: one task for several controllers, such as the informer of a kind that all of them need. It runs while they do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

__all__ = ["SharedTask"]


class SharedTask:
    """run: what the task does, begun with the first user, again after all had ended."""

    def __init__(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._run = run
        self._users = 0
        self._task: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Be a user until cancelled. Raises what the task raises."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        task = self._task
        self._users += 1
        try:
            await asyncio.shield(task)
        finally:
            self._users -= 1
            if not self._users:
                task.cancel()
                await _ended(task)


async def _ended(task: Awaitable[None]) -> None:
    await asyncio.gather(task, return_exceptions=True)
