"""A kind cluster that runs our image with the manifests, as a user installs them; gone afterwards, with all that was made for it.

kubectl is the one on PATH if it is as new as the Kubernetes that the tests are made for, and built from Go modules otherwise: an
older one prints and asks differently.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane.binaries import kubernetes_version, obtain
from tests.kind.engine import EngineError, run

__all__ = ["IMAGE", "NAME", "NAMESPACE", "WORKERS", "KindCluster", "kubectl_program", "write_overlay"]

Say = Callable[[str], None]

REPOSITORY = Path(__file__).parents[2]
MANIFESTS = REPOSITORY / "manifests"
# Served beside the example of the manifests: what clients make histories of during outages, and what configures a scheduler.
DEFINITIONS = {
    "history.yaml": REPOSITORY / "tests" / "history" / "definitions.yaml",
    "scheduler.yaml": REPOSITORY / "tests" / "kind" / "scheduler.yaml",
}
NAME = "aggserver-test"
IMAGE = "aggserver:kind"
NAMESPACE = "aggserver-system"
DEPLOYMENT = "deployment/aggserver"
WORKERS = "!node-role.kubernetes.io/control-plane"


def kubectl_program(say: Say) -> Path:
    """Says which one it is. Raises BinariesError, ToolchainError."""
    found = shutil.which("kubectl")
    wanted = _minor(kubernetes_version())
    if found is not None:
        version = json.loads(run(found, "version", "--client", "-o", "json"))["clientVersion"]["gitVersion"]
        if _minor(version) >= wanted:
            say(f"kubectl: {found}, {version}")
            return Path(found)
        say(f"kubectl: {found} is {version}, and the tests are made for {kubernetes_version()}: taking the one that they build")
    return obtain(os.environ, say).kubectl


def write_overlay(folder: Path, base: Path, *components: str, **more: Any) -> None:
    """A kustomization in `folder` of what is in `base`, as users write one.

    components: of manifests/, by their names. more: other members of the kustomization.
    """

    def relative(path: Path) -> str:  # kustomize takes no others
        return os.path.relpath(path.resolve(), folder.resolve())

    overlay = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [relative(base)],
        "components": [relative(MANIFESTS / name) for name in components],
        **more,
    }
    (folder / "kustomization.yaml").write_text(json.dumps(overlay))


class KindCluster:
    """kind, kubectl: programs. folder: for the kubeconfig, and the overlay of the manifests that it applies."""

    def __init__(self, kind: Path, kubectl: Path, folder: Path, say: Say) -> None:
        self.kubeconfig = folder / "kubeconfig"
        self.manifests = folder / "manifests"
        self.kubectl_path = kubectl
        self._kind = kind
        self._say = say

    @contextlib.contextmanager
    def running(self, node_image: str, config: Path, *, keep: bool) -> Iterator[None]:
        """With the cluster for as long as the block runs; keep: it stays. Raises EngineError."""
        if NAME in run(self._kind, "get", "clusters").split():
            raise EngineError(f"a kind cluster named {NAME} exists; delete it first: kind delete cluster --name {NAME}")
        self._say(f"creating a cluster of {node_image}, which takes some minutes on two cores")
        try:
            place = ("--name", NAME, "--kubeconfig", self.kubeconfig)
            run(self._kind, "create", "cluster", *place, "--image", node_image, "--config", config, "--wait", "300s")
            self._set_workers_aside()
            yield
        except BaseException:
            self._tell_state()
            raise
        finally:
            if keep:
                self._say(f"kept: export KUBECONFIG={self.kubeconfig}; delete with: kind delete cluster --name {NAME}")
            else:
                self._say("deleting the cluster")
                run(self._kind, "delete", "cluster", "--name", NAME)

    def _set_workers_aside(self) -> None:
        """Pods go to the first node until a test lets them go to others: then all but that test see a cluster of one node."""
        self.kubectl("wait", "--for=condition=Ready", "nodes", "--all", "--timeout=300s")
        for worker in self.kubectl("get", "nodes", f"--selector={WORKERS}", "--output=name").split():
            self.kubectl("cordon", worker)

    def install(self) -> None:
        """Our image, and the manifests with it, until the Deployment is rolled out. Raises EngineError."""
        self._say("loading the image into the nodes")
        run(self._kind, "load", "docker-image", IMAGE, "--name", NAME)
        self._say("applying the manifests")
        self._write_manifests()
        self.kubectl("apply", "--kustomize", str(self.manifests))
        self.kubectl("rollout", "status", DEPLOYMENT, "--namespace", NAMESPACE, "--timeout=180s")

    def _write_manifests(self) -> None:
        """An overlay of manifests/ with our image and definitions."""
        self.manifests.mkdir()
        for file, source in DEFINITIONS.items():
            documents = yaml.safe_load_all(source.read_text())
            served = [each for each in documents if each["kind"] == "CustomResourceDefinition"]
            (self.manifests / file).write_text(yaml.safe_dump_all(served))
        name, _, tag = IMAGE.partition(":")
        definitions = {"name": "aggserver-definitions", "namespace": NAMESPACE, "behavior": "merge", "files": [*DEFINITIONS]}
        write_overlay(
            self.manifests,
            MANIFESTS,
            images=[{"name": "aggserver", "newName": name, "newTag": tag}],
            configMapGenerator=[definitions],
            generatorOptions={"disableNameSuffixHash": True},
        )

    def kubectl(self, *arguments: str, stdin: bytes | None = None) -> str:
        """What it printed. Raises EngineError."""
        return run(self.kubectl_path, f"--kubeconfig={self.kubeconfig}", *arguments, stdin=stdin)

    def _tell_state(self) -> None:
        """What is there to be seen of a failure; the cluster may not have come that far."""
        for arguments in (
            ("get", "pods,apiservices", "--all-namespaces", "-o", "wide"),
            ("logs", DEPLOYMENT, "--namespace", NAMESPACE, "--tail=100"),
        ):
            command = [str(self.kubectl_path), f"--kubeconfig={self.kubeconfig}", *arguments]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            self._say((done.stdout + done.stderr).rstrip())


def _minor(version: str) -> int:
    match = re.match(r"v1\.(\d+)", version)
    return int(match.group(1)) if match else 0
