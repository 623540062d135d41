"""The pod of the server, the node it runs on, and the overlay of the manifests that was applied."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.cluster import Cluster
from tests.integration.server import eventually
from tests.kind.cluster import NAME, NAMESPACE, write_overlay
from tests.waiting import KUBECTL_LIMIT

RELEASE_SECONDS = 600.0  # through the API, of what has moved
SELECTOR = "app.kubernetes.io/name=aggserver"
NODE = f"{NAME}-control-plane"


class Pod:
    """A pod of the Deployment, the oldest of those that are not being deleted. `cluster`: the cluster it runs in."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def objects(self) -> list[dict[str, Any]]:
        """All of them, the oldest first."""
        pods = self.cluster.get("pods", "-n", NAMESPACE, "-l", SELECTOR)["items"]
        pods = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        return sorted(pods, key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))

    def object(self) -> dict[str, Any]:
        return self.objects()[0]

    @property
    def name(self) -> str:
        return str(self.object()["metadata"]["name"])

    @property
    def node(self) -> str:
        return str(self.object()["spec"]["nodeName"])

    def incarnations(self) -> set[tuple[str, int]]:
        """The uid of each pod, and how often its container was started anew."""
        return {(pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["restartCount"]) for pod in self.objects()}

    def restarts(self) -> int:
        return int(self.object()["status"]["containerStatuses"][0]["restartCount"])

    def python(self, code: str) -> str:
        """What a program in Python prints in the container, which has no shell that is promised."""
        return self.cluster.kubectl("exec", "-n", NAMESPACE, self.name, "--", "python", "-c", code).stdout

    def kill(self) -> None:
        """SIGKILL to a server, from the node: in its own namespace of processes number 1 is protected from it."""
        node = self.node
        found = on_node("pgrep", "--oldest", "-f", "bin/aggserver serve", node=node).split()
        on_node("kill", "-KILL", *found, node=node)

    def wait_until_ready(self) -> None:
        self.cluster.kubectl("rollout", "status", "deployment/aggserver", "-n", NAMESPACE, KUBECTL_LIMIT)

        def served() -> bool:
            return self.cluster.kubectl("get", "crontabs", check=False).returncode == 0

        eventually(served, "kubectl get crontabs")


def on_node(*command: str, node: str = NODE) -> str:
    """What a command prints on the node: by default that of the control plane. Raises subprocess.CalledProcessError."""
    return subprocess.run(["docker", "exec", node, *command], check=True, capture_output=True, text=True).stdout


def open_nodes(cluster: Cluster) -> list[str]:
    """The names of those that get pods."""
    return [node["metadata"]["name"] for node in cluster.get("nodes")["items"] if not node["spec"].get("unschedulable")]


@pytest.fixture(scope="session")
def overlay(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is installed, with the component manifests/adoption."""
    folder = tmp_path_factory.mktemp("overlay")
    write_overlay(folder, Path(os.environ["KIND_MANIFESTS"]), "adoption")
    return folder


@pytest.fixture(scope="module")
def with_adoption(aggregated: Cluster, overlay: Path) -> Cluster:
    """With that applied, which stays for later modules."""
    aggregated.kubectl("apply", "--kustomize", str(overlay))
    aggregated.kubectl("rollout", "status", "deployment/aggserver", "-n", NAMESPACE, KUBECTL_LIMIT)
    return aggregated


@pytest.fixture
def pod(aggregated: Cluster) -> Pod:
    return Pod(aggregated)


@pytest.fixture
def manifests() -> Path:
    return Path(os.environ["KIND_MANIFESTS"])
