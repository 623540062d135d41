"""Numbers: which floats count as integers. The keywords are in tests/cases/validation.yaml."""

from __future__ import annotations

import pytest

from aggserver.schema import numbers

INTEGRAL: dict[float, bool] = {
    0.0: True,
    1.5: False,
    -1.0: True,
    2.0**53 - 1: True,
    -(2.0**53 - 1): True,
    2.0**53: False,
    -(2.0**53): False,
    1 + 1e-10: True,
    1 + 1e-8: False,
    0.9999999999: False,
    -1 - 1e-10: False,
    float("inf"): False,
}


@pytest.mark.parametrize("value", INTEGRAL)
def test_integral(value: float) -> None:
    assert numbers.is_integral(value) is INTEGRAL[value]
