"""Servers that are killed in the middle of a move: no acknowledged write is lost, and the move comes to its end.

Some of the kills of `adoption_kills.py`, which has one at each step; `make kills` runs those.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.integration.killing import Kill, killing

# Adoptions and releases by turns. The longest time to the kill is about as long as the step takes.
ONE_SERVER = (
    Kill(adopt=True, at="Guarding", milliseconds=200),
    Kill(adopt=False, at="GivingBack", milliseconds=100),
    Kill(adopt=True, at="Switching", milliseconds=300),
    Kill(adopt=False, at="SwitchingBack", milliseconds=300),
    Kill(adopt=True, at="Copying", ours=False, kube_apiserver=1, milliseconds=500, through_api=True),
    Kill(adopt=False, at="SwitchingBack", milliseconds=300, twice=True),
)
# On one etcd, which is not the cluster's. One of them moves, and the other one goes on with that.
TWO_SERVERS = (
    Kill(adopt=True, at="Switching", milliseconds=300, store="etcd"),
    Kill(adopt=False, at="GivingBack", milliseconds=100, store="etcd"),
)


@pytest.mark.parametrize("moves", [ONE_SERVER, TWO_SERVERS], ids=["one server", "two servers"])
async def test_killed_in_the_middle_of_a_move(
    killed_plane: ControlPlane, other_etcd: str, tmp_path: Path, moves: Sequence[Kill]
) -> None:
    seed = random.SystemRandom().randrange(1 << 20)
    print(f"seed {seed}")
    async with killing(killed_plane, tmp_path, random.Random(seed), other_etcd) as kills:
        try:
            for kill in moves:
                await kills.run(kill)
        finally:
            print("\n".join(kills.told))
