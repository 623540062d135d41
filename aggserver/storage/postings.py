"""Postings: keys sorted by a number and then by key, in about 20 bytes for each.

Numbers and keys are in separate arrays, which are divided into parts of limited size, as in `ordered.py`. The keys are the
strings of the watch cache itself. So an index takes the same memory whether all objects have one value or each has its own.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from aggserver.storage.predicate import Span

__all__ = ["Postings"]

PART = 1000  # keys of a new part; with more than twice that it is divided


class Postings:
    """The keys. No key is empty, and a pair of number and key is there once."""

    __slots__ = ("_keys", "_numbers", "_starts")

    def __init__(self) -> None:
        self._numbers = [array("q")]
        self._keys: list[list[str]] = [[]]
        # The least pair that belongs to each part; the first part has all before the second.
        self._starts: list[tuple[int, str]] = [(-(1 << 63), "")]

    def __len__(self) -> int:
        return sum(map(len, self._keys))

    def add(self, number: int, keys: Sequence[str]) -> None:
        """Add sorted keys with one number, between whose first and last it has no others."""
        part, at = self._find(number, keys[0])
        self._numbers[part][at:at] = array("q", (number,)) * len(keys)
        self._keys[part][at:at] = keys
        if len(self._keys[part]) > 2 * PART:
            self._divide(part)

    def _divide(self, part: int) -> None:
        numbers, keys = self._numbers[part], self._keys[part]
        cuts = range(0, len(keys), PART)
        self._numbers[part : part + 1] = [numbers[cut : cut + PART] for cut in cuts]
        self._keys[part : part + 1] = [keys[cut : cut + PART] for cut in cuts]
        self._starts[part + 1 : part + 1] = [(numbers[cut], keys[cut]) for cut in cuts[1:]]

    def remove(self, number: int, key: str) -> bool:
        """Remove a key. False if it is not there with this number."""
        part, at = self._find(number, key)
        numbers, keys = self._numbers[part], self._keys[part]
        if at == len(keys) or (numbers[at], keys[at]) != (number, key):
            return False
        del self._numbers[part][at], self._keys[part][at]
        if not self._keys[part] and len(self._keys) > 1:
            del self._numbers[part], self._keys[part], self._starts[part]
            self._starts[0] = (-(1 << 63), "")
        return True

    def _find(self, number: int, key: str) -> tuple[int, int]:
        """The part that a pair belongs to, and its index in it."""
        part = bisect_right(self._starts, (number, key)) - 1
        numbers = self._numbers[part]
        first = bisect_left(numbers, number)
        return part, bisect_left(self._keys[part], key, first, bisect_right(numbers, number, first))

    def count(self, span: Span, start: str, end: str) -> int:
        """How many keys have a number in `span`; and lie between `start` (inclusive) and `end`, if it is one number."""
        return sum(last - first for _, first, last in self._pieces(span, start, end))

    def runs(self, span: Span, start: str, end: str) -> Iterator[list[str]]:
        """The keys with a number in `span`, in short lists; if it is one number, those between `start` and `end`, sorted."""
        for part, first, last in self._pieces(span, start, end):
            yield self._keys[part][first:last]

    def _pieces(self, span: Span, start: str, end: str) -> Iterator[tuple[int, int, int]]:
        """Parts, each with the bounds of a slice of it."""
        number, over = span
        low, high = ((number, start), (number, end)) if over - number == 1 else ((number, ""), (over, ""))
        first, at = self._find(*low)
        last, until = self._find(*high)
        for part in range(first, last + 1):
            begin = at if part == first else 0
            stop = until if part == last else len(self._keys[part])
            if begin < stop:
                yield part, begin, stop
