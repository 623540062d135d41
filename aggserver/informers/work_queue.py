"""WorkQueue: the keys that a controller has to handle, and the workers that do so.

As client-go's work queue: a key waits once, however often it is added, and two workers never have the same key at a time. A key
that fails, or asks for a later call, is added again after a delay, and does not block others. Other tasks run after each key,
also if `handle` never waits for anything; loops in `handle` over what may be many use `in_turns`.
Source: k8s.io/client-go util/workqueue, v0.36.3.
"""

from __future__ import annotations

import asyncio
import logging
import time
import weakref
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable, Iterator
from functools import partial
from typing import Any, Generic, TypeVar

from aggserver.meta.backoff import Backoff
from aggserver.meta.distribution import Distribution
from aggserver.meta.errors import StatusError

__all__ = ["RETRY", "RUNNING", "CallLater", "WorkQueue", "call_later", "in_turns"]

log = logging.getLogger("aggserver.controllers")

# (seconds, callback), like an event loop's `call_later`.
CallLater = Callable[[float, Callable[[], None]], object]

# Seconds before a failed key is tried again: doubled each time, up to the last.
RETRY = Backoff(initial=0.05, longest=30.0)

# Upper bounds in seconds of the histograms of work queues, as upstream: 10 ns to 10 s.
_BUCKETS = tuple(10e-9 * 10.0**n for n in range(10))

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


def call_later(seconds: float, callback: Callable[[], None]) -> object:
    return asyncio.get_running_loop().call_later(seconds, callback)


async def in_turns(items: Iterable[T], size: int, weigh: Callable[[T], int] = lambda item: 1) -> AsyncIterator[T]:
    """The items. Other tasks run whenever the weights of the items since the last time have reached `size`."""
    done = 0
    for item in items:
        yield item
        done += weigh(item)
        if done >= size:
            done = 0
            await asyncio.sleep(0)


class QueueFigures:
    """What a queue has done, for metrics. Times are by the monotonic clock, in seconds.

    waited, worked: how long keys were in the queue, and were handled. begun: when the keys that are handled now were taken.
    """

    __slots__ = ("adds", "begun", "retries", "waited", "worked")

    def __init__(self) -> None:
        self.adds = 0
        self.retries = 0
        self.waited = Distribution(_BUCKETS)
        self.worked = Distribution(_BUCKETS)
        self.begun: dict[Hashable, float] = {}


class WorkQueue(Generic[K]):
    """A queue of keys with its workers. what: names the keys in logs, and the queue in metrics.

    handle: returns the seconds until the next call for this key, or None. workers: how many keys are handled concurrently.
    """

    def __init__(
        self, what: str, handle: Callable[[K], Awaitable[float | None]], later: CallLater = call_later, *, workers: int = 1
    ) -> None:
        self._what = what
        self._handle = handle
        self._later = later
        self._workers = workers
        # In order, each key once. Not a dict: to find its first key takes time for all keys that were deleted before it.
        # The value is the time when it was added.
        self._waiting: OrderedDict[K, float] = OrderedDict()
        self.figures = QueueFigures()
        self._running: set[K] = set()
        self._wake = asyncio.Event()
        self._retries: dict[K, Iterator[float]] = {}  # the pauses of keys whose last call failed
        self._appointments: dict[K, object] = {}
        self._coming: set[K] = set()  # keys that are added when their time is over

    def add(self, key: K, *, within: float = 0.0) -> None:
        """Add a key in so many seconds, once for all calls until then: what changes often is handled once for many changes."""
        if within <= 0:
            if key not in self._waiting:
                self.figures.adds += 1
                self._waiting[key] = time.monotonic()
            self._wake.set()
        elif key not in self._coming and key not in self._waiting:
            self._coming.add(key)
            self._later(within, partial(self._come, key))

    def _come(self, key: K) -> None:
        self._coming.discard(key)
        self.add(key)

    @property
    def what(self) -> str:
        return self._what

    @property
    def depth(self) -> int:
        """The number of waiting keys."""
        return len(self._waiting)

    @property
    def idle(self) -> bool:
        """Whether no key is waiting or being handled; some may have to be tried again later."""
        return not self._waiting and not self._running

    async def run(self) -> None:
        """Handle keys until cancelled."""
        RUNNING.add(self)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._workers):
                    group.create_task(self._work())
        finally:
            RUNNING.discard(self)

    async def _work(self) -> None:
        while True:
            key = next((key for key in self._waiting if key not in self._running), None)
            if key is None:
                self._wake.clear()
                await self._wake.wait()
                continue
            figures, started = self.figures, time.monotonic()
            figures.waited.observe(started - self._waiting.pop(key))
            self._running.add(key)
            figures.begun[key] = started
            try:
                await self._call(key)
            finally:
                self._running.discard(key)
                figures.worked.observe(time.monotonic() - figures.begun.pop(key))
            await asyncio.sleep(0)

    async def _call(self, key: K) -> None:
        try:
            again = await self._handle(key)
        except Exception as error:
            self.figures.retries += 1
            again = next(self._retries.setdefault(key, RETRY.pauses()))
            # Conflicts are normal; anything else is logged.
            if not isinstance(error, StatusError) or error.code not in (404, 409):
                log.warning("%s %s: %s; trying again in %.1f s", self._what, key, error, again)
        else:
            self._retries.pop(key, None)
        if again is not None:
            self._add_after(key, again)

    def _add_after(self, key: K, seconds: float) -> None:
        """Add a key after a delay. Only its last delay counts, otherwise every event of a failing key would add retries."""
        token = self._appointments[key] = object()

        def due() -> None:
            if self._appointments.get(key) is token:
                del self._appointments[key]
                self.add(key)

        self._later(seconds, due)


# The queues of this process whose workers run, for metrics.
RUNNING: weakref.WeakSet[WorkQueue[Any]] = weakref.WeakSet()
