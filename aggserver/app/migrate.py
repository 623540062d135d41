"""`aggserver storage migrate`: rewrites all stored objects in the storage versions of their definitions, without a server.

The definitions are those in the store, as `aggserver dev` keeps them, and those of a folder, as `aggserver serve` reads them.
Objects that fail are named in the error, and the others are migrated nevertheless.
"""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from aggserver.admission.chain import Chain
from aggserver.apiextensions.definition import Definition, DefinitionError, parse
from aggserver.apiextensions.definitions import Definitions
from aggserver.apiextensions.files import FolderSource, Loaded
from aggserver.apiextensions.migration import Ledger, Migration, Migrator
from aggserver.apiextensions.stored_versions import FolderLedger, StatusLedger, due
from aggserver.apiextensions.strategy import DefinitionStrategy
from aggserver.apiextensions.v1beta1 import StoredDefinitions
from aggserver.app.engine import new_environment, open_webhooks
from aggserver.app.errors import StartError
from aggserver.app.storage import open_storage
from aggserver.endpoints.installer import Installer
from aggserver.errors import AggserverError
from aggserver.informers.informer import ALL, CONTROLLER
from aggserver.meta.errors import StatusError
from aggserver.options import Options
from aggserver.registry.environment import Environment
from aggserver.registry.rest import Context
from aggserver.registry.storage_version import SpecState
from aggserver.storage.interface import StorageError
from aggserver.storage.sqlite_file import FILE_NAME

__all__ = ["MigrationError", "migrate"]


class MigrationError(AggserverError):
    """Some objects could not be migrated. The text names them."""


async def migrate(options: Options) -> str:
    """Migrate all objects. Returns a line with the result. Raises MigrationError, StartError and StorageError."""
    if options.storage != "etcd" and not (Path(options.data) / FILE_NAME).exists():
        raise StartError(f"--data {shlex.quote(options.data)}: there is no store in it")
    folder = await asyncio.to_thread(_read, options.definitions) if options.definitions is not None else {}
    storage = await open_storage(options)
    try:
        async with open_webhooks(options) as webhooks:
            return await _run(new_environment(storage, options, webhooks), folder)
    finally:
        await storage.close()


def _read(folder: Path) -> Mapping[str, Definition]:
    found: list[Loaded] = []
    loaded = FolderSource(folder, found.append).poll()
    assert loaded is not None  # the first poll has always something new
    if loaded.problems:
        raise StartError(f"--definitions {folder}: {'; '.join(map(str, loaded.problems))}")
    return {definition.name: definition for definition in loaded.definitions}


@dataclass(frozen=True, slots=True)
class _Job:
    """One definition that is to be migrated. identity: None for one from a folder."""

    definition: Definition
    migration: Migration
    ledger: Ledger
    identity: SpecState | None = None


async def _run(environment: Environment, folder: Mapping[str, Definition]) -> str:
    storage = environment.storage
    crds = environment.own_store(DefinitionStrategy(), StoredDefinitions())
    definitions = Definitions(environment, Chain(), Installer())
    stored = [obj.decoded() for obj in (await crds.list(Context(CONTROLLER), ALL)).items]
    if not stored and not folder:
        raise StartError("there are no definitions in the store; --definitions DIR names the folder of those that are served")
    failures: list[str] = []
    jobs: list[_Job] = []
    status = StatusLedger(crds, definitions.storage_versions, time.time)
    for crd in stored:
        migration = due(crd)
        if migration is not None:
            try:
                jobs.append(_Job(parse(crd), migration, status, migration.identity))
            except DefinitionError as error:
                failures.append(f"{migration.name} can't be served: {error}")
    records = FolderLedger(storage)
    for name, definition in folder.items():
        jobs.append(_Job(definition, Migration(name, definition.storage_version.name, (), SpecState("", 0)), records))
    done = []
    for job in jobs:
        definitions.set(job.definition, identity=job.identity)
        migrator = Migrator(definitions, storage, job.ledger, clock=time.monotonic, limits=None)
        try:
            failed = await migrator.migrate(job.migration, retry=False)
        except (StatusError, StorageError) as error:
            failed = str(error)
        if failed:
            failures.append(f"objects of {job.migration.name} can't be rewritten as {job.migration.version}: {failed}")
        else:
            done.append(f"{job.migration.name} {job.migration.version}")
    if failures:
        raise MigrationError("; ".join(failures))
    details = f": {', '.join(done)}" if done else ", and there was nothing to do"
    return f"all objects are stored in the storage versions of their definitions{details}"
