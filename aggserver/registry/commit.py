"""Commit: the last step of every write of one version of a resource: encode the object, store it, return it as a read would.

Includes the limit of the object's size, compare and swap, and the check that readers' converter accepts the object.
Source: k8s.io/apiserver pkg/storage/etcd3/store.go (GuaranteedUpdate), v0.36.3.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aggserver.meta import codec, errors
from aggserver.registry import stored
from aggserver.registry.resource_storage import ResourceStorage
from aggserver.registry.rest import Context
from aggserver.registry.storage_errors import writing
from aggserver.registry.stored import StoredObject
from aggserver.registry.views import Views
from aggserver.registry.write import Attempt
from aggserver.storage.interface import KeyValue, TooLarge
from aggserver.tracing.record import note, now

__all__ = ["Commit"]


class Commit:
    """Stores the objects of one version. views: of this version."""

    def __init__(self, resource: ResourceStorage, views: Views) -> None:
        self._resource = resource
        self._views = views

    async def create(self, attempt: Attempt, key: str) -> StoredObject:
        """Store a new object. Raises KeyExists, which the write loop handles, and StatusError."""
        return await self._store(attempt, key, lambda encoded: self._resource.create(key, encoded))

    async def would_create(self, attempt: Attempt, key: str) -> StoredObject:
        """The result of a dry run."""
        return await self._views.as_read(stored.unstored(key, await self._encode(attempt)), is_whole=attempt.is_whole)

    async def update(self, attempt: Attempt) -> StoredObject:
        """Compare and swap; store nothing if nothing has changed. Raises Conflict, which the write loop handles, and StatusError.

        The stored bytes are compared too: any write of an object that is stored in another version, or was stored under another
        schema, rewrites it. This is how objects are migrated.
        """
        assert attempt.current is not None
        write, current = attempt.write, attempt.current.stored
        dry_run = write.options.dry_run
        if await write.aside(codec.same, attempt.obj, attempt.current.tree):
            if write.keeps_version:
                return current
            encoded = await self._encode(attempt)
            if dry_run or await write.aside(_same_json, encoded, stored.value(current)):
                return await self._views.for_write(current)
        elif dry_run:
            encoded = await self._encode(attempt)
            would_be = stored.unstored(current.key, encoded, current.revision)
            return would_be if write.keeps_version else await self._views.as_read(would_be, is_whole=attempt.is_whole)
        return await self._store(
            attempt, current.key, lambda encoded: self._resource.update(current.key, encoded, current.revision)
        )

    async def delete(self, context: Context, obj: StoredObject) -> StoredObject:
        """Remove an object, if it is still at its revision. Returns it with the revision of its deletion.

        Raises NotFound and Conflict, which the write loop handles, and StatusError.
        """
        with writing():
            revision = await self._resource.delete(obj.key, obj.revision)
        return stored.at(obj, revision)

    async def would_delete(self, context: Context, obj: StoredObject) -> StoredObject:
        """The result of a dry run."""
        return obj

    async def _store(self, attempt: Attempt, key: str, commit: Callable[[bytes], Awaitable[int]]) -> StoredObject:
        """Store the object; if that is too large for the storage, try without managedFields. Returns it as a read would."""
        encoded = await self._encode(attempt)
        with writing():
            try:
                return await self._committed(attempt, key, encoded, commit)
            except TooLarge:
                if not attempt.drop_managed_fields():
                    raise
                return await self._committed(attempt, key, await self._encode(attempt), commit)

    async def _committed(
        self, attempt: Attempt, key: str, encoded: bytes, commit: Callable[[bytes], Awaitable[int]]
    ) -> StoredObject:
        expected = None if attempt.write.keeps_version else await self._views.expected(key, encoded)
        started = now()
        revision = await commit(encoded)
        note("Storage", started)
        # The object is stored, so nothing may fail from here on. The watch cache has the event by now. If nobody has written
        # since, use the object of the cache, so that its views are cached with it.
        cacher = self._resource.cacher
        obj = None if cacher.corrupt else cacher.get(key)
        if obj is None or obj.revision != revision:
            obj = stored.make(KeyValue(key, encoded, 0, revision))
        if expected is not None:
            self._views.remember(obj, expected)
        return await self._views.as_read(obj, is_whole=attempt.is_whole)

    async def _encode(self, attempt: Attempt) -> bytes:
        """The bytes to store, without managedFields if the object is too large with them. Raises ObjectTooLarge."""
        encoded = await self._to_stored(attempt)
        if self._is_too_large(encoded, attempt) and attempt.drop_managed_fields():
            encoded = await self._to_stored(attempt)
        if self._is_too_large(encoded, attempt):
            raise errors.ObjectTooLarge(self._resource.max_object_bytes)
        return encoded

    async def _to_stored(self, attempt: Attempt) -> bytes:
        if attempt.write.keeps_version or self._views.api_version == self._resource.api_version:
            return await attempt.write.aside(self._views.unchanged, attempt.obj)
        return await self._views.to_stored(attempt.obj)

    def _is_too_large(self, encoded: bytes, attempt: Attempt) -> bool:
        """Whether to refuse the object for its size. One that was too large before may be written if it does not grow."""
        if len(encoded) <= self._resource.max_object_bytes or not attempt.write.options.bounded:
            return False
        return attempt.current is None or len(encoded) > len(stored.value(attempt.current.stored))


def _same_json(left: bytes, right: bytes) -> bool:
    return codec.same(codec.decode_stored(left), codec.decode_stored(right))
