"""The same writes, the same owners: random histories on kube-apiserver and aggserver side by side (`tests/owners`).

One seed, so that a failure is of the change that is tested; `make fuzz` draws others.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.controlplane.cluster import Cluster
from tests.integration.server import Standalone, running
from tests.owners.histories import run
from tests.owners.playing import Sides, connected
from tests.owners.schemas import definition

_SHORT, _DEFINITIONS = 4, 10
_HISTORIES = 26
_STEPS = 9


@pytest.fixture(scope="module")
def sides(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    server = Standalone(tmp_path_factory.mktemp("owners") / "data")
    with running(server), connected(control_plane.kubeconfig, server.kubeconfig) as made:
        yield made


@pytest.mark.parametrize(
    "number", [*range(_SHORT), *(pytest.param(number, marks=pytest.mark.long) for number in range(_SHORT, _DEFINITIONS))]
)
def test_random_histories(sides: Sides, number: int) -> None:
    told = run(sides, f"test/{number}", definition(f"test/{number}", number), _HISTORIES, _STEPS)
    # Where a second ends within a step, which it seldom does on a machine that is not busy, that history ends.
    assert not told.differences, told.explained(sides)
