"""Checksums: what tells that a file still has what was written to it.

Three sums, so that each reader can check what it reads without reading more:
`value_sum`  of one value, bound to its revision, so that another's value in its place shows too.
`head_sum`   of what the list of objects has of one key.
the state    of a revision is the sum of the heads of all keys that exist then. Every event carries the state after it; it follows
             from the one before by what the event itself says, so that a chain of events proves itself, and the newest one proves
             the whole list of objects: a row that is lost, altered or too many changes the sum.

Pure. Used by `sqlite.py`, `sqlite_file.py` (existing files), `sqlite_writer.py` and `sqlite_maintenance.py`.
CRC-32, as ext4, zip and etcd's own log have it: it finds every damage of up to 32 bits in a row and all but one of 4,000,000,000
others. It takes 0.9 us for 2 KB; BLAKE2b takes 4.9, and nobody who can write the file is kept out by either.
"""

from __future__ import annotations

from zlib import crc32

__all__ = ["STATE_MASK", "head_sum", "next_state", "value_sum"]

STATE_MASK = 0xFFFFFFFF


def value_sum(value: bytes | None, revision: int) -> int:
    """Of a value, or of the lack of one (a deletion), at its revision."""
    return crc32(value or b"", revision & STATE_MASK)


def head_sum(key: str, revision: int, create_revision: int) -> int:
    """Of a key that exists, at its newest revision."""
    return crc32(f"{revision} {create_revision} {key}".encode())


def next_state(state: int, key: str, revision: int, create_revision: int, previous: int, *, deleted: bool) -> int:
    """The state after an event. previous: the revision that it replaced, 0 for a creation."""
    if previous:
        state -= head_sum(key, previous, create_revision)
    if not deleted:
        state += head_sum(key, revision, create_revision)
    return state & STATE_MASK
