"""Many watches on the cache, fast and slow ones, with every store in this process."""

import weakref

import pytest

from aggserver.storage import watcher
from tests.storage.caching import PREFIX, World, silent, told


async def test_watches_share_their_events(world: World) -> None:
    watches = [await world.cacher.watch(PREFIX) for _ in range(3)]
    await world.put("a", "1")
    batches = [await anext(watch) for watch in watches]
    assert len({id(batch[0]) for batch in batches}) == 1
    batches[0][0].frames["json"] = (b"{}",)
    assert batches[1][0].frames == {"json": (b"{}",)}


async def test_all_that_is_pending_comes_at_once(world: World) -> None:
    watch = await world.cacher.watch(PREFIX, after=1)
    for number in range(5):
        await world.put(str(number))
    assert len(await anext(watch)) == 5


@pytest.mark.parametrize(("limit", "size"), [("MAX_PENDING", 1), ("MAX_PENDING_BYTES", 1000)])
async def test_a_slow_watch_is_ended_and_the_others_go_on(
    world: World, monkeypatch: pytest.MonkeyPatch, limit: str, size: int
) -> None:
    monkeypatch.setattr(watcher, limit, 10 * size)
    slow = await world.cacher.watch(PREFIX)
    quick = await world.cacher.watch(PREFIX)
    for number in range(11):
        await world.put(str(number), "x" * size)
        assert len(await anext(quick)) == 1
    assert [batch async for batch in slow] == []
    await world.put("more")
    assert len(await anext(quick)) == 1


async def test_a_slow_watch_holds_nothing_once_it_is_ended(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "MAX_PENDING", 10)
    slow = await world.cacher.watch(PREFIX)
    quick = await world.cacher.watch(PREFIX)
    told = []
    for number in range(11):
        assert sum(event() is None for event in told) == 0
        await world.put(str(number))
        told.append(weakref.ref((await anext(quick))[0]))
    assert [batch async for batch in slow] == []
    assert sum(event() is not None for event in told) == 0


async def test_much_that_is_pending_comes_in_parts(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "BATCH_BYTES", 100)
    watch = await world.cacher.watch(PREFIX, after=1)
    for number in range(5):
        await world.put(str(number), "x" * 60)
    batches = [told(await anext(watch)) for _ in range(3)]
    assert [[name for _, name, _, _ in batch] for batch in batches] == [["0", "1"], ["2", "3"], ["4"]]
    assert await silent(watch)
