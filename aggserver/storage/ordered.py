"""A map sorted by key, for lists: two arrays side by side, so that a list of all objects is a copy of memory.

Used by `cacher.py` alone. Looking up and finding a range are a binary search; adding and removing move the end of two arrays
of pointers (50 us in the middle of 500,000), which is cheap beside what a write costs elsewhere, and keeps 16 bytes an object.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

__all__ = ["Ordered"]

T = TypeVar("T")


class Ordered(Generic[T]):
    """Keys compare as str does: by code point, which is the order of their UTF-8 bytes."""

    __slots__ = ("_keys", "_values")

    def __init__(self, keys: Sequence[str] = (), values: Sequence[T] = ()) -> None:
        """Takes over sorted keys and their values."""
        self._keys = list(keys)
        self._values = list(values)

    def get(self, key: str) -> T | None:
        at = bisect_left(self._keys, key)
        return self._values[at] if at < len(self._keys) and self._keys[at] == key else None

    def put(self, key: str, value: T) -> None:
        at = bisect_left(self._keys, key)
        if at < len(self._keys) and self._keys[at] == key:
            self._values[at] = value
        else:
            self._keys.insert(at, key)
            self._values.insert(at, value)

    def remove(self, key: str) -> None:
        """The key is there."""
        at = bisect_left(self._keys, key)
        del self._keys[at], self._values[at]

    def span(self, start: str, end: str) -> tuple[int, int]:
        """The positions of the keys with start <= key < end, as of a slice."""
        return bisect_left(self._keys, start), bisect_left(self._keys, end)

    def key(self, position: int) -> str:
        return self._keys[position]

    def values(self, first: int, last: int) -> list[T]:
        return self._values[first:last]

    def items(self, first: int, last: int) -> Iterator[tuple[str, T]]:
        """Lazily; the map must not change meanwhile."""
        for position in range(first, last):
            yield self._keys[position], self._values[position]
