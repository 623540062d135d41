"""Commit: how a write of a virtual resource ends: in the source, and, with a sidecar, in what is kept beside it.

A function of the source never sees what is kept: it gets the metadata that the source tells itself, so that what it echoes is
not taken for its own. A write of nothing but what is kept calls no function.
Source: k8s.io/apiserver pkg/registry/generic/registry/store.go, v0.36.3, for what a write returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from aggserver.meta import codec, errors
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.registry import stored
from aggserver.registry.commit import Commit
from aggserver.registry.remover import Overtaken
from aggserver.registry.resource_storage import ResourceStorage
from aggserver.registry.rest import Context
from aggserver.registry.stored import StoredObject
from aggserver.registry.views import Views
from aggserver.registry.write import CREATED, Attempt
from aggserver.resources import kept, requests
from aggserver.resources.errors import AlreadyExists, Conflict, NotFound
from aggserver.resources.requests import Request
from aggserver.resources.sidecar import KeptMetadata, Sidecar
from aggserver.resources.source import ObjectSource
from aggserver.storage import interface
from aggserver.storage.interface import KeyExists, KeyValue

__all__ = ["InSource", "Keep", "KeepingCommit", "SourceCommit", "asked", "nothing_more"]

T = TypeVar("T")

# Called with an object as the source tells it after a write, before it is shown.
Keep = Callable[[bytes], Awaitable[None]]


def asked(context: Context, key: str = "", *, dry_run: bool = False) -> Request[Any]:
    """The request as functions get it, before the App's state is in it. key: of the object that is written; '' for a read."""
    name = key.rpartition("/")[2] or context.name
    return requests.asked(context.user, context.namespace, context.origin, context.warnings, dry_run=dry_run, name=name)


async def nothing_more(encoded: bytes) -> None:
    return None


class InSource(Protocol):
    """What both kinds of stores do to write into the source, and to show the result."""

    async def create_in_source(self, request: Request[Any], key: str, obj: JSONObject, keep: Keep = nothing_more) -> StoredObject:
        """Create an object by the source's function. Returns it as readers see it."""
        ...

    async def update_in_source(
        self, request: Request[Any], key: str, obj: JSONObject, old: JSONObject, keep: Keep = nothing_more
    ) -> StoredObject: ...

    async def delete_in_source(self, request: Request[Any], obj: StoredObject, old: JSONObject) -> StoredObject:
        """old: the object as the function gets it. Returns it with the resourceVersion of its deletion."""
        ...

    def is_newest(self, obj: StoredObject) -> bool:
        """Whether an object was read with what is kept of it now. Asked in its turn."""
        ...

    def own_version(self, version: str) -> str:
        """A resourceVersion as the source knows it."""
        ...

    def shown_anew(self, obj: StoredObject, old: JSONObject) -> StoredObject:
        """The object after its record has changed. old: as the source tells it."""
        ...


class SourceCommit(Commit):
    """Ends a write in the source. What has begun is finished though the client may be gone: what it has changed must be known."""

    def __init__(self, resource: ResourceStorage, views: Views, store: InSource, source: ObjectSource) -> None:
        super().__init__(resource, views)
        self._store_of_source = store
        self._source = source

    async def create(self, attempt: Attempt, key: str) -> StoredObject:
        try:
            return await self._shown(await self._create(attempt, key))
        except AlreadyExists as error:
            if attempt.write.making is not CREATED:  # there was none when the write began: begin again
                raise Overtaken(error) from None
            raise KeyExists(key, KeyValue(key, b"", 0, 0, fault=error.message)) from None

    async def _create(self, attempt: Attempt, key: str) -> StoredObject:
        request = asked(attempt.write.context, key)
        return await _finished(self._store_of_source.create_in_source(request, key, attempt.obj))

    async def would_create(self, attempt: Attempt, key: str) -> StoredObject:
        self._source.refuse_dry_run("create")
        return await self._shown(stored.unstored(key, await self._would_create(attempt, key)))

    async def _would_create(self, attempt: Attempt, key: str) -> bytes:
        return (await self._source.create(asked(attempt.write.context, key, dry_run=True), attempt.obj))[1]

    async def update(self, attempt: Attempt) -> StoredObject:
        assert attempt.current is not None
        key = attempt.current.stored.key
        try:
            return await self._shown(await self._update(attempt))
        except Conflict as error:
            raise Overtaken(error) from None
        except NotFound:
            raise interface.NotFound(key) from None

    async def _update(self, attempt: Attempt) -> StoredObject:
        assert attempt.current is not None
        write, current = attempt.write, attempt.current
        dry_run = write.options.dry_run
        if dry_run:
            self._source.refuse_dry_run("update")
        if await write.aside(self._source.same, attempt.obj, current.tree):
            return current.view
        key = current.stored.key
        request = asked(write.context, key, dry_run=dry_run)
        if dry_run:
            _, encoded, _ = await self._source.update(request, attempt.obj, current.tree)
            return stored.versioned(key, encoded, current.stored.resource_version)
        return await _finished(self._store_of_source.update_in_source(request, key, attempt.obj, current.tree))

    async def delete(self, context: Context, obj: StoredObject) -> StoredObject:
        try:
            return await _finished(self._delete(asked(context, obj.key), obj))
        except Conflict as error:
            raise Overtaken(error) from None
        except NotFound:
            raise interface.NotFound(obj.key) from None

    async def _delete(self, request: Request[Any], obj: StoredObject) -> StoredObject:
        return await self._store_of_source.delete_in_source(request, obj, obj.decoded())

    async def would_delete(self, context: Context, obj: StoredObject) -> StoredObject:
        self._source.refuse_dry_run("delete")
        with suppress(NotFound):
            await self._source.delete(asked(context, obj.key, dry_run=True), self._for_function(obj))
        return obj

    def _for_function(self, obj: StoredObject) -> JSONObject:
        return obj.decoded()

    async def _shown(self, obj: StoredObject) -> StoredObject:
        return await self._views.of(obj)


