"""Webhook: sends events as an EventList, and again after failures of any kind, since an event that is not sent is lost.

Source: k8s.io/apiserver plugin/pkg/audit/webhook/webhook.go, pkg/util/webhook/webhook.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from aggserver.audit.backends import Deliver, LostEvents, Sink
from aggserver.audit.events import Event, event_list
from aggserver.cluster import ClusterError, Unreachable
from aggserver.meta.backoff import Backoff

__all__ = ["Poster", "sending", "waiting"]

# Upstream's: attempts in all, and how the pauses between them grow.
ATTEMPTS = 5
FACTOR, JITTER = 1.5, 0.2
REQUEST_SECONDS = 30.0


class Poster(Protocol):
    """The server that a kubeconfig names: `cluster.client.ClusterClient`."""

    async def post(self, body: bytes, seconds: float) -> None:
        """Raises ClusterError and Unreachable."""


def sending(
    poster: Poster, initial_seconds: float, *, sleep: Callable[[float], Awaitable[None]], random: Callable[[], float]
) -> Deliver:
    """initial_seconds: the pause before the second attempt. random: returns a number in [0, 1)."""
    backoff = Backoff(initial=initial_seconds, longest=float("inf"), factor=FACTOR, jitter=JITTER)

    async def deliver(events: Sequence[Event]) -> None:
        body = event_list(events)
        for attempt, pause in enumerate(backoff.pauses(random), start=1):
            try:
                await poster.post(body, REQUEST_SECONDS)
                return
            except (ClusterError, Unreachable):
                if attempt == ATTEMPTS:
                    raise
            await sleep(pause)

    return deliver


def waiting(deliver: Deliver, losses: LostEvents, *, strict: bool) -> Sink:
    """A sink whose requests wait until their event was sent. strict: tell that it was lost, so that the request is refused."""

    async def sink(event: Event) -> bool:
        try:
            await deliver((event,))
        except (ClusterError, Unreachable) as error:
            losses.lost("webhook", str(error))
            return not strict
        return True

    return sink
