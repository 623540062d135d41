"""Migration of stored objects after a change of the storage version, with the controller, or with definitions from a folder."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from aggserver.apiextensions.controller import DefinitionController
from aggserver.apiextensions.definition import parse
from aggserver.apiextensions.migration import Limits, Migration, Migrator
from aggserver.apiextensions.serving import DefinitionResource
from aggserver.apiextensions.stored_versions import FolderLedger, FolderMigrations, StatusLedger, StatusMigrations, due
from aggserver.conversion.converter import ConversionError, NoneConverter
from aggserver.meta.json_types import JSONObject
from aggserver.registry.migration import Rewriter
from aggserver.registry.storage_version import SpecState, Superseded
from aggserver.storage.memory import MemoryStorage
from aggserver.storage.sqlite import SQLiteStorage
from tests.fakes.asgi import Client
from tests.fakes.clock import settled, until
from tests.fakes.definitions import GROUP, crontab, definition, version
from tests.fakes.server import LocalServer

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAME = f"crontabs.{GROUP}"
ONE = f"{CRDS}/{NAME}"
PREFIX = f"/{GROUP}/crontabs/"
PATH = f"/apis/{GROUP}/v1/namespaces/default/crontabs"
_SPEC = {"spec": {"type": "object", "properties": {"cronSpec": {"type": "string"}}}}


def crontabs(storage: str = "v1", *names: str) -> JSONObject:
    versions = [version(name, _SPEC) for name in names or ("v1", "v2")]
    crd = definition("crontabs", "CronTab", *versions)
    for each in crd["spec"]["versions"]:
        each["storage"] = each["name"] == storage
    return crd


class Migrating:
    """A LocalServer that migrates. `slept`: the seconds of all pauses. Time passes only in pauses."""

    def __init__(self, storage: Any = None, *, limits: Limits | None = None, folder: bool = False) -> None:
        self.server = LocalServer(storage)
        self.slept: list[float] = []
        self.observed: list[tuple[str, str, str, int, int, int]] = []
        self.held: asyncio.Event | None = None
        self.held_after = 0  # pauses that are over at once
        definitions = self.server.engine.definitions
        ledger: Any = FolderLedger(self.server.storage)
        if not folder:
            ledger = StatusLedger(self.server.crds, definitions.storage_versions, self.server.clock)
        self.migrator = Migrator(
            definitions,
            self.server.storage,
            ledger,
            clock=self.server.clock,
            sleep=self._sleep,
            observe=lambda *told: self.observed.append(told),
            limits=limits,
        )
        self.folder = FolderMigrations(self.migrator)
        if not folder:
            migrations = StatusMigrations(self.migrator, ledger)
            controller = DefinitionController(
                self.server.crds,
                definitions,
                self.server.clock,
                self.server.timers.call_later,
                migrations,
                is_built_in=self.server.engine.installer.built_in,
            )
            self.server.controller = controller
        self._task: asyncio.Task[None] | None = None

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if self.held is None and self.held_after and len(self.slept) > self.held_after:
            self.held = asyncio.Event()
        if self.held is not None:
            await self.held.wait()
        await self.server.clock.sleep(seconds)

    @property
    def client(self) -> Client:
        return self.server.client()

    async def start(self) -> None:
        await self.server.start()
        self.server.run()
        self._task = asyncio.create_task(self.migrator.run())

    async def stop(self) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.server.stop()

    async def crd(self) -> Any:
        return (await self.client.get(ONE)).json()

    async def establish(self, crd: JSONObject | None = None) -> None:
        assert (await self.client.post(CRDS, crd or crontabs())).status == 201
        assert await self.server.controller.settled([NAME]) == {}

    async def store_as(self, name: str, *names: str) -> None:
        """Change the storage version."""
        crd = crontabs(name, *names)
        answer = await self.client.merge(ONE, {"spec": crd["spec"]})
        assert answer.status == 200, answer.body

    async def migrated(self) -> None:
        await until(lambda: self._is_migrated())

    async def _is_migrated(self) -> bool:
        return len((await self.crd())["status"]["storedVersions"]) == 1


async def stored(server: LocalServer) -> dict[str, str]:
    """The version in which each object is stored, by its name."""
    page = await server.storage.list(PREFIX)
    return {item.key.rpartition("/")[2]: json.loads(item.value)["apiVersion"].rpartition("/")[2] for item in page.items}


def condition(crd: Any) -> dict[str, Any]:
    return next((entry for entry in crd["status"]["conditions"] if entry["type"] == "StorageMigrating"), {})


@pytest.fixture
async def one() -> AsyncIterator[Migrating]:
    one = Migrating()
    await one.start()
    yield one
    await one.stop()


async def plant(one: Migrating, count: int) -> None:
    for number in range(count):
        assert (await one.client.post(PATH, crontab(f"n{number}"))).status == 201


async def test_objects_are_rewritten_and_the_stored_versions_trimmed(one: Migrating) -> None:
    await one.establish()
    await plant(one, 3)
    before = (await one.client.get(f"{PATH}/n0")).json()
    async with one.client.watch(f"{PATH}?watch=1&resourceVersion={before['metadata']['resourceVersion']}"):
        await one.store_as("v2")
        await one.migrated()
    assert await stored(one.server) == {"n0": "v2", "n1": "v2", "n2": "v2"}
    after = (await one.client.get(f"{PATH}/n0")).json()
    assert after["metadata"].pop("resourceVersion") != before["metadata"].pop("resourceVersion")
    assert after == before
    crd = await one.crd()
    assert crd["status"]["storedVersions"] == ["v2"]
    told = condition(crd)
    assert told.pop("lastTransitionTime")
    assert told == {
        "type": "StorageMigrating",
        "status": "False",
        "reason": "MigrationSucceeded",
        "message": "The migration has succeeded and the stored versions have been updated",
        "observedGeneration": 2,
    }
    assert one.slept[0] == 5.0
    assert sum(told[3] for told in one.observed) == 3
    # Now the old version may go.
    assert (await one.client.merge(ONE, {"spec": crontabs("v2", "v2")["spec"]})).status == 200


async def test_while_it_is_migrated(one: Migrating) -> None:
    await one.establish()
    await plant(one, 1)
    one.held = asyncio.Event()
    await one.store_as("v2")
    await until(lambda: one.slept)
    crd = await one.crd()
    assert crd["status"]["storedVersions"] == ["v1", "v2"]
    refused = await one.client.merge(ONE, {"spec": crontabs("v2", "v2")["spec"]})
    assert (refused.status, "v1 was previously a storage version" in refused.message) == (422, True)
    one.held.set()
    await one.migrated()


async def test_nothing_is_written_while_no_storage_version_changes(one: Migrating) -> None:
    await one.establish()
    await plant(one, 1)
    revision = await one.server.storage.revision()
    assert (await one.client.merge(ONE, {"metadata": {"labels": {"a": "b"}}})).status == 200
    await settled()
    assert await one.server.storage.revision() == revision + 1
    assert not condition(await one.crd())


async def test_stored_versions_set_by_hand(one: Migrating) -> None:
    """The manual steps go on working, also while it is migrated."""
    await one.establish()
    await plant(one, 1)
    one.held = asyncio.Event()
    await one.store_as("v2")
    await until(lambda: one.slept)
    obj = (await one.client.get(f"{PATH}/n0")).json()
    assert (await one.client.put(f"{PATH}/n0", obj)).status == 200
    assert await stored(one.server) == {"n0": "v2"}
    assert (await one.client.merge(f"{ONE}/status", {"status": {"storedVersions": ["v2"]}})).status == 200
    one.held.set()
    await settled()
    crd = await one.crd()
    assert crd["status"]["storedVersions"] == ["v2"]
    assert condition(crd).get("status", "False") == "False"


async def test_stored_versions_set_by_hand_end_what_is_said_to_run(one: Migrating, monkeypatch: pytest.MonkeyPatch) -> None:
    converter = Sometimes("n0")
    refuse(converter, monkeypatch, one)
    await one.establish()
    await plant(one, 1)
    await one.store_as("v2")
    await until(lambda: is_retrying(one))
    assert (await one.client.merge(f"{ONE}/status", {"status": {"storedVersions": ["v2"]}})).status == 200
    await until(lambda: is_closed(one))
    assert condition(await one.crd())["message"] == "The stored versions have been updated"


async def is_closed(one: Migrating) -> bool:
    return condition(await one.crd())["status"] == "False"


async def test_a_definition_that_fails_holds_up_no_other(one: Migrating, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(Sometimes("n0"), monkeypatch, one)
    await one.establish()
    await plant(one, 1)
    clocks = definition("clocks", "Clock", version("v1", _SPEC), version("v2", _SPEC))
    assert (await one.client.post(CRDS, clocks)).status == 201
    assert await one.server.controller.settled([f"clocks.{GROUP}"]) == {}
    await one.store_as("v2")
    await until(lambda: is_retrying(one))
    for each in clocks["spec"]["versions"]:
        each["storage"] = each["name"] == "v2"
    assert (await one.client.merge(f"{CRDS}/clocks.{GROUP}", {"spec": clocks["spec"]})).status == 200
    await until(lambda: has_new_clocks(one))
    assert await is_retrying(one)


async def test_a_fault_of_the_server_is_told_and_tried_again(
    one: Migrating, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rewrite, faults = Rewriter.rewrite, [ValueError("no such thing")]

    async def faulty(self: Rewriter, items: Any) -> Any:
        if faults:
            raise faults.pop()
        return await rewrite(self, items)

    monkeypatch.setattr(Rewriter, "rewrite", faulty)
    await one.establish()
    await plant(one, 1)
    await one.store_as("v2")
    await one.migrated()
    assert await stored(one.server) == {"n0": "v2"}
    assert "the migration failed, trying again in 1 s" in caplog.text
    assert "ValueError: no such thing" in caplog.text


async def has_new_clocks(one: Migrating) -> bool:
    crd = (await one.client.get(f"{CRDS}/clocks.{GROUP}")).json()
    return bool(crd["status"]["storedVersions"] == ["v2"])


async def test_a_definition_that_changes_again_meanwhile(one: Migrating) -> None:
    await one.establish(crontabs("v1", "v1", "v2", "v3"))
    await plant(one, 2)
    one.held = asyncio.Event()
    await one.store_as("v2", "v1", "v2", "v3")
    await until(lambda: one.slept)
    await one.store_as("v3", "v1", "v2", "v3")
    one.held.set()
    await one.migrated()
    assert (await one.crd())["status"]["storedVersions"] == ["v3"]
    assert set((await stored(one.server)).values()) == {"v3"}


async def test_there_and_back(one: Migrating) -> None:
    await one.establish()
    await plant(one, 2)
    for name in ("v2", "v1", "v2"):
        await one.store_as(name)
        await one.migrated()
        assert set((await stored(one.server)).values()) == {name}
        assert (await one.client.post(PATH, crontab(f"made-as-{name}-{len(one.slept)}"))).status == 201
        assert set((await stored(one.server)).values()) == {name}


def refuse(converter: NoneConverter, monkeypatch: pytest.MonkeyPatch, one: Migrating, name: str = NAME) -> None:
    """Have the objects of a definition converted by `converter`."""
    rewriter_of = DefinitionResource.rewriter

    def rewriter(resource: DefinitionResource) -> Rewriter:
        made = rewriter_of(resource)
        if resource.definition.name == name:
            object.__setattr__(made._resource, "converter", converter)
        return made

    monkeypatch.setattr(DefinitionResource, "rewriter", rewriter)


class Sometimes(NoneConverter):
    """Can't convert some objects, until it can."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.names = set(names)

    async def convert(self, objects: Sequence[JSONObject], api_version: str) -> list[JSONObject]:
        for index, obj in enumerate(objects):
            if obj["metadata"]["name"] in self.names:
                raise ConversionError("the webhook is down", index)
        return await super().convert(objects, api_version)


