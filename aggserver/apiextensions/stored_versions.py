"""Which definitions are migrated, and how that is recorded: in `status.storedVersions` with a CRD API, else in the store.

With a CRD API, the versions that objects may be stored in are in `status.storedVersions`. When all objects are migrated, it is
trimmed to the storage version, so that the old one may be removed from `spec.versions`. The condition StorageMigrating is that
of upstream's migrator: True with MigrationRunning, then False with MigrationSucceeded. While objects fail, its reason is
MigrationRetrying, and the message names them.

Definitions from a folder have no status. A record in the store, at `/aggserver/migrations/<name>`, has the version that all
objects are stored in. A server migrates when its folder's storage version changes, and at its start if the record has another
version. It does not migrate when another server, whose folder changed earlier or later, writes the record: otherwise two servers
with different folders would undo each other's work for ever.
Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/v1/types.go, v0.36.3; k8s.io/kubernetes
pkg/controller/storageversionmigrator/migrationrunner.go, v1.36.3.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from aggserver.apiextensions import conditions
from aggserver.apiextensions.definition import Definition
from aggserver.apiextensions.manifest import member
from aggserver.apiextensions.migration import Migration, Migrator
from aggserver.apiextensions.strategy import DefinitionStatusStrategy
from aggserver.informers.informer import CONTROLLER
from aggserver.meta import codec, times
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.registry.rest import Context, WriteOptions, WriteRequest
from aggserver.registry.storage_version import SpecState, StorageVersions, Superseded
from aggserver.registry.store import Store
from aggserver.storage import records
from aggserver.storage.compare_and_swap import put
from aggserver.storage.interface import KeyValue, Storage
from aggserver.storage.keys import resource_prefix
from aggserver.storage.records import DamagedRecord

__all__ = ["RECORDS", "FolderLedger", "FolderMigrations", "StatusLedger", "StatusMigrations", "due", "read_record"]

log = logging.getLogger("aggserver.migration")

CONDITION = "StorageMigrating"
_WRITE = WriteOptions(field_manager="aggserver", bounded=False)
RECORDS = resource_prefix("aggserver", "migrations")


def due(crd: JSONMapping) -> Migration | None:
    """The migration that a definition's status asks for; None if there is nothing to migrate."""
    metadata, spec = member(crd, "metadata", {}), member(crd, "spec", {})
    version = next((member(each, "name", "") for each in member(spec, "versions", []) if each.get("storage")), "")
    stored = member(member(crd, "status", {}), "storedVersions", [])
    leaving = tuple(name for name in stored if name != version)
    if not version or not leaving or "deletionTimestamp" in metadata:
        return None
    identity = SpecState(member(metadata, "uid", ""), member(metadata, "generation", 0))
    return Migration(member(metadata, "name", ""), version, leaving, identity)


class StatusMigrations:
    """Starts the migrations of the definitions of a CRD API."""

    def __init__(self, migrator: Migrator, ledger: StatusLedger) -> None:
        self._migrator = migrator
        self._ledger = ledger

    async def run(self) -> None:
        await self._migrator.run()

    async def sync(self, name: str, crd: JSONObject | None) -> None:
        """Called with each new state of a definition, once it is served; None if the definition is gone."""
        migration = due(crd) if crd is not None else None
        if migration is not None:
            self._migrator.want(migration)
            return
        self._migrator.forget(name)
        if crd is not None and "deletionTimestamp" not in crd["metadata"] and _is_ours(crd):
            await self._ledger.close(name)


