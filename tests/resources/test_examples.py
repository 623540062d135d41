"""The programs in manifests/examples/python do what their first lines say, and pass strict type checks."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from aggserver import StatusError
from aggserver.authentication.user import UserInfo
from aggserver.resources.host import HOSTING, Hosting
from tests.command import REPOSITORY
from tests.fakes.cluster import FakeCluster
from tests.resources.served import Apps
from tests.waiting import HANG_SECONDS

FOLDER = REPOSITORY / "manifests" / "examples" / "python"
NAMES = sorted(path.name for path in FOLDER.glob("*.py"))
DEPLOYMENTS = "/apis/apps/v1/deployments"
HELM = "/apis/helm.toolkit.fluxcd.io/v2"
METRICS = "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/queue-depth"


def load(name: str) -> ModuleType:
    """A fresh copy of a program, since its App keeps what it is given."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where annotations are looked up
    spec.loader.exec_module(module)
    return module


def test_all_are_listed() -> None:
    listed = re.findall(r"\]\((\S+\.py)\)", (FOLDER / "README.md").read_text())
    assert sorted(listed) == NAMES


def test_types() -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--no-incremental", *NAMES]
    environment = {**os.environ, "MYPYPATH": f"{REPOSITORY}:{FOLDER}"}
    done = subprocess.run(command, cwd=FOLDER, env=environment, capture_output=True, text=True, check=False, timeout=HANG_SECONDS)
    assert done.returncode == 0, done.stdout


def test_its_own_tests_pass(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        str(FOLDER / "test_sites.py"),
        f"--rootdir={tmp_path}",
    ]
    environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY}:{FOLDER}", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=HANG_SECONDS
    )
    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout


async def test_tickets() -> None:
    tickets = load("tickets")
    async with tickets.app.client() as ann:
        assert [each.metadata.name for each in await ann.list(tickets.Ticket, limit=2)] == ["t1", "t2", "t3", "t4", "t5"]
        assert [each.metadata.name for each in await ann.list(tickets.Ticket, fields="state=closed")] == ["t2", "t5"]
        assert (await ann.get(tickets.Ticket, "t1")).title == "Ticket 1"
        with pytest.raises(StatusError, match=r'tickets\.helpdesk\.example\.com "t9" not found'):
            await ann.get(tickets.Ticket, "t9")
        with pytest.raises(StatusError, match="watch is not supported"):
            async with ann.watch(tickets.Ticket):
                pass


async def test_machines() -> None:
    machines = load("machines")
    inventory = machines.Inventory()
    async with machines.app.client(state=inventory) as ann, ann.watch(machines.Machine) as events:
        assert {(await anext(events)).object.metadata.name for _ in range(2)} == {"m1", "m2"}
        inventory.set("berlin", "m3", 32)
        assert ((event := await anext(events)).type, event.object.cores) == ("ADDED", 32)
        inventory.set("berlin", "m3", 64)
        assert ((event := await anext(events)).type, event.object.cores) == ("MODIFIED", 64)
        inventory.set("berlin", "m3", None)
        assert ((event := await anext(events)).type, event.object.cores) == ("DELETED", 64)


async def test_disks() -> None:
    disks = load("disks")
    async with disks.app.client() as ann:
        found = await ann.list(disks.Disk)
        assert {each.metadata.name for each in found} == {"root", "temporary"}
        assert all(0 <= each.percent <= 100 for each in found)


async def test_sites_in_both_versions() -> None:
    sites = load("sites")
    async with sites.app.client(user="ann") as ann:
        await ann.create(sites.Site(sites.Metadata("web", "default"), sites.SiteSpec("web:1", 3)))
        old = await ann.get_raw("/apis/paas.example.com/v1beta1/namespaces/default/sites/web")
        assert (old["image"], old["size"]) == ("web:1", 3)
        assert ann.warnings == ["use v1"]
        body = {"apiVersion": "paas.example.com/v1beta1", "kind": "Site", "metadata": {"name": "old"}, "image": "old:2"}
        await ann.post("/apis/paas.example.com/v1beta1/namespaces/default/sites", body)
        assert (await ann.get(sites.sites, "old")).spec.image == "old:2"


