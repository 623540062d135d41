"""Pods and workloads by chance, valid and spoiled: kube-apiserver and aggserver refuse the same, with the same errors.

Nothing is stored. The seeds are fixed, so that a failure is of the change that is tested.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from tests.controlplane.cluster import Cluster
from tests.integration.random_pods import FAULTS, simple, spoiled, valid, workload
from tests.integration.sides import Side, both

_NAMESPACE = "same-pods"
_PODS = f"/api/v1/namespaces/{_NAMESPACE}/pods"
_JSON = {"content-type": "application/json", "accept": "application/json"}


@pytest.fixture(scope="module")
def sides(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    with both(control_plane, tmp_path_factory.mktemp("pods"), (), (_NAMESPACE,)) as pair:
        yield pair


def _asked(side: Side, path: str, body: Any) -> tuple[int, list[str]]:
    """The status, and the errors in their order."""
    answer = side.client.request("POST", f"{path}?dryRun=All", _JSON, json.dumps(body).encode())
    status = json.loads(answer.body)
    if answer.status < 300:
        return answer.status, []
    causes = (status.get("details") or {}).get("causes")
    return answer.status, [json.dumps(cause) for cause in causes] if causes else [status["message"]]


def _differences(sides: tuple[Side, Side], asked: dict[str, tuple[str, Any]]) -> list[str]:
    found = []
    for name, (path, body) in asked.items():
        upstream, ours = (_asked(side, path, body) for side in sides)
        if upstream != ours:
            found.append(f"{name}:\n  upstream {upstream}\n  ours     {ours}\n  {json.dumps(body)}")
    return found


def _named(pod: Any) -> tuple[str, Any]:
    pod["metadata"]["name"] = "p"
    return _PODS, pod


def test_valid_pods(sides: tuple[Side, Side]) -> None:
    pods = {f"seed {seed}": _named(valid(Random(seed))) for seed in range(150)}
    assert _differences(sides, pods) == []
    refused = [name for name, (path, body) in pods.items() if _asked(sides[1], path, body)[0] != 201]
    assert refused == []


def test_each_fault(sides: tuple[Side, Side]) -> None:
    assert _differences(sides, {name: _named(simple(name)) for name in FAULTS}) == []


def test_spoiled_pods(sides: tuple[Side, Side]) -> None:
    pods = {f"seed {seed}": spoiled(Random(seed), 1 + seed % 3) for seed in range(150)}
    asked = {f"{name}, {', '.join(faults)}": _named(pod) for name, (pod, faults) in pods.items()}
    assert _differences(sides, asked) == []


def test_workloads(sides: tuple[Side, Side]) -> None:
    made = {f"seed {seed}": workload(Random(seed)) for seed in range(200)}
    asked = {name: (path.format(_NAMESPACE), body) for name, (path, body) in made.items()}
    # In which order upstream checks the parts of a workload is not kept, only that within a template.
    found = []
    for name, (path, body) in asked.items():
        upstream, ours = (_asked(side, path, body) for side in sides)
        if (upstream[0], sorted(upstream[1])) != (ours[0], sorted(ours[1])):
            found.append(f"{name}:\n  upstream {upstream}\n  ours     {ours}\n  {json.dumps(body)}")
    assert found == []
