"""The SQLite file of the store: its lock, checks before it is opened, its schema, and the size of its write-ahead log.

Beside the file are SQLite's `-wal` and `-shm` while it is open, and `.lock`, which also records that a store was created. An
invalid file is rejected unchanged; nothing is repaired here. A new file is created under another name and then renamed, so that
an empty file is never a valid store.
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

APPLICATION_ID = 0x61676773  # "aggs", in the file's header, to recognize our files

# The steps from an empty file to the newest schema. The file's user_version is the number of steps that it has had; the rest is
# run when it is opened, in one transaction. A released step is never changed. `previous` is the revision that an event replaced,
# 0 for a creation; because of it, lists at old revisions, history and compaction need no index over (key, revision). `value` is
# the last column, so that scans without it do not read its pages.
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
    # Checksums (`checksums.py`). For the events that a compaction has left, the only known state is the one at the compaction.
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
# The event of the newest revision may have been compacted away, so the counter is at least the revision of the compaction.
NEWEST = "SELECT max(1, (SELECT coalesce(max(revision), 0) FROM events), (SELECT revision FROM compaction))"
# The state (`checksums.py`) of the present list of objects.
STATE = """
SELECT coalesce(
    (SELECT state FROM events WHERE revision > (SELECT revision FROM compaction) ORDER BY revision DESC LIMIT 1),
    (SELECT state FROM compaction)
)
"""

# Bytes of the log (WAL) at which it is checkpointed and truncated between two reads. The writer's own checkpoint every 1,000
# pages keeps the log at 4.3 MB (16 writers: p99 5 ms), but can't restart it during a list, and so never if lists are continuous:
# the log had 659 MB after 8 s of 8,600 writes per second during lists of 100,000 objects of 2 KB. With this limit it has 32 MB
# with lists of 1,000 objects, 49 MB with lists of 20,000, and up to 140 MB with lists of 100,000, which is what is written during
# one such list.
LOG_LIMIT = 32 << 20
LOG_KEPT = 8 << 20  # bytes that stay allocated after a truncation, so that a compaction has room when the disk is full

# Bytes per page of a new file. With SQLite's default of 4,096, an object of 2 KB and its key would leave half of a page empty.
PAGE_SIZE = 8192

# How long a truncation waits for reads of other processes (a backup, a check). Writers wait too, so after a failure the
# truncation is not tried again before the log has grown by LOG_LIMIT.
CHECKPOINT_WAIT_MS = 200

_LOG_MAGIC = (0x377F0682, 0x377F0683)
_MARK = b"There is a store beside this file. To remove the store on purpose, remove this file too.\n"

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
    sqlite3.SQLITE_BUSY: "another program is writing to it; only one aggserver may use it",
}

_LOST = "put the file back or restore a backup (aggserver storage restore); to start with an empty store, remove"

_SYSTEM_ADVICE = {
    errno.EACCES: _PERMISSION,
    errno.EISDIR: "it must be a file; move the folder away, or give another one with --data",
    errno.ENOENT: "create the folder, or give another one with --data",
    errno.ENOSPC: _ADVICE[sqlite3.SQLITE_FULL],
    errno.EROFS: _ADVICE[sqlite3.SQLITE_READONLY],
}

logger = logging.getLogger(__name__)


def explain(error: Exception) -> str:
    """The error of SQLite or the system, and what to do about it, in one line."""
    if isinstance(error, OSError):
        text, advice = error.strerror or str(error), _SYSTEM_ADVICE.get(error.errno or 0)
    else:
        text, advice = str(error), _ADVICE.get(getattr(error, "sqlite_errorcode", 0) & 0xFF)
    return f"{text}: {advice}" if advice else text


def lock(path: Path) -> int:
    """Lock the store for this process. The lock is on a separate file, because closing SQLite's file would drop SQLite's locks.

    The kernel releases it when the process ends. Returns the lock's file descriptor. Raises Unavailable, OSError.
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
    """The state of a key as read, with a `fault` if its checksum differs. value: None if the event is missing."""
    if type(value) is bytes and value_sum(value, revision) == checksum:
        return KeyValue(key, value, create_revision, revision)
    if type(value) is not bytes:
        return KeyValue(key, b"", create_revision, revision, "its value is missing from the file")
    fault = f"the checksum of its value is {value_sum(value, revision):08x}, and was {checksum:08x} when it was written"
    return KeyValue(key, value, create_revision, revision, fault)


def is_marked(descriptor: int) -> bool:
    """Whether a store was created under this lock before."""
    return os.fstat(descriptor).st_size > 0


def mark(descriptor: int) -> None:
    """Record that there is a store, so that its loss is not mistaken for a first start."""
    if not is_marked(descriptor):
        os.pwrite(descriptor, _MARK, 0)


def connect(path: Path) -> sqlite3.Connection:
    # Autocommit. Connections are passed between threads at start and at close, but never used by two at the same time.
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256)


