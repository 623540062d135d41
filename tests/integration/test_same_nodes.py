"""Kubelets on kube-apiserver and aggserver side by side: what they may read and write, and how a Pod on a node may grow."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.controlplane.cluster import Cluster
from tests.integration.cases_nodes import NAMESPACE, PROBE, RESIZES, WORLD, WRITES, reviews
from tests.integration.comparison import Cases
from tests.integration.raw import Client
from tests.integration.server import Standalone, eventually, running
from tests.integration.sides import Side, played


@pytest.fixture(scope="module")
def sides(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    folder = tmp_path_factory.mktemp("nodes") / "data"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    documents = "".join(f"---\n{json.dumps(obj)}\n" for obj in (namespace, *WORLD))
    with ExitStack() as stack:
        server = Standalone(folder, "--pods=pending")
        stack.enter_context(running(server))
        pair = []
        for kubeconfig in (control_plane.kubeconfig, server.kubeconfig):
            control_plane.kubectl("create", "-f", "-", user=kubeconfig, input=documents)
            client = stack.enter_context(Client(kubeconfig))
            for probe in PROBE:
                eventually(lambda client=client, probe=probe: _review(client, probe)["allowed"], "the world is known")  # type: ignore[misc]
            pair.append(Side(client, client))
        yield pair[0], pair[1]
    control_plane.kubectl("delete", "-f", "-", "--wait=false", input=documents)


def _review(client: Client, spec: dict[str, Any]) -> Any:
    body = json.dumps({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}).encode()
    given = {"content-type": "application/json"}
    answer = client.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", given, body)
    assert answer.status == 201, answer.body
    return json.loads(answer.body)["status"]


def test_decisions(sides: tuple[Side, Side]) -> None:
    asked = list(reviews())
    upstream, ours = ([_review(side.client, spec) for spec in asked] for side in sides)
    assert len(asked) > 400
    assert sum(status["allowed"] for status in upstream) > 50
    for spec, theirs, answer in zip(asked, upstream, ours, strict=True):
        assert answer == theirs, spec


CASES: Cases = {**WRITES, **RESIZES}


@pytest.mark.parametrize("name", CASES)
def test_writes(sides: tuple[Side, Side], name: str) -> None:
    upstream, ours = played(sides, name, CASES[name])
    assert ours == upstream
