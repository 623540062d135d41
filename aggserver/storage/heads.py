"""The index for compare-and-swap: the newest write of every key, in 24 bytes beside the key's text.

Keys are sorted, in parts of limited size as in `ordered.py`, and their two revisions are numbers in arrays beside them. A dict
from keys to tuples took 170 bytes more, and when it grew past a million keys nothing else ran for a tenth of a second. A look-up
is two binary searches, a microsecond with two million keys.

One thread writes. Another may call `shared` meanwhile: what it finds while a part is divided is perhaps nothing, never wrong.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import Any

from aggserver.storage.log import Head

__all__ = ["Heads"]

PART = 2000  # keys of a new part; at twice that it is divided


class Heads:
    """The heads by key. A key must not be empty."""

    __slots__ = ("_created", "_keys", "_revisions", "_starts")

    def __init__(self) -> None:
        self._keys: list[list[str]] = [[]]
        self._revisions = [array("q")]
        self._created = [array("q")]
        self._starts = [""]  # the least key that belongs to each part

    def append(self, key: str, revision: int, create_revision: int) -> None:
        """Add a key that is greater than all others."""
        if len(self._keys[-1]) == PART:
            self._keys.append([])
            self._revisions.append(array("q"))
            self._created.append(array("q"))
            self._starts.append(key)
        self._keys[-1].append(key)
        self._revisions[-1].append(revision)
        self._created[-1].append(create_revision)

    def get(self, key: str) -> Head | None:
        part, at = self._find(key)
        keys = self._keys[part]
        if at == len(keys) or keys[at] != key:
            return None
        return Head(self._revisions[part][at], self._created[part][at])

    def put(self, key: str, head: Head) -> None:
        part, at = self._find(key)
        keys, revisions, created = self._keys[part], self._revisions[part], self._created[part]
        if at < len(keys) and keys[at] == key:
            revisions[at], created[at] = head
            return
        keys.insert(at, key)
        revisions.insert(at, head.revision)
        created.insert(at, head.create_revision)
        if len(keys) == 2 * PART:
            for parts in (self._keys, self._revisions, self._created):
                _divide(parts, part)
            self._starts.insert(part + 1, self._keys[part + 1][0])

    def remove(self, key: str) -> None:
        """Remove a key, if it is there."""
        part, at = self._find(key)
        keys = self._keys[part]
        if at == len(keys) or keys[at] != key:
            return
        del keys[at], self._revisions[part][at], self._created[part][at]
        if not keys and len(self._keys) > 1:
            del self._keys[part], self._revisions[part], self._created[part], self._starts[part]
            self._starts[0] = ""

    def shared(self, key: str) -> str:
        """The text of this key that is in memory already, so that its readers keep no second one; else `key` itself.

        For any thread.
        """
        try:
            part, at = self._find(key)
            found = self._keys[part][at]
        except IndexError:  # it is not there, or was moved just now
            return key
        return found if found == key else key

    def _find(self, key: str) -> tuple[int, int]:
        part = bisect_right(self._starts, key) - 1
        return part, bisect_left(self._keys[part], key)


def _divide(parts: list[Any], part: int) -> None:
    """Divide one of some lists, or arrays."""
    whole = parts[part]
    parts[part : part + 1] = whole[:PART], whole[PART:]
