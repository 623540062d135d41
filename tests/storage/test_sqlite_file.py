"""Files that are opened, files that are rejected, and that rejected files are not changed."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from aggserver.storage import sqlite_file
from aggserver.storage.interface import StorageError, Unavailable
from aggserver.storage.sqlite import SQLiteStorage
from aggserver.storage.sqlite_file import STEPS, open_to_write
from aggserver.storage.sqlite_maintenance import check, compact

KEY = "/stable.example.com/crontabs/default/a"
FIRST_SCHEMA = f"""
{STEPS[0]}
INSERT INTO events VALUES (2, '{KEY}', 2, 0, CAST('{{"spec":{{}}}}' AS BLOB));
PRAGMA application_id = 0x61676773; PRAGMA user_version = 1;
"""
NOTES = ("CREATE TABLE notes (text TEXT); INSERT INTO notes SELECT key FROM current;", "UPDATE notes SET text = 'on ' || text;")


async def served(path: Path) -> int:
    """Open the store as a server does, and close it. Returns the number of objects."""
    store = SQLiteStorage(path)
    await store.start()
    try:
        return await store.count("/")
    finally:
        await store.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def older(path: Path) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(FIRST_SCHEMA)
    return path


def versions(connection: sqlite3.Connection) -> tuple[int, int]:
    return connection.execute("PRAGMA application_id").fetchone()[0], connection.execute("PRAGMA user_version").fetchone()[0]


async def test_the_first_schema_is_still_read(older: Path) -> None:
    assert await served(older) == 1
    assert "is sound" in check(older, lambda line: None)


@pytest.mark.parametrize("compacted", [0, 3, 5, 6])
async def test_the_first_schema_is_given_checksums(compacted: int, path: Path) -> None:
    """The checksums of its objects and history are those that would have been written."""
    events = [(2, KEY, 2, 0, b"{}"), (3, KEY, 2, 2, b'{"a":1}'), (4, KEY + "2", 4, 0, b"{}"), (5, KEY, 2, 3, b"{}")]
    events += [(6, KEY + "2", 4, 4, None)]
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"{STEPS[0]} PRAGMA application_id = 0x61676773; PRAGMA user_version = 1;")
        connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", events)
        connection.executescript(_COMPACT_OF_THE_FIRST.format(after=0, upto=compacted))
    store = SQLiteStorage(path)
    await store.start()
    assert [(item.key, item.value, item.fault) for item in (await store.list("/")).items] == [(KEY, b"{}", "")]
    told = [event.revision for event in await store.history("/", compacted or 1, 6, 9)]
    assert told == list(range(max(compacted, 1) + 1, 7))
    assert await store.create(KEY + "3", b"{}") == 7
    await store.close()
    assert f"revision 7, history since {max(compacted, 1)}" in check(path, lambda line: None)


_COMPACT_OF_THE_FIRST = """
DELETE FROM events WHERE revision IN (SELECT previous FROM events WHERE revision > {after} AND revision <= {upto});
DELETE FROM events WHERE value IS NULL AND revision <= {upto};
UPDATE compaction SET revision = {upto};
"""


def test_steps_lead_from_an_older_schema(older: Path) -> None:
    for _ in range(2):
        with closing(open_to_write(older, steps=(*STEPS, *NOTES))) as connection:
            assert connection.execute("SELECT text FROM notes").fetchall() == [(f"on {KEY}",)]
            assert versions(connection) == (0x61676773, len(STEPS) + 2)


def test_all_steps_lead_from_nothing(path: Path) -> None:
    with closing(open_to_write(path, steps=(*STEPS, *NOTES))) as connection:
        assert connection.execute("SELECT count(*) FROM notes").fetchone() == (0,)
        assert versions(connection) == (0x61676773, len(STEPS) + 2)


def test_a_step_that_fails_leaves_the_schema_as_it_was(older: Path) -> None:
    with pytest.raises(sqlite3.OperationalError, match="no such table: nowhere"):
        open_to_write(older, steps=(*STEPS, NOTES[0], "INSERT INTO nowhere VALUES (1);"))
    with closing(open_to_write(older)) as connection:
        assert versions(connection) == (0x61676773, len(STEPS))
        assert connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'notes'").fetchone() == (0,)


def test_a_command_that_only_reads_does_not_migrate(older: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "STEPS", (*STEPS, *NOTES))
    with pytest.raises(Unavailable, match="made by an older version: start the server once"):
        check(older, lambda line: None)


def foreign(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE customers (name TEXT)")


def newer(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {len(STEPS) + 1}")


def text(path: Path) -> None:
    path.write_bytes(b"apiVersion: v1\n" * 1000)


def truncated(path: Path) -> None:
    os.truncate(path, 4096 * 3)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def killed(path: Path) -> None:
    """The file and its log as a kill leaves them, with the last write only in the log."""
    copy = path.with_name("copy.db")
    with closing(open_to_write(path)) as connection:
        connection.execute("INSERT INTO events VALUES (3, ?, 2, 2, CAST('{}' AS BLOB), 0, 0)", (KEY,))
        shutil.copy(path, copy)
        shutil.copy(f"{path}-wal", f"{copy}-wal")
    copy.replace(path)
    Path(f"{copy}-wal").replace(f"{path}-wal")


def empty(path: Path) -> None:
    os.truncate(path, 0)


def lost(path: Path) -> None:
    path.unlink()


def garbage_log(path: Path) -> None:
    killed(path)
    log = Path(f"{path}-wal")
    log.write_bytes(b"\xa5" * log.stat().st_size)


def emptied(path: Path) -> None:
    killed(path)
    os.truncate(path, 0)


def removed(path: Path) -> None:
    killed(path)
    path.unlink()


REFUSED: dict[str, tuple[Callable[[Path], None], str]] = {
    "another program's": (foreign, "is a database of another program: give another folder with --data"),
    "a newer version's": (newer, r"made by a newer version \(schema 3, known is 2\): start that version, or restore"),
    "no database": (text, "file is not a database: keep the file if it is yours, and give another folder with --data"),
    "truncated": (truncated, "database disk image is malformed: the file is damaged; restore a backup"),
    "a folder": (folder, "Is a directory: it must be a file; move the folder away"),
    "garbage in the log": (garbage_log, "-wal is damaged: restore a backup, or move the log away"),
    "emptied": (empty, r"is an empty file: put the file back or .* to start with an empty store, remove it and .*\.lock"),
    "removed": (lost, r"was there and is missing now: put the file back or restore a backup .* remove .*\.lock"),
    "emptied beside its log": (emptied, "is missing or empty, but its log .*-wal is not: put the file back"),
    "removed from its log": (removed, "is missing or empty, but its log .*-wal is not: put the file back"),
}


@pytest.mark.parametrize("how", [empty, lost])
async def test_a_store_begun_anew_on_purpose(how: Callable[[Path], None], older: Path) -> None:
    await served(older)
    how(older)
    for file in (older, Path(f"{older}.lock")):
        file.unlink(missing_ok=True)
    assert await served(older) == 0


async def test_a_first_start_that_was_killed_is_begun_again(path: Path) -> None:
    """A file gets its name only when it is complete, so leftovers do not matter."""
    half_made(path)
    assert await served(path) == 0
    assert sorted(os.listdir(path.parent)) == [path.name, f"{path.name}.lock"]


def half_made(path: Path) -> None:
    Path(f"{path}.lock").touch()
    Path(f"{path}.new").write_bytes(b"half a store")


def contents(path: Path) -> dict[str, bytes]:
    """SQLite's shared memory, an empty log and our lock contain no data, so they may remain."""
    return {
        file.name: file.read_bytes()
        for file in path.parent.iterdir()
        if file.is_file() and file.stat().st_size and not file.name.endswith("-shm")
    }


