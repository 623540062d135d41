"""Past events of watches: delivered in parts, once and in order, also during writes."""

from __future__ import annotations

import asyncio
import random
import weakref

import pytest

from aggserver.storage import changes, past
from aggserver.storage.cacher import WatchEvent
from aggserver.storage.interface import Compacted
from aggserver.storage.predicate import Predicate
from tests.storage.caching import PREFIX, Thing, World, silent, take, told, value_is


async def fill(world: World, count: int, size: int = 1000) -> None:
    for number in range(count):
        await world.put(f"{number:04}", "x" * size)


@pytest.mark.parametrize("begin", ["objects", "window", "store"])
async def test_parts_are_small(world: World, begin: str) -> None:
    if begin == "window":
        await world.cacher.ready()
    await fill(world, 300)
    watch = await world.cacher.watch(PREFIX, after=None if begin == "objects" else 1)
    sizes = []
    count = 0
    while count < 300:
        batch = await anext(watch)
        count += len(batch)
        sizes.append(sum(event.size for event in batch))
    assert count == 300
    assert len(sizes) >= 5
    assert max(sizes) < past.PART_BYTES + 1000


async def test_the_more_are_behind_the_less_each_is_told(world: World) -> None:
    await fill(world, 200)
    watches = [await world.cacher.watch(PREFIX) for _ in range(2 * past.ALL_PARTS // past.MIN_PART)]
    assert sum(event.size for event in await anext(watches[0])) < past.MIN_PART + 1000


async def test_an_unread_watch_holds_no_objects(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The window keeps a limited size of replaced objects, regardless of how many watches still need them."""
    monkeypatch.setattr(changes, "MAX_BYTES", 20_000)
    monkeypatch.setattr(changes, "STALE_BYTES", 0)
    monkeypatch.setattr("aggserver.storage.cacher.STALE_BYTES", 0)
    made: list[weakref.ref[Thing]] = []
    make = world.cacher._make

    def remembered(item: object) -> Thing:
        thing = make(item)  # type: ignore[arg-type]
        made.append(weakref.ref(thing))
        return thing

    world.cacher._make = remembered
    await fill(world, 100)
    for number in range(100):
        watch = await world.cacher.watch(PREFIX)
        await anext(watch)  # some have started
        await world.cacher.watch(PREFIX)
        await world.put(f"{number:04}", "y" * 1000)
    alive = sum(thing() is not None for thing in made)
    assert alive <= 100 + 20 + 5


@pytest.mark.parametrize("matches", [None, value_is("x")], ids=["all", "selected"])
@pytest.mark.parametrize("source", ["window", "store"])
async def test_the_state_is_that_of_its_revision_whatever_is_written_meanwhile(
    world: World, monkeypatch: pytest.MonkeyPatch, source: str, matches: object
) -> None:
    """With random writes between any two parts, applying the events in order yields the present objects."""
    monkeypatch.setattr(past, "PART_BYTES", 4)
    monkeypatch.setattr(past, "MIN_PART", 1)
    if source == "store":
        monkeypatch.setattr(changes, "MAX_BYTES", 3)
    chance = random.Random(7)
    names = [f"{number:02}" for number in range(30)]

    async def write() -> None:
        name = chance.choice(names)
        if await world.store.get(PREFIX + name) is not None and chance.random() < 0.4:
            await world.remove(name)
        else:
            await world.put(name, chance.choice("xy"))

    for _ in range(60):
        await write()
    select = value_is("x") if matches else None
    revision = await world.cacher.sync()
    expected = [(thing.name, thing.revision) for thing in (await world.cacher.select(PREFIX, select)).items]
    watch = await world.cacher.watch(PREFIX, predicate=select, initial=True, initial_end=True)
    initial: list[WatchEvent[Thing]] = []
    while not (initial and initial[-1].initial_events_end):
        initial += await anext(watch)
        await write()
    assert [(event.object.name, event.revision) for event in initial[:-1] if event.object] == expected
    assert initial[-1].revision == revision
    state = dict(expected)
    for _ in range(50):
        await write()
    world.cacher.end_watches()
    async for batch in watch:
        for event in batch:
            assert event.object is not None
            assert event.revision > revision
            revision = event.revision
            assert (event.type == "ADDED") == (event.object.name not in state)
            if event.type == "DELETED":
                del state[event.object.name]
            else:
                state[event.object.name] = event.revision
    assert state == {thing.name: thing.revision for thing in (await world.cacher.select(PREFIX, select)).items}


async def test_a_watch_of_one_name_from_the_store(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "MAX_BYTES", 3)
    for name in ("a", "ab", "b"):
        await world.put(name, "old")
    watch = await world.cacher.watch(PREFIX + "a")
    for _ in range(3):
        for name in ("a", "ab", "b"):
            await world.put(name, "new")
    assert await take(watch, 4) == [
        ("ADDED", "a", "old", 2),
        ("MODIFIED", "a", "new", 5),
        ("MODIFIED", "a", "new", 8),
        ("MODIFIED", "a", "new", 11),
    ]


async def test_what_the_store_has_forgotten_meanwhile_is_an_error(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past, "PART_BYTES", 1)
    monkeypatch.setattr(past, "MIN_PART", 1)
    monkeypatch.setattr(changes, "MAX_BYTES", 3)
    await fill(world, 5, size=1)
    watch = await world.cacher.watch(PREFIX)
    await anext(watch)
    for number in range(5):
        await world.put(f"{number:04}", "new!")
    await world.store.compact(world.cacher.revision)
    with pytest.raises(Compacted):
        await anext(watch)
    assert world.cacher._all_watchers() == []


async def test_what_is_pending_beyond_the_window_ends_the_watch(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes of other objects count too, because the watch would hold the only copy."""
    monkeypatch.setattr(changes, "MAX_BYTES", 1000)
    monkeypatch.setattr("aggserver.storage.cacher.STALE_BYTES", 1000)
    for name in ("n1/a", "n2/a"):
        await world.put(name, "x" * 100)
    slow = await world.cacher.watch(PREFIX + "n1/", after=await world.cacher.sync())
    await world.put("n1/a", "y")
    for _ in range(40):
        await world.put("n2/a", "x" * 100)
    assert [told(batch) async for batch in slow] == []
    again = await world.cacher.watch(PREFIX + "n1/", after=3)
    assert await take(again, 1) == [("MODIFIED", "n1/a", "y", 4)]
    assert await silent(again)


@pytest.mark.parametrize("begin", ["objects", "window", "store"])
async def test_a_selector_is_matched_before_a_part_is_counted(world: World, monkeypatch: pytest.MonkeyPatch, begin: str) -> None:
    """So few matching objects take few parts, whatever the others' size, and however many watches are behind."""
    monkeypatch.setattr(past, "LOOK_MATCHING", 200)
    monkeypatch.setattr(past, "LOOK", 200)
    if begin == "window":
        await world.cacher.ready()
    await fill(world, 600, size=5000)
    last = await world.put("9999", "wanted")
    parts: list[int] = []
    of_past = past.Past.next

    async def counted(self: past.Past[Thing]) -> list[WatchEvent[Thing]] | None:
        parts.append(1)
        return await of_past(self)

    monkeypatch.setattr(past.Past, "next", counted)
    after = None if begin == "objects" else 1
    watch = await world.cacher.watch(PREFIX, after=after, predicate=value_is("wanted"))
    assert await take(watch, 1) == [("ADDED", "9999", "wanted", last)]
    assert len(parts) <= (601 * 5000 // past.READ_MATCHING + 8 if begin == "store" else 5)


async def test_watches_that_look_for_few_objects_take_turns(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two slices of any of them, the event loop goes on."""
    monkeypatch.setattr(past, "LOOK_MATCHING", 100)
    await fill(world, 300, size=10)
    await world.put("9999", "wanted")
    iterations, looked = 0, set[int]()
    examined = []

    def matches(thing: Thing) -> bool:
        looked.add(iterations)
        examined.append(iterations)
        return thing.value == "wanted"

    watches = [await world.cacher.watch(PREFIX, predicate=Predicate(matches, "matches")) for _ in range(10)]
    taking = asyncio.gather(*(take(watch, 1) for watch in watches))
    while not taking.done():
        iterations += 1
        await asyncio.sleep(0)
    assert len(examined) == 3010
    assert max(map(examined.count, looked)) <= 100
