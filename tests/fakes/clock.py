"""FakeClock: time that passes only when someone sleeps or `advance` is called."""

from __future__ import annotations

import asyncio
import heapq
import inspect
import itertools
import time
from collections.abc import Callable

from tests.waiting import HANG_SECONDS


class CountedLoop:
    """Counts the iterations of the event loop."""

    def __init__(self) -> None:
        self.turn = 0
        self._task = asyncio.create_task(self._count())

    async def _count(self) -> None:
        while True:
            self.turn += 1
            await asyncio.sleep(0)

    def stop(self) -> None:
        self._task.cancel()


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


class SteppedClock:
    """Time that passes only when nothing else is left to do: then `until` goes on to the end of the next sleep.

    For what races with a sleep, such as a deadline. The object itself is a clock.
    """

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Event]] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        over = asyncio.Event()
        sleeper = (self.now + seconds, next(self._order), over)
        heapq.heappush(self._sleepers, sleeper)
        try:
            await over.wait()
        finally:
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)
                heapq.heapify(self._sleepers)

    async def until(self, condition: Callable[[], object]) -> None:
        for _ in range(10_000):
            await settled()
            if condition():
                return
            self.now, _, over = heapq.heappop(self._sleepers)
            over.set()
        raise AssertionError("it never came to hold")


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
