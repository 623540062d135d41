"""`aggserver storage` as users run it: output, exit status, and the files afterwards."""

import asyncio
import functools
import os
import shutil
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from aggserver.storage import sqlite_repair
from aggserver.storage.checksums import value_sum
from aggserver.storage.interface import Compacted, KeyValue, Unavailable
from aggserver.storage.sqlite import SQLiteStorage
from aggserver.storage.sqlite_file import FILE_NAME, PAGE_SIZE, STEPS, open_to_read
from aggserver.storage.sqlite_maintenance import backup, check
from tests.command import run
from tests.storage import contract

REPOSITORY = Path(__file__).parents[2]
KEY = "/stable.example.com/crontabs/default/"
VALUE = b'{"spec":{}}'
BUMP = 1_000_000_000


storage = functools.partial(run, "storage")


def done(*arguments: str | Path, cwd: Path) -> str:
    """Run a command that succeeds. Returns its last line."""
    ended = storage(*arguments, cwd=cwd)
    assert ended.returncode == 0, ended.stderr
    (line,) = ended.stdout.splitlines()
    return line


def refused(*arguments: str | Path, cwd: Path) -> str:
    ended = storage(*arguments, cwd=cwd)
    assert ended.returncode == 1
    assert ended.stdout == ""
    line = ended.stderr.splitlines()[-1]
    assert line.startswith("aggserver: ")
    assert "Traceback" not in ended.stderr
    return line.removeprefix("aggserver: ")


@pytest.fixture
async def server(tmp_path: Path) -> SQLiteStorage:
    """A running store in the folder `data`: a and b created, a updated, b deleted, c created, so at revision 6."""
    (tmp_path / "data").mkdir()
    store = SQLiteStorage(tmp_path / "data" / FILE_NAME)
    await store.start()
    a, b = await store.create(KEY + "a", VALUE), await store.create(KEY + "b", VALUE)
    await store.update(KEY + "a", b'{"spec":{"a":1}}', a)
    await store.delete(KEY + "b", b)
    await store.create("/core/namespaces/default", VALUE)
    return store


@pytest.fixture
async def data(server: SQLiteStorage, tmp_path: Path) -> Path:
    """The same folder, with no server."""
    await server.close()
    return tmp_path / "data"


FACTS = "objects: 2 (crontabs.stable.example.com 1, namespaces 1); revision 6, history since 1, 0.0 MB"


async def test_check_and_backup_beside_a_server(server: SQLiteStorage, tmp_path: Path) -> None:
    assert done("check", "--data", "data", cwd=tmp_path) == f"data/{FILE_NAME} is sound: {FACTS}"
    assert done("backup", "--data", "data", "b.db", cwd=tmp_path) == f"b.db is a backup of data/{FILE_NAME}, 0.0 MB"
    await server.create(KEY + "later", VALUE)
    await server.close()
    assert stat.S_IMODE((tmp_path / "b.db").stat().st_mode) == 0o600
    (tmp_path / "copy").mkdir()
    shutil.copy(tmp_path / "b.db", tmp_path / "copy" / FILE_NAME)
    assert done("check", "--data", "copy", cwd=tmp_path) == f"copy/{FILE_NAME} is sound: {FACTS}"
    # A backup is one file, and leaves no other files.
    assert sorted(os.listdir(tmp_path)) == ["b.db", "copy", "data"]
    assert os.listdir(tmp_path / "copy") == [FILE_NAME]


