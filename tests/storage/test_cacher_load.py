"""Loading of the watch cache: page by page, during writes and compactions."""

import gc
import weakref
from collections.abc import Awaitable, Callable

import pytest

from aggserver.storage import cacher as cacher_module
from aggserver.storage.cacher import Cacher
from aggserver.storage.interface import Page, Unavailable
from aggserver.storage.memory import MemoryStorage
from tests.storage.caching import PREFIX, Thing, at, make


class Interrupted(MemoryStorage):
    """A store whose lists can be interrupted: `then` runs once, after the next page."""

    def __init__(self) -> None:
        super().__init__()
        self.listed: list[int] = []
        self.then: Callable[[], Awaitable[object]] | None = None

    async def list(self, prefix: str, *, revision: int = 0, start: str = "", limit: int = 0, counted: bool = True) -> Page:
        page = await super().list(prefix, revision=revision, start=start, limit=limit, counted=counted)
        self.listed.append(page.revision)
        then, self.then = self.then, None
        if then is not None:
            await then()
        return page


@pytest.fixture
async def store(monkeypatch: pytest.MonkeyPatch) -> Interrupted:
    monkeypatch.setattr(cacher_module, "PAGE", 2)
    store = Interrupted()
    await store.start()
    for name in "abcde":
        await store.create(PREFIX + name, b"1")
    return store


@pytest.fixture
def cacher(store: Interrupted) -> Cacher[Thing]:
    return Cacher(store, PREFIX, make=make, at=at)


def held(cacher: Cacher[Thing]) -> str:
    return " ".join(item.key.removeprefix(PREFIX) + item.value for item in cacher.list(PREFIX).items)


async def test_a_load_of_several_pages_is_of_one_revision(store: Interrupted, cacher: Cacher[Thing]) -> None:
    async def write() -> None:
        await store.update(PREFIX + "d", b"2", 5)
        await store.delete(PREFIX + "e", 6)
        await store.create(PREFIX + "a1", b"2")

    store.then = write
    watch = await cacher.watch(PREFIX, after=6)
    assert store.listed == [6, 6, 6]
    # Writes during the load arrive as events, after the loaded state.
    assert [(event.type, event.revision) for event in await anext(watch)] == [("MODIFIED", 7), ("DELETED", 8), ("ADDED", 9)]
    assert held(cacher) == "a1 a12 b1 c1 d2"


async def test_a_load_overtaken_by_compaction_can_be_tried_again(store: Interrupted, cacher: Cacher[Thing]) -> None:
    async def compact() -> None:
        await store.compact(await store.update(PREFIX + "a", b"2", 2))

    store.then = compact
    with pytest.raises(Unavailable, match="took longer than the store keeps history"):
        await cacher.ready()
    await cacher.ready()
    assert held(cacher) == "a2 b1 c1 d1 e1"


class Cycle:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.itself = self


async def test_garbage_is_not_kept_with_what_is_loaded(store: Interrupted, cacher: Cacher[Thing]) -> None:
    """What is loaded is frozen, so that it is not scanned; what is frozen is never collected."""
    made: list[weakref.ref[Cycle]] = []

    async def leave_garbage() -> None:
        made.append(weakref.ref(Cycle()))

    store.then = leave_garbage
    try:
        await cacher.ready()
        gc.collect()
        assert [reference() for reference in made] == [None]
    finally:
        gc.unfreeze()
