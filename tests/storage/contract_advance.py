"""A store that is advanced, and what lies on both sides of the gap. Cases of `contract.py`."""

from __future__ import annotations

import pytest

from aggserver.storage.interface import Compacted, Storage
from tests.storage.suite import PODS, A, B, Recorder, Suite, follow, keys

__all__ = ["SUITE"]

SUITE = Suite()

GAP = 300  # more than a store compacts in one step, and few enough for a store that makes a write for each


@SUITE.case
async def a_store_advances_to_a_revision(store: Storage) -> None:
    target = await store.revision() + GAP
    reached = await store.advance(target)
    assert reached >= target
    assert await store.revision() >= reached
    assert (await store.list(PODS)).revision >= reached
    assert await store.create(A, b"1") > reached


@SUITE.case
async def a_store_never_goes_back(store: Storage) -> None:
    one = await store.create(A, b"1")
    for older in (0, one - 1, one):
        assert await store.advance(older) >= one
    assert [event.revision for event in await store.history(PODS, one - 1, await store.revision(), 100)] == [one]


@SUITE.case
async def subscriptions_reach_the_new_revision(store: Storage) -> None:
    recorder, _ = await follow(store, PODS, await store.revision())
    reached = await store.advance(await store.revision() + GAP)
    await recorder.reached(reached)
    two = await store.create(A, b"1")
    await recorder.reached(two)
    assert recorder.short() == [(two, A, b"1")]
    assert recorder.error is None


@SUITE.case
async def history_is_the_same_on_both_sides_of_a_gap(store: Storage) -> None:
    start = await store.revision()
    one = await store.create(A, b"1")
    two = await store.create(B, b"1")
    reached = await store.advance(two + GAP)
    three = await store.update(A, b"2", one)
    four = await store.delete(B, two)
    for at, found in ((start, []), (one, [b"1"]), (two, [b"1", b"1"]), (three, [b"2", b"1"]), (four, [b"2"])):
        assert [item.value for item in (await store.list(PODS, revision=at)).items] == found
    inside = two + GAP // 2
    for at in (inside, reached):
        assert [(item.key, item.value) for item in (await store.list(PODS, revision=at)).items] == [(A, b"1"), (B, b"1")]
    assert keys((await store.list(PODS, revision=inside, limit=1)).items) == [A]
    assert [event.revision for event in await store.history(PODS, start, four, 100)] == [one, two, three, four]
    assert [event.revision for event in await store.history(PODS, inside, four, 100)] == [three, four]
    assert [event.revision for event in await store.history(PODS, one, inside, 100)] == [two]
    for after, rest in ((one, [two, three, four]), (inside, [three, four]), (reached, [three, four])):
        recorder, _ = await follow(store, PODS, after)
        await recorder.reached(four)
        assert [event.revision for event in recorder.seen] == rest


@SUITE.case
async def a_store_is_compacted_to_within_a_gap(store: Storage) -> None:
    one = await store.create(A, b"1")
    two = await store.create(B, b"1")
    reached = await store.advance(two + GAP)
    three = await store.update(A, b"2", one)
    inside = two + GAP // 2
    await store.compact(inside)
    with pytest.raises(Compacted):
        await store.list(PODS, revision=two)
    with pytest.raises(Compacted):
        await store.watch(PODS, one, Recorder())
    for at in (inside, reached):
        assert [item.value for item in (await store.list(PODS, revision=at)).items] == [b"1", b"1"]
    recorder, _ = await follow(store, PODS, inside)
    await recorder.reached(three)
    assert recorder.short() == [(three, A, b"2")]
    await store.compact(three)
    four = await store.create(PODS + "default/c", b"1")
    await store.compact(four)
    assert [item.value for item in (await store.list(PODS)).items] == [b"2", b"1", b"1"]
    assert await store.advance(four + GAP) > four


@SUITE.case
async def a_store_advances_again_and_again(store: Storage) -> None:
    start = await store.revision()
    written = []
    for _ in range(5):
        reached = await store.advance(await store.revision() + 7)
        written.append(await store.create(f"{PODS}default/{reached}", b"1"))
        assert written[-1] > reached
    assert [event.revision for event in await store.history(PODS, start, await store.revision(), 100)] == written
