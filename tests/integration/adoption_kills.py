"""`make kills`: a server is killed at each step of an adoption and of a release, some thirty times, under writers that go on.

Prints what was killed in which phase.
"""

from __future__ import annotations

import random
from pathlib import Path

from tests.controlplane.plane import ControlPlane
from tests.integration.killing import LABELED, RECORDLESS, Kill, killing

# Adoptions and releases by turns. The longest time to the kill is about as long as the step takes.
KILLS = (
    Kill(adopt=True, at=LABELED, milliseconds=2000),
    Kill(adopt=False, at=LABELED, milliseconds=500),
    Kill(adopt=True, at="Copying", ours=False, kube_apiserver=1, milliseconds=500, through_api=True),
    Kill(adopt=False, at="GivingBack", milliseconds=100, twice=True),
    Kill(adopt=True, at="Guarding"),
    Kill(adopt=False, at="GivingBack", ours=False, kube_apiserver=0),
    Kill(adopt=True, at="Guarding", ours=False, kube_apiserver=1, milliseconds=100),
    Kill(adopt=False, at="SwitchingBack", milliseconds=300),
    Kill(adopt=True, at="Switching", milliseconds=300, twice=True),
    Kill(adopt=False, at="SwitchingBack", milliseconds=1000, twice=True),
    Kill(adopt=True, at="Switching", ours=False, kube_apiserver=0, milliseconds=200),
    Kill(adopt=False, at="SwitchingBack", ours=False, kube_apiserver=1, milliseconds=300),
    Kill(adopt=True, at="Switching", kube_apiserver=1, milliseconds=300, through_api=True),
    Kill(adopt=False, at="SwitchingBack", kube_apiserver=0, milliseconds=300),
    Kill(adopt=True, at="Adopted", milliseconds=100),
    Kill(adopt=False, at=RECORDLESS),
    # A release through the API.
    Kill(adopt=True, at="Copying", milliseconds=300, twice=True, through_api=True),
    Kill(adopt=False, at="GivingBack", milliseconds=500, through_api=True),
    Kill(adopt=True, at="Copying", kube_apiserver=0, milliseconds=500),
    Kill(adopt=False, at="GivingBack", kube_apiserver=1, milliseconds=1000, through_api=True, twice=True),
    Kill(adopt=True, at="Guarding", milliseconds=100, twice=True, through_api=True),
    Kill(adopt=False, at="SwitchingBack", milliseconds=500, through_api=True),
    # The cluster's own etcd is the store.
    Kill(adopt=True, at="Switching", milliseconds=200, store="shared"),
    Kill(adopt=False, at="SwitchingBack", milliseconds=300, store="shared"),
    Kill(adopt=True, at="Switching", kube_apiserver=1, milliseconds=100, store="shared"),
    Kill(adopt=False, at="SwitchingBack", ours=False, kube_apiserver=0, milliseconds=100, store="shared"),
    # Of two servers on another etcd, the one that moves.
    Kill(adopt=True, at="Copying", milliseconds=300, store="etcd", outlasts=True),
    Kill(adopt=False, at="GivingBack", milliseconds=100, store="etcd", outlasts=True),
    Kill(adopt=True, at="Guarding", milliseconds=100, store="etcd", outlasts=True),
    Kill(adopt=False, at="SwitchingBack", milliseconds=300, store="etcd", outlasts=True),
    Kill(adopt=True, at="Switching", milliseconds=300, store="etcd", outlasts=True),
    Kill(adopt=False, at="GivingBack", store="etcd"),
    Kill(adopt=True, at="Switching", milliseconds=100, store="etcd", outlasts=True, halts=True),
    Kill(adopt=False, at="GivingBack", milliseconds=100, store="etcd", outlasts=True, halts=True),
)

SEED = 690_482  # of the moments, and of what is written


async def test_killed_at_each_step(killed_plane: ControlPlane, other_etcd: str, tmp_path: Path) -> None:
    async with killing(killed_plane, tmp_path, random.Random(SEED), other_etcd) as kills:
        for kill in KILLS:
            told = len(kills.told)
            try:
                await kills.run(kill)
            finally:
                print("\n".join(kills.told[told:]), flush=True)