class KeepingCommit(SourceCommit):
    """Ends a write in the source and in the sidecar, in this order: see `sidecar.py`."""

    def __init__(self, resource: ResourceStorage, views: Views, store: InSource, source: ObjectSource, sidecar: Sidecar) -> None:
        super().__init__(resource, views, store, source)
        self._sidecar = sidecar

    async def _create(self, attempt: Attempt, key: str) -> StoredObject:
        await self._encode(attempt)  # refuses what is too large before anything is written
        return await _finished(self._create_beside(asked(attempt.write.context, key), key, attempt.obj))

    async def _create_beside(self, request: Request[Any], key: str, obj: JSONObject) -> StoredObject:
        async with self._sidecar.turn(key):
            keep = self._keep(request, key, self._sidecar.record(key), {}, kept.part(obj["metadata"]))
            return await self._store_of_source.create_in_source(request, key, self._bare(obj, {}), keep)

    async def _would_create(self, attempt: Attempt, key: str) -> bytes:
        await self._encode(attempt)
        request, obj = asked(attempt.write.context, key, dry_run=True), attempt.obj
        _, encoded, _ = await self._source.create(request, self._bare(obj, {}))
        own = kept.part(stored.metadata_of(encoded))
        return self._sidecar.with_kept(encoded, kept.kept_of(kept.part(obj["metadata"]), own))

    async def _update(self, attempt: Attempt) -> StoredObject:
        await self._encode(attempt)
        return await _finished(self._update_beside(attempt))

    async def _update_beside(self, attempt: Attempt) -> StoredObject:
        assert attempt.current is not None
        write, current = attempt.write, attempt.current
        key, dry_run, metadata = current.stored.key, write.options.dry_run, current.tree["metadata"]
        async with self._sidecar.turn(key):
            if not self._store_of_source.is_newest(current.stored):
                raise Overtaken
            own, before = self._sidecar.divided(key, metadata)
            record = self._sidecar.record(key)
            wanted = kept.part(attempt.obj["metadata"])
            if lost := kept.changed_own(wanted, own):
                raise errors.invalid(self._source.info.group, self._source.info.kind, metadata["name"], lost)
            request = asked(write.context, key, dry_run=dry_run)
            new, old = self._bare(attempt.obj, own), self._bare(current.tree, own)
            if not await write.aside(self._source.same, new, old):
                if not dry_run:
                    keep = self._keep(request, key, record, before, wanted)
                    return await self._store_of_source.update_in_source(request, key, new, old, keep)
                self._source.refuse_dry_run("update")
                _, encoded, _ = await self._source.update(request, new, old)
            else:
                after = kept.kept_of(wanted, own)
                _warn(request, wanted, own)
                if codec.same(after, before):
                    return current.view
                if not dry_run:
                    if not await self._sidecar.write(key, metadata["uid"], record, after):
                        raise Overtaken
                    return self._store_of_source.shown_anew(current.stored, old)
                encoded = stored.encode(old, self._views.api_version, self._source.info.kind)
            own = kept.part(stored.metadata_of(encoded))
            shown = self._sidecar.with_kept(encoded, kept.kept_of(wanted, own))
            return stored.versioned(key, shown, current.stored.resource_version)

    async def _delete(self, request: Request[Any], obj: StoredObject) -> StoredObject:
        async with self._sidecar.turn(obj.key):
            if not self._store_of_source.is_newest(obj):
                raise Overtaken
            record = self._sidecar.record(obj.key)
            deleted = await self._store_of_source.delete_in_source(request, obj, self._for_function(obj))
            await self._sidecar.forget(obj.key, record)
            return deleted

    def _for_function(self, obj: StoredObject) -> JSONObject:
        tree = obj.decoded()
        own, _ = self._sidecar.divided(obj.key, tree["metadata"])
        return self._bare(tree, own)

    def _bare(self, obj: JSONObject, own: JSONMapping) -> JSONObject:
        """An object without what is kept of it, as functions get it. own: what the source tells of these members."""
        metadata = kept.replaced(obj["metadata"], own)
        if version := metadata.get("resourceVersion"):
            metadata["resourceVersion"] = self._store_of_source.own_version(version)
        return {**obj, "metadata": metadata}

    def _keep(self, request: Request[Any], key: str, record: KeptMetadata | None, before: JSONObject, wanted: JSONObject) -> Keep:
        """What to do once the source has been changed. Raises StatusError, which says that it has."""

        async def keep(encoded: bytes) -> None:
            metadata = stored.metadata_of(encoded)
            own = kept.part(metadata)
            _warn(request, wanted, own)
            try:
                await self._sidecar.settle(key, metadata["uid"], record, before, kept.kept_of(wanted, own))
            except errors.StatusError as error:
                error.message = f"the source was changed, but the metadata of this write could not be kept: {error.message}"
                raise

        return keep


def _warn(request: Request[Any], wanted: JSONMapping, own: JSONMapping) -> None:
    for text in kept.returning(wanted, own):
        request.warn(text)


async def _finished(write: Coroutine[Any, Any, T]) -> T:
    """The result of a write, which goes on if the one who waits for it is cancelled."""
    task = asyncio.ensure_future(write)
    task.add_done_callback(_retrieve)
    return await asyncio.shield(task)


def _retrieve(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()
