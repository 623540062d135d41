"""Which writes a changed storage version keeps from the store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from aggserver.registry.resource_storage import ResourceStorage
from aggserver.registry.storage_version import Fence, SpecState, StorageVersions, Superseded
from aggserver.storage.memory import MemoryStorage
from tests.registry.world import World

NAME = "crontabs.stable.example.com"


@pytest.fixture
async def versions() -> AsyncIterator[StorageVersions]:
    storage = MemoryStorage()
    await storage.start()
    yield StorageVersions(storage)
    await storage.close()


@pytest.mark.parametrize(
    ("version", "identity", "refused"),
    [
        pytest.param("v1", SpecState("u", 1), True, id="older, in another version"),
        pytest.param("v2", SpecState("u", 1), False, id="older, in the same version"),
        pytest.param("v2", SpecState("u", 2), False, id="the same"),
        pytest.param("v1", SpecState("u", 3), False, id="newer, in another version"),
        pytest.param("v1", SpecState("other", 1), False, id="a definition made anew"),
    ],
)
async def test_who_may_write(versions: StorageVersions, version: str, identity: SpecState, refused: bool) -> None:
    fence = Fence(versions, NAME, version, identity)
    assert (await fence.guard()).revision == 0
    await versions.enforce(NAME, "v2", SpecState("u", 2))
    for ask in (fence.guard, fence.newest):
        if refused:
            with pytest.raises(Superseded) as told:
                await ask()
            assert (told.value.code, told.value.retry_after) == (503, 1)
        else:
            assert (await ask()).revision > 0


async def test_what_is_in_force_does_not_go_back(versions: StorageVersions) -> None:
    await versions.enforce(NAME, "v2", SpecState("u", 2))
    with pytest.raises(Superseded):
        await versions.enforce(NAME, "v1", SpecState("u", 1))
    await versions.enforce(NAME, "v1", SpecState("u", 3))
    with pytest.raises(Superseded):
        await Fence(versions, NAME, "v2", SpecState("u", 2)).guard()


async def test_the_same_again_writes_nothing(versions: StorageVersions) -> None:
    await versions.enforce(NAME, "v2", SpecState("u", 2))
    fence = Fence(versions, NAME, "v2", SpecState("u", 2))
    before = await fence.guard()
    await versions.enforce(NAME, "v2", SpecState("u", 2))
    assert await fence.guard() == before


def fenced(world: World, versions: StorageVersions, version: str, generation: int) -> ResourceStorage:
    return replace(world._resource(True), fence=Fence(versions, NAME, version, SpecState("u", generation)))


async def test_a_write_that_is_late_is_refused_by_the_store(world: World) -> None:
    """Also by a server that has not been told of the change: it asks again when the store refuses its write."""
    here, there = StorageVersions(world.storage), StorageVersions(world.storage)
    late, present = fenced(world, there, "v1", 1), fenced(world, here, "v2", 2)
    key = f"{late.prefix}default/a"
    revision = await late.create(key, b"{}")
    known = there.known

    async def as_before(name: str) -> None:
        await known(name)

    there.known = as_before  # type: ignore[method-assign, assignment]
    await here.enforce(NAME, "v2", SpecState("u", 2))
    with pytest.raises(Superseded):
        await late.update(key, b'{"late":1}', revision)
    with pytest.raises(Superseded):
        await late.create(f"{late.prefix}default/b", b"{}")
    assert await present.update(key, b"{}", revision) > revision


async def test_a_server_that_is_told_late_of_its_own_version_writes(world: World) -> None:
    here, there = StorageVersions(world.storage), StorageVersions(world.storage)
    resource = fenced(world, there, "v2", 2)

    async def nothing(name: str) -> None:
        return None

    there.known = nothing  # type: ignore[method-assign, assignment]
    await here.enforce(NAME, "v2", SpecState("u", 2))
    assert await resource.create(f"{resource.prefix}default/a", b"{}")
