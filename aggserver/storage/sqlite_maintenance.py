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

from aggserver import disk
from aggserver.storage import keys
from aggserver.storage.checksums import next_state
from aggserver.storage.interface import StorageError, Unavailable
from aggserver.storage.log import Head
from aggserver.storage.sqlite_file import (
    NEWEST,
    STATE,
    checked,
    connect,
    explain,
    lock,
    mark,
    open_to_read,
    open_to_write,
)

__all__ = [
    "BUMP",
    "EVENTS",
    "LISTED",
    "DamagedError",
    "as_text",
    "backup",
    "check",
    "compact",
    "held",
    "is_object",
    "restore",
    "spoken",
]

BUMP = 1_000_000_000  # revisions that a store is raised by, beyond all that clients have seen: etcd's own advice
COPY_PAGES = 2048  # pages of 8 KiB copied before the progress is told
TELL_EVENTS = 100_000  # events checked before the progress is told
# The casts are for damaged files, where a column may be anything.
EVENTS = """
SELECT revision, CAST(key AS TEXT), create_revision, previous, CAST(value AS BLOB), state, checksum FROM events ORDER BY revision
"""
LISTED = "SELECT CAST(key AS TEXT), CAST(revision AS INTEGER), create_revision FROM current ORDER BY key"

MOST_PROBLEMS = 10  # problems told; a damaged page makes thousands

Say = Callable[[str], None]


class DamagedError(StorageError):
    """The store is not as the server left it; the text has the problems and what to do."""

    def __init__(self, path: Path, problems: list[str]) -> None:
        told = "; ".join(problems[:MOST_PROBLEMS]) + ("; and more" if len(problems) > MOST_PROBLEMS else "")
        self.problems = problems
        super().__init__(
            f"the store {path} is damaged: {told}. Stop the server, keep a copy of the folder, and restore a backup; or save "
            "what is sound: aggserver storage check --repair"
        )


def check(path: Path, say: Say) -> str:
    """SQLite's own check of all pages, and ours of what is in them. Raises DamagedError."""
    with spoken(path), contextlib.closing(open_to_read(path)) as connection:
        say(f"checking the pages of {path} ({_megabytes(path.stat().st_size)})")
        found = [row[0] for row in connection.execute(f"PRAGMA integrity_check({MOST_PROBLEMS + 1})")]
        if found != ["ok"]:
            raise DamagedError(path, found)
        connection.execute("BEGIN")  # one state, whatever a server writes meanwhile
        connection.text_factory = as_text
        contents = _Contents(connection, say)
    if contents.problems:
        raise DamagedError(path, contents.problems)
    return f"{path} is sound: {contents.describe()}, {_megabytes(path.stat().st_size)}"


def is_damage(error: sqlite3.DatabaseError) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CORRUPT


def as_text(raw: bytes) -> str:
    """A damaged key is shown, not stumbled over."""
    return raw.decode(errors="replace")


class _Contents:
    """One pass over all events, in order, which makes the current state again from them. `problems` is what doesn't hold."""

    def __init__(self, connection: sqlite3.Connection, say: Say) -> None:
        self.problems: list[str] = []
        self._heads: dict[str, Head] = {}
        self._resources: Counter[str] = Counter()
        compactions = connection.execute("SELECT revision, state FROM compaction").fetchall()
        if len(compactions) != 1:
            self.problems.append(f"the compacted revision is kept {len(compactions)} times")
        self._compacted: int
        self._compacted, state = max(compactions, default=(0, 0))
        self._state = 0  # of the heads as far as they have come
        self._chained = False  # whether the first event after the compaction was seen
        (self._newest,) = connection.execute(NEWEST).fetchone()
        (total,) = connection.execute("SELECT count(*) FROM events").fetchone()
        self._last = max(self._compacted, 1)
        rows = connection.execute(EVENTS)
        for number, row in enumerate(rows):
            if number % TELL_EVENTS == 0 and number:
                say(f"checked {number} of {total} events")
            if row[0] > self._compacted and not self._chained:
                self._begin_chain(state)
            self._event(*row)
            if len(self.problems) > MOST_PROBLEMS:
                return
        if not self._chained:
            self._begin_chain(state)
        self._compare({key: Head(*head) for key, *head in connection.execute(LISTED)})

    def _begin_chain(self, state: int) -> None:
        self._chained = True
        if self._state != state:
            self.problems.append(f"the events up to the compaction at {self._compacted} are not those that were left there")
            self._state = state

    def _event(
        self, revision: int, key: str, created: int, previous: int, value: bytes | None, state: int, checksum: int
    ) -> None:
        head = self._heads.get(key)
        before = previous if revision > self._compacted else 0
        self._state = next_state(self._state, key, revision, created, before, deleted=value is None)
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
            if self._state != state:
                self._problem(revision, key, "doesn't follow from the events before it")
                self._state = state
        if value is None:
            self._heads.pop(key, None)
            return
        self._heads[key] = Head(revision, created)
        if fault := checked(key, value, created, revision, checksum).fault:
            self._problem(revision, key, f"is damaged: {fault}")
        elif not is_object(value):
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