async def test_objects_that_fail_are_named_and_tried_again(one: Migrating, monkeypatch: pytest.MonkeyPatch) -> None:
    converter = Sometimes("n1")
    await one.establish()
    await plant(one, 3)
    refuse(converter, monkeypatch, one)
    await one.store_as("v2")
    await until(lambda: is_retrying(one))
    assert await stored(one.server) == {"n0": "v2", "n1": "v1", "n2": "v2"}
    crd = await one.crd()
    assert crd["status"]["storedVersions"] == ["v1", "v2"]
    assert condition(crd)["message"] == (
        "Migration of objects stored as v1 to v2 is running: 1 object can't be rewritten yet: default/n1: the webhook is down"
    )
    assert one.observed[-1] == (GROUP, "v2", "crontabs", 0, 0, 1)
    converter.names.clear()
    await one.migrated()
    assert one.observed[-1][-1] == 0
    assert [pause for pause in one.slept if pause in (1.0, 2.0, 4.0)][:3] == [1.0, 2.0, 4.0]


async def is_retrying(one: Migrating) -> bool:
    return condition(await one.crd()).get("reason") == "MigrationRetrying"


async def test_an_object_that_can_not_be_read_keeps_the_old_version(one: Migrating) -> None:
    await one.establish()
    await plant(one, 1)
    await one.server.storage.create(f"{PREFIX}default/bad", b'{"apiVersion":"x/v1","kind":"CronTab","metadata":{')
    await one.store_as("v2")
    await until(lambda: is_retrying(one))
    crd = await one.crd()
    assert crd["status"]["storedVersions"] == ["v1", "v2"]
    assert "default/bad: it can't be read" in condition(crd)["message"]
    (bad,) = [item for item in (await one.server.storage.list(PREFIX)).items if item.key.endswith("/bad")]
    await one.server.storage.delete(bad.key, bad.revision)
    await one.migrated()


