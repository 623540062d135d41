"""Compare and swap: values of the server's own keys, which several servers write."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from aggserver.storage.interface import Conflict, KeyExists, KeyValue, NotFound, Storage

__all__ = ["OVERTAKEN", "put", "swap"]

# What `swap` raises if another server was quicker.
OVERTAKEN = (Conflict, KeyExists, NotFound)


async def swap(storage: Storage, key: str, current: KeyValue | None, value: bytes) -> int:
    """Write a key that is as it was read, None for one that was not there. Returns the revision. Raises StorageError."""
    if current is None:
        return await storage.create(key, value)
    return await storage.update(key, value, current.revision)


async def put(storage: Storage, key: str, choose: Callable[[KeyValue | None], bytes]) -> int:
    """Write what is chosen for a key as it is now, again each time another server was quicker. Returns the key's revision.

    What is there undamaged already is not written again. Raises what `choose` raises, and StorageError.
    """
    while True:
        current = await storage.get(key)
        value = choose(current)
        if current is not None and current.value == value and not current.fault:
            return current.revision
        with suppress(*OVERTAKEN):
            return await swap(storage, key, current, value)
