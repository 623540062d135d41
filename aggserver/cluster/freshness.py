"""Freshness: whether the state that a server watches in its cluster is recent enough to rely on.

While a watch fails, the server goes on with the last known state, and readiness has a warning. But changes do not reach it, such
as CAs that are not trusted any more, and new policies. So readiness fails after STALE_SECONDS without a response of the cluster.
Servers with client-go stay ready for ever, and notice a dead connection by pings of HTTP/2, after 45 s.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["STALE_SECONDS", "Freshness"]

# Longer than the upgrade or restart of a cluster's only kube-apiserver and the reconnection of its clients, which must not remove
# servers from their Services.
STALE_SECONDS = 300.0


class Freshness:
    """Call `succeeded` at each sign that the state is up to date, and `failed` at each failure. clock: monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._succeeded_at = clock()
        self._failing = False

    def succeeded(self) -> None:
        self._succeeded_at = self._clock()
        self._failing = False

    def failed(self) -> None:
        self._failing = True

    def stale(self) -> str | None:
        """For how long the watch has failed, as text; None if not for long. A watch without events is no failure."""
        seconds = self._clock() - self._succeeded_at
        return f"not followed for {seconds:.0f} s" if self._failing and seconds > STALE_SECONDS else None