async def test_a_deleted_definition_is_forgotten(one: Migrating) -> None:
    await one.establish()
    await plant(one, 1)
    one.held = asyncio.Event()
    await one.store_as("v2")
    await until(lambda: one.slept)
    assert (await one.client.delete(ONE)).status == 200
    one.held.set()
    await until(lambda: is_gone(one))


async def is_gone(one: Migrating) -> bool:
    for timer in list(one.server.timers.pending):
        timer.cancel()
        timer.callback()
    return (await one.client.get(ONE)).status == 404


# --- several servers ---


async def test_a_server_that_has_not_seen_the_change_can_not_write_in_the_old_version() -> None:
    """Its client is told to try again, and succeeds once the server has seen the change."""
    storage = MemoryStorage()
    one = Migrating(storage)
    await one.start()
    other = LocalServer(storage)  # serves what it was told, and is not told of the change
    await one.establish()
    crd = await one.crd()
    other.engine.definitions.set(parse(crd), identity=identity(crd))
    await plant(one, 2)
    assert (await other.client().post(PATH, crontab("there"))).status == 201
    await one.store_as("v2")
    await one.migrated()
    obj = (await other.client().get(f"{PATH}/there")).json()
    for answer in (
        await other.client().put(f"{PATH}/there", obj | {"spec": {"cronSpec": "1"}}),
        await other.client().post(PATH, crontab("late")),
    ):
        assert (answer.status, answer.json()["details"]["retryAfterSeconds"]) == (503, 1)
    assert set((await stored(one.server)).values()) == {"v2"}
    crd = await one.crd()
    other.engine.definitions.set(parse(crd), identity=identity(crd))
    assert (await other.client().post(PATH, crontab("late"))).status == 201
    assert set((await stored(one.server)).values()) == {"v2"}
    await one.stop()


