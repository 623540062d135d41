"""Durations: what Go's time.ParseDuration takes, and its errors."""

from __future__ import annotations

import pytest

from aggserver.meta import duration

SECONDS: dict[str, float] = {
    "0": 0,
    "-0": 0,
    "+0": 0,
    "0s": 0,
    "10s": 10,
    "1m30s": 90,
    "1h1m1s": 3661,
    "1.5h": 5400,
    ".5m": 30,
    "2.s": 2,
    "300ms": 0.3,
    "5us": 5e-6,
    "5\N{MICRO SIGN}s": 5e-6,
    "5\N{GREEK SMALL LETTER MU}s": 5e-6,
    "7ns": 7e-9,
    "-1m30s": -90,
    "+2s": 2,
}


@pytest.mark.parametrize("text", SECONDS)
def test_parse(text: str) -> None:
    assert duration.parse(text) == pytest.approx(SECONDS[text], rel=1e-12)


REFUSED: dict[str, str] = {
    "": 'time: invalid duration ""',
    "-": 'time: invalid duration "-"',
    "s": 'time: invalid duration "s"',
    ".s": 'time: invalid duration ".s"',
    "--1s": 'time: invalid duration "--1s"',
    "1s.": 'time: invalid duration "1s."',
    "1": 'time: missing unit in duration "1"',
    "1s2": 'time: missing unit in duration "1s2"',
    "00": 'time: missing unit in duration "00"',
    "1d": 'time: unknown unit "d" in duration "1d"',
    "1 s": 'time: unknown unit " s" in duration "1 s"',
    "1s 1m": 'time: unknown unit "s " in duration "1s 1m"',
    "1S": 'time: unknown unit "S" in duration "1S"',
    "٣s": 'time: invalid duration "٣s"',
}


@pytest.mark.parametrize("text", REFUSED)
def test_refused(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        duration.parse(text)
    assert str(caught.value) == REFUSED[text]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("1 day 2hours", [("1", "day"), ("2", "hours")]),
        ("about 10 \t min, x5", [("10", "min")]),
        ("1.5h", [("5", "h")]),
        ("12", []),
    ],
)
def test_lengths(text: str, found: list[tuple[str, str]]) -> None:
    assert duration.lengths(text) == found
