"""ResourceStorage: the values that all versions of one resource share: the storage, the watch cache, conversion and limits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from aggserver.conversion.converter import Converter
from aggserver.meta.json_types import JSONObject
from aggserver.registry.conversions import ConversionCache, Conversions
from aggserver.registry.gate import Gate, WriteFence
from aggserver.registry.stored import StoredObject
from aggserver.storage import keys
from aggserver.storage.cacher import Cacher
from aggserver.storage.interface import Compacted, Precondition, PreconditionFailed, Storage

__all__ = ["ResourceStorage"]


@dataclass(frozen=True, slots=True)
class ResourceStorage:
    """The values that all versions of one resource share. A change of the definition makes a new one, with the same cacher.

    api_version: the version that objects are stored in. prune: prunes an object that was converted to it, in place.
    conform_stored: prunes and defaults an object read from the storage, in any version, in place. None if there is no schema;
    then bytes in the right version are sent as they are. stored_form: `StoredObject.form` of objects in the version that they are
    stored in, which are pruned and defaulted already; None if nobody knows it.
    read_fields: the selectable fields of an object, besides name and namespace. clock: seconds since the epoch.
    random: an integer in [0, argument), for generated names. max_object_bytes: limit for an object as it is stored.
    converted: the cache of converted objects, of all resources.
    epoch: the cacher's epoch when this was made. content_since: the revision since which clients have seen the objects as they
    are now; earlier, the definition was another one. objects_since: the revision since which the storage has the objects, if they
    were moved here. fence: for creates and updates; None if there is no record of the storage version (`storage_version.py`).
    gate: whether objects may be written and read now, and a fence for all writes; a resource has at most one of the two fences.
    """

    group: str
    resource: str
    api_version: str
    storage: Storage
    cacher: Cacher[StoredObject]
    converter: Converter
    prune: Callable[[JSONObject], object]
    conform_stored: Callable[[JSONObject], object] | None
    read_fields: Callable[[JSONObject], Mapping[str, str]]
    clock: Callable[[], float]
    new_uid: Callable[[], str]
    random: Callable[[int], int]
    max_object_bytes: int
    converted: ConversionCache
    stored_form: object = None
    epoch: int = 0
    content_since: Callable[[], int] = int
    objects_since: Callable[[], int] = int
    fence: WriteFence | None = None
    gate: Gate = field(default_factory=Gate)
    conversions: Conversions = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "conversions", Conversions(self.converter, self.cacher.has))

    async def create(self, key: str, value: bytes) -> int:
        """As `Storage.create`, unless the storage version has changed: then it raises Superseded. Raises 503 while frozen."""
        return await self._guarded(lambda guard: self.storage.create(key, value, guard), self.fence or self.gate.fence)

    async def update(self, key: str, value: bytes, expected: int) -> int:
        """As `Storage.update`, unless the storage version has changed: then it raises Superseded. Raises 503 while frozen."""
        return await self._guarded(lambda guard: self.storage.update(key, value, expected, guard), self.fence or self.gate.fence)

    async def delete(self, key: str, expected: int) -> int:
        """As `Storage.delete`. Raises 503 while frozen."""
        return await self._guarded(lambda guard: self.storage.delete(key, expected, guard), self.gate.fence)

    async def _guarded(self, write: Callable[[Precondition | None], Awaitable[int]], fence: WriteFence | None) -> int:
        # No await between the check and the call of the storage, so that `Storage.settle` waits for each write that passed.
        if fence is None:
            self.check_write()
            return await write(None)
        guard = await fence.guard()
        self.check_write()
        try:
            return await write(guard)
        except PreconditionFailed:
            guard = await fence.newest()
            self.check_write()
            return await write(guard)

    def check_write(self) -> None:
        """Raise 503 while the objects are frozen."""
        self.gate.check_write(self.group, self.resource)

    def check_read(self) -> None:
        """Raise 503 while the objects are hidden."""
        self.gate.check_read(self.group, self.resource)

    @property
    def is_over(self) -> bool:
        """Whether the definition has changed, so that another ResourceStorage serves the objects now."""
        return self.epoch != self.cacher.epoch

    def check_resumable(self, revision: int) -> None:
        """Raise Compacted if a watch can't resume at a revision, because clients saw the objects by another definition then."""
        since = max(self.cacher.broken_off + 1, self.content_since()) if self.cacher.epoch else self.content_since()
        if revision < since:
            raise Compacted(revision, since)

    def check_listable(self, revision: int) -> None:
        """Raise Compacted if there is no list at a revision, because the objects were not here then.

        A revision from before a change of the definition is allowed: its objects are shown by the definition of now.
        """
        since = self.objects_since()
        if revision < since:
            raise Compacted(revision, since)

    @property
    def prefix(self) -> str:
        return keys.resource_prefix(self.group, self.resource)

    def key_of(self, namespace: str, name: str) -> str:
        """The key of an object. namespace: '' for one that is in none."""
        return f"{self.prefix}{namespace}/{name}" if namespace else self.prefix + name
