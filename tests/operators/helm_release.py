"""helm installs, upgrades, rolls back and uninstalls a chart: after each step `aggserver dev` has what kube-apiserver has.

With --pods=run, helm also waits for what runs, and for the Job of a hook.

`make operators` runs this file.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.cluster import Cluster
from tests.helm import program
from tests.integration.server import Standalone, running
from tests.waiting import KUBECTL_LIMIT

CHART = Path(__file__).with_name("chart")
NAMESPACE, RELEASE = "helm", "corner"
KINDS = "serviceaccounts,secrets,configmaps,roles,rolebindings,services,deployments,shops.helm.example.com"
STEPS = {
    "install": ["install", RELEASE, str(CHART), "--create-namespace"],
    "upgrade": ["upgrade", RELEASE, str(CHART), "--set", "replicas=3,password=two,sells={bread,milk}"],
    "rollback": ["rollback", RELEASE, "1"],
    "uninstall": ["uninstall", RELEASE],
}
# New each time, allocated, or the work of controllers.
VOLATILE = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")


@pytest.fixture(scope="module")
def helm() -> Path:
    return program.build(os.environ, print)


def objects(cluster: Cluster, kubeconfig: Path) -> dict[str, Any]:
    """What is in the namespace, by kind and name, without helm's own records and what each namespace has."""
    told = cluster.kubectl("get", KINDS, "-n", NAMESPACE, "-o", "json", user=kubeconfig).stdout
    found = {}
    for item in json.loads(told)["items"]:
        name = item["metadata"]["name"]
        if name == RELEASE:
            found[f"{item['kind']}/{name}"] = _lasting(item)
    return found


def _lasting(item: dict[str, Any]) -> dict[str, Any]:
    item["metadata"] = {name: value for name, value in item["metadata"].items() if name not in VOLATILE}
    item["metadata"].get("annotations", {}).pop("deployment.kubernetes.io/revision", None)
    item.pop("status", None)
    for name in ("clusterIP", "clusterIPs"):
        if item["kind"] == "Service":
            item["spec"].pop(name)
    return item


def releases(helm: Path, kubeconfig: Path, scratch: Path) -> list[tuple[str, str, str]]:
    listed = json.loads(run(helm, kubeconfig, scratch, "history", RELEASE, "-o", "json"))
    return [(each["revision"], each["status"], each["description"]) for each in listed]


def run(helm: Path, kubeconfig: Path, scratch: Path, *arguments: str) -> str:
    return program.run(helm, scratch, *arguments, "--namespace", NAMESPACE, "--kubeconfig", str(kubeconfig))


@pytest.mark.integration
def test_the_same_objects_after_each_step(control_plane: Cluster, helm: Path, tmp_path: Path) -> None:
    with running(server := Standalone(tmp_path / "data")):
        for step, arguments in STEPS.items():
            seen = []
            for kubeconfig in (control_plane.kubeconfig, server.kubeconfig):
                run(helm, kubeconfig, tmp_path, *arguments)
                history = [] if step == "uninstall" else releases(helm, kubeconfig, tmp_path)
                seen.append((objects(control_plane, kubeconfig), history))
            assert seen[1] == seen[0], step
            assert len(seen[0][0]) == (0 if step == "uninstall" else 8)


@pytest.mark.integration
def test_waiting_for_pods_and_hooks(control_plane: Cluster, helm: Path, tmp_path: Path) -> None:
    with running(server := Standalone(tmp_path / "data", "--pods=run")):

        def call(*arguments: str) -> str:
            return run(helm, server.kubeconfig, tmp_path, *arguments)

        def kubectl(*arguments: str, **more: str) -> str:
            return control_plane.kubectl(*arguments, "-n", NAMESPACE, user=server.kubeconfig, **more).stdout  # type: ignore[arg-type]

        wait, hook = ("--wait", KUBECTL_LIMIT), ("--set", "migrates=true")
        call("install", RELEASE, str(CHART), "--create-namespace", *hook, *wait)
        assert kubectl("get", "job", "migrate", "-o", "jsonpath={.status.succeeded}") == "1"
        call("upgrade", RELEASE, str(CHART), "--set", "replicas=3", *hook, *wait)
        assert kubectl("get", "deployment", RELEASE, "-o", "jsonpath={.status.readyReplicas}") == "3"
        (listed,) = json.loads(call("list", "-o", "json"))
        assert (listed["name"], listed["revision"], listed["status"]) == (RELEASE, "2", "deployed")
        status = json.loads(call("status", RELEASE, "-o", "json"))
        assert (status["info"]["status"], status["version"]) == ("deployed", 2)
        kept = kubectl("get", "secrets", "-l", "owner=helm", "-o", "name").split()
        assert kept == [f"secret/sh.helm.release.v1.{RELEASE}.v{number}" for number in (1, 2)]
        assert "kind: Deployment" in call("get", "manifest", RELEASE)
        call("uninstall", RELEASE, *wait)
        kubectl("apply", "-f", "-", input=call("template", RELEASE, str(CHART)))
        kubectl("rollout", "status", f"deployment/{RELEASE}", KUBECTL_LIMIT)
