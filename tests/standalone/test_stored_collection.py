"""The objects that admission reads from the storage: those that are there, those that come, and after a lost watch."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from aggserver.standalone.stored_collection import StoredCollection
from aggserver.storage.interface import Unavailable
from aggserver.storage.memory import MemoryStorage

_NAMES = "/core/limitranges/n/"


def _value(name: str, **spec: object) -> bytes:
    obj = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": name, "namespace": "n"}, "spec": spec}
    return json.dumps(obj, separators=(",", ":")).encode()


@pytest.fixture
async def storage() -> MemoryStorage:
    made = MemoryStorage()
    await made.start()
    return made


@asynccontextmanager
async def followed(storage: MemoryStorage, later: Callable[..., None] = lambda *_: None) -> AsyncIterator[StoredCollection]:
    collection = StoredCollection(storage, "", "limitranges", later)
    task = asyncio.create_task(collection.run())
    await collection.known()
    await asyncio.sleep(0)
    try:
        yield collection
    finally:
        task.cancel()
        await asyncio.wait([task])


def _names(collection: StoredCollection) -> set[str]:
    return set(collection.objects.within("n"))


async def _delete(storage: MemoryStorage, name: str) -> None:
    found = await storage.get(f"{_NAMES}{name}")
    assert found is not None
    await storage.delete(found.key, found.revision)


async def test_what_is_there_and_what_comes_is_known_at_once(storage: MemoryStorage) -> None:
    await storage.create(f"{_NAMES}a", _value("a"))
    async with followed(storage) as collection:
        assert _names(collection) == {"a"}
        revision = await storage.create(f"{_NAMES}b", _value("b"))
        assert collection.objects.within("n")["b"]["metadata"]["resourceVersion"] == str(revision)
        await storage.update(f"{_NAMES}b", _value("b", limits=[]), revision)
        assert collection.objects.within("n")["b"]["spec"] == {"limits": []}
        await _delete(storage, "a")
        assert _names(collection) == {"b"}


async def test_what_can_not_be_read_stays_as_it_was(storage: MemoryStorage) -> None:
    async with followed(storage) as collection:
        revision = await storage.create(f"{_NAMES}a", _value("a"))
        await storage.update(f"{_NAMES}a", b'{"apiVersion":"v1"', revision)
        assert _names(collection) == {"a"}


async def test_all_is_read_again_when_the_watch_is_lost(storage: MemoryStorage) -> None:
    async with followed(storage) as collection:
        await storage.create(f"{_NAMES}a", _value("a"))
        subscription = collection._subscription
        assert subscription is not None
        subscription.close()
        await storage.create(f"{_NAMES}b", _value("b"))
        await _delete(storage, "a")
        assert _names(collection) == {"a"}
        collection.lost(Unavailable("gone"))
        for _ in range(20):
            await asyncio.sleep(0)
        assert _names(collection) == {"b"}
        await storage.create(f"{_NAMES}c", _value("c"))
        assert _names(collection) == {"b", "c"}


async def test_a_store_that_fails_is_asked_again(storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    async with followed(storage, lambda seconds, callback: callback()) as collection:
        await storage.create(f"{_NAMES}a", _value("a"))
        listed, failures = storage.list, iter([True, True, False])

        async def list_(*arguments: object, **more: object) -> object:
            if next(failures, False):
                raise Unavailable("not now")
            return await listed(*arguments, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(storage, "list", list_)
        await _delete(storage, "a")
        collection.lost(Unavailable("gone"))
        for _ in range(50):
            await asyncio.sleep(0)
        await storage.create(f"{_NAMES}b", _value("b"))
        assert _names(collection) == {"b"}
        assert next(failures, None) is None
