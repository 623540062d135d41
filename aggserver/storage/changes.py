"""Changes of objects as watchers see them, and the window of recent ones.

Used by `cacher.py` and `watcher.py`. Decides what a watch with a selector is told (entering is ADDED, leaving is DELETED with
the old content at the new revision), and how much history is kept in memory. Pure.
Source: k8s.io/apiserver pkg/storage/cacher/cache_watcher.go (convertToWatchEvent), watch_cache.go, v0.36.3.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

__all__ = ["ADDED", "BOOKMARK", "DELETED", "MODIFIED", "Change", "WatchEvent", "Window"]

ADDED, MODIFIED, DELETED, BOOKMARK = "ADDED", "MODIFIED", "DELETED", "BOOKMARK"

FRESH = 75.0  # seconds for which events are kept at least, as upstream: a client that reconnects comes back within a minute
MIN_EVENTS = 100  # kept however old they are, as upstream
MAX_EVENTS = 100 * 1024  # kept however young they are, as upstream
MAX_BYTES = 64 << 20  # of values; older events are still in the store's own history, where a watch finds them

T = TypeVar("T")


class WatchEvent(Generic[T]):
    """What one watch is told. Shared by all watches that are told the same: never changed, but for `encodings`.

    `object` is None in a bookmark. `encodings` is for whoever sends the event: its frames by form, made once for all watches.
    `size` is about how many bytes the object's value has.
    """

    __slots__ = ("encodings", "initial_events_end", "object", "revision", "size", "type")

    def __init__(self, type: str, object: T | None, revision: int, size: int = 0, initial_events_end: bool = False) -> None:  # noqa: A002
        self.type = type
        self.object = object
        self.revision = revision
        self.size = size
        self.initial_events_end = initial_events_end
        self.encodings: dict[Hashable, bytes] = {}

    def __repr__(self) -> str:
        return f"WatchEvent({self.type}, {self.object!r}, {self.revision})"


class Change(Generic[T]):
    """One write of one object: `old` is None for a creation, `new` for a deletion. `time` is the clock's when it was seen."""

    __slots__ = ("_at", "_deleted", "_entered", "_plain", "key", "new", "old", "revision", "size", "time")

    def __init__(
        self,
        key: str,
        revision: int,
        old: T | None,
        new: T | None,
        *,
        at: Callable[[T, int], T],
        size: int = 0,
        time: float = 0.0,
    ) -> None:
        self.key = key
        self.revision = revision
        self.old = old
        self.new = new
        self.size = size
        self.time = time
        self._at = at
        self._plain: WatchEvent[T] | None = None
        self._entered: WatchEvent[T] | None = None
        self._deleted: WatchEvent[T] | None = None

    def event(self) -> WatchEvent[T]:
        """What a watch without a selector is told."""
        if self.new is None:
            return self._gone()
        if self._plain is None:
            self._plain = WatchEvent(ADDED if self.old is None else MODIFIED, self.new, self.revision, self.size)
        return self._plain

    def selected(self, matches: Callable[[T], bool]) -> WatchEvent[T] | None:
        """What a watch with a selector is told, None if nothing."""
        before = self.old is not None and matches(self.old)
        if self.new is not None and matches(self.new):
            return self.event() if before or self.old is None else self._come()
        return self._gone() if before else None

    def _come(self) -> WatchEvent[T]:
        if self._entered is None:
            self._entered = WatchEvent(ADDED, self.new, self.revision, self.size)
        return self._entered

    def _gone(self) -> WatchEvent[T]:
        """A removal, or the leaving of a selection: the last content, at the revision of its end."""
        if self._deleted is None:
            assert self.old is not None
            self._deleted = WatchEvent(DELETED, self._at(self.old, self.revision), self.revision, self.size)
        return self._deleted


class Window(Generic[T]):
    """The recent changes, in order, without a gap after `floor`."""

    __slots__ = ("_bytes", "_changes", "_first", "floor")

    def __init__(self, floor: int) -> None:
        self.floor = floor
        self._changes: list[Change[T]] = []
        self._first = 0  # where the window begins: what lies before it is dropped in bulk, to keep appending cheap
        self._bytes = 0

    def append(self, change: Change[T]) -> None:
        self._changes.append(change)
        self._bytes += change.size
        while self._excessive(change.time):
            oldest = self._changes[self._first]
            self._bytes -= oldest.size
            self.floor = oldest.revision
            self._first += 1
        # What is dropped must not be held on to by the list: at most as much again, and then only for MIN_EVENTS changes.
        if self._first > MIN_EVENTS:
            del self._changes[: self._first]
            self._first = 0

    def _excessive(self, now: float) -> bool:
        count = len(self._changes) - self._first
        if count <= MIN_EVENTS:
            return False
        return count > MAX_EVENTS or self._bytes > MAX_BYTES or self._changes[self._first].time < now - FRESH

    def since(self, revision: int) -> Sequence[Change[T]]:
        """The changes after `revision`, which is not before `floor`."""
        return self._changes[bisect_right(self._changes, revision, lo=self._first, key=_revision) :]


def _revision(change: Change[T]) -> int:
    return change.revision
