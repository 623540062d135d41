"""Writes and their errors. Cases of `contract.py`."""

from __future__ import annotations

import asyncio

import pytest

from aggserver.storage.interface import Conflict, KeyExists, KeyValue, NotFound, Precondition, PreconditionFailed, Storage
from tests.storage.suite import FAR, PODS, A, B, C, Suite, keys
from tests.waiting import HANG_SECONDS

__all__ = ["SUITE"]

SUITE = Suite()


@SUITE.case
async def what_was_asked_for_is_settled(store: Storage) -> None:
    """Also the writes of callers that don't wait any more. Each has happened, or never will."""
    await store.settle()
    writers = [asyncio.create_task(store.create(f"{PODS}default/{number}", b"1")) for number in range(20)]
    await asyncio.sleep(0)
    for writer in writers[::2]:
        writer.cancel()
    await store.settle()
    settled = await store.list(PODS)
    assert {item.key for item in settled.items} >= {f"{PODS}default/{number}" for number in range(1, 20, 2)}
    await asyncio.gather(*writers, return_exceptions=True)
    after = await store.create(A, b"1")
    assert [event.key for event in await store.history(PODS, settled.revision, after, 100)] == [A]


@SUITE.case
async def create_makes_the_key_at_the_revision_returned(store: Storage) -> None:
    start = await store.revision()
    created = await store.create(A, b"1")
    assert created > start
    assert await store.get(A) == KeyValue(A, b"1", created, created)
    assert await store.revision() >= created


@SUITE.case
async def create_of_an_existing_key_shows_what_is_there(store: Storage) -> None:
    revision = await store.create(A, b"1")
    with pytest.raises(KeyExists) as refused:
        await store.create(A, b"2")
    assert refused.value.key == A
    assert refused.value.current == KeyValue(A, b"1", revision, revision)
    assert await store.get(A) == refused.value.current


@SUITE.case
async def update_keeps_the_creation_and_moves_the_revision(store: Storage) -> None:
    created = await store.create(A, b"1")
    updated = await store.update(A, b"2", created)
    assert updated > created
    assert await store.get(A) == KeyValue(A, b"2", created, updated)


@SUITE.case
async def update_at_another_revision_conflicts_and_shows_the_newest(store: Storage) -> None:
    created = await store.create(A, b"1")
    updated = await store.update(A, b"2", created)
    for expected in (created, updated + FAR):
        with pytest.raises(Conflict) as refused:
            await store.update(A, b"3", expected)
        assert refused.value.current == KeyValue(A, b"2", created, updated)
    assert await store.get(A) == KeyValue(A, b"2", created, updated)


@SUITE.case
async def update_of_an_absent_key_is_not_found(store: Storage) -> None:
    with pytest.raises(NotFound) as refused:
        await store.update(A, b"1", 7)
    assert refused.value.key == A
    assert await store.get(A) is None


@SUITE.case
async def a_guard_lets_writes_through_while_its_key_is_unchanged(store: Storage) -> None:
    guard = Precondition(B, await store.create(B, b"1"))
    created = await store.create(A, b"1", guard)
    updated = await store.update(A, b"2", created, guard)
    await store.update(B, b"2", guard.revision)
    for write in (store.update(A, b"3", updated, guard), store.create(C, b"1", guard), store.delete(A, updated, guard)):
        with pytest.raises(PreconditionFailed):
            await write
    assert await store.get(A) == KeyValue(A, b"2", created, updated)
    assert await store.get(C) is None
    found = await store.get(B)
    assert found is not None
    await store.delete(A, updated, Precondition(B, found.revision))
    assert await store.get(A) is None


@SUITE.case
async def a_guard_may_require_that_a_key_does_not_exist(store: Storage) -> None:
    created = await store.create(A, b"1", Precondition(B, 0))
    await store.create(B, b"1")
    with pytest.raises(PreconditionFailed):
        await store.update(A, b"2", created, Precondition(B, 0))


@SUITE.case
async def a_conflict_is_told_where_the_guard_is_met(store: Storage) -> None:
    guard = Precondition(B, await store.create(B, b"1"))
    created = await store.create(A, b"1", guard)
    with pytest.raises(Conflict):
        await store.update(A, b"2", created + FAR, guard)
    with pytest.raises(KeyExists):
        await store.create(A, b"2", guard)
    with pytest.raises(NotFound):
        await store.update(C, b"2", created, guard)
    with pytest.raises(Conflict):
        await store.delete(A, created + FAR, guard)
    with pytest.raises(NotFound):
        await store.delete(C, created, guard)


@SUITE.case
async def delete_has_a_revision_of_its_own(store: Storage) -> None:
    created = await store.create(A, b"1")
    deleted = await store.delete(A, created)
    assert deleted > created
    assert await store.get(A) is None
    assert await store.revision() >= deleted


@SUITE.case
async def delete_at_another_revision_conflicts(store: Storage) -> None:
    created = await store.create(A, b"1")
    updated = await store.update(A, b"2", created)
    with pytest.raises(Conflict) as refused:
        await store.delete(A, created)
    assert refused.value.current == KeyValue(A, b"2", created, updated)
    assert await store.delete(A, updated) > updated


@SUITE.case
async def delete_of_an_absent_key_is_not_found(store: Storage) -> None:
    created = await store.create(A, b"1")
    await store.delete(A, created)
    with pytest.raises(NotFound):
        await store.delete(A, created)


@SUITE.case
async def a_key_made_again_is_a_new_one(store: Storage) -> None:
    first = await store.create(A, b"1")
    await store.delete(A, first)
    second = await store.create(A, b"2")
    assert await store.get(A) == KeyValue(A, b"2", second, second)
    with pytest.raises(Conflict):
        await store.update(A, b"3", first)


@SUITE.case
async def one_counter_runs_over_all_keys(store: Storage) -> None:
    revisions = [
        await store.create("/g.io/foos/x", b""),
        await store.create(A, b""),
        await store.create("/g.io/bars/ns/x", b""),
    ]
    revisions.append(await store.delete(A, revisions[1]))
    assert revisions == sorted(set(revisions))


@SUITE.case
async def values_are_bytes_of_any_kind(store: Storage) -> None:
    for number, value in enumerate((b"", b"\x00\xff" * 3, "grün".encode(), b"x" * 1_500_000)):
        key = f"{PODS}default/{number}"
        revision = await store.create(key, value)
        assert await store.get(key) == KeyValue(key, value, revision, revision)


@SUITE.case
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


@SUITE.case
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


@SUITE.case
async def a_refused_write_leaves_its_neighbours_alone(store: Storage) -> None:
    await store.create(A, b"1")
    absent = f"{PODS}default/absent"
    results = await asyncio.gather(
        store.create(B, b"1"), store.create(A, b"2"), store.update(absent, b"1", 1), store.create(C, b"1"), return_exceptions=True
    )
    assert [type(result) for result in results] == [int, KeyExists, NotFound, int]
    assert keys((await store.list(PODS)).items) == [A, B, C]


@SUITE.case
async def a_caller_that_gave_up_disturbs_nobody(store: Storage) -> None:
    async with asyncio.timeout(HANG_SECONDS):
        given_up = asyncio.ensure_future(store.create(A, b""))
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        await store.create(B, b"")
        assert B in keys((await store.list(PODS)).items)
