"""The store's file: who may open it, which files are refused, its schema, and how its write-ahead log is kept small.

Used by `sqlite.py`, which serves from it, and by `sqlite_maintenance.py`, the commands. Beside the file lie SQLite's `-wal` and
`-shm` while it is open, and `.lock`, which also remembers that there was a store. A file that is not as it should be is refused
as it is: nothing here repairs. A new one is made under another name first, so that an empty file is never ours.
Source: sqlite.org/fileformat2.html (header, log), sqlite.org/wal.html, sqlite.org/rescode.html.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import sqlite3
import threading
from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path

from aggserver import disk
from aggserver.storage.checksums import head_sum, value_sum
from aggserver.storage.interface import KeyValue, Unavailable

__all__ = [
    "COMPACTED",
    "FILE_NAME",
    "NEWEST",
    "STATE",
    "Checkpointer",
    "checked",
    "connect",
    "explain",
    "is_marked",
    "lock",
    "mark",
    "open_to_read",
    "open_to_write",
]

FILE_NAME = "aggserver.db"  # in the folder of --data

APPLICATION_ID = 0x61676773  # "aggs", in the file's header: tells our files from other databases

# The steps that lead from an empty file to the newest schema. The file's user_version counts those it has had; the others are run
# at open, in one transaction. A step that has been released is never changed.
#
# `previous` is the revision that an event replaced, 0 for a creation: it is what lists at old revisions, history and compaction
# follow, so that none needs an index over (key, revision). `value` comes last: scans that don't need it don't read its pages.
STEPS = (
    """
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
""",
    # Checksums (`checksums.py`). Of what a compaction has left there is no state but the one at the compaction.
    """
ALTER TABLE events ADD COLUMN state INTEGER NOT NULL DEFAULT 0;
ALTER TABLE events ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
ALTER TABLE compaction ADD COLUMN state INTEGER NOT NULL DEFAULT 0;
UPDATE compaction SET state = (
    SELECT coalesce(sum(head_sum(key, events.revision, create_revision)), 0) & 4294967295
    FROM events WHERE events.revision <= compaction.revision AND value IS NOT NULL
);
UPDATE events SET state = states.state, checksum = value_sum(value, revision) FROM (
    SELECT revision AS at, (SELECT state FROM compaction) + sum(
        iif(value IS NULL, 0, head_sum(key, revision, create_revision))
        - iif(previous = 0, 0, head_sum(key, previous, create_revision))
    ) OVER (ORDER BY revision) & 4294967295 AS state
    FROM events WHERE revision > (SELECT revision FROM compaction)
) AS states WHERE events.revision = states.at;
UPDATE events SET checksum = value_sum(value, revision) WHERE revision <= (SELECT revision FROM compaction);
""",
)

COMPACTED = "SELECT revision FROM compaction"
# Compaction never passes the newest revision and may take its event away, so it is what the counter can't fall below.
NEWEST = "SELECT max(1, (SELECT coalesce(max(revision), 0) FROM events), (SELECT revision FROM compaction))"
# The sum that the list of objects must have now.
STATE = """
SELECT coalesce(
    (SELECT state FROM events WHERE revision > (SELECT revision FROM compaction) ORDER BY revision DESC LIMIT 1),
    (SELECT state FROM compaction)
)
"""

# What the log may come to before it is emptied between two reads. The writer's own checkpoint, each 1,000 pages, keeps it at
# 4.3 MB (16 writers: p99 5 ms), but it can't begin the log anew while a list is going on, so with lists back to back never:
# 659 MB after 8 s of 8,600 writes a second beside lists of 100,000 objects of 2 KB. With this limit: 32 MB beside lists of 1,000
# objects, 49 MB of 20,000, up to 140 MB of 100,000, which is what is written during one such list.
LOG_LIMIT = 32 << 20
LOG_KEPT = 8 << 20  # what stays allocated after it is begun anew, as room for a compaction when the disk is full

# Bytes, of a new file: an object of 2 KB with its key leaves half of SQLite's own 4,096 empty.
PAGE_SIZE = 8192

# How long an emptying waits for others' reads (a backup, a check). Writers wait as long, so it is seldom tried again: not before
# the log has grown by as much again.
CHECKPOINT_WAIT_MS = 200

_LOG_MAGIC = (0x377F0682, 0x377F0683)
_MARK = b"There is a store beside this file. Whoever removes the store on purpose removes this file too.\n"

_PERMISSION = "it and its folder must be readable and writable for the user who runs this"
_ADVICE = {
    sqlite3.SQLITE_FULL: "make room on its disk; no restart is needed",
    sqlite3.SQLITE_READONLY: "its file system or folder is read-only; no restart is needed once it can be written to",
    sqlite3.SQLITE_IOERR: "the disk may be full, read-only or broken; the system's log says more",
    sqlite3.SQLITE_CORRUPT: (
        "the file is damaged; restore a backup into another folder (aggserver storage restore), or save what is sound "
        "(aggserver storage check --repair)"
    ),
    sqlite3.SQLITE_NOTADB: "keep the file if it is yours, and give another folder with --data",
    sqlite3.SQLITE_CANTOPEN: _PERMISSION,
    sqlite3.SQLITE_BUSY: "another program is writing to it; only one aggserver may",
}

_LOST = "put the file back or restore a backup (aggserver storage restore); to begin anew, without what it held, remove"

_SYSTEM_ADVICE = {
    errno.EACCES: _PERMISSION,
    errno.EISDIR: "a file is wanted; move the folder away, or give another one with --data",
    errno.ENOENT: "make the folder, or give another one with --data",
    errno.ENOSPC: _ADVICE[sqlite3.SQLITE_FULL],
    errno.EROFS: _ADVICE[sqlite3.SQLITE_READONLY],
}

logger = logging.getLogger(__name__)


def explain(error: Exception) -> str:
    """The error in SQLite's or the system's words, and what to do about it, in one line."""
    if isinstance(error, OSError):
        text, advice = error.strerror or str(error), _SYSTEM_ADVICE.get(error.errno or 0)
    else:
        text, advice = str(error), _ADVICE.get(getattr(error, "sqlite_errorcode", 0) & 0xFF)
    return f"{text}: {advice}" if advice else text


def lock(path: Path) -> int:
    """Takes the file for this process, by a lock on a file beside it (closing SQLite's own file would drop SQLite's locks).

    The kernel lets go of it when the process ends, however it ends. Returns its descriptor. Raises Unavailable, OSError.
    """
    descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise Unavailable(
            f"the store {path} is in use by another server or command: stop that first, or give another --data"
        ) from None
    return descriptor


def checked(key: str, value: object, create_revision: int, revision: int, checksum: object) -> KeyValue:
    """What was read of a key, with its fault if it isn't what was written. value: None where the event itself is missing."""
    if type(value) is bytes and value_sum(value, revision) == checksum:
        return KeyValue(key, value, create_revision, revision)
    if type(value) is not bytes:
        return KeyValue(key, b"", create_revision, revision, "its value is missing from the file")
    fault = f"the checksum of its value is {value_sum(value, revision):08x}, and was {checksum:08x} when it was written"
    return KeyValue(key, value, create_revision, revision, fault)


