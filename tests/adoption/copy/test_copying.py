from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping

import pytest

from aggserver.adoption.copy.copying import AHEAD, KEPT_FREE, Copier, drop, needed
from aggserver.adoption.copy.source import StorageSource
from aggserver.adoption.records.record import CantCopy, Copied, HostChange, Mark, Moving, SourcePage, digest
from aggserver.storage.interface import Unavailable
from aggserver.storage.memory import MemoryStorage
from tests.adoption.hosts import PREFIX
from tests.fakes.clock import FakeClock, settled


class ListSource:
    """A source of given pages and changes."""

    def __init__(self, pages: list[SourcePage], changes: list[HostChange] | None = None, mark: Mark | None = None) -> None:
        self._pages = pages
        self.coming: asyncio.Queue[HostChange | None] = asyncio.Queue()
        for change in changes or ():
            self.coming.put_nowait(change)
        self._mark = mark or Mark(0, seen=True)
        self.left = False

    async def pages(self) -> AsyncGenerator[SourcePage]:
        for page in self._pages:
            yield page

    async def changes(self, after: int) -> AsyncGenerator[HostChange]:
        del after
        while (change := await self.coming.get()) is not None:
            yield change

    async def now(self) -> int:
        return self._mark.revision

    async def mark(self, seen: Mapping[str, int]) -> Mark:
        del seen
        return self._mark

    def leave(self) -> None:
        self.left = True


class Move:
    """A copier with a store, and what it has told."""

    def __init__(self, source: ListSource | StorageSource, own: MemoryStorage) -> None:
        self.progress: list[Moving] = []
        self.late: list[tuple[str, bool]] = []
        self.clock = FakeClock()
        self.kept = True
        self.copier = Copier(
            source,
            own,
            PREFIX,
            on_progress=self.progress.append,
            on_late=lambda change, copied: self.late.append((change.key.removeprefix(PREFIX), copied)),
            is_kept=self.is_kept,
            clock=self.clock,
            sleep=self.clock.sleep,
        )

    async def is_kept(self) -> bool:
        return self.kept


async def started(**values: bytes) -> MemoryStorage:
    store = MemoryStorage()
    await store.start()
    for name, value in values.items():
        await store.create(PREFIX + name, value)
    return store


async def content(store: MemoryStorage) -> dict[str, bytes]:
    return {item.key.removeprefix(PREFIX): item.value for item in (await store.list(PREFIX)).items}


def page(revision: int, remaining: int = 0, *, first: bool = False, **items: tuple[bytes, int]) -> SourcePage:
    return SourcePage([(PREFIX + name, value, at) for name, (value, at) in items.items()], revision, remaining, first)


async def test_all_pages_are_copied_and_what_was_left_is_replaced() -> None:
    own = await started(a=b"old", gone=b"x")
    await own.create("/stable.example.com/crontabs2/other", b"stays")
    move = Move(ListSource([page(9, 1, first=True, a=(b"one", 5), b=(b"two", 6)), page(9, c=(b"three", 7))]), own)
    await move.copier.copy()
    assert await content(own) == {"a": b"one", "b": b"two", "c": b"three"}
    assert (await own.get("/stable.example.com/crontabs2/other")) is not None
    assert [(each.objects, each.size, each.remaining) for each in move.progress] == [(2, 6, 1), (3, 11, 0)]
    expected = digest([(PREFIX + "a", 5), (PREFIX + "b", 6), (PREFIX + "c", 7)])
    assert await move.copier.copied(9) == Copied(9, 3, expected, await own.revision(), 11)


class SmallStorage(MemoryStorage):
    def __init__(self, room: int) -> None:
        super().__init__()
        self._room = room

    async def room(self) -> int | None:
        return self._room


@pytest.mark.parametrize(
    ("room", "written"),
    [
        pytest.param(KEPT_FREE + (12 << 20), ["a", "b", "c"], id="enough"),
        pytest.param(KEPT_FREE + (4 << 20), [], id="too little for what comes after the first page"),
        pytest.param(0, [], id="none"),
    ],
)
async def test_a_disk_that_others_need_is_not_filled(room: int, written: list[str]) -> None:
    own = SmallStorage(room)
    await own.start()
    large = b"x" * (2 << 20)
    move = Move(ListSource([page(9, 2, first=True, a=(large, 5)), page(9, b=(large, 6), c=(large, 7))]), own)
    if written:
        await move.copier.copy()
    else:
        text = f"the store has room for {room >> 20} MiB, and the copy needs about 7 MiB more and 64 MiB that stay free"
        with pytest.raises(CantCopy, match=text):
            await move.copier.copy()
    assert sorted(await content(own)) == written


