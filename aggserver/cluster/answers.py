"""Answers: a cache with a TTL for responses of the API server to reviews. Concurrent equal reviews share one request.

For TokenReview and SubjectAccessReview. A hit costs a dictionary lookup and a reading of the clock.
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
    """Holds `size` answers at most, and evicts the least recently used. `clock` is monotonic, in seconds."""

    def __init__(self, size: int, clock: Callable[[], float]) -> None:
        self._size = size
        self._clock = clock
        self._kept: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._asking: dict[K, asyncio.Task[V]] = {}

    def get(self, key: K) -> V | None:
        """The cached answer for `key`, None if there is none or it has expired."""
        entry = self._kept.get(key)
        if entry is None:
            return None
        if self._clock() >= entry[0]:
            del self._kept[key]
            return None
        self._kept.move_to_end(key)
        return entry[1]

    async def ask(self, key: K, question: Callable[[], Awaitable[tuple[V, float]]]) -> V:
        """The cached answer; without one, that of `question`, which returns an answer and its TTL in seconds (0: not cached).

        Callers with the same key share a running question. Its error is raised to all of them, and not cached. The question
        is not cancelled with its caller, because others may be waiting for it.
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
    """Retrieve a failed task's exception. asyncio would log it as never retrieved if all callers were cancelled meanwhile."""
    if not task.cancelled():
        task.exception()
