"""The law of selection: whatever is written, lists and watches with a selector give what a look at every object gives.

With an index or without, while one is built, at the newest revision and older ones, page by page, from the cache's window and
from the store's history.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggserver.storage.cacher import CacheWatcher
from aggserver.storage.interface import Compacted
from aggserver.storage.memory import MemoryStorage
from aggserver.storage.predicate import Predicate
from tests.storage.caching import PREFIX, Thing, World
from tests.storage.labelled import COLLIDING, FAMILY, Condition, having, lacking, selecting

NAMES = [f"{place}/{number}" for place in ("n1", "n2", "n3") for number in range(8)]
PLACES = (PREFIX, PREFIX + "n1/", PREFIX + "n2/", PREFIX + "none/")

Told = tuple[str, str, str, int]


@dataclass
class Followed:
    """A watch, and the events it has had. after: where it began; if it began with the state, its bookmark tells."""

    watch: CacheWatcher[Thing]
    prefix: str
    predicate: Predicate[Thing]
    after: int
    initial: bool
    had: list[Told] = field(default_factory=list)


@dataclass
class Model:
    """Every state there was: of each revision the objects by key."""

    states: dict[int, dict[str, Thing]] = field(default_factory=lambda: {1: {}})

    @property
    def revision(self) -> int:
        return max(self.states)

    def write(self, revision: int, key: str, value: str | None) -> None:
        state = dict(self.states[self.revision])
        if value is None:
            del state[key]
        else:
            state[key] = Thing(key, revision, value)
        self.states[revision] = state

    def selected(self, revision: int, prefix: str, matches: Callable[[Thing], bool]) -> list[Thing]:
        state = self.states[revision]
        return [state[key] for key in sorted(state) if key.startswith(prefix) and matches(state[key])]

    def events(self, one: Followed) -> list[Told]:
        found: list[Told] = []
        matches = one.predicate.matches
        if one.initial:
            found += [("ADDED", each.name, each.value, each.revision) for each in self.selected(one.after, one.prefix, matches)]
            found.append(("BOOKMARK", "", "", one.after))
        for revision in range(one.after + 1, self.revision + 1):
            before, after = self.states[revision - 1], self.states[revision]
            (key,) = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
            old, new = before.get(key), after.get(key)
            was, is_now = old is not None and matches(old), new is not None and matches(new)
            if not key.startswith(one.prefix) or not (was or is_now):
                continue
            kind = "MODIFIED" if was and is_now else "ADDED" if is_now else "DELETED"
            shown = new if is_now else old
            assert shown is not None
            found.append((kind, shown.name, shown.value, revision))
        return found


def any_value(chance: random.Random) -> str:
    names = chance.sample("abc", chance.randrange(4))
    return ",".join(f"{name}={chance.choice(('1', '2', '33', ''))}" for name in sorted(names))


def any_predicate(chance: random.Random) -> Predicate[Thing]:
    conditions: list[Condition] = []
    collides = chance.random() < 0.2
    for name in chance.sample("abc", chance.choice((1, 1, 2))):
        values = chance.sample(["1", "2", "33", "", "9", None], chance.choice((1, 1, 2, 4)))
        conditions.append((having if collides or chance.random() < 0.5 else lacking)(name, *values))
    return selecting(*conditions, family=COLLIDING if collides else FAMILY)


class History:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.store = MemoryStorage()
        self.world = World(self.store)
        self.model = Model()
        self.watches: list[Followed] = []
        self.reads: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        await self.store.start()
        for _ in range(self.chance.randrange(30)):
            await self.write()
        for _ in range(60):
            await self.step()
            await asyncio.sleep(0)
        await asyncio.gather(*self.reads)
        await self.end()

    async def step(self) -> None:
        draw = self.chance.random()
        if draw < 0.5:
            await self.write()
        elif draw < 0.7:
            await self.meanwhile(self.newest() if self.chance.random() < 0.6 else self.older())
        elif draw < 0.85:
            await self.meanwhile(self.follow())
        elif draw < 0.95 and self.watches:
            await self.take(self.chance.choice(self.watches))
        elif draw < 0.97:
            await self.store.compact(max(self.model.revision - 20, 1))
        else:
            self.world.clock.now += 700.0  # indexes that nobody used are dropped with the next write

    async def meanwhile(self, work: Coroutine[None, None, None]) -> None:
        """Begin a read, and perhaps wait for its end before anything else is written."""
        task = asyncio.create_task(work)
        self.reads.append(task)
        await asyncio.sleep(0)
        if self.chance.random() < 0.5:
            await task

    async def write(self) -> None:
        name = self.chance.choice(NAMES)
        exists = PREFIX + name in self.model.states[self.model.revision]
        value = None if exists and self.chance.random() < 0.3 else any_value(self.chance)
        revision = self.model.revision + 1
        self.model.write(revision, PREFIX + name, value)  # before reads see it
        assert revision == await (self.world.remove(name) if value is None else self.world.put(name, value))

    async def newest(self) -> None:
        prefix, predicate = self.chance.choice(PLACES), any_predicate(self.chance)
        await self.world.cacher.sync()
        page = await self.world.cacher.select(prefix, predicate)
        assert page.items == self.model.selected(page.revision, prefix, predicate.matches)

    async def older(self) -> None:
        """Page by page, all at one revision, whatever is written between the pages."""
        prefix, predicate, limit = self.chance.choice(PLACES), any_predicate(self.chance), self.chance.choice((0, 1, 3))
        revision = self.chance.randint(max(self.model.revision - 25, 1), self.model.revision)
        found: list[Thing] = []
        start = ""
        while True:
            try:
                page = await self.world.cacher.list_at(revision, prefix, start=start, limit=limit, predicate=predicate)
            except Compacted:
                return
            assert page.revision == revision
            assert not limit or len(page.items) <= limit
            found += page.items
            if not page.more:
                break
            start = page.next_start
        assert found == self.model.selected(revision, prefix, predicate.matches)

    async def follow(self) -> None:
        prefix, predicate = self.chance.choice(PLACES), any_predicate(self.chance)
        initial = self.chance.random() < 0.7
        after = self.chance.randint(max(self.model.revision - 10, 1), self.model.revision)
        try:
            watch = await self.world.cacher.watch(
                prefix, after=None if initial else after, predicate=predicate, initial=initial, initial_end=initial
            )
        except Compacted:
            return
        self.watches.append(Followed(watch, prefix, predicate, after, initial))

    async def take(self, one: Followed) -> None:
        """Read a batch, if there is one."""
        waiting = asyncio.ensure_future(anext(one.watch))
        for _ in range(8):
            await asyncio.sleep(0)
        if waiting.done():
            try:
                batch = waiting.result()
            except Compacted:
                self.watches.remove(one)
                return
            one.had += told_of(batch)
            return
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    async def end(self) -> None:
        await self.world.cacher.sync()
        self.world.cacher.end_watches()
        for one in self.watches:
            try:
                async for batch in one.watch:
                    one.had += told_of(batch)
            except Compacted:
                continue
            if one.initial:
                one.after = next(event[3] for event in one.had if event[0] == "BOOKMARK")
            assert one.had == self.model.events(one)
        assert self.world.cacher._watchers == {}


def told_of(batch: object) -> list[Told]:
    return [
        (event.type, event.object.name, event.object.value, event.revision)
        if event.object
        else (event.type, "", "", event.revision)
        for event in batch  # type: ignore[attr-defined]
    ]


SIZES = {
    "aggserver.storage.indexes.SMALLEST": 0,
    "aggserver.storage.indexes.LOOK_BUILDING": 3,
    "aggserver.storage.indexes.FEW": 1,
    "aggserver.storage.indexes.AT_ONCE": 2,
    "aggserver.storage.indexes.MOST": 3,
    "aggserver.storage.cacher.AT_ONCE": 2,
    "aggserver.storage.cacher.FEW": 1,
    "aggserver.storage.past.AT_ONCE": 2,
    "aggserver.storage.cacher.LOOK_MATCHING": 3,
    "aggserver.storage.past.LOOK_MATCHING": 3,
    "aggserver.storage.past.PART_BYTES": 4,
    "aggserver.storage.past.MIN_PART": 1,
    "aggserver.storage.postings.PART": 3,
    "aggserver.storage.ordered.PART": 3,
}


@given(st.integers(0, 1 << 32), st.sampled_from([1 << 20, 60]), st.sampled_from([0, 1 << 20]))
def test_lists_and_watches_are_what_a_look_at_every_object_gives(seed: int, window: int, kept: int) -> None:
    """window: its bytes, few of which make watches and lists read the store's history. kept: keys that watches may keep."""
    with pytest.MonkeyPatch.context() as patch:
        for name, size in SIZES.items():
            patch.setattr(name, size)
        patch.setattr("aggserver.storage.changes.MAX_BYTES", window)
        patch.setattr("aggserver.storage.changes.MIN_CHANGES", 5 if window < 100 else 100)
        patch.setattr("aggserver.storage.past.MOST_KEPT", kept)
        asyncio.run(History(random.Random(seed)).run())