def test_what_is_needed_for_a_copy() -> None:
    assert needed(page(9, a=(b"x" * 100, 5)), 1, 100) == 125
    assert needed(page(9, 8, a=(b"x" * 100, 5)), 2, 300) == (100 + 8 * 150) * 1.25
    assert needed(page(9), 0, 0) == 0


async def test_copies_are_newer_here_than_in_the_host() -> None:
    own, source = await started(a=b"old"), ListSource([page(70, first=True, a=(b"one", 60), b=(b"two", 65))])
    move = Move(source, own)
    await move.copier.copy()
    following = asyncio.create_task(move.copier.follow())
    for change in (HostChange(PREFIX + "b", b"more", 5000), HostChange(PREFIX + "c", b"three", 5001)):
        source.coming.put_nowait(change)
    await settled()
    revisions = {item.key.removeprefix(PREFIX): item.revision for item in (await own.list(PREFIX)).items}
    assert revisions["a"] > 70
    assert revisions["b"] > 5000
    assert revisions["c"] > 5001
    assert await own.revision() < 5001 + 2 * AHEAD
    following.cancel()


async def test_a_list_that_began_anew_does_not_keep_what_only_the_first_one_had() -> None:
    own = await started()
    pages = [page(5, 1, first=True, a=(b"one", 2), b=(b"two", 3)), page(9, first=True, a=(b"one", 2), c=(b"three", 8))]
    move = Move(ListSource(pages), own)
    await move.copier.copy()
    assert await content(own) == {"a": b"one", "c": b"three"}
    first = await own.get(PREFIX + "a")
    assert first is not None
    assert first.revision == first.create_revision, "what has not changed is not written again"
    assert (await move.copier.copied(9)).size == 8


async def test_changes_are_copied_in_order_and_the_end_of_them_is_known() -> None:
    host, own = await started(a=b'{"apiVersion":"g/v1","kind":"K","metadata":{}}'), await started()
    move = Move(StorageSource(host, PREFIX), own)
    await move.copier.copy()
    following = asyncio.create_task(move.copier.follow())
    revision = 2
    for number in range(20):
        value = b'{"apiVersion":"g/v1","kind":"K","metadata":{},"n":%d}' % number
        revision = await host.update(PREFIX + "a", value, revision)
        await host.create(f"{PREFIX}b-{number:02}", value)
        if number % 2:
            await host.delete(f"{PREFIX}b-{number:02}", revision + 1)
        revision = (await host.get(PREFIX + "a")).revision  # type: ignore[union-attr]
    assert await move.copier.caught_up() == await host.revision()
    assert await content(own) == await content(host)
    page_now = await host.list(PREFIX)
    copied = await move.copier.copied(await host.revision())
    assert copied.digest == digest((item.key, item.revision) for item in page_now.items)
    assert copied.size == sum(len(item.value) for item in page_now.items)
    following.cancel()


async def test_an_end_of_following_ends_whoever_waits_for_it() -> None:
    own = await started()
    source = ListSource([page(5, first=True)], mark=Mark(9, seen=False))
    move = Move(source, own)
    await move.copier.copy()
    following = asyncio.create_task(move.copier.follow())
    waiting = asyncio.create_task(move.copier.caught_up())
    await settled()
    await own.close()
    source.coming.put_nowait(HostChange(PREFIX + "a", b"x", 6))
    await settled()
    source.coming.put_nowait(HostChange("", None, 7))
    with pytest.raises(Unavailable):
        await waiting
    with pytest.raises(Unavailable):
        await following


