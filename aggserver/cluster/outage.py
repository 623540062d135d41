"""Outage: an API server that can't be reached is logged once for all watches of it, and once when all of them reach it again.

A dozen watches notice the same outage, each at every attempt and in changing words: the connection is closed, then refused. So
the log gets each reason once, from the first watch that meets it, and at the end one line with how many watches went on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable

__all__ = ["Outage"]

log = logging.getLogger("aggserver.cluster")


class Outage:
    """The watches that can't reach a server now. A watch is any value of its own. clock: monotonic, in seconds."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = self._failed = 0.0  # the first and the last failed attempt
        self._away: set[Hashable] = set()
        self._reasons: set[str] = set()
        self._back = 0  # watches that reach the server again since it began

    def lost(self, watch: Hashable, server: str, reason: str, error: str) -> None:
        """Note that a watch can't reach the server. reason: in words that are the same for all watches. error: what it met."""
        if not self._away:
            self._began, self._back = self._clock(), 0
            self._reasons.clear()
        self._away.add(watch)
        self._failed = self._clock()
        if reason not in self._reasons:
            if self._reasons:
                log.warning("%s", error)
            else:
                log.warning("%s can't be reached: %s; watches keep what was last known, and try again", server, reason)
            self._reasons.add(reason)

    def reached(self, watch: Hashable, server: str) -> None:
        """Note that the server has answered a watch."""
        if watch in self._away:
            self._away.discard(watch)
            self._back += 1
            if not self._away:
                # Not the time until now: a watch that was resumed may get its first event, which is the answer, a minute late.
                seconds = self._failed - self._began
                log.info("%s answers again; attempts failed for %.0f s; watches that go on: %d", server, seconds, self._back)

    def ended(self, watch: Hashable) -> None:
        """Forget a watch that is followed no more."""
        self._away.discard(watch)
