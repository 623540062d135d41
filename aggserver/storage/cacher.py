"""The watch cache: all objects under a prefix in memory, their recent changes, and the watches on them.

`registry/store.py` holds one cacher per resource, and decides how objects are decoded; here they are opaque. This module decides
which reads can be answered from memory, and which events each watch gets. With a backend in this process, the event of a write
arrives here before the writer gets its answer, so that reads after a write see it.
Source: k8s.io/apiserver pkg/storage/cacher (cacher.go, watch_cache.go), v0.36.3; KEP-2340 for consistent reads.
"""

from __future__ import annotations

import asyncio
import builtins
import gc
import heapq
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from aggserver.meta.backoff import Backoff
from aggserver.storage.audience import Audience
from aggserver.storage.changes import STALE_BYTES, Cached, Change, ChangeEvents, WatchEvent, Window
from aggserver.storage.fair_turns import FairTurns
from aggserver.storage.indexes import AT_ONCE, FEW, Indexes
from aggserver.storage.interface import (
    Compacted,
    Corrupt,
    CorruptList,
    Event,
    FutureRevision,
    KeyValue,
    Storage,
    StorageError,
    Subscription,
    Unavailable,
)
from aggserver.storage.keys import ancestors, end_of, prefix_end
from aggserver.storage.losses import Defect, as_lost, is_own
from aggserver.storage.ordered import Ordered
from aggserver.storage.past import CLOCK_EVERY, LOOK_MATCHING, SLICE_SECONDS, Past, PastSources
from aggserver.storage.predicate import Predicate
from aggserver.storage.revision_waiters import RevisionWaiters
from aggserver.storage.watcher import CacheWatcher
from aggserver.tracing.record import note, now

__all__ = ["CacheCounts", "CacheSize", "CacheWatcher", "Cached", "Cacher", "Footprint", "ListPage", "WatchEvent"]

WAIT = 3.0  # seconds that a request waits for a revision that the cache hasn't reached, as upstream
CHUNK = 500  # objects decoded before other requests run: a few milliseconds
PAGE = 10_000  # objects read from the store at once while loading, as upstream; this many are in memory twice for a moment
_SAMPLES = 8  # objects by which the size of all is estimated
RETRY = Backoff(initial=0.1, longest=5.0)  # between attempts to watch the store again after the subscription was lost


logger = logging.getLogger(__name__)

T = TypeVar("T", bound=Cached)


class Footprint(NamedTuple):
    """What a cache holds. Bytes are those of objects, which a window or several watches may share."""

    prefix: str
    objects: int
    bytes: int
    window_changes: int
    window_bytes: int
    watches: int
    pending_events: int
    pending_bytes: int


@dataclass(slots=True)
class CacheCounts:
    """What has happened in a cache since it was made, for metrics.

    loads: how often all objects were read from the store; loaded_objects: how many. events: of the store. slow_watches: those
    that were ended because their clients did not keep up.
    """

    loads: int = 0
    loaded_objects: int = 0
    events: int = 0
    slow_watches: int = 0


class CacheSize(NamedTuple):
    """What a cache holds now. watches: of clients and controllers. changes, changed_bytes: of the window of recent changes."""

    objects: int
    watches: int
    changes: int
    changed_bytes: int


class ListPage(NamedTuple, Generic[T]):
    """A page of a list, sorted by key. `revision` is that of the list.

    `next_start`: the key where the next page begins, '' if there is none. `remaining`: the number of objects after this page,
    None if there are none, or if a selector makes it unknown.
    """

    items: Sequence[T]
    revision: int
    more: bool = False
    next_start: str = ""
    remaining: int | None = None


