"""Freshness: whether what a server follows of its cluster is still what the cluster has, as far as it can know.

A watch that fails is no reason to stop: the last known state goes on to hold, and readiness comes with a warning. But trust
that was withdrawn and policies that were added do not reach this server meanwhile. So after STALE_SECONDS without a word of the
cluster readiness fails. Servers of client-go stay ready for ever, and notice a dead connection by pings of HTTP/2, after 45 s.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["STALE_SECONDS", "Freshness"]

# Longer than the only kube-apiserver of a cluster takes to be upgraded or restarted, and its clients to reconnect after that: no
# server of a cluster is to leave its Service because of that.
STALE_SECONDS = 300.0


class Freshness:
    """`heard` is called with each sign that the state is the cluster's, `failed` with each failure. clock: monotonic."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._heard = clock()
        self._failing = False

    def heard(self) -> None:
        self._heard = self._clock()
        self._failing = False

    def failed(self) -> None:
        self._failing = True

    def stale(self) -> str | None:
        """How long it was not heard of, if that is too long; None otherwise. A silent watch ends by itself, and is no failure."""
        seconds = self._clock() - self._heard
        return f"not followed for {seconds:.0f} s" if self._failing and seconds > STALE_SECONDS else None
