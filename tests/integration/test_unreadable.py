"""What can't be read, on one etcd: aggserver and a kube-apiserver with AllowUnsafeMalformedObjectDeletion, asked the same."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from aggserver.storage.etcd import EtcdStorage
from tests.controlplane.binaries import obtain
from tests.controlplane.plane import ControlPlane
from tests.integration.raw import Answer, Client
from tests.integration.server import Standalone, eventually
from tests.registry.test_unreadable import BYTES, PATH, PREFIX, REMOVED, THINGS, UNSAFE, body, embedding
from tests.waiting import HANG_SECONDS, KUBECTL_LIMIT

JSON = {"content-type": "application/json"}
CRD = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{THINGS['metadata']['name']}"
# Upstream shows the whole value there; one without metadata ends kube-apiserver's connection in a panic; one without a version
# has another text, which names the version asked for; what is nested too deeply here, it reads.
SHOWN_WHOLE = {"null", "no kind", "a kind that is a number"}
NOT_ASKED = {"no metadata", "no version", "nested too deeply"}
ASKED = [name for name in BYTES if name not in NOT_ASKED]
GROUP = THINGS["spec"]["group"]
# Each has a definition of its own, since kube-apiserver's cache can't be whole again beside an object that can't be read.
GROUPS = {name: f"case{number}.example.com" for number, name in enumerate(ASKED)}
READS = ("/x", "", "?labelSelector=a%3Db", "?limit=5")


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    gate = "--feature-gates=AllowUnsafeMalformedObjectDeletion=true"
    with ControlPlane(obtain(os.environ, print), apiserver_arguments=[gate]) as plane:
        for group in (GROUP, *GROUPS.values()):
            plane.kubectl("create", "-f", "-", input=json.dumps(THINGS).replace(GROUP, group))
        plane.kubectl("wait", "--for=condition=Established", "crd", "--all", KUBECTL_LIMIT)
        yield plane


def wait_until_whole(theirs: Client, path: str) -> None:
    eventually(lambda: theirs.request("GET", path).status == 200, "its cache is whole")


@pytest.fixture(scope="module")
def answers(plane: ControlPlane) -> dict[tuple[str, str], Answer]:
    """kube-apiserver's, by case and read. It waits three seconds in vain for a cache, so all are asked at once."""
    with Client(plane.kubeconfig) as client:
        for name, group in GROUPS.items():
            path = PATH.replace(GROUP, group)
            wait_until_whole(client, path)
            put(plane, "x", BYTES[name][0], group)

    def ask(case: tuple[str, str]) -> Answer:
        name, read = case
        with Client(plane.kubeconfig) as client:
            return client.request("GET", PATH.replace(GROUP, GROUPS[name]) + read)

    cases = [(name, read) for name in ASKED for read in READS]
    with ThreadPoolExecutor(len(cases)) as pool:
        return dict(zip(cases, pool.map(ask, cases), strict=True))


@pytest.fixture
def theirs(plane: ControlPlane) -> Iterator[Client]:
    with Client(plane.kubeconfig) as client:
        yield client


@pytest.fixture
def ours(server_on_etcd: Standalone) -> Iterator[Client]:
    with Client(server_on_etcd.kubeconfig) as client:
        yield client


def put(plane: ControlPlane, name: str, value: bytes, group: str = GROUP) -> None:
    """Past both servers."""
    key, value = PREFIX.replace(GROUP, group) + name, value.replace(GROUP.encode(), group.encode())

    async def write() -> None:
        store = EtcdStorage([plane.etcd])
        await store.start()
        current = await store.get(key)
        if current is None:
            await store.create(key, value)
        else:
            await store.update(key, value, current.revision)
        await store.close()

    asyncio.run(write())


def told(answer: Answer, *, shortened: bool = False) -> tuple[int, Any]:
    status = json.loads(answer.body)
    if shortened:
        text = json.dumps(status)
        return answer.status, text.count("is missing"), status["reason"]
    return answer.status, status


def delete(client: Client, path: str, **options: Any) -> Answer:
    given = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
    return client.request("DELETE", path, JSON, json.dumps(given).encode())


