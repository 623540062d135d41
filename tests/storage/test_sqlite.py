import asyncio
import sqlite3
import stat
import threading
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aggserver.storage import sqlite, sqlite_file
from aggserver.storage.interface import Compacted, KeyExists, KeyValue, Page, Unavailable
from aggserver.storage.sqlite import SQLiteStorage
from aggserver.storage.sqlite_maintenance import DamagedError, check
from tests.storage import contract, in_process
from tests.waiting import HANG_SECONDS

KEY = "/stable.example.com/crontabs/default/a"


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[SQLiteStorage]:
    store = SQLiteStorage(path)
    await store.start()
    try:
        yield store
    finally:
        await store.close()


def size_of(path: Path) -> int:
    return path.stat().st_size


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SQLiteStorage]:
    async with opened(path) as store:
        yield store


@pytest.mark.parametrize("case", [*contract.CASES, *in_process.SUITE], ids=lambda case: case.__name__)
async def test_contract(case: contract.Case, store: SQLiteStorage) -> None:
    await case(store)


async def test_what_was_written_is_there_again(path: Path) -> None:
    async with opened(path) as store:
        one = await store.create(KEY, b"1")
        two = await store.update(KEY, b"2", one)
        three = await store.create(KEY + "b", b"x")
        four = await store.delete(KEY + "b", three)
        await store.compact(two)
    async with opened(path) as store:
        assert await store.revision() == four
        assert await store.get(KEY) == KeyValue(KEY, b"2", one, two)
        with pytest.raises(Compacted):
            await store.list("/", revision=one)
        with pytest.raises(KeyExists):
            await store.create(KEY, b"3")
        assert await store.update(KEY, b"3", two) == four + 1
        recorder, _ = await contract.follow(store, "/", two)
        assert [event.revision for event in recorder.seen] == [three, four, four + 1]


async def test_a_gap_is_there_again(path: Path) -> None:
    """After a restart too, history is whole on both sides of a gap, from whichever revision it is read first."""
    async with opened(path) as store:
        one = await store.create(KEY, b'{"a":1}')
        two = await store.update(KEY, b'{"a":2}', one)
        assert await store.advance(1_000) == 1_000
        three = await store.update(KEY, b'{"a":3}', two)
        assert await store.advance(2_000) == 2_000
    assert "is sound" in check(path, lambda line: None)
    for start in (one, two, 500, 1_000, three, 1_500, 2_000):
        async with opened(path) as store:
            assert await store.revision() == 2_000
            for after in (start, one, 1_500, 500, one):
                found = [event.revision for event in await store.history("/", after, 2_000, 100)]
                assert found == [revision for revision in (one, two, 1_000, three, 2_000) if revision > after]
            value = 1 if start < two else 2 if start < three else 3
            assert [item.value for item in (await store.list("/stable.example.com/", revision=start)).items] == [
                b'{"a":%d}' % value
            ]
    async with opened(path) as store:
        await store.compact(1_500)
        assert await store.update(KEY, b'{"a":4}', three) == 2_001
    assert "is sound" in check(path, lambda line: None)
    async with opened(path) as store:
        assert [event.revision for event in await store.history("/", 1_600, 2_001, 100)] == [2_000, 2_001]


async def test_a_gap_that_nobody_made_is_damage(path: Path) -> None:
    async with opened(path) as store:
        one = await store.create(KEY, b'{"a":1}')
        two = await store.update(KEY, b'{"a":2}', one)
        await store.delete(KEY, two)
        await store.advance(1_000)
        await store.create(KEY, b'{"a":3}')
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM events WHERE revision > ? AND revision < 1000", (one,))
    connection.close()
    with pytest.raises(DamagedError, match="revisions are missing"):
        check(path, lambda line: None)
    async with opened(path) as store:
        with pytest.raises(Compacted):
            await store.history("/", one, 1_001, 100)
        assert [event.revision for event in await store.history("/", 1_000, 1_001, 100)] == [1_001]


