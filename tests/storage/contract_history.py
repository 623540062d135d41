"""History and compaction. Cases of `contract.py`."""

from __future__ import annotations

import pytest

from aggserver.storage.interface import Compacted, Event, FutureRevision, KeyValue, Storage
from tests.storage.suite import FAR, PODS, A, B, Recorder, Suite, follow

__all__ = ["SUITE"]

SUITE = Suite()


@SUITE.case
async def history_has_what_each_write_replaced(store: Storage) -> None:
    start = await store.revision()
    one = await store.create(A, b"1")
    await store.create("/g.io/foos/x", b"")
    two = await store.update(A, b"2", one)
    three = await store.delete(A, two)
    four = await store.create(A, b"4")
    assert list(await store.history(PODS, start, four, 100)) == [
        Event(one, A, b"1", one, None),
        Event(two, A, b"2", one, KeyValue(A, b"1", one, one)),
        Event(three, A, None, one, KeyValue(A, b"2", one, two)),
        Event(four, A, b"4", four, None),
    ]
    assert [event.revision for event in await store.history(PODS, one, three, 100)] == [two, three]
    assert [event.revision for event in await store.history(PODS, start, four, 2)] == [one, two]


@SUITE.case
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
        assert error.value.revision == refused
        assert refused < error.value.oldest <= three
        await store.list(PODS, revision=error.value.oldest)
    with pytest.raises(Compacted):
        await store.watch(PODS, one, Recorder())
    with pytest.raises(Compacted):
        await store.history(PODS, one, five, 100)
    assert [(item.key, item.value) for item in (await store.list(PODS, revision=three)).items] == [(A, b"2"), (B, b"1")]
    assert [(item.key, item.value) for item in (await store.list(PODS, revision=four)).items] == [(A, b"2")]
    assert [(item.key, item.value) for item in (await store.list(PODS)).items] == [(A, b"3")]
    recorder, _ = await follow(store, PODS, three)
    await recorder.reached(five)
    assert recorder.short() == [(four, B, None), (five, A, b"3")]
    (removal, update) = await store.history(PODS, three, five, 100)
    assert removal.previous == KeyValue(B, b"1", two, two)
    assert update.previous == KeyValue(A, b"2", one, three)


@SUITE.case
async def compaction_never_goes_back(store: Storage) -> None:
    one = await store.create(A, b"1")
    two = await store.update(A, b"2", one)
    await store.compact(two)
    await store.compact(one)
    with pytest.raises(Compacted):
        await store.list(PODS, revision=one)
    with pytest.raises(FutureRevision):
        await store.compact(two + FAR)


@SUITE.case
async def a_store_is_compacted_to_what_it_was_when_new(store: Storage) -> None:
    new = await store.revision()
    await store.compact(new)
    one = await store.create(A, b"1")
    two = await store.update(A, b"2", one)
    await store.compact(new)
    assert [event.revision for event in await store.history(PODS, new, two, 100)] == [one, two]
    await store.compact(two)
    with pytest.raises(Compacted):
        await store.list(PODS, revision=one)


@SUITE.case
async def a_compacted_deletion_does_not_take_its_revision_along(store: Storage) -> None:
    for _ in range(3):
        created = await store.create(A, b"1")
        deleted = await store.delete(A, created)
        await store.compact(deleted)
        assert await store.revision() >= deleted
        assert (await store.list(PODS)).revision >= deleted
    assert await store.create(A, b"2") > deleted


@SUITE.case
async def compaction_lets_running_subscriptions_be(store: Storage) -> None:
    recorder, _ = await follow(store, PODS, await store.revision())
    one = await store.create(A, b"1")
    await store.compact(one)
    two = await store.update(A, b"2", one)
    await recorder.reached(two)
    assert recorder.short() == [(one, A, b"1"), (two, A, b"2")]
    assert recorder.error is None
