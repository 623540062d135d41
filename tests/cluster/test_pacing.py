from __future__ import annotations

from itertools import islice

import pytest

from aggserver.cluster import ClusterError, Unreachable
from aggserver.cluster.pacing import RECONNECT, REVIEWS, TokenBucket, retrying, worth_retrying
from aggserver.meta.backoff import Backoff
from tests.fakes.clock import FakeClock


@pytest.mark.parametrize(
    ("backoff", "random", "pauses"),
    [
        pytest.param(REVIEWS, 0.0, [0.5, 0.75, 1.125, 1.6875], id="reviews, no jitter"),
        pytest.param(REVIEWS, 0.5, [0.55, 0.825, 1.2375, 1.85625], id="reviews, half of the jitter"),
        pytest.param(RECONNECT, 0.0, [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0], id="list and watch, up to half a minute"),
    ],
)
def test_pauses(backoff: Backoff, random: float, pauses: list[float]) -> None:
    assert list(islice(backoff.pauses(lambda: random), len(pauses))) == pytest.approx(pauses)


@pytest.mark.parametrize(
    ("error", "again"),
    [
        pytest.param(ClusterError(500, "InternalError", "x"), True, id="internal error"),
        pytest.param(ClusterError(504, "Timeout", "x"), True, id="timeout"),
        pytest.param(ClusterError(429, "TooManyRequests", "x"), True, id="too many"),
        pytest.param(ClusterError(429, "", "slow down"), True, id="too many, plain text"),
        pytest.param(ClusterError(503, "ServiceUnavailable", "x", 1), True, id="says when to come back"),
        pytest.param(ClusterError(503, "ServiceUnavailable", "x"), False, id="unavailable"),
        pytest.param(ClusterError(403, "Forbidden", "x"), False, id="forbidden"),
        pytest.param(Unreachable("x", broken=True), True, id="connection broke"),
        pytest.param(Unreachable("x"), False, id="connection refused"),
    ],
)
def test_worth_retrying(error: ClusterError | Unreachable, again: bool) -> None:
    assert worth_retrying(error) is again


async def test_retrying_gives_up_after_five_attempts() -> None:
    clock, calls = FakeClock(), []

    async def call() -> None:
        calls.append(1)
        raise ClusterError(500, "InternalError", "sick")

    with pytest.raises(ClusterError, match="sick"):
        await retrying(call, sleep=clock.sleep, random=lambda: 0.0)
    assert len(calls) == 5
    assert clock.slept == [0.5, 0.75, 1.125, 1.6875]


async def test_retrying_returns_the_first_success() -> None:
    clock, outcomes = FakeClock(), [Unreachable("gone", broken=True), None]

    async def call() -> str:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome
        return "fine"

    assert await retrying(call, sleep=clock.sleep, random=lambda: 0.0) == "fine"
    assert clock.slept == [0.5]


async def test_token_bucket_lets_a_burst_through_and_then_paces() -> None:
    clock = FakeClock()
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    bucket = TokenBucket(10.0, 3, clock=clock, sleep=sleep)
    for _ in range(5):
        await bucket.take()
    assert waits == pytest.approx([0.1, 0.2])
    clock.advance(60.0)
    waits.clear()
    for _ in range(4):
        await bucket.take()
    assert waits == pytest.approx([0.1])
