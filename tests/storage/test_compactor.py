import asyncio

import pytest

from aggserver.storage.compactor import compact_regularly
from aggserver.storage.interface import Unavailable
from aggserver.storage.memory import MemoryStorage


class Recording(MemoryStorage):
    def __init__(self) -> None:
        super().__init__()
        self.compacted: list[int] = []

    async def compact(self, revision: int) -> None:
        self.compacted.append(revision)
        if len(self.compacted) == 3:
            raise Unavailable("busy")
        await super().compact(revision)


async def test_history_is_kept_for_an_interval() -> None:
    store = Recording()
    await store.start()
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 5:
            raise asyncio.CancelledError
        await store.create(f"/g.io/foos/{len(slept)}", b"")

    with pytest.raises(asyncio.CancelledError):
        await compact_regularly(store, 300.0, sleep)
    # Each time to where the store was the time before; the one that failed is made up for by the next.
    assert store.compacted == [0, 1, 2, 2, 4]
    assert slept == [300.0] * 5
