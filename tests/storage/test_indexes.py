"""What indexes cost: which objects are looked at, when an index is built and dropped.

That they find what matches is in tests/property/test_selection_laws.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from aggserver.storage import indexes
from aggserver.storage.changes import WatchEvent
from aggserver.storage.interface import Corrupt
from aggserver.storage.predicate import AttributeFamily, Predicate, one_of
from tests.storage.caching import PREFIX, Thing, World, silent, take
from tests.storage.labelled import FAMILY, having, lacking, read, selecting

COUNT = 300


@pytest.fixture(autouse=True)
def for_any_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexes, "SMALLEST", 0)


@pytest.fixture
async def filled(world: World) -> World:
    """Objects 000 to 299: ten in turn have the same `group`; all have the same `all`."""
    for number in range(COUNT):
        await world.put(f"{number:03}", f"group=g{number // 10},all=1")
    await world.cacher.sync()
    return world


class Tried:
    """The objects that were matched."""

    def __init__(self) -> None:
        self.things: list[Thing] = []

    def __call__(self, thing: Thing) -> None:
        self.things.append(thing)


CASES = {
    "a value": ((having("group", "g7"),), 10),
    "no such value": ((having("group", "none"),), 0),
    "some values": ((having("group", "g7", "g9", "none"),), 20),
    "any other value": ((lacking("all", "1"),), 0),
    "not many other values": ((lacking("group", *(f"g{number}" for number in range(29))),), 10),
    "no attribute": ((having("all", None),), 0),
    "an attribute": ((lacking("other", None),), 0),
    "the rarer of two": ((having("all", "1"), having("group", "g7")), 10),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("read_as", ["list", "older list", "watch"])
async def test_only_candidates_are_matched(filled: World, case: str, read_as: str) -> None:
    conditions, count = CASES[case]
    tried = Tried()
    predicate = selecting(*conditions, tried=tried)
    cacher = filled.cacher
    if read_as == "list":
        assert len((await cacher.select(PREFIX, predicate)).items) == count
    elif read_as == "older list":
        revision = cacher.revision
        await filled.put("000", "group=new")
        assert len((await cacher.list_at(revision, PREFIX, predicate=predicate)).items) == count
    else:
        watch = await cacher.watch(PREFIX, predicate=predicate, initial=True, initial_end=True)
        assert len(await take(watch, count + 1)) == count + 1
    assert len(tried.things) <= count + 1  # the one that has changed


async def test_a_namespace_costs_what_it_has(world: World) -> None:
    for number in range(40):
        await world.put(f"n{number % 2}/{number:03}", f"group=g{number % 4}")
    await world.cacher.sync()
    tried = Tried()
    found = await world.cacher.select(PREFIX + "n1/", selecting(having("group", "g1"), tried=tried))
    assert [thing.name for thing in found.items] == [f"n1/{number:03}" for number in range(1, 40, 4)]
    assert len(tried.things) == 10


async def test_what_half_of_all_have_is_not_looked_up(filled: World) -> None:
    tried = Tried()
    assert len((await filled.cacher.select(PREFIX, selecting(having("all", "1"), tried=tried))).items) == COUNT
    assert len(tried.things) == COUNT


class Counted:
    """A family that counts how often an object is read for an index."""

    def __init__(self) -> None:
        self.count = 0
        self.family = AttributeFamily(read, self.once)

    def once(self, thing: Thing) -> Mapping[str, str]:
        self.count += 1
        return read(thing)


async def test_all_who_ask_share_the_building(filled: World) -> None:
    counted = Counted()
    cacher = filled.cacher
    selectors = [selecting(having("group", f"g{number}"), family=counted.family) for number in range(20)]
    lists = [cacher.select(PREFIX, selector) for selector in selectors]
    watches = [cacher.watch(PREFIX, predicate=selector, initial=True, initial_end=True) for selector in selectors]
    await asyncio.gather(*lists, *watches)
    assert counted.count == COUNT
    await cacher.select(PREFIX, selectors[0])
    await filled.put("000", "group=g1")
    await cacher.select(PREFIX, selectors[1])
    assert counted.count == COUNT


async def test_the_event_loop_goes_on_while_an_index_is_built(filled: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexes, "LOOK_BUILDING", 20)
    iterations, read_in = 0, list[int]()

    def once(thing: Thing) -> Mapping[str, str]:
        read_in.append(iterations)
        return read(thing)

    predicate = selecting(having("group", "g7"), family=AttributeFamily(read, once))
    listing = asyncio.create_task(filled.cacher.select(PREFIX, predicate))
    while not listing.done():
        iterations += 1
        await asyncio.sleep(0)
    assert len((await listing).items) == 10
    assert max(map(read_in.count, set(read_in))) == 20


async def test_a_caller_that_gives_up_stops_nobody_else(filled: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexes, "LOOK_BUILDING", 20)
    predicate = selecting(having("group", "g7"))
    first = asyncio.create_task(filled.cacher.select(PREFIX, predicate))
    second = asyncio.create_task(filled.cacher.select(PREFIX, predicate))
    await asyncio.sleep(0)
    first.cancel()
    assert len((await second).items) == 10


async def test_a_reader_that_fails_leaves_no_index(filled: World) -> None:
    def broken(thing: Thing) -> Mapping[str, str]:
        raise RuntimeError

    predicate = selecting(having("group", "g7"), family=AttributeFamily(read, broken))
    assert len((await filled.cacher.select(PREFIX, predicate)).items) == 10
    assert filled.cacher._indexes.all() == []


async def test_an_object_that_cannot_be_read_fails_what_it_failed_before(filled: World) -> None:
    """It is a candidate of each selector, before and after it was written."""
    predicate = selecting(having("group", "g7"))
    await filled.cacher.select(PREFIX, predicate)
    await filled.put("100", "!")
    with pytest.raises(Corrupt):
        await filled.cacher.select(PREFIX, predicate)
    with pytest.raises(Corrupt):
        await filled.cacher.select(PREFIX, selecting(having("all", "1", None)))  # built after that
    await filled.put("100", "group=g7")
    assert len((await filled.cacher.select(PREFIX, predicate)).items) == 11
    await filled.put("101", "!")
    await filled.remove("101")
    assert len((await filled.cacher.select(PREFIX, predicate)).items) == 11


async def test_an_index_that_can_not_be_right_is_dropped(filled: World) -> None:
    """Should an object be read otherwise than when the index was built."""
    now: dict[str, str] = {}

    def changing(thing: Thing) -> Mapping[str, str]:
        return {**read(thing), **now}

    predicate = selecting(having("group", "g7"), family=AttributeFamily(changing, changing))
    await filled.cacher.select(PREFIX, predicate)
    (index,) = filled.cacher._indexes.all()
    now["group"] = "g8"
    await filled.remove("000")
    assert filled.cacher._indexes.all() == []
    now.clear()
    assert len((await filled.cacher.select(PREFIX, predicate)).items) == 10
    assert filled.cacher._indexes.all() != [index]


async def test_indexes_are_few(filled: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those used last."""
    monkeypatch.setattr(indexes, "MOST", 3)
    for name in ("a", "b", "c", "a", "d", "e"):
        filled.clock.now += 1
        await filled.cacher.select(PREFIX, selecting(having(name, "1")))
    assert sorted(index.name for index in filled.cacher._indexes.all()) == ["a", "d", "e"]


