"""The contract of `aggserver/storage/interface.py` as functions over an open, empty store: every backend passes all of them.

`CASES` lists them; a backend's test file is one line over it. Behaviour after k8s.io/apiserver pkg/storage/testing
(store_tests.go, watcher_tests.go) v0.36.3 and etcd's API, in our own cases.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from aggserver.storage.interface import (
    Compacted,
    Conflict,
    Event,
    FutureRevision,
    KeyExists,
    KeyValue,
    NotFound,
    Storage,
    StorageError,
    Subscription,
)

Case = Callable[[Storage], Awaitable[None]]
CASES: list[Case] = []

PODS = "/core/pods/"
A, B, C = (f"{PODS}default/{name}" for name in "abc")


def case(function: Case) -> Case:
    CASES.append(function)
    return function


class Recorder:
    """A sink that keeps what it gets and checks the order on the way."""

    def __init__(self) -> None:
        self.seen: list[Event] = []
        self.revision = 0
        self._progress = asyncio.Event()
        self.error: StorageError | None = None

    def events(self, batch: Sequence[Event], revision: int) -> None:
        for event in batch:
            assert event.revision > (self.seen[-1].revision if self.seen else 0)
            self.seen.append(event)
        assert revision >= max(self.revision, self.seen[-1].revision if self.seen else 0)
        self.revision = revision
        self._progress.set()

    def lost(self, error: StorageError) -> None:
        self.error = error

    async def reached(self, revision: int) -> None:
        while self.revision < revision:
            self._progress.clear()
            await self._progress.wait()

    def short(self) -> list[tuple[int, str, bytes | None]]:
        return [(event.revision, event.key, event.value) for event in self.seen]


async def follow(store: Storage, prefix: str, after: int) -> tuple[Recorder, Subscription]:
    recorder = Recorder()
    return recorder, await store.watch(prefix, after, recorder)


def keys(items: Sequence[KeyValue]) -> list[str]:
    return [item.key for item in items]


@case
async def empty_store_is_at_revision_one(store: Storage) -> None:
    assert await store.revision() == 1
    page = await store.list("/")
    assert (list(page.items), page.revision, page.more, page.remaining) == ([], 1, False, 0)
    assert await store.count("/") == 0
    assert await store.get(A) is None


@case
async def create_gives_the_first_revision_after_the_empty_store(store: Storage) -> None:
    assert await store.create(A, b"1") == 2
    assert await store.get(A) == KeyValue(A, b"1", 2, 2)
    assert await store.revision() == 2


@case
async def create_of_an_existing_key_shows_what_is_there(store: Storage) -> None:
    revision = await store.create(A, b"1")
    with pytest.raises(KeyExists) as refused:
        await store.create(A, b"2")
    assert refused.value.key == A
    assert refused.value.current == KeyValue(A, b"1", revision, revision)
    assert await store.revision() == revision


@case
async def update_keeps_the_creation_and_moves_the_revision(store: Storage) -> None:
    created = await store.create(A, b"1")
    updated = await store.update(A, b"2", created)
    assert updated > created
    assert await store.get(A) == KeyValue(A, b"2", created, updated)


@case
async def update_at_another_revision_conflicts_and_shows_the_newest(store: Storage) -> None:
    created = await store.create(A, b"1")
    updated = await store.update(A, b"2", created)
    for expected in (created, updated + 100):
        with pytest.raises(Conflict) as refused:
            await store.update(A, b"3", expected)
        assert refused.value.current == KeyValue(A, b"2", created, updated)
    assert await store.revision() == updated


@case
async def update_of_an_absent_key_is_not_found(store: Storage) -> None:
    with pytest.raises(NotFound) as refused:
        await store.update(A, b"1", 7)
    assert refused.value.key == A
    assert await store.get(A) is None


@case
async def delete_has_a_revision_of_its_own(store: Storage) -> None:
    created = await store.create(A, b"1")
    deleted = await store.delete(A, created)
    assert deleted > created
    assert await store.get(A) is None
    assert await store.revision() == deleted


@case
async def delete_at_another_revision_conflicts(store: Storage) -> None:
    created = await store.create(A, b"1")
    updated = await store.update(A, b"2", created)
    with pytest.raises(Conflict) as refused:
        await store.delete(A, created)
    assert refused.value.current == KeyValue(A, b"2", created, updated)
    assert await store.delete(A, updated) > updated


@case
async def delete_of_an_absent_key_is_not_found(store: Storage) -> None:
    created = await store.create(A, b"1")
    await store.delete(A, created)
    with pytest.raises(NotFound):
        await store.delete(A, created)


@case
async def a_key_made_again_is_a_new_one(store: Storage) -> None:
    first = await store.create(A, b"1")
    await store.delete(A, first)
    second = await store.create(A, b"2")
    assert await store.get(A) == KeyValue(A, b"2", second, second)
    with pytest.raises(Conflict):
        await store.update(A, b"3", first)


@case
async def one_counter_runs_over_all_keys(store: Storage) -> None:
    revisions = [
        await store.create("/g.io/foos/x", b""),
        await store.create(A, b""),
        await store.create("/g.io/bars/ns/x", b""),
    ]
    revisions.append(await store.delete(A, revisions[1]))
    assert revisions == sorted(set(revisions))


@case
async def values_are_bytes_of_any_kind(store: Storage) -> None:
    for number, value in enumerate((b"", b"\x00\xff" * 3, "grün".encode(), b"x" * 1_500_000)):
        key = f"{PODS}default/{number}"
        revision = await store.create(key, value)
        assert await store.get(key) == KeyValue(key, value, revision, revision)


@case
async def list_sorts_by_bytes_of_the_key(store: Storage) -> None:
    names = ["b/a", "a/b", "a-b/c", "a/a", "a.b/c", "aé/a", "a/é", "a\U0001f600/a", "a\uffee/a"]
    for name in names:
        await store.create(PODS + name, b"")
    page = await store.list(PODS)
    assert keys(page.items) == sorted((PODS + name for name in names), key=str.encode)


@case
async def list_stays_under_its_prefix(store: Storage) -> None:
    for key in ("/core/pod/a", A, "/core/pods/defaultx/a", "/core/podsx/default/a", "/core/pods0", "/core/pods/default/a/b"):
        await store.create(key, b"")
    assert keys((await store.list(f"{PODS}default/")).items) == [A, "/core/pods/default/a/b"]
    assert await store.count(f"{PODS}default/") == 2
    assert await store.count(PODS) == 3
    assert await store.count("/") == 6


@case
async def list_is_at_the_stores_revision_not_its_items(store: Storage) -> None:
    await store.create(A, b"")
    other = await store.create("/g.io/foos/x", b"")
    page = await store.list(PODS)
    assert page.revision == other
    assert page.items[0].revision < other


@case
async def list_in_pages(store: Storage) -> None:
    for name in "abcde":
        await store.create(f"{PODS}default/{name}", name.encode())
    first = await store.list(PODS, limit=2)
    assert (keys(first.items), first.more, first.remaining) == ([A, B], True, 3)
    second = await store.list(PODS, limit=2, start=B + "\0", revision=first.revision)
    assert (keys(second.items), second.more, second.remaining) == ([C, f"{PODS}default/d"], True, 1)
    last = await store.list(PODS, limit=2, start=f"{PODS}default/d\0", revision=first.revision)
    assert (keys(last.items), last.more, last.remaining) == ([f"{PODS}default/e"], False, 0)
    exact = await store.list(PODS, limit=5)
    assert (len(exact.items), exact.more, exact.remaining) == (5, False, 0)


@case
async def list_starts_at_a_key_inclusive_and_never_before_the_prefix(store: Storage) -> None:
    await store.create("/core/nodes/a", b"")
    for key in (A, B):
        await store.create(key, b"")
    assert keys((await store.list(PODS, start=B)).items) == [B]
    assert keys((await store.list(PODS, start="/")).items) == [A, B]
    assert keys((await store.list(PODS, start="/z")).items) == []


@case
async def list_at_an_old_revision_shows_the_state_then(store: Storage) -> None:
    states: dict[int, dict[str, bytes]] = {1: {}}
    heads: dict[str, int] = {}
    state: dict[str, bytes] = {}
    script = [("a", b"1"), ("b", b"2"), ("a", b"3"), ("c", b"4"), ("b", None), ("a", None), ("a", b"5"), ("b", b"6"), ("a", b"7")]
    for name, value in script:
        key = f"{PODS}default/{name}"
        if value is None:
            revision = await store.delete(key, heads.pop(key))
            del state[key]
        else:
            at = heads.get(key)
            revision = await (store.update(key, value, at) if at else store.create(key, value))
            heads[key], state[key] = revision, value
        states[revision] = dict(state)
    for revision, expected in states.items():
        page = await store.list(PODS, revision=revision)
        assert {item.key: item.value for item in page.items} == expected
        assert keys(page.items) == sorted(expected)
        assert all(item.create_revision <= item.revision <= revision for item in page.items)
        assert page.revision == revision
        for limit in (1, 2):
            part = await store.list(PODS, revision=revision, limit=limit)
            assert keys(part.items) == sorted(expected)[:limit]
            assert (part.more, part.remaining) == (len(expected) > limit, max(0, len(expected) - limit))


@case
async def a_paged_list_is_consistent_while_writes_go_on(store: Storage) -> None:
    for name in "abcd":
        await store.create(f"{PODS}default/{name}", b"old")
    first = await store.list(PODS, limit=2)
    await store.create(f"{PODS}default/bb", b"new")
    current = await store.get(C)
    assert current is not None
    await store.update(C, b"new", current.revision)
    gone = await store.get(f"{PODS}default/d")
    assert gone is not None
    await store.delete(gone.key, gone.revision)
    rest = await store.list(PODS, start=B + "\0", revision=first.revision)
    assert [(item.key, item.value) for item in rest.items] == [(C, b"old"), (gone.key, b"old")]


@case
async def list_in_the_future_is_refused(store: Storage) -> None:
    revision = await store.create(A, b"")
    with pytest.raises(FutureRevision) as refused:
        await store.list(PODS, revision=revision + 5)
    assert (refused.value.revision, refused.value.current) == (revision + 5, revision)


@case
async def watch_delivers_before_the_writer_returns(store: Storage) -> None:
    recorder, _ = await follow(store, PODS, 1)
    created = await store.create(A, b"1")
    assert recorder.short() == [(created, A, b"1")]
    assert recorder.revision == created
    updated = await store.update(A, b"2", created)
    deleted = await store.delete(A, updated)
    assert recorder.short()[1:] == [(updated, A, b"2"), (deleted, A, None)]
    assert [event.create_revision for event in recorder.seen] == [created] * 3


@case
async def watch_delivers_the_past_then_the_present(store: Storage) -> None:
    first = await store.create(A, b"1")
    second = await store.create(B, b"2")
    third = await store.delete(A, first)
    recorder, _ = await follow(store, PODS, first)
    assert recorder.short() == [(second, B, b"2"), (third, A, None)]
    fourth = await store.create(C, b"3")
    assert recorder.short()[2:] == [(fourth, C, b"3")]


@case
async def watch_from_the_beginning(store: Storage) -> None:
    revision = await store.create(A, b"1")
    recorder, _ = await follow(store, "/", 0)
    assert recorder.short() == [(revision, A, b"1")]


@case
async def watch_is_limited_to_its_prefix(store: Storage) -> None:
    await store.create("/core/pods/other/x", b"")
    recorder, _ = await follow(store, f"{PODS}default/", 1)
    wide, _ = await follow(store, "/", 1)
    for key in ("/core/pods/defaultx/a", A, "/core/podsx/default/a", "/g.io/pods/default/a"):
        await store.create(key, b"")
    assert [event.key for event in recorder.seen] == [A]
    assert len(wide.seen) == 5


@case
async def watch_reports_progress_when_asked(store: Storage) -> None:
    recorder, subscription = await follow(store, PODS, 1)
    revision = await store.create("/g.io/foos/x", b"")
    subscription.progress()
    async with asyncio.timeout(5):
        await recorder.reached(revision)
    assert recorder.seen == []


@case
async def watch_from_the_future_is_refused(store: Storage) -> None:
    with pytest.raises(FutureRevision):
        await store.watch(PODS, 99, Recorder())


@case
async def a_closed_subscription_is_silent(store: Storage) -> None:
    recorder, subscription = await follow(store, PODS, 1)
    other, _ = await follow(store, PODS, 1)
    subscription.close()
    subscription.close()
    await store.create(A, b"")
    assert recorder.seen == []
    assert len(other.seen) == 1


@case
async def list_then_watch_misses_and_repeats_nothing(store: Storage) -> None:
    async def write(name: str) -> None:
        for number in range(20):
            key = f"{PODS}{name}/{number}"
            revision = await store.create(key, b"1")
            revision = await store.update(key, b"2", revision)
            if number % 3 == 0:
                await store.delete(key, revision)

    async def copy() -> None:
        page = await store.list(PODS)
        recorder, _ = await follow(store, PODS, page.revision)
        copies.append(({item.key: item.value for item in page.items}, recorder))

    copies: list[tuple[dict[str, bytes], Recorder]] = []
    async with asyncio.TaskGroup() as group:
        for name in "abcdefgh":
            group.create_task(write(name))
            group.create_task(copy())
    await copy()
    expected = {item.key: item.value for item in (await store.list(PODS)).items}
    for state, recorder in copies:
        for event in recorder.seen:
            if event.value is None:
                del state[event.key]
            else:
                state[event.key] = event.value
        assert state == expected


@case
async def concurrent_writers_of_a_key_have_one_winner(store: Storage) -> None:
    results = await asyncio.gather(*(store.create(A, str(n).encode()) for n in range(20)), return_exceptions=True)
    winners = [result for result in results if isinstance(result, int)]
    assert len(winners) == 1
    assert sum(isinstance(result, KeyExists) for result in results) == 19
    current = await store.get(A)
    assert current is not None
    results = await asyncio.gather(*(store.update(A, b"n", current.revision) for _ in range(20)), return_exceptions=True)
    assert sum(isinstance(result, int) for result in results) == 1
    for result in results:
        if isinstance(result, Conflict):
            assert result.current.value == b"n"


@case
async def counters_by_compare_and_swap_lose_no_step(store: Storage) -> None:
    await store.create(A, b"0")

    async def step() -> None:
        current = await store.get(A)
        while current is not None:
            try:
                await store.update(A, str(int(current.value) + 1).encode(), current.revision)
            except Conflict as conflict:
                current = conflict.current
            else:
                return

    await asyncio.gather(*(step() for _ in range(25)))
    final = await store.get(A)
    assert final is not None
    assert final.value == b"25"


@case
async def a_refused_write_leaves_its_neighbours_alone(store: Storage) -> None:
    await store.create(A, b"1")
    results = await asyncio.gather(
        store.create(B, b"1"), store.create(A, b"2"), store.update(C, b"1", 1), store.create(C, b"1"), return_exceptions=True
    )
    assert [type(result) for result in results] == [int, KeyExists, NotFound, int]
    assert keys((await store.list(PODS)).items) == [A, B, C]


@case
async def writes_of_a_caller_are_in_the_order_asked(store: Storage) -> None:
    recorder, _ = await follow(store, PODS, 1)
    await asyncio.gather(*(store.create(f"{PODS}default/{n:03}", b"") for n in range(300)))
    assert [event.key for event in recorder.seen] == [f"{PODS}default/{n:03}" for n in range(300)]


@case
async def a_caller_that_gave_up_disturbs_nobody(store: Storage) -> None:
    async with asyncio.timeout(5):
        given_up = asyncio.ensure_future(store.create(A, b""))
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        await store.create(B, b"")
        assert B in keys((await store.list(PODS)).items)


@case
async def history_has_what_each_write_replaced(store: Storage) -> None:
    one = await store.create(A, b"1")
    await store.create("/g.io/foos/x", b"")
    two = await store.update(A, b"2", one)
    three = await store.delete(A, two)
    four = await store.create(A, b"4")
    assert list(await store.history(PODS, 1, four, 100)) == [
        Event(one, A, b"1", one, None),
        Event(two, A, b"2", one, KeyValue(A, b"1", one, one)),
        Event(three, A, None, one, KeyValue(A, b"2", one, two)),
        Event(four, A, b"4", four, None),
    ]
    assert [event.revision for event in await store.history(PODS, one, three, 100)] == [two, three]
    assert [event.revision for event in await store.history(PODS, 1, four, 2)] == [one, two]


@case
async def compaction_keeps_the_state_at_its_revision_and_all_after(store: Storage) -> None:
    one = await store.create(A, b"1")
    two = await store.create(B, b"1")
    three = await store.update(A, b"2", one)
    four = await store.delete(B, two)
    five = await store.update(A, b"3", three)
    await store.compact(three)
    for refused in (one, two):
        with pytest.raises(Compacted) as error:
            await store.list(PODS, revision=refused)
        assert (error.value.revision, error.value.oldest) == (refused, three)
    with pytest.raises(Compacted):
        await store.watch(PODS, one, Recorder())
    with pytest.raises(Compacted):
        await store.history(PODS, one, five, 100)
    assert [(item.key, item.value) for item in (await store.list(PODS, revision=three)).items] == [(A, b"2"), (B, b"1")]
    assert [(item.key, item.value) for item in (await store.list(PODS, revision=four)).items] == [(A, b"2")]
    assert [(item.key, item.value) for item in (await store.list(PODS)).items] == [(A, b"3")]
    recorder, _ = await follow(store, PODS, three)
    assert recorder.short() == [(four, B, None), (five, A, b"3")]
    (removal, update) = await store.history(PODS, three, five, 100)
    assert removal.previous == KeyValue(B, b"1", two, two)
    assert update.previous == KeyValue(A, b"2", one, three)


@case
async def compaction_never_goes_back(store: Storage) -> None:
    one = await store.create(A, b"1")
    two = await store.update(A, b"2", one)
    await store.compact(two)
    await store.compact(one)
    with pytest.raises(Compacted):
        await store.list(PODS, revision=one)
    with pytest.raises(FutureRevision):
        await store.compact(two + 1)


@case
async def a_compacted_deletion_does_not_take_its_revision_along(store: Storage) -> None:
    for _ in range(3):
        created = await store.create(A, b"1")
        deleted = await store.delete(A, created)
        await store.compact(deleted)
        assert await store.revision() == deleted
        assert (await store.list(PODS)).revision == deleted
    assert await store.create(A, b"2") == deleted + 1


@case
async def compaction_lets_running_subscriptions_be(store: Storage) -> None:
    recorder, _ = await follow(store, PODS, 1)
    one = await store.create(A, b"1")
    await store.compact(one)
    two = await store.update(A, b"2", one)
    assert recorder.short() == [(one, A, b"1"), (two, A, b"2")]
    assert recorder.error is None