async def test_a_backup_is_of_one_moment(server: SQLiteStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With any number of writes between its steps."""
    monkeypatch.setattr("aggserver.storage.sqlite_maintenance.COPY_PAGES", 1)
    await asyncio.gather(*(server.create(f"{KEY}more-{n}", b'{"a":"' + b"x" * 5000 + b'"}') for n in range(50)))
    before = await server.revision()
    other = sqlite3.connect(tmp_path / "data" / FILE_NAME, isolation_level=None)
    steps = 0

    def write(line: str) -> None:
        nonlocal steps
        if line == "checking the copy":
            return
        steps += 1
        assert line.startswith("copied ")
        values = (before + steps, f"{KEY}meanwhile-{steps}", before + steps, VALUE)
        other.execute("INSERT INTO events VALUES (?, ?, ?, 0, ?, 0, 0)", values)

    backup(tmp_path / "data" / FILE_NAME, tmp_path / "b.db", write)
    other.close()
    await server.close()
    assert steps > 50
    assert f"revision {before}," in check(tmp_path / "b.db", lambda line: None)


def test_a_backup_that_fails_leaves_nothing(data: Path, tmp_path: Path) -> None:
    def stop(line: str) -> None:
        raise KeyboardInterrupt

    with closing(sqlite3.connect(data / FILE_NAME)) as connection:
        connection.execute("CREATE TABLE large (a BLOB)")
        connection.execute("INSERT INTO large VALUES (zeroblob(30000000))")
        connection.commit()
    with pytest.raises(KeyboardInterrupt):
        backup(data / FILE_NAME, tmp_path / "b.db", stop)
    assert [file.name for file in tmp_path.iterdir()] == ["data"]


async def test_restore_raises_the_revision(data: Path, tmp_path: Path) -> None:
    """Clients must list again, whether or not they saw writes after the backup."""
    done("backup", "--data", "data", "b.db", cwd=tmp_path)
    assert done("restore", "--data", "new", "b.db", cwd=tmp_path) == (
        f"new/{FILE_NAME} is restored from b.db, at revision {BUMP + 6}; clients with an older resourceVersion must list again"
    )
    facts = done("check", "--data", "new", cwd=tmp_path)
    assert f"objects: 2 (crontabs.stable.example.com 1, namespaces 1); revision {BUMP + 6}, history since {BUMP + 6}" in facts
    store = SQLiteStorage(tmp_path / "new" / FILE_NAME)
    await store.start()
    try:
        for known in (3, 6, 7, 900_000):
            with pytest.raises(Compacted):
                await store.watch("/", known, contract.Recorder())
            with pytest.raises(Compacted):
                await store.list("/", revision=known)
        page = await store.list("/")
        assert page.revision == BUMP + 6
        assert page.items[1] == KeyValue(KEY + "a", b'{"spec":{"a":1}}', 2, 4)
        recorder, _ = await contract.follow(store, "/", page.revision)
        assert await store.update(KEY + "a", VALUE, 4) == BUMP + 7
        assert [event.revision for event in recorder.seen] == [BUMP + 7]
        assert (await store.list("/", revision=page.revision)).items == page.items
    finally:
        await store.close()
    assert "is sound" in done("check", "--data", "new", cwd=tmp_path)


async def test_compact_gives_room_back(data: Path, tmp_path: Path) -> None:
    path = data / FILE_NAME
    store = SQLiteStorage(path)
    await store.start()
    revision = await store.create(KEY + "often", VALUE)
    for number in range(100):
        revision = await store.update(KEY + "often", b'{"a":"%d%s"}' % (number, b"x" * 5000), revision)
    last = await store.delete(KEY + "often", revision)
    await store.close()
    before = path.stat().st_size
    assert f"has no history before revision {last}, and 0.0 MB instead of 0.9 MB" in done(
        "compact", "--data", "data", cwd=tmp_path
    )
    assert path.stat().st_size < before / 10
    assert f"revision {last}, history since {last}" in done("check", "--data", "data", cwd=tmp_path)
    store = SQLiteStorage(path)
    await store.start()
    # The newest event was a deletion, which leaves no row; its revision is not used again.
    assert await store.create(KEY + "often", VALUE) == last + 1
    await store.close()


async def test_a_running_server_keeps_its_store(server: SQLiteStorage, tmp_path: Path) -> None:
    in_use = f"the store data/{FILE_NAME} is in use by another server or command: stop that first, or give another --data"
    done("backup", "--data", "data", "b.db", cwd=tmp_path)
    assert refused("compact", "--data", "data", cwd=tmp_path) == in_use
    assert refused("restore", "--data", "data", "b.db", cwd=tmp_path) == in_use
    await server.close()


def test_nothing_is_written_over(data: Path, tmp_path: Path) -> None:
    (tmp_path / "b.db").write_text("mine")
    assert refused("backup", "--data", "data", "b.db", cwd=tmp_path) == "b.db already exists: give another name"
    assert (tmp_path / "b.db").read_text() == "mine"
    done("backup", "--data", "data", "c.db", cwd=tmp_path)
    before = (data / FILE_NAME).read_bytes()
    assert refused("restore", "--data", "data", "c.db", cwd=tmp_path) == (
        f"there is already a store: move data/{FILE_NAME} away first, or give another folder with --data"
    )
    (data / FILE_NAME).unlink()
    (data / f"{FILE_NAME}-wal").write_bytes(b"x")
    assert f"move data/{FILE_NAME}-wal away first" in refused("restore", "--data", "data", "c.db", cwd=tmp_path)
    (data / f"{FILE_NAME}-wal").unlink()
    done("restore", "--data", "data", "c.db", cwd=tmp_path)
    assert before != (data / FILE_NAME).read_bytes()


def test_what_is_not_there(tmp_path: Path) -> None:
    for arguments in (["check"], ["backup", "b.db"]):
        assert refused(*arguments, "--data", ".", cwd=tmp_path) == f"there is no store at {FILE_NAME}"
    assert list(tmp_path.iterdir()) == []
    assert refused("compact", "--data", ".", cwd=tmp_path) == f"there is no store at {FILE_NAME}"
    assert refused("restore", "--data", "new", "b.db", cwd=tmp_path) == "there is no store at b.db"
    assert "No such file or directory" in refused("compact", "--data", "nowhere", cwd=tmp_path)


def spoiled(sql: str) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(f"DROP TRIGGER IF EXISTS written; DROP TRIGGER IF EXISTS removed; {sql}")

    return spoil


def overwritten(path: Path) -> None:
    """The second page, which has the root of a table."""
    with path.open("r+b") as file:
        file.seek(PAGE_SIZE)
        file.write(b"\xa5" * PAGE_SIZE)


A, B, DEFAULT = KEY + "a", KEY + "b", "/core/namespaces/default"
DAMAGE: dict[str, tuple[Callable[[Path], None], str]] = {
    "a page": (overwritten, "is damaged: "),
    "an object without its event": (
        spoiled(f"INSERT INTO current VALUES ('{KEY}x', 3, 3)"),
        f"{KEY}x is 3 in the list of objects and absent by its events",
    ),
    "an object missing": (
        spoiled(f"DELETE FROM current WHERE key = '{A}'"),
        f"{A} is absent in the list of objects and 4 by its events",
    ),
    "an object at an old event": (
        spoiled(f"UPDATE current SET revision = 2 WHERE key = '{A}'"),
        f"{A} is 2 in the list of objects and 4 by its events",
    ),
    "an event missing": (spoiled("DELETE FROM events WHERE revision = 5"), "comes after 4: revisions are missing"),
    "the wrong thing replaced": (
        spoiled("UPDATE events SET previous = 3 WHERE revision = 4"),
        f"the event 4 of {A} says it replaced 3, which was at 2",
    ),
    "a creation in the middle": (
        spoiled("UPDATE events SET create_revision = 4 WHERE revision = 4"),
        f"the event 4 of {A} has the wrong create revision 4",
    ),
    "a bit of a value": (
        spoiled("UPDATE events SET value = CAST(replace(CAST(value AS TEXT), '1', '3') AS BLOB) WHERE revision = 4"),
        f"the event 4 of {A} is damaged: the checksum of its value is ",
    ),
    "a bit of a checksum": (
        spoiled("UPDATE events SET checksum = (checksum | 64) - (checksum & 64) WHERE revision = 4"),
        f"the event 4 of {A} is damaged: the checksum of its value is ",
    ),
    "a byte of a value": (
        spoiled("UPDATE events SET value = CAST(replace(CAST(value AS TEXT), '1', '4') AS BLOB) WHERE revision = 4"),
        f"the event 4 of {A} is damaged: the checksum of its value is ",
    ),
    "a byte of a checksum": (
        spoiled("UPDATE events SET checksum = checksum + 256 WHERE revision = 4"),
        f"the event 4 of {A} is damaged: the checksum of its value is ",
    ),
    "a byte of a state": (
        spoiled("UPDATE events SET state = state + 256 WHERE revision = 4"),
        f"the event 4 of {A} does not match the checksum of the events before it",
    ),
    "a byte of a key": (
        spoiled("UPDATE events SET key = replace(key, 'default/a', 'default/q') WHERE revision = 4"),
        f"the event 4 of {KEY}q does not match the checksum of the events before it",
    ),
    "another's value": (
        spoiled(
            "UPDATE events SET (value, checksum) = (SELECT value, checksum FROM events WHERE revision = 2) WHERE revision = 4"
        ),
        f"the event 4 of {A} is damaged: the checksum of its value is ",
    ),
    "what a compaction left": (
        spoiled(
            "DELETE FROM events WHERE revision IN (2, 3, 5); UPDATE events SET previous = 0;"
            "UPDATE compaction SET revision = 5, state = 7"
        ),
        "the events up to the compaction at 5 do not match its checksum",
    ),
    "no JSON": (spoiled("UPDATE events SET value = CAST('{' AS BLOB) WHERE revision = 6"), "the event 6 of /core/namespaces"),
    "no object": (
        spoiled(f"UPDATE events SET value = CAST('[]' AS BLOB), checksum = {value_sum(b'[]', 6)} WHERE revision = 6"),
        "has a value that is not a JSON object",
    ),
    "left of a compaction": (
        spoiled("UPDATE compaction SET revision = 5"),
        f"the event 4 of {A} should have been removed by the compaction",
    ),
    "two compactions": (spoiled("INSERT INTO compaction VALUES (0, 0)"), "there are 2 compacted revisions"),
    "no object's key": (
        spoiled("INSERT INTO events VALUES (7, 'x', 7, 0, CAST('{}' AS BLOB), 0, 0); INSERT INTO current VALUES ('x', 7, 7)"),
        "'x' is not an object's key",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_check_finds(name: str, data: Path, tmp_path: Path) -> None:
    spoil, text = DAMAGE[name]
    spoil(data / FILE_NAME)
    line = refused("check", "--data", "data", cwd=tmp_path)
    assert line.startswith(f"the store data/{FILE_NAME} is damaged: ")
    assert text in line
    assert line.endswith("restore a backup; or save what is sound: aggserver storage check --repair")


def test_a_damaged_backup_is_not_restored(data: Path, tmp_path: Path) -> None:
    done("backup", "--data", "data", "b.db", cwd=tmp_path)
    overwritten(tmp_path / "b.db")
    assert "the store b.db is damaged: " in refused("restore", "--data", "new", "b.db", cwd=tmp_path)
    assert not (tmp_path / "new" / FILE_NAME).exists()


def test_a_damaged_store_is_not_backed_up(data: Path, tmp_path: Path) -> None:
    """Nor compacted: a damaged store must not get valid checksums."""
    DAMAGE["a byte of a value"][0](data / FILE_NAME)
    for command in (["backup", "b.db"], ["compact"]):
        line = refused(command[0], "--data", "data", *command[1:], cwd=tmp_path)
        assert line.startswith(f"the store data/{FILE_NAME} is damaged: the event 4 of {A} is damaged: ")
    assert not (tmp_path / "b.db").exists()


async def test_a_backup_of_the_first_schema_is_restored(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "b.db")) as connection:
        connection.executescript(f"{STEPS[0]} PRAGMA application_id = 0x61676773; PRAGMA user_version = 1;")
        connection.execute("INSERT INTO events VALUES (2, ?, 2, 0, CAST('{}' AS BLOB))", (A,))
        connection.commit()
    assert f"restored from b.db, at revision {BUMP + 2}" in done("restore", "--data", "new", "b.db", cwd=tmp_path)
    assert "is sound: objects: 1 " in done("check", "--data", "new", cwd=tmp_path)


async def test_a_restored_store_that_is_lost_is_missed(data: Path, tmp_path: Path) -> None:
    done("backup", "--data", "data", "b.db", cwd=tmp_path)
    done("restore", "--data", "new", "b.db", cwd=tmp_path)
    (tmp_path / "new" / FILE_NAME).unlink()
    with pytest.raises(Unavailable, match="was there and is missing now"):
        await SQLiteStorage(tmp_path / "new" / FILE_NAME).start()


# The output of a repair, and the objects afterwards.
REPAIRS: dict[str, tuple[str, str, set[str]]] = {
    "a byte of a value": ("a byte of a value", f"objects kept: 1; removed: 1 ({A})", {DEFAULT}),
    "no object": ("no object", f"objects kept: 1; removed: 1 ({DEFAULT})", {A}),
    "an object missing": ("an object missing", f"objects kept: 2; put back: 1 ({A})", {A, DEFAULT}),
    "an object at an old event": ("an object at an old event", f"objects kept: 2; put back: 1 ({A})", {A, DEFAULT}),
    "an object without its event": ("an object without its event", f"objects kept: 2; removed: 1 ({KEY}x)", {A, DEFAULT}),
    "a byte of history": ("the wrong thing replaced", "objects kept: 2;", {A, DEFAULT}),
}


@pytest.mark.parametrize("name", REPAIRS)
async def test_repair(name: str, data: Path, tmp_path: Path) -> None:
    damage, told, kept = REPAIRS[name]
    path = data / FILE_NAME
    DAMAGE[damage][0](path)
    before = path.read_bytes()
    line = done("check", "--repair", "--data", "data", cwd=tmp_path)
    assert line.startswith(f"data/{FILE_NAME} is repaired: {told}")
    assert line.endswith(
        f"; the damaged store is kept as data/{FILE_NAME}.damaged; revision {BUMP + 6}, and "
        "clients with an older resourceVersion must list again"
    )
    copy = data / f"{FILE_NAME}.damaged"
    assert (copy.read_bytes(), stat.S_IMODE(copy.stat().st_mode)) == (before, 0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "is sound" in done("check", "--data", "data", cwd=tmp_path)
    store = SQLiteStorage(path)
    await store.start()
    assert {item.key for item in (await store.list("/")).items} == kept
    with pytest.raises(Compacted):
        await store.history("/", 6, BUMP + 6, 9)
    await store.close()


@pytest.mark.parametrize("name", ["a bit of a value", "a bit of a checksum"])
async def test_repair_of_a_single_bit(name: str, data: Path, tmp_path: Path) -> None:
    path = data / FILE_NAME
    store = SQLiteStorage(path)
    await store.start()
    whole = await store.list("/"), await store.history("/", 1, 6, 9)
    await store.close()
    DAMAGE[name][0](path)
    line = done("check", "--repair", "--data", "data", cwd=tmp_path)
    assert line == (
        f"data/{FILE_NAME} is repaired: put right: 1 ({A}); the damaged store is kept as data/{FILE_NAME}.damaged; "
        "all objects, revisions and history are kept"
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "is sound" in done("check", "--data", "data", cwd=tmp_path)
    store = SQLiteStorage(path)
    await store.start()
    assert (await store.list("/"), await store.history("/", 1, 6, 9)) == whole
    assert await store.create(KEY + "new", VALUE) == 7
    await store.close()


@pytest.mark.parametrize(("number", "more"), [(20, ""), (23, " and 3 more")])
def test_a_repair_names_no_more_than_twenty(number: int, more: str) -> None:
    keys = [f"/{each}" for each in range(number)]
    assert sqlite_repair._named(keys) == f"{number} ({', '.join(keys[:20])}{more})"


async def test_a_single_bit_is_put_right_beside_other_damage(data: Path, tmp_path: Path) -> None:
    DAMAGE["a bit of a value"][0](data / FILE_NAME)
    DAMAGE["no object"][0](data / FILE_NAME)
    ended = storage("check", "--repair", "--data", "data", cwd=tmp_path)
    line = f"data/{FILE_NAME} is repaired: objects kept: 1; removed: 1 ({DEFAULT}); put right: 1 ({A}); "
    assert ended.stdout.startswith(line)
    assert f"removed: {DEFAULT}: " in ended.stderr
    assert f"put right, since one bit was wrong: {A}\n" in ended.stderr


def test_repair_of_what_is_sound(data: Path, tmp_path: Path) -> None:
    before = (data / FILE_NAME).read_bytes()
    assert done("check", "--repair", "--data", "data", cwd=tmp_path).endswith("; there is nothing to repair")
    assert (data / FILE_NAME).read_bytes() == before
    assert not (data / f"{FILE_NAME}.damaged").exists()


def test_a_second_repair_keeps_the_first_copy(data: Path, tmp_path: Path) -> None:
    for copy in ("damaged", "damaged-2"):
        with closing(sqlite3.connect(data / FILE_NAME)) as connection:
            connection.execute("UPDATE events SET checksum = 1 WHERE revision = (SELECT max(revision) FROM events)")
            connection.commit()
        assert f"{FILE_NAME}.{copy}; " in done("check", "--repair", "--data", "data", cwd=tmp_path)


async def test_no_repair_under_a_server(server: SQLiteStorage, tmp_path: Path) -> None:
    assert "is in use by another server" in refused("check", "--repair", "--data", "data", cwd=tmp_path)
    await server.close()


def test_what_only_reads_can_read_what_it_may_not_write(data: Path) -> None:
    with closing(open_to_read(data / FILE_NAME)) as connection, pytest.raises(sqlite3.OperationalError, match="readonly"):
        connection.execute("DELETE FROM events")
    assert os.path.exists(data / FILE_NAME)


async def test_a_repair_knows_a_gap_from_lost_events(tmp_path: Path) -> None:
    """An object that the list has lost is put back, since the events after it are whole, in spite of the gap."""
    path = tmp_path / "data" / FILE_NAME
    path.parent.mkdir()
    store = SQLiteStorage(path)
    await store.start()
    await store.create(KEY + "a", VALUE)
    assert await store.advance(1_000) == 1_000
    await store.create(KEY + "b", VALUE)
    await store.close()
    assert "objects: 3 (crontabs.stable.example.com 2, store.aggserver 1); revision 1001" in done(
        "check", "--data", "data", cwd=tmp_path
    )
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"DELETE FROM current WHERE key = '{KEY}a'")
        connection.commit()
    line = done("check", "--repair", "--data", "data", cwd=tmp_path)
    assert f"objects kept: 3; put back: 1 ({KEY}a);" in line
    assert f"revision {1_001 + BUMP}," in line