class Helm(FakeCluster):
    """A cluster with one HelmRelease; remembers who has asked."""

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[str, Any] = {"replicas": 1}
        self.asked: list[tuple[str, str, Sequence[tuple[str, str]], Mapping[str, str]]] = []

    async def request(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        self.asked.append((method, path, tuple(more["headers"]), more["query"]))
        if method == "PATCH":
            assert more["body"]["metadata"] == {"resourceVersion": "7"}
            self.values = more["body"]["spec"]["values"]
        release = {
            "metadata": {"name": "shop", "namespace": "default", "resourceVersion": "7"},
            "spec": {"chart": {"spec": {"chart": "shop-chart"}}, "values": self.values},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }
        return (
            release
            if path.endswith("/shop")
            else {"kind": "HelmReleaseList", "items": [release], "metadata": {"resourceVersion": "100"}}
        )


async def test_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    releases = load("releases")
    helm = Helm()
    monkeypatch.setattr("aggserver.resources.calls.HOSTING", _Always(Hosting(helm, lambda group: group == "apps.example.com")))
    token = HOSTING.set(Hosting(helm, lambda group: group == "apps.example.com"))
    try:
        async with releases.app.client(user="ann", groups=["dev"]) as ann:
            (release,) = await ann.list(releases.Release, "default")
            assert (release.chart, release.ready, release.metadata.revision) == ("shop-chart", True, "7")
            changed = await ann.patch(releases.Release, "shop", {"values": {"replicas": 3}}, dry_run=True)
            assert changed.values == {"replicas": 3}
            async with ann.watch(releases.Release, "default", labels="team=red") as events:
                assert (await anext(events)).object.metadata.name == "shop"
                for team in ("blue", "red"):
                    metadata = {"name": f"{team}-blog", "namespace": "default", "labels": {"team": team}}
                    blog = {"metadata": metadata, "spec": {"chart": {"spec": {"chart": "blog-chart"}}}}
                    await helm.put(f"{HELM}/namespaces/default/helmreleases", blog)
                event = await anext(events)
                assert (event.type, event.object.metadata.name, event.object.chart) == ("ADDED", "red-blog", "blog-chart")
                assert event.object.metadata.revision == "102"
    finally:
        HOSTING.reset(token)
    headers = (("Impersonate-User", "ann"), ("Impersonate-Group", "dev"), ("Impersonate-Group", "system:authenticated"))
    assert {*(headers for _, _, headers, _ in helm.asked), *helm.sent_headers} == {headers}
    assert {"dryRun": "All"} in [query for _, _, _, query in helm.asked]


class _Always:
    """In place of the variable that is set before each function is called."""

    def __init__(self, hosting: Hosting) -> None:
        self._hosting = hosting

    def set(self, hosting: Hosting | None) -> None:
        HOSTING.set(self._hosting)


async def test_applications(apps: Apps) -> None:
    applications = load("applications")
    cluster = FakeCluster()
    cluster.on("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", lambda body: {"status": {"allowed": True}})
    for name, team in (("web", "shop"), ("db", "data")):
        metadata = {"name": name, "namespace": "default", "labels": {"team": team}}
        await cluster.put(DEPLOYMENTS, {"metadata": metadata, "spec": {"replicas": 1}})
    await apps.serve(applications.app, hosting=Hosting(cluster, lambda group: False))
    ann = apps.client.as_user(UserInfo("ann", groups=("shop", "system:masters")))
    path = "/apis/apps.example.com/v1/namespaces/default/applications"
    async with ann.watch(f"{path}?watch=1") as watch:
        first = await watch.event()
        assert (first["object"]["metadata"]["name"], first["object"]["size"]) == ("web", 1)
        for name, team in (("db", "data"), ("web", "shop")):
            metadata = {"name": name, "namespace": "default", "labels": {"team": team}}
            await cluster.put(DEPLOYMENTS, {"metadata": metadata, "spec": {"replicas": 1}, "status": {"readyReplicas": 1}})
        second = await watch.event()
        assert (second["type"], second["object"]["metadata"]["name"], second["object"]["ready"]) == ("MODIFIED", "web", 1)
    cluster.objects["/apis/apps/v1/namespaces/default/deployments"] = dict(cluster.objects[DEPLOYMENTS])
    assert (await ann.merge(f"{path}/web", {"size": 3})).json()["size"] == 3
    assert cluster.calls[-1] == ("PATCH", "/apis/apps/v1/namespaces/default/deployments/web")
    assert cluster.sent_headers[-1][0] == ("Impersonate-User", "ann")
    assert (await ann.merge(f"{path}/db", {"size": 3})).status == 404


async def test_queues() -> None:
    queues = load("queues")
    async with queues.app.client() as ann:
        found = await ann.get_raw(f"{METRICS}?labelSelector=queue=mail")
        assert [item["value"] for item in found["items"]] == ["7500m"]
        with pytest.raises(StatusError, match="no sample in the last minute"):
            await ann.get_raw(METRICS)
        rates = await ann.get_raw("/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/pods/*/requests-per-second")
        assert {item["describedObject"]["name"]: item["value"] for item in rates["items"]} == {"web-1": "2500m", "web-2": "4"}
        nodes = await ann.get_raw("/apis/metrics.k8s.io/v1beta1/nodes")
        assert nodes["items"][0]["usage"] == {"cpu": "250m", "memory": "1073741824"}
