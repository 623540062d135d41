"""Background tasks of a server, restarted when they fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from aggserver.informers.kept_up import kept_up

__all__ = ["Task", "supervise"]

# The task's name in logs, and a function that makes a new coroutine for each start.
Task = tuple[str, Callable[[], Coroutine[Any, Any, None]]]


class supervise:  # noqa: N801 - reads as a statement: `async with supervise(...)`
    """Runs background tasks for the duration of the block.

    A task that fails is logged and restarted after a pause. No task stops another.
    """

    def __init__(self, *tasks: Task) -> None:
        self._tasks = tasks
        self._running: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> None:
        for name, make in self._tasks:
            self._running.append(asyncio.create_task(kept_up(name, make)))

    def cancel(self) -> None:
        """Cancels all tasks; the end of the block waits for them."""
        for task in self._running:
            task.cancel()

    async def __aexit__(self, *_: object) -> None:
        self.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
