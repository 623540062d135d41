"""Records: what servers keep in their store for themselves, and how it is read.

Storage versions in force, marks, migrations that are done, adoptions: each is a small JSON object under `/aggserver/`. They are
read with `decode` only, which looks at the checksum first. What is damaged is a `DamagedRecord`, which says what to do; those who
read it go on with the safest thing that it may have said, and write it anew where they know its content without it.
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
    """What `read` makes of a record. Raises DamagedRecord if the value is not what was written, or if `read` can't take it."""
    if item.fault:
        raise DamagedRecord(item.key, item.revision, item.fault)
    try:
        return read(codec.decode_stored(item.value))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise DamagedRecord(item.key, item.revision, f"it is not as this server writes it: {error!r}") from None


def is_sound(key: str, value: bytes) -> bool:
    """Whether a value without a checksum can be what was stored at the key: a JSON object, or the id of an installation."""
    try:
        if key.startswith(INSTALLATION):
            return bool(UUID(value.decode()))
        return isinstance(orjson.loads(value), dict)
    except ValueError:
        return False
