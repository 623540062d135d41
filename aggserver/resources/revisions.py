"""Revisions of sources that have none: numbers that grow, also over restarts, and that tell which replica has made them.

A revision is the time in microseconds, shifted by ten bits; the low ten bits are the replica's number. It is always greater than
the one before, so that clients may compare resourceVersions as numbers (since 1.35 they do), and 63 bits last until 2255. A
revision with other low bits is another replica's: nothing is known of what came after it.

Pure: the clock is passed in. Source: KEP-5504, comparable resource versions.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["REPLICAS", "Revisions"]

_BITS = 10
REPLICAS = 1 << _BITS


class Revisions:
    """clock: seconds since the epoch. replica: a number below REPLICAS, which no other replica has at the same time."""

    def __init__(self, clock: Callable[[], float], replica: int) -> None:
        self._clock = clock
        self._replica = replica
        self.last = 0

    def next(self) -> int:
        """A revision greater than all before."""
        now = int(self._clock() * 1_000_000) << _BITS | self._replica
        self.last = max(self.last + REPLICAS, now) if self.last else now
        return self.last

    def is_foreign(self, revision: int) -> bool:
        """Whether another replica, or a process before this one, has made it."""
        return revision % REPLICAS != self._replica
