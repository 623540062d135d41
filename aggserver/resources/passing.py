"""Passing: a resource whose source has revisions of its own: lists, and a watch per request, are passed through with them.

Nothing is mirrored. The server adds the objects of now at the beginning of a watch, bookmarks, selectors, visibility, limits of
time and memory, and the errors that clients know. Selectors and visibility turn changes into ADDED and DELETED: what an object
was before is known from the source (`Event.old`), from the objects of now, or from what this watch was told already. Where a
watch resumes and none of these knows, an object that does not match is told of as DELETED, since a client that has it must let it
go, and one that hasn't ignores that. Of an object that the user may not know of nothing is told then.
Source: k8s.io/apiserver pkg/storage/cacher/cache_watcher.go, pkg/endpoints/handlers/get.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

from aggserver.meta import errors
from aggserver.meta.errors import StatusError
from aggserver.registry import stored
from aggserver.registry.rest import Context, ListOptions
from aggserver.registry.selection import predicate
from aggserver.registry.stored import StoredObject
from aggserver.resources.commit import asked
from aggserver.resources.connecting import Ends
from aggserver.resources.events import Bookmark
from aggserver.resources.following import Sleep
from aggserver.resources.requests import Fields, Labels, WatchRequest
from aggserver.resources.source import VERSION, ListedPage, Made, ToldEvent
from aggserver.resources.store import TOO_OLD, DirectStore, unselected
from aggserver.storage.changes import ADDED, BOOKMARK, DELETED, MODIFIED, WatchEvent

__all__ = ["PassingStore"]

# Bytes of events that wait for a client. With more the source is not asked for the next one.
_MOST_WAITING = 256 * 1024
# Seconds that the source may take to say that the watch is on, or why not, before the client gets the head of the response.
_FIRST_SECONDS = 1.0

Told = AsyncGenerator[ToldEvent | Bookmark, None]


class PassingStore(DirectStore):
    """ends: of the watches, when the server stops. sleep: for `_FIRST_SECONDS`."""

    ends: Ends
    sleep: Sleep

    def _revision(self, page: ListedPage) -> str:
        return page.revision

    def _named(self, context: Context, options: ListOptions) -> str:
        """'', since the answer of `get` has no revision that a watch of the list could begin at."""
        return ""

    def _check_listable(self, options: ListOptions) -> None:
        given = options.resource_version
        if given not in ("", "0") and not VERSION.fullmatch(given):
            raise errors.bad_request(f"invalid resource version: {given!r} is no number, and does not begin with a letter")

    async def _pages(
        self,
        context: Context,
        options: ListOptions,
        matches: Callable[[StoredObject], bool],
        admits: Callable[[StoredObject], bool],
    ) -> tuple[Sequence[StoredObject], str, str]:
        found, token, revision = await super()._pages(context, options, matches, admits)
        wanted = options.resource_version
        if wanted not in ("", "0") and not options.continue_token:
            match = options.resource_version_match
            is_exact = match == "Exact" or (options.limit > 0 and not match)
            if wanted.isdigit() and revision.isdigit() and int(wanted) > int(revision):
                raise errors.too_large_resource_version(int(wanted), int(revision))
            if is_exact and wanted != revision:
                raise errors.expired(TOO_OLD)
        return found, token, revision

    async def watch(self, context: Context, options: ListOptions) -> _Watch:  # type: ignore[override]  # no cache is watched
        """Raises what the source raises until it says that the watch is on."""
        function = self.source.functions.watch
        assert function is not None
        self._check_listable(options)
        is_plain = not inspect.isasyncgenfunction(function)
        self.ends.check(is_plain=is_plain)
        given = options.resource_version
        wants_now = given in ("", "0") if options.send_initial_events is None else options.send_initial_events
        now: Sequence[StoredObject] | None = None
        if wants_now:
            now, given = await self._objects_of_now(context, options)
        elif given in ("", "0"):
            given = (await self.source.page(self._listing(context, options, 1, ""))).revision
        told = self.source.events(self._watching(context, options, given))
        first = asyncio.ensure_future(anext(told, None))
        try:
            await self._begun(first)
        except BaseException:
            await _end(first, told)
            raise
        watch = _Watch(given, self._chosen(context, options, now), bookmarks=options.allow_bookmarks)
        watch.begin(now or (), first, told, is_marked=options.send_initial_events is True)
        self.ends.add(watch.close, is_plain=is_plain)
        watch.on_end(partial(self.ends.forget, watch.close))
        return watch

    def _watching(self, context: Context, options: ListOptions, revision: str) -> WatchRequest[Any]:
        request = asked(context)
        values = {name: getattr(request, name) for name in request.__dataclass_fields__}
        return WatchRequest(**values, labels=Labels(options.labels), fields=Fields(options.fields), revision=revision)

    async def _objects_of_now(self, context: Context, options: ListOptions) -> tuple[Sequence[StoredObject], str]:
        """Those that match, and the revision at which they do."""
        listing = replace(options, limit=0, continue_token="")
        matches, admits = self._matches(context, listing), self._matches(context, unselected(listing))
        found, _, revision = await self._pages(context, listing, matches, admits)
        return sorted(await self._views.of_all(found), key=lambda obj: obj.key), revision

    async def _begun(self, first: asyncio.Future[ToldEvent | Bookmark | None]) -> None:
        pause = asyncio.ensure_future(self.sleep(_FIRST_SECONDS))
        try:
            await asyncio.wait((first, pause), return_when=asyncio.FIRST_COMPLETED)
        finally:
            pause.cancel()
        if first.done():
            first.result()

    def _chosen(self, context: Context, options: ListOptions, now: Sequence[StoredObject] | None) -> _Chosen:
        left = unselected(options) if self.source.functions.filtered_watch else options
        chosen = predicate(left, self._resource.read_fields)
        matches = None if chosen is None else chosen.matches
        known = None if now is None else {obj.key for obj in now}
        return _Chosen(self._prefix(context), self._as_shown, matches, self._visible(context), known)

    async def _as_shown(self, made: Made) -> StoredObject:
        return await self._views.of(self._object(*made))


class _Event(WatchEvent[StoredObject]):
    """version: the resourceVersion, as the source has it."""

    __slots__ = ("_version",)

    def __init__(self, type_: str, obj: StoredObject | None, version: str, *, initial_events_end: bool = False) -> None:
        super().__init__(type_, obj, 0, 0 if obj is None else obj.size, initial_events_end)
        self._version = version

    @property
    def resource_version(self) -> str:
        return self._version


class _Chosen:
    """Which events one watch gets. prefix: of the keys that are asked for. matches: the selectors, None for all objects.

    visible: whether the user may know of an object; None for all. known: the keys of the objects of now that are chosen; None
    where the watch does not begin with them.
    """

    def __init__(
        self,
        prefix: str,
        show: Callable[[Made], Awaitable[StoredObject]],
        matches: Callable[[StoredObject], bool] | None,
        visible: Callable[[StoredObject], bool] | None,
        known: set[str] | None,
    ) -> None:
        self._prefix = prefix
        self._show = show
        self._matches = matches
        self._visible = visible
        self._selects = matches is not None or visible is not None
        self._knows_all = known is not None
        # By key: whether the client has the object, as far as this watch knows.
        self._has = dict.fromkeys(known or (), True)

    async def of(self, told: ToldEvent) -> _Event | None:
        if not told.object[0].startswith(self._prefix):
            return None
        obj = await self._show(told.object)
        if not self._selects:
            return _Event(told.type, obj, obj.resource_version)
        old = None if told.old is None else await self._show(told.old)
        had = self._had(told.type, obj, old)
        if told.type == DELETED:
            self._has.pop(obj.key, None)
            if had is None:
                had = self._is_chosen(obj)
            return self._deleted(obj, old) if had else None
        self._has[obj.key] = has = self._is_chosen(obj)
        if has:
            kind = told.type if had is None else (MODIFIED if had else ADDED)
            return _Event(kind, obj, obj.resource_version)
        if had or (had is None and self._is_visible(obj)):
            return self._deleted(obj, old)
        return None

    def _had(self, kind: str, obj: StoredObject, old: StoredObject | None) -> bool | None:
        """Whether the client has the object from before; None if nobody knows."""
        if (known := self._has.get(obj.key)) is not None:
            return known
        if old is not None:
            return self._is_chosen(old)
        return False if self._knows_all or kind == ADDED else None

    def _is_chosen(self, obj: StoredObject) -> bool:
        return (self._matches is None or self._matches(obj)) and self._is_visible(obj)

    def _is_visible(self, obj: StoredObject) -> bool:
        return self._visible is None or self._visible(obj)

    def _deleted(self, obj: StoredObject, old: StoredObject | None) -> _Event:
        """DELETED at the revision of the change, with the last content that the user may see."""
        version = obj.resource_version
        if old is not None and self._is_chosen(old):
            return _Event(DELETED, stored.versioned(obj.key, stored.value(old), version), version)
        return _Event(DELETED, obj if self._is_visible(obj) else _named(obj), version)


def _named(obj: StoredObject) -> StoredObject:
    """An object with no more than what it takes to know which one it is."""
    tree = obj.decoded()
    metadata = {name: tree["metadata"][name] for name in ("name", "namespace", "uid") if name in tree["metadata"]}
    encoded = stored.encode({"metadata": metadata}, tree["apiVersion"], tree["kind"])
    return stored.versioned(obj.key, encoded, obj.resource_version)


class _Watch:
    """The `WatchStream` of one request. A task takes what the source tells, and waits while the client does not read."""

    def __init__(self, revision: str, chosen: _Chosen, *, bookmarks: bool) -> None:
        self._chosen = chosen
        self._bookmarks = bookmarks
        # All that came until this revision waits for the client, or has been sent; '' while there are objects of now to tell.
        self._stands = ""
        self._begins_at = revision
        self._waiting: list[_Event] = []
        self._size = 0
        self._filled = asyncio.Event()
        self._taken = asyncio.Event()
        self._failure: StatusError | None = None
        self._task: asyncio.Task[None] | None = None

    def begin(
        self,
        now: Sequence[StoredObject],
        first: asyncio.Future[ToldEvent | Bookmark | None],
        told: Told,
        *,
        is_marked: bool,
    ) -> None:
        """now: the objects to begin with. first: what is told first. is_marked: whether a bookmark says where `now` ends."""
        self._task = asyncio.ensure_future(self._run(now, first, told, is_marked=is_marked and self._bookmarks))
        _RUNNING.add(self._task)
        self._task.add_done_callback(_RUNNING.discard)
        self._task.add_done_callback(lambda _: self._filled.set())

    def on_end(self, call: Callable[[], None]) -> None:
        assert self._task is not None
        self._task.add_done_callback(lambda _: call())

    async def _run(
        self,
        now: Sequence[StoredObject],
        first: asyncio.Future[ToldEvent | Bookmark | None],
        told: Told,
        *,
        is_marked: bool,
    ) -> None:
        try:
            for obj in now:
                await self._put(_Event(ADDED, obj, obj.resource_version))
            self._stands = self._begins_at
            if is_marked:
                await self._put(_Event(BOOKMARK, None, self._stands, initial_events_end=True))
            each = await first
            while each is not None:
                await self._take(each)
                each = await anext(told, None)
        except StatusError as error:
            self._failure = error
        finally:
            await _end(first, told)

    async def _take(self, told: ToldEvent | Bookmark) -> None:
        if isinstance(told, Bookmark):
            is_news = told.revision != self._stands
            self._stands = told.revision
            if is_news:
                self.bookmark()
            return
        event = await self._chosen.of(told)
        if event is not None:
            await self._put(event)
        self._stands = told.object[2]

    async def _put(self, event: _Event) -> None:
        while self._size >= _MOST_WAITING:
            self._taken.clear()
            await self._taken.wait()
        self._waiting.append(event)
        self._size += event.size
        self._filled.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Sequence[_Event]:
        assert self._task is not None
        while not self._waiting:
            if self._task.done():
                if (failure := self._failure) is not None:
                    self._failure = None
                    raise failure
                if not self._task.cancelled():
                    self._task.result()
                raise StopAsyncIteration
            self._filled.clear()
            await self._filled.wait()
        batch, self._waiting, self._size = self._waiting, [], 0
        self._taken.set()
        return batch

    def bookmark(self) -> None:
        if not self._bookmarks or not self._stands or self._task is None or self._task.done():
            return
        if self._waiting and self._waiting[-1].type == BOOKMARK and not self._waiting[-1].initial_events_end:
            self._waiting.pop()
        self._waiting.append(_Event(BOOKMARK, None, self._stands))
        self._filled.set()

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()


# The event loop itself holds tasks weakly, and one that ends has generators to close.
_RUNNING: set[asyncio.Task[None]] = set()


async def _end(first: asyncio.Future[ToldEvent | Bookmark | None], told: Told) -> None:
    """Close what the source tells. Not before its step has ended: a generator that runs can't be closed."""
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    with contextlib.suppress(Exception):
        await told.aclose()
