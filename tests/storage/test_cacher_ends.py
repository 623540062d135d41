"""The end of watches on the cache, with every store in this process."""

import asyncio

import pytest

from aggserver.storage.interface import Unavailable
from tests.storage.caching import PREFIX, World, take, told


async def test_a_closed_watch_is_over_and_forgotten(world: World) -> None:
    watch = await world.cacher.watch(PREFIX)
    await world.put("a")
    watch.close()
    watch.close()
    assert [batch async for batch in watch] == []
    await world.put("b")
    assert [batch async for batch in watch] == []
    assert world.cacher._watchers == {}


async def test_closing_the_cacher_ends_watches_after_what_is_pending(world: World) -> None:
    watch = await world.cacher.watch(PREFIX)
    await world.put("a", "1")
    waiting = asyncio.ensure_future(world.cacher.wait_for(99))
    await asyncio.sleep(0)
    world.cacher.close()
    world.cacher.close()
    assert [told(batch) async for batch in watch] == [[("ADDED", "a", "1", 2)]]
    with pytest.raises(Unavailable):
        await waiting
    with pytest.raises(Unavailable):
        await world.cacher.watch(PREFIX)


async def test_the_end_of_watches_comes_after_the_past_and_what_is_pending(world: World) -> None:
    for name in ("a", "b"):
        await world.put(name)
    from_now = await world.cacher.watch(PREFIX)
    resumed = await world.cacher.watch(PREFIX, after=2)
    await world.put("c")
    world.cacher.end_watches()
    await world.put("d")
    assert [told(batch) for batch in [batch async for batch in from_now]] == [
        [("ADDED", "a", "", 2), ("ADDED", "b", "", 3)],
        [("ADDED", "c", "", 4)],
    ]
    assert [told(batch) async for batch in resumed] == [[("ADDED", "b", "", 3)], [("ADDED", "c", "", 4)]]
    again = await world.cacher.watch(PREFIX, after=4)
    assert await take(again, 1) == [("ADDED", "d", "", 5)]
