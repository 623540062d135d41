"""The static cost: figures of every library, and arithmetic that stays within 64 bits."""

from __future__ import annotations

import pytest

from aggserver.cel.checker import check
from aggserver.cel.cost import estimate
from aggserver.cel.ranges import LARGEST, UNKNOWN, Range
from tests.cel.environment import ENVIRONMENT, Sizes, cases


@pytest.mark.parametrize(("rule", "source", "expected"), cases("cost"))
def test_cost(rule: str, source: str, expected: str) -> None:
    cost = estimate(check(source, ENVIRONMENT), Sizes())
    assert f"{cost.min}..{cost.max}" == expected, rule


ARITHMETIC = {
    "sum": (Range(1, 2) + Range(3, 4), Range(4, 6)),
    "sum beyond": (Range(1, LARGEST) + Range(1, 1), Range(2, LARGEST)),
    "product": (Range(2, 3) * Range(4, 5), Range(8, 15)),
    "product beyond": (UNKNOWN * Range(2, 2), UNKNOWN),
    "union": (Range(1, 2) | Range(3, 4), Range(1, 4)),
    "rounded up": (Range(1, 11).times(0.1), Range(1, 2)),
    "nothing": (Range(0, 0).times(0.1), Range(0, 0)),
    "a tenth of what is unknown": (UNKNOWN.times(0.1), Range(0, 1844674407370955264)),
    "twice what is unknown": (UNKNOWN.times(2), UNKNOWN),
}


@pytest.mark.parametrize("case", ARITHMETIC)
def test_arithmetic(case: str) -> None:
    result, expected = ARITHMETIC[case]
    assert result == expected