async def test_a_compaction_takes_no_longer_for_a_gap(path: Path) -> None:
    async with opened(path) as store:
        await asyncio.gather(*(store.create(f"/g.io/foos/{n}", b"{}") for n in range(400)))
        far = await store.advance(1 << 60)
        await store.compact(far - 1)
        with pytest.raises(Compacted):
            await store.list("/", revision=401)
        assert len((await store.list("/g.io/foos/", revision=far - 1)).items) == 400
        await store.compact(far)
    assert "is sound" in check(path, lambda line: None)


async def test_a_revision_is_never_given_twice_even_if_its_deletion_is_compacted(path: Path) -> None:
    async with opened(path) as store:
        deleted = await store.delete(KEY, await store.create(KEY, b""))
        await store.compact(deleted)
    async with opened(path) as store:
        assert await store.create(KEY, b"") == deleted + 1


async def test_compaction_frees_what_it_may_in_many_steps(path: Path) -> None:
    async with opened(path) as store:
        await asyncio.gather(*(store.create(f"/g.io/foos/{n}", b"x") for n in range(1200)))
        page = await store.list("/")
        await asyncio.gather(*(store.delete(item.key, item.revision) for item in page.items[10:]))
        updated = await store.update(page.items[0].key, b"y", page.items[0].revision)
        await store.compact(updated)
        assert len((await store.list("/", revision=updated)).items) == 10
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM events").fetchone() == (10,)
    connection.close()


async def test_closing_answers_a_compaction_that_is_under_way(path: Path) -> None:
    store = SQLiteStorage(path)
    await store.start()
    await asyncio.gather(*(store.create(f"/g.io/foos/{n}", b"x") for n in range(1200)))
    under_way = asyncio.ensure_future(store.compact(await store.revision()))
    await asyncio.sleep(0)
    await store.close()
    (outcome,) = await asyncio.gather(under_way, return_exceptions=True)
    assert outcome is None or isinstance(outcome, Unavailable)


async def test_closing_finishes_what_was_asked(path: Path) -> None:
    store = SQLiteStorage(path)
    await store.start()
    writes = [asyncio.ensure_future(store.create(f"/g.io/foos/{n}", b"x")) for n in range(300)]
    await asyncio.sleep(0)
    await store.close()
    await store.close()
    assert sorted(await asyncio.gather(*writes)) == list(range(2, 302))
    for refused in (store.create(KEY, b""), store.list("/"), store.get(KEY), store.revision(), store.compact(1)):
        with pytest.raises(Unavailable):
            await refused


