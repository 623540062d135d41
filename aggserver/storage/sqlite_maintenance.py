"""`aggserver storage`: check, backup, restore and compact the SQLite file of a data folder.

Each command returns a line with its result, reports progress with `say`, and raises StorageError or FileError with a text for
the user. Check and backup work while a server uses the store; restore and compact lock it.
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

from aggserver import disk
from aggserver.storage import jumps, keys
from aggserver.storage.checksums import next_state
from aggserver.storage.interface import StorageError, Unavailable
from aggserver.storage.log import Head
from aggserver.storage.records import is_sound
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
    "copy",
    "explained",
    "locked",
    "restore",
]

BUMP = 1_000_000_000  # added to the revision, so that it is beyond all that clients have seen: etcd's recommendation
COPY_PAGES = 2048  # pages of 8 KiB between two progress lines
PROGRESS_EVENTS = 100_000  # events between two progress lines
# The casts are for damaged files, where a column may have any type.
EVENTS = """
SELECT revision, CAST(key AS TEXT), create_revision, previous, CAST(value AS BLOB), state, checksum FROM events ORDER BY revision
"""
LISTED = "SELECT CAST(key AS TEXT), CAST(revision AS INTEGER), create_revision FROM current ORDER BY key"

MOST_PROBLEMS = 10  # problems that are reported; a damaged page causes thousands

Say = Callable[[str], None]


class DamagedError(StorageError):
    """The store is damaged. The text names the problems and says what to do."""

    def __init__(self, path: Path, problems: list[str]) -> None:
        named = "; ".join(problems[:MOST_PROBLEMS]) + ("; and more" if len(problems) > MOST_PROBLEMS else "")
        self.problems = problems
        super().__init__(
            f"the store {path} is damaged: {named}. Stop the server, keep a copy of the folder, and restore a backup; or save "
            "what is sound: aggserver storage check --repair"
        )


@disk.file_errors()
def check(path: Path, say: Say) -> str:
    """Check all pages with SQLite's integrity check, then their content. Returns the line of the result. Raises DamagedError."""
    with explained(path), contextlib.closing(open_to_read(path)) as connection:
        say(f"checking the pages of {path} ({_megabytes(path.stat().st_size)})")
        found = [row[0] for row in connection.execute(f"PRAGMA integrity_check({MOST_PROBLEMS + 1})")]
        if found != ["ok"]:
            raise DamagedError(path, found)
        connection.execute("BEGIN")  # a consistent snapshot, while a server may write
        connection.text_factory = as_text
        contents = _Contents(connection, say)
    if contents.problems:
        raise DamagedError(path, contents.problems)
    return f"{path} is sound: {contents.describe()}, {_megabytes(path.stat().st_size)}"


def is_damage(error: sqlite3.DatabaseError) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CORRUPT


def as_text(raw: bytes) -> str:
    """Decode a key that may be damaged, so that it can be shown."""
    return raw.decode(errors="replace")


class _Contents:
    """One pass over all events, in order, that rebuilds the list of objects and collects `problems`."""

    def __init__(self, connection: sqlite3.Connection, say: Say) -> None:
        self.problems: list[str] = []
        self._heads: dict[str, Head] = {}
        self._resources: Counter[str] = Counter()
        compactions = connection.execute("SELECT revision, state FROM compaction").fetchall()
        if len(compactions) != 1:
            self.problems.append(f"there are {len(compactions)} compacted revisions")
        newest: tuple[int, int] = max(compactions, default=(0, 0))
        self._compacted, state = newest
        self._state = 0  # the state after the events so far
        self._chained = False  # whether the first event after the compaction was reached
        (self._newest,) = connection.execute(NEWEST).fetchone()
        (total,) = connection.execute("SELECT count(*) FROM events").fetchone()
        self._last = max(self._compacted, 1)
        rows = connection.execute(EVENTS)
        for number, row in enumerate(rows):
            if number % PROGRESS_EVENTS == 0 and number:
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
            self.problems.append(f"the events up to the compaction at {self._compacted} do not match its checksum")
            self._state = state

    def _event(
        self, revision: int, key: str, created: int, previous: int, value: bytes | None, state: int, checksum: int
    ) -> None:
        head = self._heads.get(key)
        before = previous if revision > self._compacted else 0
        self._state = next_state(self._state, key, revision, created, before, deleted=value is None)
        if revision <= self._compacted:
            # A compaction leaves one event for each key that existed.
            if head is not None or value is None:
                self._problem(revision, key, "should have been removed by the compaction")
        else:
            if not jumps.follows(self._last, revision, key, value):
                self._problem(revision, key, f"comes after {self._last}: revisions are missing")
            self._last = revision
            if previous != (head.revision if head else 0):
                self._problem(revision, key, f"says it replaced {previous}, which was at {head.revision if head else 0}")
            if created != (head.create_revision if head else revision):
                self._problem(revision, key, f"has the wrong create revision {created}")
            if self._state != state:
                self._problem(revision, key, "does not match the checksum of the events before it")
                self._state = state
        if value is None:
            self._heads.pop(key, None)
            return
        self._heads[key] = Head(revision, created)
        if fault := checked(key, value, created, revision, checksum).fault:
            self._problem(revision, key, f"is damaged: {fault}")
        elif not is_sound(key, value):
            self._problem(revision, key, "has a value that is not a JSON object")

    def _compare(self, current: dict[str, Head]) -> None:
        """Compare the stored list of objects with the one that the events result in."""
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


