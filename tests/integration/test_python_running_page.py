"""The commands of docs/python-running.md that need kubectl, or a cluster, as they stand there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controlplane.cluster import Cluster
from tests.shell import Shell

ONCE = "aggserver dev --app helpdesk:app -- kubectl get notes -A"
APPLY = "aggserver manifests --app helpdesk:app --image registry.example.com/helpdesk:1 | kubectl apply -f -"
RUNS = [ONCE, APPLY]


@pytest.fixture
def shell(control_plane: Cluster, tmp_path: Path) -> Shell:
    """In a new project."""
    shell = Shell(tmp_path, control_plane.program.parent)
    shell.run("aggserver new helpdesk")
    shell.folder = tmp_path / "helpdesk"
    return shell


def test_a_server_for_one_command(shell: Shell) -> None:
    assert shell.run(ONCE) == "No resources found\n"


def test_what_a_cluster_needs(shell: Shell, control_plane: Cluster) -> None:
    shell.variables["KUBECONFIG"] = str(control_plane.kubeconfig)
    try:
        assert "deployment.apps/helpdesk created\n" in shell.run(APPLY)
    finally:
        shell.run(APPLY.replace("apply", "delete --wait=false --ignore-not-found"))
