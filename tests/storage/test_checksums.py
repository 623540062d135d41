"""What is put right by a checksum: any one bit of a value or of its checksum, and nothing else."""

from __future__ import annotations

import random

import pytest

from aggserver.storage.checksums import put_right, value_sum

REVISION = 77


@pytest.mark.parametrize("size", [1, 2, 3, 40, 333])
def test_each_single_bit(size: int) -> None:
    value = random.Random(size).randbytes(size)
    checksum = value_sum(value, REVISION)
    for bit in range(8 * size):
        damaged = bytearray(value)
        damaged[bit // 8] ^= 1 << bit % 8
        assert put_right(bytes(damaged), REVISION, checksum) == value
    for bit in range(32):
        assert put_right(value, REVISION, checksum ^ 1 << bit) == value


def test_what_is_damaged_more() -> None:
    chance = random.Random(1)
    value = chance.randbytes(300)
    checksum = value_sum(value, REVISION)
    for first in range(0, 2400, 97):
        for second in range(first + 1, 2400, 101):
            damaged = bytearray(value)
            for bit in (first, second):
                damaged[bit // 8] ^= 1 << bit % 8
            assert put_right(bytes(damaged), REVISION, checksum) is None
    assert put_right(value, REVISION + 1, checksum) is None
    assert put_right(b"", REVISION, checksum) is None
    large = bytes(1 << 17)
    assert put_right(b"\x01" + large[1:], REVISION, value_sum(large, REVISION)) is None, "too large to look through"
