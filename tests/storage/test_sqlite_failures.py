"""Disk errors: writers get an error, everything else goes on, and memory never differs from the file."""

import asyncio
import resource
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from aggserver.storage.interface import Conflict, KeyExists, Storage, Unavailable
from aggserver.storage.sqlite import SQLiteStorage
from aggserver.storage.sqlite_maintenance import check
from tests.storage import contract

KEY = "/stable.example.com/crontabs/default/a"
VALUE = b'{"spec":{}}'


class Connection(sqlite3.Connection):
    """The writer's connection. `before` gets the statement of each commit, and may raise or return another one.

    `after` is called after the commit, and may raise.
    """

    before: Callable[[str], str] = staticmethod(lambda sql: sql)
    after: Callable[[], None] = staticmethod(lambda: None)

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        if not sql.startswith("INSERT"):
            return super().execute(sql, *arguments)
        done = super().execute(self.before(sql), *arguments)
        self.after()
        return done

    def executescript(self, sql: str) -> sqlite3.Cursor:
        return super().executescript(self.before(sql) if "UPDATE compaction" in sql else sql)


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> list[Connection]:
    """The writer's connection of an open store: the first one that it makes, after the one that creates the file."""
    connect, made = sqlite3.connect, []

    def recorded(*arguments: Any, **more: Any) -> sqlite3.Connection:
        if str(arguments[0]).endswith(".new"):
            return connect(*arguments, **more)
        connection = connect(*arguments, **more, **({} if made else {"factory": Connection}))
        made.append(connection)
        return connection

    monkeypatch.setattr("aggserver.storage.sqlite_file.sqlite3.connect", recorded)
    return made


@pytest.fixture
async def store(tmp_path: Path, writer: list[Connection]) -> AsyncIterator[SQLiteStorage]:
    store = SQLiteStorage(tmp_path / "store.db")
    await store.start()
    yield store
    await store.close()


def failing(code: int, text: str) -> Callable[..., Any]:
    def fail(*_: str) -> None:
        error = sqlite3.OperationalError(text)
        error.sqlite_errorcode = code
        raise error

    return fail


async def agrees(store: Storage, path: Path) -> None:
    """Memory agrees with the file: each key accepts a write with its newest revision in the file, and no other."""
    assert "is sound" in check(path, lambda line: None)
    page = await store.list("/")
    assert page.revision == await store.revision()
    for item in page.items:
        with pytest.raises(KeyExists) as caught:
            await store.create(item.key, VALUE)
        assert caught.value.current == item
        with pytest.raises(Conflict):
            await store.update(item.key, VALUE, item.revision + 1000)
        assert await store.update(item.key, VALUE, item.revision) == await store.revision()
    newest = await store.revision()
    assert newest == page.revision + len(page.items)
    assert f"revision {newest}," in check(path, lambda line: None)


CODES = {
    "disk full": (sqlite3.SQLITE_FULL, "database or disk is full", "make room on its disk"),
    "read-only": (sqlite3.SQLITE_READONLY, "attempt to write a readonly database", "is read-only"),
    "write": (sqlite3.SQLITE_IOERR_WRITE, "disk I/O error", "the system's log says more"),
    "sync": (sqlite3.SQLITE_IOERR_FSYNC, "disk I/O error", "the system's log says more"),
    "another program": (sqlite3.SQLITE_BUSY, "database is locked", "another program is writing to it"),
}


