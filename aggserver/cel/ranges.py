"""Ranges from a minimum to a maximum, for estimated costs and sizes.

Both are unsigned 64-bit integers upstream, and saturate at the largest.
Source: cel-go checker/cost.go (SizeEstimate, CostEstimate), v0.26.0.
"""

from __future__ import annotations

import math
from typing import NamedTuple

__all__ = ["LARGEST", "ONE", "UNKNOWN", "ZERO", "Range"]

LARGEST = 2**64 - 1


class Range(NamedTuple):
    min: int
    max: int

    @classmethod
    def of(cls, value: int) -> Range:
        """A range of one exact value."""
        return cls(value, value)

    def __add__(self, other: object) -> Range:
        assert isinstance(other, Range)
        return Range(min(self.min + other.min, LARGEST), min(self.max + other.max, LARGEST))

    def __mul__(self, other: object) -> Range:
        assert isinstance(other, Range)
        return Range(min(self.min * other.min, LARGEST), min(self.max * other.max, LARGEST))

    def __or__(self, other: Range) -> Range:
        """The smallest range that covers both."""
        return Range(min(self.min, other.min), max(self.max, other.max))

    def times(self, factor: float) -> Range:
        """Multiplied and rounded up."""
        return Range(_times(self.min, factor), _times(self.max, factor))


def _times(value: int, factor: float) -> int:
    product = float(value) * factor
    return LARGEST if product >= 2.0**64 else math.ceil(product)


ZERO = Range(0, 0)
ONE = Range(1, 1)
UNKNOWN = Range(0, LARGEST)
