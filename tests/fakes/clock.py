"""FakeClock: time that passes only when someone sleeps or `advance` is called."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable

from tests.waiting import HANG_SECONDS


class FakeClock:
    """The object itself is a clock (`clock()`), and `clock.sleep` replaces a sleep. slept: the seconds of every sleep."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds

    async def sleep(self, seconds: float) -> None:
        """Advance the time at once, and let other tasks run."""
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


async def until(condition: Callable[[], object]) -> None:
    """Let other tasks run until `condition`, or what it makes when that is awaited, holds.

    Their clock stands still; threads that take part may need real time.
    """
    deadline = time.monotonic() + HANG_SECONDS
    while True:
        holds = condition()
        if await holds if inspect.isawaitable(holds) else holds:
            return
        if time.monotonic() > deadline:
            raise AssertionError("it never came to hold")
        await asyncio.sleep(0)


async def settled() -> None:
    """Let other tasks run until they wait for something. No time passes."""
    for _ in range(50):
        await asyncio.sleep(0)
