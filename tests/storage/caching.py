"""A watch cache over any store, for tests: small objects, a clock that does not move, and events as tuples."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from aggserver.storage.cacher import Cacher, CacheWatcher, WatchEvent
from aggserver.storage.interface import KeyValue, Storage
from aggserver.storage.predicate import Predicate
from tests.waiting import HANG_SECONDS

__all__ = ["PREFIX", "Thing", "World", "at", "make", "silent", "take", "told", "value_is"]

PREFIX = "/g.io/foos/"


@dataclass(frozen=True)
class Thing:
    key: str
    revision: int
    value: str

    @property
    def size(self) -> int:
        return len(self.value)

    @property
    def name(self) -> str:
        return self.key.removeprefix(PREFIX)


def make(item: KeyValue) -> Thing:
    return Thing(item.key, item.revision, item.value.decode())


def at(thing: Thing, revision: int) -> Thing:
    return replace(thing, revision=revision)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class World:
    """A store, a cacher over it, and writes by short names."""

    def __init__(self, store: Storage) -> None:
        self.store = store
        self.clock = Clock()
        self.slept: list[float] = []
        self.cacher: Cacher[Thing] = Cacher(store, PREFIX, make=make, at=at, clock=self.clock, sleep=self.sleep)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    async def put(self, name: str, value: str = "") -> int:
        current = await self.store.get(PREFIX + name)
        if current is None:
            return await self.store.create(PREFIX + name, value.encode())
        return await self.store.update(PREFIX + name, value.encode(), current.revision)

    async def remove(self, name: str) -> int:
        current = await self.store.get(PREFIX + name)
        assert current is not None
        return await self.store.delete(PREFIX + name, current.revision)


def told(events: Sequence[WatchEvent[Thing]]) -> list[tuple[str, str, str, int]]:
    return [
        (event.type, event.object.name, event.object.value, event.revision)
        if event.object
        else (event.type, "", "", event.revision)
        for event in events
    ]


async def take(watch: CacheWatcher[Thing], count: int) -> list[tuple[str, str, str, int]]:
    """The next `count` events; more is a failure."""
    events: list[WatchEvent[Thing]] = []
    async with asyncio.timeout(HANG_SECONDS):
        while len(events) < count:
            batch = await anext(watch)
            assert batch
            events += batch
    assert len(events) == count, events
    return told(events)


async def silent(watch: CacheWatcher[Thing]) -> bool:
    waiting = asyncio.ensure_future(anext(watch))
    for _ in range(5):
        await asyncio.sleep(0)
    over = not waiting.done()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    return over


def value_is(value: str) -> Predicate[Thing]:
    """A selector that no index knows."""
    return Predicate(lambda thing: thing.value == value, value)
