"""Checksums that detect damage of the SQLite file. Pure.

There are three, so that every reader can check what it reads without reading more:
`value_sum`  of one value and its revision, which also detects the value of another revision in its place.
`head_sum`   of a key's row in the list of objects.
the state    of a revision: the sum of the `head_sum`s of all keys that exist at it. Every event carries the state after it. That
             state can be computed from the previous one and the event, so a chain of events verifies itself; and the newest state
             verifies the whole list of objects, because a row that is lost, altered or added changes the sum.

The algorithm is CRC-32, as in ext4, zip and etcd's WAL: it detects all errors of up to 32 consecutive bits, and all but one in
4,000,000,000 others. It takes 0.9 us for 2 KB, where BLAKE2b takes 4.9 us. Neither protects from somebody who can write the file.
"""

from __future__ import annotations

from zlib import crc32

__all__ = ["STATE_MASK", "head_sum", "next_state", "put_right", "value_sum"]

STATE_MASK = 0xFFFFFFFF
# CRC-32's polynomial, bits reversed, as zlib has it.
_POLYNOMIAL = 0xEDB88320
# The largest value that is put right: the search takes a step for each bit, 80 ms for this many bytes. If several bits of a value
# of this size are wrong, then in one of 8,000 cases it looks as if one bit were; the value made by that is no JSON.
_MOST_BYTES = 1 << 16


def value_sum(value: bytes | None, revision: int) -> int:
    """The sum of a value, None for a deletion, at its revision."""
    return crc32(value or b"", revision & STATE_MASK)


def put_right(value: bytes, revision: int, checksum: int) -> bytes | None:
    """The original value, if one bit of it or of its checksum has changed since; None if more bits have.

    The XOR of two CRCs of values of one length depends only on the bits in which the values differ. Each single bit of the value
    changes it in a different way, and always in several bits, while a changed bit of the checksum changes that bit only.
    """
    difference = value_sum(value, revision) ^ checksum
    if difference.bit_count() == 1:
        return value
    if len(value) > _MOST_BYTES:
        return None
    made = _POLYNOMIAL  # the difference that the last bit in CRC-32's order makes: the highest one of the last byte
    for back in range(8 * len(value)):
        if made == difference:
            at = len(value) - 1 - back // 8
            return value[:at] + bytes((value[at] ^ 0x80 >> back % 8,)) + value[at + 1 :]
        made = made >> 1 ^ (_POLYNOMIAL if made & 1 else 0)
    return None


def head_sum(key: str, revision: int, create_revision: int) -> int:
    """The sum of a key's row in the list of objects."""
    return crc32(f"{revision} {create_revision} {key}".encode())


def next_state(state: int, key: str, revision: int, create_revision: int, previous: int, *, deleted: bool) -> int:
    """The state after an event. previous: the revision of the key that the event replaced, 0 for a creation."""
    if previous:
        state -= head_sum(key, previous, create_revision)
    if not deleted:
        state += head_sum(key, revision, create_revision)
    return state & STATE_MASK
