"""Fixtures for tests against a real cluster; tests/conftest.py has `control_plane`."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.binaries import obtain
from tests.controlplane.cluster import Cluster, Kubectl
from tests.controlplane.etcd import EtcdCluster
from tests.controlplane.plane import ControlPlane
from tests.integration.aggregation import Aggregation, wait_until_served
from tests.integration.killing import plane_with_definition
from tests.integration.server import Standalone, running
from tests.integration.versions import Place

# Its failures show what differs, as those of tests do.
pytest.register_assert_rewrite("tests.integration.pins")

_numbers = itertools.count(1)


@pytest.fixture
def namespace(control_plane: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a new namespace. Its deletion is not waited for: the namespace controller alone takes 5 s."""
    stem = request.node.originalname.removeprefix("test_").replace("_", "-").lower()[:40].strip("-")
    made = control_plane.kubectl("create", "-f", "-", "-o", "name", input=_manifest(f"{stem}-{next(_numbers)}-"))
    name = made.stdout.strip().removeprefix("namespace/")
    yield name
    control_plane.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")


@pytest.fixture(scope="session")
def own_control_plane(control_plane: Cluster) -> ControlPlane:
    """The control plane we started, for tests that need its keys, etcd or logs; with --kubeconfig they are not selected."""
    assert isinstance(control_plane, ControlPlane)
    return control_plane


@pytest.fixture(scope="session")
def aggregated(control_plane: Cluster, request: pytest.FixtureRequest) -> Cluster:
    """The cluster with aggserver behind its aggregator, serving manifests/examples/crontab.yaml.

    With --kubeconfig it is the server that was deployed there; then nothing is started.
    """
    if isinstance(control_plane, ControlPlane):
        request.getfixturevalue("aggregation")
    else:
        wait_until_served(control_plane)
    return control_plane


@pytest.fixture(scope="session")
def aggregation(own_control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aggregation]:
    """The same, for tests that need the process or its folder, which with --kubeconfig are not selected."""
    made = Aggregation(own_control_plane, tmp_path_factory.mktemp("aggregated"))
    try:
        yield made
    finally:
        assert made.server.stop() == 0, made.server.output


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """`aggserver dev`, for the tests of one module."""
    with running(made := Standalone(tmp_path_factory.mktemp("standalone") / "data")):
        yield made


@pytest.fixture
def kubectl(control_plane: Cluster, standalone: Standalone) -> Iterator[Kubectl]:
    """kubectl against the standalone server; every definition it made is gone afterwards."""

    def run(*arguments: str, **more: object) -> subprocess.CompletedProcess[str]:
        return control_plane.kubectl(*arguments, user=standalone.kubeconfig, **more)  # type: ignore[arg-type]

    yield run
    run("delete", "crds", "--all", "--ignore-not-found")


@pytest.fixture(params=["kube-apiserver", "standalone"])
def either(request: pytest.FixtureRequest, control_plane: Cluster, namespace: str, tmp_path: Path) -> Iterator[Place]:
    """kube-apiserver and `aggserver dev`: what holds at the one is shown to hold at the other. The group is the test's own."""
    user = request.getfixturevalue("standalone").kubeconfig if request.param == "standalone" else None
    made = Place(control_plane, "default" if user else namespace, tmp_path, user)
    made.group = f"page{next(_numbers)}.example.com"
    yield made
    made.remove("--wait=false")


@pytest.fixture(scope="module")
def server_on_etcd(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A standalone server on the etcd of the test module's own control plane, which is its fixture `plane`."""
    folder = tmp_path_factory.mktemp("standalone") / "data"
    with running(made := Standalone(folder, "--storage", "etcd", "--etcd-servers", plane.etcd)):
        yield made


def _manifest(prefix: str) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": prefix}})


@pytest.fixture(scope="module")
def killed_plane() -> Iterator[ControlPlane]:
    """Two kube-apiservers, which tests kill, with a definition and its objects, which move meanwhile."""
    with ControlPlane(obtain(os.environ, print), replicas=2) as plane:
        plane_with_definition(plane)
        yield plane


@pytest.fixture(scope="module")
def other_etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of an etcd that is not the cluster's."""
    with EtcdCluster(obtain(os.environ, print), tmp_path_factory.mktemp("etcd")) as etcd:
        yield etcd.urls[0]
