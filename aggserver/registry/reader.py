"""Reader: get, list and watch of one version of a resource, from its watch cache and the storage.

Objects stay encoded. They are decoded only for a version other than the stored one, to prune and default objects that were stored
before the definition changed, and for selectable fields. `Views` decides how a version shows its objects, `storage_errors.py`
which Status a client gets for a storage error.
Source: k8s.io/apiserver pkg/registry/generic/registry/store.go, pkg/storage/etcd3/store.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Self

from aggserver.conversion.converter import ComputedConverter
from aggserver.meta import errors, field, selectors
from aggserver.registry import stored
from aggserver.registry.conversions import BATCH_OBJECTS
from aggserver.registry.resource_storage import ResourceStorage
from aggserver.registry.rest import Context, ListOptions, ListResult
from aggserver.registry.selection import is_in_key, parse_resource_version, predicate, shard_of
from aggserver.registry.storage_errors import reading, too_old
from aggserver.registry.stored import StoredObject
from aggserver.registry.strategy import Strategy
from aggserver.registry.unreadable import CorruptObjects, Unreadable
from aggserver.registry.views import Views
from aggserver.registry.watch import Selection, Watch
from aggserver.scheme import object_meta
from aggserver.storage import keys
from aggserver.storage.cacher import Cacher, ListPage
from aggserver.storage.interface import Compacted, Corrupt, CorruptList
from aggserver.storage.predicate import Predicate

__all__ = ["Reader"]

# The form of objects of any version, in watches of metadata alone.
_AS_STORED = object()

_CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)
# Seconds that a read waits for the cache to reach the requested resourceVersion (upstream's blockTimeout).
_FRESH_SECONDS = 3.0


class Selector(NamedTuple):
    """predicate: which objects are selected, None for all. is_late: whether its argument must be converted to this version.

    converts: whether it converts its argument by itself, and raises the errors of that.
    """

    predicate: Predicate[StoredObject] | None
    is_late: bool = False
    converts: bool = False

    @property
    def in_cache(self) -> Predicate[StoredObject] | None:
        """The predicate for the watch cache, None if it can't select. Errors become Corrupt, which ends the watch."""
        if self.predicate is None or self.is_late:
            return None
        if not self.converts:
            return self.predicate  # all that it raises is Corrupt
        matches = self.predicate.matches

        def checked(obj: StoredObject) -> bool:
            with _as_corrupt(obj):
                return matches(obj)

        return self.predicate._replace(matches=checked)


@contextlib.contextmanager
def _as_corrupt(obj: StoredObject) -> Iterator[None]:
    """What makes a view of an object raises Corrupt."""
    try:
        yield
    except Unreadable as unreadable:
        raise unreadable.error from None
    except errors.StatusError as error:
        raise Corrupt(obj.key, obj.revision, error.message) from None


def _limit(options: ListOptions) -> int:
    """0 for none. A list with resourceVersion 0 has no pages: upstream's cache ignores the limit, and clients rely on that."""
    return 0 if options.resource_version == "0" else options.limit


def _no_sibling(api_version: str) -> None:
    """For resources that have one version."""


