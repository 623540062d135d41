"""The server's own keys, which several servers write."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from aggserver.storage.compare_and_swap import OVERTAKEN, put, swap
from aggserver.storage.interface import KeyValue
from aggserver.storage.memory import MemoryStorage

KEY = "/own/a"


@pytest.fixture
async def storage() -> AsyncIterator[MemoryStorage]:
    storage = MemoryStorage()
    await storage.start()
    yield storage
    await storage.close()


class Overtaken(MemoryStorage):
    """between: what another server does after the next reads."""

    def __init__(self, *between: Callable[[MemoryStorage], Awaitable[object]]) -> None:
        super().__init__()
        self._between = list(between)

    async def get(self, key: str) -> KeyValue | None:
        found = await super().get(key)
        if self._between:
            await self._between.pop(0)(self)
        return found


async def test_put(storage: MemoryStorage) -> None:
    first = await put(storage, KEY, lambda current: b"1" if current is None else b"?")
    second = await put(storage, KEY, lambda current: b"2" if current is not None and current.value == b"1" else b"?")
    assert second > first
    assert await put(storage, KEY, lambda _: b"2") == second, "it is there already"
    found = await storage.get(KEY)
    assert found is not None
    assert (found.value, found.revision) == (b"2", second)


async def _created(storage: MemoryStorage) -> None:
    await storage.create(KEY, b"other")


async def _changed(storage: MemoryStorage) -> None:
    await storage.update(KEY, b"another", await storage.revision())


async def _deleted(storage: MemoryStorage) -> None:
    await storage.delete(KEY, await storage.revision())


async def test_put_goes_on_with_what_another_server_left() -> None:
    storage = Overtaken(_created, _changed, _deleted)
    await storage.start()
    seen: list[bytes | None] = []

    def choose(current: KeyValue | None) -> bytes:
        seen.append(current and current.value)
        return b"ours"

    await put(storage, KEY, choose)
    assert seen == [None, b"other", b"another", None]
    await storage.close()


async def test_put_may_refuse(storage: MemoryStorage) -> None:
    def refuse(current: KeyValue | None) -> bytes:
        raise ValueError

    with pytest.raises(ValueError):
        await put(storage, KEY, refuse)
    assert await storage.get(KEY) is None


@pytest.mark.parametrize("meanwhile", [_changed, _deleted])
async def test_a_swap_that_is_overtaken(storage: MemoryStorage, meanwhile: Callable[[MemoryStorage], Awaitable[object]]) -> None:
    await swap(storage, KEY, None, b"1")
    current = await storage.get(KEY)
    await meanwhile(storage)
    with pytest.raises(OVERTAKEN):
        await swap(storage, KEY, current, b"2")
