"""Reader: get, list and watch of one version of a resource, from its watch cache and the storage.

Objects stay encoded. They are decoded only for a version other than the stored one, to prune and default objects that were stored
before the definition changed, and for selectable fields. `Views` decides how a version shows its objects, `storage_errors.py`
which Status a client gets for a storage error.
Source: k8s.io/apiserver pkg/registry/generic/registry/store.go, pkg/storage/etcd3/store.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aggserver.meta import errors, field, selectors
from aggserver.registry.resource_storage import ResourceStorage
from aggserver.registry.rest import Context, ListOptions, ListResult
from aggserver.registry.selection import parse_resource_version, predicate
from aggserver.registry.storage_errors import reading, too_old
from aggserver.registry.stored import StoredObject
from aggserver.registry.strategy import Strategy
from aggserver.registry.unreadable import CorruptObjects, Unreadable
from aggserver.registry.views import Views
from aggserver.registry.watch import Watch
from aggserver.scheme import object_meta
from aggserver.storage import keys
from aggserver.storage.cacher import ListPage
from aggserver.storage.interface import Compacted, Corrupt, CorruptList

__all__ = ["Reader"]

_CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)
# Seconds that a read waits for the cache to reach the requested resourceVersion (upstream's blockTimeout).
_FRESH_SECONDS = 3.0


class Reader:
    """Getter, Lister and Watcher of one version of a resource; the base of `Store`."""

    def __init__(self, resource: ResourceStorage, strategy: Strategy, views: Views) -> None:
        self._resource = resource
        self._strategy = strategy
        self._info = strategy.info
        self._views = views
        self._cacher = resource.cacher
        self._corrupt = CorruptObjects(resource, views.look_at)

    @property
    def strategy(self) -> Strategy:
        return self._strategy

    def end_watches(self) -> None:
        """End the watches of all versions, after they were sent all events until now."""
        self._cacher.end_watches()

    async def get(self, context: Context, name: str, resource_version: str = "") -> StoredObject:
        await self._catch_up(resource_version)
        obj = self._views.cached(self._key(context, name))
        if obj is None:
            raise self._not_found(name)
        return await self._views.of(obj)

    async def list(self, context: Context, options: ListOptions) -> ListResult:
        return await self._list(context, options)

    async def _list(self, context: Context, options: ListOptions, *, lenient: bool = False) -> ListResult:
        """lenient: see `Views.of_all`."""
        prefix = self._prefix(context)
        if options.readable_only:
            return await self._readable(prefix)
        matches = predicate(options, self._resource.read_fields)
        try:
            if options.continue_token:
                page = await self._continued(prefix, options, matches)
            else:
                page = await self._first_page(prefix, options, matches)
            token = keys.encode_continue(page.next_start[len(prefix) :], page.revision) if page.more else ""
            views = await self._views.of_all(page.items, lenient=lenient)
        except (Corrupt, CorruptList, Unreadable) as error:
            raise await self._corrupt.list_error(prefix, error) from None
        # If the definition has changed during the list, the objects may be as before the change. Then the list gets the revision
        # of the change, from which no watch can resume, so that clients list again.
        revision = min(page.revision, self._cacher.broken_off) if self._resource.is_over else page.revision
        return ListResult(views, revision, token, page.remaining)

    async def _readable(self, prefix: str) -> ListResult:
        """A list of all objects that can be read."""
        await self._catch_up("")
        await self._corrupt.look_at_all(prefix)
        items = [obj for obj in self._cacher.sound(prefix) if obj.key not in self._cacher.corrupt]
        return ListResult(await self._views.of_all(items), self._cacher.revision)

    def unreadable(self) -> Sequence[Corrupt]:
        """The objects known to be unreadable, sorted by key."""
        return self._corrupt.known(self._resource.prefix)

    async def _first_page(
        self, prefix: str, options: ListOptions, matches: Callable[[StoredObject], bool] | None
    ) -> ListPage[StoredObject]:
        wanted = parse_resource_version(options.resource_version, listing=True)
        match = options.resource_version_match
        if wanted > 0 and (match == "Exact" or (options.limit > 0 and not match)):
            with reading():
                return await self._cacher.list_at(wanted, prefix, limit=options.limit, matches=matches)
        await self._catch_up(options.resource_version)
        if name := self._single(prefix, options):
            obj = self._views.cached(prefix + name)
            found = [obj] if obj is not None and (matches is None or matches(obj)) else []
            return ListPage(found, self._cacher.revision)
        # A list with resourceVersion 0 has no pages: upstream's cache ignores the limit, and clients rely on an empty continue.
        limit = 0 if options.resource_version == "0" else options.limit
        return self._cacher.list(prefix, limit=limit, matches=matches)

    async def _continued(
        self, prefix: str, options: ListOptions, matches: Callable[[StoredObject], bool] | None
    ) -> ListPage[StoredObject]:
        try:
            start, revision = keys.decode_continue(options.continue_token, prefix)
        except keys.InvalidContinue as error:
            raise errors.bad_request(f"invalid continue token: {error}") from None
        if options.resource_version not in ("", "0"):
            raise errors.bad_request("specifying resource version is not allowed when using continue")
        if revision < 0:  # the token of an expired list: the client accepts an inconsistent remainder
            await self._catch_up("")
            return self._cacher.list(prefix, start=start, limit=options.limit, matches=matches)

        def inconsistent(_: Compacted) -> errors.StatusError:
            return errors.expired(_CONTINUE_EXPIRED, keys.encode_continue(start[len(prefix) :], -1))

        limit = 0 if options.resource_version == "0" else options.limit  # as for a first page
        with reading(inconsistent):
            return await self._cacher.list_at(revision, prefix, start=start, limit=limit, matches=matches)

    async def count(self, context: Context) -> int:
        """The number of objects, counted by the storage, so that the cache isn't loaded."""
        with reading():
            return await self._resource.storage.count(self._prefix(context))

    async def watch(self, context: Context, options: ListOptions) -> Watch:
        matches = predicate(options, self._resource.read_fields)
        wanted = parse_resource_version(options.resource_version)
        initial = options.send_initial_events
        if initial is None:
            # By default, a watch without a resourceVersion or with 0 begins with the current objects.
            initial = wanted == 0
        if wanted == 0:
            await self._catch_up(options.resource_version)
        after = wanted or (None if initial else self._cacher.revision)
        try:
            with reading(too_old):
                if after and wanted and not initial:
                    await self._cacher.ready()
                    self._resource.check_resumable(after)
                watcher = await self._cacher.watch(
                    self._watched_prefix(context, options),
                    after=after,
                    matches=matches,
                    initial=initial,
                    initial_end=options.send_initial_events is True and options.allow_bookmarks,
                    readable_only=options.readable_only,
                )
        except (CorruptList, Unreadable) as error:
            raise await self._corrupt.list_error(self._prefix(context), error) from None
        if self._resource.is_over:
            watcher.close()  # the definition has changed in the meantime, which has ended all other watches
        return Watch(watcher, self._views.form, self._views.of)

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

    async def _catch_up(self, resource_version: str) -> None:
        """Wait until the cache is as new as a read with this resourceVersion requires."""
        with reading():
            if resource_version == "":
                await self._cacher.sync()
                return
            await self._cacher.ready()
            wanted = parse_resource_version(resource_version)
            if wanted > self._cacher.revision:
                await self._cacher.wait_for(wanted, _FRESH_SECONDS)
