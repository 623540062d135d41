"""Freshness: whether the state that a server watches in its cluster is recent enough to rely on.

A watch that fails is no reason to stop: the last known state goes on to hold, and readiness comes with a warning. But trust
that was withdrawn and policies that were added do not reach this server meanwhile. So readiness fails after STALE_SECONDS without
an answer of the cluster. Servers with client-go stay ready for ever, and notice a dead connection by pings of HTTP/2, after 45 s.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["STALE_SECONDS", "Freshness"]

# Longer than it takes to upgrade or restart the only kube-apiserver of a cluster, and its clients to reconnect: servers must not
# leave their Services because of that.
STALE_SECONDS = 300.0


class Freshness:
    """Call `heard` at each sign that the state is up to date, and `failed` at each failure. clock: monotonic, in seconds."""

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
        """How long the state was not followed, if that is too long; None otherwise. A watch without events is no failure."""
        seconds = self._clock() - self._heard
        return f"not followed for {seconds:.0f} s" if self._failing and seconds > STALE_SECONDS else None
