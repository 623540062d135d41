"""How controllers read many objects: never many bytes at once."""

from __future__ import annotations

import pytest

from aggserver.controllers.stored_pages import pages
from aggserver.storage.memory import MemoryStorage

MEGABYTE = 1024 * 1024
SIZES: dict[str, list[int]] = {
    "none": [],
    "small ones": [100] * 3000,
    "large ones": [3 * MEGABYTE] * 50,
    "large ones behind small ones": [100] * 1000 + [3 * MEGABYTE] * 60,
}


@pytest.mark.parametrize("name", SIZES)
async def test_pages_are_bounded_in_bytes(name: str) -> None:
    storage = MemoryStorage()
    await storage.start()
    kept = bytes(3 * MEGABYTE)
    views = {size: kept[:size] for size in set(SIZES[name])}
    for number, size in enumerate(SIZES[name]):
        await storage.create(f"/g/r/{number:05}", views[size])
    found = [page async for page in pages(storage, "/g/r/", at_one_revision=True)]
    assert [item.key for page in found for item in page.items] == [f"/g/r/{number:05}" for number in range(len(SIZES[name]))]
    sizes = sorted(sum(len(item.value) for item in page.items) for page in found)
    assert all(size <= 150 * MEGABYTE for size in sizes)
    # Only those have more than they should by which it is learned that the others are large.
    assert all(size <= 8 * MEGABYTE for size in sizes[:-2])
    assert len({page.revision for page in found}) == 1
    await storage.close()
