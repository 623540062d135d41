"""What tests of adoption have in common: the command `aggserver adopt`, the status that the server writes, rights on objects.

`Adopting` applies the manifests with adoption to a control plane, and has `aggserver serve --adopt` in the place of their
Deployment: as `aggregation.py`, for definitions that the control plane has. Tests label a definition, and see what becomes of it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from aggserver.storage.sqlite_file import FILE_NAME
from tests.controlplane.cluster import Cluster
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import free_ports
from tests.integration.aggregation import MANIFESTS, NAMESPACE, SERVICE
from tests.integration.server import Aggregated, eventually
from tests.kind.cluster import write_overlay
from tests.waiting import HANG_SECONDS

__all__ = ["CONFIG_MAP", "LABEL", "Adopting", "adopt", "adopt_process", "rights", "status"]

LABEL = "aggserver.io/adopt"
CONFIG_MAP = "aggserver-adoption"
_REPOSITORY = Path(__file__).parents[2]


def adopt_process(cluster: Cluster, *words: str) -> subprocess.Popen[str]:
    """`aggserver adopt` with these words, about the Service of the manifests; what it says comes by its pipes."""
    where = ["--kubeconfig", str(cluster.kubeconfig), "--service-namespace", NAMESPACE]
    return subprocess.Popen(
        [sys.executable, "-m", "aggserver", "adopt", *words, *where],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(_REPOSITORY)},
    )


def adopt(cluster: Cluster, *words: str, seconds: float = HANG_SECONDS) -> subprocess.CompletedProcess[str]:
    """The same to its end. Raises subprocess.TimeoutExpired."""
    with adopt_process(cluster, *words) as process:
        try:
            output, errors = process.communicate(timeout=seconds)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def status(cluster: Cluster) -> Mapping[str, Any]:
    """What the ConfigMap says, by definition."""
    done = cluster.kubectl("get", "configmap", CONFIG_MAP, "-n", NAMESPACE, "-o", "json", check=False)
    if done.returncode:
        return {}
    return {name: json.loads(text) for name, text in (json.loads(done.stdout).get("data") or {}).items()}


def rights(name: str, *groups: str) -> dict[str, Any]:
    """A ClusterRole by which the server may read and write the objects of these groups at the host."""
    verbs = ["get", "list", "watch", "create", "update", "patch", "delete"]
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": {"aggserver.io/aggregate-to-adopted": "true"}},
        "rules": [{"apiGroups": list(groups), "resources": ["*"], "verbs": verbs}],
    }


class Adopting:
    """Applies the manifests when made. `start` starts the server; the same data and port are used for each start.

    groups: whose objects the server may read and write at the host. address: of the host in the server's kubeconfig; '' for that
    of the first kube-apiserver.
    """

    def __init__(self, plane: ControlPlane, folder: Path, *groups: str, address: str = "") -> None:
        self.plane = plane
        self.port = free_ports(1)[0]
        self._folder = folder
        self._data = "server"
        overlay = folder / "overlay"
        overlay.mkdir()
        write_overlay(overlay, MANIFESTS, "adoption")
        rendered = plane.kubectl("kustomize", str(overlay)).stdout
        objects = [found for found in yaml.safe_load_all(rendered) if found["kind"] != "Deployment"]
        for found in objects:
            if found["kind"] == "Service":
                found["spec"] = {"type": "ExternalName", "externalName": "localhost"}
        if groups:
            objects.append(rights("aggserver:adopted-tests", *groups))
        plane.kubectl("apply", "-f", "-", input="\n---\n".join(map(json.dumps, objects)))
        self.kubeconfig = folder / "service-account.kubeconfig"
        token = plane.kubectl("create", "token", SERVICE, "-n", NAMESPACE, "--duration=2h").stdout.strip()
        config = json.loads(plane.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": token}
        config["clusters"][0]["cluster"]["server"] = address or plane.server
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(json.dumps(config))

    def start(self, *arguments: str, selector: str = f"{LABEL}=true", data: str = "server", port: int = 0) -> Aggregated:
        """arguments: more of them, such as those of the host's etcd. data: the name of the server's folder.

        port: 0 for the one to which the Service leads.
        """
        self._data = data
        service = ["--service-name", SERVICE, "--service-namespace", NAMESPACE, "--service-port", str(self.port)]
        kube_apiservers = ["--kube-apiservers", ",".join(self.plane.servers)]
        adopt = [f"--adopt={selector}", *kube_apiservers, *arguments]
        self.server = Aggregated(self._folder / data, self.kubeconfig, port or self.port, *service, *adopt)
        return self.server

    @property
    def store(self) -> Path:
        """The file of the server's store."""
        return self.store_of(self._data)

    def store_of(self, data: str) -> Path:
        """The same for the server with this folder, which need not have been started yet."""
        return self._folder / data / "data" / FILE_NAME

    @property
    def log(self) -> str:
        return (self._folder / self._data / "aggserver.log").read_text(errors="replace")

    def status(self) -> Mapping[str, Any]:
        return status(self.plane)

    def label(self, definition: str, value: str = "true") -> None:
        """value: '' removes the label."""
        word = f"{LABEL}={value}" if value else f"{LABEL}-"
        self.plane.kubectl("label", "--overwrite", "crd", definition, word)

    def adopt(self, definition: str) -> None:
        self.label(definition)
        eventually(lambda: self.phase(definition) == "Adopted", f"{definition} is adopted: {self.log[-3000:]}")

    def release(self, definition: str) -> None:
        self.label(definition, "")
        eventually(lambda: self.phase(definition) == "", f"{definition} is released: {self.log[-3000:]}")

    def phase(self, definition: str) -> str:
        """'' if the status does not have it."""
        return str(self.status().get(definition, {}).get("phase", ""))
