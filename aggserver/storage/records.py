"""Records: the server's own data in the store, and how it is read.

Storage versions in force, marks, migrations that are done, adoptions: each is a small JSON object under `/aggserver/`. Records
are read with `decode` only, which checks the checksum first. It raises `DamagedRecord` for a damaged one, which says what to do.
The reader then assumes the safest content that the record may have had, and writes it again if it knows the content otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

import orjson

from aggserver.meta import codec
from aggserver.meta.json_types import JSONObject
from aggserver.storage.interface import Corrupt, KeyValue
from aggserver.storage.keys import resource_prefix

__all__ = ["ADOPTIONS", "INSTALLATION", "PREFIX", "DamagedRecord", "decode", "is_sound"]

# No custom resource has the group `aggserver`, since their groups have a dot.
PREFIX = "/aggserver/"
ADOPTIONS = resource_prefix("aggserver", "adoptions")
INSTALLATION = resource_prefix("aggserver", "installation")

REMEDY = "stop the server and run `aggserver storage check --repair`, see Damaged records in docs/storage.md"

T = TypeVar("T")


class DamagedRecord(Corrupt):
    """A record can't be read. The text says what to do."""

    def __init__(self, key: str, revision: int, why: str) -> None:
        super().__init__(key, revision, why)
        self.args = (f"{self}; {REMEDY}",)


def decode(item: KeyValue, read: Callable[[JSONObject], T]) -> T:
    """The result of `read` for a record. Raises DamagedRecord if the value has a fault, or if `read` raises an error for it."""
    if item.fault:
        raise DamagedRecord(item.key, item.revision, item.fault)
    try:
        return read(codec.decode_stored(item.value))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise DamagedRecord(item.key, item.revision, f"it is not as this server writes it: {error!r}") from None


def is_sound(key: str, value: bytes) -> bool:
    """Whether a value without a checksum has the right form for its key: a JSON object, or the UUID of an installation."""
    try:
        if key.startswith(INSTALLATION):
            return bool(UUID(value.decode()))
        return isinstance(orjson.loads(value), dict)
    except ValueError:
        return False
