"""The store in one SQLite file: what was acknowledged survives a power cut, at thousands of writes a second.

Two tables: `events`, the append-only log that holds every value once, and `current`, which says for each key that exists which
event is its newest. Triggers keep the second in step with the first. Callers: `storage/cacher.py`, `registry/store.py`; made
by `app.py`.

One thread writes. It drains its queue, decides every compare-and-swap against an index in memory, and commits the whole batch
by ONE SQL statement in autocommit mode. One, for every statement gives up the interpreter's lock, and a thread that gets it
back from a busy event loop waits for at least the switch interval: with a statement a row, a busy loop let through 5 to 13 times
fewer batches. After the commit one callback on the loop delivers the events and then answers the writers, so that a writer who
returns reads its own write in whatever a subscription feeds.

Lists, counts and history run on a second thread with a connection of its own, `get` on the event loop with a third (10 us; a
hop between threads costs more). In WAL mode none waits for the writer.
Source: the contract in `interface.py`; sqlite.org/wal.html, sqlite.org/lang_createtrigger.html; the table of k3s-io/kine.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from aggserver.storage.interface import Compacted, Event, FutureRevision, KeyValue, Page, Sink, Subscription, Unavailable
from aggserver.storage.keys import prefix_end
from aggserver.storage.log import Feed, Write
from aggserver.storage.sqlite_writer import Writer

__all__ = ["SQLiteStorage"]

T = TypeVar("T")

APPLICATION_ID = 0x61676773  # "aggs", in the file's header: tells our files from other databases
SCHEMA_VERSION = 1

# `previous` is the revision that an event replaced, 0 for a creation: it is what lists at old revisions, history and compaction
# follow, so that none needs an index over (key, revision). `value` comes last: scans that don't need it don't read its pages.
_SCHEMA = """
CREATE TABLE events (
    revision INTEGER PRIMARY KEY, key TEXT NOT NULL, create_revision INTEGER NOT NULL, previous INTEGER NOT NULL, value BLOB
);
CREATE INDEX tombstones ON events (revision) WHERE value IS NULL;
CREATE TABLE current (
    key TEXT PRIMARY KEY, revision INTEGER NOT NULL, create_revision INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE compaction (revision INTEGER NOT NULL);
INSERT INTO compaction VALUES (0);
CREATE TRIGGER written AFTER INSERT ON events WHEN new.value IS NOT NULL BEGIN
    INSERT OR REPLACE INTO current VALUES (new.key, new.revision, new.create_revision);
END;
CREATE TRIGGER removed AFTER INSERT ON events WHEN new.value IS NULL BEGIN
    DELETE FROM current WHERE key = new.key;
END;
"""

# Bytes, of a new file: an object of 2 KB with its key leaves half of SQLite's own 4,096 empty.
_PAGE_SIZE = 8192

_GET = """
SELECT e.key, e.value, e.create_revision, e.revision FROM current c JOIN events e ON e.revision = c.revision WHERE c.key = ?
"""
_LIST = """
SELECT e.key, e.value, e.create_revision, e.revision FROM current c JOIN events e ON e.revision = c.revision
WHERE c.key >= ? AND c.key < ? ORDER BY c.key LIMIT ?
"""
_COUNT = "SELECT count(*) FROM current WHERE key >= ? AND key < ?"
# The state at an old revision: what hasn't been written since, and what the first later write of each key replaced.
# (SQLite takes a bare column from the row that has the min().)
_STATE_AT = """(
    SELECT key, revision FROM current WHERE key >= :start AND key < :end AND revision <= :at
    UNION ALL
    SELECT key, previous FROM (
        SELECT key, previous, min(revision) FROM events WHERE revision > :at AND key >= :start AND key < :end GROUP BY key
    ) WHERE previous > 0
)"""
_LIST_AT = f"""
SELECT e.key, e.value, e.create_revision, e.revision FROM (SELECT * FROM {_STATE_AT} ORDER BY key LIMIT :limit) s
JOIN events e ON e.revision = s.revision ORDER BY s.key
"""  # noqa: S608 - put together from constants
_COUNT_AT = f"SELECT count(*) FROM {_STATE_AT}"  # noqa: S608 - as above
_HISTORY = """
SELECT e.revision, e.key, e.value, e.create_revision, p.key, p.value, p.create_revision, p.revision
FROM events e LEFT JOIN events p ON p.revision = e.previous
WHERE e.revision > ? AND e.revision <= ? AND e.key >= ? AND e.key < ? ORDER BY e.revision LIMIT ?
"""
_NEWEST = "SELECT coalesce(max(revision), 1) FROM events"
_COMPACTED = "SELECT revision FROM compaction"


class SQLiteStorage:
    """A `Storage` in the file at `path`, which is made if it isn't there; beside it lie SQLite's `-wal` and `-shm`, and `.lock`.

    The file is on a local disk (WAL needs shared memory) and belongs to one server at a time.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = -1
        self._feed = Feed(1)
        self._writer: Writer | None = None
        self._local: sqlite3.Connection | None = None
        self._reading: sqlite3.Connection | None = None
        self._reader = ThreadPoolExecutor(1, "storage-read")

    async def start(self) -> None:
        try:
            self._lock = _lock(self._path)
            await asyncio.get_running_loop().run_in_executor(self._reader, self._open)
        except (OSError, sqlite3.Error) as error:
            await self.close()
            raise Unavailable(f"can't open the store {self._path}: {error}") from error
        except Unavailable:
            await self.close()
            raise
        assert self._writer is not None
        self._feed = Feed(self._writer.revision)
        self._writer.start(asyncio.get_running_loop(), self._feed)

    def _open(self) -> None:
        writing = _prepare(self._path)
        self._writer = Writer(writing)
        self._reading = _connect(self._path)
        self._local = _connect(self._path)
        self._writer.load()

    async def close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            await writer.stop()
        await asyncio.to_thread(self._reader.shutdown)
        for connection in (self._local, self._reading, writer.connection if writer else None):
            if connection is not None:
                connection.close()
        self._local = self._reading = None
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    async def revision(self) -> int:
        self._opened(self._writer)
        return self._feed.revision

    async def get(self, key: str) -> KeyValue | None:
        connection = self._opened(self._local)
        try:
            row = connection.execute(_GET, (key,)).fetchone()
        except sqlite3.Error as error:
            raise self._failed(error) from error
        return row and KeyValue(*row)

    async def list(self, prefix: str, *, revision: int = 0, start: str = "", limit: int = 0) -> Page:
        start, end = max(start, prefix), prefix_end(prefix)
        page = await self._read(lambda connection: _list(connection, start, end, revision, limit))
        # The commit may have come before its delivery: the caller may subscribe from this revision on.
        await self._feed.reached(page.revision)
        return page

    async def count(self, prefix: str) -> int:
        found: int = await self._read(lambda connection: connection.execute(_COUNT, (prefix, prefix_end(prefix))).fetchone()[0])
        return found

    async def create(self, key: str, value: bytes) -> int:
        return await self._opened(self._writer).write(Write(key, value, 0))

    async def update(self, key: str, value: bytes, expected: int) -> int:
        return await self._opened(self._writer).write(Write(key, value, expected))

    async def delete(self, key: str, expected: int) -> int:
        return await self._opened(self._writer).write(Write(key, None, expected))

    async def watch(self, prefix: str, after: int, sink: Sink) -> Subscription:
        self._opened(self._writer)
        return await self._feed.follow(prefix, after, sink, self.history)

    async def history(self, prefix: str, after: int, upto: int, limit: int) -> Sequence[Event]:
        return await self._read(lambda connection: _history(connection, prefix, after, upto, limit))

    async def compact(self, revision: int) -> None:
        if revision > self._feed.revision:
            raise FutureRevision(revision, self._feed.revision)
        await self._opened(self._writer).compact(revision)

    async def _read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Runs `query` in one read transaction, on the reader's thread."""
        connection = self._opened(self._reading)

        def run() -> T:
            connection.execute("BEGIN")
            try:
                return query(connection)
            finally:
                connection.execute("ROLLBACK")

        try:
            return await asyncio.get_running_loop().run_in_executor(self._reader, run)
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def _opened(self, part: T | None) -> T:
        if part is None:
            raise Unavailable(f"the store {self._path} is not open")
        return part

    def _failed(self, error: Exception) -> Unavailable:
        return Unavailable(f"can't read the store {self._path}: {error}")


def _list(connection: sqlite3.Connection, start: str, end: str, revision: int, limit: int) -> Page:
    (newest,) = connection.execute(_NEWEST).fetchone()
    if revision > newest:
        raise FutureRevision(revision, newest)
    if not revision or revision == newest:
        rows = connection.execute(_LIST, (start, end, limit or -1)).fetchall()
        total = connection.execute(_COUNT, (start, end)).fetchone()[0] if limit and len(rows) == limit else len(rows)
    else:
        _check_compaction(connection, revision)
        span = {"at": revision, "start": start, "end": end, "limit": limit or -1}
        rows = connection.execute(_LIST_AT, span).fetchall()
        total = connection.execute(_COUNT_AT, span).fetchone()[0] if limit and len(rows) == limit else len(rows)
    return Page([KeyValue(*row) for row in rows], revision or newest, total > len(rows), total - len(rows))


def _history(connection: sqlite3.Connection, prefix: str, after: int, upto: int, limit: int) -> list[Event]:
    _check_compaction(connection, after)
    rows = connection.execute(_HISTORY, (after, upto, prefix, prefix_end(prefix), limit))
    return [
        Event(revision, key, value, created, KeyValue(*replaced) if replaced[0] is not None else None)
        for revision, key, value, created, *replaced in rows
    ]


def _check_compaction(connection: sqlite3.Connection, revision: int) -> None:
    (compacted,) = connection.execute(_COMPACTED).fetchone()
    if revision < compacted:
        raise Compacted(revision, compacted)


def _lock(path: Path) -> int:
    """Takes the file for this server, by a lock on a file beside it (closing SQLite's own file would drop SQLite's locks).

    The kernel lets go of it when the process ends, however it ends. Returns its descriptor. Raises Unavailable, OSError.
    """
    descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise Unavailable(f"the store {path} is in use by another server") from None
    # Made here, not by SQLite, for its mode: other users of the machine don't read what the API guards.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    return descriptor


def _connect(path: Path) -> sqlite3.Connection:
    # Autocommit; the connections are handed between threads at start and at close, never used by two at once.
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256)


def _prepare(path: Path) -> sqlite3.Connection:
    """The writer's connection, to a file of the right kind. Raises Unavailable, sqlite3.Error."""
    connection = _connect(path)
    try:
        application, version, tables = (
            connection.execute(question).fetchone()[0]
            for question in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
        )
        if tables and application != APPLICATION_ID:
            raise Unavailable(f"{path} is a database of another program")
        if version > SCHEMA_VERSION:
            raise Unavailable(f"the store {path} was made by a newer version (schema {version}, known is {SCHEMA_VERSION})")
        connection.execute(f"PRAGMA page_size = {_PAGE_SIZE}")  # no effect on a file that has pages
        if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
            raise Unavailable(f"the store {path} can't be used safely: its file system doesn't allow a write-ahead log")
        connection.execute("PRAGMA synchronous = FULL")
        if not tables:
            connection.executescript(
                f"BEGIN; {_SCHEMA} PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
            )
    except BaseException:
        connection.close()
        raise
    return connection
