from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from aggserver.adoption.records.journal import Journal
from aggserver.adoption.records.record import Phase, Record, encode
from aggserver.meta import codec
from aggserver.storage.interface import Conflict, KeyExists, Sink, Subscription, Unavailable
from aggserver.storage.memory import MemoryStorage
from tests.fakes.clock import FakeClock, until
from tests.fakes.damage import flip

KEY = "/aggserver/adoptions/a.x.io"


def record(family: str, phase: Phase = Phase.WAITING) -> Record:
    return Record(family, {family: "uid"}, [("x.io", "v1")], phase, shared=False, since="2026-01-01T00:00:00Z")


@asynccontextmanager
async def following(storage: MemoryStorage) -> AsyncIterator[tuple[Journal, list[int]]]:
    """A journal that is read, and how many records it had at each change."""
    seen: list[int] = []
    journal = Journal(storage, lambda: seen.append(len(journal.records)), FakeClock().sleep)
    task = asyncio.create_task(journal.run())
    await journal.ready()
    try:
        yield journal, seen
    finally:
        task.cancel()


async def started() -> MemoryStorage:
    storage = MemoryStorage()
    await storage.start()
    return storage


async def test_what_one_server_writes_others_are_told() -> None:
    storage = await started()
    async with following(storage) as (first, told_first), following(storage) as (second, told_second):
        await first.write(record("a.x.io"))
        await first.write(record("b.x.io"))
        await first.write(record("a.x.io", Phase.COPYING))
        await first.remove("b.x.io")
        await first.remove("b.x.io")
        await until(lambda: told_second == [0, 1, 2, 2, 1])
        assert first.records == second.records == {"a.x.io": record("a.x.io", Phase.COPYING)}
        assert told_first == [0, 1, 2, 2, 1], "each change once"
        assert second.get("b.x.io") is None


async def test_a_new_server_reads_what_is_there() -> None:
    storage = await started()
    async with following(storage) as (journal, _):
        assert journal.is_ready()
        await journal.write(record("a.x.io"))
    async with following(storage) as (journal, told):
        assert journal.records == {"a.x.io": record("a.x.io")}
        assert told == [1]


async def test_a_record_that_another_server_has_written_is_not_overwritten() -> None:
    storage = await started()
    behind = Journal(storage)
    async with following(storage) as (journal, _):
        await journal.write(record("a.x.io"))
        with pytest.raises(KeyExists):
            await behind.write(record("a.x.io"))
    async with following(storage) as (behind, _), following(storage) as (journal, _):
        page = await storage.list("/aggserver/adoptions/")
        behind.lost(Unavailable("the connection is lost"))
        await storage.update(page.items[0].key, b'{"damaged": true}', page.items[0].revision)
        with pytest.raises(Conflict):
            await journal.write(record("a.x.io", Phase.COPYING))


async def test_records_are_read_again_when_their_watch_is_lost() -> None:
    storage = await started()
    async with following(storage) as (other, _), following(storage) as (journal, told):
        await other.write(record("a.x.io"))
        journal.lost(Unavailable("the connection is lost"))
        await other.remove("a.x.io")
        await until(lambda: told and not journal.records)


async def test_definitions_are_kept() -> None:
    journal = Journal(storage := await started())
    crd = {"metadata": {"name": "a.x.io"}, "spec": {}}
    await journal.keep_definition(crd)
    revision = await storage.revision()
    await journal.keep_definition(crd)
    assert await storage.revision() == revision, "the same again writes nothing"
    changed = {**crd, "spec": {"group": "x.io"}}
    await journal.keep_definition(changed)
    assert await journal.definitions() == {"a.x.io": changed}
    await journal.forget_definition("a.x.io")
    await journal.forget_definition("a.x.io")
    assert await journal.definitions() == {}


async def test_a_damaged_copy_of_a_definition_is_left_out_and_made_anew() -> None:
    journal = Journal(storage := await started())
    crd = {"metadata": {"name": "a.x.io"}, "spec": {}}
    await journal.keep_definition(crd)
    flip(storage, "/aggserver/adopted/a.x.io")
    assert await journal.definitions() == {}
    await journal.keep_definition(crd)
    assert await journal.definitions() == {"a.x.io": crd}


@pytest.mark.parametrize("bit", [0, 100, 777])
async def test_a_damaged_record_is_told_until_it_is_put_right(bit: int, caplog: pytest.LogCaptureFixture) -> None:
    storage = await started()
    writer = Journal(storage)
    await writer.write(record("a.x.io"))
    await writer.write(record("b.x.io"))
    flip(storage, KEY, bit)
    async with following(storage) as (journal, _):
        assert set(journal.records) == {"b.x.io"}, "the others are known"
        assert str(journal.unreadable()) == journal.trouble()
        assert "`aggserver storage check --repair`" in (journal.trouble() or "")
        assert caplog.text.count(KEY) == 1
        journal.lost(Unavailable("the connection is lost"))
        await until(lambda: "followed" not in (journal.trouble() or ""))
        assert caplog.text.count(KEY) == 1
        damaged = await storage.get(KEY)
        assert damaged is not None
        await storage.update(KEY, codec.encode_json(encode(record("a.x.io"))), damaged.revision)
        assert set(journal.records) == {"a.x.io", "b.x.io"}
        assert (journal.unreadable(), journal.trouble()) == (None, None)


async def test_what_is_known_of_a_damaged_record_holds() -> None:
    storage = await started()
    async with following(storage) as (journal, _):
        await journal.write(record("a.x.io"))
        flip(storage, KEY)
        await journal.read()
        await journal.look("a.x.io")
        assert journal.records == {"a.x.io": record("a.x.io")}
        assert journal.unreadable() is None
        await journal.write(record("a.x.io", Phase.COPYING))
        assert (await Journal(storage).read(), journal.trouble()) == (3, None)


@pytest.mark.parametrize("fault", [KeyError("a"), asyncio.CancelledError(), Unavailable("no connection")], ids=repr)
async def test_records_are_followed_again_whatever_fails(fault: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = await started()
    async with following(storage) as (journal, _):
        faults, watch = [fault] * 3, storage.watch
        troubles: list[str | None] = []

        async def failing(prefix: str, after: int, sink: Sink) -> Subscription:
            troubles.append(journal.trouble())
            if faults:
                raise faults.pop()
            return await watch(prefix, after, sink)

        monkeypatch.setattr(storage, "watch", failing)
        journal.lost(Unavailable("the connection is lost"))
        await until(lambda: len(troubles) == 4)
        assert troubles[0] is None
        why = str(fault) if isinstance(fault, Unavailable) else repr(fault)
        assert all(trouble and why in trouble for trouble in troubles[1:])
        await until(lambda: journal.trouble() is None)
        await Journal(storage).write(record("a.x.io"))
        await until(lambda: journal.records)
