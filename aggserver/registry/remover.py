"""Remover: delete and deletecollection of one version of a resource, and the loop that they share with all other writes.

What a deletion does to the object is in `deletion.py`.
Source: k8s.io/apiserver pkg/registry/generic/registry/store.go (Delete, DeleteCollection), pkg/registry/rest/delete.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import TypeVar

from aggserver.meta import errors, times
from aggserver.registry import deletion, stored
from aggserver.registry.commit import Commit
from aggserver.registry.reader import Reader
from aggserver.registry.rest import (
    NO_ADMISSION,
    Admission,
    Context,
    Deleted,
    DeleteOptions,
    ListOptions,
    ListResult,
    WriteOptions,
)
from aggserver.registry.storage_errors import reading, writing
from aggserver.registry.stored import StoredObject
from aggserver.registry.unreadable import unsafe_delete_refused
from aggserver.registry.write import CHANGED, Attempt, Current, StoredIn, Write
from aggserver.storage import keys
from aggserver.storage.interface import Conflict, KeyExists, NotFound

__all__ = ["Overtaken", "Remover"]

# Concurrent deletions of one deletecollection: enough to fill a group commit of the backend.
_DELETE_WORKERS = 64
# Attempts of a write whose object has to be read again each time, as the store that keeps it says.
_TRIES = 5

log = logging.getLogger(__name__)

T = TypeVar("T")


class Overtaken(Exception):
    """Another writer was quicker, and the object has to be read again.

    error: for the client, if that happens again and again; None if it can't, since some writer always succeeds.
    """

    def __init__(self, error: errors.StatusError | None = None) -> None:
        super().__init__("" if error is None else error.message)
        self.error = error


class Remover(Reader):
    """Deleter, CorruptDeleter and CollectionDeleter; the base of `Store`."""

    @cached_property
    def _commit(self) -> Commit:
        return Commit(self._resource, self._views)

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
            # If conversion needs a webhook, use the version in which the object is stored: a deletion must not depend on the
            # webhook, unless admission reads the object.
            store = self._store_of(current) if self._needs_webhook and not admission.looks_at_objects else self
            deleted = await store._delete(context, current, options, admission)
            if store is self or deleted.gone:
                return deleted
            assert isinstance(deleted.object, StoredObject)
            return replace(deleted, object=self._views.at_once(deleted.object, lenient=True) or deleted.object)

        return await self._retry(context, name, attempt)

    async def _delete(self, context: Context, current: StoredObject, options: DeleteOptions, admission: Admission) -> Deleted:
        view = await self._views.for_write(current)
        old = view.decoded()
        replaced = Current(current, view, old)
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
            return await self._delete_gracefully(Attempt(_marking(context, options), obj, replaced), options, period)
        before = metadata.get("finalizers") or []
        finalizers = deletion.finalizers_for(before, options, orphans=self._strategy.orphans_dependents)
        if finalizers is not before:
            metadata["finalizers"] = finalizers
        if not finalizers:
            metadata.pop("finalizers", None)
        if finalizers or not self._strategy.may_be_removed(obj):
            if "deletionTimestamp" not in metadata:
                deletion.mark_as_deleting(metadata, now)
            its_own = self._needs_webhook and self._views.is_own(current)
            write = _marking(context, options, StoredIn.ITS_VERSION if its_own else StoredIn.STORAGE_VERSION)
            attempt = Attempt(write, obj, replaced, is_whole=view.form is self._views.form)
            return Deleted(await self._commit.update(attempt), gone=False)
        shown = self._strategy.returns_deleted
        if options.dry_run:
            return Deleted(await self._commit.would_delete(context, view), gone=True, shown=shown)
        return Deleted(await self._commit.delete(context, view), gone=True, shown=shown)

    async def _delete_gracefully(self, attempt: Attempt, options: DeleteOptions, period: int) -> Deleted:
        """Mark the object as being deleted, and then remove it if its grace period is 0: in two writes, as upstream."""
        assert attempt.current is not None
        metadata = attempt.obj["metadata"]
        if not deletion.begin_gracefully(metadata, options.grace_period_seconds, period, self.now()):
            return Deleted(attempt.current.stored, gone=False)
        before = metadata.get("finalizers") or []
        if (finalizers := deletion.finalizers_for(before, options, orphans=self._strategy.orphans_dependents)) is not before:
            metadata["finalizers"] = finalizers
        marked = await self._commit.update(attempt)
        if finalizers or metadata["deletionGracePeriodSeconds"] or options.dry_run:
            return Deleted(marked, gone=False)
        with suppress(NotFound):  # a concurrent request may have removed it
            marked = await self._commit.delete(attempt.write.context, marked)
        return Deleted(marked, gone=True, shown=self._strategy.returns_deleted)

    async def delete_collection(
        self, context: Context, options: DeleteOptions, selection: ListOptions, admission: Admission = NO_ADMISSION
    ) -> ListResult:
        self._resource.check_write()
        self._warn_of_orphans(context, options)
        # List without a webhook if possible. A label selector needs it: labels may differ between versions, and those of the
        # requested version are selected by.
        as_stored = context.metadata_only or (self._needs_webhook and selection.labels.empty)
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

        refusal: Exception | None = None
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(_DELETE_WORKERS, len(found.items))):
                    group.create_task(worker())
        except* errors.StatusError as refusals:
            # A response has room for one Status, so the first error is reported, as upstream.
            refusal = refusals.exceptions[0]
        # Not within `except*`: in Debian 12's Python 3.11.2, what is raised there comes out in a group.
        if refusal is not None:
            raise refusal from None
        return found

    async def delete_corrupt(self, context: Context, name: str) -> None:
        """Remove an unreadable object at once, whatever finalizers it has, since they can't be read."""
        self._resource.check_write()
        key = self._key(context, name)
        await self.catch_up("")
        while (error := self._corrupt.at(key)) is not None:
            with writing(), suppress(Conflict, NotFound):
                await self._resource.delete(key, error.revision)
                log.warning("removed %s, which could not be read: %s", key, error.why)
                return
            await self.catch_up("")
        raise unsafe_delete_refused(self._info.group, self._info.resource, name)

    # --- shared by all writes ---

    def now(self) -> str:
        """The time now, formatted as in metadata."""
        return times.format_time(self._resource.clock())

    @property
    def _needs_webhook(self) -> bool:
        """Whether conversion calls a webhook, which may fail and takes time."""
        return self._resource.converter.at_once is None

    async def _retry(self, context: Context, name: str, attempt: Callable[[StoredObject | None], Awaitable[T]]) -> T:
        """Run `attempt` on the current object, and again on the newer object each time another writer was quicker."""
        key = self._key(context, name)
        current = await self._newest(context, key)
        left = _TRIES
        while True:
            try:
                return await attempt(current)
            except (Conflict, KeyExists) as lost:
                with reading():
                    current = stored.make(lost.current)
            except Overtaken as lost:
                if lost.error is not None and not (left := left - 1):
                    raise lost.error from None
                current = await self._newest(context, key)
            except NotFound:
                current = None

    async def _newest(self, context: Context, key: str) -> StoredObject | None:
        """The object from which the first attempt of a write starts, None if there is none."""
        await self.catch_up("")
        return self._views.cached(key)


def _marking(context: Context, options: DeleteOptions, stored_in: StoredIn = StoredIn.STORAGE_VERSION) -> Write:
    """The write that marks an object as being deleted. It must not fail because the object is too large."""
    return Write(context, WriteOptions(options.dry_run, bounded=False), NO_ADMISSION, CHANGED, stored_in)
