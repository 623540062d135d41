"""Storage versions in force: no server writes objects in a version that is not the storage version any more.

When a definition's storage version changes, another server on the same store may not have seen it yet, and a write that began
before may be waiting for a webhook. Both would store one more object in the old version, after all others were migrated. So
before a migration, `StorageVersions.enforce` records the new version in the store, and every write of an object depends on that
record's revision, in its own transaction (`storage.interface.Guard`). A write in the old version is then refused by the store
itself, whoever sends it and however late; its client gets 503, and tries again on the changed definition.

There is no record until a definition's storage version changes for the first time. Records are at
`/aggserver/storageversions/<name>`; no custom resource has the group `aggserver`, since their groups have a dot.
Source: none; kube-apiserver leaves it to the administrator who migrates to wait long enough (KEP-4192, KEP-2339).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from aggserver.meta import codec, errors
from aggserver.meta.json_types import JSONObject
from aggserver.storage import records
from aggserver.storage.cacher import Cacher
from aggserver.storage.compare_and_swap import put
from aggserver.storage.interface import Corrupt, KeyValue, Precondition, Storage
from aggserver.storage.keys import resource_prefix
from aggserver.storage.records import DamagedRecord

__all__ = ["PREFIX", "Fence", "SpecState", "StorageVersions", "Superseded", "read_record"]

PREFIX = resource_prefix("aggserver", "storageversions")


class SpecState(NamedTuple):
    """A state of a definition's spec."""

    uid: str
    generation: int


class Superseded(errors.StatusError):
    """A write in a version that a newer state of the definition does not store any more: 503, to be sent again."""

    def __init__(self, name: str, version: str) -> None:
        why = f"the storage version of {name} has changed from {version}, which this server has not applied yet"
        super().__init__(503, "ServiceUnavailable", f"{why}; please try again", retry_after=1)


@dataclass(frozen=True, slots=True)
class _Record:
    """uid, generation: of the definition's state that has this storage version."""

    key: str
    revision: int
    size: int
    uid: str
    generation: int
    version: str

    def supersedes(self, version: str, identity: SpecState) -> bool:
        return self.version != version and self.uid == identity.uid and self.generation > identity.generation


class StorageVersions:
    """The records of all definitions in a store. corrupt, behind: see `Cacher`; the problems of the records are added to them."""

    def __init__(self, storage: Storage, corrupt: dict[str, Corrupt] | None = None, behind: dict[str, str] | None = None) -> None:
        self._storage = storage
        self._cacher: Cacher[_Record] = Cacher(storage, PREFIX, make=read_record, at=_at, corrupt=corrupt, behind=behind)

    async def enforce(self, name: str, version: str, identity: SpecState) -> None:
        """From now on, refuse writes in another version by servers that have this state of the definition or an older one.

        Raises Superseded if a newer state is in force, DamagedRecord if the record can't be read, and other StorageErrors.
        """
        key = PREFIX + name
        value = codec.encode_json({"generation": identity.generation, "uid": identity.uid, "version": version})

        def unless_superseded(current: KeyValue | None) -> bytes:
            if current is not None and read_record(current).supersedes(version, identity):
                raise Superseded(name, version)
            return value

        await put(self._storage, key, unless_superseded)

    async def known(self, name: str) -> _Record | None:
        """The record as the watch of this server has delivered it last. Raises DamagedRecord and Unavailable."""
        await self._cacher.ready()
        return self._cacher.get(PREFIX + name)

    async def newest(self, name: str) -> _Record | None:
        """The record as it is in the store now. Raises DamagedRecord and Unavailable."""
        current = await self._storage.get(PREFIX + name)
        return None if current is None else read_record(current)


class Fence:
    """The guard of the writes that one state of a definition makes. A new state of the same content only changes `identity`."""

    def __init__(self, versions: StorageVersions, name: str, version: str, identity: SpecState) -> None:
        self.identity = identity
        self._versions = versions
        self._name = name
        self._version = version

    async def guard(self) -> Precondition:
        """Raises Superseded, and StatusError (500) if the record is damaged."""
        return await self._of(self._versions.known)

    async def newest(self) -> Precondition:
        """The guard to retry a refused write: the record may have changed and still allow this version. Raises as `guard`."""
        return await self._of(self._versions.newest)

    async def _of(self, look: Callable[[str], Awaitable[_Record | None]]) -> Precondition:
        try:
            return self._guard(await look(self._name))
        except DamagedRecord as error:
            # It may say that this version must not be written any more, so nothing is written until it is known again.
            raise errors.internal_error(f"whether {self._name} may be stored as {self._version} is not known: {error}") from error

    def _guard(self, record: _Record | None) -> Precondition:
        if record is None:
            return Precondition(PREFIX + self._name, 0)
        if record.supersedes(self._version, self.identity):
            raise Superseded(self._name, self._version)
        return Precondition(record.key, record.revision)


def read_record(item: KeyValue) -> _Record:
    """Raises DamagedRecord."""

    def read(value: JSONObject) -> _Record:
        return _Record(item.key, item.revision, len(item.value), value["uid"], int(value["generation"]), value["version"])

    return records.decode(item, read)


def _at(record: _Record, revision: int) -> _Record:
    return replace(record, revision=revision)
