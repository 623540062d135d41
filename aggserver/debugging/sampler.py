"""Takes samples of all threads, from a thread of its own, for a profile. One profile at a time, as upstream.

`sys._current_frames` names the stacks, and Linux's clock of each thread the time that it had on a CPU. That clock is read by a
system call that keeps the GIL: reading a file for each thread would give the GIL away each time, and wait for it behind the work
that is measured.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

from aggserver.debugging.profile import Profile, frames_of

__all__ = ["PERIOD", "Busy", "Sampler"]

# Nanoseconds between samples: Go's rate, 100 in a second.
PERIOD = 10_000_000

# The id of a thread's CPU clock is made of its number: CPUCLOCK_PERTHREAD_MASK and CPUCLOCK_SCHED of Linux' posix-timers_types.h.
_PER_THREAD_SCHED = 4 | 2


class Busy(Exception):
    """Another profile is being taken."""


class Sampler:
    """Takes profiles. cpu: nanoseconds that a thread has had on a CPU, by its native number; None if that is not known."""

    def __init__(self, cpu: Callable[[int], int | None] | None = None) -> None:
        self._cpu = cpu or _cpu_time
        self._lock = threading.Lock()

    def take(self, stop: threading.Event, seconds: float) -> tuple[Profile, int, int]:
        """Take samples for so long, or until `stop` is set: (profile, its begin in ns since the epoch, its length in ns).

        Blocks, so call it in a thread; that thread is left out. Raises Busy.
        """
        if not self._lock.acquire(blocking=False):
            raise Busy
        try:
            began, started = time.time_ns(), time.monotonic_ns()
            profile = Profile(PERIOD)
            until = started + int(seconds * 1e9)
            known: dict[int, int] = {}
            due = started
            self.sample(profile, known, count=False)
            while (now := time.monotonic_ns()) < until:
                due = max(due + PERIOD, now)
                if stop.wait((due - now) / 1e9):
                    break
                self.sample(profile, known)
            return profile, began, time.monotonic_ns() - started
        finally:
            self._lock.release()

    def sample(self, profile: Profile, known: dict[int, int], *, count: bool = True) -> None:
        """Add one sample of each other thread. known: the CPU times at the last sample, by native number. count: False for the
        first, before which no time has passed.
        """
        threads = {thread.ident: thread for thread in threading.enumerate()}
        own = threading.get_ident()
        for ident, frame in sys._current_frames().items():
            thread = threads.get(ident)
            if ident == own or thread is None or thread.native_id is None:
                continue
            number = thread.native_id
            total = self._cpu(number)
            spent = 0 if total is None else total - known.get(number, total)
            if total is not None:
                known[number] = total
            if count:
                profile.add(thread.name, frames_of(frame), PERIOD if total is None else spent)


def _cpu_time(number: int) -> int | None:
    if sys.platform != "linux":
        return None
    try:
        return time.clock_gettime_ns((~number << 3) | _PER_THREAD_SCHED)
    except OSError:
        return None  # the thread has ended
