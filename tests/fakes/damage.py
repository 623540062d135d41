"""Damage: makes a store in memory report what a backend with checksums reports of a value that was damaged at rest."""

from __future__ import annotations

from dataclasses import replace

from aggserver.storage.memory import MemoryStorage

__all__ = ["FAULT", "flip"]

FAULT = "the checksum of its value is 00000001, and was 00000002 when it was written"


def flip(storage: MemoryStorage, key: str, bit: int = 3) -> int:
    """Flip a bit of the present value of a key. Returns its revision. Nobody is told of it."""
    item = storage._current[key]
    value = bytearray(item.value)
    value[bit // 8] ^= 1 << bit % 8
    storage._current[key] = replace(item, value=bytes(value), fault=FAULT)
    return item.revision