async def test_near_waits_while_changes_arrive() -> None:
    own = await started()
    source = ListSource([page(5, first=True)], mark=Mark(9, seen=False))
    move = Move(source, own)
    await move.copier.copy()
    following = asyncio.create_task(move.copier.follow())
    await settled()
    waiting = asyncio.create_task(move.copier.near())
    for revision in (6, 7, 9):
        source.coming.put_nowait(HostChange(f"{PREFIX}{revision}", b"x", revision))
    await waiting
    assert move.clock.slept, "it has looked again"
    quiet = Move(ListSource([page(5, first=True)], mark=Mark(9, seen=False)), await started())
    await quiet.copier.copy()
    await quiet.copier.near()
    assert len(quiet.clock.slept) == 1, "nothing arrives, so nothing is awaited"
    following.cancel()


@pytest.mark.parametrize(
    ("ours", "change", "copied", "after"),
    [
        pytest.param("", HostChange(PREFIX + "a", b"late", 20), True, {"a": b"late", "b": b"b"}, id="an update"),
        pytest.param("", HostChange(PREFIX + "a", None, 20), True, {"b": b"b"}, id="a deletion"),
        pytest.param("", HostChange(PREFIX + "new", b"late", 20), True, {"a": b"a", "b": b"b", "new": b"late"}, id="a creation"),
        pytest.param("update", HostChange(PREFIX + "a", b"late", 20), False, {"a": b"ours", "b": b"b"}, id="written here since"),
        pytest.param(
            "update", HostChange(PREFIX + "a", None, 20), False, {"a": b"ours", "b": b"b"}, id="a deletion, written here"
        ),
        pytest.param("delete", HostChange(PREFIX + "a", b"late", 20), False, {"b": b"b"}, id="deleted here since"),
        pytest.param("delete", HostChange(PREFIX + "a", None, 20), True, {"b": b"b"}, id="deleted in both places"),
    ],
)
async def test_late_writes(ours: str, change: HostChange, copied: bool, after: dict[str, bytes]) -> None:
    own = await started()
    source = ListSource([page(9, first=True, a=(b"a", 5), b=(b"b", 6))])
    move = Move(source, own)
    await move.copier.copy()
    following = asyncio.create_task(move.copier.follow())
    moved = await move.copier.copied(9)
    move.copier.switched(moved)
    assert source.left
    current = await own.get(PREFIX + "a")
    assert current is not None
    if ours == "update":
        await own.update(PREFIX + "a", b"ours", current.revision)
    elif ours == "delete":
        await own.delete(PREFIX + "a", current.revision)
    source.coming.put_nowait(change)
    source.coming.put_nowait(None)
    await following
    assert move.late == [(change.key.removeprefix(PREFIX), copied)]
    assert await content(own) == after
    now = await move.copier.with_late(moved)
    assert (now.host_revision, now.own_revision) == (20, moved.own_revision)
    assert now.digest != moved.digest


async def test_a_second_late_write_of_an_object_is_copied_too() -> None:
    own = await started()
    source = ListSource([page(9, first=True, a=(b"a", 5))])
    move = Move(source, own)
    await move.copier.copy()
    move.copier.switched(await move.copier.copied(9))
    for revision, value in ((20, b"late"), (21, b"later")):
        source.coming.put_nowait(HostChange(PREFIX + "a", value, revision))
    source.coming.put_nowait(None)
    await move.copier.follow()
    assert move.late == [("a", True), ("a", True)]
    assert await content(own) == {"a": b"later"}


async def test_drop_deletes_exactly_the_prefix() -> None:
    own = await started(**{f"c-{number:03}": b"x" for number in range(300)})
    await own.create("/stable.example.com/crontabs2/other", b"stays")
    await drop(own, PREFIX)
    assert await content(own) == {}
    assert await own.count("/stable.example.com/") == 1


async def test_what_the_host_deletes_with_the_definition_is_no_late_write() -> None:
    own = await started()
    source = ListSource([page(9, first=True, a=(b"a", 5), b=(b"b", 6))])
    move = Move(source, own)
    await move.copier.copy()
    move.copier.switched(await move.copier.copied(9))
    move.kept = False
    for change in (HostChange(PREFIX + "a", None, 20), HostChange(PREFIX + "b", b"deletionTimestamp", 21), None):
        source.coming.put_nowait(change)
    await move.copier.follow()
    assert (move.late, await content(own)) == ([], {"a": b"a", "b": b"b"})
