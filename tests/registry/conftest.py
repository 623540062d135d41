from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from aggserver.registry.store import Store
from tests.registry.world import World


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    await world.storage.start()
    yield world
    await world.storage.close()


@pytest.fixture
def store(world: World) -> Store:
    """The resource as v1, with the status subresource."""
    return world.store()


@pytest.fixture
def v2(world: World, store: Store) -> Store:
    """The same objects as v2."""
    return world.store("v2")
