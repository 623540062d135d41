"""Selectors of a watch cache over a store. Cases of `contract.py`: an index follows whatever way the store's events take."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from unittest import mock

from aggserver.storage.cacher import Cacher
from aggserver.storage.interface import Storage
from tests.storage.caching import PREFIX, Thing, at, make, take
from tests.storage.labelled import having, lacking, selecting
from tests.storage.suite import Suite

__all__ = ["SUITE"]

SUITE = Suite()


@asynccontextmanager
async def caching(store: Storage) -> AsyncIterator[Cacher[Thing]]:
    """A cache that makes an index for any number of objects."""
    cacher: Cacher[Thing] = Cacher(store, PREFIX, make=make, at=at)
    with mock.patch("aggserver.storage.indexes.SMALLEST", 0):
        try:
            yield cacher
        finally:
            cacher.close()


async def selected(cacher: Cacher[Thing], *conditions: tuple[str, bool, tuple[str | None, ...]]) -> list[str]:
    await cacher.sync()
    return [thing.name for thing in (await cacher.select(PREFIX, selecting(*conditions))).items]


@SUITE.case
async def a_selector_follows_creates_updates_and_deletes(store: Storage) -> None:
    revisions = {name: await store.create(PREFIX + name, value) for name, value in (("a", b"x=1"), ("b", b"x=2"), ("c", b"y=1"))}
    async with caching(store) as cacher:
        assert await selected(cacher, having("x", "1")) == ["a"]
        assert await selected(cacher, having("x", None)) == ["c"]
        assert await selected(cacher, lacking("x", None)) == ["a", "b"]
        await store.update(PREFIX + "c", b"x=1", revisions["c"])
        await store.create(PREFIX + "d", b"x=1")
        await store.delete(PREFIX + "a", revisions["a"])
        assert await selected(cacher, having("x", "1")) == ["c", "d"]
        assert await selected(cacher, having("x", None)) == []
        assert await selected(cacher, lacking("x", "1")) == ["b"]


@SUITE.case
async def a_watch_is_told_when_objects_begin_to_match_and_when_they_no_longer_do(store: Storage) -> None:
    created = await store.create(PREFIX + "a", b"x=1")
    await store.create(PREFIX + "b", b"x=2")
    async with caching(store) as cacher:
        await cacher.sync()
        watch = await cacher.watch(PREFIX, predicate=selecting(having("x", "1")), initial=True, initial_end=True)
        begun = await take(watch, 2)
        assert [told[:3] for told in begun] == [("ADDED", "a", "x=1"), ("BOOKMARK", "", "")]
        left = await store.update(PREFIX + "a", b"x=2", created)
        entered = await store.update(PREFIX + "a", b"x=1", left)
        same = await store.update(PREFIX + "a", b"x=1,y=1", entered)
        gone = await store.delete(PREFIX + "a", same)
        assert await take(watch, 4) == [
            ("DELETED", "a", "x=1", left),
            ("ADDED", "a", "x=1", entered),
            ("MODIFIED", "a", "x=1,y=1", same),
            ("DELETED", "a", "x=1,y=1", gone),
        ]


@SUITE.case
async def a_list_of_then_has_what_matched_then(store: Storage) -> None:
    created = await store.create(PREFIX + "a", b"x=1")
    then = await store.create(PREFIX + "b", b"x=1")
    async with caching(store) as cacher:
        assert await selected(cacher, having("x", "1")) == ["a", "b"]
        await store.update(PREFIX + "a", b"x=2", created)
        await store.create(PREFIX + "c", b"x=1")
        assert await selected(cacher, having("x", "1")) == ["b", "c"]
        page = await cacher.list_at(then, PREFIX, predicate=selecting(having("x", "1")))
        assert [thing.name for thing in page.items] == ["a", "b"]
