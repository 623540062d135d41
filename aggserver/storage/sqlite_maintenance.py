"""`aggserver storage`: check, backup, restore and compact, over the SQLite file of a data folder.

Called by `cli.py`. Each returns the line that says what was done, tells of long work by `say`, and raises StorageError or OSError
with a text for the person who asked. Check and backup read beside a running server; restore and compact want the file for
themselves.
Source: etcd's `etcdutl snapshot restore --bump-revision --mark-compacted`, sqlite.org/backup.html.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson

from aggserver.storage import keys
from aggserver.storage.interface import StorageError, Unavailable
from aggserver.storage.log import Head
from aggserver.storage.sqlite_file import COMPACTED, NEWEST, connect, explain, lock, open_to_read, open_to_write

__all__ = ["DamagedError", "backup", "check", "compact", "restore"]

COPY_PAGES = 2048  # pages of 8 KiB copied before the progress is told
TELL_EVENTS = 100_000  # events checked before the progress is told
MOST_PROBLEMS = 10  # problems told; a damaged page makes thousands

Say = Callable[[str], None]


class DamagedError(StorageError):
    """The store is not as the server left it; the text has the problems and what to do."""

    def __init__(self, path: Path, problems: list[str]) -> None:
        told = "; ".join(problems[:MOST_PROBLEMS]) + ("; and more" if len(problems) > MOST_PROBLEMS else "")
        super().__init__(f"the store {path} is damaged: {told}. Stop the server, keep a copy of the folder, and restore a backup")


def check(path: Path, say: Say) -> str:
    """SQLite's own check of all pages, and ours of what is in them. Raises DamagedError."""
    with _spoken(path), contextlib.closing(open_to_read(path)) as connection:
        say(f"checking the pages of {path} ({_megabytes(path.stat().st_size)})")
        try:
            found = [row[0] for row in connection.execute(f"PRAGMA integrity_check({MOST_PROBLEMS + 1})")]
            if found != ["ok"]:
                raise DamagedError(path, found)
            connection.execute("BEGIN")  # one state, whatever a server writes meanwhile
            contents = _Contents(connection, say)
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_CORRUPT:
                raise
            raise DamagedError(path, [str(error)]) from error
    if contents.problems:
        raise DamagedError(path, contents.problems)
    return f"{path} is sound: {contents.describe()}, {_megabytes(path.stat().st_size)}"


class _Contents:
    """One pass over all events, in order, which makes the current state again from them. `problems` is what doesn't hold."""

    def __init__(self, connection: sqlite3.Connection, say: Say) -> None:
        self.problems: list[str] = []
        self._heads: dict[str, Head] = {}
        self._resources: Counter[str] = Counter()
        compactions = [row[0] for row in connection.execute(COMPACTED)]
        if len(compactions) != 1:
            self.problems.append(f"the compacted revision is kept {len(compactions)} times")
        self._compacted = max(compactions, default=0)
        (self._newest,) = connection.execute(NEWEST).fetchone()
        (total,) = connection.execute("SELECT count(*) FROM events").fetchone()
        self._last = max(self._compacted, 1)
        rows = connection.execute("SELECT revision, key, create_revision, previous, value FROM events ORDER BY revision")
        for number, row in enumerate(rows):
            if number % TELL_EVENTS == 0 and number:
                say(f"checked {number} of {total} events")
            self._event(*row)
            if len(self.problems) > MOST_PROBLEMS:
                return
        self._compare({key: Head(*head) for key, *head in connection.execute("SELECT * FROM current")})

    def _event(self, revision: int, key: str, created: int, previous: int, value: bytes | None) -> None:
        head = self._heads.get(key)
        if revision <= self._compacted:
            # Of each key that existed at the compaction there is the one event that made it what it was.
            if head is not None or value is None:
                self._problem(revision, key, "is kept although it was compacted")
        else:
            if revision != self._last + 1:
                self._problem(revision, key, f"comes after {self._last}: revisions are missing")
            self._last = revision
            if previous != (head.revision if head else 0):
                self._problem(revision, key, f"says it replaced {previous}, which was at {head.revision if head else 0}")
            if created != (head.create_revision if head else revision):
                self._problem(revision, key, f"says the object was created at {created}")
        if value is None:
            self._heads.pop(key, None)
            return
        self._heads[key] = Head(revision, created)
        if not _is_object(value):
            self._problem(revision, key, "has a value that is no JSON object")

    def _compare(self, current: dict[str, Head]) -> None:
        """What lists read, with what the events make of it."""
        for key in sorted(self._heads.keys() | current.keys()):
            if self._heads.get(key) != current.get(key):
                at, stored = (head.revision if head else "absent" for head in (self._heads.get(key), current.get(key)))
                self.problems.append(f"{key} is {stored} in the list of objects and {at} by its events")
        for key in self._heads:
            try:
                group, resource, *_ = keys.split(key)
            except ValueError as error:
                self.problems.append(str(error))
            else:
                self._resources[f"{resource}.{group}" if group else resource] += 1

    def _problem(self, revision: int, key: str, text: str) -> None:
        self.problems.append(f"the event {revision} of {key} {text}")

    def describe(self) -> str:
        resources = ", ".join(f"{name} {count}" for name, count in sorted(self._resources.items()))
        return (
            f"objects: {len(self._heads)}{f' ({resources})' if resources else ''}; revision {self._newest}, "
            f"history since {max(self._compacted, 1)}"
        )


