"""Workers: threads for what takes long of a request, so that the event loop is free, in turns by user.

Each user has a queue. The threads take from the queues by what their users have had, counted in bytes: who sends one body waits
for what runs at that moment, however many bodies another has sent. A queue is bounded. And one of several threads takes no large
work, so that what is short waits for nothing large.

The work should be plain Python, whose thread lets the others run: a single call into C that takes long would hold all of them.
Source for the turns: Start-time Fair Queueing (Goyal, Vin, Cheng 1996). Upstream has goroutines and API Priority and Fairness.
"""

from __future__ import annotations

import asyncio
import heapq
import threading
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

from aggserver.meta import errors

__all__ = ["LARGE_BYTES", "MAX_WAITING_BYTES", "OBJECTS", "Workers"]

P = ParamSpec("P")
T = TypeVar("T")

# Work on more than this is large: a tenth of a second and more for YAML.
LARGE_BYTES = 256 * 1024
# The work that one user may have waiting. What waits behind more would not be done within the minute that a request has.
MAX_WAITING_BYTES = 32 * 1024 * 1024
# Work on less counts as this much: it has costs of its own.
_LEAST_BYTES = 4 * 1024
# With more users, those who are not behind are forgotten.
_MAX_USERS = 1000


@dataclass(order=True)
class _Work:
    """start: what its user has had before it, or all others when it came, if that is more. is_waiting: it counts as such."""

    start: int
    number: int
    user: str = field(compare=False)
    size: int = field(compare=False)
    function: Callable[[], Any] = field(compare=False)
    result: Future[Any] = field(compare=False, default_factory=Future)
    is_waiting: bool = field(compare=False, default=True)


class Workers:
    """name: of the threads. Usable from several event loops."""

    def __init__(self, threads: int, name: str) -> None:
        self._threads = ThreadPoolExecutor(threads, name)
        self._max_large = max(threads - 1, 1)
        self._lock = threading.Lock()
        self._number = 0
        # Work that waits, the large apart; and how much large work runs.
        self._small: list[_Work] = []
        self._large: list[_Work] = []
        self._running_large = 0
        # The start of the last work that was taken; what each user has had, and has waiting.
        self._now = 0
        self._had: dict[str, int] = {}
        self._waiting: defaultdict[str, int] = defaultdict(int)

    async def run(self, user: str, size: int, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the function in a thread, when it is the user's turn. size: in bytes, of what it works on.

        Raises 429 if too much of the user is waiting. If it is cancelled, the function is not called unless it runs already.
        """
        work = self._put(user, max(size, _LEAST_BYTES), lambda: function(*args, **kwargs))
        self._threads.submit(self._work)
        try:
            result: T = await asyncio.wrap_future(work.result)
        except asyncio.CancelledError:
            self._give_up(work)
            raise
        return result

    def _put(self, user: str, size: int, function: Callable[[], Any]) -> _Work:
        with self._lock:
            if self._waiting[user] and self._waiting[user] + size > MAX_WAITING_BYTES:
                raise errors.too_many_requests()
            self._waiting[user] += size
            if len(self._had) > _MAX_USERS:
                self._had = {name: had for name, had in self._had.items() if had > self._now}
            self._number += 1
            work = _Work(max(self._now, self._had.get(user, 0)), self._number, user, size, function)
            self._had[user] = work.start + size
            heapq.heappush(self._large if size > LARGE_BYTES else self._small, work)
            return work

    def _work(self) -> None:
        """Do work until there is none for this thread. As many calls of it are submitted as there is work."""
        while self._do_next():
            pass

    def _do_next(self) -> bool:
        work = self._take()
        if work is None:
            return False
        try:
            result = work.function()
        except BaseException as error:
            self._done(work)
            work.result.set_exception(error)
        else:
            self._done(work)
            work.result.set_result(result)
        return True

    def _take(self) -> _Work | None:
        with self._lock:
            while (queue := self._next()) is not None:
                work = heapq.heappop(queue)
                self._now = max(self._now, work.start)
                self._forget(work)
                if work.result.set_running_or_notify_cancel():
                    self._running_large += queue is self._large
                    return work
            return None

    def _next(self) -> list[_Work] | None:
        """The queue whose first work is next; None if there is nothing that may run."""
        queues = [queue for queue in (self._small, self._large if self._running_large < self._max_large else []) if queue]
        return min(queues, key=lambda queue: queue[0], default=None)

    def _give_up(self, work: _Work) -> None:
        """Hold nothing of what is not wanted any more, though it is taken from its queue only when its turn comes."""
        with self._lock:
            if work.is_waiting:
                work.function = _nothing
                self._forget(work)

    def _forget(self, work: _Work) -> None:
        if not work.is_waiting:
            return
        work.is_waiting = False
        self._waiting[work.user] -= work.size
        if not self._waiting[work.user]:
            del self._waiting[work.user]
        if not self._waiting:
            # All that waited has been taken: nobody is behind.
            self._had.clear()
            self._now = 0

    def _done(self, work: _Work) -> None:
        with self._lock:
            self._running_large -= work.size > LARGE_BYTES


def _nothing() -> None:
    """In place of a function that is not called."""


# For what is done with large objects: pruning and defaulting, patches, managedFields.
OBJECTS = Workers(3, "objects")
