"""Events of watches on the cache, with every store in this process."""

import asyncio

import pytest

from aggserver.storage.cacher import Cacher, CacheWatcher
from aggserver.storage.interface import (
    Compacted,
    FutureRevision,
)
from tests.storage.caching import PREFIX, Thing, World, silent, take, value_is


async def test_watch_from_now(world: World) -> None:
    await world.put("b", "1")
    await world.put("a", "2")
    watch = await world.cacher.watch(PREFIX)
    assert await take(watch, 2) == [("ADDED", "a", "2", 3), ("ADDED", "b", "1", 2)]
    await world.put("a", "3")
    await world.remove("b")
    await world.put("c", "4")
    assert await take(watch, 3) == [("MODIFIED", "a", "3", 4), ("DELETED", "b", "1", 5), ("ADDED", "c", "4", 6)]


async def test_a_deletion_shows_the_last_content_at_its_own_revision(world: World) -> None:
    await world.put("a", "1")
    watch = await world.cacher.watch(PREFIX, after=2)
    removed = await world.remove("a")
    (event,) = await anext(watch)
    assert event.object == Thing(PREFIX + "a", removed, "1")


@pytest.mark.parametrize("source", ["window", "store"])
async def test_watch_from_a_revision(world: World, source: str) -> None:
    if source == "window":
        await world.cacher.ready()
    await world.put("a", "1")
    await world.put("b", "1")
    await world.put("a", "2")
    await world.remove("b")
    await world.cacher.ready()
    watch = await world.cacher.watch(PREFIX, after=2)
    await world.put("c", "1")
    expected = [("ADDED", "b", "1", 3), ("MODIFIED", "a", "2", 4), ("DELETED", "b", "1", 5), ("ADDED", "c", "1", 6)]
    assert await take(watch, 4) == expected
    assert await silent(watch)


@pytest.mark.parametrize("source", ["window", "store"])
async def test_watch_with_a_selector(world: World, source: str) -> None:
    """An object that begins to match is ADDED, one that no longer matches is DELETED with the old content at the new revision.

    Live, from the window, and from the store.
    """
    live = await world.cacher.watch(PREFIX, predicate=value_is("x")) if source == "window" else None
    await world.put("a", "x")  # 2: made inside
    await world.put("a", "y")  # 3: leaves
    await world.put("a", "z")  # 4: outside
    await world.put("a", "x")  # 5: enters
    await world.put("a", "x")  # 6: inside
    await world.remove("a")  # 7: removed inside
    await world.put("a", "y")  # 8: made outside
    await world.remove("a")  # 9: removed outside
    await world.cacher.ready()
    replayed = await world.cacher.watch(PREFIX, after=1, predicate=value_is("x"))
    for watch in filter(None, (live, replayed)):
        assert await take(watch, 5) == [
            ("ADDED", "a", "x", 2),
            ("DELETED", "a", "x", 3),
            ("ADDED", "a", "x", 5),
            ("MODIFIED", "a", "x", 6),
            ("DELETED", "a", "x", 7),
        ]
        assert await silent(watch)


async def test_watch_of_a_namespace_and_of_one_key(world: World) -> None:
    for name in ("n1/a", "n1/ab", "n2/a"):
        await world.put(name, "1")
    namespace = await world.cacher.watch(PREFIX + "n1/")
    single = await world.cacher.watch(PREFIX + "n1/a")
    past = await world.cacher.watch(PREFIX + "n1/a", after=1)
    for name in ("n1/a", "n1/ab", "n2/a"):
        await world.put(name, "2")
    assert await take(namespace, 4) == [
        ("ADDED", "n1/a", "1", 2),
        ("ADDED", "n1/ab", "1", 3),
        ("MODIFIED", "n1/a", "2", 5),
        ("MODIFIED", "n1/ab", "2", 6),
    ]
    for watch in (single, past):
        assert await take(watch, 2) == [("ADDED", "n1/a", "1", 2), ("MODIFIED", "n1/a", "2", 5)]


async def test_watch_from_the_future(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cacher.wait_for, "__defaults__", (0.0,))
    with pytest.raises(FutureRevision) as refused:
        await world.cacher.watch(PREFIX, after=9)
    assert (refused.value.revision, refused.value.current) == (9, 1)


async def test_watch_from_a_compacted_revision(world: World) -> None:
    await world.put("a", "1")
    newest = await world.put("a", "2")
    await world.store.compact(newest)
    with pytest.raises(Compacted) as refused:
        await world.cacher.watch(PREFIX, after=2)
    assert (refused.value.revision, refused.value.oldest) == (2, newest)
    assert await take(await world.cacher.watch(PREFIX), 1) == [("ADDED", "a", "2", newest)]


async def test_list_then_watch_is_a_later_list_while_writers_run(world: World) -> None:
    async def write(worker: int) -> None:
        for number in range(30):
            await world.put(f"{worker}/{number % 7}", str(number))
            if number % 5 == 0:
                await world.remove(f"{worker}/{number % 7}")

    async def copy() -> None:
        revision = await world.cacher.sync()
        page = world.cacher.list(PREFIX)
        assert page.revision >= revision
        copies.append(
            ({thing.name: thing for thing in page.items}, page.revision, await world.cacher.watch(PREFIX, after=page.revision))
        )

    copies: list[tuple[dict[str, Thing], int, CacheWatcher[Thing]]] = []
    async with asyncio.TaskGroup() as group:
        for worker in range(5):
            group.create_task(write(worker))
            group.create_task(copy())
    final = {thing.name: thing for thing in world.cacher.list(PREFIX).items}
    world.cacher.close()
    for state, revision, watch in copies:
        async for batch in watch:
            for event in batch:
                assert event.object is not None
                assert event.revision > revision
                revision = event.revision
                if event.type == "DELETED":
                    del state[event.object.name]
                else:
                    assert (event.type == "ADDED") == (event.object.name not in state)
                    state[event.object.name] = event.object
        assert state == final
