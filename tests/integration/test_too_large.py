"""Objects that are too large for etcd, or for --max-object-bytes: what kube-apiserver answers, and what aggserver beside it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.cluster import Kubectl
from tests.controlplane.plane import ControlPlane
from tests.integration import pages
from tests.integration.server import Standalone, running
from tests.waiting import KUBECTL_LIMIT

MIB = 1024 * 1024
# A group of its own: the other one is served by aggserver where the tests of aggregation have run before.
GROUP = "large.example.com"
DEFINITION = pages.RESOURCE_DEFINITION.replace("stable.example.com", GROUP)


@pytest.fixture(scope="module")
def servers(own_control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Standalone]]:
    """aggserver on the etcd that kube-apiserver uses, and on SQLite."""
    plane, folder = own_control_plane, tmp_path_factory.mktemp("large")
    etcd = ("--storage", "etcd", "--etcd-servers", plane.etcd, "--etcd-prefix", "/large")
    with running(on_etcd := Standalone(folder / "etcd", *etcd)), running(on_sqlite := Standalone(folder / "sqlite")):
        made = {"etcd": on_etcd, "sqlite": on_sqlite}
        for server in made.values():
            plane.kubectl("apply", "-f", "-", user=server.kubeconfig, input=DEFINITION)
        yield made


@pytest.fixture(scope="module")
def kube_apiserver(own_control_plane: ControlPlane) -> Iterator[Kubectl]:
    kubectl = own_control_plane.kubectl
    kubectl("apply", "-f", "-", input=DEFINITION)
    kubectl("wait", "--for=condition=Established", f"crd/crontabs.{GROUP}", KUBECTL_LIMIT)
    yield kubectl
    kubectl("delete", "crd", f"crontabs.{GROUP}")


def manifest(folder: Path, size: int) -> str:
    obj = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "CronTab",
        "metadata": {"name": f"of-{size}", "namespace": "default"},
        "spec": {"cronSpec": "x" * size},
    }
    file = folder / f"{size}.json"
    file.write_text(json.dumps(obj))
    return str(file)


def refusal(ran: subprocess.CompletedProcess[str]) -> str:
    assert ran.returncode == 1
    return ran.stderr.strip()


# Characters in the object -> what kube-apiserver and aggserver on etcd say of it. gRPC refuses what is far too large: over there
# the client of etcd, which sends 2 MiB at most; here etcd's own.
CASES = {
    int(1.6 * MIB): ("etcdserver: request is too large", "etcdserver: request is too large"),
    int(2.5 * MIB): ("trying to send message larger than max", "received message larger than max"),
}


@pytest.mark.parametrize("size", CASES)
def test_etcd_has_no_room(
    size: int, kube_apiserver: Kubectl, servers: dict[str, Standalone], own_control_plane: ControlPlane, tmp_path: Path
) -> None:
    file = manifest(tmp_path, size)
    theirs = refusal(kube_apiserver("create", "-f", file, check=False))
    user = servers["etcd"].kubeconfig
    ours = refusal(own_control_plane.kubectl("create", "-f", file, user=user, check=False))
    assert CASES[size][0] in theirs
    assert CASES[size][1] in ours
    # kube-apiserver gives 500 and no reason, by which no client can tell what is wrong.
    assert "RequestEntityTooLarge" not in theirs
    assert "Error from server (RequestEntityTooLarge)" in ours
    assert "Request entity too large: " in ours
    # The connection, and the store, are as they were.
    own_control_plane.kubectl("create", "-f", manifest(tmp_path, size // 2), user=user)
    # SQLite has room for it.
    own_control_plane.kubectl("create", "-f", file, user=servers["sqlite"].kubeconfig)


def test_a_body_is_too_large(
    kube_apiserver: Kubectl, servers: dict[str, Standalone], own_control_plane: ControlPlane, tmp_path: Path
) -> None:
    file = manifest(tmp_path, 3 * MIB)
    theirs = refusal(kube_apiserver("create", "-f", file, check=False))
    for server in servers.values():
        assert refusal(own_control_plane.kubectl("create", "-f", file, user=server.kubeconfig, check=False)) == theirs
    assert "Request entity too large: limit is 3145728" in theirs
