"""The verbs of a virtual resource. Writes go through the write loop of every resource (`registry/store.py`): admission,
managedFields, preparation, validation, dry run. Only its ends differ: what it starts from, and its commit, which is a function
(`commit.py`).

`MirroredStore` reads from a mirror of the source, so that lists, watches, chunks and old revisions are as with any resource.
`DirectStore` calls the source for every read. It has no watches; objects have a resourceVersion of their source, or a digest of
their content, so that an update of what has changed meanwhile is refused.
Source: k8s.io/apiserver pkg/registry/generic/registry/store.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

from aggserver.meta import codec, errors, selectors
from aggserver.meta.json_types import JSONObject
from aggserver.meta.selectors import FieldSelector, LabelSelector
from aggserver.registry import stored
from aggserver.registry.commit import Commit
from aggserver.registry.reader import Selector
from aggserver.registry.rest import (
    NO_ADMISSION,
    Admission,
    ApplyConfiguration,
    Context,
    Deleted,
    DeleteOptions,
    ListOptions,
    ListResult,
    Transform,
    WriteRequest,
    Written,
)
from aggserver.registry.selection import parse_resource_version, predicate, shard_of
from aggserver.registry.store import Store
from aggserver.registry.stored import StoredObject
from aggserver.registry.strategy import Strategy
from aggserver.registry.watch import Watch
from aggserver.resources import kept
from aggserver.resources.commit import InSource, Keep, KeepingCommit, SourceCommit, asked, nothing_more
from aggserver.resources.errors import NotFound
from aggserver.resources.following import Following
from aggserver.resources.mirror import Mirror, Reading
from aggserver.resources.requests import Fields, Labels, ListRequest, Request
from aggserver.resources.revisions import REPLICAS, Revisions
from aggserver.resources.sidecar import Sidecar
from aggserver.resources.source import ListedPage, ObjectSource
from aggserver.storage.cacher import ListPage
from aggserver.storage.interface import Compacted, KeyValue
from aggserver.storage.predicate import Predicate

__all__ = ["TOO_OLD", "Applying", "DirectStore", "MirroredStore", "SourceStore", "Verbs", "unselected"]

log = logging.getLogger("aggserver.resources")

T = TypeVar("T")

# Calls of `list` for one answer to a client that wants a page: with a selector that matches little, the page is short instead.
_CALLS = 10
# Calls of `get` for an object that changes each time meanwhile.
_READINGS = 5
# Bytes of a continue token that are its signature.
_SIGNATURE = 16
# Objects looked at before other requests run: about a millisecond.
_TURN = 50
# The page that a source is asked for by a client that gives no limit.
_PAGE = 500
# The most objects of a page that is cut for a client's limit, if a source gives more than it is asked for. A larger one is given
# as a whole, which clients must expect: for each next part of it the source would have to make all of it again.
# Source: k8s.io/apimachinery pkg/apis/meta/v1/types.go (ListOptions.Limit), v0.36.3.
_MOST_CUT = 1_000
# The beginning of the resourceVersion of an object with metadata that is kept: the revision of its record follows, a dot, and the
# version of the source.
_MARK = "kept-"
TOO_OLD = "The resourceVersion for the provided list is too old."
_EXPIRED = "The provided continue parameter is too old to display a consistent list result. You must start a new list without it."


class SourceStore(Store, InSource):
    """What both kinds of virtual resources have in common. `source` and `sidecar` are set right after it was made.

    sidecar: what is kept beside the source; None for a resource without one.
    """

    source: ObjectSource
    sidecar: Sidecar | None = None

    def with_strategy(self, strategy: Strategy) -> Store:
        raise AssertionError("a virtual resource has no subresources that are parts of its objects")

    @cached_property
    def _commit(self) -> Commit:
        if self.sidecar is None:
            return SourceCommit(self._resource, self._views, self, self.source)
        return KeepingCommit(self._resource, self._views, self, self.source, self.sidecar)

    def _visible(self, context: Context) -> Callable[[StoredObject], bool] | None:
        if self.source.functions.visible is None:
            return None
        request = asked(context)
        return lambda obj: self.source.is_visible(request, obj.decoded())

    def _selector(self, context: Context, options: ListOptions) -> Selector:
        """As with any resource, and of these only the objects that the user may know of."""
        selector = super()._selector(context, options)
        visible = self._visible(context)
        if visible is None:
            return selector
        # A function that fails ends a watch, as a conversion that fails does.
        selected = selector.predicate
        if selected is None:
            return Selector(Predicate(visible, visible), converts=True)
        matches = selected.matches
        both = Predicate(lambda obj: matches(obj) and visible(obj), (selected.identity, visible), selected.lookups)
        return Selector(both, converts=True)

    async def get(self, context: Context, name: str, resource_version: str = "") -> StoredObject:
        obj = await self._read(context, name, resource_version)
        if obj is None or ((visible := self._visible(context)) is not None and not visible(obj)):
            raise self._not_found(name)
        return obj

    async def _read(self, context: Context, name: str, resource_version: str) -> StoredObject | None:
        """The object of a name, as clients see it."""
        raise NotImplementedError

    async def _newest(self, context: Context, key: str) -> StoredObject | None:
        obj = await self._now(context, key)
        if obj is not None and (visible := self._visible(context)) is not None and not visible(obj):
            return None
        return obj

    async def _now(self, context: Context, key: str) -> StoredObject | None:
        """The object of a key, to write from: as the source has it now, if it can be asked."""
        raise NotImplementedError

    async def delete(self, context: Context, name: str, options: DeleteOptions, admission: Admission = NO_ADMISSION) -> Deleted:
        if options.dry_run:
            self.source.refuse_dry_run("delete")
        return await super().delete(context, name, _in_background(options, self.source), admission)

    async def delete_collection(
        self, context: Context, options: DeleteOptions, selection: ListOptions, admission: Admission = NO_ADMISSION
    ) -> ListResult:
        if options.dry_run:
            self.source.refuse_dry_run("delete")
        return await super().delete_collection(context, _in_background(options, self.source), selection, admission)


def unselected(options: ListOptions) -> ListOptions:
    """What of the options of a list is left for a source that has applied the label and the field selector."""
    return replace(options, labels=LabelSelector(()), fields=FieldSelector(()))


def _in_background(options: DeleteOptions, source: ObjectSource) -> DeleteOptions:
    """Dependents are deleted in the background: a policy that needs a finalizer can't be kept by a source without metadata."""
    return options if source.keeps else replace(options, propagation="", orphan_dependents=None)


