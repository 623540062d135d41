"""Store: the verbs of one version of a resource.

Every write goes through one loop. It reads the object from the watch cache, makes the new object from it (by an update, a patch
or a server-side apply), and then takes the steps that are the same for all writes, in this order: managedFields, mutating
admission, the strategy's rules, validating admission, pruning of what an apply or admission has added beyond the schema,
encoding, compare and swap. If another writer was quicker, the loop starts again with the object as that writer left it.

All versions of a resource share one `ResourceStorage`. Reads are in `reader.py`, deletions in `remover.py`, the last steps of a
write in `commit.py`.
Source: k8s.io/apiserver pkg/registry/generic/registry/store.go, pkg/endpoints/handlers/{create,update,patch}.go, v0.36.3.
"""

from __future__ import annotations

import builtins
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cached_property

from aggserver.conversion.converter import ConversionError
from aggserver.merge import managed_fields
from aggserver.merge.managed_fields import ManagedFieldsError
from aggserver.meta import errors, field
from aggserver.meta.field import Path
from aggserver.meta.golang import parse_uint
from aggserver.meta.json_types import JSONObject
from aggserver.registry import deletion, preparation, stored
from aggserver.registry.ownership import Ownership
from aggserver.registry.remover import Overtaken, Remover
from aggserver.registry.rest import ApplyConfiguration, Sharing, Transform, WriteRequest, Written
from aggserver.registry.stored import StoredObject
from aggserver.registry.strategy import Strategy, Verdict
from aggserver.registry.write import APPLIED, CHANGED, CREATED, PUT, Attempt, Current, Making, StoredIn, Write, final
from aggserver.scheme import object_meta
from aggserver.storage.interface import Conflict, Corrupt, KeyExists, KeyValue, NotFound

__all__ = ["Store"]

_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
# Names tried for generateName before the client gets a conflict (upstream's maxNameGenerationCreateAttempts).
_NAME_TRIES = 8
_METADATA = Path("metadata")

log = logging.getLogger(__name__)

# (the store of the version that is written, the current object or None) -> the new object, with its managedFields.
_Make = Callable[["Store", Current | None], Awaitable[JSONObject]]


