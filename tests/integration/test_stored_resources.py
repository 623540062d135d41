"""A stored resource in Python behind the aggregator, as kubectl shows it: errors, warnings, versions, actions and streams.

The streams of more than a minute are not here: that kube-apiserver cuts other requests than those of its own list is its rule.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.processes import free_ports
from tests.integration.aggregation import NAMESPACE, Aggregation, wait_until_served
from tests.integration.apps.sites import RUNS
from tests.integration.server import AggServer, eventually
from tests.waiting import KUBECTL_LIMIT

APP = ("--app", "tests.integration.apps.sites:app")
VERSIONS = ("v1.paas.example.com", "v1beta1.paas.example.com")


@pytest.fixture(scope="module")
def served(
    aggregation: Aggregation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Aggregation, list[AggServer], Path]]:
    """Two replicas with the App, and the rights that the manifests grant; kube-apiserver reaches the first."""
    runs = tmp_path_factory.mktemp("runs") / "runs"
    made = aggregation
    assert made.server.stop() == 0, made.server.output
    folder = Path(made.server._log).parent
    servers: list[AggServer] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(RUNS, str(runs))
        begin = made.start
        try:
            made.server = made.beside(folder, made.port, "--definitions", str(made.definitions), *APP)
            servers.append(made.server)
            eventually(runs.exists, "the task runs")
            servers.append(made.beside(runs.parent / "second", free_ports(1)[0], "--definitions", str(made.definitions), *APP))
            for name in VERSIONS:
                eventually(lambda name=name: made.plane.kubectl("get", f"apiservice/{name}", check=False).returncode == 0, name)
                made.plane.kubectl("wait", "--for=condition=Available", f"apiservice/{name}", KUBECTL_LIMIT)
            wait_until_served(made.plane)
            yield made, servers, runs
        finally:
            for server in servers:
                assert server.stop() == 0, server.output
            made.plane.kubectl("delete", "apiservices", *VERSIONS, "--ignore-not-found")
            begin()
            wait_until_served(made.plane)


class Kubectl:
    def __init__(self, aggregation: Aggregation, namespace: str) -> None:
        self.aggregation = aggregation
        self.namespace = namespace

    def __call__(self, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
        return self.aggregation.plane.kubectl("-n", self.namespace, *arguments, **more)

    def raw(self, path: str, version: str = "v1") -> str:
        return f"/apis/paas.example.com/{version}/namespaces/{self.namespace}/sites/{path}"


@pytest.fixture
def kubectl(served: tuple[Aggregation, list[AggServer], Path], namespace: str) -> Kubectl:
    return Kubectl(served[0], namespace)


def site(name: str, image: str = "web:1", labels: dict[str, str] | None = None, **spec: Any) -> str:
    metadata = {"name": name, "labels": labels or {}}
    return json.dumps(
        {"apiVersion": "paas.example.com/v1", "kind": "Site", "metadata": metadata, "spec": {"image": image, **spec}}
    )


def test_hooks_and_the_task(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", input=site("web", replicas=3))
    eventually(lambda: "3" in kubectl("get", "sites", "web", "--no-headers").stdout.split()[1:2], "the status is written")
    made = json.loads(kubectl("get", "site", "web", "-o", "json").stdout)
    assert made["metadata"]["labels"]["owner"]
    assert made["status"] == {"ready": 3, "observedGeneration": 1}
    refused = kubectl("create", "-f", "-", input=site("other", "web:latest"), check=False)
    assert refused.stderr == 'The Site "other" is invalid: spec.image: Invalid value: "web:latest": must have a fixed tag\n'
    scaled = kubectl("patch", "site", "web", "--type=merge", "-p", '{"spec":{"replicas":1}}')
    assert scaled.stderr == "Warning: scaling down ends sessions\n"
    applied = kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", input=site("new", "web:latest"), check=False)
    assert "must have a fixed tag" in applied.stderr
    assert "A site of a customer." in kubectl("explain", "site").stdout


def test_authorize(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", input=site("mine"))
    kubectl("label", "site", "mine", "owner=nobody", "--overwrite")
    refused = kubectl("delete", "site", "mine", check=False)
    assert refused.stderr == (
        'Error from server (Forbidden): sites.paas.example.com "mine" is forbidden: only its owner may do this\n'
    )
    log = kubectl("get", "--raw", kubectl.raw("mine/log"), check=False)
    assert "Forbidden" in log.stderr


def test_versions(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", input=site("web", replicas=2))
    old = kubectl("get", "sites.v1beta1.paas.example.com", "web", "-o", "json")
    assert old.stderr == "Warning: paas.example.com/v1beta1 Site is deprecated; use v1\n"
    shown = json.loads(old.stdout)
    assert (shown["image"], shown["size"]) == ("web:1", 2)
    head = {"apiVersion": "paas.example.com/v1beta1", "kind": "Site", "metadata": {"name": "applied"}}
    kubectl("apply", "--server-side", "-f", "-", input=json.dumps({**head, "image": "web:2", "size": 4}))
    kubectl("apply", "--server-side", "-f", "-", input=site("applied", "web:3"))
    spec = json.loads(kubectl("get", "site", "applied", "-o", "json").stdout)["spec"]
    assert spec == {"image": "web:3", "replicas": 1}, "what the applier gave up has its default"


def test_the_action_and_the_stream(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl("create", "-f", "-", input=site("web"))
    body = tmp_path / "body.json"
    body.write_text('{"comment": "fine"}')
    approved = json.loads(kubectl("create", "--raw", kubectl.raw("web/approve"), "-f", str(body)).stdout)
    assert approved["metadata"]["annotations"]["approved"].startswith("fine by ")
    body.write_text("{}")
    refused = kubectl("create", "--raw", kubectl.raw("web/approve"), "-f", str(body), check=False)
    assert refused.stderr == 'The Site "web" is invalid: comment: Required value\n'
    assert kubectl("get", "--raw", kubectl.raw("web/log")).stdout == "web begins\n"


def test_a_stream_comes_piece_by_piece_and_ends_with_the_object(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", input=site("web"))
    following = subprocess.Popen(
        [
            str(kubectl.aggregation.plane.program),
            "--kubeconfig",
            str(kubectl.aggregation.plane.kubeconfig),
            "get",
            "--raw",
            kubectl.raw("web/log?follow=true"),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert following.stdout is not None
        assert following.stdout.readline() == "web begins\n"
        assert following.stdout.read(3) == "..."
        assert following.poll() is None
        kubectl("delete", "site", "web")
        rest, _ = following.communicate(timeout=60)
        assert set(rest) <= {"."}
        assert following.returncode == 0
    finally:
        following.kill()
        following.wait()


def test_one_replica_runs_the_task(served: tuple[Aggregation, list[AggServer], Path]) -> None:
    made, (first, _), runs = served
    assert runs.read_text().split() == [str(first.pid)]
    leases = made.plane.get("leases", "-n", NAMESPACE)["items"]
    (lease,) = [each for each in leases if each["metadata"]["name"] == "aggserver-app-tests.integration.apps.sites-app"]
    assert lease["spec"]["holderIdentity"]
