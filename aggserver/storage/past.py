"""What a watch is told before the live events: the objects of one moment, or what has happened since a revision.

Made by `cacher.Cacher.watch`, asked by the `CacheWatcher` for one part after another. A client may take long, or never read, so
between two parts this holds a position and not what lies there: the objects of a moment are those of now, with what the window
says that later changes replaced; where the window no longer reaches back, the store's own history has both. A watch takes part in
live events once it has been told all that went before; until then writes cost nothing for it, and it holds none of their objects.
Source: none; k8s.io/apiserver pkg/storage/cacher keeps a list of all objects and a buffer of events for each watch, and ends the
watch when the buffer is full, v0.36.3.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from aggserver.storage.changes import ADDED, BOOKMARK, Cached, Change, Telling, WatchEvent, Window
from aggserver.storage.interface import Event, KeyValue, Storage
from aggserver.storage.keys import end_of
from aggserver.storage.ordered import Ordered

__all__ = ["PART_BYTES", "Past", "Sources"]

# Bytes of objects told at once. On its way through HTTP and TLS to a socket that takes nothing a part is in memory up to six
# times, for each watch. So the more watches are behind, the less each is told at once: ALL_PARTS is for all of them, and MIN_PART
# the least, since small parts cost CPU. Measured with 200 watches that nobody reads, over HTTP/1.1: 44 MB.
PART_BYTES = 64 * 1024
MIN_PART = 8 * 1024
ALL_PARTS = 512 * 1024
LOOK = 500  # objects or changes looked at before other requests have their turn: a few milliseconds
FIRST_READ = 8  # objects or changes asked of the store, as long as nobody knows how large they are; later as many as a part has

T = TypeVar("T", bound=Cached)


@dataclass(frozen=True, slots=True)
class Sources(Generic[T]):
    """Where the past is found: a cacher's own parts, until it is loaded anew.

    newest: the revision it has come to. behind: how many watches are told of the past.
    """

    objects: Ordered[T]
    window: Window[T]
    storage: Storage
    make: Callable[[KeyValue], T]
    at: Callable[[T, int], T]
    newest: Callable[[], int]
    behind: Callable[[], int]

    @property
    def part(self) -> int:
        """Bytes to tell at once."""
        return max(MIN_PART, min(PART_BYTES, ALL_PARTS // max(self.behind(), 1)))


class Past(Generic[T]):
    """Of one watch on `prefix`: the state at `revision` if `initial`, and then what happened after that.

    mark: the state ends with its bookmark. `upto` is set where the watch ends: the revision up to which it is still told.
    """

    __slots__ = (
        "_after",
        "_end",
        "_keys",
        "_limit",
        "_mark",
        "_matches",
        "_prefix",
        "_revision",
        "_seen",
        "_sources",
        "_start",
        "_then",
        "upto",
    )

    def __init__(
        self,
        sources: Sources[T],
        prefix: str,
        matches: Callable[[T], bool] | None,
        revision: int,
        *,
        initial: bool = False,
        mark: bool = False,
    ) -> None:
        self.upto: int | None = None
        self._sources = sources
        self._prefix = prefix
        self._end = end_of(prefix)
        self._matches = matches
        self._revision = revision
        # Where the objects begin that were not told yet; None when there are no more.
        self._start: str | None = prefix if initial else None
        self._mark = mark
        # What changes after `revision` replaced, of the keys to come, and these keys in order; `_seen` is the last such change.
        self._then: dict[str, T | None] = {}
        self._keys: list[str] = []
        self._seen = revision
        self._after = revision  # all that happened until then is told, or will be as part of the state
        self._limit = FIRST_READ

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be told, as is known without looking far."""
        if self._start is None:
            return self._after >= self._sources.newest()
        first, last = self._sources.objects.span(self._start, self._end)
        return first == last and not self._mark

    def trim(self) -> None:
        """Lets go of what the window has let go of."""
        if self._sources.window.floor > self._revision:
            self._then.clear()
            self._keys.clear()

    async def next(self) -> list[WatchEvent[T]] | None:
        """The next part, of about `Sources.part` bytes, maybe empty. None when all was told, up to `upto` or the newest revision.

        Raises StorageError, Compacted where the store has forgotten it meanwhile, Corrupt where something can't be read.
        """
        if self._start is not None:
            return await self._state(self._start)
        upto = self._sources.newest() if self.upto is None else self.upto
        if self._after >= upto:
            return None
        if self._sources.window.floor <= self._after:
            return self._told(self._recent(upto))
        return self._told(await self._stored(upto))

    # The state

    async def _state(self, start: str) -> list[WatchEvent[T]]:
        self.trim()
        if self._sources.window.floor <= self._revision:
            found = self._state_in_memory(start)
        else:
            found = await self._state_in_store(start)
        matches = self._matches
        batch = [WatchEvent(ADDED, item, item.revision, item.size) for item in found if matches is None or matches(item)]
        if self._start is None and self._mark:
            batch.append(WatchEvent(BOOKMARK, None, self._revision, initial_events_end=True))
        return batch

    def _state_in_memory(self, start: str) -> list[T]:
        self._note_changes(start)
        objects = self._sources.objects
        items = objects.items(*objects.span(start, self._end))
        if self._then:
            items = self._as_of_then(items)
        found: list[T] = []
        size, part = 0, self._sources.part
        for key, item in items:
            found.append(item)
            size += item.size
            if size >= part or len(found) >= LOOK:
                self._go_on_after(key)
                return found
        self._go_on_after(None)
        return found

    def _note_changes(self, start: str) -> None:
        """What the first later change of a key replaced is its state then."""
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
        told = len(self._keys) if key is None else bisect_right(self._keys, key)
        for name in self._keys[:told]:
            del self._then[name]
        del self._keys[:told]
        self._start = None if key is None else key + "\0"

    async def _state_in_store(self, start: str) -> list[T]:
        page = await self._sources.storage.list(self._folder, revision=self._revision, start=start, limit=self._limit)
        items = [self._sources.make(item) for item in page.items if item.key < self._end]
        ended = not page.more or len(items) < len(page.items)
        self._start = None if ended else items[-1].key + "\0"
        self._read(len(items), sum(item.size for item in items))
        return items

    @property
    def _folder(self) -> str:
        return self._prefix[: self._prefix.rindex("/") + 1]

    def _read(self, count: int, size: int) -> None:
        """From what the store gave: how many to ask for next."""
        self._limit = min(LOOK, max(1, self._sources.part * count // max(size, 1))) if count else LOOK

    # What happened since

    def _recent(self, upto: int) -> list[Change[T]]:
        """As the window has it."""
        found: list[Change[T]] = []
        size, part = 0, self._sources.part
        changes = self._sources.window.since(self._after, LOOK)
        for change in changes:
            if change.revision > upto:
                break
            self._after = change.revision
            if self._prefix <= change.key < self._end:
                found.append(change)
                size += _size(change)
                if size >= part:
                    return found
        if len(changes) < LOOK or changes[-1].revision > upto:
            self._after = upto  # beyond the last change there are only other prefixes' revisions
        return found

    async def _stored(self, upto: int) -> list[Change[T]]:
        """As the store has it."""
        folder, limit = self._folder, self._limit
        events = await self._sources.storage.history(folder, self._after, upto, limit)
        self._after = events[-1].revision if len(events) == limit else upto
        changes = [self._change(event) for event in events if folder == self._prefix or event.key == self._prefix]
        self._read(len(changes), sum(map(_size, changes)))
        return changes

    def _change(self, event: Event) -> Change[T]:
        make = self._sources.make
        old = None if event.previous is None else make(event.previous)
        new = None
        if event.value is not None:
            new = make(KeyValue(event.key, event.value, event.create_revision, event.revision, event.fault))
        return Change(event.key, event.revision, old, new)

    def _told(self, changes: Sequence[Change[T]]) -> list[WatchEvent[T]]:
        """Raises Corrupt."""
        for change in changes:
            if change.corrupt is not None:
                raise change.corrupt
        matches = self._matches
        tellings = [Telling(change, self._sources.at) for change in changes]
        if matches is None:
            return [telling.event() for telling in tellings]
        return [event for telling in tellings if (event := telling.selected(matches)) is not None]


def _key(item: tuple[str, T]) -> str:
    return item[0]


def _size(change: Change[T]) -> int:
    obj = change.old if change.new is None else change.new
    return 0 if obj is None else obj.size