async def test_an_index_that_nobody_uses_is_dropped(filled: World) -> None:
    for name in ("a", "b"):
        await filled.cacher.select(PREFIX, selecting(having(name, "1")))
    for _ in range(4):
        filled.clock.now += indexes.IDLE / 3
        await filled.cacher.select(PREFIX, selecting(having("a", "1")))
        await filled.put("000", "group=g0")
    assert [index.name for index in filled.cacher._indexes.all()] == ["a"]


async def test_of_many_values_none_is_looked_up(filled: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexes, "MOST_VALUES", 3)
    predicate = selecting(having("group", "g1", "g2", "g3", "g4"))
    assert len((await filled.cacher.select(PREFIX, predicate)).items) == 40
    assert filled.cacher._indexes.all() == []


async def test_another_way_to_read_objects_drops_all(filled: World) -> None:
    await filled.cacher.select(PREFIX, selecting(having("group", "g7")))
    filled.cacher.break_off()
    assert filled.cacher._indexes.all() == []


async def test_few_objects_need_no_index(filled: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexes, "SMALLEST", COUNT + 1)
    assert len((await filled.cacher.select(PREFIX, selecting(having("group", "g7")))).items) == 10
    assert filled.cacher._indexes.all() == []


async def test_watches_keep_few_keys(filled: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch whose candidates are too many looks at every object instead."""
    monkeypatch.setattr("aggserver.storage.past.MOST_KEPT", 25)
    monkeypatch.setattr("aggserver.storage.past.AT_ONCE", 5)
    kept = []
    for _ in range(3):
        tried = Tried()
        watch = await filled.cacher.watch(PREFIX, predicate=selecting(having("group", "g7"), tried=tried), initial=True)
        kept.append(watch.kept)
        assert len(await take(watch, 10)) == 10
        assert len(tried.things) == (10 if watch.kept else COUNT)
        await filled.cacher.watch(PREFIX, predicate=selecting(having("group", "g8")), initial=True)  # which nobody reads
    assert kept == [10, 0, 0]


# --- live events ---


async def events_of(world: World, *values: str) -> None:
    for value in values:
        await world.put("000", value)


async def test_an_event_is_matched_once_for_equal_selectors(filled: World) -> None:
    tried = Tried()
    selectors = [selecting(having("group", "g7"), tried=tried) for _ in range(50)]
    watches = [await filled.cacher.watch(PREFIX, after=filled.cacher.revision, predicate=one) for one in selectors]
    await events_of(filled, "group=g7")
    assert len(tried.things) == 2  # the object before and after
    events: list[WatchEvent[Thing]] = [event for watch in watches for event in await anext(watch)]
    assert len(events) == 50
    assert len(set(map(id, events))) == 1


@pytest.mark.parametrize(
    "conditions",
    [
        (having("group", "x"),),
        (having("group", "x", "y"),),
        (having("all", None),),
        (lacking("other", None),),
        (lacking("all", "1", None),),
        (lacking("other", None), having("group", "x")),
    ],
)
async def test_an_event_is_not_matched_for_those_that_can_not_get_it(filled: World, conditions: tuple[object, ...]) -> None:
    tried = Tried()
    predicate: Predicate[Thing] = selecting(*conditions, tried=tried)  # type: ignore[arg-type]
    watch = await filled.cacher.watch(PREFIX, after=filled.cacher.revision, predicate=predicate)
    await events_of(filled, "group=g7,all=1", "group=g8,all=1", "all=1")
    assert tried.things == []
    await events_of(filled, "group=x,other=1", "all=2")
    assert tried.things != []
    assert not await silent(watch)


async def test_a_watch_whose_selector_can_not_be_decided_ends(filled: World) -> None:
    watch = await filled.cacher.watch(PREFIX, after=filled.cacher.revision, predicate=selecting(having("group", "x")))
    other = await filled.cacher.watch(PREFIX, after=filled.cacher.revision)
    await events_of(filled, "!")
    with pytest.raises(Corrupt):
        await anext(watch)
    assert [event.type for event in await anext(other)] == ["MODIFIED"]


async def test_nothing_is_left_of_watches_that_ended(filled: World) -> None:
    selectors = [
        selecting(having("group", "x", "y", None)),
        selecting(lacking("group", "x")),
        Predicate(lambda thing: True, "anything"),
        Predicate(lambda thing: True, "two", (one_of(FAMILY, "a", ["1"]), one_of(FAMILY, "b", ["1"]))),
    ]
    cacher = filled.cacher
    begun = [await cacher.watch(PREFIX, after=cacher.revision, predicate=one) for one in (*selectors, *selectors, None)]
    (audience,) = cacher._watchers.values()
    assert len(audience) == 9
    for watch in begun[:-1]:
        watch.close()
        watch.close()
    assert audience._families == {}
    assert list(audience._anywhere) == list(audience._groups.values())
    assert len(audience) == 1
    begun[-1].close()
    assert cacher._watchers == {}
