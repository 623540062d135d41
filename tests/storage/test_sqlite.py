import asyncio
import resource
import sqlite3
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from aggserver.storage.interface import Compacted, KeyExists, KeyValue, Unavailable
from aggserver.storage.sqlite import SQLiteStorage
from tests.storage import contract, in_process

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


async def test_commits_wait_for_the_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill can't show it, since the system keeps what a process wrote; a power cut would."""
    connect, made = sqlite3.connect, []

    def recorded(*arguments: Any, **more: Any) -> sqlite3.Connection:
        made.append(connect(*arguments, **more))
        return made[-1]

    monkeypatch.setattr(sqlite3, "connect", recorded)
    async with opened(path):
        writer = made[0]
        assert writer.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
        assert writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)


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


def contents(path: Path) -> bytes:
    return path.read_bytes()


def fill(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def foreign(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE customers (name TEXT)")


def newer(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA user_version = 2")


REFUSED_FILES = {
    "another program's": (foreign, "is a database of another program"),
    "a newer version's": (newer, r"made by a newer version \(schema 2, known is 1\)"),
}


@pytest.mark.parametrize("name", REFUSED_FILES)
async def test_refused_files_stay_as_they_are(name: str, path: Path) -> None:
    change, message = REFUSED_FILES[name]
    if name != "another program's":
        async with opened(path):
            pass
    connection = sqlite3.connect(path, isolation_level=None)
    change(connection)
    connection.close()
    before = contents(path)
    with pytest.raises(Unavailable, match=message):
        await SQLiteStorage(path).start()
    assert contents(path) == before


async def test_a_file_that_is_no_database(path: Path) -> None:
    fill(path, b"apiVersion: v1\n" * 1000)
    with pytest.raises(Unavailable, match="file is not a database"):
        await SQLiteStorage(path).start()


async def test_a_folder_that_is_not_there(path: Path) -> None:
    with pytest.raises(Unavailable, match="No such file or directory"):
        await SQLiteStorage(path / "below").start()


@contextmanager
def files_at_most(size: int) -> Iterator[None]:
    """The kernel refuses this process bytes beyond `size` in any file, as a full disk would."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_full_disk_refuses_writes_and_nothing_else(path: Path) -> None:
    async with opened(path) as store:
        first = await store.create(KEY, b"1")
        recorder, _ = await contract.follow(store, "/", first)
        with files_at_most(path.with_name("store.db-wal").stat().st_size):
            results = await asyncio.gather(
                *(store.create(f"/g.io/foos/{n}", b"x" * 8000) for n in range(5)),
                store.update(KEY, b"2", first),
                return_exceptions=True,
            )
            assert {type(result) for result in results} == {Unavailable}
            assert "can't write to the store" in str(results[0])
            assert await store.get(KEY) == KeyValue(KEY, b"1", first, first)
            assert (await store.list("/")).revision == first
        assert recorder.seen == []
        assert await store.update(KEY, b"2", first) == first + 1
    async with opened(path) as store:
        assert [item.value for item in (await store.list("/")).items] == [b"2"]


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
