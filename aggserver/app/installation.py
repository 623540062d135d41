"""The id of an installation: what was adopted belongs to it, whichever of its servers runs.

It marks APIServices, finalizers and discovery documents in the host, so what was adopted is lost with it.
"""

from __future__ import annotations

import uuid
from contextlib import suppress

from aggserver.storage.interface import Conflict, KeyExists, NotFound, Storage
from aggserver.storage.records import INSTALLATION, DamagedRecord, is_sound

__all__ = ["installation_id"]

# Kept twice, since a lost id can't be recovered.
_KEYS = (f"{INSTALLATION}id", f"{INSTALLATION}copy")


async def installation_id(storage: Storage) -> str:
    """The id of this installation, the same for all servers of a store: a UUID, made once and kept in the store.

    A damaged copy is replaced by the other one. Raises StorageError, and DamagedRecord if both copies are damaged.
    """
    made = str(uuid.uuid4()).encode()
    while True:
        found = {key: await storage.get(key) for key in _KEYS}
        sound = [item.value for item in found.values() if item is not None and not item.fault and is_sound(item.key, item.value)]
        damaged = [item for item in found.values() if item is not None and (item.fault or not is_sound(item.key, item.value))]
        if damaged and not sound:
            raise DamagedRecord(damaged[0].key, damaged[0].revision, damaged[0].fault or "it is no UUID")
        value = sound[0] if sound else made
        with suppress(KeyExists, Conflict, NotFound):  # another server was faster
            for item in damaged:
                await storage.update(item.key, value, item.revision)
            # The first key decides which server's id holds, so the copy is created after it.
            for key in (key for key, item in found.items() if item is None):
                await storage.create(key, value)
            return value.decode()
