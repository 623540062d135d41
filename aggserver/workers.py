"""Workers: threads for the long parts of requests, so that the event loop stays free. Users take turns.

Each user has a queue. The threads take work from the queue of the user who has had least, counted in bytes: a user who sends one
body waits only for the work that runs at that moment, however many bodies another user has sent. A queue is bounded. One of
several threads takes no large work, so that short work never waits for large work.

The work should be plain Python, during which other threads can run: a single long call into C would hold the GIL.
Source for the turns: Start-time Fair Queueing (Goyal, Vin, Cheng 1996). Upstream has goroutines and API Priority and Fairness.
"""

from __future__ import annotations

import asyncio
import heapq
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

from aggserver.meta import errors

__all__ = ["LARGE_BYTES", "MAX_WAITING_BYTES", "OBJECTS", "Workers", "pools"]

P = ParamSpec("P")
T = TypeVar("T")

# Work on more than this is large: a tenth of a second and more for YAML.
LARGE_BYTES = 256 * 1024
# Bytes of work that one user may have waiting. More would not be done within the minute that a request has.
MAX_WAITING_BYTES = 32 * 1024 * 1024
# Work on fewer bytes counts as this many, for the costs that all work has.
_LEAST_BYTES = 4 * 1024
# With more users, those whose next work would be due now are forgotten.
_MAX_USERS = 1000


@dataclass(order=True)
class _Work:
    """A piece of work. start: its start tag of Start-time Fair Queueing, in bytes. is_waiting: whether it counts as waiting."""

    start: int
    number: int
    user: str = field(compare=False)
    size: int = field(compare=False)
    function: Callable[[], Any] = field(compare=False)
    result: Future[Any] = field(compare=False, default_factory=Future)
    is_waiting: bool = field(compare=False, default=True)


class Workers:
    """A pool of threads. name: of the threads. Usable from several event loops."""

    def __init__(self, threads: int, name: str) -> None:
        self.name = name
        self._threads = ThreadPoolExecutor(threads, name)
        self._max_large = max(threads - 1, 1)
        self._lock = threading.Lock()
        self._number = 0
        # The waiting work, small and large apart, and the number of large pieces that are running.
        self._small: list[_Work] = []
        self._large: list[_Work] = []
        self._running_large = 0
        # The virtual time: the start tag of the last work that was taken. By user: the next start tag, and the waiting bytes.
        self._now = 0
        self._had: dict[str, int] = {}
        self._waiting: defaultdict[str, int] = defaultdict(int)

        _all.append(self)

    @property
    def waiting(self) -> tuple[int, int]:
        """(pieces, bytes) of work that waits."""
        with self._lock:
            return len(self._small) + len(self._large), sum(self._waiting.values())

    async def run(self, user: str, size: int, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the function in a thread, when it is the user's turn. size: in bytes, of what it works on.

        It sees the context variables of the caller, as in `asyncio.to_thread`.
        Raises 429 if too much work of the user is waiting. If cancelled, the function is not called, unless it runs already.
        """
        context = copy_context()
        work = self._put(user, max(size, _LEAST_BYTES), lambda: context.run(function, *args, **kwargs))
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
        """Do work until there is none for this thread. This is submitted once for each piece of work."""
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
        """The queue whose first work is next; None if no work may run now."""
        queues = [queue for queue in (self._small, self._large if self._running_large < self._max_large else []) if queue]
        return min(queues, key=lambda queue: queue[0], default=None)

    def _give_up(self, work: _Work) -> None:
        """Release what cancelled work holds. The work itself stays in its queue until its turn comes."""
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
            # All waiting work has been taken, so all users start equal again.
            self._had.clear()
            self._now = 0

    def _done(self, work: _Work) -> None:
        with self._lock:
            self._running_large -= work.size > LARGE_BYTES


def _nothing() -> None:
    """The function of cancelled work."""


_all: list[Workers] = []


def pools() -> Sequence[Workers]:
    """All pools of this process, which are made with the modules that use them."""
    return _all


# For work on large objects: pruning and defaulting, patches, managedFields.
OBJECTS = Workers(3, "objects")
