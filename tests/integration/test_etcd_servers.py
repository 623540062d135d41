"""Servers on one etcd: aggserver beside kube-apiserver, each reading what the other wrote, and two aggservers as one."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aggserver.storage.etcd import EtcdStorage
from tests.controlplane.binaries import obtain
from tests.controlplane.cluster import Kubectl
from tests.controlplane.etcd import EtcdCluster
from tests.controlplane.plane import ControlPlane
from tests.fakes.asgi import Client
from tests.fakes.definitions import CRONTABS as DEFINITION
from tests.fakes.server import LocalServer
from tests.integration import pages
from tests.integration.comparison import comparable
from tests.integration.server import Standalone, eventually
from tests.waiting import HANG_SECONDS, KUBECTL_LIMIT

CRONTABS = "/apis/stable.example.com/v1/namespaces/default/crontabs"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """One whose etcd nobody else uses: a standalone server on it serves every definition there is."""
    with ControlPlane(obtain(os.environ, print)) as plane:
        plane.kubectl("apply", "-f", "-", input=pages.RESOURCE_DEFINITION)
        plane.kubectl("wait", "--for=condition=Established", "crd/crontabs.stable.example.com", KUBECTL_LIMIT)
        plane.kubectl("apply", "-f", "-", input=pages.MY_CRONTAB)
        yield plane


@pytest.fixture
def ours(plane: ControlPlane, server_on_etcd: Standalone) -> Kubectl:
    def run(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
        return plane.kubectl(*arguments, user=server_on_etcd.kubeconfig, **more)

    return run


def found(kubectl: Kubectl, name: str) -> dict[str, Any]:
    """With managedFields."""
    shown = kubectl("get", "crontab", name, "-n", "default", "-o", "json", "--show-managed-fields")
    obj: dict[str, Any] = json.loads(shown.stdout)
    return obj


def manifest(name: str) -> str:
    return pages.MY_CRONTAB.replace("my-new-cron-object", name)


def test_what_kube_apiserver_wrote_is_served(plane: ControlPlane, ours: Kubectl) -> None:
    """The definition too: it is stored as any other object."""
    assert found(ours, "my-new-cron-object") == found(plane.kubectl, "my-new-cron-object")
    assert ours("get", "crontabs", "-o", "name").stdout == "crontab.stable.example.com/my-new-cron-object\n"


def test_what_aggserver_wrote_kube_apiserver_serves(plane: ControlPlane, ours: Kubectl) -> None:
    ours("apply", "-f", "-", input=manifest("of-ours"))
    assert found(plane.kubectl, "of-ours") == found(ours, "of-ours")
    assert "crontab.stable.example.com/of-ours" in plane.kubectl("get", "crontabs", "-o", "name").stdout


@pytest.mark.parametrize("direction", ["kube-apiserver then aggserver", "aggserver then kube-apiserver"])
def test_each_goes_on_where_the_other_was(direction: str, plane: ControlPlane, ours: Kubectl) -> None:
    one, other = (plane.kubectl, ours) if direction.startswith("kube") else (ours, plane.kubectl)
    name = direction.split()[0]
    one("apply", "-f", "-", input=manifest(name))
    for number, kubectl in enumerate((other, one, other)):
        kubectl("patch", "crontab", name, "--type=merge", "-p", json.dumps({"spec": {"replicas": number}}))
        assert found(one, name) == found(other, name)
    assert found(one, name)["metadata"]["generation"] == 4
    stale = found(one, name)
    other("patch", "crontab", name, "--type=merge", "-p", '{"spec": {"replicas": 9}}')
    refused = one("replace", "-f", "-", input=json.dumps(stale), check=False)
    assert "the object has been modified" in refused.stderr
    other("delete", "crontab", name)
    assert "NotFound" in one("get", "crontab", name, check=False).stderr


# Commands of kubectl. Those with a spec read an object that has it.
OWNED = (
    (("apply", "--server-side", "-f", "-"), "{image: a, cronSpec: x}"),
    (("apply", "--server-side", "--field-manager=two", "-f", "-"), "{replicas: 1, cronSpec: x}"),
    (("apply", "--server-side", "--field-manager=two", "-f", "-"), "{image: b}"),
    (("apply", "--server-side", "--field-manager=two", "--force-conflicts", "-f", "-"), "{image: b}"),
    (("label", "crontab", "$name", "a=b"), ""),
    (("annotate", "crontab", "$name", "c=d"), ""),
    (("apply", "-f", "-"), "{image: c}"),
    (("apply", "--server-side", "-f", "-"), "{image: c}"),
    (("patch", "crontab", "$name", "--type=merge", "-p", '{"metadata":{"managedFields":[{}]}}'), ""),
    (("label", "crontab", "$name", "a=c", "--overwrite"), ""),
    (("apply", "--server-side", "-f", "-"), "{image: d}"),
    (("apply", "--server-side", "-f", "-"), "{image: c}"),
)


def owned(name: str, *servers: Kubectl) -> list[Any]:
    """What the servers say and make of an object in turn, by OWNED."""
    seen: list[Any] = []
    for (arguments, spec), kubectl in zip(OWNED, itertools.cycle(servers), strict=False):
        given = (
            f"apiVersion: stable.example.com/v1\nkind: CronTab\nmetadata: {{name: {name}, namespace: default}}\nspec: {spec}\n"
        )
        done = kubectl(*[each.replace("$name", name) for each in arguments], input=given, check=False)
        seen += [done.stdout.replace(name, "$name"), done.stderr.replace(name, "$name"), found(kubectl, name)]
    return json.loads(json.dumps(comparable(seen)).replace(name, "$name"))  # type: ignore[no-any-return]


def test_owners_are_the_same_whoever_wrote(plane: ControlPlane, ours: Kubectl) -> None:
    alone = owned("alone", plane.kubectl)
    assert owned("ours", ours) == alone
    assert owned("theirs-and-ours", plane.kubectl, ours) == alone
    assert owned("ours-and-theirs", ours, plane.kubectl) == alone


def test_each_watches_what_the_other_writes(plane: ControlPlane, ours: Kubectl, tmp_path: Path) -> None:
    binary = obtain(os.environ, print).kubectl
    for number, (watching, config) in enumerate((("ours", ours), ("theirs", plane.kubectl))):
        name = f"watched-{number}"
        kubeconfig = json.loads(config("config", "view", "--raw", "-o", "json").stdout)
        file = tmp_path / f"{watching}.kubeconfig"
        file.touch(mode=0o600)
        file.write_text(json.dumps(kubeconfig))
        command = [str(binary), "--kubeconfig", str(file), "get", "crontabs", "-w", "--output-watch-events", "-o", "name"]
        log = tmp_path / f"{watching}.out"
        with log.open("wb") as output:
            watch = subprocess.Popen(command, stdout=output, env={"HOME": str(tmp_path)})
        try:
            eventually(lambda log=log: "my-new-cron-object" in log.read_text(), "the watch stands")
            other = plane.kubectl if watching == "ours" else ours
            other("apply", "-f", "-", input=manifest(name))
            eventually(lambda log=log, name=name: name in log.read_text(), "the other's write is told")
        finally:
            watch.terminate()
            watch.wait()


def test_an_etcd_that_is_not_there_is_said_in_one_line(tmp_path: Path) -> None:
    etcd = ["--storage", "etcd", "--etcd-servers", "http://127.0.0.1:1"]
    command = [sys.executable, "-m", "aggserver", "dev", "--data", str(tmp_path / "data"), "--secure-port", "0", *etcd]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_SECONDS, check=False)
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("aggserver: ")]
    assert (done.returncode, "http://127.0.0.1:1" in line, "refused" in line) == (1, True, True)


# Two servers over one etcd, in this process.

_folders = itertools.count(1)


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    with EtcdCluster(obtain(os.environ, print), tmp_path_factory.mktemp("etcd")) as cluster:
        yield cluster


@asynccontextmanager
async def replica(cluster: EtcdCluster, prefix: str) -> AsyncIterator[Client]:
    server = LocalServer(EtcdStorage(cluster.urls, prefix))
    await server.start()
    server.serve(DEFINITION)
    try:
        yield server.client()
    finally:
        await server.stop()


@pytest.fixture
async def replicas(etcd: EtcdCluster) -> AsyncIterator[tuple[Client, Client]]:
    prefix = f"/servers-{next(_folders)}"
    async with replica(etcd, prefix) as one, replica(etcd, prefix) as two:
        yield one, two


def body(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "stable.example.com/v1", "kind": "CronTab", "metadata": {"name": name}, "spec": spec}


async def test_a_write_at_one_is_read_at_the_other(replicas: tuple[Client, Client]) -> None:
    one, two = replicas
    for number in range(20):
        name = f"crontab-{number}"
        made = await one.post(CRONTABS, body(name))
        assert made.status == 201, made.body
        read = await two.get(f"{CRONTABS}/{name}")
        assert (read.status, read.json()) == (200, made.json())
        assert [item["metadata"]["name"] for item in (await two.get(CRONTABS)).json()["items"]] == sorted(
            f"crontab-{n}" for n in range(number + 1)
        )
        changed = await two.merge(f"{CRONTABS}/{name}", {"spec": {"replicas": number}})
        assert changed.status == 200, changed.body
        assert (await one.get(f"{CRONTABS}/{name}")).json() == changed.json()
    assert (await two.delete(f"{CRONTABS}/crontab-3")).status == 200
    assert (await one.get(f"{CRONTABS}/crontab-3")).status == 404


async def test_ones_resource_versions_and_tokens_are_good_at_the_other(replicas: tuple[Client, Client]) -> None:
    one, two = replicas
    await two.get(CRONTABS)  # its cache is loaded before anything is written
    for name in "abcde":
        await one.post(CRONTABS, body(name))
    first = (await one.get(f"{CRONTABS}?limit=2")).json()
    await one.delete(f"{CRONTABS}/d")
    rest = (await two.get(f"{CRONTABS}?limit=10&continue={first['metadata']['continue']}")).json()
    assert [item["metadata"]["name"] for item in rest["items"]] == ["c", "d", "e"]
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    newest = (await one.get(CRONTABS)).json()["metadata"]["resourceVersion"]
    fresh = (await two.get(f"{CRONTABS}?resourceVersion={newest}&resourceVersionMatch=NotOlderThan")).json()
    assert [item["metadata"]["name"] for item in fresh["items"]] == ["a", "b", "c", "e"]
    exact = first["metadata"]["resourceVersion"]
    then = (await two.get(f"{CRONTABS}?resourceVersion={exact}&resourceVersionMatch=Exact")).json()
    assert [item["metadata"]["name"] for item in then["items"]] == ["a", "b", "c", "d", "e"]


async def test_a_watch_at_one_tells_what_the_other_writes(replicas: tuple[Client, Client]) -> None:
    one, two = replicas
    start = (await one.get(CRONTABS)).json()["metadata"]["resourceVersion"]
    async with two.watch(f"{CRONTABS}?watch=true&resourceVersion={start}") as watch:
        for name in "ab":
            await one.post(CRONTABS, body(name))
        await two.delete(f"{CRONTABS}/a")
        told = await watch.events(3)
    assert [(event["type"], event["object"]["metadata"]["name"]) for event in told] == [
        ("ADDED", "a"),
        ("ADDED", "b"),
        ("DELETED", "a"),
    ]
    # A watch that goes on at the other server misses nothing.
    async with one.watch(f"{CRONTABS}?watch=true&resourceVersion={told[0]['object']['metadata']['resourceVersion']}") as watch:
        assert await watch.events(2) == told[1:]


async def test_of_two_writers_at_two_servers_one_wins(replicas: tuple[Client, Client]) -> None:
    one, two = replicas
    made = (await one.post(CRONTABS, body("a"))).json()
    changed = {**made, "spec": {"replicas": 1}}
    assert (await two.put(f"{CRONTABS}/a", changed)).status == 200
    assert (await one.put(f"{CRONTABS}/a", changed)).status == 409
    assert (await one.post(CRONTABS, body("a"))).status == 409
