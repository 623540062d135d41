"""Checks one value for `aggserver storage check --storage etcd`: etcd keeps no checksums, so it is decoded as servers do."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from aggserver.adoption.records.record import decode as read_adoption
from aggserver.apiextensions import marks, stored_versions
from aggserver.registry import storage_version
from aggserver.registry.stored import make_decodable
from aggserver.resources import known_schemas, sidecar
from aggserver.storage import records
from aggserver.storage.interface import KeyValue

__all__ = ["decode"]

_RECORDS: Mapping[str, Callable[[KeyValue], object]] = {
    records.ADOPTIONS: lambda item: records.decode(item, read_adoption),
    marks.PREFIX: marks.read_mark,
    storage_version.PREFIX: storage_version.read_record,
    stored_versions.RECORDS: stored_versions.read_record,
    known_schemas.PREFIX: known_schemas.read_record,
    sidecar.PREFIX: sidecar.read_record,
}


def decode(item: KeyValue) -> object:
    """Decode a value. Raises Corrupt if the value can't be served, or is a record that can't be read."""
    if not item.key.startswith(records.PREFIX):
        return make_decodable(item)
    for prefix, read in _RECORDS.items():
        if item.key.startswith(prefix):
            return read(item)
    if not records.is_sound(item.key, item.value):
        raise records.DamagedRecord(item.key, item.revision, "it is no JSON object")
    return item
