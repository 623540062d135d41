"""Backoff: how long to wait before something that failed is tried again, longer after each failure in a row.

Pure: randomness is passed in, and waiting is the caller's. Used by every loop that tries again: requests to a cluster
(`cluster/pacing.py`), a lost store (`storage/cacher.py`), background tasks (`app/`).
Source: apimachinery pkg/util/wait/backoff.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

__all__ = ["Backoff"]


def _no_jitter() -> float:
    return 0.0


@dataclass(frozen=True, slots=True)
class Backoff:
    """initial: seconds before the first repetition. longest: seconds, before jitter. factor: from one pause to the next.

    jitter: the greatest share that is added to a pause by chance, so that many who failed together don't come back in step.
    """

    initial: float
    longest: float
    factor: float = 2.0
    jitter: float = 0.0

    def pauses(self, random: Callable[[], float] = _no_jitter) -> Iterator[float]:
        """Seconds, endlessly; begin anew after a success. `random` gives a number from [0, 1)."""
        pause = self.initial
        while True:
            yield pause * (1 + self.jitter * random())
            pause = min(pause * self.factor, self.longest)
