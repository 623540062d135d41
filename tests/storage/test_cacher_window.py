"""The size of the watch cache's window, and reads of older history."""

import pytest

from aggserver.storage import changes
from tests.storage.caching import PREFIX, Thing, World, take

WINDOWS = {
    # name: (events, seconds between them, limits, how many stay)
    "a few stay however old": (100, 60.0, {}, 100),
    "old ones go": (1000, 1.0, {}, 100),
    "young ones stay": (1000, 0.05, {}, 1000),
    "75 seconds stay": (1000, 0.5, {}, 151),
    "too many go": (1000, 0.0, {"MAX_CHANGES": 400}, 400),
    "too large go": (1000, 0.0, {"MAX_BYTES": 3000}, 300),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_window(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    count, step, limits, kept = WINDOWS[name]
    for limit, value in limits.items():
        monkeypatch.setattr(changes, limit, value)
    window: changes.Window[Thing] = changes.Window(1)
    old, new = Thing("k", 1, "x" * 10), Thing("k", 2, "")
    for number in range(count):
        window.append(changes.Change("k", number + 2, old, new, number * step))
    newest = count + 1
    assert window.floor == newest - kept
    assert [change.revision for change in window.since(window.floor)] == list(range(newest - kept + 1, newest + 1))
    assert [change.revision for change in window.since(newest - 1)] == [newest]
    assert window.since(newest) == []


def test_what_is_deleted_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replaced object is held by the window only; a created one is held by the cache anyway."""
    monkeypatch.setattr(changes, "MAX_BYTES", 2000)
    window: changes.Window[Thing] = changes.Window(1)
    thing = Thing("k", 1, "x" * 10)
    for number in range(500):
        window.append(changes.Change("k", number + 2, None, thing))
    assert window.floor == 1
    for number in range(500):
        window.append(changes.Change("k", number + 502, thing, None))
    assert window.floor == 801


async def test_watch_and_list_from_before_the_window(world: World) -> None:
    await world.cacher.ready()
    for number in range(150):
        await world.put("a", str(number))
        world.clock.now += 1
    watch = await world.cacher.watch(PREFIX, after=10)
    events = await take(watch, 141)
    assert [event[3] for event in events] == list(range(11, 152))
    assert [thing.value for thing in (await world.cacher.list_at(5, PREFIX)).items] == ["3"]


async def test_a_list_at_the_floor_of_the_window_is_not_read_from_the_store(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.put("a", "first")
    await world.cacher.ready()
    for number in range(3):
        await world.put("a", str(number))
    await world.cacher.sync()
    read: list[int] = []

    async def list_stored(revision: int, *_: object) -> object:
        read.append(revision)
        return None

    monkeypatch.setattr(world.cacher, "_list_stored", list_stored)
    floor = world.cacher._window.floor
    for revision in (floor - 1, floor):
        await world.cacher.list_at(revision, PREFIX)
    assert read == [floor - 1]
