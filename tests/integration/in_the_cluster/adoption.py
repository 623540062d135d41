"""Adoption with the manifests' own rights and network: objects move to the pod and back, while somebody writes.

Runs after the others (tests/kind/__main__.py), since the component manifests/adoption is added to what is installed.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.cluster import Cluster
from tests.integration.adopting import adopt, rights, status
from tests.integration.in_the_cluster.conftest import NODE, RELEASE_SECONDS, Pod
from tests.integration.server import eventually
from tests.waiting import KUBECTL_LIMIT

GROUP = "moved.example.com"
NAME = f"reports.{GROUP}"
OBJECTS = 10_000
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": NAME},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "reports", "singular": "report", "kind": "Report", "listKind": "ReportList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
RIGHTS = rights("aggserver:adopted-reports", GROUP)


@pytest.fixture(scope="module")
def adopting(with_adoption: Cluster) -> Iterator[Cluster]:
    """With a definition and its objects in the cluster."""
    aggregated = with_adoption
    aggregated.kubectl("apply", "-f", "-", input=json.dumps(DEFINITION))
    aggregated.kubectl("wait", "--for=condition=Established", f"crd/{NAME}", KUBECTL_LIMIT)
    aggregated.kubectl("apply", "-f", "-", input=json.dumps(RIGHTS))
    items = (
        {
            "apiVersion": f"{GROUP}/v1",
            "kind": "Report",
            "metadata": {"name": f"report-{number}"},
            "spec": {"text": "x" * 1000},
        }
        for number in range(OBJECTS)
    )
    aggregated.kubectl("create", "-f", "-", input="\n".join(map(json.dumps, items)), timeout=1200)
    yield aggregated
    aggregated.kubectl("delete", "crd", NAME, KUBECTL_LIMIT)
    aggregated.kubectl("delete", "clusterrole", "aggserver:adopted-reports")


def _phase(cluster: Cluster) -> str:
    return str(status(cluster).get(NAME, {}).get("phase", ""))


def _objects(cluster: Cluster) -> dict[str, tuple[str, str]]:
    """(uid, text) by name."""
    items = cluster.get("reports")["items"]
    return {item["metadata"]["name"]: (item["metadata"]["uid"], item["spec"]["text"]) for item in items}


def _write(cluster: Cluster, text: str) -> None:
    patch = json.dumps({"spec": {"text": text}})

    def written() -> bool:
        done = cluster.kubectl("patch", "report", "report-7", "--type=merge", "-p", patch, check=False)
        return done.returncode == 0

    eventually(written, "a write is accepted")


def test_the_rights_stay_while_the_manifests_are_applied_again(adopting: Cluster, overlay: Path) -> None:
    """The aggregated ClusterRole's rules are its controller's: an apply that names them would take them away for a moment."""
    role = ("clusterrole", "aggserver:adopted")
    eventually(lambda: adopting.get(*role).get("rules"), "the controller has written the rules")
    shown = 'jsonpath={.metadata.annotations.applied}|{.rules}{"\\n"}'
    with adopting.running_kubectl("get", *role, "--watch", "-o", shown) as watch:
        for number, how in enumerate(((), ("--server-side", "--force-conflicts"), ())):
            adopting.kubectl("apply", *how, "--kustomize", str(overlay))
            adopting.kubectl("annotate", *role, f"applied={number}", "--overwrite")
        assert watch.stdout is not None
        for line in iter(watch.stdout.readline, ""):
            applied, _, rules = line.strip().partition("|")
            assert rules, line
            if applied == "2":
                break
    owned = adopting.get(*role, "--show-managed-fields")["metadata"]["managedFields"]
    owners = {entry["manager"] for entry in owned if "f:rules" in entry["fieldsV1"]}
    assert owners == {"clusterrole-aggregation-controller"}
    difference = adopting.kubectl("diff", "--kustomize", str(overlay), check=False)
    assert (difference.returncode, difference.stdout) == (0, "")


def test_there_and_back_while_somebody_writes(adopting: Cluster, pod: Pod, capsys: pytest.CaptureFixture[str]) -> None:
    before = _objects(adopting)
    assert len(before) == OBJECTS
    plan = adopt(adopting, "plan", "--adopt", "aggserver.io/adopt=true")
    assert plan.returncode == 0, plan.stdout + plan.stderr
    began = time.monotonic()
    adopting.kubectl("label", "crd", NAME, "aggserver.io/adopt=true")
    while _phase(adopting) != "Adopted":
        _write(adopting, f"while it moves, {time.monotonic()}")
    there = time.monotonic() - began
    _write(adopting, "there")
    assert _objects(adopting) == before | {"report-7": (before["report-7"][0], "there")}
    assert "service" in adopting.get("apiservice", f"v1.{GROUP}")["spec"]

    # What is acknowledged there survives the pod, and the node.
    pod.kill()
    pod.wait_until_ready()
    _write(adopting, "after the pod")
    subprocess.run(["docker", "restart", NODE], check=True, capture_output=True)
    eventually(lambda: adopting.kubectl("get", "--raw", "/readyz", check=False).returncode == 0, "the node is back")
    pod.wait_until_ready()
    _write(adopting, "after the node")

    began = time.monotonic()
    release = adopt(adopting, "release", NAME, "--through-api", seconds=RELEASE_SECONDS)
    assert release.returncode == 0, release.stdout + release.stderr
    back = time.monotonic() - began
    _write(adopting, "back")
    assert _objects(adopting) == before | {"report-7": (before["report-7"][0], "back")}
    assert "service" not in adopting.get("apiservice", f"v1.{GROUP}")["spec"]
    with capsys.disabled():
        print(f"{OBJECTS} objects: adopted in {there:.1f} s, released in {back:.1f} s")
        print(release.stdout)
