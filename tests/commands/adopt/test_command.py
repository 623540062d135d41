"""The command over a fake of the host: what it reads, which annotations it sets, and how it follows the ConfigMap."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aggserver.adoption.records.record import LEASE
from aggserver.adoption.switch.switching import DEFINITIONS
from aggserver.apiextensions.api_service import API_SERVICES
from aggserver.cluster import ClusterError
from aggserver.commands.adopt.command import ADMISSION, AUTHENTICATION, REVIEWS, Adopt, AdoptError, from_backup
from aggserver.meta.times import format_micro_time
from aggserver.options import Options, OptionsError, parse
from aggserver.storage import sqlite_maintenance as maintenance
from aggserver.storage.sqlite import SQLiteStorage
from tests.commands.adopt.test_plan import NAME, crd
from tests.fakes.cluster import FakeCluster

MAPS = "/api/v1/namespaces/ns/configmaps"
STATUS = f"{MAPS}/aggserver-adoption"
ADOPTED = {"family": NAME, "phase": "Adopted", "since": "t1", "copied": {"objects": 3, "bytes": 5}}
BACK = {**ADOPTED, "phase": "GivingBack", "since": "t2"}


class Said:
    """holder: of the Lease, which it renews; '' if nobody does."""

    def __init__(
        self, cluster: FakeCluster, *argv: str, changes: list[dict[str, Any]] | None = None, holder: str = "aggserver-1"
    ) -> None:
        self.lines: list[str] = []
        self.cluster = cluster
        self.changes = list(changes or [])
        options = parse(["adopt", *argv, "--service-namespace", "ns"], {})
        self.time = 0.0
        self.holder = holder
        self.adopt = Adopt(cluster, options, self.lines.append, clock=lambda: self.time, now=lambda: self.time, sleep=self.sleep)

    async def sleep(self, seconds: float) -> None:
        self.time += seconds
        await self.renew()
        if self.changes:
            await show(self.cluster, self.changes.pop(0))

    async def renew(self) -> None:
        if self.holder:
            await lease(self.cluster, self.holder, self.time)


async def lease(cluster: FakeCluster, holder: str, renewed: float) -> None:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": format_micro_time(int(renewed), 0)}
    await cluster.put("/apis/coordination.k8s.io/v1/namespaces/ns/leases", {"metadata": {"name": LEASE}, "spec": spec})


async def show(cluster: FakeCluster, entries: dict[str, Any]) -> None:
    data = {name: json.dumps(entry) for name, entry in entries.items()}
    await cluster.put(MAPS, {"metadata": {"name": "aggserver-adoption"}, "data": data})


async def host(*, allowed: Callable[[dict[str, Any]], bool] = lambda attributes: True) -> FakeCluster:
    cluster = FakeCluster()
    # As lists of kube-apiserver have their items.
    await cluster.put(DEFINITIONS, {key: value for key, value in crd().items() if key not in ("apiVersion", "kind")})
    cluster.on("GET", AUTHENTICATION, lambda body: {"data": {"requestheader-client-ca-file": "PEM"}})
    cluster.on("GET", "/version", lambda body: {"gitVersion": "v1.36.0"})
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


@pytest.mark.parametrize("command", ["plan", "status"])
async def test_a_cluster_in_kine_is_told(command: str) -> None:
    cluster = await host()
    cluster.on("GET", "/version", lambda body: {"gitVersion": "v1.36.0+k3s1"})
    said = Said(cluster, command)
    assert await said.adopt.run()
    assert "note: the cluster is k3s, and no node runs etcd" in said.lines[0]
    await cluster.put("/api/v1/nodes", {"metadata": {"name": "n", "labels": {"node-role.kubernetes.io/etcd": "true"}}})
    etcd = Said(cluster, command)
    assert await etcd.adopt.run()
    assert "kine" not in etcd.lines[0]


async def test_plan_misses_endpoints() -> None:
    cluster = await host()
    cluster.objects["/apis/discovery.k8s.io/v1/namespaces/ns/endpointslices"].clear()
    said = Said(cluster, "plan")
    assert not await said.adopt.run()
    assert "no ready endpoints" in said.lines[0]


UNREADABLE = {
    "endpoints": (
        "/apis/discovery.k8s.io/v1/namespaces/ns/endpointslices",
        "whether the Service ns/aggserver has ready endpoints is not known",
    ),
    "webhooks": (f"{ADMISSION}/validatingwebhookconfigurations", "which webhookconfigurations concern the objects is not known"),
    "policies": (f"{ADMISSION}/mutatingadmissionpolicies", "which admissionpolicies concern the objects is not known"),
    "the ConfigMap": (AUTHENTICATION, "whether the aggregation layer is set up is not known"),
    "reviews": (REVIEWS, "whether system:serviceaccount:ns:aggserver has the permissions that adoption needs is not known"),
}


@pytest.mark.parametrize(("path", "text"), UNREADABLE.values(), ids=UNREADABLE)
async def test_plan_goes_on_without_a_right(path: str, text: str) -> None:
    cluster = await host()
    method = "POST" if path == REVIEWS else "GET"
    cluster.fail(method, path, ClusterError(403, "Forbidden", "U cannot list them"), times=100)
    said = Said(cluster, "plan")
    assert await said.adopt.run()
    assert f"note: {text}: 403 Forbidden: U cannot list them" in said.lines[0].splitlines()
    assert f"{NAME}: 10 objects" in said.lines[0]


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
    await said.renew()
    assert await said.adopt.run()
    assert said.lines == ["nothing is adopted"]
    progress = {"objects": 5, "bytes": 9, "remaining": 4, "secondsLeft": 2}
    await show(cluster, {NAME: {**ADOPTED, "phase": "Copying", "progress": progress}})
    assert await said.adopt.run()
    assert said.lines[1].splitlines()[1].split() == [NAME, "Copying", "t1", "5", "4", "(2", "s)"]
    assert said.lines[1].splitlines()[2] == "moved by aggserver-1"
    assert said.time == 0.0


def after(asked: str) -> str:
    """The last line of a release."""
    return (
        f"released: kube-apiserver serves this definition, and the annotation aggserver.io/adoption: {asked} keeps aggserver "
        f"from adopting it again. To adopt it again, remove it: kubectl annotate crd {NAME} aggserver.io/adoption-"
    )


async def test_a_release_of_what_is_still_selected_ends_with_success() -> None:
    """It waits, by its annotation, to be adopted anew; and the host may show that before the command has seen the way back."""
    cluster = await host()
    await show(cluster, {NAME: ADOPTED})
    waits = {**ADOPTED, "phase": "Waiting", "since": "t3", "reason": f"{NAME} has the annotation aggserver.io/adoption: release"}
    said = Said(cluster, "release", NAME, changes=[{NAME: BACK}, {NAME: waits}])
    assert await said.adopt.run()
    assert said.lines == [f"{NAME}: GivingBack", f"{NAME}: served by kube-apiserver", after("release")]


async def test_release() -> None:
    cluster = await host()
    await show(cluster, {NAME: ADOPTED})
    said = Said(cluster, "release", "CronTab", "--through-api", changes=[{NAME: ADOPTED}, {NAME: BACK}, {}])
    assert await said.adopt.run()
    assert said.lines == [f"{NAME}: GivingBack", f"{NAME}: served by kube-apiserver", after("release")]
    annotations = cluster.objects[DEFINITIONS][NAME]["metadata"]["annotations"]
    assert annotations == {
        "aggserver.io/adoption": "release",
        "aggserver.io/release-asked": "1970-01-01T00:00:00Z",
        "aggserver.io/release-through-api": "true",
    }


async def test_what_waits_is_discarded() -> None:
    cluster = await host()
    waits = {**ADOPTED, "phase": "Waiting", "reason": "it went back from a backup"}
    await show(cluster, {NAME: waits})
    released = {**waits, "reason": "it has the annotation"}
    said = Said(cluster, "release", NAME, "--discard", changes=[{NAME: waits}, {NAME: BACK}, {NAME: released}])
    assert await said.adopt.run()
    assert said.lines == [f"{NAME}: GivingBack", f"{NAME}: served by kube-apiserver", after("discard")]
    assert cluster.objects[DEFINITIONS][NAME]["metadata"]["annotations"]["aggserver.io/adoption"] == "discard"


async def test_a_release_that_fails() -> None:
    cluster = await host()
    await show(cluster, {NAME: ADOPTED})
    stays = {**ADOPTED, "since": "t3", "reason": "the etcd is full"}
    said = Said(cluster, "release", "--all", changes=[{NAME: BACK}, {NAME: stays}])
    with pytest.raises(AdoptError, match="not released"):
        await said.adopt.run()
    assert said.lines[-1] == f"{NAME}: Adopted: the etcd is full"


NO_LEASE = "no aggserver moves definitions: namespace ns has no Lease aggserver-adoption. Start one with --adopt"
ENDED = "no aggserver moves definitions: the last one has ended at 1970-01-01T00:00:00.000000Z. Start one on the same store"
LOST = (
    "no aggserver moves definitions: aggserver-1 has not renewed the Lease aggserver-adoption since 1970-01-01T00:00:00.000000Z."
)


async def test_a_release_without_a_server() -> None:
    cluster = await host()
    await show(cluster, {NAME: ADOPTED})
    await lease(cluster, "aggserver-1", 0.0)
    said = Said(cluster, "release", NAME, "--timeout", "30s", holder="")
    with pytest.raises(AdoptError, match=f"not done within 30 s, but it stays asked for: {LOST}"):
        await said.adopt.run()
    (line,) = said.lines
    assert line.startswith(f"waiting: {LOST}"), "it is said once"


async def test_a_release_while_another_server_takes_over() -> None:
    cluster = await host()
    await show(cluster, {NAME: ADOPTED})
    await lease(cluster, "aggserver-1", 0.0)
    said = Said(cluster, "release", NAME, "-o", "json", holder="", changes=[{NAME: ADOPTED}] * 40)
    run = said.sleep

    async def sleep(seconds: float) -> None:
        if said.time >= 19.0 and not said.holder:
            said.holder = "aggserver-2"
            said.changes = [{NAME: ADOPTED}, {NAME: BACK}, {}]
        await run(seconds)

    said.adopt._sleep = sleep
    assert await said.adopt.run()
    waiting, again, *steps, last = map(json.loads, said.lines)
    assert last == {"message": after("release")}
    assert waiting["message"].startswith(f"waiting: {LOST}")
    assert again == {"message": "an aggserver moves definitions again"}
    assert [step["entry"] and step["entry"]["phase"] for step in steps] == ["GivingBack", None]


STATUSES: dict[str, tuple[str | None, float, str, int, str, float]] = {
    # name: (holder in the Lease, when it was renewed, who renews it, code of the answer, what is told, seconds until then)
    "one moves": ("aggserver-1", 0.0, "aggserver-1", 200, "moved by aggserver-1", 0.0),
    "there never was one": (None, 0.0, "", 200, NO_LEASE, 5.0),
    "the last one has ended": ("", 0.0, "", 200, ENDED, 5.0),
    "the last one is gone": (
        "aggserver-1",
        -60.0,
        "",
        200,
        "aggserver-1 has not renewed the Lease aggserver-adoption since",
        5.0,
    ),
    "the clock of the other machine is behind": ("aggserver-1", -60.0, "aggserver-1", 200, "moved by aggserver-1", 5.0),
    "another takes over": ("aggserver-1", -60.0, "aggserver-2", 200, "moved by aggserver-2", 5.0),
    "the Lease can't be read": (None, 0.0, "", 403, "whether an aggserver moves definitions is not known: ", 0.0),
}


@pytest.mark.parametrize("name", STATUSES)
async def test_the_status_says_who_moves(name: str) -> None:
    found, renewed, renews, code, told, seconds = STATUSES[name]
    cluster = await host()
    await show(cluster, {NAME: ADOPTED})
    if found is not None:
        await lease(cluster, found, renewed)
    if code != 200:
        path = f"/apis/coordination.k8s.io/v1/namespaces/ns/leases/{LEASE}"
        cluster.fail("GET", path, ClusterError(code, "Forbidden", "no"))
    said = Said(cluster, "status", holder=renews)
    assert await said.adopt.run()
    assert told in said.lines[0].splitlines()[-1]
    assert said.time == seconds


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
