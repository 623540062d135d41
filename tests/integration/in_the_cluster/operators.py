"""Operators in pods of their own go on through adoption and release: neither is started again, and each object is handled.

One is in Go, with controller-runtime (tests/operators/shelves), the other in Python, with kopf (tests/operators/ladders.py). Each
has an account with the rights that it needs, and an image of its own; what they reconcile moves together. The release goes
through the API, as in a cluster whose etcd nobody reaches: what was created meanwhile gets another uid, by which the cluster's
garbage collector takes away what it owned, and the operator makes that again. Clients read the state of before the adoption until
it is over, so nobody else writes then.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.cluster import Cluster
from tests.history.wire import connected
from tests.integration.adopting import LABEL, adopt, rights, status
from tests.integration.in_the_cluster.conftest import RELEASE_SECONDS, open_nodes
from tests.integration.server import eventually
from tests.integration.shelving import GROUP, LADDERS, NAMESPACE, SHELVES, Churn, as_handled, definition, handled, manifest
from tests.kind.engine import run
from tests.operators.suite import obtain_program
from tests.waiting import KUBECTL_LIMIT

REPOSITORY = Path(__file__).parents[3]
DEFINITIONS = (SHELVES, LADDERS)
ROLE = "aggserver:adopted-shelves"
SOME = 30  # writes of each kind in each phase, at least
STILL = 40  # objects of each kind that are there from the beginning
SEED = 118_273  # of what is written

GO = ["/shelves", ""]
KOPF = ["kopf", "run", "--standalone", "--namespace", NAMESPACE, "--liveness=http://0.0.0.0:8080/healthz", "/ladders.py"]
IMAGES = {"shelves": "shelves:kind", "ladders": "ladders:kind"}
COMMANDS = {"shelves": GO, "ladders": KOPF}
_ALL = ["get", "list", "watch", "create", "update", "patch", "delete"]
RULES: dict[str, list[dict[str, Any]]] = {
    "shelves": [
        {"apiGroups": [GROUP], "resources": ["shelves"], "verbs": ["get", "list", "watch", "update", "patch"]},
        {"apiGroups": [GROUP], "resources": ["shelves/status"], "verbs": ["update"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": _ALL},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": _ALL},
        {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
    ],
    "ladders": [
        {"apiGroups": [GROUP], "resources": ["ladders", "ladders/status"], "verbs": ["get", "list", "watch", "patch"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
    ],
}


def _build(folder: Path) -> None:
    """Both images, from nothing but the program, and from the Python of our own image with kopf."""
    shutil.copy(obtain_program("shelves", os.environ, print), folder / "shelves")
    shutil.copy(REPOSITORY / "tests/operators/ladders.py", folder)
    shutil.copy(REPOSITORY / "constraints.txt", folder)
    files = {
        "shelves": ["FROM scratch", "COPY shelves /shelves"],
        "ladders": [
            f"FROM {os.environ['KIND_PYTHON']}",
            "COPY constraints.txt ladders.py /",
            "RUN python -m pip install --quiet --no-cache-dir --root-user-action ignore --constraint /constraints.txt kopf",
        ],
    }
    for name, lines in files.items():
        (folder / f"{name}.Dockerfile").write_text("\n".join(lines) + "\n")
        run("docker", "build", "--quiet", "--tag", IMAGES[name], "--file", folder / f"{name}.Dockerfile", folder)


def _load(cluster: Cluster, images: Sequence[str]) -> None:
    """Into each node that gets pods, as kind does it."""
    for node in open_nodes(cluster):
        load = [
            "docker",
            "exec",
            "-i",
            node,
            "ctr",
            "--namespace=k8s.io",
            "images",
            "import",
            "--all-platforms",
            "--digests",
            "-",
        ]
        with subprocess.Popen(["docker", "save", *images], stdout=subprocess.PIPE) as save:
            subprocess.run(load, stdin=save.stdout, check=True, capture_output=True)
        assert save.returncode == 0


def _objects(name: str) -> list[dict[str, Any]]:
    """The operator with its account and rights."""
    metadata, labels = {"name": name, "namespace": NAMESPACE}, {"app": name}
    container = {
        "name": name,
        "image": IMAGES[name],
        "imagePullPolicy": "Never",
        "command": COMMANDS[name],
        # Of which the one in Go sees no end, so that it runs on.
        "stdin": True,
    }
    if name == "ladders":
        probe = {"httpGet": {"path": "/healthz", "port": 8080}}
        container |= {"livenessProbe": probe, "readinessProbe": probe}
    pod = {"serviceAccountName": name, "containers": [container]}
    rbac = "rbac.authorization.k8s.io"
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": metadata, "rules": RULES[name]},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}],
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata,
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        },
    ]


@pytest.fixture(scope="module")
def operators(with_adoption: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Both run, and have handled what was there before them."""
    cluster = with_adoption
    _build(folder := tmp_path_factory.mktemp("images"))
    _load(cluster, [*IMAGES.values()])
    cluster.kubectl("create", "namespace", NAMESPACE)
    made = [rights(ROLE, GROUP), *map(definition, DEFINITIONS)]
    cluster.kubectl("apply", "-f", "-", input="\n".join(map(json.dumps, made)))
    cluster.kubectl("wait", "--for=condition=Established", *(f"crd/{name}" for name in DEFINITIONS), KUBECTL_LIMIT)
    still = [manifest(each, f"still-{number}", number) for each in DEFINITIONS for number in range(1, STILL + 1)]
    cluster.kubectl("create", "-f", "-", input="\n".join(map(json.dumps, still)))
    pods = [each for name in IMAGES for each in _objects(name)]
    cluster.kubectl("apply", "-f", "-", input="\n".join(map(json.dumps, pods)))
    for name in IMAGES:
        cluster.kubectl("rollout", "status", f"deployment/{name}", "-n", NAMESPACE, KUBECTL_LIMIT)
    shutil.rmtree(folder)
    yield cluster
    # While the operators run, which take their finalizers off.
    cluster.kubectl("delete", ",".join(DEFINITIONS), "--all", "-n", NAMESPACE, KUBECTL_LIMIT)
    cluster.kubectl("delete", "crd", *DEFINITIONS, KUBECTL_LIMIT)
    cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=false")
    cluster.kubectl("delete", "clusterrole", ROLE)


