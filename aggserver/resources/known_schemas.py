"""Known schemas: the schemas of stored resources as they were when a server last started, to tell what has changed since.

They are records beside the marks of definitions, under `/aggserver/schemas/NAME`. A change that may refuse or drop parts of
objects that are there is a warning in the log, once for the store: then the new schemas are written. A store that refuses the
write is not in the way of the start.
"""

from __future__ import annotations

import logging

from aggserver.apiextensions.definition import Definition
from aggserver.meta import codec
from aggserver.meta.json_types import JSONObject
from aggserver.schema.compatibility import incompatible
from aggserver.storage import records
from aggserver.storage.compare_and_swap import put
from aggserver.storage.interface import Corrupt, KeyValue, Storage, StorageError
from aggserver.storage.keys import resource_prefix

__all__ = ["PREFIX", "compare", "read_record"]

log = logging.getLogger("aggserver.resources")

PREFIX = resource_prefix("aggserver", "schemas")


async def compare(storage: Storage, definition: Definition, place: str) -> None:
    """Log what is incompatible with the schemas that the store knows, and write these down. place: file and line."""
    schemas: JSONObject = {version.name: version.schema for version in definition.versions}
    told = False

    def choose(current: KeyValue | None) -> bytes:
        nonlocal told
        if current is not None and not told:
            told = True  # not again if another server was quicker
            _tell(current, definition, place)
        return codec.encode_json({"stored": definition.storage_version.name, "versions": schemas})

    try:
        await put(storage, PREFIX + definition.name, choose)
    except StorageError as error:
        log.warning("the schemas of %s could not be written down: %s", definition.name, error)


def _tell(current: KeyValue, definition: Definition, place: str) -> None:
    try:
        stored, before = read_record(current)
    except Corrupt as error:
        log.warning("the schemas of %s before this start are not known: %s", definition.name, error)
        return
    now = {version.name: version.schema for version in definition.versions}
    problems = [f"version {name} was removed" for name in before if name not in now]
    for name, schema in before.items():
        problems += [f"{name}: {text}" for text in incompatible(schema, now.get(name, schema))]
    if stored in before and stored in now and stored != definition.storage_version.name:
        problems.append(f"objects are stored as {definition.storage_version.name}, and were as {stored}")
    for problem in problems:
        log.warning("%s: %s has objects that were written under another schema: %s", place, definition.name, problem)


def read_record(item: KeyValue) -> tuple[str, dict[str, JSONObject]]:
    """(the version that was stored, the schemas by version). Raises DamagedRecord."""

    def read(value: JSONObject) -> tuple[str, dict[str, JSONObject]]:
        return str(value["stored"]), dict(value["versions"])

    return records.decode(item, read)
