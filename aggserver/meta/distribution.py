"""Distribution: how often a value was in each bucket, and the sum of all. The content of one histogram.

Packages that must not know how metrics are exposed count with it; `monitoring/` reads it. It has no lock: one thread observes,
and others may read what is not the very last.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

__all__ = ["Distribution"]


class Distribution:
    """bounds: the upper bounds of the buckets, in order. counts: of values, by bucket; the last one is for those above all."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value