class Reader:
    """Getter, Lister and Watcher of one version of a resource; the base of `Store`, which is made by the same parameters.

    sibling: the Reader of another version of the resource, by its apiVersion; None if the definition does not have that version.
    """

    def __init__(
        self,
        resource: ResourceStorage,
        strategy: Strategy,
        views: Views,
        sibling: Callable[[str], Self | None] = _no_sibling,
    ) -> None:
        self._resource = resource
        self._sibling = sibling
        self._strategy = strategy
        self._info = strategy.info
        self._views = views
        self._cacher = resource.cacher
        self._corrupt = CorruptObjects(resource, views.look_at)

    @property
    def strategy(self) -> Strategy:
        return self._strategy

    @property
    def cacher(self) -> Cacher[StoredObject]:
        """The watch cache, which all versions of the resource share."""
        return self._cacher

    def end_watches(self) -> None:
        """End the watches of all versions, once they have delivered all events until now."""
        self._cacher.end_watches()

    async def get(self, context: Context, name: str, resource_version: str = "") -> StoredObject:
        self._resource.check_read()
        await self.catch_up(resource_version)
        obj = self._views.cached(self._key(context, name))
        if obj is None:
            raise self._not_found(name)
        if context.metadata_only:
            return (await self._as_stored([obj]))[0]
        return await self._views.of(obj)

    async def find(self, context: Context, name: str) -> StoredObject | None:
        """As `get`, but None if there is no such object."""
        try:
            return await self.get(context, name)
        except errors.StatusError as error:
            if error.code == 404:
                return None
            raise

    def known(self, namespace: str, name: str) -> StoredObject | None:
        """The object in the cache, without waiting for the cache to be current; None if it has none, or not in this version.

        For lookups in each write, by callers that accept a slightly outdated object.
        """
        if not self._cacher.loaded:
            return None
        try:
            obj = self._cacher.get(self._resource.key_of(namespace, name))
        except Corrupt:
            return None
        return obj if obj is not None and self._views.is_own(obj) else None

    async def list(self, context: Context, options: ListOptions) -> ListResult:
        self._resource.check_read()
        return await self._list(context, options)

    async def _list(self, context: Context, options: ListOptions, *, lenient: bool = False) -> ListResult:
        """lenient: see `Views.of_all`."""
        prefix = self._prefix(context)
        if options.readable_only:
            return await self._readable(context, prefix)
        selector = self._selector(context, options)
        try:
            page = await self._page(context, prefix, options, selector)
            token = self._token(page, prefix) if page.more else ""
            views = await self._show(context, page.items, lenient=lenient)
        except (Corrupt, CorruptList, Unreadable) as error:
            raise await self._corrupt.list_error(prefix, error) from None
        # If the definition has changed during the list, the objects may be as before the change. Then the list gets the revision
        # of the change, from which no watch can resume, so that clients list again.
        revision = min(page.revision, self._cacher.broken_off) if self._resource.is_over else page.revision
        return ListResult(views, str(revision), token, page.remaining, str(shard_of(options) or ""))

    def _token(self, page: ListPage[StoredObject], prefix: str) -> str:
        moved = self._resource.objects_since() > 0
        return keys.encode_continue(page.next_start[len(prefix) :], page.revision, moved=moved)

    async def _page(self, context: Context, prefix: str, options: ListOptions, selector: Selector) -> ListPage[StoredObject]:
        if selector.is_late and selector.predicate is not None:
            # All objects from the start of the page, because those that match are only known once they are converted.
            page = await self._stored_page(context, prefix, options, None, 0)
            return await self._selected(page, selector.predicate.matches, _limit(options))
        return await self._stored_page(context, prefix, options, selector.predicate, _limit(options))

    async def _stored_page(
        self, context: Context, prefix: str, options: ListOptions, predicate: Predicate[StoredObject] | None, limit: int
    ) -> ListPage[StoredObject]:
        page = self._continued if options.continue_token else self._first_page
        return await page(context, prefix, options, predicate, limit)

    async def _selected(
        self, page: ListPage[StoredObject], matches: Callable[[StoredObject], bool], limit: int
    ) -> ListPage[StoredObject]:
        """The first `limit` objects of a page that match in this version. Converts no more than it must, in batches."""
        found: list[StoredObject] = []
        for first in range(0, len(page.items), BATCH_OBJECTS):
            part = page.items[first : first + BATCH_OBJECTS]
            for obj, view in zip(part, await self._views.of_all(part), strict=True):
                if limit and len(found) == limit:
                    return ListPage(found, page.revision, True, found[-1].key + "\0")
                if matches(view):
                    found.append(obj)
            await asyncio.sleep(0)  # if all views of a batch are cached, nothing else awaits
        return ListPage(found, page.revision)

    def _selector(self, context: Context, options: ListOptions) -> Selector:
        """How to select the objects of a list or a watch.

        Fields are those of the requested version; so are labels, except in requests for metadata alone.
        """
        read_fields = self._resource.read_fields
        converter = self._resource.converter
        labels_differ = converter.changes_metadata and not options.labels.empty and not context.metadata_only
        if is_in_key(options) and not labels_differ:
            return Selector(predicate(options, read_fields))
        if not isinstance(converter, ComputedConverter):
            return Selector(predicate(options, read_fields), is_late=True)
        shown, plain = predicate(options, read_fields, self._computed), predicate(options, read_fields)
        if shown is None or plain is None:
            return Selector(None)
        matches, computed = plain.matches, self._views.computed
        return Selector(shown._replace(matches=lambda obj: matches(computed(obj))), converts=True)

    def _computed(self, obj: StoredObject) -> StoredObject:
        """The object in this version, for an index. Raises Corrupt."""
        with _as_corrupt(obj):
            return self._views.computed(obj)

    async def _readable(self, context: Context, prefix: str) -> ListResult:
        """A list of all objects that can be read."""
        await self.catch_up("")
        await self._corrupt.look_at_all(prefix)
        items = [obj for obj in self._cacher.readable(prefix) if obj.key not in self._cacher.corrupt]
        return ListResult(await self._show(context, items), str(self._cacher.revision))

    def unreadable(self) -> Sequence[Corrupt]:
        """The objects known to be unreadable, sorted by key."""
        return self._corrupt.known(self._resource.prefix)

    async def _first_page(
        self, context: Context, prefix: str, options: ListOptions, predicate: Predicate[StoredObject] | None, limit: int
    ) -> ListPage[StoredObject]:
        wanted = parse_resource_version(options.resource_version, listing=True)
        match = options.resource_version_match
        if wanted > 0 and (match == "Exact" or (options.limit > 0 and not match)):
            with reading():
                return await self._list_at(context, wanted, prefix, "", limit, predicate)
        await self.catch_up(options.resource_version)
        if name := self._single(prefix, options):
            obj = self._views.cached(prefix + name)
            found = [obj] if obj is not None and (predicate is None or predicate.matches(obj)) else []
            return ListPage(found, self._cacher.revision)
        return await self._cacher.select(prefix, predicate, limit=limit, user=context.user.name)

    async def _continued(
        self, context: Context, prefix: str, options: ListOptions, predicate: Predicate[StoredObject] | None, limit: int
    ) -> ListPage[StoredObject]:
        try:
            start, revision = keys.decode_continue(options.continue_token, prefix)
        except keys.InvalidContinue as error:
            raise errors.bad_request(f"invalid continue token: {error}") from None
        if options.resource_version not in ("", "0"):
            raise errors.bad_request("specifying resource version is not allowed when using continue")
        if revision < 0:  # the token of an expired list: the client accepts an inconsistent remainder
            await self.catch_up("")
            return await self._cacher.select(prefix, predicate, start=start, limit=limit, user=context.user.name)

        def inconsistent(_: Compacted) -> errors.StatusError:
            return errors.expired(_CONTINUE_EXPIRED, keys.encode_continue(start[len(prefix) :], -1))

        with reading(inconsistent):
            return await self._list_at(context, revision, prefix, start, limit, predicate)

    async def _list_at(
        self,
        context: Context,
        revision: int,
        prefix: str,
        start: str,
        limit: int,
        predicate: Predicate[StoredObject] | None,
    ) -> ListPage[StoredObject]:
        await self._cacher.ready()
        self._resource.check_listable(revision)
        user = context.user.name
        return await self._cacher.list_at(revision, prefix, start=start, limit=limit, predicate=predicate, user=user)

    async def count(self, context: Context) -> int:
        """The number of objects, counted by the storage, so that the cache isn't loaded."""
        with reading():
            return await self._resource.storage.count(self._prefix(context))

    async def watch(self, context: Context, options: ListOptions) -> Watch:
        self._resource.check_read()
        selector = self._selector(context, options)
        wanted = parse_resource_version(options.resource_version)
        initial = options.send_initial_events
        if initial is None:
            # By default, a watch without a resourceVersion or with 0 begins with the current objects.
            initial = wanted == 0
        if wanted == 0:
            await self.catch_up(options.resource_version)
        after = wanted or (None if initial else self._cacher.revision)
        try:
            with reading(too_old):
                if after and wanted and not initial:
                    await self._cacher.ready()
                    self._resource.check_resumable(after)
                watcher = await self._cacher.watch(
                    self._watched_prefix(context, options),
                    after=after,
                    predicate=selector.in_cache,
                    initial=initial,
                    initial_end=options.send_initial_events is True and options.allow_bookmarks,
                    readable_only=options.readable_only,
                    user=context.user.name,
                )
        except (CorruptList, Unreadable) as error:
            raise await self._corrupt.list_error(self._prefix(context), error) from None
        if self._resource.is_over:
            watcher.close()  # the definition has changed in the meantime, which has ended all other watches
        try:
            self._resource.check_read()
        except errors.StatusError:
            watcher.close()
            raise

        async def show(objects: Sequence[StoredObject]) -> Sequence[StoredObject]:
            return await self._show(context, objects)

        form = _AS_STORED if context.metadata_only else self._views.form
        late = selector.predicate if selector.is_late else None
        selection = None if late is None else Selection(late.matches, self._views.of, show)
        return Watch(watcher, form, show, selection)

    async def _show(self, context: Context, objects: Sequence[StoredObject], *, lenient: bool = False) -> Sequence[StoredObject]:
        """The objects as a response has them: in this version, or as stored if only their metadata is asked for.

        Then no conversion is needed, on which the garbage collector and the deletion of a namespace would depend.
        """
        if context.metadata_only:
            return await self._as_stored(objects, lenient=lenient)
        return await self._views.of_all(objects, lenient=lenient)

    async def _as_stored(self, objects: Sequence[StoredObject], *, lenient: bool = False) -> Sequence[StoredObject]:
        """The objects, each in the version in which it is stored, pruned and defaulted."""
        by_store: dict[Reader, builtins.list[int]] = {}
        for index, obj in enumerate(objects):
            by_store.setdefault(self._store_of(obj), []).append(index)
        if len(by_store) == 1:
            (store,) = by_store
            return await store._views.of_all(objects, lenient=lenient)
        shown = builtins.list(objects)
        for store, indexes in by_store.items():
            views = await store._views.of_all([objects[index] for index in indexes], lenient=lenient)
            for index, view in zip(indexes, views, strict=True):
                shown[index] = view
        return shown

    def _store_of(self, obj: StoredObject) -> Self:
        """The store of the version in which an object is stored; this one if the definition does not have that version."""
        return self if self._views.is_own(obj) else self._sibling(stored.api_version(obj)) or self

    def _watched_prefix(self, context: Context, options: ListOptions) -> str:
        """The prefix to watch, or the key if a selector names a single object, so that writes of others don't touch the watch."""
        prefix = self._prefix(context)
        return prefix + self._single(prefix, options)

    def _single(self, prefix: str, options: ListOptions) -> str:
        """The only name that the field selector allows, '' if there is none, or if objects in several namespaces may have it."""
        if options.fields.empty or (self._info.namespaced and prefix == self._resource.prefix):
            return ""
        name = selectors.exact_value(options.fields, "metadata.name")
        return "" if object_meta.path_segment_name(name) else name

    # --- the cache, keys and errors, for reads and writes ---

    def _not_found(self, name: str) -> errors.StatusError:
        return errors.not_found(self._info.group, self._info.resource, name)

    def _prefix(self, context: Context) -> str:
        if self._info.namespaced and context.namespace:
            return f"{self._resource.prefix}{context.namespace}/"
        return self._resource.prefix

    def _key(self, context: Context, name: str) -> str:
        """The key of an object. Raises BadRequest for a missing namespace, or a name that can't be in a path."""
        if self._info.namespaced and not context.namespace:
            raise errors.bad_request("Namespace parameter required.")
        if not name:
            raise errors.bad_request("Name parameter required.")
        if problems := object_meta.path_segment_name(name):
            raise errors.bad_request(f"Name parameter invalid: {field.quote(name)}: {';'.join(problems)}")
        return self._prefix(context) + name

    async def catch_up(self, resource_version: str) -> None:
        """Wait until the cache is as new as a read with this resourceVersion requires.

        Called before each read of the cache; a kind overrides it if it has to do something before.
        """
        with reading():
            if resource_version == "":
                await self._cacher.sync()
                return
            await self._cacher.ready()
            wanted = parse_resource_version(resource_version)
            if wanted > self._cacher.revision:
                await self._cacher.wait_for(wanted, _FRESH_SECONDS)
