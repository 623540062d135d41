"""Pods and workloads by chance, valid and spoiled: kube-apiserver and aggserver refuse the same, with the same errors.

The seeds are fixed, so that a failure is of the change that is tested. `python -m tests.pods` draws others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from tests.controlplane.cluster import Cluster
from tests.integration.random_pods import FAULTS, simple
from tests.integration.same_pods import DRAWN, NAMESPACE, Asked, answered, difference, named
from tests.integration.sides import Side, both


@pytest.fixture(scope="module")
def sides(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    with both(control_plane, tmp_path_factory.mktemp("pods"), (), (NAMESPACE,)) as pair:
        yield pair


def _drawn(name: str, count: int) -> dict[str, Asked]:
    return {f"seed {seed}": DRAWN[name](seed) for seed in range(count)}


def _differences(sides: tuple[Side, Side], asked: Mapping[str, Asked], *, in_order: bool = True) -> list[str]:
    told = {name: difference(sides, each, in_order=in_order) for name, each in asked.items()}
    return [f"{name}:{text}" for name, text in told.items() if text]


def test_valid_pods(sides: tuple[Side, Side]) -> None:
    pods = _drawn("valid", 150)
    assert _differences(sides, pods) == []
    assert [name for name, asked in pods.items() if answered(sides[1], asked)[0] != 201] == []


def test_each_fault(sides: tuple[Side, Side]) -> None:
    assert _differences(sides, {name: named(simple(name)) for name in FAULTS}) == []


def test_spoiled_pods(sides: tuple[Side, Side]) -> None:
    assert _differences(sides, _drawn("spoiled", 150)) == []


def test_workloads(sides: tuple[Side, Side]) -> None:
    """In which order upstream checks the parts of a workload is not kept, only that within a template."""
    assert _differences(sides, _drawn("workload", 200), in_order=False) == []
