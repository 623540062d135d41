"""Hosts that lack what kubeadm sets, as some small distributions and hand-made clusters do: a CA for the front proxy, or a client
certificate by which the aggregator proves who it is; and with another range of Services than usual.

Nobody's X-Remote-* headers can be believed then. The server says so at /readyz or in its log, which also says what to set, and
`aggserver adopt plan` says it, as far as the API shows it, before anything moves.
"""

from __future__ import annotations

import json
import os
import shutil
import ssl
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError

import pytest

from tests.controlplane.binaries import obtain
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import free_ports
from tests.integration.adopting import adopt
from tests.integration.aggregation import API_SERVICE, EXAMPLE
from tests.integration.server import Aggregated, eventually, running

RANGE = "--service-cluster-ip-range=10.77.0.0/16"
NO_CERTIFICATE = ("--proxy-client-cert-file=", "--proxy-client-key-file=")
NO_CA = "--requestheader-client-ca-file="
FLAGS = "--proxy-client-cert-file"


@pytest.fixture
def plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    with ControlPlane(obtain(os.environ, print), apiserver_arguments=[*request.param, *NO_CERTIFICATE, RANGE]) as made:
        yield made


@pytest.fixture
def server(plane: ControlPlane, tmp_path: Path) -> Iterator[Aggregated]:
    definitions = tmp_path / "definitions"
    definitions.mkdir()
    shutil.copy(EXAMPLE, definitions)
    port = free_ports(1)[0]
    plane.kubectl("create", "service", "externalname", "aggserver", "--external-name=localhost", f"--tcp={port}")
    service = ("--service-name=aggserver", "--service-namespace=default", f"--service-port={port}")
    made = Aggregated(tmp_path / "server", plane.kubeconfig, port, "--definitions", str(definitions), *service)
    with running(made):
        eventually(lambda: "readyz check passed" in readiness(made), "the server is ready")
        eventually(lambda: "FailedDiscoveryCheck" in available(plane), "the APIService is not available")
        yield made


def readiness(server: Aggregated) -> str:
    context = ssl._create_unverified_context()  # whoever answers, it is on loopback
    try:
        with urllib.request.urlopen(f"https://127.0.0.1:{server.port}/readyz?verbose", context=context) as answer:
            return str(answer.read().decode())
    except HTTPError as error:  # not ready yet
        return error.read().decode()


def available(plane: ControlPlane) -> str:
    return plane.kubectl("get", "apiservice", API_SERVICE, check=False).stdout


def obstacles(plane: ControlPlane) -> list[str]:
    done = adopt(plane, "plan", "-o", "json")
    assert done.stdout, done.stderr
    found: list[str] = json.loads(done.stdout)["obstacles"]
    return found


@pytest.mark.parametrize("plane", [[NO_CA]], indirect=True, ids=["no CA"])
def test_no_ca_of_the_front_proxy(plane: ControlPlane, server: Aggregated) -> None:
    assert "[+]authentication ok, with a warning: reason withheld" in readiness(server)
    assert f"requests through the aggregator can't be authenticated until kube-apiserver has {NO_CA[:-1]}" in server.output
    assert any(FLAGS in obstacle for obstacle in obstacles(plane))


@pytest.mark.parametrize("plane", [[]], indirect=True, ids=["no certificate"])
def test_no_client_certificate_of_the_aggregator(plane: ControlPlane, server: Aggregated) -> None:
    """The API does not show it, but the first request of the aggregator does."""
    eventually(lambda: FLAGS in server.output, "the server says what kube-apiserver needs")
    assert server.output.count(FLAGS) == 1
    assert "are ignored: the client showed no certificate" in server.output