def _incarnations(cluster: Cluster) -> dict[str, tuple[str, int]]:
    """Of each operator the uid of its pod, and how often its container was started anew."""
    pods = cluster.get("pods", "-n", NAMESPACE)["items"]
    return {
        pod["metadata"]["labels"]["app"]: (pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["restartCount"])
        for pod in pods
    }


def _log(cluster: Cluster, definition: str) -> str:
    name = definition.partition(".")[0]
    return cluster.kubectl("logs", f"deployment/{name}", "-n", NAMESPACE, "--tail=40", check=False).stdout


def _is_adopted(cluster: Cluster) -> bool:
    found = status(cluster)
    return all(found.get(name, {}).get("phase") == "Adopted" for name in DEFINITIONS)


async def test_operators_go_on(operators: Cluster) -> None:
    before = await asyncio.to_thread(_incarnations, operators)
    assert before.keys() == IMAGES.keys()
    chance = random.Random(SEED)
    async with connected([operators.kubeconfig], chance) as wire:
        churns = [Churn(wire, random.Random(chance.random()), name) for name in DEFINITIONS]

        @asynccontextmanager
        async def written() -> AsyncIterator[None]:
            """Objects of both kinds are written during the block, and some more of each before its end; then all are handled."""
            goals = [churn.acknowledged + SOME for churn in churns]
            tasks = [asyncio.create_task(churn.run()) for churn in churns]
            try:
                yield

                def enough() -> bool:
                    return all(churn.acknowledged >= goal for churn, goal in zip(churns, goals, strict=True))

                await _eventually(lambda: enough() or any(task.done() for task in tasks), "they are written")
            finally:
                for churn in churns:
                    churn.stop()
                await asyncio.gather(*tasks)
            for churn in churns:
                await asyncio.to_thread(_settled, operators, churn)

        async with written():
            pass
        async with written():
            await asyncio.to_thread(operators.kubectl, "label", "crd", *DEFINITIONS, f"{LABEL}=true")
            await _eventually(lambda: _is_adopted(operators), "both are adopted")
        async with written():
            pass
        released = await asyncio.to_thread(adopt, operators, "release", SHELVES, "--through-api", seconds=RELEASE_SECONDS)
        assert released.returncode == 0, released.stdout + released.stderr
        for churn in churns:
            await asyncio.to_thread(_settled, operators, churn)
        async with written():
            pass
    service = await asyncio.to_thread(operators.get, "apiservice", f"v1.{GROUP}")
    assert "service" not in service["spec"]
    assert await asyncio.to_thread(_incarnations, operators) == before == {name: (before[name][0], 0) for name in IMAGES}


async def _eventually(probe: Callable[[], bool], what: str) -> None:
    await asyncio.to_thread(eventually, probe, what)


def _settled(cluster: Cluster, churn: Churn) -> None:
    """Each object is as it was written last, and handled; there are no others. What a Shelf owns is as the Shelf."""
    marks = {**churn.marks, **{f"still-{number}": number for number in range(1, STILL + 1)}}
    wanted = as_handled(marks)
    found: dict[str, Any] = {}

    def all_handled() -> bool:
        found.clear()
        found.update(handled(cluster, churn.definition))
        return found == wanted

    try:
        eventually(all_handled, f"all {churn.definition} are handled")
    except AssertionError:
        different = {name: (found.get(name), wanted.get(name)) for name in found.keys() | wanted.keys()}
        different = {name: each for name, each in different.items() if each[0] != each[1]}
        raise AssertionError(f"found and wanted: {different}\n{_log(cluster, churn.definition)}") from None
    if churn.definition == SHELVES:
        eventually(lambda: _owned(cluster) == marks, f"{_owned(cluster)} is owned, and not {marks}")


def _owned(cluster: Cluster) -> dict[str, int]:
    """The mark of each ConfigMap that a Shelf owns, by name, with the uid of that Shelf."""
    uids = {item["metadata"]["uid"] for item in cluster.get(SHELVES, "-n", NAMESPACE)["items"]}
    return {
        item["metadata"]["name"]: int(item["data"]["mark"])
        for item in cluster.get("configmaps", "-n", NAMESPACE)["items"]
        if any(owner["uid"] in uids for owner in item["metadata"].get("ownerReferences", ()))
    }