def is_marked(descriptor: int) -> bool:
    """Whether a store has been opened under this lock before."""
    return os.fstat(descriptor).st_size > 0


def mark(descriptor: int) -> None:
    """Remembers that there is a store, so that its loss is not taken for a first start."""
    if not is_marked(descriptor):
        os.pwrite(descriptor, _MARK, 0)


def connect(path: Path) -> sqlite3.Connection:
    # Autocommit; the connections are handed between threads at start and at close, never used by two at once.
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256)


def open_to_write(
    path: Path, synchronous: str = "full", steps: Sequence[str] = STEPS, *, was_there: bool = False
) -> sqlite3.Connection:
    """A connection to a file of the newest schema, made if it isn't there. The caller holds the lock.

    synchronous: `full` or `normal`, as sqlite.org/pragma.html#pragma_synchronous has them. was_there: there must be one already.
    Raises Unavailable, sqlite3.Error, OSError; the file is then as it was.
    """
    _check_log(path)
    if not path.exists():
        if was_there:
            raise Unavailable(f"the store {path} was there and is missing now: {_LOST} {path}.lock")
        _make(path, steps)
    elif not path.stat().st_size:
        raise Unavailable(f"the store {path} is an empty file: {_LOST} it and {path}.lock")
    os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))  # says what is wrong in plainer words than SQLite
    connection = connect(path)
    try:
        version = _version(connection, path, len(steps))
        if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
            raise Unavailable(f"the store {path} can't be used safely: its file system doesn't allow a write-ahead log")
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute(f"PRAGMA journal_size_limit = {LOG_KEPT}")
        _migrate(connection, version, steps)
    except BaseException:
        connection.close()
        raise
    return connection


