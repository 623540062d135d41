"""Answers: what the API server said a moment ago, and one question in place of many equal ones at the same time.

Used for TokenReview and SubjectAccessReview. A hit costs one dictionary look-up and one reading of the clock.
Source: k8s.io/apiserver pkg/authentication/token/cache (one shared look-up), apimachinery pkg/util/cache, v0.36.3.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

__all__ = ["Answers"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Answers(Generic[K, V]):
    """At most `size` answers; the least recently used goes first. `clock` in seconds, monotonic."""

    def __init__(self, size: int, clock: Callable[[], float]) -> None:
        self._size = size
        self._clock = clock
        self._kept: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._asking: dict[K, asyncio.Task[V]] = {}

    def get(self, key: K) -> V | None:
        """The answer kept under `key`, None if there is none or its time is over."""
        entry = self._kept.get(key)
        if entry is None:
            return None
        if self._clock() >= entry[0]:
            del self._kept[key]
            return None
        self._kept.move_to_end(key)
        return entry[1]

    async def ask(self, key: K, question: Callable[[], Awaitable[tuple[V, float]]]) -> V:
        """The kept answer, that of the same question under way, or a new one. `question` gives the answer and for how many
        seconds it holds (0: not kept). What it raises reaches everyone who waits, and is not kept.

        The question outlives the asker: a client that hangs up doesn't spoil the answer for the others.
        """
        kept = self.get(key)
        if kept is not None:
            return kept
        task = self._asking.get(key)
        if task is None:
            task = asyncio.ensure_future(self._put(key, question))
            self._asking[key] = task
            task.add_done_callback(_retrieve)
        return await asyncio.shield(task)

    async def _put(self, key: K, question: Callable[[], Awaitable[tuple[V, float]]]) -> V:
        try:
            answer, seconds = await question()
        finally:
            del self._asking[key]
        if seconds > 0:
            self._kept[key] = (self._clock() + seconds, answer)
            self._kept.move_to_end(key)
            if len(self._kept) > self._size:
                self._kept.popitem(last=False)
        return answer


def _retrieve(task: asyncio.Task[V]) -> None:
    """Marks a failure as seen: when every asker has gone, nobody is left to be told."""
    if not task.cancelled():
        task.exception()
