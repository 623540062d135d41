"""The watch cache: all objects under a prefix, the recent changes, and everyone who watches them.

Generic over an opaque object: `registry/store.py` says how one is made of stored bytes, and holds one cacher per resource.
Decides which reads memory can answer, and what each watch is told. A write's event comes here before the writer gets its
answer, so whoever asks after a write sees it. Knows nothing of Kubernetes beyond the four types of events.
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
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from aggserver.meta.backoff import Backoff
from aggserver.storage.changes import STALE_BYTES, Cached, Change, Telling, WatchEvent, Window
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
from aggserver.storage.ordered import Ordered
from aggserver.storage.past import Past, Sources
from aggserver.storage.watcher import CacheWatcher

__all__ = ["CacheWatcher", "Cached", "Cacher", "ListPage", "WatchEvent"]

WAIT = 3.0  # seconds a request waits for a revision that the cache hasn't reached, as upstream
CHUNK = 500  # objects made before other requests have their turn: a few milliseconds
PAGE = 10_000  # objects read from the store at once while loading, as upstream: what is there twice for a moment
RETRY = Backoff(initial=0.1, longest=5.0)  # between attempts to follow a store that was lost


logger = logging.getLogger(__name__)

T = TypeVar("T", bound=Cached)
Matches = Callable[[T], bool]


@dataclass(frozen=True, slots=True)
class ListPage(Generic[T]):
    """A part of a list, sorted by key. `next_start` is where the next part begins, '' if there is none; `remaining` counts what
    follows, None if nothing does or a selector keeps it from being known. `revision` is the list's.
    """

    items: Sequence[T]
    revision: int
    more: bool = False
    next_start: str = ""
    remaining: int | None = None


class Cacher(Generic[T]):
    """One prefix of a store, in memory. `revision` is how far it has come, by the store's counter. For the event loop's thread.

    `make` turns stored bytes into an object, or raises Corrupt; `at` gives an object as it was, shown with the revision of its
    deletion. What can't be made is in `corrupt`, by key, which several cachers may share; a read that would have to show it is
    refused, a watch that would have to tell of it ends, and everything else goes on. `prepare` is awaited before the first read.
    `clock` is in seconds and monotonic; `sleep` waits between attempts to follow a lost store.

    epoch: how often the objects have come to look otherwise, see `break_off`.
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
    ) -> None:
        self.revision = 0
        self.corrupt = {} if corrupt is None else corrupt
        self.epoch = 0
        self.broken_off = 0  # revision: up to which all that was told looked as it did before the last `break_off`
        self._storage = storage
        self._prefix = prefix
        self._make = make
        self._at = at
        self._prepare = prepare
        self._clock = clock
        self._sleep = sleep
        self._objects: Ordered[T] = Ordered()
        self._window: Window[T] = Window(0)
        self._swept = 0  # of what the window has let go of, the bytes that its watches have let go of too
        self._watchers: dict[str, dict[CacheWatcher[T], None]] = {}
        self._behind: dict[CacheWatcher[T], None] = {}  # those that are still told of the past
        self._waiting: builtins.list[tuple[int, int, asyncio.Future[None]]] = []
        self._subscription: Subscription | None = None
        self._loaded = False
        self._loading: asyncio.Task[None] | None = None
        self._lost: StorageError | None = None
        self._following: asyncio.Task[None] | None = None
        self._closed = False

    # Loading and following the store

    async def ready(self) -> None:
        """Loads everything, at first use; concurrent callers share one load. Raises StorageError, and may be tried again."""
        while not self._loaded:
            self._check_open()
            if self._loading is None:
                self._loading = asyncio.create_task(self._load())
                self._loading.add_done_callback(_retrieve)
            loading = self._loading
            # A caller that gives up leaves the load to the others.
            await asyncio.wait([loading])
            if self._loading is loading:
                self._loading = None
            if not loading.cancelled():
                loading.result()

    async def _load(self) -> None:
        if self._prepare is not None:
            await self._prepare()
        objects: builtins.list[T] = []
        corrupt: builtins.list[Corrupt] = []
        revision = await self._read_all(objects, corrupt)
        # After a loss: what happened in between can't be told, so the watches end with an error that makes clients list anew.
        self._end_watchers(Compacted(self.revision, revision))
        self._objects = Ordered([item.key for item in objects], objects)
        self._window = Window(revision)
        self._swept = 0
        self._forget_corrupt()
        for error in corrupt:
            self._spoil(error)
        self._advance(revision)
        self._subscription = await self._storage.watch(self._prefix, revision, self)
        self._loaded = True
        self._prepare = None

    async def _read_all(self, into: builtins.list[T], corrupt: builtins.list[Corrupt]) -> int:
        """Every object, page by page at the revision of the first, which is returned."""
        page = await self._storage.list(self._prefix, limit=PAGE)
        await self._make_all(page.items, into, corrupt)
        while page.more:
            # Or the collector goes through all that is loaded, over and over: 0.2 s each time for 500,000 objects, none garbage.
            gc.freeze()
            start, revision = page.items[-1].key + "\0", page.revision
            del page  # before the next one comes
            try:
                page = await self._storage.list(self._prefix, revision=revision, start=start, limit=PAGE)
            except Compacted as error:
                # Not the caller's revision: to a client this is a server that can't answer yet, not a list that is too old.
                raise Unavailable(f"loading {self._prefix} took longer than the store keeps history: {error}") from error
            await self._make_all(page.items, into, corrupt)
        return page.revision

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
        """As the store's sink: takes committed writes in, and tells the watches."""
        if self._window.dropped - self._swept > STALE_BYTES:
            self._sweep()
        now = self._clock()
        for event in batch:
            self._apply(event, now)
        self._advance(revision)

    def _sweep(self) -> None:
        """What has left the window is not to be kept in memory by watches that nobody reads, each for itself."""
        self._swept, floor = self._window.dropped, self._window.floor
        for watcher in [watcher for watcher in self._all_watchers() if watcher.lags(floor)]:
            watcher.close()

    def _all_watchers(self) -> builtins.list[CacheWatcher[T]]:
        return [*itertools.chain(self._behind, *self._watchers.values())]

    def _apply(self, event: Event, now: float) -> None:
        old = self._objects.get(event.key)
        key = event.key if old is None else old.key  # one text for all that is kept of a key
        before = self.corrupt.pop(key, None) if self.corrupt else None
        if before is not None and event.value is None:
            before = Corrupt(key, event.revision, before.why, deleted=True)
        after = None
        try:
            new = self._made(event, key)
        except Corrupt as error:
            new, after = None, error
            self._spoil(error)
        if new is not None:
            self._objects.put(key, new)
        elif old is not None:
            self._objects.remove(key)
        change = Change(key, event.revision, None if before else old, new, now, after or before, before is not None)
        self._window.append(change)
        if self._watchers:
            self._tell(change)
        # One by one, so that after a failure the rest of the batch, and no more, is asked for again.
        self.revision = event.revision

    def _made(self, event: Event, key: str) -> T | None:
        """What the event leaves at its key, None if nothing. Raises Corrupt."""
        if event.value is None:
            return None
        return self._make(KeyValue(key, event.value, event.create_revision, event.revision, event.fault))

    def _tell(self, change: Change[T]) -> None:
        slow: builtins.list[CacheWatcher[T]] = []
        ended: builtins.list[tuple[CacheWatcher[T], Corrupt]] = []
        telling = Telling(change, self._at)
        for prefix in ancestors(change.key):
            for watcher in self._watchers.get(prefix, ()):
                try:
                    if change.corrupt is not None:
                        raise change.corrupt
                    event = telling.event() if watcher.matches is None else telling.selected(watcher.matches)
                except Corrupt as error:
                    ended.append((watcher, error))
                    continue
                if event is not None and not watcher.offer(event):
                    slow.append(watcher)
        for watcher in slow:
            watcher.close()
        for watcher, reason in ended:
            self.forget(watcher)
            watcher.end(change.revision, reason)

    # What can't be read

    def spoil(self, error: Corrupt) -> Corrupt:
        """Takes note of an object that turned out to be unreadable when somebody looked inside; returns the error, to be raised.

        One that was replaced meanwhile is none of the cache's any more.
        """
        found = self._objects.get(error.key)
        if found is not None and found.revision == error.revision:
            self._spoil(error)
        return error

    def _spoil(self, error: Corrupt) -> None:
        known = self.corrupt.get(error.key)
        if known is None or known.revision != error.revision:
            logger.error("%s", error)
        self.corrupt[error.key] = error

    def corrupt_in(self, start: str, end: str) -> builtins.list[Corrupt]:
        """What is known to be unreadable of the keys with start <= key < end, in order."""
        return [self.corrupt[key] for key in sorted(self.corrupt) if start <= key < end]

    def sound(self, prefix: str) -> builtins.list[T]:
        """The objects under `prefix` that were made, whatever else there is."""
        return self._objects.values(*self._objects.span(prefix, end_of(prefix)))

    def reconsider(self) -> None:
        """Forgets what was found inside of objects, for those who look by other rules from now on."""
        for error in self.corrupt_in(self._prefix, prefix_end(self._prefix)):
            if self._objects.get(error.key) is not None:
                del self.corrupt[error.key]

    def _forget_corrupt(self) -> None:
        for error in self.corrupt_in(self._prefix, prefix_end(self._prefix)):
            del self.corrupt[error.key]

    def _advance(self, revision: int) -> None:
        self.revision = revision
        while self._waiting and self._waiting[0][0] <= revision:
            future = heapq.heappop(self._waiting)[2]
            if not future.done():
                future.set_result(None)

    def lost(self, error: StorageError) -> None:
        """As the store's sink: follows the store again, from where the cache is if the store still knows that."""
        self._subscription = None
        self._lost = error
        if self._following is None and not self._closed:
            self._following = asyncio.create_task(self._follow_again())
            self._following.add_done_callback(_retrieve)

    async def _follow_again(self) -> None:
        pauses = RETRY.pauses()
        while self._lost is not None:
            error, self._lost = self._lost, None
            try:
                if isinstance(error, FutureRevision):
                    text = "the store was set back from revision %d to %d, %s is read anew"
                    logger.warning(text, error.revision, error.current, self._prefix)
                if isinstance(error, (Compacted, FutureRevision)):
                    await self._load()
                else:
                    await self._sleep(next(pauses))
                    self._subscription = await self._storage.watch(self._prefix, self.revision, self)
            except StorageError as failure:
                self._lost = failure
        self._following = None

    def close(self) -> None:
        """Ends everything: watches end as if the server closed them, and all who wait get Unavailable. May be called twice."""
        self._closed = True
        self._forget_corrupt()
        for task in (self._loading, self._following):
            if task is not None:
                task.cancel()
        if self._subscription is not None:
            self._subscription.close()
        self.end_watches()
        for _, _, future in self._waiting:
            if not future.done():
                future.set_exception(Unavailable(f"the cache of {self._prefix} is closed"))

    def end_watches(self) -> None:
        """Ends all watches as if the server closed them, each once all that happened until now was told. The cache goes on."""
        self._end_watchers(None)

    def break_off(self) -> None:
        """The objects look otherwise from now on to whoever holds this cache: watches end, as by `end_watches`.

        Who watches from `broken_off` or before would go on with objects that look as before; that is for the caller to refuse.
        """
        self.end_watches()
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
        """Waits until the cache has all that was written before the call; returns its revision.

        Raises Unavailable; FutureRevision if it takes too long.
        """
        await self.ready()
        await self.wait_for(await self._storage.revision())
        return self.revision

    async def wait_for(self, revision: int, timeout: float = WAIT) -> None:  # noqa: ASYNC109 - an error of its own, with the revision reached
        """Waits until the cache has reached `revision`, at most `timeout` seconds. Raises FutureRevision, Unavailable."""
        await self.ready()
        self._check_open()
        if revision > self.revision:
            self.progress()
        if revision <= self.revision:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (revision, id(future), future)
        heapq.heappush(self._waiting, entry)
        try:
            async with asyncio.timeout(timeout):
                await future
        except TimeoutError:
            raise FutureRevision(revision, self.revision) from None
        finally:
            if not self._closed and entry in self._waiting:
                self._waiting.remove(entry)
                heapq.heapify(self._waiting)

    def progress(self) -> int:
        """Lets the store say how far it is; the revision known after that."""
        if self._subscription is not None:
            self._subscription.progress()
        return self.revision

    def get(self, key: str) -> T | None:
        """The object at `key` as the cache has it; `ready`, and `sync` for a consistent read, come before. Raises Corrupt."""
        if self.corrupt and (error := self.corrupt.get(key)):
            raise error
        return self._objects.get(key)

    def list(self, prefix: str, *, start: str = "", limit: int = 0, matches: Matches[T] | None = None) -> ListPage[T]:
        """The objects under `prefix` as the cache has them, from the key `start` on, at most `limit` that match (0: all).

        Raises CorruptList.
        """
        page = self._page(prefix, start, limit, matches)
        return self._before_corrupt(page, prefix, start, limit) if self.corrupt else page

    def _before_corrupt(self, page: ListPage[T], prefix: str, start: str, limit: int) -> ListPage[T]:
        """The page, if what can't be read comes after it."""
        found = self.corrupt_in(max(start, prefix), page.next_start or prefix_end(prefix))
        if not found:
            return page
        if limit and len(page.items) == limit and page.items[-1].key < found[0].key:
            return ListPage(page.items, page.revision, True, page.items[-1].key + "\0")
        raise CorruptList(found)

    def _page(self, prefix: str, start: str, limit: int, matches: Matches[T] | None) -> ListPage[T]:
        first, last = self._objects.span(max(start, prefix), prefix_end(prefix))
        if matches is not None:
            return _select(self._objects.items(first, last), self.revision, limit, matches)
        if not limit or last - first <= limit:
            return ListPage(self._objects.values(first, last), self.revision)
        end = first + limit
        return ListPage(self._objects.values(first, end), self.revision, True, self._objects.key(end - 1) + "\0", last - end)

    async def list_at(
        self, revision: int, prefix: str, *, start: str = "", limit: int = 0, matches: Matches[T] | None = None
    ) -> ListPage[T]:
        """As `list`, exactly at `revision`. Raises Compacted, CorruptList, FutureRevision, Unavailable."""
        await self.wait_for(revision)
        if revision < self._window.floor:
            return await self._list_stored(revision, prefix, start, limit, matches)
        start, end = max(start, prefix), prefix_end(prefix)
        # What the first later change of each key replaced is its state then.
        then: dict[str, T | None] = {}
        for change in self._window.since(revision):
            if start <= change.key < end and change.key not in then:
                if change.corrupt is not None and change.from_corrupt:
                    raise CorruptList([change.corrupt])
                then[change.key] = change.old
        if corrupt := [error for error in self.corrupt_in(start, end) if error.key not in then]:
            raise CorruptList(corrupt)
        if not then:
            page = self.list(prefix, start=start, limit=limit, matches=matches)
            return ListPage(page.items, revision, page.more, page.next_start, page.remaining)
        first, last = self._objects.span(start, end)
        unchanged = (item for item in self._objects.items(first, last) if item[0] not in then)
        restored = [(key, old) for key, old in sorted(then.items()) if old is not None]
        total = last - first - sum(self._objects.get(key) is not None for key in then) + len(restored)
        return _select(heapq.merge(unchanged, restored, key=_key), revision, limit, matches, total)

    async def _list_stored(self, revision: int, prefix: str, start: str, limit: int, matches: Matches[T] | None) -> ListPage[T]:
        """From the store, page by page until enough match."""
        found: builtins.list[T] = []
        # Where few match, small pages would ask the store over and over.
        size = max(limit, CHUNK) if limit and matches is not None else limit
        while True:
            page = await self._storage.list(prefix, revision=revision, start=start, limit=size)
            made: builtins.list[T] = []
            corrupt: builtins.list[Corrupt] = []
            await self._make_all(page.items, made, corrupt)
            if corrupt:
                raise CorruptList(corrupt)
            part = _select(((item.key, item) for item in made), revision, limit - len(found) if limit else 0, matches)
            found.extend(part.items)
            if part.more:
                return ListPage(found, revision, True, part.next_start)
            if not page.more:
                return ListPage(found, revision)
            start = page.items[-1].key + "\0"
            if limit and len(found) == limit:
                return ListPage(found, revision, True, start, None if matches else page.remaining)

    # Watching

    async def watch(
        self,
        prefix: str,
        *,
        after: int | None = None,
        matches: Matches[T] | None = None,
        initial: bool = False,
        initial_end: bool = False,
        readable_only: bool = False,
    ) -> CacheWatcher[T]:
        """A watch on what is under `prefix`, or on one key if it doesn't end in '/'.

        `after` None: the objects of now come first, as ADDED in order of key, then what happens. `after` N: what happened since N
        comes first, from the store's history where the window doesn't reach back; with `initial`, the objects of now do, once the
        cache has reached N. `initial_end` adds the bookmark that says where the objects of now end. `readable_only`:
        they are those that can be read.
        Raises FutureRevision, Compacted, Corrupt, CorruptList, Unavailable.
        """
        await self.wait_for(after or 0)
        initial = initial or after is None
        if initial and self.corrupt and not readable_only and (found := self.corrupt_in(prefix, end_of(prefix))):
            raise CorruptList(found)
        begin = self.revision if initial or after is None else after
        past = Past(self._sources(), prefix, matches, begin, initial=initial, mark=initial_end and initial)
        if past.is_empty:
            watcher = CacheWatcher(prefix, matches, self, None)
            self.join(watcher)
            return watcher
        watcher = CacheWatcher(prefix, matches, self, past)
        self._behind[watcher] = None
        if begin < self._window.floor:
            # The first part is read before the caller is told that the watch stands, so that Compacted is raised here.
            try:
                await watcher.look_ahead()
            except BaseException:
                watcher.close()
                raise
        return watcher

    def _sources(self) -> Sources[T]:
        return Sources(
            self._objects,
            self._window,
            self._storage,
            self._make,
            self._at,
            newest=lambda: self.revision,
            behind=lambda: len(self._behind),
        )

    def join(self, watcher: CacheWatcher[T]) -> None:
        """As the feed of its watches: this one has been told all until now."""
        self._behind.pop(watcher, None)
        self._watchers.setdefault(watcher.prefix, {})[watcher] = None

    def forget(self, watcher: CacheWatcher[T]) -> None:
        self._behind.pop(watcher, None)
        group = self._watchers.get(watcher.prefix, {})
        group.pop(watcher, None)
        if not group:
            self._watchers.pop(watcher.prefix, None)


def _select(items: Iterable[tuple[str, T]], revision: int, limit: int, matches: Matches[T] | None, total: int = 0) -> ListPage[T]:
    """The first `limit` of `items` that match. The next part begins after the last one looked at, as upstream's does."""
    taken: builtins.list[T] = []
    last = ""
    for key, item in items:
        if limit and len(taken) == limit:
            return ListPage(taken, revision, True, last + "\0", None if matches else total - limit)
        last = key
        if matches is None or matches(item):
            taken.append(item)
    return ListPage(taken, revision)


def _key(item: tuple[str, T]) -> str:
    return item[0]


def _retrieve(task: asyncio.Task[None]) -> None:
    """Whoever waits for the task has its error; if nobody does any more, nobody is to be told."""
    if not task.cancelled():
        task.exception()