class Store(Remover):
    """Getter, Lister, Watcher, Creater, Updater, Applier, Replacer, Deleter and CollectionDeleter in one."""

    @cached_property
    def _ownership(self) -> Ownership:
        return Ownership(self._strategy.field_manager, self._resource.converter)

    def with_strategy(self, strategy: Strategy) -> Store:
        """A Store of the same objects with other rules, for `/status` and `/scale`."""
        return Store(self._resource, strategy, self._views, self._sibling)

    def during_write(self) -> AbstractContextManager[object]:
        """A context manager around each write with all its attempts, for kinds that must know when a write ends."""
        return nullcontext()

    def new_uid(self, name: str) -> str:
        """The UID of an object that is about to be created."""
        return self._resource.new_uid()

    # --- creating ---

    async def create(self, request: WriteRequest, obj: JSONObject) -> StoredObject:
        with self.during_write():
            return await self._create_named(Write.of(request, CREATED), obj)

    async def _create_named(self, write: Write, obj: JSONObject) -> StoredObject:
        self._resource.check_write()
        context = write.context
        metadata = obj["metadata"]
        preparation.drop_system_fields(metadata)
        preparation.place_in_namespace(metadata, context.namespace, namespaced=self._info.namespaced)
        preparation.dedup_owner_references(metadata, context.warnings)
        await self._own(write, None, obj)
        changed = await self._mutate(write, obj, None)
        metadata = obj["metadata"]
        base = metadata.get("generateName") or ""
        tries = _NAME_TRIES if base and not metadata.get("name") else 1
        for left in reversed(range(tries)):
            named = dict(obj["metadata"])
            if not named.get("name") and base:
                named["name"] = object_meta.generate_name(base, self._resource.random)
            try:
                return await self._create(Attempt(write, dict(obj, metadata=named), is_pruned=not changed))
            except KeyExists as taken:
                if not left:
                    raise self._name_taken(named["name"], taken.current, generated=bool(base)) from None
        raise AssertionError("the last try returns or raises")

    async def _create(self, attempt: Attempt) -> StoredObject:
        """Validate and store a new object, after mutating admission. Raises KeyExists, for the caller to handle."""
        try:
            return await self._validate_and_create(attempt)
        except BaseException:
            attempt.write.admission.failed()
            raise

    async def _validate_and_create(self, attempt: Attempt) -> StoredObject:
        write, obj = attempt.write, attempt.obj
        context = write.context
        metadata = obj["metadata"]
        metadata["uid"] = self.new_uid(metadata.get("name") or "")
        metadata["creationTimestamp"] = self.now()
        self._strategy.check_context(context)
        given = list(obj)
        await write.aside(self._strategy.prepare_for_create, obj, context, metadata["creationTimestamp"])
        attempt.is_whole = given == list(obj)
        verdict = await final(context, await write.aside(self._strategy.validate, obj))
        context.warnings.extend(verdict.warnings)
        await self._refuse(write, obj, verdict.errors)
        context.warnings.extend(await write.aside(self._strategy.warnings, obj, None))
        await write.admission.validate(obj, None)
        metadata.pop("selfLink", None)
        if not attempt.is_pruned:
            await write.aside(self._strategy.prune, obj)  # last, as upstream
        key = self._key(context, metadata["name"])
        if write.options.dry_run:
            there = await self._newest(context, key)
            if there is not None:
                raise KeyExists(key, KeyValue(key, stored.value(there), 0, there.revision))
            return await self._commit.would_create(attempt, key)
        if not write.making.by_apply and _is_revision(metadata.get("resourceVersion") or ""):
            raise errors.StatusError(500, "", "resourceVersion should not be set on objects to be created")
        return await self._commit.create(attempt, key)

    # --- updating: the loop ---

    async def update(self, request: WriteRequest, name: str, transform: Transform, making: Making = CHANGED) -> Written:
        options = request.options
        if making is CHANGED and options.creates and self._strategy.creates_on_update:
            making = PUT
        its_own = options.of_metadata and self._needs_webhook and not request.admission.looks_at_objects
        stored_in = StoredIn.ITS_VERSION if its_own else StoredIn.STORAGE_VERSION
        write = Write.of(request, making, stored_in)

        async def make(store: Store, current: Current | None) -> JSONObject:
            # Without a current object this is a PUT that creates it, whose transform does not use its argument.
            if current is None:
                obj = await transform({})
            elif isinstance(transform, Sharing) and store._may_share(write, current):
                obj = await transform(current.tree)
            else:
                obj = await transform(await write.aside(current.view.decoded))
            obj["metadata"] = dict(obj["metadata"])
            if current is None:
                if options.uid:
                    raise self._uid_of_nothing(obj["metadata"].get("name", ""), options.uid)
                obj["metadata"].pop("resourceVersion", None)
            await store._own(write, current, obj)
            return obj

        return await self._write(write, name, make)

    async def apply(
        self, request: WriteRequest, name: str, configuration: ApplyConfiguration, making: Making = APPLIED
    ) -> Written:
        async def make(store: Store, current: Current | None) -> JSONObject:
            shares = current is not None and self._strategy.keeps_conformed and self._may_share(write, current)
            obj = await self._ownership.apply(
                request.context,
                None if current is None else current.view,
                current.tree if current is not None and shares else None,
                configuration,
                request.options.field_manager,
                self.now(),
                force=request.options.force,
                default=self._strategy.default,
            )
            configuration.accept(request.context)
            if current is None and obj["metadata"].get("uid"):
                raise self._uid_of_nothing(name, obj["metadata"]["uid"])
            return obj

        write = Write.of(request, making)
        return await self._write(write, name, make)

    async def replace(self, request: WriteRequest, obj: JSONObject) -> Written:
        write = Write.of(request, CREATED)

        async def make(store: Store, current: Current | None) -> JSONObject:
            kept = {} if current is None else {key: current.tree["metadata"][key] for key in ("resourceVersion", "uid")}
            wanted = dict(obj, metadata={**obj["metadata"], **kept})
            await self._own(write, current, wanted)
            return wanted

        return await self._write(write, obj["metadata"].get("name") or "", make)

    async def _write(self, write: Write, name: str, make: _Make) -> Written:
        """Run the write loop."""
        self._resource.check_write()

        async def attempt(current: StoredObject | None) -> Written:
            with write.context.warnings.attempt(Conflict, KeyExists, NotFound, Overtaken):
                if current is None:
                    return Written(await self._create_by(write, name, make), created=True)
                store = self._store_of(current) if write.keeps_version else self
                return Written(await self._shown(await store._update(write, name, current, make), write), created=False)

        with self.during_write():
            return await self._retry(write.context, name, attempt)

    async def _create_by(self, write: Write, name: str, make: _Make) -> StoredObject:
        if not write.making.creates:
            raise self._not_found(name)
        write.context.object_bytes = 0
        obj = await make(self, None)
        preparation.drop_system_fields(obj["metadata"])
        changed = await self._place_and_mutate(write, name, obj, None)
        _revision(obj["metadata"])
        return await self._create(Attempt(write, obj, is_pruned=not (changed or write.making.by_apply)))

    async def _update(self, write: Write, name: str, current: StoredObject, make: _Make) -> StoredObject:
        try:
            return await self._make_and_update(write, name, current, make)
        except BaseException:
            write.admission.failed()
            raise

    async def _make_and_update(self, write: Write, name: str, current: StoredObject, make: _Make) -> StoredObject:
        context, making = write.context, write.making
        view = await self._views.for_write(current)
        context.object_bytes = view.size
        old = await write.aside(view.decoded)
        replaced = Current(current, view, old)
        obj = await make(self, replaced)
        changed = await self._place_and_mutate(write, name, obj, old)
        metadata = obj["metadata"]
        self._check_uid(name, write.options.uid, old["metadata"], current.key)
        self._check_revision(name, metadata, current)
        metadata, problems, verdict = await write.aside(self._judged_update, obj, old)
        verdict = await final(context, verdict)
        context.warnings.extend(verdict.warnings)
        await self._refuse(write, obj, problems + verdict.errors)
        context.warnings.extend(await write.aside(self._strategy.warnings, obj, old))
        preparation.keep_times(obj, old)
        await write.admission.validate(obj, old)
        if changed or making.by_apply:
            await write.aside(self._strategy.prune, obj)
        if deletion.is_emptied(metadata, old["metadata"]) and self._strategy.may_be_removed(obj):
            return await self._remove_emptied(write, current, obj)
        is_whole = making.keeps_defaults and view.form is self._views.form
        return await self._commit.update(Attempt(write, obj, replaced, is_whole=is_whole))

    async def _remove_emptied(self, write: Write, current: StoredObject, obj: JSONObject) -> StoredObject:
        if not write.options.dry_run:
            # NotFound is success: a concurrent request that removed the last finalizer too has deleted the object.
            with suppress(NotFound):
                await self._commit.delete(write.context, current)
        removed = StoredObject(current.key, self._views.encode_whole(obj), current.revision)
        removed.content_revision = stored.UNSTORED
        return removed

    def _judged_update(self, obj: JSONObject, old: JSONObject) -> tuple[JSONObject, builtins.list[field.FieldError], Verdict]:
        """Prepare and validate an update. Returns the object's metadata, the errors in it, and the strategy's verdict."""
        metadata = self._prepare_update(obj, old)
        problems, changes = object_meta.validate_object_meta_update(
            metadata, old["metadata"], _METADATA, namespaced=self._info.namespaced
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

    # --- the parts of the loop ---

    def _may_share(self, write: Write, current: Current) -> bool:
        """Whether the new object may share parts with the current one, because nothing will change them in place.

        The current object must be pruned and defaulted by this version's schema, which one that was converted is not; and no
        plugin may change the new one.
        """
        conformed = current.view.form is self._views.form and self._views.is_own(current.stored)
        return conformed and not write.admission.looks_at_objects

    async def _own(self, write: Write, current: Current | None, obj: JSONObject) -> None:
        """Set managedFields for a write other than an apply."""
        view, old = (None, None) if current is None else (current.view, current.tree)
        await self._ownership.update(write.context, view, old, obj, write.options.field_manager, self.now())

    async def _place_and_mutate(self, write: Write, name: str, obj: JSONObject, old: JSONObject | None) -> bool:
        """Returns whether admission changed the object."""
        preparation.place_in_namespace(obj["metadata"], write.context.namespace, namespaced=self._info.namespaced)
        preparation.check_name(obj, name)
        return await self._mutate(write, obj, old)

    async def _mutate(self, write: Write, obj: JSONObject, old: JSONObject | None) -> bool:
        """Run mutating admission, whose plugins default what they change; returns whether they changed something.

        Metadata that can't be decoded is dropped, and managedFields are restored, if that is what admission has made of them.
        """
        context = write.context
        entries = obj["metadata"].get("managedFields")
        changed = await write.admission.mutate(obj, old)
        if changed:
            metadata = obj["metadata"]
            if not isinstance(metadata, dict):
                raise errors.internal_error("system metadata was not initialized")
            metadata = obj["metadata"] = dict(metadata)
            object_meta.drop_malformed(metadata)
            preparation.place_in_namespace(metadata, context.namespace, namespaced=self._info.namespaced)
            try:
                if metadata.get("managedFields") is not entries:
                    managed_fields.decode(metadata.get("managedFields"))
            except ManagedFieldsError as error:
                metadata["managedFields"] = entries
                context.warnings.append(
                    ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated "
                    f"mutating admission controller; please fix your requests: {error}"
                )
        preparation.dedup_owner_references(obj["metadata"], context.warnings, admitted=True)
        return changed

    async def _shown(self, written: StoredObject, write: Write) -> StoredObject:
        """The object in the response of an update. If its conversion fails, as it is stored, since the write has succeeded."""
        if not write.keeps_version or write.context.metadata_only:
            return written
        try:
            return await self._views.for_write(written)
        except ConversionError as error:
            log.warning("%s was written; the response has it as stored, unconverted: %s", written.key, error.message)
            return written

    # --- rules and errors ---

    async def _refuse(self, write: Write, obj: JSONObject, problems: builtins.list[field.FieldError]) -> None:
        if problems:
            # As upstream, the error names the kind that the object has, even if that kind is the error.
            kind = obj.get("kind") or self._info.kind
            name = obj["metadata"].get("name", "")
            raise await write.aside(errors.invalid, self._resource.group, kind, name, problems)

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


def _keep(metadata: JSONObject, before: JSONObject, key: str) -> None:
    if key in before:
        metadata[key] = before[key]
    else:
        metadata.pop(key, None)


def _revision(metadata: JSONObject) -> int:
    """The resourceVersion of a client's object as a number, 0 if it has none. Raises 500 if it is not a number."""
    try:
        return parse_uint(metadata.get("resourceVersion") or "0")
    except ValueError as error:
        raise errors.StatusError(500, "", str(error)) from None


def _is_revision(version: str) -> bool:
    """Whether an object to create has a resourceVersion other than 0. Text that is no number is ignored, as upstream."""
    try:
        return parse_uint(version) > 0
    except ValueError:
        return False
