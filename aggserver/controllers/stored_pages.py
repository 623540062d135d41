"""Pages: how a controller reads many objects from the store, without ever holding many bytes of them. Knows no controller."""

from __future__ import annotations

from collections.abc import AsyncIterator

from aggserver.storage.interface import Page, Storage

__all__ = ["pages"]

# Objects of a page: so many, and fewer where those of the last page were so large that they would be more bytes. That the next
# ones are large shows only when they are read, so a page is small: of the largest objects, of 3 MB, these would be 150 MB.
_MOST = 50
_MOST_BYTES = 8 * 1024 * 1024
_FIRST = 10


async def pages(storage: Storage, prefix: str, *, at_one_revision: bool = False) -> AsyncIterator[Page]:
    """All objects below a prefix, in the order of their keys. at_one_revision: as of the first page; raises Compacted."""
    limit, start, revision = _FIRST, prefix, 0
    while True:
        page = await storage.list(prefix, revision=revision, start=start, limit=limit)
        yield page
        if not page.more:
            return
        if at_one_revision:
            revision = page.revision
        start = page.items[-1].key + "\0"
        size = sum(len(item.value) for item in page.items)
        limit = max(1, min(_MOST, len(page.items) * _MOST_BYTES // max(size, 1)))