def is_object(value: Any) -> bool:
    try:
        return isinstance(orjson.loads(value), dict)
    except orjson.JSONDecodeError:
        return False


def backup(path: Path, target: Path, say: Say) -> str:
    """Copies the store as it is at one moment to `target`, which must not be there."""
    if os.path.lexists(target):
        raise Unavailable(f"{target} is there already: give another name")
    with spoken(path), contextlib.closing(open_to_read(path)) as source, _new_file(target) as temporary:
        _copy(source, temporary, say)
        _check_copy(path, temporary, say)
        size = temporary.stat().st_size
    return f"{target} is a backup of {path}, {_megabytes(size)}"


def restore(path: Path, source: Path, say: Say, bump: int) -> str:
    """Makes a backup the store at `path`, where none may be, `bump` revisions later and with no history.

    Clients have seen revisions that the backup doesn't have. Were the counter to go back, a watch from one of these would miss
    what is written until the counter is there again; so all before the raised one is marked compacted, and clients list anew.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with held(path) as marked:
        for file in (path, Path(f"{path}-wal")):
            if file.exists() and file.stat().st_size:
                raise Unavailable(f"there is a store already: move {file} away first, or give another folder with --data")
        path.unlink(missing_ok=True)
        with spoken(source), contextlib.closing(open_to_read(source, older=True)) as opened, _new_file(path) as temporary:
            _copy(opened, temporary, say)
            opened.close()
            open_to_write(temporary).close()  # brings the copy up to date
            _check_copy(source, temporary, say)
            with contextlib.closing(connect(temporary)) as connection:
                revision = _forget(connection, bump)
                # One file again, without a log beside it.
                connection.execute("PRAGMA journal_mode = DELETE").fetchone()
        mark(marked)
    return f"{path} is restored from {source}, at revision {revision}; clients that knew an older one list anew"


def compact(path: Path, say: Say) -> str:
    """Forgets all history, and gives the room back to the file system."""
    with held(path):
        check(path, say)  # a damaged value is not made to look like new
        with spoken(path), contextlib.closing(open_to_write(path)) as connection:
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
    (state,) = connection.execute(STATE).fetchone()
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("DELETE FROM events WHERE revision NOT IN (SELECT revision FROM current)")
    connection.execute("UPDATE compaction SET revision = ?, state = ?", (revision, state))
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
        copy.execute("PRAGMA synchronous = OFF")  # synced as a whole by `__new_file`
        source.backup(copy, pages=COPY_PAGES, progress=progress)
        # One file, without a log beside it, which can be read where nothing can be written.
        copy.execute("PRAGMA journal_mode = DELETE").fetchone()


def _check_copy(source: Path, copy: Path, say: Say) -> None:
    """The copy is checked, not the source: what was read once is what will be read again. Raises DamagedError of the source."""
    say("checking the copy")
    try:
        check(copy, lambda line: None)
    except DamagedError as error:
        raise DamagedError(source, error.problems) from None


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
    disk.sync_folder(path.parent)


@contextlib.contextmanager
def held(path: Path) -> Iterator[int]:
    """The store is nobody else's meanwhile; gives the lock's descriptor. Raises Unavailable if a server has it."""
    descriptor = lock(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def spoken(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        if isinstance(error, sqlite3.DatabaseError) and is_damage(error):
            raise DamagedError(path, [str(error)]) from error
        raise Unavailable(f"can't use {path}: {explain(error)}") from error


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
