"""The past of a watch: the events before the live ones. These are the objects at a revision, or the changes since a revision.

The `CacheWatcher` reads it part by part. A client may read slowly, or not at all, so between two parts this holds a position and
no objects. The objects at a revision are the present ones, where the window's later changes are undone; if the window does not
reach back so far, they come from the store's history. A watch gets live events only after all past ones; until then writes cost
nothing for it, and it keeps none of their objects in memory.
Source: none. k8s.io/apiserver pkg/storage/cacher keeps a list of all objects and a buffer of events for each watch, and closes
the watch when the buffer is full, v0.36.3.
"""

from __future__ import annotations

import asyncio
import heapq
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from aggserver.storage.changes import ADDED, BOOKMARK, Cached, Change, ChangeEvents, WatchEvent, Window
from aggserver.storage.fair_turns import FairTurns
from aggserver.storage.indexes import AT_ONCE, Found, Indexes
from aggserver.storage.interface import Event, KeyValue, Storage
from aggserver.storage.keys import end_of
from aggserver.storage.ordered import Ordered
from aggserver.storage.predicate import Predicate

__all__ = ["PART_BYTES", "Past", "PastSources"]

# Bytes of objects in a part. For each watch, a part is in memory up to six times on its way through HTTP and TLS to a blocked
# socket. So the more watches are behind, the smaller are their parts: ALL_PARTS is the sum for all of them, and MIN_PART the
# least for one, because small parts cost CPU. 200 watches that nobody read took 44 MB, over HTTP/1.1.
PART_BYTES = 64 * 1024
MIN_PART = 8 * 1024
ALL_PARTS = 512 * 1024
LOOK = 500  # objects or changes examined before other requests run: a few milliseconds
# As LOOK, for objects that are only matched, which takes 0.2 us each if the matcher need not decode them first. If it must,
# SLICE_SECONDS ends the slice earlier.
LOOK_MATCHING = 2000
SLICE_SECONDS = 0.001
CLOCK_EVERY = 4  # objects matched between two looks at the clock, which take as long as matching one
# Bytes of objects read from the store at once for a selector, which may match none of them. A part would be a few objects only.
READ_MATCHING = 256 * 1024
# Keys of candidates that all watches which are behind keep; with more, a watch that has many looks at every object. 8 bytes each.
MOST_KEPT = 1_000_000
FIRST_READ = 8  # objects or changes in the first read from the store, before their size is known; later as many as fit a part

T = TypeVar("T", bound=Cached)


