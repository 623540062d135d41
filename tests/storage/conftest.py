"""The stores that the watch cache is tested with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aggserver.storage.interface import Storage
from aggserver.storage.memory import MemoryStorage
from aggserver.storage.sqlite import SQLiteStorage
from tests.storage.caching import World


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Storage]:
    store: Storage = MemoryStorage() if request.param == "memory" else SQLiteStorage(tmp_path / "store.db")
    await store.start()
    yield store
    await store.close()


@pytest.fixture
async def world(store: Storage) -> AsyncIterator[World]:
    world = World(store)
    yield world
    world.cacher.close()