class StatusLedger:
    """The Ledger of a CRD API, in the definitions' status. store: of the definitions. clock: seconds since the epoch."""

    def __init__(self, store: Store, versions: StorageVersions, clock: Callable[[], float]) -> None:
        self._status = store.with_strategy(DefinitionStatusStrategy())
        self._versions = versions
        self._clock = clock

    async def begin(self, migration: Migration) -> bool:
        await self._versions.enforce(migration.name, migration.version, migration.identity)
        return await self._write(migration, "True", "MigrationRunning", f"{_what(migration)} is running")

    async def report(self, migration: Migration, message: str, *, failing: bool) -> None:
        reason = "MigrationRetrying" if failing else "MigrationRunning"
        await self._write(migration, "True", reason, f"{_what(migration)} is running: {message}")

    async def finish(self, migration: Migration) -> None:
        message = "The migration has succeeded and the stored versions have been updated"
        await self._write(migration, "False", "MigrationSucceeded", message, trim=True)

    async def close(self, name: str) -> None:
        """Set the condition to False, since somebody else has set the stored versions."""

        async def closed(crd: JSONObject) -> JSONObject:
            if due(crd) is None and _is_ours(crd):
                self._set(crd, "False", "MigrationSucceeded", "The stored versions have been updated")
            return crd

        await self._status.update(WriteRequest(Context(CONTROLLER), _WRITE), name, closed)

    async def _write(self, migration: Migration, value: str, reason: str, message: str, *, trim: bool = False) -> bool:
        """Set the condition, and with `trim` the stored versions. Returns False if there is nothing to migrate any more.

        Raises Superseded if the definition has changed.
        """
        is_due = True

        async def changed(crd: JSONObject) -> JSONObject:
            nonlocal is_due
            now = due(crd)
            is_due = now is not None
            if now is None:
                return crd
            if (now.version, now.identity) != (migration.version, migration.identity):
                raise Superseded(migration.name, migration.version)
            self._set(crd, value, reason, message)
            if trim:
                crd["status"]["storedVersions"] = [migration.version]
            return crd

        await self._status.update(WriteRequest(Context(CONTROLLER), _WRITE), migration.name, changed)
        return is_due

    def _set(self, crd: JSONObject, value: str, reason: str, message: str) -> None:
        now = times.format_time(self._clock())
        crd["status"] = conditions.with_condition(crd["status"], CONDITION, value, reason, message, now)
        for condition in crd["status"]["conditions"]:
            if condition.get("type") == CONDITION:
                condition["observedGeneration"] = member(crd["metadata"], "generation", 0)


_WHAT = "Migration of objects stored as "


def _what(migration: Migration) -> str:
    return f"{_WHAT}{', '.join(migration.leaving)} to {migration.version}"


def _is_ours(crd: JSONMapping) -> bool:
    """Whether the condition says that a migration runs, and is not upstream's migrator's, which may use the same etcd."""
    found = [each for each in member(member(crd, "status", {}), "conditions", []) if each.get("type") == CONDITION]
    return any(each.get("status") == "True" and str(each.get("message")).startswith(_WHAT) for each in found)


class FolderMigrations:
    """Starts the migrations of the definitions of a folder."""

    def __init__(self, migrator: Migrator) -> None:
        self._migrator = migrator
        self._versions: dict[str, str] = {}
        self._changes = 0

    async def run(self) -> None:
        await self._migrator.run()

    def sync(self, definitions: Iterable[Definition]) -> None:
        """Called with each new content of the folder, once it is served."""
        served = {each.name: each for each in definitions}
        versions = {name: each.storage_version.name for name, each in served.items()}
        for name in self._versions.keys() - versions.keys():
            self._migrator.forget(name)
        for name, version in versions.items():
            before = self._versions.get(name)
            if before is not None and all(each.name != before for each in served[name].versions):
                log.warning("%s: version %s is removed, but objects may still be stored in it", name, before)
            if before != version:
                self._changes += 1
                # At the start the previous version is not known, and the record decides (`FolderLedger.begin`).
                leaving = () if before is None else (before,)
                self._migrator.want(Migration(name, version, leaving, SpecState("", self._changes)))
        self._versions = versions


class FolderLedger:
    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    async def begin(self, migration: Migration) -> bool:
        if migration.leaving:
            return True
        record = await self._storage.get(RECORDS + migration.name)
        try:
            return record is None or read_record(record) != migration.version
        except DamagedRecord as error:
            log.warning("%s is migrated once more, and the record written anew: %s", migration.name, error)
            return True

    async def report(self, migration: Migration, message: str, *, failing: bool) -> None:
        return None  # the log and the metrics have it

    async def finish(self, migration: Migration) -> None:
        key, value = RECORDS + migration.name, codec.encode_json({"version": migration.version})
        await put(self._storage, key, lambda _: value)


def read_record(item: KeyValue) -> str:
    """The version that all objects are stored in, by a record. Raises DamagedRecord."""
    return records.decode(item, lambda value: str(value["version"]))
