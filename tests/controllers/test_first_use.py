"""Waiting for the first object of a kind: one that is there, one that comes, and one that comes while nobody was told."""

from __future__ import annotations

import asyncio

import pytest

from aggserver.controllers import first_use
from aggserver.controllers.first_use import until_stored
from aggserver.storage.interface import Unavailable
from aggserver.storage.memory import MemoryStorage


@pytest.fixture
async def storage() -> MemoryStorage:
    made = MemoryStorage()
    await made.start()
    return made


async def ended(task: asyncio.Task[None]) -> bool:
    for _ in range(100):
        await asyncio.sleep(0)
    return task.done()


async def test_one_that_is_there(storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    """On whichever page."""
    monkeypatch.setattr(first_use, "_PAGE", 2)
    for number in range(4):
        await storage.create(f"/a/{number}", b"x")
    await storage.create("/a/4", b"the marker")
    await until_stored(storage, "/a/", b"marker")


async def test_one_that_comes(storage: MemoryStorage) -> None:
    await storage.create("/a/1", b"x")
    task = asyncio.create_task(until_stored(storage, "/a/", b"marker"))
    assert not await ended(task)
    await storage.create("/b/1", b"marker")
    await storage.create("/a/2", b"y")
    assert not await ended(task)
    await storage.create("/a/3", b"marker")
    assert await ended(task)


async def test_any_object_will_do_without_a_marker(storage: MemoryStorage) -> None:
    task = asyncio.create_task(until_stored(storage, "/a/"))
    assert not await ended(task)
    await storage.create("/a/1", b"x")
    assert await ended(task)


async def test_the_store_is_read_again_when_the_subscription_is_lost(storage: MemoryStorage) -> None:
    sinks = []
    watch = storage.watch

    async def seen(prefix: str, revision: int, sink: first_use._Sink) -> object:
        sinks.append(sink)
        return await watch(prefix, revision, sink)

    storage.watch = seen  # type: ignore[method-assign, assignment]
    task = asyncio.create_task(until_stored(storage, "/a/", b"marker"))
    assert not await ended(task)
    sinks[0].lost(Unavailable("gone"))
    assert not await ended(task)
    assert len(sinks) == 2
    await storage.create("/a/1", b"marker")
    assert await ended(task)
