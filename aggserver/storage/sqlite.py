"""The store in one SQLite file. Acknowledged writes survive a power failure, at thousands of writes per second.

There are two tables: `events`, the append-only log with every value, and `current`, the list of objects, with the newest event of
each key that exists. Triggers on `events` update `current`.

One thread writes. It takes all queued writes, decides every compare-and-swap with an index in memory, and commits the batch with
ONE SQL statement in autocommit mode. Every statement releases the GIL, and to get it back from a busy event loop a thread waits
for at least the switch interval: with a statement per row, a busy loop let through 5 to 13 times fewer batches. After the commit,
one callback on the loop delivers the events and then answers the writers, so that a writer finds its own write in the watch
cache.

Lists, counts and history run on a second thread with a connection of its own, `get` on the event loop with a third (10 us, less
than a switch of threads). In WAL mode readers do not wait for the writer.

What is read is verified by its checksum. A damaged value is returned with its `fault`; a damaged list of objects is rejected at
the start.
Source: `interface.py`; sqlite.org/wal.html, sqlite.org/lang_createtrigger.html; the table of k3s-io/kine.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn, TypeVar

from aggserver.storage.figures import StorageFigures
from aggserver.storage.interface import Event, FutureRevision, KeyValue, Page, Precondition, Sink, Subscription, Unavailable
from aggserver.storage.keys import prefix_end
from aggserver.storage.log import PendingWrite, Publisher
from aggserver.storage.sqlite_file import (
    NEWEST,
    Checkpointer,
    checked,
    connect,
    explain,
    file_size,
    is_marked,
    lock,
    mark,
    open_to_write,
)
from aggserver.storage.sqlite_history import History
from aggserver.storage.sqlite_writer import DamagedList, SQLiteWriter

__all__ = ["SQLiteStorage"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

# An outer join, so that an object whose event is lost is still listed, with a fault. Values are blobs, so the cast costs nothing;
# it keeps a value whose type was damaged from being decoded as text.
_VALUE_OF = "LEFT JOIN events e ON e.revision = c.revision"
_COLUMNS = "c.key, CAST(e.value AS BLOB), c.create_revision, c.revision, e.checksum"
_GET = f"SELECT {_COLUMNS} FROM current c {_VALUE_OF} WHERE c.key = ?"  # noqa: S608 - made of constants
_LIST = f"""
SELECT {_COLUMNS} FROM current c {_VALUE_OF} WHERE c.key >= ? AND c.key < ? ORDER BY c.key LIMIT ?
"""  # noqa: S608 - as above
_COUNT = "SELECT count(*) FROM current WHERE key >= :start AND key < :end"
# The state at an old revision: keys that were not written since, and what the first later write of each other key replaced.
# (SQLite takes a bare column from the row that has the min().)
_UNCHANGED = "SELECT key, revision, create_revision FROM current WHERE key >= :start AND key < :end AND revision <= :at"
_CHANGED = """
SELECT key, previous AS revision, create_revision FROM (
    SELECT key, previous, create_revision, min(revision) FROM events
    WHERE revision > :at AND key >= :start AND key < :end GROUP BY key
) WHERE previous > 0
"""
# Each half ends at the limit, so that a page costs what is in it and what was written since, not what comes after it.
_LIST_AT = f"""
SELECT {_COLUMNS} FROM (
    SELECT * FROM (
        SELECT * FROM ({_UNCHANGED} ORDER BY key LIMIT :limit) UNION ALL SELECT * FROM ({_CHANGED} ORDER BY key LIMIT :limit)
    ) ORDER BY key LIMIT :limit
) c {_VALUE_OF} ORDER BY c.key
"""  # noqa: S608 - as above
_COUNT_AT = f"SELECT count(*) FROM ({_UNCHANGED} UNION ALL SELECT * FROM ({_CHANGED}))"  # noqa: S608 - as above
_HISTORY = """
SELECT e.revision, e.key, e.create_revision, e.value IS NULL, CAST(e.value AS BLOB), e.checksum,
    e.previous, CAST(p.value AS BLOB), p.checksum
