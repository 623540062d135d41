from collections.abc import AsyncIterator

import pytest

from aggserver.storage.interface import Storage, Unavailable
from aggserver.storage.memory import MemoryStorage
from tests.storage import contract, in_process


@pytest.fixture
async def store() -> AsyncIterator[Storage]:
    store = MemoryStorage()
    await store.start()
    yield store
    await store.close()


@pytest.mark.parametrize("case", [*contract.CASES, *in_process.SUITE], ids=lambda case: case.__name__)
async def test_contract(case: contract.Case, store: Storage) -> None:
    await case(store)


async def test_closed_is_unavailable(store: Storage) -> None:
    await store.close()
    await store.close()
    with pytest.raises(Unavailable):
        await store.create("/core/pods/a", b"")
    with pytest.raises(Unavailable):
        await store.list("/")
