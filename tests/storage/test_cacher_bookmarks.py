"""Bookmarks of watches on the cache, and the one after the initial events; with every store in this process."""

import asyncio

import pytest

from aggserver.storage import cacher as cacher_module
from aggserver.storage.cacher import WatchEvent
from tests.storage.caching import PREFIX, Thing, World, take


@pytest.mark.parametrize("count", [0, 2, cacher_module.CHUNK, cacher_module.CHUNK + 1])
async def test_initial_events_end_with_their_bookmark(world: World, count: int) -> None:
    await asyncio.gather(*(world.put(f"{number:04}") for number in range(count)))
    watch = await world.cacher.watch(PREFIX, initial_end=True)
    await world.put("later")
    events: list[WatchEvent[Thing]] = []
    while len(events) < count + 2:
        events += await anext(watch)
    assert [event.type for event in events] == ["ADDED"] * count + ["BOOKMARK", "ADDED"]
    assert [event.initial_events_end for event in events] == [False] * count + [True, False]
    assert events[count].revision == count + 1
    assert events[count + 1].revision == count + 2


async def test_initial_events_not_older_than(world: World) -> None:
    await world.cacher.ready()
    starting = asyncio.ensure_future(world.cacher.watch(PREFIX, after=2, initial=True))
    await asyncio.sleep(0)
    await world.put("a", "1")
    assert await take(await starting, 1) == [("ADDED", "a", "1", 2)]


async def test_bookmarks_follow_what_was_told(world: World) -> None:
    watch = await world.cacher.watch(PREFIX)
    watch.bookmark()
    assert await take(watch, 1) == [("BOOKMARK", "", "", 1)]
    await world.put("a", "1")
    other = await world.store.create("/g.io/bars/x", b"")
    watch.bookmark()
    assert await take(watch, 2) == [("ADDED", "a", "1", 2), ("BOOKMARK", "", "", other)]


async def test_no_bookmark_before_the_past_is_told(world: World) -> None:
    await world.put("a", "1")
    await world.put("b", "1")
    for watch in (await world.cacher.watch(PREFIX, after=1), await world.cacher.watch(PREFIX)):
        watch.bookmark()
        assert await take(watch, 2) == [("ADDED", "a", "1", 2), ("ADDED", "b", "1", 3)]
