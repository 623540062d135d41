from __future__ import annotations

from itertools import islice

import pytest

from aggserver.meta.backoff import Backoff


@pytest.mark.parametrize(
    ("backoff", "random", "pauses"),
    [
        pytest.param(Backoff(1.0, 60.0), 0.9, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0], id="doubled up to the longest"),
        pytest.param(Backoff(0.5, 10.0, factor=1.5), 0.9, [0.5, 0.75, 1.125, 1.6875], id="another factor"),
        pytest.param(Backoff(1.0, 3.0, jitter=1.0), 0.5, [1.5, 3.0, 4.5, 4.5], id="jitter is added to the longest too"),
    ],
)
def test_pauses(backoff: Backoff, random: float, pauses: list[float]) -> None:
    assert list(islice(backoff.pauses(lambda: random), len(pauses))) == pytest.approx(pauses)


def test_pauses_do_not_overflow() -> None:
    assert next(islice(Backoff(0.1, 5.0).pauses(), 5000, None)) == 5.0


def test_each_pause_has_its_own_jitter() -> None:
    numbers = iter([0.0, 0.5, 0.0])
    assert list(islice(Backoff(1.0, 1.0, jitter=1.0).pauses(lambda: next(numbers)), 3)) == [1.0, 1.5, 1.0]