@pytest.mark.parametrize("code", CODES)
async def test_a_refused_commit(
    code: str, store: SQLiteStorage, writer: list[Connection], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    number, text, advice = CODES[code]
    first = await store.create(KEY, VALUE)
    recorder, _ = await contract.follow(store, "/", 1)
    writer[0].before = failing(number, text)
    for _ in range(2):
        with pytest.raises(Unavailable, match=advice):
            await store.update(KEY, VALUE, first)
    with pytest.raises(Unavailable, match=advice):
        await store.compact(first)
    assert (await store.get(KEY)) == (await store.list("/")).items[0]
    del writer[0].before
    await agrees(store, tmp_path / "store.db")
    assert [event.revision for event in recorder.seen] == [2, 3]
    told = [record.message for record in caplog.records]
    assert [line.split(":")[0] for line in told] == ["the store can't be written to", "the store accepts writes again"]


@pytest.mark.parametrize("known", ["at once", "later"])
async def test_a_commit_that_was_made_although_it_failed(
    known: str, store: SQLiteStorage, writer: list[Connection], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer gets an error that leaves the result open; the events are delivered, and the next write builds on them."""
    first = await store.create(KEY, VALUE)
    recorder, _ = await contract.follow(store, "/", 1)
    writer[0].after = failing(sqlite3.SQLITE_IOERR_FSYNC, "disk I/O error")
    with monkeypatch.context() as patch:
        if known == "later":
            patch.setattr("aggserver.storage.sqlite_writer.NEWEST", "SELECT unreadable")
        with pytest.raises(Unavailable, match="disk I/O error"):
            await store.update(KEY, b'{"spec":{"a":1}}', first)
        del writer[0].after
        if known == "later":
            with pytest.raises(Unavailable, match="unreadable"):
                await store.update(KEY, VALUE, first)
            assert len(recorder.seen) == 1
    with pytest.raises(Conflict):
        await store.update(KEY, VALUE, first)
    assert [event.value for event in recorder.seen] == [VALUE, b'{"spec":{"a":1}}']
    await agrees(store, tmp_path / "store.db")


async def test_a_compaction_that_breaks_off_half_way(store: SQLiteStorage, writer: list[Connection], tmp_path: Path) -> None:
    revision = await store.create(KEY, VALUE)
    for _ in range(5):
        revision = await store.update(KEY, VALUE, revision)
    writer[0].before = lambda sql: sql.replace("COMMIT", "SELECT unreadable")
    with pytest.raises(Unavailable, match="can't compact the store: no such column"):
        await store.compact(revision)
    del writer[0].before
    # A write that is acknowledged now is not part of that transaction.
    await agrees(store, tmp_path / "store.db")
    assert len(await store.history("/", 1, revision, 100)) == 6
    await store.compact(revision)
    await agrees(store, tmp_path / "store.db")


async def test_a_store_at_its_largest(store: SQLiteStorage, writer: list[Connection], tmp_path: Path) -> None:
    """SQLite's limit on the size of the file, which causes the error of a full disk."""
    first = await store.create(KEY, VALUE)
    writer[0].execute(f"PRAGMA max_page_count = {writer[0].execute('PRAGMA page_count').fetchone()[0] + 2}")
    results = await asyncio.gather(
        *(store.create(f"/g.io/foos/default/{n}", b'{"a":"' + b"x" * 9000 + b'"}') for n in range(5)), return_exceptions=True
    )
    assert {type(result) for result in results} == {Unavailable}
    assert "database or disk is full: make room on its disk" in str(results[0])
    assert await store.revision() == first
    writer[0].execute("PRAGMA max_page_count = 1000000")
    await agrees(store, tmp_path / "store.db")


async def test_a_store_that_turns_read_only(store: SQLiteStorage, writer: list[Connection], tmp_path: Path) -> None:
    first = await store.create(KEY, VALUE)
    writer[0].execute("PRAGMA query_only = 1")
    with pytest.raises(Unavailable, match="read-only; no restart is needed"):
        await store.update(KEY, VALUE, first)
    recorder, _ = await contract.follow(store, "/", 1)
    assert len(recorder.seen) == (await store.count("/")) == 1
    writer[0].execute("PRAGMA query_only = 0")
    await agrees(store, tmp_path / "store.db")


@contextmanager
def files_at_most(size: int) -> Iterator[None]:
    """The kernel lets this process write no file beyond `size`, which has the effect of a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_kernel_that_takes_no_more(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = SQLiteStorage(path)
    await store.start()
    first = await store.create(KEY, VALUE)
    with files_at_most(path.with_name("store.db-wal").stat().st_size):
        results = await asyncio.gather(
            *(store.create(f"/g.io/foos/default/{n}", b'{"a":"' + b"x" * 9000 + b'"}') for n in range(5)),
            store.update(KEY, VALUE, first),
            return_exceptions=True,
        )
        assert {type(result) for result in results} == {Unavailable}
        assert (await store.list("/")).revision == first
    await agrees(store, path)
    await store.close()
