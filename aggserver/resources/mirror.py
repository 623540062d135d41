"""Mirror: the state of a source as a `Storage` in memory, from which lists and watches are served.

Only the newest state is kept, and no history: the watch cache above has the recent changes, and a client that resumes from an
older revision, or from one of another process, gets 410 and lists again. Never silence.

Objects are here only until the watch cache has them; afterwards they are compared with what the cache holds, so that each is in
memory once. Should the cache have to read them again, they come from the source once more (`wanted`).

A write of a client goes to the source first, and its result is put here. What was being read meanwhile may be older than that:
each reading of the source is a `Reading`, which knows the objects that have changed since it began.
Source: `storage/interface.py`.
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
from collections.abc import Callable, Iterator, Sequence

from aggserver.registry import stored
from aggserver.registry.stored import StoredObject
from aggserver.resources.revisions import Revisions
from aggserver.storage.cacher import Cacher
from aggserver.storage.interface import (
    Compacted,
    Corrupt,
    Event,
    FutureRevision,
    KeyValue,
    Page,
    Precondition,
    Sink,
    StorageError,
    Subscription,
    Unavailable,
)
from aggserver.storage.log import Publisher

__all__ = ["Mirror", "Reading"]

# Objects compared or told of before other requests run: about a millisecond.
_TURN = 200
# Changes kept for a cache that is being loaded; with more, it is loaded anew.
_MOST_RECENT = 100_000


class Reading:
    """One reading of the source. touched: the keys that have changed in the mirror since it began. bodies: those of the mirror
    that it fills, if they are wanted.
    """

    __slots__ = ("bodies", "touched")

    def __init__(self, bodies: dict[str, KeyValue] | None) -> None:
        self.touched: set[str] = set()
        self.bodies = bodies


class Mirror:
    """The objects of one source by key. `put`, `remove` and `replace` change it; clients write by `store.py`, never by this.

    prefix: of all keys. wanted: called when the bodies have to be read from the source again. shown: what readers see of an
    object that the source tells.
    """

    def __init__(
        self,
        revisions: Revisions,
        prefix: str,
        wanted: Callable[[], None] = lambda: None,
        shown: Callable[[str, bytes], bytes] = lambda key, value: value,
    ) -> None:
        self.wanted = wanted
        self.shown = shown
        self._revisions = revisions
        self._prefix = prefix
        # The objects; None once the cache has taken them. They are not whole while they are read again.
        self._bodies: dict[str, KeyValue] | None = {}
        self._is_whole = True
        # The cache that has taken them.
        self._cache: Cacher[StoredObject] | None = None
        # Earlier revisions are another process's.
        self._publisher = Publisher(revisions.next())
        # What has changed since the cache began to read; None if it does not.
        self._recent: list[Event] | None = None
        self._recent_since = 0
        self._readings: set[Reading] = set()

    # --- what the source has ---

    @contextlib.contextmanager
    def reading(self) -> Iterator[Reading]:
        """Around a call of the source."""
        reading = Reading(self._bodies)
        self._readings.add(reading)
        try:
            yield reading
        finally:
            self._readings.discard(reading)

    def put(self, key: str, value: bytes) -> None:
        """An object as it is now. Nothing happens if it was so before."""
        self._touch(key)
        self._put(key, value)

    def remove(self, key: str) -> int:
        """An object is there no more. Returns the revision of that, 0 if there was none."""
        self._touch(key)
        return self._remove(key)

    async def replace(self, reading: Reading, present: set[str]) -> None:
        """Remove the objects that the source does not have. present: the keys that `reading` has found."""
        gone = [key for key in self._keys() if key not in present]
        for index, key in enumerate(gone, 1):
            if key not in reading.touched and self._remove(key):
                self._touch(key, reading)
            if not index % _TURN:
                await asyncio.sleep(0)
        if self._bodies is not None and self._bodies is reading.bodies:
            for obj in self._cached_objects():
                if obj.key not in self._bodies:  # it is there, and can't be read any more: it keeps its last state
                    self._bodies[obj.key] = KeyValue(obj.key, stored.value(obj), 0, obj.revision)
            self._is_whole = True

    def found(self, reading: Reading, key: str, value: bytes) -> str:
        """An object that `reading` has found, unless it has changed since the reading began.

        Returns the key; if there was such an object already, that of the object, so that it is in memory once.
        """
        if key in reading.touched:
            return key
        before = self._publisher.revision
        key = self._put(key, value)
        if self._publisher.revision != before:
            self._touch(key, reading)
        return key

    def _touch(self, key: str, own: Reading | None = None) -> None:
        """What another reading has found may be older than what is put now."""
        for reading in self._readings:
            if reading is not own:
                reading.touched.add(key)

    def _put(self, key: str, value: bytes) -> str:
        return self.show(key, self.shown(key, value))

    def show(self, key: str, value: bytes) -> str:
        """An object as readers are to see it from now on. Nothing happens if they do so already. Returns the key, as `found`."""
        bodies, cached = self._bodies, self._cached(key)
        body = None if bodies is None else bodies.get(key)
        is_new = cached is None and body is None
        is_same = body.value == value if body is not None else cached is not None and stored.has_value(cached, value)
        if cached is not None:
            key = cached.key
        if is_same and (bodies is None or body is not None):
            return key
        revision = self._revisions.next()
        if bodies is not None:
            # A copy: the bytes that orjson makes keep 4 KB of memory, however few they are.
            bodies[key] = KeyValue(key, bytes(memoryview(value)), 0, revision)
        if not is_same:
            self._publish(Event(revision, key, value, revision if is_new else 0, None))
        return key

    def there(self, key: str) -> bytes | None:
        """An object as readers see it; None if there is none."""
        if self._bodies is not None and (body := self._bodies.get(key)) is not None:
            return body.value
        obj = self._cached(key)
        return None if obj is None else stored.value(obj)

    def _cached(self, key: str) -> StoredObject | None:
        if self._cache is None:
            return None
        try:
            return self._cache.get(key)
        except Corrupt:
            return None

    def _cached_objects(self) -> Sequence[StoredObject]:
        return () if self._cache is None else self._cache.readable(self._prefix)

    def _keys(self) -> builtins.list[str]:
        keys = [] if self._bodies is None else [*self._bodies]
        return keys + [obj.key for obj in self._cached_objects() if self._bodies is None or obj.key not in self._bodies]

    def _remove(self, key: str) -> int:
        if self.there(key) is None:
            return 0
        if self._bodies is not None:
            self._bodies.pop(key, None)
        revision = self._revisions.next()
        self._publish(Event(revision, key, None, 0, None))
        return revision

    def _publish(self, event: Event) -> None:
        if self._recent is not None:
            self._recent.append(event)
            if len(self._recent) > _MOST_RECENT:
                self._recent = None
        self._publisher.publish((event,), event.revision)

    def __len__(self) -> int:
        return len(self._keys())

    # --- as a Storage: what the watch cache needs ---

    async def start(self) -> None:
        return None

    async def close(self) -> None:
        return None

    def trouble(self) -> str | None:
        return None

    def location(self, key: str) -> str:
        return key

    async def revision(self) -> int:
        return self._publisher.revision

    async def get(self, key: str) -> KeyValue | None:
        return self._read().get(key)

    async def list(self, prefix: str, *, revision: int = 0, start: str = "", limit: int = 0, counted: bool = True) -> Page:
        """All in one page, whatever the limit: between two pages the state may change, and only the newest is here."""
        at = self._publisher.revision
        if revision > at:
            raise FutureRevision(revision, at)
        if revision and revision < at:
            raise Compacted(revision, at)
        if not prefix.startswith(self._prefix):
            return Page([], at, False, 0)
        bodies = self._read()
        self._recent, self._recent_since = [], at
        first = max(start, prefix)
        keys = sorted(key for key in bodies if key >= first and key.startswith(prefix))
        return Page([bodies[key] for key in keys], at, False, 0)

    def _read(self) -> dict[str, KeyValue]:
        """The bodies. Raises Unavailable while they are not here; then they are read again."""
        if self._bodies is None:
            self._bodies, self._is_whole = {}, False
        if not self._is_whole:
            self.wanted()
            raise Unavailable("the source is being read again")
        return self._bodies

    async def count(self, prefix: str) -> int:
        return sum(key.startswith(prefix) for key in self._keys())

    async def watch(self, prefix: str, after: int, sink: Sink) -> Subscription:
        subscription = await self._publisher.subscribe(prefix, after, sink, self.history)
        if prefix == self._prefix and isinstance(sink, Cacher):
            self._bodies = self._recent = None
            self._cache = sink
        return subscription

    async def history(self, prefix: str, after: int, upto: int, limit: int) -> Sequence[Event]:
        newest = self._publisher.revision
        if after >= newest or not prefix.startswith(self._prefix):
            return []
        if self._recent is None or after < self._recent_since:
            raise Compacted(after, newest)
        events = [event for event in self._recent if after < event.revision <= upto and event.key.startswith(prefix)]
        return events[:limit]

    async def room(self) -> int | None:
        return None

    async def settle(self) -> None:
        return None

    async def advance(self, revision: int) -> int:
        raise StorageError("the revisions of a source of one's own are made by time")

    @property
    def oldest_kept(self) -> int:
        return 0

    async def claim_compaction(self, revision: int) -> bool:
        return False

    async def compact(self, revision: int) -> None:
        return None

    async def create(self, key: str, value: bytes, guard: Precondition | None = None) -> int:
        raise Unavailable("objects of a source of one's own are written by its functions")

    async def update(self, key: str, value: bytes, expected: int, guard: Precondition | None = None) -> int:
        raise Unavailable("objects of a source of one's own are written by its functions")

    async def delete(self, key: str, expected: int, guard: Precondition | None = None) -> int:
        raise Unavailable("objects of a source of one's own are written by its functions")