class Cacher(Generic[T]):
    """The cache of one prefix of a store. `revision` is the store's revision up to which it is complete. Not thread-safe.

    `make` decodes stored bytes, or raises Corrupt; `at` returns an object with another revision, for DELETED events. `corrupt`
    has the objects that can't be decoded, by key, and may be shared by several cachers: a read that includes such an object
    fails, a watch that should get an event for it ends, and everything else works. `prepare` is awaited before the first read.
    `clock` is monotonic, in seconds; `sleep` waits between attempts to watch the store again. `turns` are shared by all cachers
    of a server.

    behind: for readiness, why a cache does not follow the store at present, by prefix. Several cachers may share it too.

    epoch: counts the calls of `break_off`.
    """

    def __init__(
        self,
        storage: Storage,
        prefix: str,
        *,
        make: Callable[[KeyValue], T],
        at: Callable[[T, int], T],
        prepare: Callable[[], Awaitable[None]] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        corrupt: dict[str, Corrupt] | None = None,
        turns: FairTurns | None = None,
        behind: dict[str, str] | None = None,
    ) -> None:
        self.revision = 0
        self.corrupt = {} if corrupt is None else corrupt
        self.epoch = 0
        self.counted = CacheCounts()
        self.broken_off = 0  # the revision at the last `break_off`; earlier events showed objects as they were before it
        self._storage = storage
        self._prefix = prefix
        self._make = make
        self._at = at
        self._prepare = prepare
        self._clock = clock
        self._sleep = sleep
        self._turns = turns or FairTurns()
        self._behind_store = {} if behind is None else behind
        self._objects: Ordered[T] = Ordered()
        self._window: Window[T] = Window(0)
        self._swept = 0  # the window's `dropped` bytes at the last `_sweep`
        self._indexes = Indexes(self._objects, self._turns, clock)
        self._watchers: dict[str, Audience[T, CacheWatcher[T]]] = {}
        self._behind: dict[CacheWatcher[T], None] = {}  # watches that still get past events
        self._waiters = RevisionWaiters()
        self._subscription: Subscription | None = None
        self._loaded = False
        self._loading: asyncio.Task[None] | None = None
        self._lost: StorageError | None = None
        self._rewatching: asyncio.Task[None] | None = None
        self._pauses = RETRY.pauses()
        self._followed_since = 0.0  # the time by `clock` when the store was last watched again
        self._closed = False

    # Loading and watching the store

    async def ready(self) -> None:
        """Load the cache at first use. Concurrent callers share one load. Raises StorageError; then the next call tries again."""
        while not self._loaded:
            self._check_open()
            if self._loading is None:
                self._loading = asyncio.create_task(self._load())
                self._loading.add_done_callback(_retrieve)
            loading = self._loading
            # Not cancelled with the caller, because others may be waiting for the load.
            await asyncio.wait([loading])
            if self._loading is loading:
                self._loading = None
            if loading.cancelled():
                self._check_open()
                raise Unavailable(f"loading {self._prefix} was interrupted")  # by the store: nobody else cancels it
            loading.result()

    async def _load(self) -> None:
        if self._prepare is not None:
            await self._prepare()
        objects: Ordered[T] = Ordered()
        corrupt: builtins.list[Corrupt] = []
        revision = await self._read_all(objects, corrupt)
        # After a lost watch on the store, the events in between are unknown: watches end with an error that makes clients list
        # again.
        self._end_watchers(Compacted(self.revision, revision))
        self._objects = objects
        self._indexes.clear()
        self._indexes = Indexes(self._objects, self._turns, self._clock)
        self._window = Window(revision)
        self._swept = 0
        self._forget_corrupt()
        for error in corrupt:
            self._note_corrupt(error)
        self._advance(revision)
        self.counted.loads += 1
        self.counted.loaded_objects += len(objects)
        self._subscription = await self._storage.watch(self._prefix, revision, self)
        self._loaded = True
        self._prepare = None

    async def _read_all(self, into: Ordered[T], corrupt: builtins.list[Corrupt]) -> int:
        """Read every object, page by page, all at the revision of the first page, which is returned."""
        page = await self._storage.list(self._prefix, limit=PAGE, counted=False)
        await self._append_all(page.items, into, corrupt)
        while page.more:
            # Frozen objects are not scanned by the garbage collector; otherwise it would scan all that is loaded again and again,
            # 0.2 s each time for 500,000 objects. Frozen garbage is never collected, so the young objects are collected before.
            gc.collect(1)
            gc.freeze()
            start, revision = page.items[-1].key + "\0", page.revision
            del page  # free its memory before the next page is read
            try:
                page = await self._storage.list(self._prefix, revision=revision, start=start, limit=PAGE, counted=False)
            except Compacted as error:
                # The client did not ask for that revision, so it must not get Compacted: the server can't answer yet.
                raise Unavailable(f"loading {self._prefix} took longer than the store keeps history: {error}") from error
            await self._append_all(page.items, into, corrupt)
        return page.revision

    async def _append_all(self, items: Sequence[KeyValue], into: Ordered[T], corrupt: builtins.list[Corrupt]) -> None:
        made: builtins.list[T] = []
        await self._make_all(items, made, corrupt)
        into.append([item.key for item in made], made)

    async def _make_all(self, items: Sequence[KeyValue], into: builtins.list[T], corrupt: builtins.list[Corrupt]) -> None:
        for first in range(0, len(items), CHUNK):
            part = items[first : first + CHUNK]
            try:
                into.extend(list(map(self._make, part)))
            except Corrupt:
                for item in part:
                    try:
                        into.append(self._make(item))
                    except Corrupt as error:
                        corrupt.append(error)
            await asyncio.sleep(0)

    def events(self, batch: Sequence[Event], revision: int) -> None:
        """As the store's sink: apply committed writes, and pass their events to the watches. Raises Unavailable."""
        if self._window.dropped - self._swept > STALE_BYTES:
            self._sweep()
        self.counted.events += len(batch)
        now = self._clock()
        try:
            for event in batch:
                self._apply(event, now)
        except Exception as error:
            raise as_lost(error) from error
        self._advance(revision)

    def _sweep(self) -> None:
        """Close watches whose pending events are older than the window: nothing else keeps the events' objects in memory."""
        self._swept, floor = self._window.dropped, self._window.floor
        for watcher in [watcher for watcher in self._all_watchers() if watcher.lags(floor)]:
            self.counted.slow_watches += 1
            watcher.close()

    async def footprint(self) -> Footprint:
        """What it holds now. The sizes of many objects are summed in slices, between which others get their turn."""
        objects = self._objects.frozen()
        total = size = 0
        while page := objects.values(total, total + PAGE):
            size += sum(each.size for each in page)
            total += len(page)
            await asyncio.sleep(0)
        pending = [watcher.pending for watcher in self._all_watchers()]
        changes, replaced = self._window.held
        events, unread = sum(count for count, _ in pending), sum(size for _, size in pending)
        return Footprint(self._prefix, total, size, changes, replaced, len(pending), events, unread)

    def _all_watchers(self) -> builtins.list[CacheWatcher[T]]:
        return [*itertools.chain(self._behind, *self._watchers.values())]

    def _apply(self, event: Event, now: float) -> None:
        old = self._objects.get(event.key)
        key = event.key if old is None else old.key  # one string object for all uses of a key
        before = self.corrupt.pop(key, None) if self.corrupt else None
        if before is not None and event.value is None:
            before = Corrupt(key, event.revision, before.why, deleted=True)
        after = None
        try:
            new = self._made(event, key)
        except Corrupt as error:
            new, after = None, error
            self._note_corrupt(error)
        if new is not None:
            self._objects.put(key, new)
        elif old is not None:
            self._objects.remove(key)
        self._indexes.apply(key, old, new, now)
        change = Change(key, event.revision, None if before else old, new, now, after or before, before is not None)
        self._window.append(change)
        if self._watchers:
            self._dispatch(change)
        # Advanced with each event, so that after a failure the store is watched again from the first event not applied.
        self.revision = event.revision

    def _made(self, event: Event, key: str) -> T | None:
        """The object after the event, None for a deletion. Raises Corrupt."""
        if event.value is None:
            return None
        return self._make(KeyValue(key, event.value, event.create_revision, event.revision, event.fault))

    def _dispatch(self, change: Change[T]) -> None:
        slow: builtins.list[CacheWatcher[T]] = []
        ended: builtins.list[tuple[CacheWatcher[T], Corrupt]] = []
        events = ChangeEvents(change, self._at)
        objects = [obj for obj in (change.old, change.new) if obj is not None]
        for prefix in ancestors(change.key):
            audience = self._watchers.get(prefix)
            if audience is None:
                continue
            if change.corrupt is not None:
                ended += [(watcher, change.corrupt) for watcher in audience]
                continue
            for group in audience.groups_for(objects):
                try:
                    event = events.event() if group.predicate is None else events.selected(group.predicate.matches)
                except Corrupt as error:
                    ended += [(watcher, error) for watcher in group.watches]
                    continue
                if event is not None:
                    slow += [watcher for watcher in group.watches if not watcher.offer(event)]
        for watcher in slow:
            self.counted.slow_watches += 1
            watcher.close()
        for watcher, reason in ended:
            self.forget(watcher)
            watcher.end(change.revision, reason)

    # Objects that can't be read

    def mark_corrupt(self, error: Corrupt) -> Corrupt:
        """Record that an object can't be read, which a caller may find only when it decodes more of it. Returns the error.

        Ignored if the object was replaced meanwhile.
        """
        found = self._objects.get(error.key)
        if found is not None and found.revision == error.revision:
            self._note_corrupt(error)
        return error

    def _note_corrupt(self, error: Corrupt) -> None:
        known = self.corrupt.get(error.key)
        if known is None or known.revision != error.revision:
            logger.error("%s", error)
        self.corrupt[error.key] = error

    def corrupt_in(self, start: str, end: str) -> builtins.list[Corrupt]:
        """The objects known to be unreadable with start <= key < end, sorted by key."""
        return [self.corrupt[key] for key in sorted(self.corrupt) if start <= key < end]

    def readable(self, prefix: str) -> builtins.list[T]:
        """The readable objects under `prefix`."""
        return self._objects.values(*self._objects.span(prefix, end_of(prefix)))

    def reconsider(self) -> None:
        """Clear what `mark_corrupt` recorded, because the objects are decoded by other rules from now on."""
        for error in self.corrupt_in(self._prefix, prefix_end(self._prefix)):
            if self._objects.get(error.key) is not None:
                del self.corrupt[error.key]

    def _forget_corrupt(self) -> None:
        for error in self.corrupt_in(self._prefix, prefix_end(self._prefix)):
            del self.corrupt[error.key]

    def _advance(self, revision: int) -> None:
        self.revision = revision
        self._waiters.reached(revision)

    def lost(self, error: StorageError) -> None:
        """As the store's sink: watch the store again, from the cache's revision if the store still has it."""
        self._subscription = None
        self._lost = error
        if self._rewatching is None and not self._closed:
            self._rewatching = asyncio.create_task(self._watch_again())

    async def _watch_again(self) -> None:
        """Retry until the store is followed again, after errors of any kind: a cache that gave up would be stale for ever."""
        if self._clock() - self._followed_since > RETRY.longest:
            self._pauses = RETRY.pauses()  # not after a short success: a subscription that is lost at once is a failure too
        attempts = 0
        while (error := self._lost) is not None:
            self._lost = None
            if attempts or isinstance(error, Defect):
                self._report_behind(error)
            attempts += 1
            try:
                await self._follow_again(error, attempts)
            except BaseException as failure:
                if is_own(failure):
                    raise
                self._lost = as_lost(failure)
        self._followed_since = self._clock()
        if self._behind_store.pop(self._prefix, None) is not None:
            logger.info("the cache of %s follows the store again, at revision %d", self._prefix, self.revision)
        self._rewatching = None

    async def _follow_again(self, error: StorageError, attempts: int) -> None:
        if isinstance(error, FutureRevision):
            text = "the store's revision went back from %d to %d; reading %s again"
            logger.warning(text, error.revision, error.current, self._prefix)
        anew = isinstance(error, Compacted | FutureRevision)
        if not anew or attempts > 1:
            await self._sleep(next(self._pauses))
        if anew:
            await self._load()
        else:
            self._subscription = await self._storage.watch(self._prefix, self.revision, self)

    def _report_behind(self, error: StorageError) -> None:
        """Report to readiness and the log why the store is not followed. Each reason is logged once, a Defect with traceback."""
        why = str(error)
        if self._behind_store.get(self._prefix) != why:
            self._behind_store[self._prefix] = why
            text = "the cache of %s does not follow the store since revision %d, trying again: %s"
            logger.warning(
                text, self._prefix, self.revision, why, exc_info=error.__cause__ if isinstance(error, Defect) else None
            )

    def forget_changes(self) -> None:
        """Drop the recent changes, after so many that they were the loading of the store itself: nobody resumes from within."""
        self._window = Window(self.revision)
        self._swept = 0

    def close(self) -> None:
        """End all watches as if the server closed them; waiting calls raise Unavailable. May be called twice."""
        self._closed = True
        self._indexes.clear()
        self._behind_store.pop(self._prefix, None)
        self._forget_corrupt()
        for task in (self._loading, self._rewatching):
            if task is not None:
                task.cancel()
        if self._subscription is not None:
            self._subscription.close()
        self.end_watches()
        self._waiters.fail(Unavailable(f"the cache of {self._prefix} is closed"))

    def end_watches(self) -> None:
        """End all watches as if the server closed them, after they got all events until now. The cache goes on."""
        self._end_watchers(None)

    def expire_watches(self) -> None:
        """End all watches with Compacted, so that their clients list again. The cache goes on."""
        self._end_watchers(Compacted(self.revision, self.revision + 1))

    def break_off(self) -> None:
        """End all watches, as `end_watches` does, because objects are converted or pruned differently from now on.

        A watch that resumes from `broken_off` or before would mix objects of both forms; the caller has to reject it.
        """
        self.end_watches()
        self._indexes.clear()
        self.epoch += 1
        self.broken_off = self.revision

    def _end_watchers(self, error: StorageError | None) -> None:
        for watcher in self._all_watchers():
            watcher.end(self.revision, error)
        self._watchers.clear()
        self._behind.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable(f"the cache of {self._prefix} is closed")

    # Reading

    async def sync(self) -> int:
        """Wait until the cache has all writes from before the call; returns its revision.

        Raises Unavailable, or FutureRevision if it takes too long.
        """
        await self.ready()
        await self.wait_for(await self._storage.revision())
        return self.revision

    async def wait_for(self, revision: int, timeout: float = WAIT) -> None:  # noqa: ASYNC109 - raises an error of its own, with the revision reached
        """Wait until the cache has reached `revision`, at most `timeout` seconds. Raises FutureRevision, Unavailable."""
        await self.ready()
        self._check_open()
        if revision > self.revision:
            self.progress()
        if revision <= self.revision:
            return
        started = now()
        try:
            await self._waiters.wait(revision, timeout)
        except TimeoutError:
            raise FutureRevision(revision, self.revision) from None
        finally:
            note("Wait for the watch cache", started)

    def progress(self) -> int:
        """Request progress from the store; returns the revision known after that."""
        if self._subscription is not None:
            self._subscription.progress()
        return self.revision

    def get(self, key: str) -> T | None:
        """The object at `key` in the cache, None if there is none. Raises Corrupt.

        Await `ready` before, and for a consistent read `sync`.
        """
        if self.corrupt and (error := self.corrupt.get(key)):
            raise error
        return self._objects.get(key)

    @property
    def prefix(self) -> str:
        return self._prefix

    @property
    def loaded(self) -> bool:
        """Whether the cache has all objects, so that `get` needs no `ready` before."""
        return self._loaded and not self._closed

    def size(self) -> CacheSize:
        """For metrics. It counts the watches one by one."""
        watches = len(self._behind) + sum(map(len, self._watchers.values()))
        return CacheSize(len(self._objects), watches, *self._window.held)

    def has(self, key: str) -> bool:
        """Whether there is an object at `key` in the cache that can be read."""
        return self._objects.get(key) is not None

    def extent(self, prefix: str) -> tuple[int, int]:
        """The number of cached objects under `prefix`, and about how many bytes they have. Takes microseconds."""
        first, last = self._objects.span(prefix, prefix_end(prefix))
        count = last - first
        if count <= 0:
            return 0, 0
        sizes = [self._objects.values(at, at + 1)[0].size for at in range(first, last, -(-count // _SAMPLES))]
        return count, sum(sizes) * count // len(sizes)

    def list(self, prefix: str, *, start: str = "", limit: int = 0) -> ListPage[T]:
        """The cached objects under `prefix`, beginning at the key `start`, at most `limit` (0: all). Raises CorruptList."""
        start, end = max(start, prefix), prefix_end(prefix)
        corrupt = self.corrupt_in(start, end) if self.corrupt else ()
        first, last = self._objects.span(start, end)
        if not limit or last - first <= limit:
            return _before_corrupt(ListPage(self._objects.values(first, last), self.revision), corrupt, limit)
        cut = first + limit
        after = self._objects.key(cut - 1) + "\0"
        page = ListPage(self._objects.values(first, cut), self.revision, True, after, last - cut)
        return _before_corrupt(page, corrupt, limit)

    async def select(
        self, prefix: str, predicate: Predicate[T] | None, *, start: str = "", limit: int = 0, user: str = ""
    ) -> ListPage[T]:
        """As `list`, of the objects that match, all at one revision, which is that of the call or later.

        user: the user for whose scans `turns` are taken, if few of many objects that have to be looked at may match.
        """
        if predicate is None:
            return self.list(prefix, start=start, limit=limit)
        await self._indexes.prepare(predicate, user)
        start, end = max(start, prefix), prefix_end(prefix)
        corrupt = self.corrupt_in(start, end) if self.corrupt else ()
        page = await self._walk(start, end, {}, self.revision, limit, predicate, user)
        return _before_corrupt(page, corrupt, limit)

    async def _walk(
        self, start: str, end: str, then: dict[str, T | None], revision: int, limit: int, predicate: Predicate[T], user: str
    ) -> ListPage[T]:
        """A page of the objects with start <= key < end that match, as they are at the call, or as in `then` if it has them."""
        objects = self._objects
        found = self._indexes.find(predicate, start, end)
        few = found is not None and found.count <= AT_ONCE
        if found is not None and found.count <= min(limit or FEW, FEW) and not then:
            matches = predicate.matches
            taken = [item for _, item in objects.get_all(found.at_once()) if matches(item)]
            return ListPage(taken, revision)
        if found is not None and few:
            # Looked up now, so that it is one state, and without a turn: this takes no longer than other requests.
            items = iter(list(objects.get_all(found.at_once())))
        else:
            objects = objects.frozen()
            if found is None:
                items = objects.items(*objects.span(start, end))
            else:
                items = objects.get_all(await found.in_order(self._turns, user))
        if then:
            restored = [(key, old) for key, old in sorted(then.items()) if old is not None]
            unchanged = (item for item in items if item[0] not in then)
            items = heapq.merge(unchanged, restored, key=_key)
        return await self._scan(items, revision, limit, predicate, user, waits=not few)

    async def _scan(
        self,
        items: Iterator[tuple[str, T]],
        revision: int,
        limit: int,
        predicate: Predicate[T] | None,
        user: str,
        total: int = 0,
        *,
        waits: bool = True,
    ) -> ListPage[T]:
        """A page of the first `limit` of `items` that match. The next page begins after the last item examined, as upstream.

        Other requests run between slices of the scan, so `items` must not depend on what they change. waits: whether it waits for
        its turn for the first slice too.
        """
        taken: builtins.list[T] = []
        last = ""
        clock = self._clock
        matches = None if predicate is None else predicate.matches
        while True:
            if waits:
                await self._turns.turn(user)
            waits = True
            end = clock() + SLICE_SECONDS
            for examined, (key, item) in enumerate(items, 1):
                if limit and len(taken) == limit:
                    return ListPage(taken, revision, True, last + "\0", None if matches else total - limit)
                last = key
                if matches is None or matches(item):
                    taken.append(item)
                if examined >= LOOK_MATCHING or (not examined % CLOCK_EVERY and clock() >= end):
                    break
            else:
                return ListPage(taken, revision)

    async def list_at(
        self,
        revision: int,
        prefix: str,
        *,
        start: str = "",
        limit: int = 0,
        predicate: Predicate[T] | None = None,
        user: str = "",
    ) -> ListPage[T]:
        """As `select`, exactly at `revision`. Raises Compacted, CorruptList, FutureRevision, Unavailable.

        A compacted revision is refused even if the window still reaches back to it, as upstream: how long a continue token is
        valid then depends on the time alone.
        """
        await self.wait_for(revision)
        if revision < (oldest := self._storage.oldest_kept):
            raise Compacted(revision, oldest)
        if predicate is not None and revision >= self._window.floor:
            await self._indexes.prepare(predicate, user)
        if revision < self._window.floor:
            return await self._list_stored(revision, prefix, start, limit, predicate, user)
        start, end = max(start, prefix), prefix_end(prefix)
        # The state of a changed key at `revision` is what its first later change replaced.
        then: dict[str, T | None] = {}
        for change in self._window.since(revision):
            if start <= change.key < end and change.key not in then:
                if change.corrupt is not None and change.from_corrupt:
                    raise CorruptList([change.corrupt])
                then[change.key] = change.old
        if corrupt := [error for error in self.corrupt_in(start, end) if error.key not in then]:
            raise CorruptList(corrupt)
        if predicate is not None:
            return await self._walk(start, end, then, revision, limit, predicate, user)
        if not then:
            page = self.list(prefix, start=start, limit=limit)
            return ListPage(page.items, revision, page.more, page.next_start, page.remaining)
        first, last = self._objects.span(start, end)
        unchanged = (item for item in self._objects.frozen().items(first, last) if item[0] not in then)
        restored = [(key, old) for key, old in sorted(then.items()) if old is not None]
        total = last - first - sum(self._objects.get(key) is not None for key in then) + len(restored)
        return await self._scan(heapq.merge(unchanged, restored, key=_key), revision, limit, None, user, total)

    async def _list_stored(
        self, revision: int, prefix: str, start: str, limit: int, predicate: Predicate[T] | None, user: str
    ) -> ListPage[T]:
        """As `list_at`, read from the store page by page until `limit` objects match."""
        found: builtins.list[T] = []
        # If few objects match, small pages would mean many requests to the store.
        size = limit if predicate is None else max(limit, CHUNK)
        while True:
            page = await self._storage.list(prefix, revision=revision, start=start, limit=size, counted=predicate is None)
            made: builtins.list[T] = []
            corrupt: builtins.list[Corrupt] = []
            await self._make_all(page.items, made, corrupt)
            if corrupt:
                raise CorruptList(corrupt)
            items = ((item.key, item) for item in made)
            part = await self._scan(items, revision, limit - len(found) if limit else 0, predicate, user)
            found.extend(part.items)
            if part.more:
                return ListPage(found, revision, True, part.next_start)
            if not page.more:
                return ListPage(found, revision)
            start = page.items[-1].key + "\0"
            if limit and len(found) == limit:
                return ListPage(found, revision, True, start, None if predicate else page.remaining)

    # Watching

    async def watch(
        self,
        prefix: str,
        *,
        after: int | None = None,
        predicate: Predicate[T] | None = None,
        initial: bool = False,
        initial_end: bool = False,
        readable_only: bool = False,
        user: str = "",
    ) -> CacheWatcher[T]:
        """A watch on a prefix, or on one key if it doesn't end with '/'.

        after: None starts with the present objects, as ADDED events sorted by key. A revision starts with the changes since then,
            from the store's history if the window does not reach back so far.
        initial: start with the present objects, once the cache has reached `after`.
        initial_end: send a bookmark after the present objects.
        readable_only: skip present objects that can't be read.
        user: the user for whom the past takes turns, if it has a selector.

        Raises FutureRevision, Compacted, Corrupt, CorruptList, Unavailable.
        """
        await self.wait_for(after or 0)
        initial = initial or after is None
        if initial and predicate is not None:
            await self._indexes.prepare(predicate, user)
            self._check_open()
        if initial and self.corrupt and not readable_only and (found := self.corrupt_in(prefix, end_of(prefix))):
            raise CorruptList(found)
        begin = self.revision if initial or after is None else after
        past = Past(self._sources(), prefix, predicate, begin, initial=initial, mark=initial_end and initial, user=user)
        if past.is_empty:
            watcher = CacheWatcher(prefix, predicate, self, None)
            self.join(watcher)
            return watcher
        watcher = CacheWatcher(prefix, predicate, self, past)
        self._behind[watcher] = None
        if begin < self._window.floor:
            # Read the first part now, so that Compacted is raised here and not after the response to the watch has begun.
            try:
                await watcher.look_ahead()
            except BaseException:
                watcher.close()
                raise
        return watcher

    def _sources(self) -> PastSources[T]:
        return PastSources(
            self._objects,
            self._indexes,
            self._window,
            self._storage,
            self._make,
            self._at,
            newest=lambda: self.revision,
            behind=lambda: len(self._behind),
            kept=lambda: sum(watcher.kept for watcher in self._behind),
            turns=self._turns,
            clock=self._clock,
        )

    def join(self, watcher: CacheWatcher[T]) -> None:
        """As `WatchHub`: deliver live events to `watcher`, which has got all past ones."""
        self._behind.pop(watcher, None)
        audience = self._watchers.get(watcher.prefix)
        if audience is None:
            audience = self._watchers[watcher.prefix] = Audience()
        audience.add(watcher)

    def forget(self, watcher: CacheWatcher[T]) -> None:
        self._behind.pop(watcher, None)
        audience = self._watchers.get(watcher.prefix)
        if audience is not None:
            audience.discard(watcher)
            if not audience:
                del self._watchers[watcher.prefix]


def _before_corrupt(page: ListPage[T], corrupt: Sequence[Corrupt], limit: int) -> ListPage[T]:
    """The page, if all objects that can't be read come after it, else raises CorruptList. `corrupt`: those after its start."""
    found = [error for error in corrupt if not page.next_start or error.key < page.next_start]
    if not found:
        return page
    if limit and len(page.items) == limit and page.items[-1].key < found[0].key:
        return ListPage(page.items, page.revision, True, page.items[-1].key + "\0")
    raise CorruptList(found)


def _key(item: tuple[str, T]) -> str:
    return item[0]


def _retrieve(task: asyncio.Task[None]) -> None:
    """Retrieve a failed task's exception. asyncio would log it as never retrieved if no caller waits any more."""
    if not task.cancelled():
        task.exception()
