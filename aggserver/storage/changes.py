"""Changes of objects, the watch events they become, and the window of recent changes. Pure.

This module decides which event a watch with a selector gets (an object that begins to match is ADDED; one that no longer matches
is DELETED, with the old content at the new revision), and how much history is kept in memory.
Source: k8s.io/apiserver pkg/storage/cacher/cache_watcher.go (convertToWatchEvent), watch_cache.go, v0.36.3.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from aggserver.storage.interface import Corrupt

__all__ = ["ADDED", "BOOKMARK", "DELETED", "MODIFIED", "STALE_BYTES", "Cached", "Change", "ChangeEvents", "WatchEvent", "Window"]

ADDED, MODIFIED, DELETED, BOOKMARK = "ADDED", "MODIFIED", "DELETED", "BOOKMARK"

FRESH = 75.0  # seconds that changes are kept at least, as upstream: clients reconnect within a minute
MIN_CHANGES = 100  # kept regardless of age, as upstream
MAX_CHANGES = 100 * 1024  # kept at most, regardless of age, as upstream
MAX_BYTES = 16 << 20  # of replaced objects, regardless of their number; watches find older changes in the store's history
STALE_BYTES = 1 << 20  # of objects that were dropped from the window and may stay in memory for now


class Cached(Protocol):
    """An object in the watch cache. `size` is approximately its bytes in memory."""

    @property
    def key(self) -> str: ...

    @property
    def revision(self) -> int: ...

    @property
    def size(self) -> int: ...


T = TypeVar("T")
C = TypeVar("C", bound=Cached)


class WatchEvent(Generic[T]):
    """An event of a watch. All watches that get it share it, so it is never changed, except for `frames` and `views`, which cache
    what is made once for all of them.

    `object` is None in a bookmark. `size` is approximately the object's bytes in memory.
    frames: the encoded event in its parts, by format; the sender of events fills it. views: the event with its object in another
    form, by that form; None if there are none, since few resources are read in several versions.
    before: the object that the change has replaced, for readers that apply a selector themselves; set only for watches without a
    selector.
    """

    __slots__ = ("__weakref__", "before", "frames", "initial_events_end", "object", "revision", "size", "type", "views")

    def __init__(self, type: str, object: T | None, revision: int, size: int = 0, initial_events_end: bool = False) -> None:  # noqa: A002
        self.type = type
        self.object = object
        self.revision = revision
        self.size = size
        self.initial_events_end = initial_events_end
        self.before: T | None = None
        self.frames: dict[Hashable, Sequence[bytes]] = {}
        self.views: dict[Hashable, WatchEvent[T]] | None = None

    @property
    def resource_version(self) -> str:
        """Of the event, as clients see it."""
        return str(self.revision)

    def __repr__(self) -> str:
        return f"WatchEvent({self.type}, {self.object!r}, {self.revision})"


class Change(NamedTuple, Generic[C]):
    """One write of one object: `old` is None for a creation, `new` for a deletion. `time` is when it was received, by the clock.

    `corrupt`: why the new or the replaced value can't be read. Then `new` or `old` is None too, and no watch can get an event for
    the change. `from_corrupt`: the replaced value is the unreadable one.
    """

    key: str
    revision: int
    old: C | None
    new: C | None
    time: float = 0.0
    corrupt: Corrupt | None = None
    from_corrupt: bool = False


class ChangeEvents(Generic[C]):
    """The watch events of one change. Each event is made once, and shared by the watches.

    `at` returns an object with another revision, for DELETED events: the last content with the revision of the deletion.
    """

    __slots__ = ("_at", "_change", "_deleted", "_entered", "_plain")

    def __init__(self, change: Change[C], at: Callable[[C, int], C]) -> None:
        self._change = change
        self._at = at
        self._plain: WatchEvent[C] | None = None
        self._entered: WatchEvent[C] | None = None
        self._deleted: WatchEvent[C] | None = None

    def event(self) -> WatchEvent[C]:
        """The event for a watch without a selector."""
        change = self._change
        if change.new is None:
            return self._removed()
        if self._plain is None:
            self._plain = WatchEvent(ADDED if change.old is None else MODIFIED, change.new, change.revision, change.new.size)
            self._plain.before = change.old
        return self._plain

    def selected(self, matches: Callable[[C], bool]) -> WatchEvent[C] | None:
        """The event for a watch with a selector, None if it gets none."""
        old, new = self._change.old, self._change.new
        before = old is not None and matches(old)
        if new is not None and matches(new):
            return self.event() if before or old is None else self._added(new)
        return self._removed() if before else None

    def _added(self, new: C) -> WatchEvent[C]:
        if self._entered is None:
            self._entered = WatchEvent(ADDED, new, self._change.revision, new.size)
        return self._entered

    def _removed(self) -> WatchEvent[C]:
        """For a deletion, or an object that no longer matches: DELETED with the last content, at the revision of the change."""
        if self._deleted is None:
            _, revision, old, *_ = self._change
            assert old is not None
            self._deleted = WatchEvent(DELETED, self._at(old, revision), revision, old.size)
        return self._deleted


class Window(Generic[C]):
    """The recent changes, in order, complete after the revision `floor`. They keep the replaced objects in memory."""

    __slots__ = ("_bytes", "_changes", "_first", "_stale", "dropped", "floor")

    def __init__(self, floor: int) -> None:
        self.floor = floor
        self.dropped = 0  # bytes of all changes dropped so far
        self._changes: list[Change[C]] = []
        self._first = 0  # index of the first change; those before it are removed in bulk, which keeps appending cheap
        self._bytes = 0
        self._stale = 0  # bytes of the changes before `_first`

    @property
    def held(self) -> tuple[int, int]:
        """(changes, bytes of the objects that they have replaced)."""
        return len(self._changes) - self._first, self._bytes + self._stale

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
        # The list must not hold dropped changes in memory for long.
        if self._first > MIN_CHANGES or self._stale > STALE_BYTES:
            del self._changes[: self._first]
            self._first = self._stale = 0

    def _excessive(self, now: float) -> bool:
        if self._bytes > MAX_BYTES:
            return True
        count = len(self._changes) - self._first
        return count > MIN_CHANGES and (count > MAX_CHANGES or self._changes[self._first].time < now - FRESH)

    def since(self, revision: int, limit: int | None = None) -> Sequence[Change[C]]:
        """The first `limit` changes after `revision`, which must not be before `floor`."""
        first = bisect_right(self._changes, revision, lo=self._first, key=_revision)
        return self._changes[first : None if limit is None else first + limit]


def _revision(change: Change[C]) -> int:
    return change.revision


def _replaced(change: Change[C]) -> int:
    return 0 if change.old is None else change.old.size
