from __future__ import annotations

from aggserver.app.adoption import installation_id
from aggserver.storage.memory import MemoryStorage


async def test_an_installation_keeps_its_id() -> None:
    store, other = MemoryStorage(), MemoryStorage()
    await store.start()
    await other.start()
    assert await installation_id(store) == await installation_id(store)
    assert await installation_id(store) != await installation_id(other)
