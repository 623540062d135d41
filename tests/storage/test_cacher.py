"""The watch cache over the memory store, over SQLite, and over a store that can be lost."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from aggserver.storage import cacher as cacher_module
from aggserver.storage import changes, watcher
from aggserver.storage.cacher import Cacher, CacheWatcher, WatchEvent
from aggserver.storage.interface import (
    Compacted,
    FutureRevision,
    KeyValue,
    Page,
    Sink,
    Storage,
    StorageError,
    Subscription,
    Unavailable,
)
from aggserver.storage.memory import MemoryStorage
from aggserver.storage.sqlite import SQLiteStorage

PREFIX = "/g.io/foos/"


@dataclass(frozen=True)
class Thing:
    key: str
    revision: int
    value: str

    @property
    def name(self) -> str:
        return self.key.removeprefix(PREFIX)


def make(item: KeyValue) -> Thing:
    return Thing(item.key, item.revision, item.value.decode())


def at(thing: Thing, revision: int) -> Thing:
    return replace(thing, revision=revision)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class World:
    """A store, a cacher over it, and writes by short names."""

    def __init__(self, store: Storage) -> None:
        self.store = store
        self.clock = Clock()
        self.slept: list[float] = []
        self.cacher: Cacher[Thing] = Cacher(store, PREFIX, make=make, at=at, clock=self.clock, sleep=self.sleep)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    async def put(self, name: str, value: str = "") -> int:
        current = await self.store.get(PREFIX + name)
        if current is None:
            return await self.store.create(PREFIX + name, value.encode())
        return await self.store.update(PREFIX + name, value.encode(), current.revision)

    async def remove(self, name: str) -> int:
        current = await self.store.get(PREFIX + name)
        assert current is not None
        return await self.store.delete(PREFIX + name, current.revision)


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Storage]:
    store: Storage = MemoryStorage() if request.param == "memory" else SQLiteStorage(tmp_path / "store.db")
    await store.start()
    yield store
    await store.close()


@pytest.fixture
async def world(store: Storage) -> AsyncIterator[World]:
    world = World(store)
    yield world
    world.cacher.close()


def told(events: Sequence[WatchEvent[Thing]]) -> list[tuple[str, str, str, int]]:
    return [
        (event.type, event.object.name, event.object.value, event.revision)
        if event.object
        else (event.type, "", "", event.revision)
        for event in events
    ]


async def take(watch: CacheWatcher[Thing], count: int) -> list[tuple[str, str, str, int]]:
    """The next `count` events; more is a failure."""
    events: list[WatchEvent[Thing]] = []
    async with asyncio.timeout(5):
        while len(events) < count:
            batch = await anext(watch)
            assert batch
            events += batch
    assert len(events) == count, events
    return told(events)


async def silent(watch: CacheWatcher[Thing]) -> bool:
    waiting = asyncio.ensure_future(anext(watch))
    for _ in range(5):
        await asyncio.sleep(0)
    over = not waiting.done()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    return over


def value_is(value: str) -> Callable[[Thing], bool]:
    return lambda thing: thing.value == value


# Reading


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
    page = world.cacher.list(PREFIX, limit=1, matches=value_is("x"))
    assert [thing.name for thing in page.items] == ["a"]
    assert (page.more, page.next_start, page.remaining) == (True, PREFIX + "a\0", None)
    page = world.cacher.list(PREFIX, limit=1, start=page.next_start, matches=value_is("x"))
    assert [thing.name for thing in page.items] == ["d"]
    assert page.more  # of what was looked at, not of what matches: as upstream
    page = world.cacher.list(PREFIX, limit=1, start=page.next_start, matches=value_is("x"))
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
                page = await world.cacher.list_at(revision, PREFIX, start=start, limit=1, matches=matches)
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


# Watching


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


# The window

WINDOWS = {
    # name: (events, seconds between them, limits, how many stay)
    "a few stay however old": (100, 60.0, {}, 100),
    "old ones go": (1000, 1.0, {}, 100),
    "young ones stay": (1000, 0.05, {}, 1000),
    "75 seconds stay": (1000, 0.5, {}, 151),
    "too many go": (1000, 0.0, {"MAX_EVENTS": 400}, 400),
    "too large go": (1000, 0.0, {"MAX_BYTES": 3000}, 300),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_window(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    count, step, limits, kept = WINDOWS[name]
    for limit, value in limits.items():
        monkeypatch.setattr(changes, limit, value)
    window: changes.Window[str] = changes.Window(1)
    for number in range(count):
        window.append(changes.Change("k", number + 2, "old", "new", at=lambda thing, _: thing, size=10, time=number * step))
    newest = count + 1
    assert window.floor == newest - kept
    assert [change.revision for change in window.since(window.floor)] == list(range(newest - kept + 1, newest + 1))
    assert [change.revision for change in window.since(newest - 1)] == [newest]
    assert window.since(newest) == []


async def test_watch_and_list_from_before_the_window(world: World) -> None:
    await world.cacher.ready()
    for number in range(150):
        await world.put("a", str(number))
        world.clock.now += 1
    watch = await world.cacher.watch(PREFIX, after=10)
    events = await take(watch, 141)
    assert [event[3] for event in events] == list(range(11, 152))
    assert [thing.value for thing in (await world.cacher.list_at(5, PREFIX)).items] == ["3"]


# A store that fails


class Losing(MemoryStorage):
    """A store whose lists may fail and whose subscription can be cut."""

    def __init__(self) -> None:
        super().__init__()
        self.failures: list[StorageError] = []
        self.lists = 0
        self.sink: Sink | None = None
        self.subscription: Subscription | None = None

    async def list(self, prefix: str, *, revision: int = 0, start: str = "", limit: int = 0) -> Page:
        self.lists += 1
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop()
        return await super().list(prefix, revision=revision, start=start, limit=limit)

    async def watch(self, prefix: str, after: int, sink: Sink) -> Subscription:
        if self.failures:
            raise self.failures.pop()
        self.sink = sink
        self.subscription = await super().watch(prefix, after, sink)
        return self.subscription

    def cut(self, error: StorageError) -> None:
        assert self.subscription is not None
        assert self.sink is not None
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
