"""Store: the verbs of one version of a resource.

Every write goes through one loop. It reads the object from the watch cache, makes the new object from it (by an update, a patch
or a server-side apply), and then takes the steps that are the same for all writes, in this order: managedFields, mutating
admission, the strategy's rules, validating admission, pruning of what an apply or admission has added beyond the schema,
encoding, compare and swap. If another writer was quicker, the loop starts again with the object as that writer left it.

All versions of a resource share one `ResourceStorage`. Reads are in `reader.py`.
Source: k8s.io/apiserver pkg/registry/generic/registry/store.go, pkg/endpoints/handlers/{create,update,patch}.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
import builtins
import logging
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ParamSpec, TypeVar

from aggserver.conversion.converter import ConversionError
from aggserver.merge import managed_fields
from aggserver.merge.managed_fields import ManagedFieldsError
from aggserver.meta import codec, errors, field, times
from aggserver.meta.field import Path
from aggserver.meta.golang import parse_uint
from aggserver.meta.json_types import JSONObject
from aggserver.registry import deletion, preparation, stored
from aggserver.registry.ownership import Ownership
from aggserver.registry.reader import Reader, Sibling, no_sibling
from aggserver.registry.resource_storage import ResourceStorage
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
    WriteOptions,
    Written,
)
from aggserver.registry.storage_errors import reading, writing
from aggserver.registry.stored import StoredObject
from aggserver.registry.strategy import Strategy, Verdict
from aggserver.registry.unreadable import unsafe_delete_refused
from aggserver.registry.views import Views
from aggserver.scheme import object_meta
from aggserver.storage import keys
from aggserver.storage.interface import Conflict, Corrupt, KeyExists, KeyValue, NotFound, TooLarge
from aggserver.workers import OBJECTS, Workers

__all__ = ["Make", "Store", "Write"]

_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
# Names tried for generateName before the client gets a conflict (upstream's maxNameGenerationCreateAttempts).
_NAME_TRIES = 8
# Concurrent deletions of one deletecollection: enough to fill a group commit of the backend.
_DELETE_WORKERS = 64

# Runs slow validation, so that the event loop is free for other requests, and the default executor for other work.
_SLOW = Workers(2, "validation")
_METADATA = Path("metadata")
# Objects above this many bytes are compared and validated in a thread, since each step takes more than some milliseconds.
_LONG = 128 * 1024

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

# (the store whose version the write is in, the current object, the same decoded; both None if there is none) -> the new object,
# with its managedFields.
Make = Callable[["Store", StoredObject | None, JSONObject | None], Awaitable[JSONObject]]


@dataclass(frozen=True, slots=True)
class Write:
    """What stays the same in every attempt of one write.

    applies: whether it is a server-side apply. Then managedFields are never dropped to make room, since the applier relies on
    them; and the result is pruned only after it was validated.
    defaulted: whether the object that is wanted has all defaults of the schema, as long as the current one has them.
    stays: whether the object stays in the version in which it is stored, so that no converter has to be asked.
    """

    context: Context
    options: WriteOptions
    admission: Admission
    applies: bool = False
    defaulted: bool = True
    stays: bool = False


class Store(Reader):
    """Getter, Lister, Watcher, Creater, Updater, Applier, Replacer, Deleter and CollectionDeleter in one."""

    def __init__(self, resource: ResourceStorage, strategy: Strategy, views: Views, sibling: Sibling = no_sibling) -> None:
        super().__init__(resource, strategy, views, sibling)
        self._ownership = Ownership(strategy.field_manager, resource.converter)

    def with_strategy(self, strategy: Strategy) -> Store:
        """A Store of the same objects with other rules, for `/status` and `/scale`."""
        return Store(self._resource, strategy, self._views, self._sibling)

    def now(self) -> str:
        """The time now, formatted as in metadata."""
        return times.format_time(self._resource.clock())

    # --- creating ---

    async def create(
        self, context: Context, obj: JSONObject, options: WriteOptions, admission: Admission = NO_ADMISSION
    ) -> StoredObject:
        self._resource.check_write()
        metadata = obj["metadata"]
        preparation.drop_system_fields(metadata)
        preparation.place_in_namespace(metadata, context.namespace, namespaced=self._info.namespaced)
        preparation.dedup_owner_references(metadata, context.warnings)
        await self._own(context, None, None, obj, options)
        changed = await self._mutate(context, obj, None, admission)
        metadata = obj["metadata"]
        base = metadata.get("generateName") or ""
        tries = _NAME_TRIES if base and not metadata.get("name") else 1
        for left in reversed(range(tries)):
            named = dict(obj["metadata"])
            if not named.get("name") and base:
                named["name"] = object_meta.generate_name(base, self._resource.random)
            try:
                return await self._create(Write(context, options, admission), dict(obj, metadata=named), prune=changed)
            except KeyExists as taken:
                if not left:
                    raise self._name_taken(named["name"], taken.current, generated=bool(base)) from None
        raise AssertionError("the last try returns or raises")

    async def _create(self, write: Write, obj: JSONObject, *, prune: bool) -> StoredObject:
        """Validate and store a new object, after mutating admission. Raises KeyExists, for the caller to handle.

        prune: whether it may have fields that the schema does not have. They are dropped last, as upstream.
        """
        context, options = write.context, write.options
        metadata = obj["metadata"]
        metadata["uid"] = self._resource.new_uid()
        metadata["creationTimestamp"] = self.now()
        self._strategy.check_context(context)
        given = list(obj)
        self._strategy.prepare_for_create(obj, context, metadata["creationTimestamp"])
        is_whole = given == list(obj)
        verdict = await _final(context, await _aside(context, self._strategy.validate, obj))
        context.warnings.extend(verdict.warnings)
        await self._refuse(context, obj, verdict.errors)
        context.warnings.extend(await _aside(context, self._strategy.warnings, obj, None))
        await write.admission.validate(obj, None)
        metadata.pop("selfLink", None)
        if prune:
            await _aside(context, self._strategy.prune, obj)
        key = self._key(context, metadata["name"])
        if options.dry_run:
            await self._catch_up("")
            there = self._views.cached(key)
            if there is not None:
                raise KeyExists(key, KeyValue(key, stored.value(there), 0, there.revision))
            return await self._views.as_read(stored.unstored(key, await self._encode(write, obj)), is_whole=is_whole)
        if not write.applies and _is_revision(metadata.get("resourceVersion") or ""):
            raise errors.StatusError(500, "", "resourceVersion should not be set on objects to be created")
        return await self._store(write, obj, key, lambda encoded: self._resource.create(key, encoded), is_whole=is_whole)

    # --- updating: the loop ---

    async def update(
        self,
        context: Context,
        name: str,
        transform: Transform,
        options: WriteOptions,
        admission: Admission = NO_ADMISSION,
        *,
        defaulted: bool = True,
    ) -> StoredObject:
        """defaulted: whether `transform` sees to the defaults of what it adds."""
        stays = options.of_metadata and self._asks and not admission.looks_at_objects
        write = Write(context, options, admission, defaulted=defaulted, stays=stays)
        creates = options.creates and self._strategy.creates_on_update
        written, context.created = await self._write(write, name, _updating(write, transform), creates=creates)
        return written

    async def apply(
        self,
        context: Context,
        name: str,
        configuration: ApplyConfiguration,
        options: WriteOptions,
        admission: Admission = NO_ADMISSION,
        *,
        creates: bool = True,
    ) -> Written:
        """creates: whether to create the object if there is none; subresources don't."""

        async def make(store: Store, current: StoredObject | None, old: JSONObject | None) -> JSONObject:
            obj = await self._ownership.apply(
                context,
                current,
                configuration.encoded,
                options.field_manager,
                self.now(),
                force=options.force,
                default=self._strategy.default,
            )
            configuration.accept(context)
            if current is None and obj["metadata"].get("uid"):
                raise self._uid_of_nothing(name, obj["metadata"]["uid"])
            return obj

        write = Write(context, options, admission, applies=True)
        return Written(*await self._write(write, name, make, creates=creates))

    async def replace(
        self, context: Context, obj: JSONObject, options: WriteOptions, admission: Admission = NO_ADMISSION
    ) -> Written:
        async def make(store: Store, current: StoredObject | None, old: JSONObject | None) -> JSONObject:
            kept = {} if old is None else {key: old["metadata"][key] for key in ("resourceVersion", "uid")}
            wanted = dict(obj, metadata={**obj["metadata"], **kept})
            await self._own(context, current, old, wanted, options)
            return wanted

        name = obj["metadata"].get("name") or ""
        return Written(*await self._write(Write(context, options, admission), name, make, creates=True))

    async def _write(self, write: Write, name: str, make: Make, *, creates: bool = False) -> tuple[StoredObject, bool]:
        """Run the write loop. Returns the object, and whether it was created. creates: create it if there is none."""
        self._resource.check_write()
        warned = len(write.context.warnings)

        async def attempt(current: StoredObject | None) -> tuple[StoredObject, bool]:
            del write.context.warnings[warned:]  # drop the warnings of an attempt that lost the race
            if current is not None:
                store = self._store_of(current) if write.stays else self
                return await self._shown(await store._update(write, name, current, make), write), False
            if not creates:
                raise self._not_found(name)
            obj = await make(self, None, None)
            preparation.drop_system_fields(obj["metadata"])
            changed = await self._place_and_mutate(write, name, obj, None)
            _revision(obj["metadata"])
            return await self._create(write, obj, prune=changed or write.applies), True

        return await self._retry(write.context, name, attempt)

    async def _update(self, write: Write, name: str, current: StoredObject, make: Make) -> StoredObject:
        context, options = write.context, write.options
        view = await self._views.of(current, lenient=True)
        context.object_bytes = view.size
        old = await _aside(context, view.decoded)
        obj = await make(self, view, old)
        changed = await self._place_and_mutate(write, name, obj, old)
        metadata = obj["metadata"]
        self._check_uid(name, options.uid, old["metadata"], current.key)
        self._check_revision(name, metadata, current)
        metadata, problems, verdict = await _aside(context, self._judged_update, obj, old)
        verdict = await _final(context, verdict)
        context.warnings.extend(verdict.warnings)
        await self._refuse(context, obj, problems + verdict.errors)
        context.warnings.extend(await _aside(context, self._strategy.warnings, obj, old))
        preparation.keep_times(obj, old)
        await write.admission.validate(obj, old)
        if changed or write.applies:
            await _aside(context, self._strategy.prune, obj)
        if deletion.is_emptied(metadata, old["metadata"]) and self._strategy.may_be_removed(obj):
            if not options.dry_run:
                # NotFound is success: a concurrent request that removed the last finalizer too has deleted the object.
                with writing(), suppress(NotFound):
                    await self._resource.delete(current.key, current.revision)
            removed = StoredObject(current.key, self._views.encode_whole(obj), current.revision)
            removed.content_revision = stored.UNSTORED
            return removed
        return await self._commit(write, current, obj, old, is_whole=write.defaulted and view.form is self._views.form)

    def _judged_update(self, obj: JSONObject, old: JSONObject) -> tuple[JSONObject, builtins.list[field.FieldError], Verdict]:
        """Prepare and validate an update. Returns the object's metadata, the errors in it, and the strategy's verdict."""
        metadata = self._prepare_update(obj, old)
        changes = object_meta.validate_object_meta_update(metadata, old["metadata"], _METADATA)
        problems = object_meta.validate_object_meta(
            metadata, _METADATA, namespaced=self._info.namespaced, name_rule=object_meta.path_segment_name
        )
        problems += changes * 2 if self._strategy.checks_changes_twice else changes
        return metadata, problems, self._strategy.validate_update(obj, old)

    def _prepare_update(self, obj: JSONObject, old: JSONObject) -> JSONObject:
        """Restore the fields that an update can't change, and run the strategy's hook. Returns the object's metadata."""
        before = old["metadata"]
        _keep(obj["metadata"], before, "generation")
        obj["metadata"].pop("selfLink", None)
        self._strategy.prepare_for_update(obj, old, self.now())
        metadata: JSONObject = obj["metadata"]  # the strategy may have replaced it
        if not metadata.get("uid"):
            _keep(metadata, before, "uid")
        if before.get("creationTimestamp"):
            metadata["creationTimestamp"] = before["creationTimestamp"]
        if before.get("deletionTimestamp"):
            metadata["deletionTimestamp"] = before["deletionTimestamp"]
        if "deletionGracePeriodSeconds" in before and metadata.get("deletionGracePeriodSeconds") is None:
            metadata["deletionGracePeriodSeconds"] = before["deletionGracePeriodSeconds"]
        return metadata

    # --- deleting ---

    async def delete(self, context: Context, name: str, options: DeleteOptions, admission: Admission = NO_ADMISSION) -> Deleted:
        self._resource.check_write()
        self._warn_of_orphans(context, options)
        return await self._delete_one(context, name, options, admission)

    def _warn_of_orphans(self, context: Context, options: DeleteOptions) -> None:
        warning = self._strategy.orphans_warning
        if warning and not options.propagation and options.orphan_dependents is None:
            context.warnings.append(warning)

    async def _delete_one(self, context: Context, name: str, options: DeleteOptions, admission: Admission) -> Deleted:
        async def attempt(current: StoredObject | None) -> Deleted:
            if current is None:
                await admission.mutate(None, None)
                raise self._not_found(name)
            # In the version in which it is stored, where a converter has to be asked: a deletion must not depend on it, unless
            # admission has to look at the object.
            store = self._store_of(current) if self._asks and not admission.looks_at_objects else self
            deleted = await store._delete(context, current, options, admission)
            if store is self or deleted.gone:
                return deleted
            assert isinstance(deleted.object, StoredObject)
            return replace(deleted, object=self._views.at_once(deleted.object, lenient=True) or deleted.object)

        return await self._retry(context, name, attempt)

    async def _delete(self, context: Context, current: StoredObject, options: DeleteOptions, admission: Admission) -> Deleted:
        view = await self._views.of(current, lenient=True)
        old = view.decoded()
        deletion.check_preconditions(self._info.group, self._info.kind, old["metadata"], options)
        # Mutating plugins can't change a deletion, but they may refuse it.
        await admission.mutate(None, old)
        await admission.validate(None, old)
        obj = view.decoded()
        metadata = obj["metadata"]
        now = self.now()
        self._strategy.prepare_for_delete(obj, now)
        period = self._strategy.grace_period(obj, options.grace_period_seconds)
        if period is not None and metadata.get("deletionGracePeriodSeconds", 1):
            return await self._delete_gracefully(context, current, obj, old, options, period)
        before = metadata.get("finalizers") or []
        finalizers = deletion.finalizers_for(before, options, orphans=self._strategy.orphans_dependents)
        if finalizers is not before:
            metadata["finalizers"] = finalizers
        if not finalizers:
            metadata.pop("finalizers", None)
        if finalizers or not self._strategy.may_be_removed(obj):
            if "deletionTimestamp" not in metadata:
                deletion.mark_as_deleting(metadata, now)
            stays = self._asks and self._views.is_own(current)
            write = Write(context, WriteOptions(options.dry_run, bounded=False), NO_ADMISSION, stays=stays)
            is_whole = view.form is self._views.form
            return Deleted(await self._commit(write, current, obj, old, is_whole=is_whole), gone=False)
        shown = self._strategy.returns_deleted
        if options.dry_run:
            return Deleted(view, gone=True, shown=shown)
        with writing():
            revision = await self._resource.delete(current.key, current.revision)
        return Deleted(stored.at(view, revision), gone=True, shown=shown)

    async def _delete_gracefully(
        self, context: Context, current: StoredObject, obj: JSONObject, old: JSONObject, options: DeleteOptions, period: int
    ) -> Deleted:
        """As upstream, the object is marked first, also where it has no time left, and only then removed."""
        metadata = obj["metadata"]
        if not deletion.begin_gracefully(metadata, options.grace_period_seconds, period, self.now()):
            return Deleted(current, gone=False)
        before = metadata.get("finalizers") or []
        if (finalizers := deletion.finalizers_for(before, options, orphans=self._strategy.orphans_dependents)) is not before:
            metadata["finalizers"] = finalizers
        write = Write(context, WriteOptions(options.dry_run, bounded=False), NO_ADMISSION)
        marked = await self._commit(write, current, obj, old, is_whole=True)
        if finalizers or metadata["deletionGracePeriodSeconds"] or options.dry_run:
            return Deleted(marked, gone=False)
        with writing(), suppress(NotFound):  # a concurrent request may have removed it
            revision = await self._resource.delete(marked.key, marked.revision)
            marked = stored.at(marked, revision)
        return Deleted(marked, gone=True, shown=self._strategy.returns_deleted)

    async def delete_collection(
        self, context: Context, options: DeleteOptions, selection: ListOptions, admission: Admission = NO_ADMISSION
    ) -> ListResult:
        self._resource.check_write()
        self._warn_of_orphans(context, options)
        # Without a conversion where it can be; but labels may differ between versions, and those of the requested one count.
        as_stored = context.metadata_only or (self._asks and selection.labels.empty)
        found = await self._list(replace(context, metadata_only=as_stored), selection, lenient=True)
        waiting = iter(found.items)

        async def worker() -> None:
            for obj in waiting:
                assert isinstance(obj, StoredObject)
                namespace, name = keys.split(obj.key)[2:]
                try:
                    await self._delete_one(replace(context, namespace=namespace), name, options, admission)
                except errors.StatusError as error:
                    if error.code != 404:  # already deleted by someone else
                        raise

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(_DELETE_WORKERS, len(found.items))):
                    group.create_task(worker())
        except* errors.StatusError as refusals:
            # A response has room for one Status, so the first error is reported, as upstream.
            raise refusals.exceptions[0] from None
        return found

    async def delete_corrupt(self, context: Context, name: str) -> None:
        """Remove it at once: its finalizers can't be read."""
        self._resource.check_write()
        key = self._key(context, name)
        await self._catch_up("")
        while (error := self._corrupt.at(key)) is not None:
            with writing(), suppress(Conflict, NotFound):
                await self._resource.delete(key, error.revision)
                log.warning("removed %s, which could not be read: %s", key, error.why)
                return
            await self._catch_up("")
        raise unsafe_delete_refused(self._info.group, self._info.resource, name)

    # --- the parts of the loop ---

    async def _retry(self, context: Context, name: str, attempt: Callable[[StoredObject | None], Awaitable[T]]) -> T:
        """Run `attempt` on the current object, and again on the newer object each time another writer was quicker."""
        key = self._key(context, name)
        await self._catch_up("")
        current = self._views.cached(key)
        while True:
            try:
                return await attempt(current)
            except (Conflict, KeyExists) as lost:
                with reading():
                    current = stored.make(lost.current)
            except NotFound:
                current = None

    async def _own(
        self, context: Context, current: StoredObject | None, old: JSONObject | None, obj: JSONObject, options: WriteOptions
    ) -> None:
        """Set managedFields for a write other than an apply."""
        await self._ownership.update(context, current, old, obj, options.field_manager, self.now())

    async def _place_and_mutate(self, write: Write, name: str, obj: JSONObject, old: JSONObject | None) -> bool:
        """Returns whether admission changed the object."""
        preparation.place_in_namespace(obj["metadata"], write.context.namespace, namespaced=self._info.namespaced)
        preparation.check_name(obj, name)
        return await self._mutate(write.context, obj, old, write.admission)

    async def _mutate(self, context: Context, obj: JSONObject, old: JSONObject | None, admission: Admission) -> bool:
        """Run mutating admission, whose plugins default what they change; returns whether they changed something.

        Metadata that can't be decoded is dropped, and managedFields are restored, if that is what admission has made of them.
        """
        entries = obj["metadata"].get("managedFields")
        changed = await admission.mutate(obj, old)
        if changed:
            metadata = obj["metadata"]
            if not isinstance(metadata, dict):
                raise errors.internal_error("system metadata was not initialized")
            metadata = obj["metadata"] = dict(metadata)
            object_meta.drop_malformed(metadata)
            preparation.place_in_namespace(metadata, context.namespace, namespaced=self._info.namespaced)
            try:
                managed_fields.decode(metadata.get("managedFields"))
            except ManagedFieldsError as error:
                metadata["managedFields"] = entries
                context.warnings.append(
                    ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated "
                    f"mutating admission controller; please fix your requests: {error}"
                )
        preparation.dedup_owner_references(obj["metadata"], context.warnings, admitted=True)
        return changed

    async def _commit(
        self, write: Write, current: StoredObject, obj: JSONObject, old: JSONObject, *, is_whole: bool
    ) -> StoredObject:
        """Compare and swap; store nothing if nothing has changed. is_whole: see `Views.as_read`. Raises Conflict for the loop.

        The stored bytes are compared too: any write of an object that is stored in another version, or was stored under another
        schema, rewrites it. This is how objects are migrated.
        """
        dry_run = write.options.dry_run
        if await _aside(write.context, codec.same, obj, old):
            if write.stays:
                return current
            encoded = await self._encode(write, obj, current)
            if dry_run or await _aside(write.context, _same_json, encoded, stored.value(current)):
                return await self._views.of(current, lenient=True)
        elif dry_run:
            encoded = await self._encode(write, obj, current)
            would_be = stored.unstored(current.key, encoded, current.revision)
            return would_be if write.stays else await self._views.as_read(would_be, is_whole=is_whole)
        return await self._store(
            write,
            obj,
            current.key,
            lambda encoded: self._resource.update(current.key, encoded, current.revision),
            current,
            is_whole=is_whole,
        )

    async def _store(
        self,
        write: Write,
        obj: JSONObject,
        key: str,
        commit: Callable[[bytes], Awaitable[int]],
        current: StoredObject | None = None,
        *,
        is_whole: bool,
    ) -> StoredObject:
        """Store the object; if that is too large for the storage, try without managedFields. Returns it as a read would."""

        async def stored_as(encoded: bytes) -> StoredObject:
            expected = None if write.stays else await self._views.expected(key, encoded)
            revision = await commit(encoded)
            return await self._written(key, encoded, revision, expected, is_whole=is_whole)

        encoded = await self._encode(write, obj, current)
        with writing():
            try:
                return await stored_as(encoded)
            except TooLarge:
                if not _drop_managed_fields(write, obj):
                    raise
                return await stored_as(await self._encode(write, obj, current))

    async def _encode(self, write: Write, obj: JSONObject, current: StoredObject | None = None) -> bytes:
        """The bytes to store, without managedFields if the object is too large with them. Raises ObjectTooLarge."""
        encoded = await self._to_stored(write, obj)
        if self._is_too_large(encoded, write.options, current) and _drop_managed_fields(write, obj):
            encoded = await self._to_stored(write, obj)
        if self._is_too_large(encoded, write.options, current):
            raise errors.ObjectTooLarge(self._resource.max_object_bytes)
        return encoded

    async def _to_stored(self, write: Write, obj: JSONObject) -> bytes:
        if write.stays or self._info.api_version == self._resource.api_version:
            return await _aside(write.context, self._views.unchanged, obj)
        return await self._views.to_stored(obj)

    def _is_too_large(self, encoded: bytes, options: WriteOptions, current: StoredObject | None) -> bool:
        """Whether to refuse the object for its size. One that was too large before may be written if it does not grow."""
        if len(encoded) <= self._resource.max_object_bytes or not options.bounded:
            return False
        return current is None or len(encoded) > len(stored.value(current))

    async def _written(self, key: str, encoded: bytes, revision: int, expected: bytes | None, *, is_whole: bool) -> StoredObject:
        """The response object of a committed write. It must not fail, since the write has happened."""
        # The watch cache has the event by now. If nobody has written since, use its object, which remembers its views.
        obj = None if self._cacher.corrupt else self._cacher.get(key)
        if obj is None or obj.revision != revision:
            obj = stored.make(KeyValue(key, encoded, 0, revision))
        if expected is not None:
            self._views.learn(obj, expected)
        return await self._views.as_read(obj, is_whole=is_whole)

    # --- writes that must not depend on a converter that has to be asked ---

    @property
    def _asks(self) -> bool:
        return self._resource.converter.at_once is None

    async def _shown(self, written: StoredObject, write: Write) -> StoredObject:
        """The response of an update. If only the converter fails, the object as it is stored, since the write has happened."""
        if not write.stays or write.context.metadata_only:
            return written
        try:
            return await self._views.of(written, lenient=True)
        except ConversionError as error:
            log.warning("%s was written; the response has it as it is stored: %s", written.key, error.message)
            return written

    # --- rules and errors ---

    async def _refuse(self, context: Context, obj: JSONObject, problems: builtins.list[field.FieldError]) -> None:
        if problems:
            # The object's own kind, even if that is what is invalid, as upstream.
            kind = obj.get("kind") or self._info.kind
            name = obj["metadata"].get("name", "")
            raise await _aside(context, errors.invalid, self._resource.group, kind, name, problems)

    def _check_revision(self, name: str, metadata: JSONObject, current: StoredObject) -> None:
        info = self._info
        newest = str(current.revision)
        if metadata.get("resourceVersion") == newest:
            return
        number = _revision(metadata)
        if number == 0 and self._strategy.unconditional_updates:
            metadata["resourceVersion"] = newest
            return
        if number == 0:
            problem = field.invalid(_METADATA.child("resourceVersion"), 0, "must be specified for an update")
            raise errors.invalid(info.group, info.resource, name, [problem])
        if number != current.revision:
            raise errors.conflict(info.group, info.resource, name, _MODIFIED)
        metadata["resourceVersion"] = newest  # the canonical form: the client may have sent leading zeros

    def _check_uid(self, name: str, given: str, before: JSONObject, key: str) -> None:
        uid = before.get("uid", "")
        if given and given != uid:
            why = (
                f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
                f"Precondition failed: UID in precondition: {given}, UID in object meta: {uid}"
            )
            raise errors.conflict(self._info.group, self._info.resource, name, why)

    def _uid_of_nothing(self, name: str, uid: str) -> errors.StatusError:
        why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        return errors.conflict(self._info.group, self._info.resource, name, why)

    def _name_taken(self, name: str, current: KeyValue, *, generated: bool) -> errors.StatusError:
        make = errors.generate_name_conflict if generated else errors.already_exists
        error = make(self._info.group, self._info.resource, name)
        with suppress(Corrupt):
            if "deletionTimestamp" in stored.make(current).decoded()["metadata"]:
                error.message = f"object is being deleted: {error.message}"
        return error