def identity(crd: Any) -> Any:
    found = due({**crd, "status": {"storedVersions": ["other"]}})
    assert found is not None
    return found.identity


async def test_a_write_that_began_before_the_change(one: Migrating) -> None:
    """It waits for a webhook, say, and would be stored in the old version."""
    await one.establish()
    await plant(one, 1)
    resource = one.server.engine.definitions.get(NAME)
    assert resource is not None
    before = resource.store(resource.definition.storage_version)
    await one.store_as("v2")
    await one.migrated()
    revision = (await one.server.storage.list(PREFIX)).items[0].revision
    with pytest.raises(Superseded, match="has changed from v1"):
        await before._resource.update(f"{PREFIX}default/n0", b"{}", revision)


async def test_two_servers_migrate_the_same_objects() -> None:
    storage = MemoryStorage()
    both = [Migrating(storage), Migrating(storage)]
    for each in both:
        await each.start()
    await both[0].establish()
    await plant(both[0], 120)
    await until(lambda: serves(both[1]))
    before = await storage.revision()
    await both[0].store_as("v2")
    for each in both:
        await each.migrated()
    await settled()
    assert set((await stored(both[0].server)).values()) == {"v2"}
    assert condition(await both[1].crd())["reason"] == "MigrationSucceeded"
    writes = await storage.history(PREFIX, before, await storage.revision(), 1000)
    assert len(writes) == len({write.key for write in writes}) == 120  # each once
    for each in both:
        await each.stop()


async def serves(one: Migrating) -> bool:
    return one.server.engine.definitions.get(NAME) is not None


# --- pace, and restarts ---


async def test_it_is_paced() -> None:
    one = Migrating(limits=Limits(objects=100.0, written_bytes=1e9))
    await one.start()
    await one.establish()
    await plant(one, 100)
    one.slept.clear()
    await one.store_as("v2")
    await one.migrated()
    # 100 objects per second, after the pause of 5 s.
    assert one.slept[0] == 5.0
    assert sum(one.slept[1:]) == pytest.approx(1.0, abs=0.01)
    assert max(one.slept[1:]) == pytest.approx(0.5, abs=0.01)  # a batch of 50
    await one.stop()