@pytest.mark.parametrize("name", REFUSED)
async def test_refused_files_stay_as_they_are(name: str, older: Path) -> None:
    spoil, message = REFUSED[name]
    await served(older)
    spoil(older)
    before = contents(older)
    with pytest.raises(Unavailable, match=message) as caught:
        await served(older)
    assert "\n" not in str(caught.value)
    assert contents(older) == before
    with pytest.raises((StorageError, OSError)):
        check(older, lambda line: None)
    assert contents(older) == before
    with pytest.raises((StorageError, OSError)):
        compact(older, lambda line: None)
    assert contents(older) == before


async def test_a_log_cut_short_has_what_was_whole(older: Path) -> None:
    """As a power failure leaves it in the middle of a commit that was not acknowledged."""
    killed(older)
    log = f"{older}-wal"
    os.truncate(log, os.stat(log).st_size - 100)
    assert "is sound: objects: 1 (crontabs.stable.example.com 1); revision 2," in check(older, lambda line: None)
    assert await served(older) == 1


def test_a_log_of_zeros_was_never_synced(older: Path) -> None:
    Path(f"{older}-wal").write_bytes(bytes(8192))
    with closing(open_to_write(older)) as connection:
        assert connection.execute("SELECT count(*) FROM current").fetchone() == (1,)


async def test_a_folder_that_is_not_there(path: Path) -> None:
    with pytest.raises(Unavailable, match="No such file or directory: create the folder"):
        await served(path / "below")


async def test_a_folder_without_permission(path: Path) -> None:
    path.parent.chmod(0o500)
    # Root may write anywhere, so this can't be tested as root.
    user = os.geteuid()
    if user == 0:
        os.chown(path.parent, 65534, 65534)
        os.seteuid(65534)
    try:
        with pytest.raises(Unavailable, match="Permission denied: it and its folder must be"):
            await served(path)
    finally:
        os.seteuid(user)
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize(("synchronous", "syncs"), [("full", 2), ("normal", 2), ("off", 0)])
def test_a_new_store_is_synced_as_a_whole(path: Path, monkeypatch: pytest.MonkeyPatch, synchronous: str, syncs: int) -> None:
    """The file and its folder, once each, and not by SQLite: beside other writers of the disk each takes long."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    sqlite_file.open_to_write(path, synchronous).close()
    assert len(synced) == syncs


def test_what_a_killed_start_left_is_not_used(path: Path) -> None:
    for suffix in ("", "-journal", "-wal", "-shm"):
        path.with_name(f"{path.name}.new{suffix}").write_bytes(b"x" * 100)
    sqlite_file.open_to_write(path).close()
    assert not list(path.parent.glob("*.new*"))
