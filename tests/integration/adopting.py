"""The manifests with adoption applied to a control plane, and `aggserver serve --adopt` in the place of their Deployment.

As `aggregation.py`, for definitions that the control plane has. Tests label a definition, and see what becomes of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from aggserver.storage.sqlite_file import FILE_NAME
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import free_ports
from tests.integration.aggregation import MANIFESTS, NAMESPACE, SERVICE
from tests.integration.server import Aggregated, eventually

__all__ = ["LABEL", "Adopting"]

LABEL = "aggserver.io/adopt"
CONFIG_MAP = "aggserver-adoption"


class Adopting:
    """Applies the manifests when made. `start` starts the server; the same data and port are used for each start.

    groups: whose objects the server may read and write at the host.
    """

    def __init__(self, plane: ControlPlane, folder: Path, *groups: str) -> None:
        self.plane = plane
        self.port = free_ports(1)[0]
        self._folder = folder
        self._data = "server"
        overlay = folder / "overlay"
        overlay.mkdir()
        # kustomize takes relative paths only.
        (overlay / "base").symlink_to(MANIFESTS)
        text = json.dumps({"resources": ["base"], "components": ["base/adoption"]})
        (overlay / "kustomization.yaml").write_text(text)
        rendered = plane.kubectl("kustomize", "--load-restrictor=LoadRestrictionsNone", str(overlay)).stdout
        objects = [found for found in yaml.safe_load_all(rendered) if found["kind"] != "Deployment"]
        for found in objects:
            if found["kind"] == "Service":
                found["spec"] = {"type": "ExternalName", "externalName": "localhost"}
        if groups:
            objects.append(_rights(groups))
        plane.kubectl("apply", "-f", "-", input="\n---\n".join(map(json.dumps, objects)))
        self.kubeconfig = folder / "service-account.kubeconfig"
        token = plane.kubectl("create", "token", SERVICE, "-n", NAMESPACE, "--duration=2h").stdout.strip()
        config = json.loads(plane.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": token}
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
        """What the ConfigMap says, by definition."""
        done = self.plane.kubectl("get", "configmap", CONFIG_MAP, "-n", NAMESPACE, "-o", "json", check=False)
        if done.returncode:
            return {}
        return {name: json.loads(text) for name, text in (json.loads(done.stdout).get("data") or {}).items()}

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


def _rights(groups: Sequence[str]) -> dict[str, Any]:
    verbs = ["get", "list", "watch", "create", "update", "patch", "delete"]
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "aggserver:adopted-tests", "labels": {"aggserver.io/aggregate-to-adopted": "true"}},
        "rules": [{"apiGroups": list(groups), "resources": ["*"], "verbs": verbs}],
    }
