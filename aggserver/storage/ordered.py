"""A map sorted by key, for the watch cache. Keys and values are in separate arrays, so that a list of values is a slice.

The arrays are divided into parts of limited size: an insertion into one array of 500,000 moves half of it, which takes 0.2 ms, a
quarter of the time of a create. A look-up is two binary searches; finding a position sums the sizes of the parts, which takes a
few microseconds with 500,000 keys.

A frozen map shares the parts, and a part that one may still use is copied before its next change, which takes some microseconds.
So a reader that lets others write meanwhile sees one state without a copy of the whole map.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeVar

__all__ = ["Ordered"]

PART = 2000  # keys of a new part; at twice that it is divided

T = TypeVar("T")


class Ordered(Generic[T]):
    """The map. Keys compare as str: by code point, which is the order of their UTF-8 bytes. A key must not be empty."""

    __slots__ = ("_keys", "_shared", "_starts", "_values")

    def __init__(self, keys: Sequence[str] = (), values: Sequence[T] = ()) -> None:
        """`keys` are sorted; `values` are the keys' values, in the same order."""
        self._keys: list[list[str]] = [[]]
        self._values: list[list[T]] = [[]]
        self._starts = [""]  # the least key that belongs to each part
        self._shared = [False]  # for each part, whether a frozen map may use it
        self.append(keys, values)

    def append(self, keys: Sequence[str], values: Sequence[T]) -> None:
        """Add keys that are sorted and greater than all others, and their values. Not to a map that was frozen."""
        for cut in range(0, len(keys), PART):
            part = list(keys[cut : cut + PART])
            if self._keys[-1]:
                self._starts.append(part[0])
                self._keys.append(part)
                self._values.append(list(values[cut : cut + PART]))
                self._shared.append(False)
            else:
                self._keys[-1], self._values[-1] = part, list(values[cut : cut + PART])

    def __len__(self) -> int:
        return sum(map(len, self._keys))

    def get(self, key: str) -> T | None:
        part, at = self._find(key)
        keys = self._keys[part]
        return self._values[part][at] if at < len(keys) and keys[at] == key else None

    def get_all(self, keys: Iterable[str]) -> Iterator[tuple[str, T]]:
        """The values of sorted keys, of those that are there. A lazy iterator; the map must not change meanwhile."""
        starts, over = self._starts, ""
        part = at = 0
        names: list[str] = []
        for key in keys:
            if key >= over:
                part = bisect_right(starts, key) - 1
                over = starts[part + 1] if part + 1 < len(starts) else "\U0010ffff"
                names, at = self._keys[part], 0
            # Those that are found together are often neighbours.
            if at == len(names) or names[at] != key:
                at = bisect_left(names, key, at)
                if at == len(names) or names[at] != key:
                    continue
            yield key, self._values[part][at]
            at += 1

    def put(self, key: str, value: T) -> None:
        part, at = self._find(key)
        self._own(part)
        keys, values = self._keys[part], self._values[part]
        if at < len(keys) and keys[at] == key:
            values[at] = value
            return
        keys.insert(at, key)
        values.insert(at, value)
        if len(keys) == 2 * PART:
            self._keys[part : part + 1] = keys[:PART], keys[PART:]
            self._values[part : part + 1] = values[:PART], values[PART:]
            self._starts.insert(part + 1, keys[PART])
            self._shared.insert(part + 1, False)

    def remove(self, key: str) -> None:
        """Remove a key, which must exist."""
        part, at = self._find(key)
        self._own(part)
        del self._keys[part][at], self._values[part][at]
        if not self._keys[part] and len(self._keys) > 1:
            del self._keys[part], self._values[part], self._starts[part], self._shared[part]
            self._starts[0] = ""

    def _own(self, part: int) -> None:
        """Copy a part that a frozen map may use, because it is about to change."""
        if self._shared[part]:
            self._keys[part] = self._keys[part][:]
            self._values[part] = self._values[part][:]
            self._shared[part] = False

    def _find(self, key: str) -> tuple[int, int]:
        """The part that a key belongs to, and its index in it."""
        part = bisect_right(self._starts, key) - 1
        return part, bisect_left(self._keys[part], key)

    def span(self, start: str, end: str) -> tuple[int, int]:
        """The positions of the keys with start <= key < end, as the bounds of a slice."""
        return self.position(start), self.position(end)

    def position(self, key: str) -> int:
        """The number of keys before `key`."""
        part, at = self._find(key)
        return sum(map(len, self._keys[:part])) + at

    def key(self, position: int) -> str:
        (piece,) = _pieces(self._keys, position, position + 1)
        return piece[0]

    def values(self, first: int, last: int) -> list[T]:
        found: list[T] = []
        for piece in _pieces(self._values, first, last):
            found += piece
        return found

    def items(self, first: int, last: int) -> Iterator[tuple[str, T]]:
        """A lazy iterator; the map must not change meanwhile."""
        for keys, values in zip(_pieces(self._keys, first, last), _pieces(self._values, first, last), strict=True):
            yield from zip(keys, values, strict=True)

    def frozen(self) -> Ordered[T]:
        """The map as it is now, to read while this one changes."""
        self._shared = [True] * len(self._keys)
        frozen: Ordered[T] = Ordered()
        frozen._keys, frozen._values, frozen._starts = self._keys[:], self._values[:], self._starts[:]
        return frozen


def _pieces(parts: Sequence[list[T]], first: int, last: int) -> Iterator[list[T]]:
    """The slice from `first` to `last`, as a list per part."""
    begin = 0
    for part in parts:
        if begin >= last:
            return
        if first < begin + len(part):
            yield part[max(first - begin, 0) : last - begin]
        begin += len(part)
