"""Backoff: how long to wait before retrying, longer after each failure in a row.

Pure: randomness is passed in, and the caller waits. All loops that retry use it: requests to a cluster (`cluster/pacing.py`), a
lost store (`storage/cacher.py`), background tasks (`app/`).
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
    """The pauses between retries. initial: seconds before the first retry. longest: maximum in seconds, before jitter. factor: by
    which each pause is longer than the one before.

    jitter: the maximum share of a pause that is randomly added to it, so that many that failed together don't retry together.
    """

    initial: float
    longest: float
    factor: float = 2.0
    jitter: float = 0.0

    def pauses(self, random: Callable[[], float] = _no_jitter) -> Iterator[float]:
        """The pauses in seconds, without end; call again after a success. random: returns a number in [0, 1)."""
        pause = self.initial
        while True:
            yield pause * (1 + self.jitter * random())
            pause = min(pause * self.factor, self.longest)