FROM events e LEFT JOIN events p ON p.revision = e.previous
WHERE e.revision > ? AND e.revision <= ? AND e.key >= ? AND e.key < ? ORDER BY e.revision LIMIT ?
"""


class SQLiteStorage:
    """A `Storage` in the file at `path`, which is created if it doesn't exist.

    The file must be on a local disk (WAL needs shared memory), and one server uses it at a time. synchronous: with `full`, each
    commit waits for the disk. With `normal` it does not: a power failure, but not a kill, may lose the last commits; it never
    damages the file. With `off`, nothing waits for the disk, and a power failure may damage the file.
    """

    def __init__(self, path: Path, synchronous: str = "full") -> None:
        self._path = path
        self._synchronous = synchronous
        self._lock = -1
        self._publisher = Publisher(1)
        self._writer: SQLiteWriter | None = None
        self._local: sqlite3.Connection | None = None
        self._reading: sqlite3.Connection | None = None
        self._checkpointer: Checkpointer | None = None
        self._history: History | None = None
        self._reader = ThreadPoolExecutor(1, "storage-read")

    async def start(self) -> None:
        try:
            self._lock = lock(self._path)
            await asyncio.get_running_loop().run_in_executor(self._reader, self._open)
        except (OSError, sqlite3.Error) as error:
            await self.close()
            raise Unavailable(f"can't open the store {self._path}: {explain(error)}") from error
        except Unavailable:
            await self.close()
            raise
        assert self._writer is not None
        assert self._checkpointer is not None
        self._publisher = Publisher(self._writer.revision)
        self._writer.start(asyncio.get_running_loop(), self._publisher, self._checkpointer)

    def _open(self) -> None:
        self._writer = SQLiteWriter(open_to_write(self._path, self._synchronous, was_there=is_marked(self._lock)))
        mark(self._lock)
        self._reading = connect(self._path)
        self._reading.execute(f"PRAGMA synchronous = {self._synchronous}")  # it makes checkpoints
        self._local = connect(self._path)
        self._checkpointer = Checkpointer(self._path, self._reading, self._reader)
        try:
            self._writer.load()
        except DamagedList:
            self._refuse_damaged()
        self._history = History(self._writer.revision)

    def _refuse_damaged(self) -> NoReturn:
        """Raises Unavailable with the keys that are damaged."""
        from aggserver.storage.sqlite_maintenance import (  # not needed for serving, so imported only here
            DamagedError,
            check,
        )

        try:
            check(self._path, logger.info)
        except DamagedError as error:
            raise Unavailable(str(error)) from None
        raise Unavailable(f"the store {self._path} is damaged: its list of objects does not match its checksum")

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

    def trouble(self) -> str | None:
        return None

    def figures(self) -> StorageFigures:
        writer = self._writer
        if writer is None:
            return StorageFigures()
        size, log_size = (file_size(Path(f"{self._path}{suffix}")) for suffix in ("", "-wal"))
        return StorageFigures(self._publisher.revision, writer.compacted, size, log_size, writer.figures)

    def location(self, key: str) -> str:
        return key

    async def revision(self) -> int:
        self._opened(self._writer)
        return self._publisher.revision

    async def get(self, key: str) -> KeyValue | None:
        connection = self._opened(self._local)
        try:
            row = connection.execute(_GET, (key,)).fetchone()
        except sqlite3.Error as error:
            raise self._failed(error) from error
        return row and checked(*row)

    async def list(self, prefix: str, *, revision: int = 0, start: str = "", limit: int = 0, counted: bool = True) -> Page:
        start, end = max(start, prefix), prefix_end(prefix)
        history, shared = self._opened(self._history), self._opened(self._writer).shared
        page = await self._read(lambda connection: _list(connection, history, shared, start, end, revision, limit, counted))
        # The write may be committed but not delivered yet. Wait, because the caller may subscribe from this revision.
        await self._publisher.reached(page.revision)
        return page

    async def count(self, prefix: str) -> int:
        found: int = await self._read(
            lambda connection: connection.execute(_COUNT, {"start": prefix, "end": prefix_end(prefix)}).fetchone()[0]
        )
        return found

    async def room(self) -> int | None:
        """The bytes that are free on the disk, and in the file itself."""
        try:
            return await self._read(lambda connection: _free(connection) + shutil.disk_usage(self._path.parent).free)
        except OSError as error:
            raise self._failed(error) from error

    async def create(self, key: str, value: bytes, guard: Precondition | None = None) -> int:
        return await self._opened(self._writer).write(PendingWrite(key, value, 0, guard))

    async def update(self, key: str, value: bytes, expected: int, guard: Precondition | None = None) -> int:
        return await self._opened(self._writer).write(PendingWrite(key, value, expected, guard))

    async def delete(self, key: str, expected: int, guard: Precondition | None = None) -> int:
        return await self._opened(self._writer).write(PendingWrite(key, None, expected, guard))

    async def advance(self, revision: int) -> int:
        return await self._opened(self._writer).advance(revision)

    async def settle(self) -> None:
        await self._opened(self._writer).advance(0)  # changes nothing, but the writer gets to it after all earlier writes

    async def watch(self, prefix: str, after: int, sink: Sink) -> Subscription:
        self._opened(self._writer)
        return await self._publisher.subscribe(prefix, after, sink, self.history)

    async def history(self, prefix: str, after: int, upto: int, limit: int) -> Sequence[Event]:
        history = self._opened(self._history)
        return await self._read(lambda connection: _history(connection, history, prefix, after, upto, limit))

    @property
    def oldest_kept(self) -> int:
        return self._opened(self._writer).compacted

    async def claim_compaction(self, revision: int) -> bool:
        return True

    async def compact(self, revision: int) -> None:
        if revision > self._publisher.revision:
            raise FutureRevision(revision, self._publisher.revision)
        await self._opened(self._writer).compact(revision)

    async def _read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """Run `query` in one read transaction, on the reader's thread."""
        connection, checkpointer = self._opened(self._reading), self._opened(self._checkpointer)

        def run() -> T:
            checkpointer.between_reads()
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
        return Unavailable(f"can't read the store: {explain(error)}")


