"""The memory of a resource's watch cache: the bytes of its objects and a little more, and a bounded window of changes."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest

from aggserver.meta.selectors import FieldSelector, LabelSelector
from aggserver.registry import stored
from aggserver.registry.rest import ListOptions
from aggserver.registry.selection import predicate
from aggserver.registry.stored import StoredObject
from aggserver.storage import changes, indexes
from aggserver.storage.cacher import Cacher
from aggserver.storage.interface import Event
from aggserver.storage.memory import MemoryStorage

PREFIX = "/g.io/foos/"
COUNT = 1000
SIZE = 3000  # bytes of an object
# Bytes in addition to the objects' own. 180 and 270 were measured; other versions of Python may need more.
PER_OBJECT = 300
PER_CHANGE = 400
PER_LABEL = 30  # 17 were measured


def key(number: int) -> str:
    return f"{PREFIX}default/{number:06}"


def value(number: int, round_: int = 0) -> bytes:
    metadata = {"name": f"{number:06}", "namespace": "default", "labels": {"app": "web", "name": f"{number:06}"}}
    made = stored.encode({"metadata": metadata, "spec": {"round": round_, "text": ""}}, "g.io/v1", "Foo")
    return made.replace(b'"text":"', b'"text":"' + b"x" * (SIZE - len(made)))


class Measured:
    """held: bytes allocated within `measured()` and not freed."""

    held = 0


@contextmanager
def measured() -> Iterator[Measured]:
    found = Measured()
    gc.collect()
    tracemalloc.start()
    try:
        yield found
        gc.collect()
        found.held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


@pytest.fixture
async def cacher() -> AsyncIterator[Cacher[StoredObject]]:
    """A cacher of `COUNT` objects, not loaded yet. The keys are shared with the store, so they are not measured."""
    store = MemoryStorage()
    await store.start()
    for number in range(COUNT):
        await store.create(key(number), value(number))
    cacher = Cacher(store, PREFIX, make=stored.make, at=stored.at)
    yield cacher
    cacher.close()


def change(cacher: Cacher[StoredObject], number: int, round_: int) -> None:
    """Deliver the event of one change, as the store would; in round 0 the object is deleted."""
    revision = cacher.revision + 1
    new = value(number, round_) if round_ else None
    cacher.events([Event(revision, key(number), new, number + 2, None)], revision)


async def test_an_object(cacher: Cacher[StoredObject]) -> None:
    with measured() as load:
        await cacher.ready()
    assert COUNT * SIZE < load.held < COUNT * (SIZE + PER_OBJECT)


@pytest.mark.parametrize("labels", ["app=none", "name=none", "absent"], ids=["one value", "a value of each", "no value"])
async def test_an_index_takes_few_bytes_of_each_object(
    cacher: Cacher[StoredObject], monkeypatch: pytest.MonkeyPatch, labels: str
) -> None:
    """And the labels are not kept with the objects."""
    monkeypatch.setattr(indexes, "SMALLEST", 0)
    await cacher.ready()
    options = ListOptions(LabelSelector.parse(labels), FieldSelector.parse(""))
    with measured() as built:
        assert (await cacher.select(PREFIX, predicate(options, lambda obj: {}))).items == []
    assert len(cacher._indexes.all()) == 1
    assert built.held < COUNT * PER_LABEL + 10_000


async def test_a_change_keeps_what_it_replaced_and_nothing_of_its_watches(cacher: Cacher[StoredObject]) -> None:
    await cacher.ready()
    watch = await cacher.watch(PREFIX, after=cacher.revision)
    with measured() as changed:
        for number in range(COUNT):
            change(cacher, number, 1)
            for event in await anext(watch):
                event.frames["json"] = (b"x" * SIZE,)
            del event
    assert changed.held < COUNT * (SIZE + PER_CHANGE)


async def test_the_window_ends(cacher: Cacher[StoredObject], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "MAX_BYTES", 200 * SIZE)
    await cacher.ready()
    with measured() as changed:
        for round_ in (1, 2, 3, 0):
            for number in range(COUNT):
                change(cacher, number, round_)
    # All objects were deleted. What remains is the window, and the list slots of dropped changes.
    assert changed.held < 200 * (SIZE + PER_CHANGE) + changes.MIN_CHANGES * (SIZE + PER_CHANGE)