def _updating(write: Write, transform: Transform) -> Make:
    async def make(store: Store, current: StoredObject | None, old: JSONObject | None) -> JSONObject:
        write.context.object_bytes = 0 if current is None else current.size
        # There is none only where a PUT may create it, and that needs none.
        obj = await transform({} if current is None else await _aside(write.context, current.decoded))
        obj["metadata"] = dict(obj["metadata"])
        if current is None:
            if write.options.uid:
                raise store._uid_of_nothing(obj["metadata"].get("name", ""), write.options.uid)
            obj["metadata"].pop("resourceVersion", None)
        await store._own(write.context, current, old, obj, write.options)
        return obj

    return make


def _drop_managed_fields(write: Write, obj: JSONObject) -> bool:
    """Drop managedFields, the one part an object can do without, except in an apply. Returns whether there were any."""
    return not write.applies and obj["metadata"].pop("managedFields", None) is not None


async def _aside(context: Context, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function that works on the object of a write: in a thread if the object is large."""
    size = max(context.body_bytes, context.object_bytes)
    if size <= _LONG:
        return function(*args, **kwargs)
    return await OBJECTS.run(context.user.name, size, function, *args, **kwargs)


async def _final(context: Context, verdict: Verdict) -> Verdict:
    """Wait for slow validation, which runs in a thread and is told when the request is cancelled."""
    if verdict.later is None:
        return verdict
    given_up = threading.Event()
    try:
        return await _SLOW.run(context.user.name, context.body_bytes, verdict.later, given_up.is_set)
    finally:
        given_up.set()


def _same_json(left: bytes, right: bytes) -> bool:
    return codec.same(codec.decode_stored(left), codec.decode_stored(right))


def _keep(metadata: JSONObject, before: JSONObject, key: str) -> None:
    if key in before:
        metadata[key] = before[key]
    else:
        metadata.pop(key, None)


def _revision(metadata: JSONObject) -> int:
    """Of an object that a client sent; 0 where it has none. Raises 500 for what is no number."""
    try:
        return parse_uint(metadata.get("resourceVersion") or "0")
    except ValueError as error:
        raise errors.StatusError(500, "", str(error)) from None


def _is_revision(version: str) -> bool:
    """Whether a resourceVersion is set on an object to create. Text that is no number passes, as upstream; it is never stored."""
    try:
        return parse_uint(version) > 0
    except ValueError:
        return False
