"""How the time for an input grows with its size.

The size grows until a run takes long enough to be measured, and on until it takes as long as a request may hold the server.
Time is that of the process, the least of a few runs, so that other processes count little. What more than triples twice in a row,
also when it is measured again, is not linear: then it would double, and even a sort would do little more.
"""

from __future__ import annotations

import gc
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

__all__ = ["Case", "Finding", "find"]

# Seconds. What takes less than the first says nothing; beyond the second, nothing new would show.
_MEASURABLE = 0.02
_LONG = 0.4
# Shorter runs count as this long, since what they take may be the clock's work.
_LEAST = 0.001
# After so many, a run is given up, even within a pattern.
_ENDLESS = 20.0
# The size at which to begin, in parts.
_FIRST = 8
_RATIO = 3.0
_RUNS = 3


@dataclass(frozen=True)
class Case:
    """make: an input with so many parts. read: what is done with it; errors of the kind that a client can cause are its answer.

    most: the largest number of parts that a request can have.
    """

    name: str
    make: Callable[[int], Any]
    read: Callable[[Any], object]
    most: int = 400_000


@dataclass(frozen=True)
class Finding:
    """problem: what is wrong; '' if nothing. seconds: the time for `size` parts."""

    case: Case
    problem: str
    size: int
    seconds: float


class _EndlessError(BaseException):
    """A run has taken _ENDLESS."""


def _give_up(number: int, frame: FrameType | None) -> None:
    raise _EndlessError


def find(case: Case) -> Finding:
    """Only in the main thread, since it sets a signal's handler."""
    size = min(_FIRST, case.most // 2)
    previous = signal.signal(signal.SIGPROF, _give_up)
    try:
        before = seconds = _timed(case, size)
        while seconds < _LONG and 2 * size <= case.most:
            factor = 2 if seconds > _LEAST or 8 * size > case.most else 8
            size, before = factor * size, seconds
            seconds = _timed(case, size)
            if seconds > _MEASURABLE and seconds > _RATIO * before and (grown := _grows(case, size)):
                return Finding(case, grown, size, seconds)
    except (RecursionError, MemoryError, AssertionError, SystemError) as error:
        return Finding(case, f"{type(error).__name__} with {size:,} parts: {error}"[:300], size, 0.0)
    except _EndlessError:
        return Finding(case, f"no end with {size:,} parts", size, _ENDLESS)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)
    return Finding(case, "", size, seconds)


def _grows(case: Case, size: int) -> str:
    """What is told of growth that is certain; '' if it is not. size: at which a run took longer than it should."""
    for _ in range(2):
        times = [max(_LEAST, min(_timed(case, each) for _ in range(_RUNS))) for each in (size // 2, size, 2 * size)]
        if min(times[1] / times[0], times[2] / times[1]) <= _RATIO:
            return ""
    return ", ".join(
        f"{each:,} parts {seconds * 1000:,.0f} ms" for each, seconds in zip((size // 2, size, 2 * size), times, strict=True)
    )


def _timed(case: Case, size: int) -> float:
    given = case.make(size)
    gc.disable()
    signal.setitimer(signal.ITIMER_PROF, _ENDLESS)
    try:
        begun = time.process_time()
        try:
            case.read(given)
        except (RecursionError, AssertionError, SystemError):
            raise
        except Exception:  # the answer to a request
            pass
        return time.process_time() - begun
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        gc.enable()
