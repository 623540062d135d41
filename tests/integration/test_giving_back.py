"""Objects that are written to the etcd of a real kube-apiserver with our bytes: it serves them as if it had stored them."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aggserver.adoption.families import FINALIZER
from aggserver.adoption.give_back import from_backup
from aggserver.adoption.give_back.from_backup import opened_backup, release_from_backup
from aggserver.adoption.give_back.through_api import UID_BEFORE, GiveBackThroughAPI
from aggserver.adoption.give_back.to_etcd import GiveBackToStore, Leftovers, objects_prefix
from aggserver.adoption.records.journal import Journal
from aggserver.adoption.records.record import CantGiveBack, Copied, Given, Phase, Record, digest
from aggserver.adoption.switch.api_services import OurService, to_us
from aggserver.apiextensions.api_service import API_SERVICES, Service
from aggserver.cluster.client import ClusterClient, connect
from aggserver.meta import codec
from aggserver.registry import stored
from aggserver.storage import sqlite_maintenance
from aggserver.storage.etcd import EtcdStorage
from aggserver.storage.interface import Storage
from aggserver.storage.memory import MemoryStorage
from aggserver.storage.sqlite import SQLiteStorage
from tests.controlplane.plane import ControlPlane
from tests.integration.server import eventually
from tests.waiting import HANG_SECONDS, KUBECTL_LIMIT

GROUP = "giving-back.example.com"
DEFINITION = f"crontabs.{GROUP}"
PREFIX = objects_prefix(DEFINITION)
OBJECTS = f"/apis/{GROUP}/v1/crontabs"


def silent(_done: int, _total: int, _size: int) -> None:
    """No progress is looked at here."""


def definition() -> dict[str, Any]:
    fields = {"cronSpec": {"type": "string"}, "replicas": {"type": "integer"}}
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}, "status": status}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    names = {"plural": "crontabs", "singular": "crontab", "kind": "CronTab", "listKind": "CronTabList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": DEFINITION},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def crontab(name: str, namespace: str, replicas: int) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "CronTab",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"cronSpec": "* * * * *", "replicas": replicas},
    }


class Sides:
    """The host with a definition of its own, and a store that is in the place of ours."""

    def __init__(self, plane: ControlPlane, cluster: ClusterClient, host: Storage, own: Storage, namespace: str) -> None:
        self.plane = plane
        self.cluster = cluster
        self.host = host
        self.own = own
        self.namespace = namespace
        self.uid: str = plane.get("crd", DEFINITION)["metadata"]["uid"]

    def apply(self, name: str, replicas: int) -> dict[str, Any]:
        """As a user, with kubectl; returns the object."""
        given = json.dumps(crontab(name, self.namespace, replicas))
        done = self.plane.kubectl(
            "apply", "--server-side", "--field-manager=user", "-o", "json", "--show-managed-fields", "-f", "-", input=given
        )
        applied: dict[str, Any] = json.loads(done.stdout)
        return applied

    def get(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.plane.get(f"crontabs.{GROUP}", name, "-n", self.namespace, "--show-managed-fields")
        return found

    def key(self, name: str) -> str:
        return f"{PREFIX}{self.namespace}/{name}"

    async def put(self, obj: dict[str, Any]) -> None:
        """Write here, as our server would."""
        value = stored.encode(copy.deepcopy(obj), obj["apiVersion"], obj["kind"])
        found = await self.own.get(self.key(obj["metadata"]["name"]))
        if found is None:
            await self.own.create(self.key(obj["metadata"]["name"]), value)
        else:
            await self.own.update(found.key, value, found.revision)

    async def move(self) -> Copied:
        """Copy what the host has, as a move does."""
        page = await self.host.list(PREFIX)
        for item in page.items:
            await self.put(codec.decode_stored(item.value))
        pairs = [(item.key, item.revision) for item in page.items]
        return Copied(page.revision, len(pairs), digest(pairs), await self.own.revision())


@asynccontextmanager
async def sides(plane: ControlPlane, namespace: str) -> AsyncIterator[Sides]:
    plane.kubectl("apply", "-f", "-", input=json.dumps(definition()))
    plane.kubectl("wait", "--for=condition=Established", f"crd/{DEFINITION}", KUBECTL_LIMIT)
    cluster = await connect(str(plane.kubeconfig), "test")
    host, own = EtcdStorage([plane.etcd]), MemoryStorage()
    await host.start()
    await own.start()
    try:
        yield Sides(plane, cluster, host, own, namespace)
    finally:
        await own.close()
        await host.close()
        await cluster.close()
        plane.kubectl("delete", "crd", DEFINITION, KUBECTL_LIMIT)


def without_revision(obj: dict[str, Any]) -> dict[str, Any]:
    left = copy.deepcopy(obj)
    del left["metadata"]["resourceVersion"]
    return left


async def test_objects_go_back_as_they_are(own_control_plane: ControlPlane, namespace: str) -> None:
    async with sides(own_control_plane, namespace) as world, asyncio.timeout(HANG_SECONDS):
        for name in ("changed", "deleted", "kept"):
            world.apply(name, 1)
        copied = await world.move()
        for item in (await world.host.list(PREFIX)).items:
            # By this a release tells kube-apiserver's writes from its own.
            assert item.value.startswith(b"{")
            assert item.value.endswith(b"\n")
        give_back = GiveBackToStore(world.own, world.host, DEFINITION, world.uid)
        assert await give_back.unchanged(copied)

        changed = _changed(world.get("changed"))
        created = _created(changed)
        await world.put(changed)
        gone = await world.own.get(world.key("deleted"))
        assert gone is not None
        await world.own.delete(gone.key, gone.revision)
        assert not await give_back.unchanged(copied)

        seen = asyncio.create_task(_events(world.cluster, copied.host_revision, 3))
        await give_back.check(copied)
        first = await give_back.first(copied, silent)
        assert (first.written, first.deleted) == (1, 1)
        await world.put(created)
        rest = await give_back.rest(copied, silent)
        assert (rest.written, rest.deleted) == (1, 0)
        ahead = await world.own.advance(await world.host.revision() + 500)
        assert await world.host.advance(ahead) >= ahead

        assert {(kind, obj["metadata"]["name"]) for kind, obj in await seen} == {
            ("MODIFIED", "changed"),
            ("DELETED", "deleted"),
            ("ADDED", "created"),
        }
        for expected in (changed, created):
            assert without_revision(world.get(expected["metadata"]["name"])) == without_revision(expected)
        names = world.plane.kubectl("get", f"crontabs.{GROUP}", "-n", namespace, "-o", "name").stdout.split()
        assert [name.partition("/")[2] for name in names] == ["changed", "created", "kept"]

        applied = world.apply("created", 9)
        assert (applied["metadata"]["uid"], applied["metadata"]["generation"]) == (created["metadata"]["uid"], 18)
        assert {entry["manager"] for entry in applied["metadata"]["managedFields"]} == {"user", "scaler"}
        assert int(applied["metadata"]["resourceVersion"]) > ahead


def _changed(obj: dict[str, Any]) -> dict[str, Any]:
    """Scaled by another manager, whose field the host must know afterwards."""
    changed = copy.deepcopy(obj)
    changed["spec"]["replicas"] = 5
    changed["status"] = {"ready": True}
    changed["metadata"]["generation"] = 7
    changed["metadata"]["managedFields"].append(
        {
            "apiVersion": f"{GROUP}/v1",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:status": {"f:ready": {}}},
            "manager": "scaler",
            "operation": "Update",
            "subresource": "status",
            "time": "2026-01-02T03:04:05Z",
        }
    )
    return changed


def _created(obj: dict[str, Any]) -> dict[str, Any]:
    """An object that the host has never seen."""
    created = copy.deepcopy(obj)
    created["metadata"] |= {
        "name": "created",
        "uid": "01234567-89ab-4cde-8f01-23456789abcd",
        "creationTimestamp": "2025-01-02T03:04:05Z",
        "generation": 17,
    }
    return created


async def _events(cluster: ClusterClient, revision: int, count: int) -> list[tuple[str, dict[str, Any]]]:
    found: list[tuple[str, dict[str, Any]]] = []
    async for event in cluster.watch(OBJECTS, {"watch": "true", "timeoutSeconds": "120", "resourceVersion": str(revision)}):
        found.append((event["type"], event["object"]))
        if len(found) == count:
            break
    return found


async def test_through_the_api_all_but_new_uids_and_generations_stays(own_control_plane: ControlPlane, namespace: str) -> None:
    async with sides(own_control_plane, namespace) as world, asyncio.timeout(HANG_SECONDS):
        for name in ("changed", "deleted", "kept"):
            world.apply(name, 1)
        copied = await world.move()
        changed = _changed(world.get("changed"))
        created = _created(changed)
        owned = _created(changed)
        owner = {"apiVersion": f"{GROUP}/v1", "kind": "CronTab", "name": "created", "uid": created["metadata"]["uid"]}
        owned["metadata"] |= {"name": "a-owned", "uid": "other", "ownerReferences": [owner]}
        for obj in (changed, created, owned):
            await world.put(obj)
        gone = await world.own.get(world.key("deleted"))
        assert gone is not None
        await world.own.delete(gone.key, gone.revision)

        uids: dict[str, str] = {}
        give_back = GiveBackThroughAPI(world.own, world.cluster, world.plane.get("crd", DEFINITION), uids)
        await give_back.check(copied)
        given = await give_back.rest(copied, silent)
        assert (given.written, given.deleted, len(given.messages)) == (3, 1, 3)

        now = world.get("changed")
        assert now["metadata"]["uid"] == changed["metadata"]["uid"]
        theirs = {name: world.get(name) for name in ("changed", "created", "a-owned")}
        for ours in (changed, created, owned):
            found = theirs[ours["metadata"]["name"]]
            assert (found["spec"], found["status"]) == (ours["spec"], ours["status"])
            assert _managers(found) == _managers(ours)
        assert theirs["created"]["metadata"]["annotations"] == {UID_BEFORE: created["metadata"]["uid"]}
        assert theirs["a-owned"]["metadata"]["ownerReferences"] == [{**owner, "uid": theirs["created"]["metadata"]["uid"]}]
        names = world.plane.kubectl("get", f"crontabs.{GROUP}", "-n", namespace, "-o", "name").stdout.split()
        assert [name.partition("/")[2] for name in names] == ["a-owned", "changed", "created", "kept"]

        again = GiveBackThroughAPI(world.own, world.cluster, world.plane.get("crd", DEFINITION), {})
        assert await again.rest(copied, silent) == Given()
        assert world.get("created") == theirs["created"]


def _managers(obj: dict[str, Any]) -> list[tuple[str, str]]:
    return sorted((entry["manager"], json.dumps(entry["fieldsV1"], sort_keys=True)) for entry in obj["metadata"]["managedFields"])


async def test_cleanup_leaves_none(own_control_plane: ControlPlane, namespace: str) -> None:
    async with sides(own_control_plane, namespace) as world, asyncio.timeout(HANG_SECONDS):
        for number in range(3):
            world.apply(f"a{number}", number)
        copied = await world.move()
        leftovers = Leftovers(world.host, DEFINITION, world.uid)
        assert await leftovers.as_recorded(copied)
        copied = await leftovers.check_removable(copied)
        assert await leftovers.remove(copied, silent) == 3
        assert await world.host.count(PREFIX) == 0
        listed = world.plane.kubectl("get", f"crontabs.{GROUP}", "-A", "-o", "name").stdout
        assert listed == ""

        give_back = GiveBackToStore(world.own, world.host, DEFINITION, world.uid)
        await give_back.check(copied)
        assert (await give_back.rest(copied, silent)).written == 3
        assert world.get("a2")["spec"]["replicas"] == 2


@pytest.mark.parametrize("late", ["write", "creation"])
async def test_a_write_of_kube_apiserver_after_the_move_is_told(
    own_control_plane: ControlPlane, namespace: str, late: str
) -> None:
    async with sides(own_control_plane, namespace) as world:
        world.apply("a", 1)
        copied = await world.move()
        name = "a" if late == "write" else "b"
        world.apply(name, 2)
        with pytest.raises(
            CantGiveBack, match=rf"{namespace}/{name} was written by kube-apiserver at revision \d+, after the move"
        ):
            await GiveBackToStore(world.own, world.host, DEFINITION, world.uid).check(copied)


async def test_a_backup_gives_a_definition_back_when_its_server_is_lost(
    own_control_plane: ControlPlane, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(from_backup, "MARGIN", 500)  # of writes to etcd
    async with sides(own_control_plane, namespace) as world, asyncio.timeout(HANG_SECONDS):
        for name in ("changed", "kept"):
            world.apply(name, 1)
        store = SQLiteStorage(tmp_path / "store.db")
        await store.start()
        world.own = store
        copied = await world.move()
        await world.put(_changed(world.get("changed")))
        record = Record(DEFINITION, {DEFINITION: world.uid}, [(GROUP, "v1")], Phase.ADOPTED, shared=False, since="")
        await Journal(store).write(replace(record, copied={DEFINITION: copied}))
        file = tmp_path / "backup.db"
        await asyncio.to_thread(sqlite_maintenance.backup, tmp_path / "store.db", file, lambda line: None)
        await store.close()

        target = OurService(Service("no-such-namespace", "lost", 443), "installation", b"")
        service = await world.cluster.request("GET", f"{API_SERVICES}/v1.{GROUP}")
        ours = to_us(service, (GROUP, "v1"), target)
        ours["spec"] = {**ours["spec"], "insecureSkipTLSVerify": True}
        del ours["spec"]["caBundle"]
        await world.cluster.request("PUT", f"{API_SERVICES}/v1.{GROUP}", body=ours)
        crd = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{DEFINITION}"
        found = await world.cluster.request("GET", crd)
        finalizers = [*(found["metadata"].get("finalizers") or ()), FINALIZER]
        await world.cluster.request("PATCH", crd, body={"metadata": {"finalizers": finalizers}})

        def is_served(*, wanted: bool) -> bool:
            return (world.plane.kubectl("get", "--raw", OBJECTS, check=False).returncode == 0) == wanted

        await asyncio.to_thread(eventually, lambda: is_served(wanted=False), "the lost server's group is not served")

        said: list[str] = []
        async with opened_backup(file, said.append) as own:
            await release_from_backup(own, world.cluster, world.host, said.append, definitions=[DEFINITION])
        await asyncio.to_thread(eventually, lambda: is_served(wanted=True), "kube-apiserver serves the group again")
        assert f"{DEFINITION}: 1 objects written, 0 deleted" in said
        changed = await world.cluster.request("GET", OBJECTS.replace("/crontabs", f"/namespaces/{namespace}/crontabs/changed"))
        assert (changed["metadata"]["generation"], changed["status"]) == (7, {"ready": True})
        now = await world.cluster.request("GET", crd)
        assert "finalizers" not in now["metadata"]