def open_to_write(
    path: Path, synchronous: str = "full", steps: Sequence[str] = STEPS, *, was_there: bool = False
) -> sqlite3.Connection:
    """A connection for writing. Creates the file or updates its schema if necessary. The caller must hold the lock.

    synchronous: `full`, `normal` or `off`, see sqlite.org/pragma.html#pragma_synchronous. was_there: the file must exist.
    Raises Unavailable, sqlite3.Error, OSError; then the file is unchanged.
    """
    _check_log(path)
    if not path.exists():
        if was_there:
            raise Unavailable(f"the store {path} was there and is missing now: {_LOST} {path}.lock")
        _make(path, steps, lasting=synchronous != "off")
    elif not path.stat().st_size:
        raise Unavailable(f"the store {path} is an empty file: {_LOST} it and {path}.lock")
    os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))  # its error is clearer than SQLite's
    connection = connect(path)
    try:
        version = _version(connection, path, len(steps))
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
            raise Unavailable(f"the store {path} can't be used safely: its file system doesn't allow a write-ahead log")
        connection.execute(f"PRAGMA journal_size_limit = {LOG_KEPT}")
        _migrate(connection, version, steps)
    except BaseException:
        connection.close()
        raise
    return connection


def _make(path: Path, steps: Sequence[str], *, lasting: bool) -> None:
    """Create an empty store, atomically. Its mode keeps other users of the machine from reading it.

    lasting: whether the file is synced to disk. A start waits for each sync, for half a second or more if others write much. So
    the file is synced once, as a whole, and is in WAL mode already, since SQLite syncs four times to change the mode later.
    """
    temporary = path.with_name(f"{path.name}.new")
    for suffix in ("", "-journal", "-wal", "-shm"):  # left by a start that was killed
        Path(f"{temporary}{suffix}").unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with contextlib.closing(connect(temporary)) as connection:
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")
            _migrate(connection, 0, steps)
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if lasting:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(temporary, path)
    if lasting:
        disk.sync_folder(path.parent)


def open_to_read(path: Path, *, older: bool = False) -> sqlite3.Connection:
    """A read-only connection, also while a server uses the store. older: accept an older schema.

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
            raise Unavailable(f"the store {path} was made by an older version: start the server once to update it")
    except BaseException:
        connection.close()
        raise
    return connection


def _check_log(path: Path) -> None:
    """Reject files that SQLite would treat as an empty log or an empty store, and overwrite. Raises Unavailable."""
    log = Path(f"{path}-wal")
    try:
        with log.open("rb") as file:
            header = file.read(32)
    except FileNotFoundError:
        return
    # A power failure may leave a log of zeros; then no write in it was acknowledged.
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
    """The file's schema version, 0 for an empty file. Raises Unavailable for another program's file, or a newer version."""
    application, version, tables = (
        connection.execute(question).fetchone()[0]
        for question in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
    )
    if tables and application != APPLICATION_ID:
        raise Unavailable(f"{path} is a database of another program: give another folder with --data")
    if version > known:
        raise Unavailable(
            f"the store {path} was made by a newer version (schema {version}, known is {known}): "
            "start that version, or restore a backup from this one"
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
        logger.info("the store was migrated from schema %d to %d", version, len(steps))


class Checkpointer:
    """Truncates the log between two reads when it exceeds LOG_LIMIT. `connection` is the reader's, `reader` its thread."""

    def __init__(self, path: Path, connection: sqlite3.Connection, reader: Executor) -> None:
        self._log = Path(f"{path}-wal")
        self._connection = connection
        self._reader = reader
        self._due = False
        self._limit = LOG_LIMIT
        # Held during a write. SQLite polls for its own lock, and rarely finds it free while a writer is busy.
        self.writing = threading.Lock()
        connection.execute(f"PRAGMA busy_timeout = {CHECKPOINT_WAIT_MS}")
        connection.execute(f"PRAGMA journal_size_limit = {LOG_KEPT}")

    def committed(self) -> None:
        """Call after each commit, on the writer's thread. Requests a truncation of the log if its file exceeds the limit."""
        if not self._due and self._size() > self._limit:
            self._due = True
            self._reader.submit(self.between_reads)

    def between_reads(self) -> None:
        """Call between reads, on the reader's thread: truncates the log if that is due, without waiting for the queued reads."""
        if not self._due:
            return
        try:
            # Most is copied while writers go on. They wait only for the rest, which is short.
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            with self.writing:
                (busy, _, _) = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            self._limit = self._size() + LOG_LIMIT if busy else LOG_LIMIT
        except sqlite3.Error as error:
            self._limit = self._size() + LOG_LIMIT
            logger.warning("truncating the store's log failed: %s", explain(error))
        finally:
            self._due = False

    def _size(self) -> int:
        return file_size(self._log)


def file_size(path: Path) -> int:
    """In bytes; 0 if there is no such file."""
    try:
        return path.stat().st_size
    except OSError:
        return 0
