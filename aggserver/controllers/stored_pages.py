"""Pages: reads many objects from the store for controllers, without ever holding many bytes of them."""

from __future__ import annotations

from collections.abc import AsyncIterator

from aggserver.storage.interface import Page, Storage

__all__ = ["pages"]

# The most objects of a page, and the bytes that it should have at most, judged by the sizes on the page before. The next objects
# may be larger, so the number is small: 50 of the largest objects, of 3 MB, are 150 MB.
_MOST = 50
_MOST_BYTES = 8 * 1024 * 1024
_FIRST = 10


async def pages(storage: Storage, prefix: str, *, at_one_revision: bool = False) -> AsyncIterator[Page]:
    """All objects below a prefix, sorted by key. at_one_revision: all as of the first page's revision; raises Compacted."""
    limit, start, revision = _FIRST, prefix, 0
    while True:
        page = await storage.list(prefix, revision=revision, start=start, limit=limit, counted=False)
        yield page
        if not page.more:
            return
        if at_one_revision:
            revision = page.revision
        start = page.items[-1].key + "\0"
        size = sum(len(item.value) for item in page.items)
        limit = max(1, min(_MOST, len(page.items) * _MOST_BYTES // max(size, 1)))
