"""Changes of objects as watchers see them, and the window of recent ones.

Used by `cacher.py` and `watcher.py`. Decides what a watch with a selector is told (entering is ADDED, leaving is DELETED with
the old content at the new revision), and how much history is kept in memory. Pure.
Source: k8s.io/apiserver pkg/storage/cacher/cache_watcher.go (convertToWatchEvent), watch_cache.go, v0.36.3.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from aggserver.storage.interface import Corrupt

__all__ = ["ADDED", "BOOKMARK", "DELETED", "MODIFIED", "STALE_BYTES", "Cached", "Change", "Telling", "WatchEvent", "Window"]

ADDED, MODIFIED, DELETED, BOOKMARK = "ADDED", "MODIFIED", "DELETED", "BOOKMARK"

FRESH = 75.0  # seconds for which changes are kept at least, as upstream: a client that reconnects comes back within a minute
MIN_CHANGES = 100  # kept however old they are, as upstream
MAX_CHANGES = 100 * 1024  # kept however young they are, as upstream
MAX_BYTES = 16 << 20  # of replaced objects, however few; older changes are still in the store's history, where a watch finds them
STALE_BYTES = 1 << 20  # of objects that the window has let go of, and that may stay in memory a little longer


class Cached(Protocol):
    """What a cacher holds. `size` is about how many bytes of memory."""

    @property
    def key(self) -> str: ...

    @property
    def revision(self) -> int: ...

    @property
    def size(self) -> int: ...


T = TypeVar("T")
C = TypeVar("C", bound=Cached)


class WatchEvent(Generic[T]):
    """What one watch is told. Shared by all watches that are told the same: never changed, but for `encodings`.

    `object` is None in a bookmark. `encodings` is for whoever sends the event: its frames by form, made once for all watches, and
    gone with the event when the last of them was told. `size` is about how many bytes of memory the object takes.
    """

    __slots__ = ("__weakref__", "encodings", "initial_events_end", "object", "revision", "size", "type")

    def __init__(self, type: str, object: T | None, revision: int, size: int = 0, initial_events_end: bool = False) -> None:  # noqa: A002
        self.type = type
        self.object = object
        self.revision = revision
        self.size = size
        self.initial_events_end = initial_events_end
        self.encodings: dict[Hashable, Any] = {}

    def __repr__(self) -> str:
        return f"WatchEvent({self.type}, {self.object!r}, {self.revision})"


class Change(NamedTuple, Generic[C]):
    """One write of one object: `old` is None for a creation, `new` for a deletion. `time` is the clock's when it was seen.

    `corrupt`: why what was written can't be read, or what it replaced couldn't be: `new` or `old` is None then too, and nobody
    can be told of the change. `from_corrupt`: it is the latter.
    """

    key: str
    revision: int
    old: C | None
    new: C | None
    time: float = 0.0
    corrupt: Corrupt | None = None
    from_corrupt: bool = False


class Telling(Generic[C]):
    """What watches are told of one change. Every event is made once, for as long as it is being told.

    `at` gives an object as it was, shown with the revision of its deletion.
    """

    __slots__ = ("_at", "_change", "_deleted", "_entered", "_plain")

    def __init__(self, change: Change[C], at: Callable[[C, int], C]) -> None:
        self._change = change
        self._at = at
        self._plain: WatchEvent[C] | None = None
        self._entered: WatchEvent[C] | None = None
        self._deleted: WatchEvent[C] | None = None

    def event(self) -> WatchEvent[C]:
        """What a watch without a selector is told."""
        change = self._change
        if change.new is None:
            return self._gone()
        if self._plain is None:
            self._plain = WatchEvent(ADDED if change.old is None else MODIFIED, change.new, change.revision, change.new.size)
        return self._plain

    def selected(self, matches: Callable[[C], bool]) -> WatchEvent[C] | None:
        """What a watch with a selector is told, None if nothing."""
        old, new = self._change.old, self._change.new
        before = old is not None and matches(old)
        if new is not None and matches(new):
            return self.event() if before or old is None else self._come(new)
        return self._gone() if before else None

    def _come(self, new: C) -> WatchEvent[C]:
        if self._entered is None:
            self._entered = WatchEvent(ADDED, new, self._change.revision, new.size)
        return self._entered

    def _gone(self) -> WatchEvent[C]:
        """A removal, or the leaving of a selection: the last content, at the revision of its end."""
        if self._deleted is None:
            _, revision, old, *_ = self._change
            assert old is not None
            self._deleted = WatchEvent(DELETED, self._at(old, revision), revision, old.size)
        return self._deleted


class Window(Generic[C]):
    """The recent changes, in order, without a gap after `floor`. What it adds to the objects of now is what they replaced."""

    __slots__ = ("_bytes", "_changes", "_first", "_stale", "dropped", "floor")

    def __init__(self, floor: int) -> None:
        self.floor = floor
        self.dropped = 0  # bytes, of all that it has let go of
        self._changes: list[Change[C]] = []
        self._first = 0  # where the window begins: what lies before it is dropped in bulk, to keep appending cheap
        self._bytes = 0
        self._stale = 0  # bytes of what lies before `_first`

    def append(self, change: Change[C]) -> None:
        self._changes.append(change)
        self._bytes += _replaced(change)
        while self._excessive(change.time):
            oldest = self._changes[self._first]
            size = _replaced(oldest)
            self._bytes -= size
            self._stale += size
            self.dropped += size
            self.floor = oldest.revision
            self._first += 1
        # What is dropped must not be held on to by the list for long.
        if self._first > MIN_CHANGES or self._stale > STALE_BYTES:
            del self._changes[: self._first]
            self._first = self._stale = 0

    def _excessive(self, now: float) -> bool:
        if self._bytes > MAX_BYTES:
            return True
        count = len(self._changes) - self._first
        return count > MIN_CHANGES and (count > MAX_CHANGES or self._changes[self._first].time < now - FRESH)

    def since(self, revision: int, limit: int | None = None) -> Sequence[Change[C]]:
        """The changes after `revision`, which is not before `floor`; of many the first `limit`."""
        first = bisect_right(self._changes, revision, lo=self._first, key=_revision)
        return self._changes[first : None if limit is None else first + limit]


def _revision(change: Change[C]) -> int:
    return change.revision


def _replaced(change: Change[C]) -> int:
    return 0 if change.old is None else change.old.size
