"""What watches on the cache are told, over every store in this process."""

import asyncio
import weakref

import pytest

from aggserver.storage import cacher as cacher_module
from aggserver.storage import watcher
from aggserver.storage.cacher import Cacher, CacheWatcher, WatchEvent
from aggserver.storage.interface import (
    Compacted,
    FutureRevision,
    Unavailable,
)
from tests.storage.caching import PREFIX, Thing, World, silent, take, told, value_is


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
    """Entering is ADDED, leaving is DELETED with the old content at the new revision; live, from the window, from the store."""
    live = await world.cacher.watch(PREFIX, matches=value_is("x")) if source == "window" else None
    await world.put("a", "x")  # 2: made inside
    await world.put("a", "y")  # 3: leaves
    await world.put("a", "z")  # 4: outside
    await world.put("a", "x")  # 5: enters
    await world.put("a", "x")  # 6: inside
    await world.remove("a")  # 7: removed inside
    await world.put("a", "y")  # 8: made outside
    await world.remove("a")  # 9: removed outside
    await world.cacher.ready()
    replayed = await world.cacher.watch(PREFIX, after=1, matches=value_is("x"))
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


async def test_watches_share_their_events(world: World) -> None:
    watches = [await world.cacher.watch(PREFIX) for _ in range(3)]
    await world.put("a", "1")
    batches = [await anext(watch) for watch in watches]
    assert len({id(batch[0]) for batch in batches}) == 1
    batches[0][0].encodings["json"] = b"{}"
    assert batches[1][0].encodings == {"json": b"{}"}


async def test_all_that_is_pending_comes_at_once(world: World) -> None:
    watch = await world.cacher.watch(PREFIX, after=1)
    for number in range(5):
        await world.put(str(number))
    assert len(await anext(watch)) == 5


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


async def test_a_closed_watch_is_over_and_forgotten(world: World) -> None:
    watch = await world.cacher.watch(PREFIX)
    await world.put("a")
    watch.close()
    watch.close()
    assert [batch async for batch in watch] == []
    await world.put("b")
    assert [batch async for batch in watch] == []


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
