"""Records that a server keeps for itself, with one bit flipped: what goes on, what does not, and what it says."""

from __future__ import annotations

import copy

import pytest

from aggserver.apiextensions.definition import parse
from aggserver.apiextensions.migration import Migration
from aggserver.apiextensions.stored_versions import FolderLedger
from aggserver.registry.storage_version import Fence, SpecState, StorageVersions
from aggserver.storage.interface import KeyValue
from aggserver.storage.memory import MemoryStorage
from aggserver.storage.records import DamagedRecord, decode, is_sound
from tests.fakes.clock import settled
from tests.fakes.damage import FAULT, flip
from tests.fakes.definitions import CRONTABS, CRONTABS_PATH, crontab
from tests.fakes.server import LocalServer

NAME = "crontabs.stable.example.com"
REMEDY = "stop the server and run `aggserver storage check --repair`, see Damaged records in docs/storage.md"
VERSIONS, MARKS, MIGRATIONS = (f"/aggserver/{kind}/{NAME}" for kind in ("storageversions", "definitions", "migrations"))


async def opened() -> MemoryStorage:
    storage = MemoryStorage()
    await storage.start()
    return storage


@pytest.mark.parametrize(
    ("value", "fault", "why"),
    [
        pytest.param(b'{"a":1}', FAULT, FAULT, id="another checksum"),
        pytest.param(b'{"a":1', "", "it is not as this server writes it: ", id="no JSON"),
        pytest.param(b"[]", "", "it is not as this server writes it: TypeError", id="no object"),
        pytest.param(b"{}", "", "it is not as this server writes it: KeyError('a')", id="a field missing"),
        pytest.param(b"\xff", "", "it is not as this server writes it: ", id="no text"),
    ],
)
def test_what_is_damaged_says_what_to_do(value: bytes, fault: str, why: str) -> None:
    with pytest.raises(DamagedRecord) as told:
        decode(KeyValue("/aggserver/x/y", value, 5, 7, fault), lambda found: found["a"])
    assert str(told.value).startswith(f"/aggserver/x/y at revision 7 can't be read: {why}")
    assert str(told.value).endswith(f"; {REMEDY}")
    assert decode(KeyValue("/aggserver/x/y", b'{"a":1}', 5, 7), lambda found: found["a"]) == 1


def test_what_is_sound_without_a_checksum() -> None:
    assert is_sound("/aggserver/x/y", b"{}")
    assert not is_sound("/aggserver/x/y", b"[]")
    assert not is_sound("/aggserver/x/y", b"{")
    assert is_sound("/aggserver/installation/id", b"11111111-2222-3333-4444-555555555555")
    assert not is_sound("/aggserver/installation/id", b"11111111-2222-3333-4444-55555555555\xff")
    assert not is_sound("/aggserver/installation/id", b"{}")


async def test_a_storage_version_that_is_not_known_is_told_with_each_write() -> None:
    storage = await opened()
    await StorageVersions(storage).enforce(NAME, "v1", SpecState("u", 1))
    flip(storage, VERSIONS)
    server = LocalServer(storage)
    await server.start()
    server.engine.definitions.set(parse(CRONTABS), identity=SpecState("u", 1))
    client = server.client()
    answer = await client.post(CRONTABS_PATH, crontab("a"))
    assert (answer.status, answer.json()["reason"]) == (500, "InternalError")
    assert f"{VERSIONS} at revision 2 can't be read: {FAULT}; {REMEDY}" in answer.json()["message"]
    assert (await client.get(CRONTABS_PATH)).status == 200, "reads go on"
    assert (await client.get("/readyz")).status == 500
    assert VERSIONS in (await client.get("/readyz/stored-objects")).body.decode()
    # As a repair does it, which no server needs to be told of.
    found = await storage.get(VERSIONS)
    assert found is not None
    await storage.delete(VERSIONS, found.revision)
    await settled()
    assert (await client.post(CRONTABS_PATH, crontab("a"))).status == 201
    assert (await client.get("/readyz")).status == 200
    await server.stop()


async def test_a_migration_that_can_not_know_is_told() -> None:
    storage = await opened()
    versions = StorageVersions(storage)
    await versions.enforce(NAME, "v1", SpecState("u", 1))
    flip(storage, VERSIONS)
    with pytest.raises(DamagedRecord, match="can't be read"):
        await versions.enforce(NAME, "v1", SpecState("u", 1))
    with pytest.raises(Exception, match=f"whether {NAME} may be stored as v1 is not known"):
        await Fence(versions, NAME, "v1", SpecState("u", 1)).newest()


async def expired(server: LocalServer, revision: str) -> bool:
    async with server.client().watch(f"{CRONTABS_PATH}?watch=1&resourceVersion={revision}") as watch:
        assert (await server.client().post(CRONTABS_PATH, crontab(f"new-{revision}"))).status == 201
        event = await watch.event()
        return bool(event["object"].get("reason") == "Expired")


@pytest.mark.parametrize("key", [MARKS, f"{MARKS}/objects"])
async def test_a_damaged_mark_lets_clients_list_once_more_and_is_written_anew(key: str) -> None:
    storage = await opened()
    first = LocalServer(storage)
    await first.start()
    first.serve(copy.deepcopy(dict(CRONTABS)))
    if key.endswith("/objects"):
        await first.engine.definitions.expire_before(NAME)
    assert (await first.client().post(CRONTABS_PATH, crontab("a"))).status == 201
    before = (await first.client().get(CRONTABS_PATH)).json()["metadata"]["resourceVersion"]
    await first.stop()
    await storage.start()
    if key not in storage._current:
        await storage.create(key, b'{"content":"0","changed":false}')
    damaged = flip(storage, key)
    server = LocalServer(storage)
    await server.start()
    server.serve(CRONTABS)
    assert (await server.client().get(CRONTABS_PATH)).status == 200
    await settled()
    assert await expired(server, before)
    anew = await storage.get(key)
    assert anew is not None
    assert (anew.revision > damaged, anew.fault) == (True, "")
    after = (await server.client().get(CRONTABS_PATH)).json()["metadata"]["resourceVersion"]
    assert not await expired(server, after)
    assert (await server.client().get("/readyz")).status == 200
    await server.stop()


async def test_a_migration_whose_record_is_damaged_is_made_once_more() -> None:
    storage = await opened()
    ledger, migration = FolderLedger(storage), Migration(NAME, "v1", (), SpecState("", 1))
    assert await ledger.begin(migration)
    await ledger.finish(migration)
    assert not await ledger.begin(migration)
    # Only the checksum is wrong: the value is what is to be written.
    flip(storage, MIGRATIONS)
    flip(storage, MIGRATIONS)
    assert await ledger.begin(migration)
    await ledger.finish(migration)
    assert not await ledger.begin(migration)
    assert (await storage.get(MIGRATIONS) or KeyValue("", b"", 0, 0, FAULT)).fault == ""
