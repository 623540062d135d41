from __future__ import annotations

import pytest

from aggserver.app.installation import installation_id
from aggserver.storage.memory import MemoryStorage
from aggserver.storage.records import DamagedRecord
from tests.fakes.damage import flip


async def test_an_installation_keeps_its_id() -> None:
    store, other = MemoryStorage(), MemoryStorage()
    await store.start()
    await other.start()
    assert await installation_id(store) == await installation_id(store)
    assert await installation_id(store) != await installation_id(other)


@pytest.mark.parametrize("damaged", [["id"], ["copy"], ["id", "copy"]], ids=str)
@pytest.mark.parametrize("bit", [3, 7])
async def test_one_damaged_copy_of_the_id_is_written_anew(damaged: list[str], bit: int) -> None:
    store = MemoryStorage()
    await store.start()
    known = await installation_id(store)
    for each in damaged:
        flip(store, f"/aggserver/installation/{each}", bit)
    if len(damaged) == 2:
        with pytest.raises(DamagedRecord, match="`aggserver storage check --repair`"):
            await installation_id(store)
        return
    assert await installation_id(store) == known
    for each in ("id", "copy"):
        found = await store.get(f"/aggserver/installation/{each}")
        assert found is not None
        assert (found.value.decode(), found.fault) == (known, "")


async def test_an_id_of_an_earlier_version_gets_a_copy() -> None:
    store = MemoryStorage()
    await store.start()
    known = "11111111-2222-3333-4444-555555555555"
    await store.create("/aggserver/installation/id", known.encode())
    assert await installation_id(store) == known
    flip(store, "/aggserver/installation/id")
    assert await installation_id(store) == known
