"""Pacing: how soon the API server may be asked again, after a failure and in a storm.

Used by TokenReview and SubjectAccessReview (retries, rate), and by every list-and-watch loop. Time and randomness are passed in.
Source: apiserver pkg/util/webhook/webhook.go, client-go util/flowcontrol, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from aggserver.cluster import ClusterError, Unreachable
from aggserver.meta.backoff import Backoff

__all__ = ["FOLLOW", "REVIEWS", "Sleep", "TokenBucket", "retrying", "worth_retrying"]

Sleep = Callable[[float], Awaitable[None]]
T = TypeVar("T")


# Both reviews: 500 ms, x1.5, up to a fifth more; five attempts in all, so that a sick API server isn't asked to death.
REVIEWS = Backoff(initial=0.5, longest=10.0, factor=1.5, jitter=0.2)
REVIEW_ATTEMPTS = 5

# What client-go's reflector uses: from a second up to half a minute, doubled by chance so that replicas don't come back in step.
FOLLOW = Backoff(initial=0.8, longest=30.0, jitter=1.0)


def worth_retrying(error: ClusterError | Unreachable) -> bool:
    """Whether a review that failed this way is asked again: the server said so, or failed, or dropped the connection."""
    if isinstance(error, Unreachable):
        return error.broken
    return error.retry_after > 0 or error.reason in ("InternalError", "Timeout", "TooManyRequests") or error.code == 429


async def retrying(call: Callable[[], Awaitable[T]], *, sleep: Sleep, random: Callable[[], float]) -> T:
    """`call` until it succeeds, fails for good, or has failed REVIEW_ATTEMPTS times; then its last error is raised."""
    for attempt, pause in enumerate(REVIEWS.pauses(random), start=1):
        try:
            return await call()
        except (ClusterError, Unreachable) as error:
            if attempt == REVIEW_ATTEMPTS or not worth_retrying(error):
                raise
        await sleep(pause)
    raise AssertionError("the pauses are endless")


class TokenBucket:
    """At most `rate` calls a second on average and `burst` at once; who comes too early waits its turn, in order of arrival."""

    def __init__(self, rate: float, burst: int, *, clock: Callable[[], float], sleep: Sleep) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._clock = clock
        self._sleep = sleep
        self._tokens = float(burst)
        self._seen = clock()

    async def take(self) -> None:
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._seen) * self._rate) - 1
        self._seen = now
        # A negative balance is a place in the queue: each waits until its own debt would be paid off.
        if self._tokens < 0:
            await self._sleep(-self._tokens / self._rate)
