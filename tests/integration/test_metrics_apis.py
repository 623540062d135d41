"""Metrics of Python functions, as the real autoscaler and kubectl read them through the aggregator."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.binaries import obtain
from tests.controlplane.plane import CONTROLLERS, ControlPlane
from tests.integration.aggregation import MANIFESTS, Aggregation
from tests.integration.server import eventually

EXAMPLES = MANIFESTS / "examples" / "python"
EXTERNAL = "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/queue-depth"
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}},
    },
}
AUTOSCALER = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "maxReplicas": 10,
        "metrics": [
            {
                "type": "External",
                "external": {
                    "metric": {"name": "queue-depth", "selector": {"matchLabels": {"queue": "mail"}}},
                    "target": {"type": "AverageValue", "averageValue": "3"},
                },
            }
        ],
    },
}
# Of another server, which was in the cluster before.
FOREIGN = {
    "apiVersion": "apiregistration.k8s.io/v1",
    "kind": "APIService",
    "metadata": {"name": "v1beta2.custom.metrics.k8s.io"},
    "spec": {
        "group": "custom.metrics.k8s.io",
        "version": "v1beta2",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "insecureSkipTLSVerify": True,
        "service": {"namespace": "monitoring", "name": "adapter"},
    },
}


@pytest.fixture(scope="module")
def aggregation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aggregation]:
    """A control plane that scales Deployments, and our server with the example of metrics, which it imports from its folder."""
    folder = tmp_path_factory.mktemp("metrics")
    (folder / "server").mkdir()
    shutil.copy(EXAMPLES / "queues.py", folder / "server")
    controllers = (*CONTROLLERS, "horizontal-pod-autoscaler-controller")
    with ControlPlane(obtain(os.environ, print), controllers=controllers) as plane:
        plane.kubectl("apply", "-f", "-", input=json.dumps(FOREIGN))
        made = Aggregation(plane, folder, "--app", "queues:app")
        # The manifests' own policy allows no group of Kubernetes; that of `aggserver manifests` allows those that the App serves.
        plane.kubectl("delete", "validatingadmissionpolicybinding", "aggserver-api-services")
        try:
            yield made
        finally:
            assert made.server.stop() == 0, made.server.output


@pytest.fixture(scope="module")
def plane(aggregation: Aggregation) -> ControlPlane:
    return aggregation.plane


def test_an_autoscaler_follows_a_python_function(plane: ControlPlane) -> None:
    plane.kubectl("apply", "-f", "-", input=json.dumps(DEPLOYMENT))
    plane.kubectl("apply", "-f", "-", input=json.dumps(AUTOSCALER))

    def scaled() -> bool:
        return bool(plane.get("deployment", "web")["spec"]["replicas"] == 3)  # 7.5 in the queue, 3 for each

    eventually(scaled, "the Deployment has three replicas")
    current = plane.get("hpa", "web")["status"]["currentMetrics"][0]["external"]
    assert current["metric"]["name"] == "queue-depth"


def test_what_is_not_known_is_an_error(plane: ControlPlane) -> None:
    done = plane.kubectl("get", "--raw", f"{EXTERNAL}?labelSelector=queue%3Dfax", check=False)
    assert done.returncode != 0
    assert "no sample in the last minute" in done.stderr


def test_kubectl_top(plane: ControlPlane) -> None:
    def told() -> bool:
        done = plane.kubectl("top", "nodes", "--no-headers", check=False)
        return done.stdout.split()[:2] == ["node-1", "250m"]

    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}}
    plane.kubectl("apply", "-f", "-", input=json.dumps(node))
    status = {"status": {"allocatable": {"cpu": "1", "memory": "2Gi"}}}
    plane.kubectl("patch", "node", "node-1", "--subresource=status", "--type=merge", "-p", json.dumps(status))
    eventually(told, "kubectl top tells of the node")


def test_the_group_of_another_server_is_left_alone(aggregation: Aggregation, plane: ControlPlane) -> None:
    left = "APIService v1beta2.custom.metrics.k8s.io is left alone"
    eventually(lambda: left in aggregation.log, "the log names it")
    assert plane.get("apiservice", "v1beta2.custom.metrics.k8s.io")["spec"]["service"]["name"] == "adapter"


def test_rights(plane: ControlPlane, tmp_path: Path) -> None:
    """RBAC sees `list` on the name of an external metric."""
    who = ("--as", "jane")
    done = plane.kubectl("get", "--raw", f"{EXTERNAL}?labelSelector=queue%3Dmail", *who, check=False)
    assert 'User "jane" cannot list resource "queue-depth" in API group "external.metrics.k8s.io"' in done.stderr
    role = ("--verb=list", "--resource=queue-depth.external.metrics.k8s.io")
    plane.kubectl("create", "role", "reader", *role)
    plane.kubectl("create", "rolebinding", "reader", "--role=reader", "--user=jane")

    def allowed() -> bool:
        done = plane.kubectl("get", "--raw", f"{EXTERNAL}?labelSelector=queue%3Dmail", *who, check=False)
        return '"value":"7500m"' in done.stdout

    eventually(allowed, "jane may read it")