@dataclass(frozen=True, slots=True)
class PastSources(Generic[T]):
    """Where past events are read from: the parts of a cacher, until it is loaded again.

    newest: returns the cacher's revision. behind: returns the number of watches that still read their past. kept: returns the
    number of keys that these keep in memory. turns: taken by the watches with a selector. clock: monotonic, in seconds.
    """

    objects: Ordered[T]
    indexes: Indexes[T]
    window: Window[T]
    storage: Storage
    make: Callable[[KeyValue], T]
    at: Callable[[T, int], T]
    newest: Callable[[], int]
    behind: Callable[[], int]
    kept: Callable[[], int]
    turns: FairTurns
    clock: Callable[[], float]

    @property
    def part(self) -> int:
        """The size of a part in bytes."""
        return max(MIN_PART, min(PART_BYTES, ALL_PARTS // max(self.behind(), 1)))


class Past(Generic[T]):
    """The past of a watch on `prefix`: the objects at `revision` if `initial`, then the changes after it.

    mark: send the initial-events-end bookmark after the objects. user: the user for whom it takes turns, if it has a selector.
    `upto`, set when the watch ends, is the last revision to deliver.
    """

    __slots__ = (
        "_after",
        "_candidates",
        "_end",
        "_found",
        "_keys",
        "_limit",
        "_mark",
        "_matches",
        "_predicate",
        "_prefix",
        "_revision",
        "_scanning",
        "_seen",
        "_sources",
        "_start",
        "_then",
        "_user",
        "upto",
    )

    def __init__(
        self,
        sources: PastSources[T],
        prefix: str,
        predicate: Predicate[T] | None,
        revision: int,
        *,
        initial: bool = False,
        mark: bool = False,
        user: str = "",
    ) -> None:
        self.upto: int | None = None
        self._sources = sources
        self._prefix = prefix
        self._end = end_of(prefix)
        self._predicate = predicate
        self._matches = None if predicate is None else predicate.matches
        # The keys of all objects that may match, before and after they are sorted; both None if every object must be looked at.
        self._found: Found | None = None
        self._candidates: list[str] | None = None
        self._revision = revision
        # The key where the remaining objects begin; None if there are no more.
        self._start: str | None = prefix if initial else None
        self._mark = mark
        # For the remaining keys that were changed after `revision`: what their first such change replaced, and the keys sorted.
        # `_seen` is the revision of the last change noted.
        self._then: dict[str, T | None] = {}
        self._keys: list[str] = []
        self._seen = revision
        self._after = revision  # changes until then were delivered, or will be with the objects
        self._limit = FIRST_READ
        self._user = user
        if initial and predicate is not None:
            self._found = self._look_up(predicate)
        # Whether the next part may follow many objects that did not match, so that it needs a turn.
        self._scanning = predicate is not None and (self._found is None or self._found.count > AT_ONCE)

    def _look_up(self, predicate: Predicate[T]) -> Found | None:
        """The candidates of now, among which are all objects that matched at `revision` and were not changed since."""
        sources = self._sources
        found = sources.indexes.find(predicate, self._prefix, self._end)
        if found is None or (found.count > AT_ONCE and sources.kept() + found.count > MOST_KEPT):
            return None
        return found

    @property
    def kept(self) -> int:
        """The number of keys of objects that are kept in memory."""
        return self._found.count if self._found is not None else len(self._candidates or ())

    @property
    def is_empty(self) -> bool:
        """Whether there are no events for sure, even without the selector."""
        if self._start is None:
            return self._after >= self._sources.newest()
        if self._found is not None:
            return not self._found.count and not self._mark
        first, last = self._sources.objects.span(self._start, self._end)
        return first == last and not self._mark

    def trim(self) -> None:
        """Drop what `_note_changes` noted, once some of its changes are no longer in the window."""
        if self._sources.window.floor > self._revision:
            self._then.clear()
            self._keys.clear()
            self._found = self._candidates = None

    async def pause(self) -> None:
        """Let other requests run before the next part, because a fast client would read all parts without a pause."""
        if self._scanning:
            await self._sources.turns.turn(self._user)
        else:
            await asyncio.sleep(0)

    async def next(self) -> list[WatchEvent[T]] | None:
        """The next part, of about `PastSources.part` bytes, possibly empty. None after the last, at `upto` or the newest one.

        Raises StorageError: Compacted if the store has compacted it meanwhile, Corrupt if an object can't be read.
        """
        if self._start is not None:
            return await self._state(self._start)
        upto = self._sources.newest() if self.upto is None else self.upto
        if self._after >= upto:
            return None
        if self._sources.window.floor <= self._after:
            return self._recent(upto)
        return await self._stored(upto)

    # The objects at `revision`

    async def _state(self, start: str) -> list[WatchEvent[T]]:
        if (candidates := self._found) is not None:
            few = candidates.count <= AT_ONCE
            keys = candidates.at_once() if few else await candidates.in_order(self._sources.turns, self._user)
            self._candidates, self._found = keys, None
        self.trim()
        if self._sources.window.floor <= self._revision:
            found = self._state_in_memory(start)
        else:
            found = await self._state_in_store(start)
        batch = [WatchEvent(ADDED, item, item.revision, item.size) for item in found]
        if self._start is None and self._mark:
            batch.append(WatchEvent(BOOKMARK, None, self._revision, initial_events_end=True))
        return batch

    def _state_in_memory(self, start: str) -> list[T]:
        self._note_changes(start)
        items = self._items(start)
        if self._then:
            items = self._as_of_then(items)
        matches, clock = self._matches, self._sources.clock
        found: list[T] = []
        size, part = 0, self._sources.part
        end = clock() + SLICE_SECONDS
        look = LOOK if matches is None else LOOK_MATCHING
        for examined, (key, item) in enumerate(items, 1):
            if matches is None or matches(item):
                found.append(item)
                size += item.size
                if size >= part:
                    self._scanning = False
                    self._go_on_after(key)
                    return found
            if examined >= look or (matches is not None and not examined % CLOCK_EVERY and clock() >= end):
                self._scanning = matches is not None
                self._go_on_after(key)
                return found
        self._go_on_after(None)
        return found

    def _items(self, start: str) -> Iterator[tuple[str, T]]:
        """The present objects from the key `start` on that may match, sorted."""
        objects, candidates = self._sources.objects, self._candidates
        if candidates is None:
            return objects.items(*objects.span(start, self._end))
        return objects.get_all(map(candidates.__getitem__, range(bisect_left(candidates, start), len(candidates))))

    def _note_changes(self, start: str) -> None:
        """Note the changes since the last call: what the first change of a key replaced is its state at `revision`."""
        for change in self._sources.window.since(self._seen):
            self._seen = change.revision
            if start <= change.key < self._end and change.key not in self._then:
                self._then[change.key] = change.old
                insort(self._keys, change.key)

    def _as_of_then(self, items: Iterable[tuple[str, T]]) -> Iterator[tuple[str, T]]:
        unchanged = (item for item in items if item[0] not in self._then)
        restored = ((key, old) for key in self._keys if (old := self._then[key]) is not None)
        return heapq.merge(unchanged, restored, key=_key)

    def _go_on_after(self, key: str | None) -> None:
        passed = len(self._keys) if key is None else bisect_right(self._keys, key)
        for name in self._keys[:passed]:
            del self._then[name]
        del self._keys[:passed]
        self._start = None if key is None else key + "\0"

    async def _state_in_store(self, start: str) -> list[T]:
        page = await self._sources.storage.list(
            self._folder, revision=self._revision, start=start, limit=self._limit, counted=False
        )
        items = [self._sources.make(item) for item in page.items if item.key < self._end]
        ended = not page.more or len(items) < len(page.items)
        self._start = None if ended else items[-1].key + "\0"
        matches = self._matches
        found = items if matches is None else [item for item in items if matches(item)]
        self._read(len(items), sum(item.size for item in items), sum(item.size for item in found))
        return found

    @property
    def _folder(self) -> str:
        return self._prefix[: self._prefix.rindex("/") + 1]

    def _read(self, count: int, size: int, taken: int) -> None:
        """Set how much the next read asks for. The last one had `count` objects of `size` bytes, of which `taken` bytes match."""
        part = self._sources.part
        self._scanning = taken < part and self._matches is not None
        room = READ_MATCHING if self._scanning else part
        self._limit = min(LOOK, max(1, room * count // max(size, 1))) if count else LOOK

    # The changes after `revision`

    def _recent(self, upto: int) -> list[WatchEvent[T]]:
        """The next events, from the window. Raises Corrupt."""
        found: list[WatchEvent[T]] = []
        size, part = 0, self._sources.part
        changes = self._sources.window.since(self._after, LOOK)
        for change in changes:
            if change.revision > upto:
                break
            self._after = change.revision
            if self._prefix <= change.key < self._end and (event := self._event(change)) is not None:
                found.append(event)
                size += event.size
                if size >= part:
                    self._scanning = False
                    return found
        self._scanning = self._matches is not None and len(changes) == LOOK
        if len(changes) < LOOK or changes[-1].revision > upto:
            self._after = upto  # later revisions are those of other prefixes
        return found

    async def _stored(self, upto: int) -> list[WatchEvent[T]]:
        """The next events, from the store's history. Raises StorageError."""
        folder, limit = self._folder, self._limit
        events = await self._sources.storage.history(folder, self._after, upto, limit)
        self._after = events[-1].revision if len(events) == limit else upto
        changes = [self._change(event) for event in events if folder == self._prefix or event.key == self._prefix]
        found = [event for change in changes if (event := self._event(change)) is not None]
        self._read(len(changes), sum(map(_size, changes)), sum(event.size for event in found))
        return found

    def _change(self, event: Event) -> Change[T]:
        make = self._sources.make
        old = None if event.previous is None else make(event.previous)
        new = None
        if event.value is not None:
            new = make(KeyValue(event.key, event.value, event.create_revision, event.revision, event.fault))
        return Change(event.key, event.revision, old, new)

    def _event(self, change: Change[T]) -> WatchEvent[T] | None:
        """The event of a change, None if it does not match. Raises Corrupt."""
        if change.corrupt is not None:
            raise change.corrupt
        events = ChangeEvents(change, self._sources.at)
        return events.event() if self._matches is None else events.selected(self._matches)


def _key(item: tuple[str, T]) -> str:
    return item[0]


def _size(change: Change[T]) -> int:
    obj = change.old if change.new is None else change.new
    return 0 if obj is None else obj.size
