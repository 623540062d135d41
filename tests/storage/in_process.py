"""Additional guarantees of stores in this process: there are no other writers, and events are delivered before a write returns.

`test_memory.py` and `test_sqlite.py` run these cases. Source: `aggserver/storage/interface.py`.
"""

from __future__ import annotations

import asyncio

import pytest

from aggserver.storage.interface import Compacted, Storage, StorageError
from tests.storage.suite import FAR, PODS, A, B, Recorder, Suite, follow

__all__ = ["SUITE"]

SUITE = Suite()


@SUITE.case
async def the_empty_store_is_at_revision_one(store: Storage) -> None:
    assert await store.revision() == 1
    assert (await store.list("/")).revision == 1


@SUITE.case
async def revisions_are_counted_one_by_one(store: Storage) -> None:
    """And a rejected write has none."""
    assert await store.create(A, b"1") == 2
    assert await store.update(A, b"2", 2) == 3
    for refused in (store.create(A, b"3"), store.update(A, b"3", 2), store.delete(B, 2)):
        with pytest.raises(StorageError):
            await refused
    assert await store.delete(A, 3) == 4
    assert await store.revision() == 4


@SUITE.case
async def watch_delivers_before_the_writer_returns(store: Storage) -> None:
    recorder, _ = await follow(store, PODS, 1)
    created = await store.create(A, b"1")
    assert recorder.short() == [(created, A, b"1")]
    assert recorder.revision == created
    updated = await store.update(A, b"2", created)
    deleted = await store.delete(A, updated)
    assert recorder.short()[1:] == [(updated, A, b"2"), (deleted, A, None)]
    assert [event.create_revision for event in recorder.seen] == [created] * 3


@SUITE.case
async def writes_of_a_caller_are_in_the_order_asked(store: Storage) -> None:
    recorder, _ = await follow(store, PODS, 1)
    await asyncio.gather(*(store.create(f"{PODS}default/{n:03}", b"") for n in range(300)))
    assert [event.key for event in recorder.seen] == [f"{PODS}default/{n:03}" for n in range(300)]


@SUITE.case
async def a_watch_has_delivered_the_past_when_it_stands(store: Storage) -> None:
    first = await store.create(A, b"1")
    second = await store.delete(A, first)
    recorder, _ = await follow(store, PODS, 0)
    assert recorder.short() == [(first, A, b"1"), (second, A, None)]
    assert recorder.revision == second


@SUITE.case
async def progress_is_told_before_the_asking_returns(store: Storage) -> None:
    recorder, subscription = await follow(store, PODS, 1)
    revision = await store.create("/g.io/foos/x", b"")
    subscription.progress()
    assert (recorder.seen, recorder.revision) == ([], revision)


@SUITE.case
async def a_store_advances_in_one_step(store: Storage) -> None:
    """To exactly what was asked, however far; all subscriptions are told, also those whose keys are not concerned."""
    recorder, _ = await follow(store, PODS, 1)
    one = await store.create(A, b"1")
    assert await store.advance(one + FAR) == one + FAR
    assert (recorder.short(), recorder.revision) == ([(one, A, b"1")], one + FAR)
    assert await store.advance(one + FAR) == one + FAR
    assert await store.update(A, b"2", one) == one + FAR + 1
    both = await asyncio.gather(store.advance(one + 2 * FAR), store.update(A, b"3", one + FAR + 1), store.advance(one + 3 * FAR))
    assert both == [one + 2 * FAR, one + 2 * FAR + 1, one + 3 * FAR]
    assert recorder.short()[1:] == [(one + FAR + 1, A, b"2"), (one + 2 * FAR + 1, A, b"3")]
    assert recorder.revision == await store.revision() == one + 3 * FAR


@SUITE.case
async def the_oldest_revision_kept_is_the_compacted_one(store: Storage) -> None:
    one = await store.create(A, b"1")
    two = await store.update(A, b"2", one)
    await store.compact(two)
    for refused in (store.list(PODS, revision=one), store.watch(PODS, one, Recorder())):
        with pytest.raises(Compacted) as error:
            await refused
        assert (error.value.revision, error.value.oldest) == (one, two)
