"""Events of subscriptions. Cases of `contract.py`."""

from __future__ import annotations

import asyncio

import pytest

from aggserver.storage.interface import FutureRevision, Storage, StorageError
from tests.storage.suite import FAR, PODS, A, B, C, Recorder, Suite, follow

__all__ = ["SUITE"]

SUITE = Suite()


@SUITE.case
async def watch_delivers_what_is_written(store: Storage) -> None:
    recorder, _ = await follow(store, PODS, await store.revision())
    created = await store.create(A, b"1")
    updated = await store.update(A, b"2", created)
    deleted = await store.delete(A, updated)
    await recorder.reached(deleted)
    assert recorder.short() == [(created, A, b"1"), (updated, A, b"2"), (deleted, A, None)]
    # For a deletion, not every store knows it without reading the deleted value.
    assert [event.create_revision for event in recorder.seen[:2]] == [created] * 2


@SUITE.case
async def watch_delivers_the_past_then_the_present(store: Storage) -> None:
    first = await store.create(A, b"1")
    second = await store.create(B, b"2")
    third = await store.delete(A, first)
    recorder, _ = await follow(store, PODS, first)
    await recorder.reached(third)
    assert recorder.short() == [(second, B, b"2"), (third, A, None)]
    fourth = await store.create(C, b"3")
    await recorder.reached(fourth)
    assert recorder.short()[2:] == [(fourth, C, b"3")]


@SUITE.case
async def watch_is_limited_to_its_prefix(store: Storage) -> None:
    before = await store.create("/core/pods/other/x", b"")
    recorder, _ = await follow(store, f"{PODS}default/", before)
    wide, _ = await follow(store, "/", before)
    written = ["/core/pods/defaultx/a", A, "/core/podsx/default/a", "/g.io/pods/default/a"]
    revisions = [await store.create(key, b"") for key in written]
    await recorder.reached(revisions[-1])
    await wide.reached(revisions[-1])
    assert [event.key for event in recorder.seen] == [A]
    assert [event.key for event in wide.seen] == written


@SUITE.case
async def watch_reports_progress_when_asked(store: Storage) -> None:
    recorder, _ = await follow(store, PODS, await store.revision())
    revision = await store.create("/g.io/foos/x", b"")
    await recorder.reached(revision)
    assert recorder.seen == []


@SUITE.case
async def watch_from_the_future_is_refused(store: Storage) -> None:
    revision = await store.revision()
    with pytest.raises(FutureRevision):
        await store.watch(PODS, revision + FAR, Recorder())


@SUITE.case
async def a_closed_subscription_is_silent(store: Storage) -> None:
    start = await store.revision()
    recorder, subscription = await follow(store, PODS, start)
    other, _ = await follow(store, PODS, start)
    subscription.close()
    subscription.close()
    created = await store.create(A, b"")
    await other.reached(created)
    assert other.short() == [(created, A, b"")]
    assert recorder.seen == []
    assert recorder.error is None


@SUITE.case
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
    page = await store.list(PODS)
    expected = {item.key: item.value for item in page.items}
    for state, recorder in copies:
        await recorder.reached(page.revision)
        for event in recorder.seen:
            if event.value is None:
                del state[event.key]
            else:
                state[event.key] = event.value
        assert state == expected


@SUITE.case
async def a_watch_sees_a_key_made_again_as_a_new_one(store: Storage) -> None:
    recorder, _ = await follow(store, PODS, await store.revision())
    first = await store.create(A, b"1")
    gone = await store.delete(A, first)
    second = await store.create(A, b"2")
    await recorder.reached(second)
    assert recorder.short() == [(first, A, b"1"), (gone, A, None), (second, A, b"2")]
    assert [event.create_revision for event in recorder.seen if event.value is not None] == [first, second]


@SUITE.case
async def what_is_refused_is_no_event(store: Storage) -> None:
    start = await store.revision()
    created = await store.create(A, b"1")
    for refused in (store.create(A, b"2"), store.update(A, b"2", created + FAR), store.delete(B, created)):
        with pytest.raises(StorageError):
            await refused
    last = await store.create(B, b"1")
    recorder, _ = await follow(store, PODS, start)
    await recorder.reached(last)
    assert recorder.short() == [(created, A, b"1"), (last, B, b"1")]


@SUITE.case
async def a_watch_goes_on_where_another_ended(store: Storage) -> None:
    whole, _ = await follow(store, PODS, await store.revision())
    before = whole
    parts: list[tuple[int, str, bytes | None]] = []
    for number in range(5):
        recorder, subscription = await follow(store, PODS, before.seen[-1].revision if before.seen else await store.revision())
        written = [await store.create(f"{PODS}default/{number}-{name}", b"") for name in "abc"]
        await recorder.reached(written[-1])
        subscription.close()
        parts += recorder.short()
        before = recorder
    await whole.reached(parts[-1][0])
    assert whole.short() == parts


@SUITE.case
async def all_watches_see_one_order(store: Storage) -> None:
    start = await store.revision()
    early, _ = await follow(store, PODS, start)

    async def write(name: str) -> None:
        revision = await store.create(f"{PODS}{name}/x", b"")
        for _ in range(10):
            revision = await store.update(f"{PODS}{name}/x", b"", revision)

    await asyncio.gather(*(write(name) for name in "abcde"))
    late, _ = await follow(store, PODS, start)
    newest = await store.revision()
    await early.reached(newest)
    await late.reached(newest)
    assert len(early.seen) == 55
    assert early.short() == late.short()