def _make(path: Path, steps: Sequence[str]) -> None:
    """An empty store: whole, or not at all. By its mode other users of the machine don't read what the API guards."""
    temporary = path.with_name(f"{path.name}.new")
    temporary.unlink(missing_ok=True)  # of a start that was killed
    os.close(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    with contextlib.closing(connect(temporary)) as connection:
        connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")
        _migrate(connection, 0, steps)
    os.rename(temporary, path)
    disk.sync_folder(path.parent)


def open_to_read(path: Path, *, older: bool = False) -> sqlite3.Connection:
    """A connection that can't write, beside a server or without one. older: an older schema will do.

    Raises Unavailable, sqlite3.Error, OSError.
    """
    if not path.exists():
        raise Unavailable(f"there is no store at {path}")
    _check_log(path)
    if not path.stat().st_size:
        raise Unavailable(f"the store {path} is an empty file: {_LOST} it and {path}.lock")
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)
    try:
        if _version(connection, path, len(STEPS)) < len(STEPS) and not older:
            raise Unavailable(f"the store {path} was made by an older version: start the server once, it brings it up to date")
    except BaseException:
        connection.close()
        raise
    return connection


def _check_log(path: Path) -> None:
    """Refuses what SQLite would take for an empty log, or an empty store, and write over."""
    log = Path(f"{path}-wal")
    try:
        with log.open("rb") as file:
            header = file.read(32)
    except FileNotFoundError:
        return
    # A power cut may leave zeros; then nothing in the log has been acknowledged.
    if not any(header):
        return
    if not path.exists() or not path.stat().st_size:
        raise Unavailable(
            f"the store {path} is missing or empty, but its log {log} is not: put the file back, or restore a backup"
        )
    if int.from_bytes(header[:4], "big") not in _LOG_MAGIC:
        raise Unavailable(
            f"the log {log} is damaged: restore a backup, or move the log away to go on without the last writes, "
            "and run `aggserver storage check`"
        )


def _version(connection: sqlite3.Connection, path: Path, known: int) -> int:
    """Of the file's schema, 0 for an empty file. Raises Unavailable for a file that is not ours, or of the future."""
    application, version, tables = (
        connection.execute(question).fetchone()[0]
        for question in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
    )
    if tables and application != APPLICATION_ID:
        raise Unavailable(f"{path} is a database of another program: give another folder with --data")
    if version > known:
        raise Unavailable(
            f"the store {path} was made by a newer version (schema {version}, known is {known}): "
            "start that version, or restore a backup of this one's"
        )
    return int(version)


def _migrate(connection: sqlite3.Connection, version: int, steps: Sequence[str]) -> None:
    if version == len(steps):
        return
    connection.create_function("head_sum", 3, head_sum, deterministic=True)
    connection.create_function("value_sum", 2, value_sum, deterministic=True)
    try:
        connection.executescript(
            f"BEGIN IMMEDIATE; {''.join(steps[version:])}"
            f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {len(steps)}; COMMIT;"
        )
    except sqlite3.Error:
        if connection.in_transaction:
            connection.rollback()
        raise
    if version:
        logger.info("the store was brought from schema %d to %d", version, len(steps))


class Checkpointer:
    """Empties the log between two reads when it has grown beyond LOG_LIMIT. `connection` is the one that reads, on `reader`."""

    def __init__(self, path: Path, connection: sqlite3.Connection, reader: Executor) -> None:
        self._log = f"{path}-wal"
        self._connection = connection
        self._reader = reader
        self._due = False
        self._limit = LOG_LIMIT
        # Held while somebody writes: SQLite's own lock is polled for, and a busy writer rarely leaves it free just then.
        self.writing = threading.Lock()
        connection.execute(f"PRAGMA busy_timeout = {CHECKPOINT_WAIT_MS}")
        connection.execute(f"PRAGMA journal_size_limit = {LOG_KEPT}")

    def committed(self) -> None:
        """For the writer's thread, after each commit. The file only shrinks when its log begins anew, so its size tells."""
        if not self._due and self._size() > self._limit:
            self._due = True
            self._reader.submit(self.between_reads)

    def between_reads(self) -> None:
        """For the reader's thread, while it reads nothing: what is queued behind a checkpoint that is due doesn't delay it."""
        if not self._due:
            return
        try:
            # The bulk of the copying beside the writers; what remains is short, and makes them wait.
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            with self.writing:
                (busy, _, _) = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            self._limit = self._size() + LOG_LIMIT if busy else LOG_LIMIT
        except sqlite3.Error as error:
            self._limit = self._size() + LOG_LIMIT
            logger.warning("the store's log could not be emptied: %s", explain(error))
        finally:
            self._due = False

    def _size(self) -> int:
        try:
            return os.stat(self._log).st_size
        except OSError:
            return 0