def _is_object(value: Any) -> bool:
    try:
        return isinstance(orjson.loads(value), dict)
    except orjson.JSONDecodeError:
        return False


def backup(path: Path, target: Path, say: Say) -> str:
    """Copies the store as it is at one moment to `target`, which must not be there."""
    if os.path.lexists(target):
        raise Unavailable(f"{target} is there already: give another name")
    with _spoken(path), contextlib.closing(open_to_read(path)) as source, _new_file(target) as temporary:
        _copy(source, temporary, say)
        size = temporary.stat().st_size
    return f"{target} is a backup of {path}, {_megabytes(size)}"


def restore(path: Path, source: Path, say: Say, bump: int) -> str:
    """Makes a backup the store at `path`, where none may be, `bump` revisions later and with no history.

    Clients have seen revisions that the backup doesn't have. Were the counter to go back, a watch from one of these would miss
    what is written until the counter is there again; so all before the raised one is marked compacted, and clients list anew.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _held(path):
        for file in (path, Path(f"{path}-wal")):
            if file.exists() and file.stat().st_size:
                raise Unavailable(f"there is a store already: move {file} away first, or give another folder with --data")
        check(source, say)
        path.unlink(missing_ok=True)
        with _spoken(source), contextlib.closing(open_to_read(source)) as opened, _new_file(path) as temporary:
            _copy(opened, temporary, say)
            with contextlib.closing(connect(temporary)) as connection:
                revision = _forget(connection, bump)
    return f"{path} is restored from {source}, at revision {revision}; clients that knew an older one list anew"


def compact(path: Path, say: Say) -> str:
    """Forgets all history, and gives the room back to the file system."""
    with _held(path):
        if not path.exists():
            raise Unavailable(f"there is no store at {path}")
        with _spoken(path), contextlib.closing(open_to_write(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            before = path.stat().st_size
            say(f"compacting {path} ({_megabytes(before)})")
            revision = _forget(connection, 0)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        after = path.stat().st_size
    return (
        f"{path} has no history before revision {revision}, and {_megabytes(after)} instead of {_megabytes(before)}; "
        "clients that knew an older one list anew"
    )


def _forget(connection: sqlite3.Connection, bump: int) -> int:
    """Leaves nothing but the current objects, in as little room as they need. Returns the revision, `bump` after the newest."""
    revision = int(connection.execute(NEWEST).fetchone()[0]) + bump
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("DELETE FROM events WHERE revision NOT IN (SELECT revision FROM current)")
    connection.execute("UPDATE compaction SET revision = ?", (revision,))
    connection.execute("COMMIT")
    connection.execute("VACUUM")
    return revision


def _copy(source: sqlite3.Connection, target: Path, say: Say) -> None:
    # The open transaction keeps to one state: without it a copy in steps begins anew whenever a server writes.
    source.execute("BEGIN")
    source.execute(NEWEST).fetchone()

    def progress(_status: int, remaining: int, total: int) -> None:
        if remaining:
            say(f"copied {total - remaining} of {total} pages")

    with contextlib.closing(connect(target)) as copy:
        copy.execute("PRAGMA synchronous = OFF")  # synced as a whole by `_new_file`
        source.backup(copy, pages=COPY_PAGES, progress=progress)
        # One file, without a log beside it, which can be read where nothing can be written.
        copy.execute("PRAGMA journal_mode = DELETE").fetchone()


@contextlib.contextmanager
def _new_file(path: Path) -> Iterator[Path]:
    """A file to be filled, which becomes `path` when the block has gone well: whole and on the disk, or not at all."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 0600
    temporary = Path(name)
    try:
        yield temporary
        os.fsync(descriptor)
        os.link(temporary, path)  # other than a rename, never replaces what is there
    finally:
        os.close(descriptor)
        temporary.unlink()
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextlib.contextmanager
def _held(path: Path) -> Iterator[None]:
    """The store is nobody else's meanwhile. Raises Unavailable if a server has it."""
    descriptor = lock(path)
    try:
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _spoken(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise Unavailable(f"can't use {path}: {explain(error)}") from error


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
