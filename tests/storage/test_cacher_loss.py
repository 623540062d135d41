"""The watch cache with a store that loses its watches."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from aggserver.storage.cacher import Cacher
from aggserver.storage.interface import (
    Compacted,
    KeyValue,
    Page,
    Sink,
    StorageError,
    Subscription,
    Unavailable,
)
from aggserver.storage.memory import MemoryStorage
from tests.storage.caching import PREFIX, Thing, World, at, make, take


class Losing(MemoryStorage):
    """A store whose lists can fail, and whose subscriptions can be ended until it is reachable again."""

    def __init__(self) -> None:
        super().__init__()
        self.failures: list[StorageError] = []
        self.lists = 0
        self.sink: Sink | None = None
        self.subscription: Subscription | None = None
        self.reachable = asyncio.Event()
        self.reachable.set()

    async def list(self, prefix: str, *, revision: int = 0, start: str = "", limit: int = 0, counted: bool = True) -> Page:
        self.lists += 1
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop()
        return await super().list(prefix, revision=revision, start=start, limit=limit, counted=counted)

    async def watch(self, prefix: str, after: int, sink: Sink) -> Subscription:
        await self.reachable.wait()
        if self.failures:
            raise self.failures.pop()
        self.sink = sink
        self.subscription = await super().watch(prefix, after, sink)
        return self.subscription

    def cut(self, error: StorageError) -> None:
        assert self.subscription is not None
        assert self.sink is not None
        self.reachable.clear()
        self.subscription.close()
        self.sink.lost(error)


@pytest.fixture
async def losing() -> AsyncIterator[tuple[Losing, World]]:
    store = Losing()
    await store.start()
    world = World(store)
    yield store, world
    world.cacher.close()
    await store.close()


async def test_one_load_for_all_who_wait(losing: tuple[Losing, World]) -> None:
    store, world = losing
    given_up = asyncio.ensure_future(world.cacher.ready())
    await asyncio.sleep(0)
    given_up.cancel()
    await asyncio.gather(*(world.cacher.ready() for _ in range(10)))
    assert store.lists == 1


async def test_a_failed_load_is_told_and_tried_again(losing: tuple[Losing, World]) -> None:
    store, world = losing
    store.failures = [Unavailable("no connection")]
    results = await asyncio.gather(*(world.cacher.ready() for _ in range(3)), return_exceptions=True)
    assert [str(result) for result in results] == ["no connection"] * 3
    await world.cacher.ready()
    assert store.lists == 2


async def test_closing_while_loading(losing: tuple[Losing, World]) -> None:
    _, world = losing
    loading = asyncio.ensure_future(world.cacher.ready())
    await asyncio.sleep(0)
    world.cacher.close()
    with pytest.raises(Unavailable):
        await loading


async def test_a_lost_store_is_followed_again_without_a_gap(losing: tuple[Losing, World]) -> None:
    store, world = losing
    watch = await world.cacher.watch(PREFIX)
    await world.put("a", "1")
    store.cut(Unavailable("connection reset"))
    store.failures = [Unavailable("no connection"), Unavailable("no connection")]
    await world.put("a", "2")
    await world.put("b", "1")
    assert world.cacher.revision == 2
    store.reachable.set()
    await world.cacher.wait_for(4)
    await world.remove("b")
    expected = [("ADDED", "a", "1", 2), ("MODIFIED", "a", "2", 3), ("ADDED", "b", "1", 4), ("DELETED", "b", "1", 5)]
    assert await take(watch, 4) == expected
    assert world.slept == [0.1, 0.2, 0.4]
    assert store.lists == 1


async def test_a_compacted_store_is_loaded_anew_and_watches_end(losing: tuple[Losing, World]) -> None:
    store, world = losing
    await world.put("a", "1")
    watch = await world.cacher.watch(PREFIX, after=2)
    store.cut(Unavailable("connection reset"))
    await world.put("b", "1")
    await store.compact(await world.remove("a"))
    store.reachable.set()
    with pytest.raises(Compacted):
        await take(watch, 1)
    await world.cacher.wait_for(4)
    assert [thing.name for thing in world.cacher.list(PREFIX).items] == ["b"]
    again = await world.cacher.watch(PREFIX, after=4)
    await world.put("c", "1")
    assert await take(again, 1) == [("ADDED", "c", "1", 5)]


async def test_an_event_that_cannot_be_made_is_asked_for_again(losing: tuple[Losing, World]) -> None:
    _, world = losing
    failures = [True]

    def make_late(item: KeyValue) -> Thing:
        if item.value == b"bad" and failures:
            failures.pop()
            raise ValueError
        return make(item)

    world.cacher = Cacher(world.store, PREFIX, make=make_late, at=at, clock=world.clock, sleep=world.sleep)
    watch = await world.cacher.watch(PREFIX)
    await world.put("a", "1")
    await world.put("a", "bad")
    await world.remove("a")
    assert await take(watch, 3) == [("ADDED", "a", "1", 2), ("MODIFIED", "a", "bad", 3), ("DELETED", "a", "bad", 4)]
