"""Reads from the watch cache, with every store in this process."""

import asyncio

import pytest

from aggserver.storage import cacher
from aggserver.storage.cacher import Cacher
from aggserver.storage.interface import Compacted, Corrupt, CorruptList, FutureRevision, KeyValue
from aggserver.storage.predicate import Predicate
from tests.storage.caching import PREFIX, Thing, World, at, make, value_is


async def test_load_and_follow(world: World) -> None:
    await world.put("b", "1")
    await world.store.create("/g.io/bars/x", b"")
    await world.cacher.ready()
    assert world.cacher.revision == 3
    written = await world.put("a", "2")
    assert world.cacher.get(PREFIX + "a") == Thing(PREFIX + "a", written, "2")
    assert [thing.name for thing in world.cacher.list(PREFIX).items] == ["a", "b"]
    removed = await world.remove("b")
    assert world.cacher.get(PREFIX + "b") is None
    assert world.cacher.revision == removed


async def test_sync_comes_to_writes_of_other_prefixes(world: World) -> None:
    await world.cacher.ready()
    other = await world.store.create("/g.io/bars/x", b"")
    assert world.cacher.revision < other
    assert await world.cacher.sync() == other
    assert world.cacher.list(PREFIX).revision == other


async def test_list_is_limited_by_prefix_start_and_limit(world: World) -> None:
    for name in ("n1/a", "n1/b", "n1/c", "n10/a", "n2/a"):
        await world.put(name)
    await world.cacher.ready()
    page = world.cacher.list(PREFIX + "n1/", limit=2)
    assert [thing.name for thing in page.items] == ["n1/a", "n1/b"]
    assert (page.more, page.next_start, page.remaining) == (True, PREFIX + "n1/b\0", 1)
    page = world.cacher.list(PREFIX + "n1/", start=page.next_start, limit=2)
    assert [thing.name for thing in page.items] == ["n1/c"]
    assert (page.more, page.next_start, page.remaining) == (False, "", None)
    page = world.cacher.list(PREFIX, limit=5)
    assert (len(page.items), page.more) == (5, False)


async def test_list_with_a_selector_goes_on_after_the_last_one_looked_at(world: World) -> None:
    for name, value in (("a", "x"), ("b", "y"), ("c", "y"), ("d", "x"), ("e", "y")):
        await world.put(name, value)
    await world.cacher.ready()
    page = await world.cacher.select(PREFIX, value_is("x"), limit=1)
    assert [thing.name for thing in page.items] == ["a"]
    assert (page.more, page.next_start, page.remaining) == (True, PREFIX + "a\0", None)
    page = await world.cacher.select(PREFIX, value_is("x"), limit=1, start=page.next_start)
    assert [thing.name for thing in page.items] == ["d"]
    assert page.more  # more to examine, although nothing more matches, as upstream
    page = await world.cacher.select(PREFIX, value_is("x"), limit=1, start=page.next_start)
    assert (list(page.items), page.more) == ([], False)


async def old_states(world: World) -> dict[int, dict[str, str]]:
    states: dict[int, dict[str, str]] = {}
    state: dict[str, str] = {}
    for name, value in [
        ("b", "1"),
        ("d", "1"),
        ("a", "1"),
        ("b", "2"),
        ("d", None),
        ("c", "1"),
        ("a", None),
        ("d", "2"),
        ("a", "3"),
    ]:
        if value is None:
            revision = await world.remove(name)
            del state[name]
        else:
            revision = await world.put(name, value)
            state[name] = value
        states[revision] = dict(state)
    return states


