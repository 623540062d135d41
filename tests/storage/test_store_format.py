"""Which formats of a store in etcd are opened."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from aggserver.storage.interface import Unavailable
from aggserver.storage.memory import MemoryStorage
from aggserver.storage.store_format import KEY, KNOWN, check_format


@pytest.fixture
async def storage() -> AsyncIterator[MemoryStorage]:
    opened = MemoryStorage()
    await opened.start()
    yield opened
    await opened.close()


async def test_a_store_without_the_record_is_of_the_first_format(storage: MemoryStorage) -> None:
    await check_format(storage)


@pytest.mark.parametrize("number", range(1, KNOWN + 1))
async def test_known_formats_are_opened(storage: MemoryStorage, number: int) -> None:
    await storage.create(KEY, b'{"format":%d}' % number)
    await check_format(storage)


async def test_a_newer_format_is_refused_with_what_to_do(storage: MemoryStorage) -> None:
    await storage.create(KEY, b'{"format":%d,"since":"9.0.0"}' % (KNOWN + 1))
    with pytest.raises(
        Unavailable, match=rf"format \({KNOWN + 1}, known is {KNOWN}\): start that version, or restore a snapshot"
    ):
        await check_format(storage)


@pytest.mark.parametrize("value", [b"{}", b'{"format":"2"}', b'{"format":0}', b'{"format":true}', b"[]", b"x"])
async def test_a_record_that_cant_be_read_is_no_known_format(storage: MemoryStorage, value: bytes) -> None:
    await storage.create(KEY, value)
    with pytest.raises(Unavailable, match=f"unknown, since {KEY} .* put back what it was"):
        await check_format(storage)
