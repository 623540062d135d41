"""CompletionIndexes: those of a Job as intervals. Their text is that of its status and of its success policy: `0,3-5`.

A Job may have two billion, of which mostly neighbours have succeeded. Pure.
Source: k8s.io/kubernetes pkg/controller/job/indexed_job_utils.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

__all__ = ["CompletionIndexes"]

_DIGITS = 10  # of the largest int32


class CompletionIndexes(NamedTuple):
    """intervals: their first and last numbers, in order, with gaps between them."""

    intervals: tuple[tuple[int, int], ...] = ()

    @classmethod
    def parse(cls, text: str, below: int) -> CompletionIndexes:
        """Those of a text that are below a number; none of a text that is not of this form."""
        found = []
        for part in text.split(",") if text else ():
            first, dash, last = part.partition("-")
            numbers = [first, last if dash else first]
            if not all(each.isascii() and each.isdigit() and len(each) <= _DIGITS for each in numbers):
                return cls()
            found.append((int(numbers[0]), min(int(numbers[1]), below - 1)))
        return cls._merged(each for each in found if each[0] <= each[1])

    @classmethod
    def of(cls, numbers: Iterable[int]) -> CompletionIndexes:
        return cls._merged((number, number) for number in numbers)

    @classmethod
    def _merged(cls, intervals: Iterable[tuple[int, int]]) -> CompletionIndexes:
        merged: list[tuple[int, int]] = []
        for first, last in sorted(intervals):
            if merged and first <= merged[-1][1] + 1:
                merged[-1] = merged[-1][0], max(merged[-1][1], last)
            else:
                merged.append((first, last))
        return cls(tuple(merged))

    def __or__(self, other: object) -> CompletionIndexes:
        assert isinstance(other, CompletionIndexes)
        return self._merged((*self.intervals, *other.intervals))

    def __and__(self, other: object) -> CompletionIndexes:
        """Those of both, found in one pass."""
        assert isinstance(other, CompletionIndexes)
        found, mine, theirs = [], 0, 0
        while mine < len(self.intervals) and theirs < len(other.intervals):
            (first, last), (begin, end) = self.intervals[mine], other.intervals[theirs]
            if max(first, begin) <= min(last, end):
                found.append((max(first, begin), min(last, end)))
            if last < end:
                mine += 1
            else:
                theirs += 1
        return CompletionIndexes(tuple(found))

    @property
    def total(self) -> int:
        return sum(last - first + 1 for first, last in self.intervals)

    def others(self, below: int) -> Iterator[int]:
        """Those that are not among these, in order."""
        begin = 0
        for first, last in (*self.intervals, (below, below)):
            yield from range(begin, min(first, below))
            begin = last + 1

    def __str__(self) -> str:
        """As upstream, two neighbours are no range."""
        parts = (
            f"{first}" if first == last else f"{first}{',' if last == first + 1 else '-'}{last}" for first, last in self.intervals
        )
        return ",".join(parts)