async def test_it_goes_on_after_a_restart(tmp_path: Path) -> None:
    storage: Any = SQLiteStorage(tmp_path / "aggserver.db")
    one = Migrating(storage, limits=Limits())
    await one.start()
    await one.establish()
    await plant(one, 60)
    one.held_after = 1  # in the pause after the first batch
    await one.store_as("v2")
    await until(lambda: has_paused(one))
    await one.stop()
    storage = SQLiteStorage(tmp_path / "aggserver.db")
    again = Migrating(storage)
    await again.start()
    done = list((await stored(again.server)).values())
    assert set(done) == {"v1", "v2"}
    revisions = {item.key: item.revision for item in (await storage.list(PREFIX)).items}
    await again.server.controller.caught_up()
    await again.migrated()
    assert set((await stored(again.server)).values()) == {"v2"}
    after = {item.key: item.revision for item in (await storage.list(PREFIX)).items}
    assert sum(after[key] == revision for key, revision in revisions.items()) == done.count("v2")
    await again.stop()


async def has_paused(one: Migrating) -> bool:
    return len(one.slept) == 2


# --- definitions from a folder ---


@pytest.fixture
async def folders() -> AsyncIterator[Callable[[], Awaitable[Migrating]]]:
    """Starts servers on the same storage."""
    storage = MemoryStorage()
    started: list[Migrating] = []

    async def start() -> Migrating:
        one = Migrating(storage, folder=True)
        await one.start()
        started.append(one)
        return one

    yield start
    for one in started:
        await one.stop()


def serve(one: Migrating, crd: JSONObject) -> None:
    found = parse(crd)
    one.server.engine.definitions.set_all({found.name: found})
    one.folder.sync([found])


async def all_stored_as(one: Migrating, version: str) -> bool:
    return set((await stored(one.server)).values()) == {version}


async def recorded(one: Migrating, version: str) -> bool:
    record = await one.server.storage.get(f"/aggserver/migrations/{NAME}")
    return record is not None and json.loads(record.value)["version"] == version


async def test_a_folder_that_changes(folders: Callable[[], Awaitable[Migrating]], caplog: pytest.LogCaptureFixture) -> None:
    one = await folders()
    serve(one, crontabs("v1"))
    await plant(one, 3)
    await until(lambda: recorded(one, "v1"))
    serve(one, crontabs("v2"))
    await until(lambda: recorded(one, "v2"))
    assert await all_stored_as(one, "v2")
    assert "removed" not in caplog.text
    serve(one, crontabs("v3", "v1", "v3"))
    assert f"{NAME}: version v2 is removed, but objects may still be stored in it" in caplog.text
    await until(lambda: recorded(one, "v3"))
    assert await all_stored_as(one, "v3")


@pytest.mark.parametrize("version", ["v1", "v2"])
async def test_a_folder_that_may_have_changed_between_two_starts(
    folders: Callable[[], Awaitable[Migrating]], version: str
) -> None:
    one = await folders()
    serve(one, crontabs("v1"))
    await plant(one, 3)
    await until(lambda: recorded(one, "v1"))
    revision = await one.server.storage.revision()
    again = await folders()
    serve(again, crontabs(version))
    await until(lambda: recorded(again, version))
    await settled()
    assert await all_stored_as(again, version)
    assert (await again.server.storage.revision() == revision) is (version == "v1")


async def test_servers_with_different_folders_do_not_undo_each_others_work(folders: Callable[[], Awaitable[Migrating]]) -> None:
    new, late = await folders(), await folders()
    for each in (new, late):
        serve(each, crontabs("v1"))
    await plant(new, 3)
    await until(lambda: recorded(new, "v1"))
    serve(new, crontabs("v2"))
    await until(lambda: recorded(new, "v2"))
    assert (await late.client.post(PATH, crontab("late"))).status == 201
    await settled()
    assert await stored(new.server) == {"n0": "v2", "n1": "v2", "n2": "v2", "late": "v1"}
    serve(late, crontabs("v2"))
    await until(lambda: all_stored_as(late, "v2"))


async def test_a_definition_that_is_not_served_yet(folders: Callable[[], Awaitable[Migrating]]) -> None:
    """Its migration is given up, and begins when it is wanted again."""
    one = await folders()
    serve(one, crontabs("v1"))
    await plant(one, 1)
    await until(lambda: recorded(one, "v1"))
    wanted = Migration(NAME, "v2", ("v1",), SpecState("", 100))
    one.migrator.want(wanted)
    await settled()
    assert await all_stored_as(one, "v1")
    found = parse(crontabs("v2"))
    one.server.engine.definitions.set_all({NAME: found})
    one.migrator.want(wanted)
    await until(lambda: recorded(one, "v2"))
    assert await all_stored_as(one, "v2")
