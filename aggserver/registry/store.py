"""Store: the verbs of one version of a resource, over its watch cache and the storage below.

Writes are one read-modify-write loop: read from the cache, let the strategy and admission look, encode once, compare and swap,
and again from the start on what another writer left, until it holds. Reads and watches hand on bytes; only another version than
the stored one, or a selector on something that is not in the key, makes anybody decode.

All versions of a resource share one `ResourceStorage`. What a version shows of its objects is for `Views`, and what a storage
error means to a client for `storage_errors.py`.
Called by `endpoints/handlers/` through the protocols of `registry/rest.py`, and by controllers.
Source: k8s.io/apiserver pkg/registry/generic/registry/store.go, pkg/storage/etcd3/store.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
import builtins
import logging
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from aggserver.meta import codec, errors, field, selectors, times
from aggserver.meta.field import Path
from aggserver.meta.golang import parse_uint
from aggserver.meta.json_types import JSONObject
from aggserver.registry import deletion, stored
from aggserver.registry.resource_storage import ResourceStorage
from aggserver.registry.rest import Admit, Context, Deleted, DeleteOptions, ListOptions, ListResult, Transform, WriteOptions
from aggserver.registry.selection import parse_resource_version, predicate
from aggserver.registry.storage_errors import reading, too_old, writing
from aggserver.registry.stored import StoredObject
from aggserver.registry.strategy import Strategy, Verdict
from aggserver.registry.unreadable import CorruptObjects, Unreadable, unsafe_delete_refused
from aggserver.registry.views import Views
from aggserver.registry.watch import Watch
from aggserver.scheme import object_meta
from aggserver.storage import keys
from aggserver.storage.cacher import ListPage
from aggserver.storage.interface import (
    Compacted,
    Conflict,
    Corrupt,
    CorruptList,
    KeyExists,
    KeyValue,
    NotFound,
)

__all__ = ["Store"]

_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
_CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)
# Seconds a read waits for the cache to reach a revision that the client has seen elsewhere (upstream's blockTimeout).
_FRESH_SECONDS = 3.0
# Names tried for generateName before the client is asked to come back (upstream's maxNameGenerationCreateAttempts).
_NAME_TRIES = 8
# Deletions under way at once in one deletecollection: enough to fill a group commit.
_DELETE_WORKERS = 64

# Where verdicts that take long are waited for: by each other, and by no other request.
_SLOW = ThreadPoolExecutor(2, "validation")
_METADATA = Path("metadata")

log = logging.getLogger(__name__)

T = TypeVar("T")


class Store:
    """One version of a resource: Getter, Lister, Watcher, Creater, Updater, Deleter and CollectionDeleter in one."""

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

    def with_strategy(self, strategy: Strategy) -> Store:
        """The same objects under other rules: how `/status` is made."""
        return Store(self._resource, strategy, self._views)

    def end_watches(self) -> None:
        """Ends those of every version, once they were told what happened until now."""
        self._cacher.end_watches()

    # --- reading ---

    async def get(self, context: Context, name: str, resource_version: str = "") -> StoredObject:
        await self._catch_up(resource_version)
        obj = self._views.cached(self._key(context, name))
        if obj is None:
            raise self._not_found(name)
        return await self._views.of(obj)

    async def list(self, context: Context, options: ListOptions) -> ListResult:
        return await self._list(context, options)

    async def _list(self, context: Context, options: ListOptions, *, lenient: bool = False) -> ListResult:
        """lenient: as of `Views`."""
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
        # A list that the change of the definition overtook is as old as that to a watch, which is told to list anew.
        revision = min(page.revision, self._cacher.broken_off) if self._resource.is_over else page.revision
        return ListResult(views, revision, token, page.remaining)

    async def _readable(self, prefix: str) -> ListResult:
        """All that can be read."""
        await self._catch_up("")
        await self._corrupt.look_at_all(prefix)
        items = [obj for obj in self._cacher.sound(prefix) if obj.key not in self._cacher.corrupt]
        return ListResult(await self._views.of_all(items), self._cacher.revision)

    def unreadable(self) -> Sequence[Corrupt]:
        """What is known to be unreadable, in order of key."""
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
        # A list "at any revision" comes whole: upstream's cache takes no limit there, and clients count on an empty continue.
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
        if revision < 0:  # the client accepted an inconsistent rest
            await self._catch_up("")
            return self._cacher.list(prefix, start=start, limit=options.limit, matches=matches)

        def inconsistent(_: Compacted) -> errors.StatusError:
            return errors.expired(_CONTINUE_EXPIRED, keys.encode_continue(start[len(prefix) :], -1))

        limit = 0 if options.resource_version == "0" else options.limit  # as for a first page
        with reading(inconsistent):
            return await self._cacher.list_at(revision, prefix, start=start, limit=limit, matches=matches)

    async def count(self, context: Context) -> int:
        """How many objects there are, without loading them."""
        with reading():
            return await self._resource.storage.count(self._prefix(context))

    async def watch(self, context: Context, options: ListOptions) -> Watch:
        matches = predicate(options, self._resource.read_fields)
        wanted = parse_resource_version(options.resource_version)
        initial = options.send_initial_events
        if initial is None:
            # Unset and 0 mean "the state, then what follows"; a number means what follows it.
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
            watcher.close()  # the watches of before were ended, and this one has come too late for that
        return Watch(watcher, self._views.form, self._views.of)

    def _watched_prefix(self, context: Context, options: ListOptions) -> str:
        """The one key where a single object is meant: its watch then costs other objects' writes nothing."""
        prefix = self._prefix(context)
        return prefix + self._single(prefix, options)

    def _single(self, prefix: str, options: ListOptions) -> str:
        """The one name that is asked for below a prefix that has no other level, '' if there is none such."""
        if options.fields.empty or (self._info.namespaced and prefix == self._resource.prefix):
            return ""
        name = selectors.exact_value(options.fields, "metadata.name")
        return "" if object_meta.path_segment_name(name) else name

    # --- writing ---

    async def create(self, context: Context, obj: JSONObject, options: WriteOptions, admit: Admit | None = None) -> StoredObject:
        base = obj["metadata"].get("generateName") or ""
        tries = _NAME_TRIES if base and not obj["metadata"].get("name") else 1
        for left in reversed(range(tries)):
            metadata = dict(obj["metadata"])
            if not metadata.get("name") and base:
                metadata["name"] = object_meta.generate_name(base, self._resource.random)
            try:
                return await self._create(context, dict(obj, metadata=metadata), options, admit)
            except KeyExists as taken:
                if not left:
                    raise self._name_taken(metadata["name"], taken.current, generated=bool(base)) from None
        raise AssertionError("the last try returns or raises")

    async def _create(self, context: Context, obj: JSONObject, options: WriteOptions, admit: Admit | None) -> StoredObject:
        metadata = obj["metadata"]
        for key in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
            metadata.pop(key, None)
        metadata["uid"] = self._resource.new_uid()
        metadata["creationTimestamp"] = times.format_time(self._resource.clock())
        self._place_in_namespace(context, metadata)
        self._strategy.check_context(context)
        given = list(obj)
        self._strategy.prepare_for_create(obj)
        is_whole = given == list(obj)
        verdict = await _final(self._strategy.validate(obj))
        context.warnings.extend(verdict.warnings)
        self._refuse(obj, verdict.errors)
        context.warnings.extend(self._strategy.warnings(obj, None))
        if admit is not None:
            await admit(obj, None)
        key = self._key(context, metadata["name"])
        if options.dry_run:
            await self._catch_up("")
            there = self._views.cached(key)
            if there is not None:
                raise KeyExists(key, KeyValue(key, stored.value(there), 0, there.revision))
            encoded = await self._views.to_stored(obj)
            self._check_size(encoded, options)
            return await self._views.as_read(StoredObject(key, encoded, 0), is_whole=is_whole)
        if _is_revision(metadata.get("resourceVersion") or ""):
            raise errors.StatusError(500, "", "resourceVersion should not be set on objects to be created")
        encoded = await self._views.to_stored(obj)
        self._check_size(encoded, options)
        with writing():
            revision = await self._resource.storage.create(key, encoded)
        return await self._written(key, encoded, revision, is_whole=is_whole)

    async def update(
        self, context: Context, name: str, transform: Transform, options: WriteOptions, admit: Admit | None = None
    ) -> StoredObject:
        async def attempt(current: StoredObject) -> StoredObject:
            return await self._update(context, name, current, transform, options, admit)

        return await self._retry(context, name, attempt)

    async def _update(
        self,
        context: Context,
        name: str,
        current: StoredObject,
        transform: Transform,
        options: WriteOptions,
        admit: Admit | None,
    ) -> StoredObject:
        view = await self._views.of(current, lenient=True)
        old = view.decoded()
        obj = await transform(view.decoded())
        obj["metadata"] = metadata = dict(obj["metadata"])
        self._check_uid(name, options.uid, old["metadata"], current.key)
        self._check_revision(name, metadata, current)
        self._place_in_namespace(context, metadata)
        metadata = self._prepare_update(obj, old)
        changes = object_meta.validate_object_meta_update(metadata, old["metadata"], _METADATA)
        # Upstream's strategies look at the changes once more, and so the causes have them twice.
        problems = object_meta.validate_object_meta(
            metadata, _METADATA, namespaced=self._info.namespaced, name_rule=object_meta.path_segment_name
        )
        problems += changes * 2
        verdict = await _final(self._strategy.validate_update(obj, old))
        context.warnings.extend(verdict.warnings)
        self._refuse(obj, problems + verdict.errors)
        context.warnings.extend(self._strategy.warnings(obj, old))
        if admit is not None:
            await admit(obj, old)
        if deletion.is_emptied(metadata, old["metadata"]) and self._strategy.may_be_removed(obj):
            if not options.dry_run:
                # Of several who remove the last finalizer at once only one finds it there, and all have what they wanted.
                with writing(), suppress(NotFound):
                    await self._resource.storage.delete(current.key, current.revision)
            return StoredObject(current.key, self._views.encode_whole(obj), current.revision)
        return await self._commit(current, obj, old, options, is_whole=view.form is self._views.form)

    def _prepare_update(self, obj: JSONObject, old: JSONObject) -> JSONObject:
        """What an update can't change, whatever it says, and the strategy's word. Returns the object's metadata."""
        before = old["metadata"]
        _keep(obj["metadata"], before, "generation")
        obj["metadata"].pop("selfLink", None)
        self._strategy.prepare_for_update(obj, old)
        metadata: JSONObject = obj["metadata"]  # the strategy may have put another in its place
        if not metadata.get("uid"):
            _keep(metadata, before, "uid")
        if before.get("creationTimestamp"):
            metadata["creationTimestamp"] = before["creationTimestamp"]
        if before.get("deletionTimestamp"):
            metadata["deletionTimestamp"] = before["deletionTimestamp"]
        if "deletionGracePeriodSeconds" in before and metadata.get("deletionGracePeriodSeconds") is None:
            metadata["deletionGracePeriodSeconds"] = before["deletionGracePeriodSeconds"]
        return metadata

    async def delete(self, context: Context, name: str, options: DeleteOptions, admit: Admit | None = None) -> Deleted:
        async def attempt(current: StoredObject) -> Deleted:
            return await self._delete(name, current, options, admit)

        return await self._retry(context, name, attempt)

    async def _delete(self, name: str, current: StoredObject, options: DeleteOptions, admit: Admit | None) -> Deleted:
        view = await self._views.of(current, lenient=True)
        old = view.decoded()
        deletion.check_preconditions(self._info.group, self._info.kind, old["metadata"], options)
        if admit is not None:
            await admit(None, old)
        obj = view.decoded()
        metadata = obj["metadata"]
        now = times.format_time(self._resource.clock())
        self._strategy.prepare_for_delete(obj, now)
        before = metadata.get("finalizers") or []
        finalizers = deletion.finalizers_for(before, options)
        if finalizers is not before:
            metadata["finalizers"] = finalizers
        if not finalizers:
            metadata.pop("finalizers", None)
        if finalizers or not self._strategy.may_be_removed(obj):
            if "deletionTimestamp" not in metadata:
                deletion.mark_as_deleting(metadata, now)
            write = WriteOptions(options.dry_run, bounded=False)
            return Deleted(await self._commit(current, obj, old, write, is_whole=view.form is self._views.form), gone=False)
        if options.dry_run:
            return Deleted(view, gone=True)
        with writing():
            revision = await self._resource.storage.delete(current.key, current.revision)
        return Deleted(await self._views.of(stored.at(current, revision), lenient=True), gone=True)

    async def delete_collection(
        self, context: Context, options: DeleteOptions, selection: ListOptions, admit: Admit | None = None
    ) -> ListResult:
        found = await self._list(context, selection, lenient=True)
        waiting = iter(found.items)

        async def worker() -> None:
            for obj in waiting:
                assert isinstance(obj, StoredObject)
                namespace, name = keys.split(obj.key)[2:]
                try:
                    await self.delete(replace(context, namespace=namespace), name, options, admit)
                except errors.StatusError as error:
                    if error.code != 404:  # gone already is what was wanted
                        raise

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(_DELETE_WORKERS, len(found.items))):
                    group.create_task(worker())
        except* errors.StatusError as refusals:
            # One is told of several; each stands for itself.
            raise refusals.exceptions[0] from None
        return found

    async def delete_corrupt(self, context: Context, name: str) -> None:
        """Its finalizers, and who may object, are unknown: it goes at once."""
        key = self._key(context, name)
        await self._catch_up("")
        while (error := self._corrupt.at(key)) is not None:
            with writing(), suppress(Conflict, NotFound):
                await self._resource.storage.delete(key, error.revision)
                log.warning("%s was removed, though nobody could read it: %s", key, error.why)
                return
            await self._catch_up("")
        raise unsafe_delete_refused(self._info.group, self._info.resource, name)

    # --- the loop's parts ---

    async def _retry(self, context: Context, name: str, attempt: Callable[[StoredObject], Awaitable[T]]) -> T:
        """Runs `attempt` on the object as it is, and again on what another writer left, until it is not overtaken."""
        key = self._key(context, name)
        await self._catch_up("")
        current = self._views.cached(key)
        while True:
            if current is None:
                raise self._not_found(name)
            try:
                return await attempt(current)
            except Conflict as overtaken:
                with reading():
                    current = stored.make(overtaken.current)
            except NotFound:
                current = None

    async def _commit(
        self, current: StoredObject, obj: JSONObject, old: JSONObject, options: WriteOptions, *, is_whole: bool
    ) -> StoredObject:
        """Compare and swap; a write that changes nothing is none. is_whole: as of `Views.as_read`. Raises Conflict for the loop.

        What was stored in another version or under another schema is changed by any write: so objects are migrated.
        """
        unchanged = codec.same(obj, old)
        encoded = await self._views.to_stored(obj)
        self._check_size(encoded, options, current)
        if options.dry_run and not unchanged:
            return await self._views.as_read(stored.make(KeyValue(current.key, encoded, 0, current.revision)), is_whole=is_whole)
        if unchanged and (options.dry_run or _says_the_same(encoded, stored.value(current))):
            return await self._views.of(current, lenient=True)
        with writing():
            revision = await self._resource.storage.update(current.key, encoded, current.revision)
        return await self._written(current.key, encoded, revision, is_whole=is_whole)

    async def _written(self, key: str, encoded: bytes, revision: int, *, is_whole: bool) -> StoredObject:
        """The write has happened, and so its answer must not fail."""
        # The cache has had the event by now; where nobody wrote since, its object is the one to answer with.
        obj = None if self._cacher.corrupt else self._cacher.get(key)
        if obj is None or obj.revision != revision:
            obj = stored.make(KeyValue(key, encoded, 0, revision))
        return await self._views.as_read(obj, is_whole=is_whole)

    def _check_size(self, encoded: bytes, options: WriteOptions, current: StoredObject | None = None) -> None:
        """Raises ObjectTooLarge; not for what was too large before, and has not become larger."""
        limit = self._resource.max_object_bytes
        if len(encoded) > limit and options.bounded and (current is None or len(encoded) > len(stored.value(current))):
            raise errors.ObjectTooLarge(limit)

    # --- rules and errors ---

    def _place_in_namespace(self, context: Context, metadata: JSONObject) -> None:
        if not self._info.namespaced:
            metadata.pop("namespace", None)
        elif not metadata.get("namespace"):
            metadata["namespace"] = context.namespace
        elif metadata["namespace"] != context.namespace:
            raise errors.bad_request("the namespace of the provided object does not match the namespace sent on the request")

    def _refuse(self, obj: JSONObject, problems: builtins.list[field.FieldError]) -> None:
        if problems:
            # By the name it gives itself, which may be what is wrong with it.
            kind = obj.get("kind") or self._info.kind
            raise errors.invalid(self._info.group, kind, obj["metadata"].get("name", ""), problems)

    def _check_revision(self, name: str, metadata: JSONObject, current: StoredObject) -> None:
        info = self._info
        given = metadata.get("resourceVersion") or ""
        newest = str(current.revision)
        if given == newest:
            return
        try:
            number = parse_uint(given or "0")
        except ValueError as error:
            raise errors.StatusError(500, "", str(error)) from None
        if number == 0 and self._strategy.unconditional_updates:
            metadata["resourceVersion"] = newest
            return
        if number == 0:
            problem = field.invalid(_METADATA.child("resourceVersion"), 0, "must be specified for an update")
            raise errors.invalid(info.group, info.resource, name, [problem])
        if number != current.revision:
            raise errors.conflict(info.group, info.resource, name, _MODIFIED)
        metadata["resourceVersion"] = newest  # however it was spelt

    def _check_uid(self, name: str, given: str, before: JSONObject, key: str) -> None:
        uid = before.get("uid", "")
        if given and given != uid:
            why = (
                f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
                f"Precondition failed: UID in precondition: {given}, UID in object meta: {uid}"
            )
            raise errors.conflict(self._info.group, self._info.resource, name, why)

    def _name_taken(self, name: str, current: KeyValue, *, generated: bool) -> errors.StatusError:
        make = errors.generate_name_conflict if generated else errors.already_exists
        error = make(self._info.group, self._info.resource, name)
        with suppress(Corrupt):
            if "deletionTimestamp" in stored.make(current).decoded()["metadata"]:
                error.message = f"object is being deleted: {error.message}"
        return error

    def _not_found(self, name: str) -> errors.StatusError:
        return errors.not_found(self._info.group, self._info.resource, name)

    def _prefix(self, context: Context) -> str:
        if self._info.namespaced and context.namespace:
            return f"{self._resource.prefix}{context.namespace}/"
        return self._resource.prefix

    def _key(self, context: Context, name: str) -> str:
        """Raises BadRequest for a name that can't be in a path, which is in no key either."""
        if self._info.namespaced and not context.namespace:
            raise errors.bad_request("Namespace parameter required.")
        if not name:
            raise errors.bad_request("Name parameter required.")
        if problems := object_meta.path_segment_name(name):
            raise errors.bad_request(f"Name parameter invalid: {field.quote(name)}: {';'.join(problems)}")
        return self._prefix(context) + name

    async def _catch_up(self, resource_version: str) -> None:
        """Makes the cache as new as a read with this resourceVersion needs it."""
        with reading():
            if resource_version == "":
                await self._cacher.sync()
                return
            await self._cacher.ready()
            wanted = parse_resource_version(resource_version)
            if wanted > self._cacher.revision:
                await self._cacher.wait_for(wanted, _FRESH_SECONDS)


async def _final(verdict: Verdict) -> Verdict:
    if verdict.later is None:
        return verdict
    given_up = threading.Event()
    try:
        return await asyncio.get_running_loop().run_in_executor(_SLOW, verdict.later, given_up.is_set)
    finally:
        given_up.set()


def _says_the_same(left: bytes, right: bytes) -> bool:
    return codec.same(codec.decode_stored(left), codec.decode_stored(right))


def _keep(metadata: JSONObject, before: JSONObject, key: str) -> None:
    if key in before:
        metadata[key] = before[key]
    else:
        metadata.pop(key, None)


def _is_revision(version: str) -> bool:
    """Whether an object to be created has a resourceVersion. What is no number passes, as upstream: it is never stored."""
    try:
        return parse_uint(version) > 0
    except ValueError:
        return False