@pytest.mark.parametrize("name", ASKED)
def test_an_object(name: str, answers: dict[tuple[str, str], Answer], theirs: Client, ours: Client) -> None:
    path = PATH.replace(GROUP, GROUPS[name])
    shortened = name in SHOWN_WHOLE
    for read in READS:
        upstream = answers[name, read]
        mine = ours.request("GET", path + read)
        assert mine.status == 500
        if upstream.status == 429:
            # Its cache has tried in vain to begin anew; it then says no more than that.
            assert json.loads(mine.body)["message"] in json.loads(upstream.body)["message"]
        else:
            assert told(mine, shortened=shortened) == told(upstream, shortened=shortened)
    assert told(delete(ours, f"{path}/x"), shortened=shortened) == told(delete(theirs, f"{path}/x"), shortened=shortened)
    # Removed by the one, it is gone for the other.
    first, second = (theirs, ours) if len(name) % 2 else (ours, theirs)
    removed = first.request("DELETE", f"{path}/x?{UNSAFE}=true")
    assert told(removed) == (200, REMOVED)
    assert second.request("GET", f"{path}/x").status == 404


REFUSED: dict[str, dict[str, Any]] = {
    "of what can be read": {},
    "with all else": {"dryRun": ["All"], "orphanDependents": True, "gracePeriodSeconds": 0, "preconditions": {"uid": "x"}},
    "with a policy": {"propagationPolicy": "Background"},
    "as a text": {UNSAFE: "yes"},
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_removal(name: str, theirs: Client, ours: Client) -> None:
    theirs.request("POST", PATH, JSON, json.dumps(body("good")).encode())
    options = {UNSAFE: True, **REFUSED[name]}
    for target in (f"{PATH}/good", f"{PATH}/nobody"):
        assert told(delete(ours, target, **options)) == told(delete(theirs, target, **options))
    assert told(delete(ours, PATH, **options)) == told(delete(theirs, PATH, **options))
    assert ours.request("GET", f"{PATH}/good").status == 200


@pytest.mark.parametrize("metadata", [None, {"labels": {"a": "b"}, "annotations": {"a": 1, "b": "c"}, "unknown": 1}, {}])
def test_what_is_mended(metadata: Any, plane: ControlPlane, theirs: Client, ours: Client) -> None:
    put(plane, "x", embedding(metadata))
    wait_until_whole(theirs, PATH)
    upstream = told(theirs.request("GET", f"{PATH}/x"))
    assert told(ours.request("GET", f"{PATH}/x")) == upstream
    assert upstream[0] == 200
    assert ours.request("DELETE", f"{PATH}/x").status == 200


def check(plane: ControlPlane, folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "aggserver", "storage", "check", "--storage", "etcd", "--etcd-servers", plane.etcd]
    command += ["--data", str(folder), *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG_SECONDS, check=False)


def test_the_command_finds_and_removes_it(plane: ControlPlane, theirs: Client, ours: Client, tmp_path: Path) -> None:
    theirs.request("POST", PATH, JSON, json.dumps(body("good")).encode())
    sound = check(plane, tmp_path)
    assert sound.returncode == 0, sound.stderr
    assert "all values can be read: objects: " in sound.stdout
    assert "things.stable.example.com 1)" in sound.stdout
    assert "of other servers, not checked: " in sound.stdout
    for name in ("x", "y"):
        put(plane, name, b"this is no JSON")
    found = check(plane, tmp_path)
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr.count(f"/registry{PREFIX}") == 2
    assert "aggserver storage check --repair" in found.stderr
    repaired = check(plane, tmp_path, "--repair")
    assert repaired.returncode == 0, repaired.stderr
    (copy,) = tmp_path.glob("[!.]*")  # a data folder has a .gitignore, too
    assert str(copy) in repaired.stdout
    kept = [json.loads(line) for line in copy.read_text().splitlines()]
    assert [(entry["key"], base64.b64decode(entry["value"])) for entry in kept] == [
        (f"/registry{PREFIX}{name}", b"this is no JSON") for name in ("x", "y")
    ]
    assert [item["metadata"]["name"] for item in json.loads(ours.request("GET", PATH).body)["items"]] == ["good"]
    assert check(plane, tmp_path).returncode == 0


def test_a_definition_waits_for_it(plane: ControlPlane, theirs: Client, ours: Client) -> None:
    """Both say so in its condition, and go on once it is removed."""
    put(plane, "x", embedding("x"))

    def failed() -> str | None:
        """The message of the condition, while it has that reason: each server tries again now and then."""
        crd = json.loads(theirs.request("GET", CRD).body)
        return next((each["message"] for each in crd["status"]["conditions"] if each["reason"] == "InstanceDeletionFailed"), None)

    assert theirs.request("DELETE", CRD).status == 200
    assert eventually(failed, "it is said why it waits").startswith("could not list instances: ")
    assert ours.request("DELETE", f"{PATH}/x?{UNSAFE}=true").status == 200
    eventually(lambda: theirs.request("GET", CRD).status == 404, "the definition goes")
