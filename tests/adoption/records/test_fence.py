"""Several servers on one store, of which one is told of a record later than the others, or never."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest

from aggserver.adoption.records.fence import RecordFence
from aggserver.adoption.records.journal import RECORDS, Journal
from aggserver.adoption.records.record import Phase, Record
from aggserver.meta.errors import StatusError
from aggserver.storage.interface import Precondition, PreconditionFailed
from aggserver.storage.memory import MemoryStorage

NAME = "crontabs.stable.example.com"
KEY = "/stable.example.com/crontabs/default/one"
RECORD = Record(
    "a.stable.example.com", {NAME: "uid"}, [("stable.example.com", "v1")], Phase.ADOPTED, False, "2026-01-01T00:00:00Z"
)


class Deaf(Journal):
    """Of a server that is not told what others write, as long as it was only held up."""

    def events(self, batch: object, revision: int) -> None:
        pass


@pytest.fixture
async def storage() -> MemoryStorage:
    made = MemoryStorage()
    await made.start()
    return made


@pytest.fixture
async def start() -> AsyncIterator[Callable[[Journal], Awaitable[Journal]]]:
    tasks = []

    async def running(journal: Journal) -> Journal:
        tasks.append(asyncio.create_task(journal.run()))
        await journal.ready()
        return journal

    yield running
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def fence(journal: Journal, *, has_own: bool = False) -> RecordFence:
    return RecordFence(journal, NAME, lambda name: has_own)


async def is_refused(call: Awaitable[Precondition | None]) -> bool:
    try:
        await call
    except StatusError as error:
        return error.code == 503 and error.retry_after == 1
    return False


# Phase -> whether writes are refused by the server that wrote the record, and by others.
PHASES = {
    Phase.SWITCHING: (True, True),
    Phase.ADOPTED: (False, False),
    Phase.GIVING_BACK: (False, True),
    Phase.SWITCHING_BACK: (True, True),
}


@pytest.mark.parametrize("phase", PHASES)
async def test_who_may_write(storage: MemoryStorage, start: Callable[[Journal], Awaitable[Journal]], phase: Phase) -> None:
    first, second = await start(Journal(storage)), await start(Journal(storage))
    await first.write(replace(RECORD, phase=phase))
    assert (await is_refused(fence(first).guard()), await is_refused(fence(second).guard())) == PHASES[phase]
    # After a restart it is another server.
    third = await start(Journal(storage))
    assert await is_refused(fence(third).guard()) == PHASES[phase][1]
    # Where all write to the same place, nothing need be refused.
    await first.write(replace(RECORD, phase=phase, shared=True))
    assert await fence(first).guard() is None
    assert await fence(second).guard() is None


async def test_a_server_that_was_not_told_writes_nothing(
    storage: MemoryStorage, start: Callable[[Journal], Awaitable[Journal]]
) -> None:
    first = await start(Journal(storage))
    await first.write(RECORD)
    second = await start(Deaf(storage))
    late = fence(second)
    guard = await late.guard()
    assert guard is not None
    created = await storage.create(KEY, b"1", guard)
    await first.write(replace(RECORD, phase=Phase.GIVING_BACK))
    assert await late.guard() == guard, "it does not know"
    for write in (storage.create(KEY + "-2", b"1", guard), storage.update(KEY, b"2", created, guard)):
        with pytest.raises(PreconditionFailed):
            await write
    with pytest.raises(PreconditionFailed):
        await storage.delete(KEY, created, guard)
    assert await is_refused(late.newest())
    assert await is_refused(late.guard()), "it has looked"
    own = await fence(first).guard()
    assert own is not None
    updated = await storage.update(KEY, b"2", created, own)
    # It stays adopted after all. The first server has lost its Lease, and another one took its place.
    third = await start(Journal(storage))
    await third.write(replace(RECORD, reason="it could not be given back"))
    again = await late.newest()
    assert again is not None
    await storage.update(KEY, b"3", updated, again)


async def test_what_has_gone_back_is_not_written(storage: MemoryStorage, start: Callable[[Journal], Awaitable[Journal]]) -> None:
    first = await start(Journal(storage))
    await first.write(RECORD)
    second = await start(Deaf(storage))
    guard = await fence(second).guard()
    await first.remove(RECORD.family)
    assert await is_refused(fence(first).guard())
    with pytest.raises(PreconditionFailed):
        await storage.create(KEY, b"1", guard)
    assert await is_refused(fence(second).newest())
    assert await fence(first, has_own=True).guard() is None, "it is served from a folder"


async def test_a_definition_that_leaves_its_record(
    storage: MemoryStorage, start: Callable[[Journal], Awaitable[Journal]]
) -> None:
    first = await start(Journal(storage))
    other = "others.stable.example.com"
    await first.write(replace(RECORD, uids={NAME: "uid", other: "uid"}))
    assert await fence(first).guard() == Precondition(RECORDS + RECORD.family, await storage.revision())
    await first.write(replace(RECORD, uids={other: "uid"}))
    assert await is_refused(fence(first).guard())
    assert first.holding(other) is not None