@pytest.mark.parametrize("loaded", ["from the start", "late"])
async def test_list_at_every_old_revision(world: World, loaded: str) -> None:
    if loaded == "from the start":
        await world.cacher.ready()
    for revision, expected in (await old_states(world)).items():
        page = await world.cacher.list_at(revision, PREFIX)
        assert {thing.name: thing.value for thing in page.items} == expected
        assert [thing.name for thing in page.items] == sorted(expected)
        assert page.revision == revision
        for matches in (None, value_is("1")):
            wanted = [name for name in sorted(expected) if matches is None or expected[name] == "1"]
            found, start = [], ""
            while True:
                page = await world.cacher.list_at(revision, PREFIX, start=start, limit=1, predicate=matches)
                found += [thing.name for thing in page.items]
                if page.more and matches is None:
                    assert page.remaining == len(expected) - len(found)
                if not page.more:
                    break
                start = page.next_start
            assert found == wanted


async def test_list_at_a_compacted_or_a_future_revision(world: World) -> None:
    one = await world.put("a", "1")
    two = await world.put("a", "2")
    await world.store.compact(two)
    with pytest.raises(Compacted):
        await world.cacher.list_at(one, PREFIX)
    with pytest.raises(FutureRevision):
        await world.cacher.wait_for(two + 1, timeout=0)


async def test_wait_for_a_revision_that_comes(world: World) -> None:
    await world.cacher.ready()
    waiting = [asyncio.ensure_future(world.cacher.wait_for(revision)) for revision in (3, 2)]
    await asyncio.sleep(0)
    await world.put("a")
    await world.store.create("/g.io/bars/x", b"")
    await world.cacher.sync()
    await asyncio.gather(*waiting)


async def test_a_list_with_a_selector_lets_others_run_and_shows_one_revision(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cacher, "LOOK_MATCHING", 10)
    for number in range(100):
        await world.put(f"{number:03}", "x" if number % 2 else "y")
    revision = await world.cacher.sync()
    expected = [f"{number:03}" for number in range(1, 100, 2)]
    examined = 0

    def matches(thing: Thing) -> bool:
        nonlocal examined
        examined += 1
        return thing.value == "x"

    listing = asyncio.create_task(world.cacher.select(PREFIX, Predicate(matches, "matches")))
    slices = []
    while not listing.done():
        before = examined
        await asyncio.sleep(0)
        slices.append(examined - before)
        if len(slices) % 3 == 0:  # each changes what was listed and what is yet to be
            for name in (f"{len(slices):03}", f"{99 - len(slices):03}"):
                await (world.remove(name) if len(slices) % 2 else world.put(name, "x"))
    page = listing.result()
    assert max(slices) <= 10
    assert (page.revision, [thing.name for thing in page.items]) == (revision, expected)
    assert world.cacher.revision > revision


async def test_lists_with_a_selector_take_turns(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cacher, "LOOK_MATCHING", 10)
    for number in range(50):
        await world.put(f"{number:03}")
    revision = await world.cacher.sync()
    await world.put("000", "changed")  # so that a list at the revision before merges
    examined = 0

    def matches(thing: Thing) -> bool:
        nonlocal examined
        examined += 1
        return False

    lists = [world.cacher.select(PREFIX, Predicate(matches, "matches")) for _ in range(6)]
    older = [world.cacher.list_at(revision, PREFIX, predicate=Predicate(matches, "matches")) for _ in range(6)]
    listing = asyncio.gather(*lists, *older)
    most = 0
    while not listing.done():
        before = examined
        await asyncio.sleep(0)
        most = max(most, examined - before)
    assert examined == 12 * 50
    assert most <= 10


async def test_a_selection_that_has_to_show_what_can_not_be_read(world: World) -> None:
    def made(item: KeyValue) -> Thing:
        if item.value == b"bad":
            raise Corrupt(item.key, item.revision, "it is bad")
        return make(item)

    for name, value in (("a", "x"), ("b", "bad"), ("c", "x")):
        await world.put(name, value)
    cacher = Cacher(world.store, PREFIX, make=made, at=at, clock=world.clock, sleep=world.sleep)
    await cacher.ready()
    assert [thing.name for thing in (await cacher.select(PREFIX, value_is("x"), limit=1)).items] == ["a"]
    with pytest.raises(CorruptList):
        await cacher.select(PREFIX, value_is("x"))
    cacher.close()
