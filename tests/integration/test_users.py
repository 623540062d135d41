"""Second users of `aggserver dev`: their kubeconfigs as kubectl uses them. The commands are those of docs/access.md."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.controlplane.cluster import Cluster
from tests.integration.test_commands import Shell

USER = "aggserver dev user alice --group developers --kubeconfig alice.kubeconfig"
WHOAMI = "kubectl --kubeconfig alice.kubeconfig auth whoami"
MAY = "kubectl --kubeconfig alice.kubeconfig auth can-i --list"

RUNS = [USER, WHOAMI, MAY]


@pytest.fixture
def shell(control_plane: Cluster, tmp_path: Path) -> Shell:
    return Shell(tmp_path, control_plane.program)


def test_a_second_user(shell: Shell) -> None:
    with shell.running("aggserver dev --secure-port 0", "aggserver serves https://127.0.0.1:"):
        assert shell.run(USER).startswith("alice.kubeconfig is a kubeconfig of user alice in developers for https://127.0.0.1:")
        assert "alice" in shell.run(WHOAMI)
        info = json.loads(shell.run(f"{WHOAMI} -o json"))["status"]["userInfo"]
        assert (info["username"], info["groups"]) == ("alice", ["developers", "system:authenticated"])
        assert "selfsubjectaccessreviews.authorization.k8s.io" in shell.run(MAY)
        assert "namespaces is forbidden" in shell.run("kubectl --kubeconfig alice.kubeconfig get namespaces 2>&1 || true")


def test_a_user_of_a_server_in_memory(shell: Shell) -> None:
    made = 'aggserver dev user bob --data "$(dirname "$KUBECONFIG")" --kubeconfig bob'
    printed = shell.run(f"aggserver dev -- sh -c '{made} && kubectl --kubeconfig bob auth whoami -o json'")
    assert '"username": "bob"' in printed
