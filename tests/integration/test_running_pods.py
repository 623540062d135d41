"""`aggserver dev --pods=run` with the real kubectl: what waits for Pods comes to an end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

import pytest

from tests.controlplane.cluster import Cluster, Kubectl
from tests.integration.server import Standalone, running
from tests.waiting import KUBECTL_LIMIT

STATEFUL = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template: {metadata: {labels: {app: db}}, spec: {containers: [{name: c, image: i}]}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template: {metadata: {labels: {app: agent}}, spec: {containers: [{name: c, image: i}]}}
"""


@pytest.fixture(scope="module")
def kubectl(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    server = Standalone(tmp_path_factory.mktemp("pods") / "data", "--pods=run")
    with running(server):
        yield partial(control_plane.kubectl, user=server.kubeconfig)


def test_a_rollout_and_back(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=nginx:1", "--replicas=3")
    assert "successfully rolled out" in kubectl("rollout", "status", "deployment/web", KUBECTL_LIMIT).stdout
    kubectl("set", "image", "deployment/web", "nginx=nginx:2")
    assert "successfully rolled out" in kubectl("rollout", "status", "deployment/web", KUBECTL_LIMIT).stdout
    kubectl("rollout", "undo", "deployment/web")
    assert "successfully rolled out" in kubectl("rollout", "status", "deployment/web", KUBECTL_LIMIT).stdout
    kubectl(
        "wait", "deployment/web", "--for=jsonpath={.metadata.annotations.deployment\\.kubernetes\\.io/revision}=3", KUBECTL_LIMIT
    )
    kubectl("wait", "deployment/web", "--for=condition=Available", KUBECTL_LIMIT)
    pods = json.loads(kubectl("get", "pods", "--selector=app=web", "-o", "json").stdout)["items"]
    assert {pod["spec"]["containers"][0]["image"] for pod in pods} == {"nginx:1"}
    kubectl("delete", "deployment/web")
    kubectl("wait", "pods", "--selector=app=web", "--for=delete", KUBECTL_LIMIT)


def test_stateful_sets_and_daemon_sets(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", input=STATEFUL)
    kubectl("rollout", "status", "statefulset/db", KUBECTL_LIMIT)
    kubectl("rollout", "status", "daemonset/agent", KUBECTL_LIMIT)
    kubectl("rollout", "restart", "statefulset/db")
    kubectl("rollout", "status", "statefulset/db", KUBECTL_LIMIT)


@pytest.mark.parametrize("kind", ["statefulset", "daemonset"])
def test_history(kubectl: Kubectl, kind: str) -> None:
    name = "db" if kind == "statefulset" else "agent"
    kubectl("apply", "-f", "-", input=STATEFUL)
    kubectl("rollout", "status", f"{kind}/{name}", KUBECTL_LIMIT)
    kubectl("set", "image", f"{kind}/{name}", "c=j")
    kubectl("rollout", "status", f"{kind}/{name}", KUBECTL_LIMIT)
    numbers = [
        int(line.split()[0]) for line in kubectl("rollout", "history", f"{kind}/{name}").stdout.splitlines() if line[:1].isdigit()
    ]
    before, newest = numbers[-2:]
    assert "Image:\tj" in kubectl("rollout", "history", f"{kind}/{name}", f"--revision={newest}").stdout
    assert "rolled back" in kubectl("rollout", "undo", f"{kind}/{name}", f"--to-revision={before}").stdout
    kubectl("rollout", "status", f"{kind}/{name}", KUBECTL_LIMIT)
    pods = json.loads(kubectl("get", "pods", f"--selector=app={name}", "-o", "json").stdout)["items"]
    assert {pod["spec"]["containers"][0]["image"] for pod in pods} == {"i"}
    assert f"\n{newest + 1} " in kubectl("rollout", "history", f"{kind}/{name}").stdout


def test_jobs_and_pods(kubectl: Kubectl) -> None:
    kubectl("create", "job", "hi", "--image=busybox")
    kubectl("wait", "job/hi", "--for=condition=Complete", KUBECTL_LIMIT)
    kubectl("run", "one", "--image=nginx")
    kubectl("wait", "pod/one", "--for=condition=Ready", KUBECTL_LIMIT)
    kubectl("delete", "pod/one", KUBECTL_LIMIT)
    kubectl("create", "namespace", "team")
    kubectl("run", "two", "--image=nginx", "--namespace=team")
    kubectl("delete", "namespace", "team", KUBECTL_LIMIT)