@pytest.mark.parametrize(("synchronous", "mode"), [("full", 2), ("normal", 1), ("off", 0)])
async def test_commits_wait_for_the_disk(synchronous: str, mode: int, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a power failure would show the difference: after a kill, the system still writes what the process wrote."""
    connect, made = sqlite3.connect, []

    def recorded(*arguments: Any, **more: Any) -> sqlite3.Connection:
        made.append(connect(*arguments, **more))
        return made[-1]

    monkeypatch.setattr(sqlite3, "connect", recorded)
    store = SQLiteStorage(path, synchronous)
    await store.start()
    writer = made[1]  # the first one creates the empty file
    assert writer.execute("PRAGMA synchronous").fetchone() == (mode,)
    assert made[2].execute("PRAGMA synchronous").fetchone() == (mode,)  # of the reader, which makes checkpoints
    assert writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    await store.close()


class Turns:
    """Block a thread until this many more writes were made."""

    def __init__(self) -> None:
        self._written = 0
        self._waiting: deque[tuple[int, threading.Event]] = deque()

    def wait(self, writes: int) -> None:
        passed = threading.Event()
        self._waiting.append((self._written + writes, passed))
        assert passed.wait(HANG_SECONDS)

    def write(self, writes: int = 1) -> None:
        self._written += writes
        while self._waiting and self._waiting[0][0] <= self._written:
            self._waiting.popleft()[1].set()


async def test_the_log_stays_small_while_lists_go_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With continuous lists the log always has a reader, so it grew by everything that was written."""
    monkeypatch.setattr(sqlite_file, "LOG_LIMIT", 1 << 20)
    turns, listed, largest, lists = Turns(), sqlite._list, 0, 0

    def long_list(*arguments: Any) -> Page:
        page = listed(*arguments)
        turns.wait(200)
        return page

    monkeypatch.setattr(sqlite, "_list", long_list)
    async with opened(path) as store:

        async def read() -> None:
            nonlocal lists
            while lists < 20:
                lists += 1
                await store.list("/g.io/foos/")

        async def write(worker: int) -> None:
            nonlocal largest
            number = 0
            while not reading.done():
                await store.create(f"/g.io/foos/{worker}-{number}", b"x" * 4000)
                number += 1
                turns.write()
                largest = max(largest, path.with_name("store.db-wal").stat().st_size)

        reading = asyncio.gather(read(), read())
        await asyncio.gather(reading, *(write(worker) for worker in range(16)))
        assert await store.revision() > 4000
    # 56 MB were written.
    assert largest < 24 << 20


async def test_a_backup_holds_the_log_while_it_lasts(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log can't be truncated while another process reads; the writers don't wait for it each time."""
    monkeypatch.setattr(sqlite_file, "LOG_LIMIT", 1 << 20)
    monkeypatch.setattr(sqlite_file, "LOG_KEPT", 1 << 19)
    monkeypatch.setattr(sqlite_file, "CHECKPOINT_WAIT_MS", 1)
    log = path.with_name("store.db-wal")
    async with opened(path) as store:

        async def write(name: str) -> None:
            await asyncio.gather(*(store.create(f"/g.io/foos/{name}-{n}", b"x" * 4000) for n in range(2000)))

        other = sqlite_file.open_to_read(path)
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM events").fetchone()
        await write("held")
        assert log.stat().st_size > 8 << 20
        other.close()
        for number in range(3):
            await write(f"after-{number}")
        assert log.stat().st_size < 8 << 20


async def test_objects_of_2_kb_leave_little_of_the_file_empty(path: Path) -> None:
    async with opened(path) as store:
        for number in range(500):
            await store.create(f"{KEY}{number}", bytes(2048))
    assert size_of(path) < 1.5 * 500 * 2048


async def test_the_file_is_for_its_owner_alone(path: Path, store: SQLiteStorage) -> None:
    await store.create(KEY, b"")
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


async def test_two_servers_cannot_share_a_file(path: Path, store: SQLiteStorage) -> None:
    with pytest.raises(Unavailable, match="in use by another server"):
        await SQLiteStorage(path).start()
    await store.create(KEY, b"")
    await store.close()
    async with opened(path) as next_store:
        assert await next_store.get(KEY) is not None


async def test_a_sink_that_fails_loses_only_its_own_subscription(store: SQLiteStorage, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(contract.Recorder):
        def events(self, batch: object, revision: int) -> None:
            raise ZeroDivisionError

    broken = Broken()
    await store.watch("/", 1, broken)
    recorder, _ = await contract.follow(store, "/", 1)
    await store.create(KEY, b"")
    assert isinstance(broken.error, Unavailable)
    assert len(recorder.seen) == 1
    assert "failed on an event" in caplog.text


async def test_the_room_is_on_the_disk_and_in_the_file(store: SQLiteStorage, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=1000 if folder == path.parent else 0))
    assert await store.room() == 1000
    revisions = [await store.create(f"{KEY}-{number}", b"x" * 100_000) for number in range(10)]
    for number, revision in enumerate(revisions):
        await store.delete(f"{KEY}-{number}", revision)
    assert await store.room() == 1000
    await store.compact(await store.revision())
    assert await store.room() > 900_000, "what a compaction has freed is used again"

    def gone(folder: Path) -> None:
        raise OSError(2, "No such file or directory")

    monkeypatch.setattr("shutil.disk_usage", gone)
    with pytest.raises(Unavailable, match="can't read the store: No such file"):
        await store.room()
