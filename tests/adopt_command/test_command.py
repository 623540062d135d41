"""The command over a fake of the host: what it reads, which annotations it sets, and how it follows the ConfigMap."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aggserver.adopt_command.command import AUTHENTICATION, REVIEWS, Adopt, AdoptError, from_backup
from aggserver.adoption.switching import DEFINITIONS
from aggserver.apiextensions.api_service import API_SERVICES
from aggserver.options import Options, OptionsError, parse
from aggserver.storage import sqlite_maintenance as maintenance
from aggserver.storage.sqlite import SQLiteStorage
from tests.adopt_command.test_plan import NAME, crd
from tests.fakes.cluster import FakeCluster

MAPS = "/api/v1/namespaces/ns/configmaps"
STATUS = f"{MAPS}/aggserver-adoption"
ADOPTED = {"family": NAME, "phase": "Adopted", "since": "t1", "copied": {"objects": 3, "bytes": 5}}
BACK = {**ADOPTED, "phase": "GivingBack", "since": "t2"}


class Said:
    def __init__(self, cluster: FakeCluster, *argv: str, changes: list[dict[str, Any]] | None = None) -> None:
        self.lines: list[str] = []
        self.cluster = cluster
        self.changes = list(changes or [])
        options = parse(["adopt", *argv, "--service-namespace", "ns"], {})
        self.time = 0.0
        self.adopt = Adopt(cluster, options, self.lines.append, clock=lambda: self.time, now=lambda: 0.0, sleep=self.sleep)

    async def sleep(self, seconds: float) -> None:
        self.time += seconds
        if self.changes:
            await show(self.cluster, self.changes.pop(0))


async def show(cluster: FakeCluster, entries: dict[str, Any]) -> None:
    data = {name: json.dumps(entry) for name, entry in entries.items()}
    await cluster.put(MAPS, {"metadata": {"name": "aggserver-adoption"}, "data": data})


async def host(*, allowed: Callable[[dict[str, Any]], bool] = lambda attributes: True) -> FakeCluster:
    cluster = FakeCluster()
    # As lists of kube-apiserver have their items.
    await cluster.put(DEFINITIONS, {key: value for key, value in crd().items() if key not in ("apiVersion", "kind")})
    cluster.on("GET", AUTHENTICATION, lambda body: {"data": {"requestheader-client-ca-file": "PEM"}})
    cluster.on("POST", REVIEWS, lambda body: {"status": {"allowed": allowed(body["spec"]["resourceAttributes"])}})
    await cluster.put("/api/v1/namespaces/ns/services", {"metadata": {"name": "aggserver"}, "spec": {"ports": [{"port": 443}]}})
    endpoints = {"metadata": {"name": "e", "labels": {"kubernetes.io/service-name": "aggserver"}}, "endpoints": [{}]}
    await cluster.put("/apis/discovery.k8s.io/v1/namespaces/ns/endpointslices", endpoints)
    objects = "/apis/stable.example.com/v1/crontabs"
    cluster.on("GET", objects, lambda body: {"metadata": {"remainingItemCount": 7}, "items": [{"metadata": {"name": "a"}}] * 3})
    return cluster


async def test_plan() -> None:
    said = Said(await host(), "plan", "-o", "json")
    assert await said.adopt.run()
    found = json.loads(said.lines[0])
    assert found["ok"]
    assert found["families"][0]["definitions"][0]["objects"] == 10


async def test_plan_names_what_the_service_account_lacks() -> None:
    cluster = await host(allowed=lambda attributes: attributes["verb"] != "patch")
    said = Said(cluster, "plan")
    assert not await said.adopt.run()
    assert f"  in the way: the service account lacks the permission to patch {NAME}" in said.lines[0]
    assert "lacks the permission to patch customresourcedefinitions.apiextensions.k8s.io" in said.lines[0]


async def test_plan_misses_the_service_and_the_client_certificate() -> None:
    cluster = await host()
    cluster.on("GET", AUTHENTICATION, lambda body: {"data": {}})
    cluster.objects["/api/v1/namespaces/ns/services"].clear()
    said = Said(cluster, "plan")
    assert not await said.adopt.run()
    assert "no client certificate" in said.lines[0]
    assert "the Service ns/aggserver" in said.lines[0]


async def test_plan_misses_endpoints() -> None:
    cluster = await host()
    cluster.objects["/apis/discovery.k8s.io/v1/namespaces/ns/endpointslices"].clear()
    said = Said(cluster, "plan")
    assert not await said.adopt.run()
    assert "no ready endpoints" in said.lines[0]


async def test_plan_leaves_out_what_is_adopted() -> None:
    cluster = await host()
    spec = {"group": "stable.example.com", "version": "v1", "service": {"namespace": "ns", "name": "aggserver"}}
    labels = {"app.kubernetes.io/managed-by": "aggserver-adoption"}
    await cluster.put(API_SERVICES, {"metadata": {"name": "v1.stable.example.com", "labels": labels}, "spec": spec})
    said = Said(cluster, "plan", "-o", "json")
    assert await said.adopt.run()
    assert json.loads(said.lines[0])["families"] == []


async def test_status() -> None:
    cluster = await host()
    said = Said(cluster, "status")
    assert await said.adopt.run()
    assert said.lines == ["nothing is adopted"]
    progress = {"objects": 5, "bytes": 9, "remaining": 4, "secondsLeft": 2}
    await show(cluster, {NAME: {**ADOPTED, "phase": "Copying", "progress": progress}})
    assert await said.adopt.run()
    assert said.lines[1].splitlines()[1].split() == [NAME, "Copying", "t1", "5", "4", "(2", "s)"]


async def test_release() -> None:
    cluster = await host()
    await show(cluster, {NAME: ADOPTED})
    said = Said(cluster, "release", "CronTab", "--through-api", changes=[{NAME: ADOPTED}, {NAME: BACK}, {}])
    assert await said.adopt.run()
    assert said.lines == [f"{NAME}: GivingBack", f"{NAME}: served by kube-apiserver"]
    annotations = cluster.objects[DEFINITIONS][NAME]["metadata"]["annotations"]
    assert annotations == {"aggserver.io/adoption": "release", "aggserver.io/release-through-api": "true"}


async def test_a_release_that_fails() -> None:
    cluster = await host()
    await show(cluster, {NAME: ADOPTED})
    stays = {**ADOPTED, "since": "t3", "reason": "the etcd is full"}
    said = Said(cluster, "release", "--all", changes=[{NAME: BACK}, {NAME: stays}])
    with pytest.raises(AdoptError, match="not released"):
        await said.adopt.run()
    assert said.lines[-1] == f"{NAME}: Adopted: the etcd is full"


async def test_a_release_without_a_server() -> None:
    cluster = await host()
    await show(cluster, {NAME: ADOPTED})
    said = Said(cluster, "release", NAME, "--timeout", "3s")
    with pytest.raises(AdoptError, match="not done within 3 s"):
        await said.adopt.run()


CLEANUPS = {
    # entries after the request: whether it succeeds
    "removed": ([{**ADOPTED, "copied": {"objects": 0, "bytes": 0}, "told": {"message": "3 removed", "time": "t"}}], True),
    "removed step by step": (
        [
            {**ADOPTED, "copied": {"objects": 0, "bytes": 0}},
            {**ADOPTED, "copied": {"objects": 0, "bytes": 0}, "told": {"message": "3 removed", "time": "t"}},
        ],
        True,
    ),
    "refused": ([{**ADOPTED, "reason": "differs", "told": {"message": "differs", "time": "t"}}], False),
}


@pytest.mark.parametrize(("changes", "succeeds"), CLEANUPS.values(), ids=CLEANUPS)
async def test_cleanup(changes: list[dict[str, Any]], succeeds: bool) -> None:
    cluster = await host()
    await show(cluster, {NAME: ADOPTED})
    said = Said(cluster, "cleanup", "crontabs", changes=[{NAME: each} for each in changes])
    if succeeds:
        assert await said.adopt.run()
    else:
        with pytest.raises(AdoptError, match="not cleaned up"):
            await said.adopt.run()
    assert cluster.objects[DEFINITIONS][NAME]["metadata"]["annotations"] == {"aggserver.io/cleanup": "1970-01-01T00:00:00Z"}


MISTAKES = {
    "unknown": (["release", "nothings"], "nothings: the cluster has no such definition"),
    "not adopted": (["release", NAME], "not adopted by a server of namespace ns"),
    "nothing at all": (["release", "--all"], "nothing is adopted"),
}


@pytest.mark.parametrize(("argv", "text"), MISTAKES.values(), ids=MISTAKES)
async def test_mistakes(argv: list[str], text: str) -> None:
    with pytest.raises(AdoptError) as caught:
        await Said(await host(), *argv).adopt.run()
    assert text in str(caught.value)


async def test_a_release_from_a_backup_needs_no_server(tmp_path: Path) -> None:
    """A backup without records: there is nothing to give back, and the host is not asked."""
    store = SQLiteStorage(tmp_path / "store.db")
    await store.start()
    await store.close()
    file = tmp_path / "backup.db"
    maintenance.backup(tmp_path / "store.db", file, lambda line: None)
    cluster, lines = FakeCluster(), list[str]()
    options = parse(["adopt", "release", "--all", "--from-backup", str(file)], {})

    async def no_etcd(_: Options) -> None:
        return None

    assert await from_backup(cluster, options, file, lines.append, no_etcd)
    assert lines[-1] == "the backup has no record of an adopted definition: there is nothing to give back"
    assert cluster.calls == []


@pytest.mark.parametrize("argv", [["release"], ["cleanup", "a", "--all"]], ids=" ".join)
def test_names_or_all(argv: list[str]) -> None:
    with pytest.raises(OptionsError, match="NAME or --all is required"):
        parse(["adopt", *argv], {})
