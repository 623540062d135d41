"""Postings: keys sorted by a number and then by key, in about 20 bytes for each. Pure.

Numbers and keys are in separate arrays, which are divided into parts of limited size, as in `ordered.py`. The keys are the
strings of the watch cache itself. So an index takes the same memory whether all objects have one value or each has its own.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from aggserver.storage.predicate import Span

__all__ = ["Piece", "Postings"]

# A slice of a part: the part, its first and its last index.
Piece = tuple[int, int, int]

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

    def pieces(self, span: Span, start: str, end: str) -> Sequence[Piece]:
        """The slices that have the keys with a number in `span`. They are right until something is added or removed.

        If it is one number, only keys between `start` (inclusive) and `end`, sorted.
        """
        number, over = span
        low, high = (number, ""), (over, "")
        if over - number == 1:
            low, high = (number, start), (number, end)
            part = bisect_right(self._starts, low) - 1
            numbers, keys = self._numbers[part], self._keys[part]
            first = bisect_left(numbers, number)
            last = bisect_right(numbers, number, first)
            if last < len(numbers):  # nearly always
                first = bisect_left(keys, start, first, last)
                last = bisect_left(keys, end, first, last)
                return [(part, first, last)] if first < last else ()
        first_part, at = self._find(*low)
        last_part, until = self._find(*high)
        found = []
        for part in range(first_part, last_part + 1):
            begin = at if part == first_part else 0
            stop = until if part == last_part else len(self._keys[part])
            if begin < stop:
                found.append((part, begin, stop))
        return found

    def keys(self, piece: Piece) -> list[str]:
        part, first, last = piece
        return self._keys[part][first:last]
