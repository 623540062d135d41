"""The store in kine for the contract of stores, over any database."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aggserver.storage.kine import KineStorage
from tests.kine.program import RETAINED

__all__ = ["opened"]

_folders = itertools.count(1)


class _Padded(KineStorage):
    """The cases compact to their newest revisions, which kine never does. So there are others first, of no key of the store."""

    async def compact(self, revision: int) -> None:
        for _ in range(RETAINED):
            assert await self._hold(self._held)
        await super().compact(revision)


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[KineStorage]:
    """A store under a prefix of its own."""
    store = _Padded([url], f"/case-{next(_folders)}")
    await store.start()
    try:
        yield store
    finally:
        await store.close()