@disk.file_errors()
def backup(path: Path, target: Path, say: Say) -> str:
    """Copy a consistent snapshot of the store to `target`, which must not exist."""
    if os.path.lexists(target):
        raise Unavailable(f"{target} already exists: give another name")
    with explained(path), contextlib.closing(open_to_read(path)) as source, _new_file(target) as temporary:
        copy(source, temporary, say)
        _check_copy(path, temporary, say)
        size = temporary.stat().st_size
    return f"{target} is a backup of {path}, {_megabytes(size)}"


@disk.file_errors()
def restore(path: Path, source: Path, say: Say, bump: int) -> str:
    """Copy a backup to `path`, where no store may exist, with its revision raised by `bump` and without history.

    Clients have seen revisions that the backup doesn't have. If the counter went back, a watch from such a revision would miss
    all writes until the counter reaches it again. So the revision is raised, all before it is compacted, and clients list again.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locked(path) as marked:
        for file in (path, Path(f"{path}-wal")):
            if file.exists() and file.stat().st_size:
                raise Unavailable(f"there is already a store: move {file} away first, or give another folder with --data")
        path.unlink(missing_ok=True)
        with explained(source), contextlib.closing(open_to_read(source, older=True)) as opened, _new_file(path) as temporary:
            copy(opened, temporary, say)
            opened.close()
            open_to_write(temporary).close()  # updates the copy's schema
            _check_copy(source, temporary, say)
            with contextlib.closing(connect(temporary)) as connection:
                revision = _forget(connection, bump)
                # A single file, without a log beside it.
                connection.execute("PRAGMA journal_mode = DELETE").fetchone()
        mark(marked)
    return f"{path} is restored from {source}, at revision {revision}; clients with an older resourceVersion must list again"


@disk.file_errors()
def compact(path: Path, say: Say) -> str:
    """Delete all history, and shrink the file."""
    with locked(path):
        check(path, say)  # a damaged store must not be rewritten with valid checksums
        with explained(path), contextlib.closing(open_to_write(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            before = path.stat().st_size
            say(f"compacting {path} ({_megabytes(before)})")
            revision = _forget(connection, 0)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        after = path.stat().st_size
    return (
        f"{path} has no history before revision {revision}, and {_megabytes(after)} instead of {_megabytes(before)}; "
        "clients with an older resourceVersion must list again"
    )


def _forget(connection: sqlite3.Connection, bump: int) -> int:
    """Delete everything but the present objects, and shrink the file. Returns the revision, `bump` after the newest."""
    revision = int(connection.execute(NEWEST).fetchone()[0]) + bump
    (state,) = connection.execute(STATE).fetchone()
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("DELETE FROM events WHERE revision NOT IN (SELECT revision FROM current)")
    connection.execute("UPDATE compaction SET revision = ?, state = ?", (revision, state))
    connection.execute("COMMIT")
    connection.execute("VACUUM")
    return revision


def copy(source: sqlite3.Connection, target: Path, say: Say) -> None:
    """Copy all pages to a file, which the caller has to sync."""
    # The open transaction keeps the snapshot: without it, a copy in steps starts again whenever a server writes.
    source.execute("BEGIN")
    source.execute(NEWEST).fetchone()

    def progress(_status: int, remaining: int, total: int) -> None:
        if remaining:
            say(f"copied {total - remaining} of {total} pages")

    with contextlib.closing(connect(target)) as made:
        made.execute("PRAGMA synchronous = OFF")  # the caller syncs the file as a whole
        source.backup(made, pages=COPY_PAGES, progress=progress)
        # A single file, without a log beside it, which can be read from a read-only file system.
        made.execute("PRAGMA journal_mode = DELETE").fetchone()


def _check_copy(source: Path, copy: Path, say: Say) -> None:
    """Check the copy, because that will be used; the error names the source, which has the damage. Raises DamagedError."""
    say("checking the copy")
    try:
        check(copy, lambda line: None)
    except DamagedError as error:
        raise DamagedError(source, error.problems) from None


@contextlib.contextmanager
def _new_file(path: Path) -> Iterator[Path]:
    """A temporary file that becomes `path`, synced to disk, if the block succeeds. Never overwrites a file."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 0600
    temporary = Path(name)
    try:
        yield temporary
        os.fsync(descriptor)
        os.link(temporary, path)  # unlike a rename, fails if `path` exists
    finally:
        os.close(descriptor)
        temporary.unlink()
    disk.sync_folder(path.parent)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[int]:
    """Hold the store's lock; yields its descriptor. Raises Unavailable if another process holds it."""
    descriptor = lock(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Raise errors of SQLite and the system as DamagedError or Unavailable, with what to do."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        if isinstance(error, sqlite3.DatabaseError) and is_damage(error):
            raise DamagedError(path, [str(error)]) from error
        raise Unavailable(f"can't use {path}: {explain(error)}") from error


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
