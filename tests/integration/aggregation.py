"""The manifests applied to the control plane, and `aggserver serve` in the place of their Deployment.

There are no nodes: the Service is of type ExternalName and leads to loopback. All else is as in a cluster; above all the server
has the token of its service account, and so the rights that the manifests give it and no others. Used by the fixtures of
`conftest.py`.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane.cluster import Cluster
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import free_ports
from tests.integration.server import Aggregated, eventually
from tests.waiting import KUBECTL_LIMIT

__all__ = ["API_SERVICE", "EXAMPLE", "NAMESPACE", "SERVICE", "Aggregation", "wait_until_served"]

MANIFESTS = Path(__file__).parents[2] / "manifests"
EXAMPLE = MANIFESTS / "examples" / "crontab.yaml"
SERVICE = "aggserver"
NAMESPACE = f"{SERVICE}-system"
API_SERVICE = "v1.stable.example.com"


class Aggregation:
    """Started when made. `definitions` is the folder that the server follows, `log` holds what it said, over all its restarts.

    arguments: more of `aggserver serve`.
    """

    def __init__(self, plane: ControlPlane, folder: Path, *arguments: str) -> None:
        self.plane = plane
        self._arguments = arguments
        self.definitions = folder / "definitions"
        self.definitions.mkdir()
        shutil.copy(EXAMPLE, self.definitions)
        self.port = free_ports(1)[0]
        self.objects = _manifests(plane)
        self.manifests = "\n---\n".join(map(json.dumps, self.objects))
        self.applied = plane.kubectl("apply", "-f", "-", input=self.manifests)
        self.kubeconfig = folder / "service-account.kubeconfig"
        self._write_kubeconfig()
        self._folder = folder / "server"
        self.start()
        wait_until_served(plane)

    def start(self) -> None:
        """On the same port over the same data, as a pod that was replaced."""
        self.server = self.beside(self._folder, self.port, "--definitions", str(self.definitions), *self._arguments)

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Without the server for as long as the block runs; afterwards it is served again."""
        assert self.server.stop() == 0, self.server.output
        try:
            yield
        finally:
            self.start()
            wait_until_served(self.plane)

    def beside(self, folder: Path, port: int, *arguments: str, kubeconfig: Path | None = None) -> Aggregated:
        """A server with these rights. Only one at a time may have definitions: APIServices lead to one port."""
        service = ["--service-name", SERVICE, "--service-namespace", NAMESPACE, "--service-port", str(self.port)]
        return Aggregated(folder, kubeconfig or self.kubeconfig, port, *service, *arguments)

    @property
    def log(self) -> str:
        return (self._folder / "aggserver.log").read_text(errors="replace")

    def api_services(self) -> dict[str, Any]:
        """By name, those that the server made."""
        found = self.plane.get("apiservices", "-l", "app.kubernetes.io/managed-by=aggserver")["items"]
        return {item["metadata"]["name"]: item for item in found}

    @contextlib.contextmanager
    def definition(self, file: str, text: str) -> Iterator[Path]:
        """A file in the folder for as long as the block runs; what was there before is back afterwards, and served."""
        path = self.definitions / file
        path.parent.mkdir(exist_ok=True)
        before = path.read_text() if path.exists() else None
        path.write_text(text)
        try:
            yield path
        finally:
            said = len(self.log)
            if before is None:
                path.unlink()
            else:
                path.write_text(before)
            eventually(lambda: "definitions: serving" in self.log[said:], "the folder is read again")

    def _write_kubeconfig(self) -> None:
        token = self.plane.kubectl("create", "token", SERVICE, "-n", NAMESPACE, "--duration=2h").stdout.strip()
        config = json.loads(self.plane.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": token}
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(json.dumps(config))


def _manifests(plane: ControlPlane) -> list[dict[str, Any]]:
    rendered = plane.kubectl("kustomize", str(MANIFESTS)).stdout
    objects = list(yaml.safe_load_all(rendered))
    for found in objects:
        if found["kind"] == "Service":
            found["spec"] = {"type": "ExternalName", "externalName": "localhost"}
    return objects


def wait_until_served(cluster: Cluster) -> None:
    """Until the aggregator finds the server and kubectl its resources: availability and discovery are two controllers."""

    def list_crontabs() -> subprocess.CompletedProcess[str] | None:
        done = cluster.kubectl("get", "crontabs.stable.example.com", "-A", check=False)  # others have crontabs too
        return None if done.returncode else done

    eventually(list_crontabs, "kubectl get crontabs")
    cluster.kubectl("wait", "--for=condition=Available", f"apiservice/{API_SERVICE}", KUBECTL_LIMIT)