def _free(connection: sqlite3.Connection) -> int:
    """The bytes of the file's free pages, which a compaction leaves."""
    (pages,), (size,) = (connection.execute(f"PRAGMA {name}").fetchone() for name in ("freelist_count", "page_size"))
    return int(pages) * int(size)


def _list(
    connection: sqlite3.Connection,
    history: History,
    shared: Callable[[str], str],
    start: str,
    end: str,
    revision: int,
    limit: int,
    counted: bool,
) -> Page:
    """shared: returns the text of a key that is in memory already; the watch cache would keep a second one."""
    (newest,) = connection.execute(NEWEST).fetchone()
    if revision > newest:
        raise FutureRevision(revision, newest)
    count, span = (limit + 1 if limit else -1), {"at": revision, "start": start, "end": end}
    if not revision or revision == newest:
        found = connection.execute(_LIST, (start, end, count)).fetchall()
        counting = _COUNT
    else:
        history.check(connection, revision)
        found = connection.execute(_LIST_AT, {**span, "limit": count}).fetchall()
        counting = _COUNT_AT
    rows = found[:limit] if limit else found
    more = len(found) > len(rows)
    remaining = connection.execute(counting, span).fetchone()[0] - len(rows) if more and counted else 0
    return Page([checked(shared(key), *row) for key, *row in rows], revision or newest, more, remaining)


def _history(connection: sqlite3.Connection, history: History, prefix: str, after: int, upto: int, limit: int) -> list[Event]:
    history.check(connection, after)
    return [_event(*row) for row in connection.execute(_HISTORY, (after, upto, prefix, prefix_end(prefix), limit))]


def _event(
    revision: int,
    key: str,
    created: int,
    deleted: int,
    value: bytes | None,
    checksum: int,
    previous: int,
    previous_value: bytes | None,
    previous_checksum: int | None,
) -> Event:
    replaced = checked(key, previous_value, created, previous, previous_checksum) if previous else None
    if deleted:
        return Event(revision, key, None, created, replaced)
    read = checked(key, value, created, revision, checksum)
    return Event(revision, key, read.value, created, replaced, read.fault)
