"""Pacing: backoff after failures, retries and rate limit of requests to the API server.

For TokenReview and SubjectAccessReview (retries, rate limit), and for list and watch and objects that are reconciled (backoff).
Clocks and random numbers are arguments.
Source: apiserver pkg/util/webhook/webhook.go, client-go util/flowcontrol, v0.36.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NoReturn, TypeVar

from aggserver.cluster import ClusterError, Unreachable
from aggserver.meta.backoff import Backoff

__all__ = ["RECONNECT", "REVIEWS", "Sleep", "TokenBucket", "retrying", "settling", "worth_retrying"]

Sleep = Callable[[float], Awaitable[None]]
T = TypeVar("T")


# As upstream: 500 ms, x1.5, up to 20 % more, and five attempts in all, so as not to overload a failing API server.
REVIEWS = Backoff(initial=0.5, longest=10.0, factor=1.5, jitter=0.2)
REVIEW_ATTEMPTS = 5

# For list and watch, as client-go's reflector. The large jitter keeps replicas from retrying at the same time.
RECONNECT = Backoff(initial=0.8, longest=30.0, jitter=1.0)


def worth_retrying(error: ClusterError | Unreachable) -> bool:
    """Whether to retry a review after `error`: the server asked for it, failed, or closed the connection."""
    if isinstance(error, Unreachable):
        return error.broken
    return error.retry_after > 0 or error.reason in ("InternalError", "Timeout", "TooManyRequests") or error.code == 429


async def retrying(call: Callable[[], Awaitable[T]], *, sleep: Sleep, random: Callable[[], float]) -> T:
    """The result of `call`, retried up to REVIEW_ATTEMPTS attempts while its errors are worth it. Raises its last error."""
    for attempt, pause in enumerate(REVIEWS.pauses(random), start=1):
        try:
            return await call()
        except (ClusterError, Unreachable) as error:
            if attempt == REVIEW_ATTEMPTS or not worth_retrying(error):
                raise
        await sleep(pause)
    raise AssertionError("the pauses are endless")


async def settling(
    changed: asyncio.Event, settle: Callable[[], Awaitable[bool]], *, sleep: Sleep, random: Callable[[], float]
) -> NoReturn:
    """Call `settle` whenever `changed` is set, and again after a pause each time it returns False; until cancelled."""
    pauses = RECONNECT.pauses(random)
    while True:
        await changed.wait()
        changed.clear()
        if await settle():
            pauses = RECONNECT.pauses(random)
        else:
            await sleep(next(pauses))
            changed.set()


class TokenBucket:
    """Limits calls to `rate` per second on average and `burst` at once. Further callers wait, in order of arrival."""

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
        # A negative balance is a position in the queue: a caller waits until the tokens that it lacks have accrued.
        if self._tokens < 0:
            await self._sleep(-self._tokens / self._rate)
