"""Releases by a backup, between two stores in memory and a fake host."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aggserver.adoption.families import FINALIZER
from aggserver.adoption.give_back.from_backup import MARGIN, opened_backup, records, release_from_backup, without_resources
from aggserver.adoption.leftovers.version import VERSION
from aggserver.adoption.records.journal import Journal
from aggserver.adoption.records.record import CantGiveBack, Copied, Phase, Record, Refused, digest
from aggserver.adoption.switch.guard import SELF_REVIEWS
from aggserver.cluster import ClusterError
from aggserver.storage import sqlite_maintenance
from aggserver.storage.interface import Storage, Unavailable
from aggserver.storage.memory import MemoryStorage
from aggserver.storage.sqlite import SQLiteStorage
from tests.fakes.cluster import FakeCluster, status

GROUP = "stable.example.com"
NAME = f"shirts.{GROUP}"
PREFIX = f"/{GROUP}/shirts/"
OBJECTS = f"/apis/{GROUP}/v1/shirts"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
GUARDS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


def guard(*resources: tuple[str, str]) -> dict[str, Any]:
    rules = [{"apiGroups": [group], "apiVersions": ["*"], "resources": [name, f"{name}/*"]} for group, name in resources]
    probe = {"apiGroups": [""], "apiVersions": ["*"], "resources": ["configmaps"]}
    return {
        "metadata": {"name": "guard", "labels": {"aggserver.io/guard": "true"}},
        "webhooks": [
            {
                "name": "writes.guard.aggserver.io",
                "rules": rules,
                "matchConditions": [{"name": "not-aggserver", "expression": "x"}],
            },
            {"name": "probe", "rules": [probe]},
        ],
    }


SHIRTS, HATS = (GROUP, "shirts"), (GROUP, "hats")


def test_what_is_left_of_a_guard() -> None:
    assert without_resources(guard(SHIRTS), [SHIRTS]) is None
    assert without_resources(guard(SHIRTS, HATS), [SHIRTS]) == guard(HATS)
    assert without_resources(guard(SHIRTS, HATS), [("other", "shirts")]) == guard(SHIRTS, HATS)
    one_rule = guard(SHIRTS)
    one_rule["webhooks"][0]["rules"][0]["resources"] += ["hats", "hats/*"]
    assert without_resources(one_rule, [SHIRTS]) == guard(HATS)


class World:
    """A backup of a server that had adopted shirts, the host, and its etcd."""

    def __init__(self, own: Storage, etcd: Storage) -> None:
        self.own = own
        self.etcd = etcd
        self.host = FakeCluster()
        self.host.on("POST", SELF_REVIEWS, lambda body: {"status": {"userInfo": {"username": "admin"}}})
        self.said: list[str] = []

    async def fill(self, phase: Phase = Phase.ADOPTED, *, shared: bool = False) -> World:
        crd = {
            "metadata": {"name": NAME, "uid": "u-1", "finalizers": ["other", FINALIZER]},
            "spec": {
                "group": GROUP,
                "scope": "Cluster",
                "names": {"plural": "shirts"},
                "versions": [{"name": "v1", "served": True, "storage": True}],
            },
        }
        await self.host.put(CRDS, crd)
        await self.etcd.create(CRDS.removeprefix("/apis").replace("/v1", "") + f"/{NAME}", json.dumps(crd).encode())
        labels = {"app.kubernetes.io/managed-by": "aggserver-adoption"}
        spec = {"group": GROUP, "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 100}
        service = {"metadata": {"name": f"v1.{GROUP}", "labels": labels}, "spec": {**spec, "service": {"name": "aggserver"}}}
        await self.host.put(SERVICES, service)
        await self.host.put(GUARDS, guard(SHIRTS, HATS))
        await self.host.put(GUARDS, {"metadata": {"name": "another"}, "webhooks": [{"name": "w", "rules": []}]})
        pairs = []
        for name in "ab":
            pairs.append((PREFIX + name, await self.etcd.create(PREFIX + name, self.shirt(name) + b"\n")))
            await self.host.put(OBJECTS, json.loads(self.shirt(name)))
            await self.own.create(PREFIX + name, self.shirt(name))
        copied = Copied(1000, 2, digest(pairs), await self.own.revision())
        record = Record(NAME, {NAME: "u-1"}, [(GROUP, "v1")], phase, shared, "2026-01-02T03:04:05Z", copied={NAME: copied})
        await Journal(self.own).write(record)
        return self

    @staticmethod
    def shirt(name: str, size: int = 1) -> bytes:
        obj = {"apiVersion": f"{GROUP}/v1", "kind": "Shirt", "metadata": {"name": name, "uid": f"uid-{name}"}, "size": size}
        return json.dumps(obj).encode()

    async def change(self) -> None:
        found = await self.own.get(PREFIX + "a")
        assert found is not None
        await self.own.update(found.key, self.shirt("a", 7), found.revision)
        await self.own.create(PREFIX + "c", self.shirt("c"))

    async def release(self, *, etcd: bool = True, **options: Any) -> None:
        await release_from_backup(self.own, self.host, self.etcd if etcd else None, self.said.append, **options)

    def is_back(self) -> bool:
        crd = self.host.objects[CRDS][NAME]
        return (
            crd["metadata"]["finalizers"] == ["other"]
            # A real kube-apiserver makes its own then.
            and f"v1.{GROUP}" not in self.host.objects[SERVICES]
            and [len(each["rules"]) for each in self.host.objects[GUARDS]["guard"]["webhooks"]] == [1, 1]
        )

    def is_untouched(self) -> bool:
        return all(method == "GET" for method, _ in self.host.calls)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    own, etcd = MemoryStorage(), MemoryStorage()
    await own.start()
    await etcd.start()
    yield World(own, etcd)
    await own.close()
    await etcd.close()


async def test_with_the_clusters_etcd(world: World) -> None:
    await world.fill()
    await world.change()
    await world.release()
    assert world.is_back()
    assert [item.value for item in (await world.etcd.list(PREFIX)).items] == [
        world.shirt("a", 7),
        world.shirt("b") + b"\n",
        world.shirt("c"),
    ]
    assert await world.etcd.revision() >= await world.own.revision() + MARGIN
    assert f"{NAME}: 2 objects written, 0 deleted" in world.said
    assert world.said[-1] == f"{NAME}: given back"


async def test_an_etcd_that_is_far_behind_is_announced(world: World) -> None:
    await world.fill()
    await world.own.advance(2_000_000)
    await world.change()
    await world.release()
    assert world.is_back()
    assert await world.etcd.revision() >= await world.own.revision() + MARGIN
    (said,) = (line for line in world.said if "the cluster's etcd advances by" in line)
    assert said.endswith("revisions, about 10 minutes")


async def test_through_the_api(world: World) -> None:
    await world.fill()
    await world.change()
    with pytest.raises(CantGiveBack, match="give the cluster's etcd with --host-etcd-servers"):
        await world.release(etcd=False)
    assert world.is_untouched()
    await world.release(etcd=False, through_api=True)
    assert world.is_back()
    assert {name: each["size"] for name, each in world.host.objects[OBJECTS].items()} == {"a": 7, "b": 1, "c": 1}
    calls = [call for place, call in enumerate(world.host.calls) if place not in world.host.dry_runs]
    writes = [path.rpartition("/")[2] for method, path in calls if method != "GET" and path != SELF_REVIEWS]
    assert writes == [f"v1.{GROUP}", "guard", "a", "shirts", NAME, "guard"]


async def test_without_a_write_since_the_move_no_way_to_the_objects_is_needed(world: World) -> None:
    await world.fill()
    await world.release(etcd=False)
    assert world.is_back()
    assert f"{NAME}: nothing was written since the move" in world.said


async def test_a_version_that_a_cleanup_has_left_goes(world: World) -> None:
    await world.fill()
    versions = world.host.objects[CRDS][NAME]["spec"]["versions"]
    versions.append({"name": VERSION, "served": True, "storage": False})
    await world.release(etcd=False)
    assert world.is_back()
    assert [version["name"] for version in world.host.objects[CRDS][NAME]["spec"]["versions"]] == ["v1"]


async def test_a_second_time_nothing_is_left_to_do(world: World) -> None:
    await world.fill()
    await world.change()
    await world.release()
    host, etcd = len(world.host.calls), await world.etcd.revision()
    await world.release()
    assert world.said[-1] == f"{NAME}: given back already, or deleted"
    assert all(method == "GET" for method, _ in world.host.calls[host:])
    assert await world.etcd.revision() == etcd


async def test_an_interrupted_release_does_not_write_objects_again_that_clients_may_have_changed(world: World) -> None:
    await world.fill()
    await world.change()
    world.host.fail("PATCH", f"{CRDS}/{NAME}", Unavailable("gone"))  # type: ignore[arg-type]
    with pytest.raises(Unavailable):
        await world.release()
    found = await world.etcd.get(PREFIX + "a")
    assert found is not None
    await world.etcd.update(found.key, world.shirt("a", 8) + b"\n", found.revision)
    await world.release()
    assert world.is_back()
    found = await world.etcd.get(PREFIX + "a")
    assert found is not None
    assert found.value == world.shirt("a", 8) + b"\n"


async def test_through_the_api_clients_wait_until_all_is_given_back(world: World) -> None:
    """A repetition writes all objects again, so nobody else may have written them meanwhile."""
    await world.fill()
    await world.change()
    world.host.fail("POST", OBJECTS, status(403, "Forbidden", "quota"), dry_runs=False)
    with pytest.raises(Refused, match=f"{PREFIX}c is refused: 403 Forbidden: quota"):
        await world.release(etcd=False, through_api=True)
    (writes, _) = world.host.objects[GUARDS]["guard"]["webhooks"]
    assert len(writes["rules"]) == 2, "the guard is still on"
    assert writes["matchConditions"] == [
        {"name": "not-aggserver", "expression": "x"},
        {"name": "not-release", "expression": 'request.userInfo.username != "admin"'},
    ]
    world.host.fail("PUT", f"{GUARDS}/guard", status(500, "InternalError", "etcdserver: mvcc: database space exceeded"))
    with pytest.raises(ClusterError, match="database space exceeded"):
        await world.release(etcd=False, through_api=True)
    # Without the finalizer it is given back, whatever clients have made of the objects since. Only the guard is left.
    await world.host.put(OBJECTS, json.loads(world.shirt("a", 8)))
    await world.release(etcd=False, through_api=True)
    assert world.is_back()
    assert world.host.objects[OBJECTS]["a"]["size"] == 8


async def test_a_family_that_cannot_go_back_does_not_keep_others(world: World) -> None:
    await world.fill()
    gone = Record("a.x.example.com", {"a.x.example.com": "u"}, [("x.example.com", "v1")], Phase.ADOPTED, shared=False, since="")
    await Journal(world.own).write(gone)
    await world.host.put(CRDS, {"metadata": {"name": "a.x.example.com", "uid": "other", "finalizers": [FINALIZER]}})
    with pytest.raises(
        CantGiveBack, match=r"^a\.x\.example\.com: not given back, for the reasons above; the same command goes on$"
    ):
        await world.release()
    assert world.is_back()
    assert world.said[0].startswith("a.x.example.com: not given back: a.x.example.com is another definition than the backup's")


BEFORE = [Phase.WAITING, Phase.COPYING, Phase.GUARDING, Phase.SWITCHING, Phase.SWITCHING_BACK]


@pytest.mark.parametrize("phase", BEFORE)
async def test_where_clients_do_not_write_here_only_the_address_changes(world: World, phase: Phase) -> None:
    await world.fill(phase)
    await world.change()
    before = await world.etcd.revision()
    await world.release()
    assert world.is_back()
    assert await world.etcd.revision() == before


async def test_a_shared_etcd_has_all_objects_already(world: World) -> None:
    await world.fill(shared=True)
    await world.change()
    await world.release(etcd=False)
    assert world.is_back()


async def test_of_a_definition_that_is_being_deleted_only_the_finalizer_goes(world: World) -> None:
    await world.fill()
    await world.change()
    world.host.objects[CRDS][NAME]["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    await world.release(etcd=False)
    assert world.is_back()


async def answers(world: World) -> None:
    conditions = [{"type": "Available", "status": "True"}]
    world.host.objects[SERVICES][f"v1.{GROUP}"]["status"] = {"conditions": conditions}


async def another_server(world: World) -> None:
    world.host.objects[SERVICES][f"v1.{GROUP}"]["metadata"]["labels"] = {}


async def another_definition(world: World) -> None:
    world.host.objects[CRDS][NAME]["metadata"]["uid"] = "u-2"


async def changed_leftovers(world: World) -> None:
    await world.etcd.create(PREFIX + "z", world.shirt("z") + b"\n")
    for _ in range(1000):
        found = await world.etcd.get(PREFIX + "z")
        assert found is not None
        await world.etcd.update(found.key, found.value, found.revision)


REFUSED = {
    "a server that answers": (answers, f"APIService v1.{GROUP} is available: a server answers behind it"),
    "an APIService of another server": (another_server, f"APIService v1.{GROUP} leads to another server"),
    "another definition of the name": (another_definition, f"{NAME} is another definition than the backup's"),
    "changed leftovers": (changed_leftovers, "shirts/z was written by kube-apiserver"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_what_is_refused(world: World, name: str) -> None:
    make, why = REFUSED[name]
    await world.fill()
    await world.change()
    await make(world)
    before = await world.etcd.revision()
    with pytest.raises(CantGiveBack, match=why):
        await world.release()
    assert world.is_untouched()
    assert await world.etcd.revision() == before


async def test_only_what_is_named(world: World) -> None:
    await world.fill()
    with pytest.raises(CantGiveBack, match="the backup has no record of hats"):
        await world.release(definitions=["hats"])
    await world.release(definitions=[NAME])
    assert world.is_back()


async def test_a_backup_without_records(world: World) -> None:
    await world.release()
    assert world.said == ["the backup has no record of an adopted definition: there is nothing to give back"]


async def test_a_record_that_cannot_be_read(world: World) -> None:
    await world.own.create("/aggserver/adoptions/x", b"{}")
    with pytest.raises(CantGiveBack, match="/aggserver/adoptions/x at revision 2 can't be read: "):
        await records(world.own)


async def test_the_file_of_a_backup_is_only_read(tmp_path: Path) -> None:
    store, file = SQLiteStorage(tmp_path / "aggserver.db"), tmp_path / "backup.db"
    etcd = MemoryStorage()
    await store.start()
    await etcd.start()
    world = World(store, etcd)
    await world.fill()
    await world.change()
    sqlite_maintenance.backup(tmp_path / "aggserver.db", file, world.said.append)
    await store.close()
    before = file.read_bytes()
    file.chmod(0o400)
    async with opened_backup(file, world.said.append) as opened:
        world.own = opened
        await world.release()
    assert world.is_back()
    assert await etcd.count(PREFIX) == 3
    assert file.read_bytes() == before
    await etcd.close()
