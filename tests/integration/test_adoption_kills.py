"""Servers that are killed in the middle of a move: no acknowledged write is lost, and the move comes to its end.

Some of the kills of `adoption_kills.py`, which has one at each step; `make kills` runs those.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.integration.killing import Kill, killing

# Adoptions and releases by turns. The longest time to the kill is about as long as the step takes.
KILLS = (
    Kill(adopt=True, at="Guarding", milliseconds=200),
    Kill(adopt=False, at="GivingBack", milliseconds=100),
    Kill(adopt=True, at="Switching", milliseconds=300),
    Kill(adopt=False, at="SwitchingBack", milliseconds=300),
    Kill(adopt=True, at="Copying", ours=False, kube_apiserver=1, milliseconds=500, through_api=True),
    Kill(adopt=False, at="SwitchingBack", milliseconds=300, twice=True),
    # Of two servers on one etcd, which is not the cluster's: one of them moves, and the other one goes on with that.
    Kill(adopt=True, at="Switching", milliseconds=300, store="etcd"),
    Kill(adopt=False, at="GivingBack", milliseconds=100, store="etcd"),
)

SEED = 233_907  # of the moments, and of what is written


# The first two show the thought.
@pytest.mark.parametrize("count", [2, pytest.param(len(KILLS), marks=pytest.mark.long)])
async def test_killed_in_the_middle_of_a_move(killed_plane: ControlPlane, other_etcd: str, tmp_path: Path, count: int) -> None:
    async with killing(killed_plane, tmp_path, random.Random(SEED), other_etcd) as kills:
        try:
            for kill in KILLS[:count]:
                await kills.run(kill)
        finally:
            print("\n".join(kills.told))
