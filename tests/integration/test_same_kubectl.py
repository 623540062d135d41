"""kubectl prints the same and ends alike on kube-apiserver and on `aggserver dev`.

kubectl.yaml has the commands, in stories: each is played on both servers at once, in a namespace of its own. Ages, uids,
addresses and what a server calls itself are left out of the comparison, and so is the space between columns. A command that
differs stands there with the reason, and with its exit status and output on our side.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.plane import ControlPlane
from tests.integration.server import SAME_CONTROLLERS, Standalone, running
from tests.waiting import HANG_SECONDS

STORIES: dict[str, list[str | dict[str, str]]] = yaml.safe_load(Path(__file__).with_name("kubectl.yaml").read_text())

# What may differ: read from top to bottom.
LEFT_OUT = (
    # Other tests leave APIServices behind that nobody serves.
    (r"(?m)^E\d{4} .* memcache\.go:.*\n", ""),
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uid>"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
    (r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "<time>"),
    (r"\bW\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ (?=\w+\.go)", "<log> "),
    (r'resourceVersion("?): ?"\d+"', "resourceVersion: <revision>"),
    (r"https://127\.0\.0\.1:\d+", "<server>"),
    (r"\b10\.0\.0\.\d+", "<address>"),
    (r"\b3[0-2]\d{3}\b", "<port>"),
    (r"\b(\d+d)?(\d+h)?(\d+m)?\d+s\b", "<age>"),
    (r"SHA256=[0-9a-f]{64}", "<digest>"),
    (r"\b(kubernetes|aggserver)-admin\b", "<administrator>"),
    (r" +", " "),
    (r"(?m) $", ""),
)


@dataclass(frozen=True)
class Side:
    """One of the two servers. folder: where the commands run, and kubectl keeps what it has discovered."""

    kubeconfig: Path
    folder: Path
    kubectl: Path

    def run(self, command: str, namespace: str) -> str:
        environment = {
            "PATH": f"{self.kubectl.parent}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "KUBECONFIG": str(self._for(namespace)),
            "NAMESPACE": namespace,
        }
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
            check=False,
        )
        return comparable(f"{done.returncode}\n{done.stdout}{done.stderr}".strip())

    def _for(self, namespace: str) -> Path:
        """The kubeconfig with this as its namespace."""
        path = self.folder / f"{namespace}.kubeconfig"
        if not path.exists():
            config = yaml.safe_load(self.kubeconfig.read_text())
            config["contexts"][0]["context"]["namespace"] = namespace
            path.write_text(json.dumps(config))
        return path


def comparable(text: str) -> str:
    for pattern, replacement in LEFT_OUT:
        text = re.sub(pattern, replacement, text)
    return text


@pytest.fixture(scope="module")
def sides(own_control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    server = Standalone(tmp_path_factory.mktemp("kubectl") / "data", SAME_CONTROLLERS)
    with running(server):
        made = []
        for kubeconfig in (own_control_plane.kubeconfig, server.kubeconfig):
            folder = tmp_path_factory.mktemp("home")
            made.append(Side(kubeconfig, folder, own_control_plane.program))
        yield made[0], made[1]


@pytest.mark.parametrize("name", STORIES)
def test_kubectl_prints_the_same(sides: tuple[Side, Side], name: str) -> None:
    namespace = f"kubectl-{name}"
    begin = 'kubectl create namespace "$NAMESPACE" && kubectl wait --for=create sa/default cm/kube-root-ca.crt --timeout=30s'
    differences = []
    with ThreadPoolExecutor(2) as pool:

        def both(command: str) -> list[str]:
            return list(pool.map(lambda side: side.run(command, namespace), sides))

        assert all(said.startswith("0\n") for said in both(begin))
        try:
            for step in STORIES[name]:
                entry: dict[str, Any] = {"run": step} if isinstance(step, str) else step
                upstream, ours = both(entry["run"])
                if "why" not in entry:
                    differences += _difference(entry["run"], upstream, ours)
                elif upstream == ours:
                    differences.append(f"{entry['run']}: no longer differs, though listed because {entry['why']!r}")
                else:
                    differences += _difference(entry["run"], entry["ours"].strip(), ours)
        finally:
            both('kubectl delete namespace "$NAMESPACE" --wait=false')
    assert not differences, "\n".join(differences)


def _difference(command: str, wanted: str, ours: str) -> list[str]:
    if wanted == ours:
        return []
    lines = difflib.unified_diff(wanted.splitlines(), ours.splitlines(), "wanted", "ours", n=1, lineterm="")
    return [f"$ {command}", *lines, ""]
