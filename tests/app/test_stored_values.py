"""`aggserver storage check` and the records that servers keep for themselves, in SQLite and in etcd."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from aggserver.adoption.records.journal import Journal
from aggserver.adoption.records.record import Phase, Record
from aggserver.apiextensions.marks import Marks
from aggserver.apiextensions.migration import Migration
from aggserver.apiextensions.stored_versions import FolderLedger
from aggserver.app.installation import installation_id
from aggserver.app.stored_values import decode
from aggserver.meta.resource import ResourceInfo
from aggserver.registry.storage_version import SpecState, StorageVersions
from aggserver.resources.sidecar import Sidecar
from aggserver.storage import etcd_maintenance
from aggserver.storage.etcd_maintenance import UnreadableError
from aggserver.storage.interface import Storage
from aggserver.storage.memory import MemoryStorage
from aggserver.storage.sqlite import SQLiteStorage
from aggserver.storage.sqlite_file import FILE_NAME
from aggserver.storage.sqlite_maintenance import DamagedError, check
from aggserver.storage.sqlite_repair import repair

NAME = "crontabs.stable.example.com"
ADOPTION = f"/aggserver/adoptions/{NAME}"
RECORDS = (
    ADOPTION,
    f"/aggserver/adopted/{NAME}",
    f"/aggserver/definitions/{NAME}",
    f"/aggserver/definitions/{NAME}/objects",
    "/aggserver/installation/copy",
    "/aggserver/installation/id",
    "/aggserver/metadata/tickets.helpdesk.example.com/default:a",
    f"/aggserver/migrations/{NAME}",
    "/aggserver/store/revision",
    f"/aggserver/storageversions/{NAME}",
)


async def fill(storage: Storage) -> None:
    """Let servers write each kind of record."""
    record = Record(NAME, {NAME: "u"}, [("stable.example.com", "v1")], Phase.ADOPTED, shared=False, since="2026-01-01T00:00:00Z")
    journal = Journal(storage)
    await journal.write(record)
    await journal.keep_definition({"metadata": {"name": NAME}})
    await StorageVersions(storage).enforce(NAME, "v1", SpecState("u", 1))
    await FolderLedger(storage).finish(Migration(NAME, "v1", (), SpecState("", 1)))
    marks = Marks(storage)
    await marks.compare(NAME, lambda: "digest", remember=True)
    await marks.imported(NAME)
    await installation_id(storage)
    tickets = ResourceInfo("helpdesk.example.com", "v1", "tickets", "Ticket", "TicketList", namespaced=True)
    await Sidecar(storage, tickets).write("/helpdesk.example.com/tickets/default/a", "u", None, {"labels": {"a": "b"}})
    await storage.advance(1000)
    assert sorted(item.key for item in (await storage.list("/aggserver/")).items) == sorted(RECORDS)


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """The file of a store with all records, which no server uses."""
    storage = SQLiteStorage(tmp_path / FILE_NAME)
    await storage.start()
    await fill(storage)
    await storage.close()
    return tmp_path / FILE_NAME


def bits(path: Path, key: str) -> Iterator[int]:
    """Some bits of the value at a key."""
    with closing(sqlite3.connect(path)) as connection:
        (size,) = connection.execute("SELECT length(value) FROM events WHERE key = ? ORDER BY revision DESC", (key,)).fetchone()
    yield from (0, 8 * size // 2, 8 * size - 1)


def flip(path: Path, key: str, bit: int) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        revision, value = connection.execute(
            "SELECT revision, value FROM events WHERE key = ? ORDER BY revision DESC LIMIT 1", (key,)
        ).fetchone()
        damaged = bytearray(value)
        damaged[bit // 8] ^= 1 << bit % 8
        connection.execute("UPDATE events SET value = ? WHERE revision = ?", (bytes(damaged), revision))


def silent(_: str) -> None:
    return None


def test_all_records_are_sound(path: Path) -> None:
    assert "is sound" in check(path, silent)


@pytest.mark.parametrize("key", RECORDS)
async def test_one_flipped_bit_is_named_and_put_right(key: str, path: Path) -> None:
    for bit in bits(path, key):
        flip(path, key, bit)
        with pytest.raises(DamagedError, match=f"of {key} is damaged: "):
            check(path, silent)
        assert f"put right: 1 ({key})" in repair(path, silent)
        assert "is sound" in check(path, silent)
    storage = SQLiteStorage(path)
    await storage.start()
    journal = Journal(storage)
    await journal.read()
    assert (list(journal.records), journal.trouble()) == ([NAME], None)
    assert [item.fault for item in (await storage.list("/aggserver/")).items] == [""] * len(RECORDS)
    await storage.close()


DAMAGE = {
    "no JSON": b'{"damaged',
    "other fields": b'{"damaged":1}',
    "a list": b"[]",
}


@pytest.mark.parametrize("what", DAMAGE)
@pytest.mark.parametrize(
    "key", [key for key in RECORDS if any(each in key for each in ("adoption", "definitions", "versions", "metadata"))]
)
async def test_etcd_has_no_checksums_so_records_are_read(key: str, what: str, tmp_path: Path) -> None:
    storage = MemoryStorage()
    await storage.start()
    await fill(storage)
    assert "all values can be read: objects: 10 " in await etcd_maintenance.check(storage, decode, silent)
    current = await storage.get(key)
    assert current is not None
    await storage.update(key, DAMAGE[what], current.revision)
    with pytest.raises(UnreadableError, match=f"^{key} at revision .* can't be read: it is not as this server writes it: "):
        await etcd_maintenance.check(storage, decode, silent)
    lines: list[str] = []
    done = await etcd_maintenance.repair(storage, decode, lines.append, tmp_path)
    assert (await storage.get(key) is None) == (key != ADOPTION), "nobody could give the objects back without it"
    assert ("removed: 0" in done) == (key == ADOPTION)
    assert any("put it right by `etcdctl put`" in line for line in lines) == (key == ADOPTION)