class MirroredStore(SourceStore):
    """Reads from the mirror, which `following` keeps fresh. Writes start from the source if it has a `get`, and end in it."""

    mirror: Mirror
    following: Following
    revisions: Revisions

    async def create_in_source(self, request: Request[Any], key: str, obj: JSONObject, keep: Keep = nothing_more) -> StoredObject:
        await self.catch_up("")  # an object can't be shown before the cache has all
        with self.mirror.reading() as reading:
            _, encoded, _ = await self.source.create(request, obj)
        return await self._written(request, reading, key, encoded, keep)

    async def update_in_source(
        self, request: Request[Any], key: str, obj: JSONObject, old: JSONObject, keep: Keep = nothing_more
    ) -> StoredObject:
        with self.mirror.reading() as reading:
            try:
                _, encoded, _ = await self.source.update(request, obj, old)
            except NotFound:
                await self._is_gone(request, reading, key)
                raise
        return await self._written(request, reading, key, encoded, keep)

    async def delete_in_source(self, request: Request[Any], obj: StoredObject, old: JSONObject) -> StoredObject:
        with self.mirror.reading() as reading:
            try:
                await self.source.delete(request, old)
            except NotFound:
                await self._is_gone(request, reading, obj.key)
                raise
        revision = await self._is_gone(request, reading, obj.key)
        return stored.at(obj, revision) if revision else obj

    async def _is_gone(self, request: Request[Any], reading: Reading, key: str) -> int:
        """The source has said that there is no such object. Returns the revision of its deletion, 0 if there is none.

        What was told meanwhile may be newer: an object that somebody has made anew must not be told of as deleted.
        """
        if key not in reading.touched:
            return self.mirror.remove(key)
        if self.source.functions.get is not None:
            await self._found(request, key)
        else:
            self.following.refresh_soon()
        return 0

    def is_newest(self, obj: StoredObject) -> bool:
        there = self._cacher.get(obj.key) if self._cacher.loaded else None
        return there is not None and there.revision == obj.revision

    def own_version(self, version: str) -> str:
        return version  # the mirror's

    def shown_anew(self, obj: StoredObject, old: JSONObject) -> StoredObject:
        assert self.sidecar is not None
        self.sidecar.refresh(obj.key)
        return self._cacher.get(obj.key) or obj

    async def _written(self, request: Request[Any], reading: Reading, key: str, encoded: bytes, keep: Keep) -> StoredObject:
        """A written object with its revision. If the object changed meanwhile, by a feed or another client, nobody can say which
        state is the newer one: then the source is asked.
        """
        try:
            await keep(encoded)
        except BaseException:
            if key not in reading.touched:
                self._kept(key, encoded)
            raise
        if key not in reading.touched:
            return self._kept(key, encoded)
        if self.source.functions.get is None:
            self.following.refresh_soon()
            return self._kept(key, encoded)
        newest = await self._found(request, key)
        shown = encoded if self.sidecar is None else self.sidecar.shown(key, encoded)
        if newest is not None and stored.value(newest) == shown:
            return newest
        # Not the newest state any more. Its revision is one that no object has, so that an update that begins here is refused.
        return stored.make(KeyValue(key, shown, 0, self.revisions.last - REPLICAS // 2))

    def _kept(self, key: str, encoded: bytes) -> StoredObject:
        self.mirror.put(key, encoded)
        if self.sidecar is not None:
            self.sidecar.refresh(key)
        # The cache has what was put, since it is told at once.
        cached = self._cacher.get(key) if self._cacher.loaded else None
        return stored.make(KeyValue(key, encoded, 0, self.revisions.last)) if cached is None else cached

    async def _found(self, request: Request[Any], key: str) -> StoredObject | None:
        """The object as the source's `get` tells it, which the mirror has then, too."""
        name = key.rpartition("/")[2]
        for _ in range(_READINGS):
            with self.mirror.reading() as reading:
                found = await self.source.one(request, name)
            if key in reading.touched:
                continue  # what was found may be older than what was told meanwhile
            if found is not None:
                return self._kept(key, found[0])
            self.mirror.remove(key)
            return None
        return self._cacher.get(key) if self._cacher.loaded else None

    async def _read(self, context: Context, name: str, resource_version: str) -> StoredObject | None:
        await self.catch_up(resource_version)
        obj = self._views.cached(self._key(context, name))
        self.following.warn(context.warnings)
        return None if obj is None else (await self._show(context, [obj]))[0]

    async def _now(self, context: Context, key: str) -> StoredObject | None:
        await self.catch_up("")
        if self.source.functions.get is not None:
            return await self._found(asked(context, key), key)
        return self._views.cached(key)

    async def catch_up(self, resource_version: str) -> None:
        await self.following.current()
        self._check_own(resource_version)
        if self.sidecar is not None and not resource_version:
            await self.sidecar.current()
        await super().catch_up(resource_version)

    async def _list(self, context: Context, options: ListOptions, *, lenient: bool = False) -> ListResult:
        self.following.warn(context.warnings)
        if context.namespace and not options.continue_token and self._never_had(self._prefix(context)):
            self._check_own(options.resource_version)
            return ListResult([], str(self._cacher.revision))
        return await super()._list(context, options, lenient=lenient)

    def _never_had(self, prefix: str) -> bool:
        """Whether an old state, which may not be shown any more, has nothing in a namespace.

        Then there is nothing that a failure could hide, and the list is answered with a warning: else one source that fails would
        keep every namespace of the cluster from being deleted, since each is searched for objects of all resources.
        """
        if not self.following.is_stale or not self._cacher.loaded:
            return False
        return not self._cacher.list(prefix, limit=1).items

    async def watch(self, context: Context, options: ListOptions) -> Watch:
        await self.following.current()
        self._check_own(options.resource_version)
        return await super().watch(context, options)

    def _check_own(self, resource_version: str) -> None:
        """Raise 410 for a revision of another replica or process: what came after it is not known here."""
        wanted = parse_resource_version(resource_version)
        if wanted and (self.revisions.is_foreign(wanted) or wanted > self.revisions.last):
            raise errors.expired(f"too old resource version: {wanted} ({self.revisions.last})")

    async def _list_at(
        self,
        context: Context,
        revision: int,
        prefix: str,
        start: str,
        limit: int,
        predicate: Predicate[StoredObject] | None,
    ) -> ListPage[StoredObject]:
        if self.revisions.is_foreign(revision) or revision > self.revisions.last:
            raise Compacted(revision, self.revisions.last)
        return await super()._list_at(context, revision, prefix, start, limit, predicate)


class DirectStore(SourceStore):
    """Reads from the source each time. secret: signs the cursors of the source in continue tokens."""

    revisions: Revisions
    secret: bytes

    async def create_in_source(self, request: Request[Any], key: str, obj: JSONObject, keep: Keep = nothing_more) -> StoredObject:
        made = await self.source.create(request, obj)
        await keep(made[1])
        return self._object(*made)

    async def update_in_source(
        self, request: Request[Any], key: str, obj: JSONObject, old: JSONObject, keep: Keep = nothing_more
    ) -> StoredObject:
        made = await self.source.update(request, obj, old)
        await keep(made[1])
        return self._object(*made)

    async def delete_in_source(self, request: Request[Any], obj: StoredObject, old: JSONObject) -> StoredObject:
        await self.source.delete(request, old)
        return obj

    def is_newest(self, obj: StoredObject) -> bool:
        """By the record's revision in its version; and by the metadata, which is that of the last reading of the source."""
        assert self.sidecar is not None
        metadata = obj.decoded()["metadata"]
        record = self.sidecar.record_of(obj.key, metadata["uid"])
        if _unmarked(obj.resource_version)[0] != (0 if record is None else record.revision):
            return False
        return codec.same(kept.merged(*self.sidecar.divided(obj.key, metadata)), kept.part(metadata))

    def own_version(self, version: str) -> str:
        return _unmarked(version)[1]

    def shown_anew(self, obj: StoredObject, old: JSONObject) -> StoredObject:
        encoded = stored.encode(old, self._info.api_version, self._info.kind)
        return self._object(obj.key, encoded, self.own_version(obj.resource_version))

    def _object(self, key: str, encoded: bytes, version: str) -> StoredObject:
        if not version:
            version = "h" + hashlib.blake2b(encoded, digest_size=8).hexdigest()
        if self.sidecar is not None:
            shown = self.sidecar.shown(key, encoded)
            record = self.sidecar.record(key)
            if shown is not encoded and record is not None:
                return stored.versioned(key, shown, f"{_MARK}{record.revision}.{version}")
        return stored.versioned(key, encoded, version)

    async def _read(self, context: Context, name: str, resource_version: str) -> StoredObject | None:
        obj = await self._now(context, self._key(context, name))
        return None if obj is None else await self._views.of(obj)

    async def _now(self, context: Context, key: str) -> StoredObject | None:
        await self.catch_up("")
        if self.source.functions.get is not None:
            found = await self.source.one(asked(context, key), key.rpartition("/")[2])
            return None if found is None else self._object(key, *found)
        cursor = ""
        while True:
            page = await self.source.page(self._listing(context, None, 0, cursor))
            for found_key, encoded, version in page.objects:
                if found_key == key:
                    return self._object(key, encoded, version)
            if not page.cursor:
                return None
            cursor = self._after(cursor, page.cursor)

    def _listing(self, context: Context, options: ListOptions | None, limit: int, cursor: str) -> ListRequest[Any]:
        request = asked(context)
        values = {name: getattr(request, name) for name in request.__dataclass_fields__}
        if options is not None:
            values["fields"] = Fields(options.fields)
            if self.sidecar is None:  # else the source does not know all labels, and must leave nothing out for them
                values["labels"] = Labels(options.labels)
        return ListRequest(**values, limit=limit, cursor=cursor or None)

    async def _list(self, context: Context, options: ListOptions, *, lenient: bool = False) -> ListResult:
        self._check_listable(options)
        matches, admits = self._matches(context, options), self._matches(context, unselected(options))
        shard = str(shard_of(options) or "")
        if name := self._named(context, options):
            obj = await self._read(context, name, "")
            found = [obj] if obj is not None and matches(obj) else []
            return ListResult(found, str(self.revisions.next()), shard=shard)
        await self.catch_up("")
        objects, token, revision = await self._pages(context, options, matches, admits)
        return ListResult(await self._views.of_all(objects, lenient=lenient), revision, token, shard=shard)

    def _check_listable(self, options: ListOptions) -> None:
        """Raise what a list at a revision of the past gets."""
        if options.resource_version_match == "Exact" and options.resource_version:
            raise errors.expired(TOO_OLD)

    def _revision(self, page: ListedPage) -> str:
        """Of a list that begins with this page."""
        return str(self.revisions.next())

    def _matches(self, context: Context, options: ListOptions) -> Callable[[StoredObject], bool]:
        """Whether a list has an object."""
        selected = predicate(options, self._resource.read_fields)
        visible = self._visible(context)
        prefix = self._prefix(context)

        def matches(obj: StoredObject) -> bool:
            is_asked = obj.key.startswith(prefix) and (selected is None or selected.matches(obj))
            return is_asked and (visible is None or visible(obj))

        return matches

    def _named(self, context: Context, options: ListOptions) -> str:
        """The only name that is selected, as by `kubectl wait` and `kubectl get -w NAME`: one call of `get` finds it."""
        if self.source.functions.get is None or (self._info.namespaced and not context.namespace):
            return ""
        return selectors.exact_value(options.fields, "metadata.name")

    async def _pages(
        self,
        context: Context,
        options: ListOptions,
        matches: Callable[[StoredObject], bool],
        admits: Callable[[StoredObject], bool],
    ) -> tuple[Sequence[StoredObject], str, str]:
        """The objects of one answer, the continue token, and the revision of the list, which all of its pages have.

        matches: whether an object is shown; admits: the same if the source has applied the selectors.
        """
        limit = options.limit
        cursor, skip, revision = self._opened(context, options) if options.continue_token else ("", 0, "")
        found: dict[str, StoredObject] = {}
        calls = 0
        while True:
            asked_for = limit - len(found) + skip if limit else _PAGE
            page = await self.source.page(self._listing(context, options, asked_for, cursor))
            calls += 1
            revision = revision or self._revision(page)
            is_shown = admits if page.filtered and self.sidecar is None else matches
            for index, item in enumerate(page.objects[skip:], skip):
                if limit and len(found) == limit and len(page.objects) <= _MOST_CUT:  # one that gives more than it is asked for
                    return [*found.values()], self._sealed(context, options, cursor, index, revision), revision
                if is_shown(obj := self._object(*item)):
                    found.setdefault(obj.key, obj)
                if not index % _TURN:
                    await asyncio.sleep(0)
            if not page.cursor:
                return [*found.values()], "", revision
            cursor, skip = self._after(cursor, page.cursor), 0
            if limit and (len(found) >= limit or calls >= _CALLS):
                return [*found.values()], self._sealed(context, options, cursor, 0, revision), revision

    def _after(self, cursor: str, after: str) -> str:
        if after == cursor:
            log.error("the source of %s returned the same cursor twice: %r", self._info.resource, cursor)
            raise errors.internal_error(f"the source of {self._info.resource} does not come to its last page")
        return after

    def _sealed(self, context: Context, options: ListOptions, cursor: str, skip: int, revision: str) -> str:
        text = json.dumps([cursor, skip, revision], separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(self._signature(context, options, text) + text).decode().rstrip("=")

    def _opened(self, context: Context, options: ListOptions) -> tuple[str, int, str]:
        token = options.continue_token
        try:
            raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
            signature, text = raw[:_SIGNATURE], raw[_SIGNATURE:]
            cursor, skip, revision = json.loads(text)
        except (ValueError, TypeError):
            raise errors.bad_request("continue key is not valid") from None
        if not hmac.compare_digest(signature, self._signature(context, options, text)):
            raise errors.expired(_EXPIRED)  # of another replica, of a process before this one, or for another list
        return cursor, skip, revision

    def _signature(self, context: Context, options: ListOptions, text: bytes) -> bytes:
        selected = [str(options.labels), str(options.fields), options.shard_selector]
        of = json.dumps([self._info.api_version, self._info.resource, context.namespace, *selected])
        return hmac.digest(self.secret, of.encode() + b"\0" + text, "sha256")[:_SIGNATURE]

    def _check_revision(self, name: str, metadata: JSONObject, current: StoredObject) -> None:
        given = metadata.get("resourceVersion")
        if given and given != current.resource_version:
            why = "the object has been modified; please apply your changes to the latest version and try again"
            raise errors.conflict(self._info.group, self._info.resource, name, why)
        if not given and not self._strategy.unconditional_updates:
            return super()._check_revision(name, metadata, current)
        metadata["resourceVersion"] = current.resource_version
        return None

    async def catch_up(self, resource_version: str) -> None:
        if self.sidecar is not None:
            await self.sidecar.current()


def _unmarked(version: str) -> tuple[int, str]:
    """(revision of the record that was merged into the object, 0 for none; the version without it)."""
    if not version.startswith(_MARK):
        return 0, version
    revision, _, own = version.removeprefix(_MARK).partition(".")
    return int(revision), own


class Verbs:
    """The verbs of a virtual resource, without those that need metadata to be kept."""

    def __init__(self, store: SourceStore) -> None:
        self._store = store
        self.get = store.get
        self.list = store.list
        self.watch = store.watch
        self.create = store.create
        self.delete = store.delete
        self.delete_collection = store.delete_collection

    async def update(self, request: WriteRequest, name: str, transform: Transform) -> Written:
        return await self._store.update(request, name, transform)


class Applying(Verbs):
    """With server-side apply, for sources that keep metadata."""

    async def apply(self, request: WriteRequest, name: str, configuration: ApplyConfiguration) -> Written:
        return await self._store.apply(request, name, configuration)
