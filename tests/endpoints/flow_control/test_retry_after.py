"""Retry-After: longer while much is rejected, and spread."""

from __future__ import annotations

from aggserver.endpoints.flow_control.retry_after import RetryAfter


def test_it_doubles_while_much_is_rejected_and_shrinks_when_little_is() -> None:
    told = RetryAfter(lambda below: 0)
    seconds = [min([told.reject(100 + second) for _ in range(100)]) for second in range(70)]
    assert sorted(set(seconds)) == [1, 2, 4, 8, 16, 32]
    assert seconds == sorted(seconds)
    assert told.reject(260) < 32
    assert told.reject(1000) == 1


def test_clients_are_told_different_times() -> None:
    numbers = iter(range(1000))
    told = RetryAfter(lambda below: next(numbers) % below)
    assert {told.reject(100.0) for _ in range(10)} == {1, 2}
