"""`make kills`: a server is killed at each step of an adoption and of a release, twenty times, under writers that go on.

Prints what was killed in which phase, and the seed of the moments.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.binaries import obtain
from tests.controlplane.plane import ControlPlane
from tests.integration.killing import LABELED, RECORDLESS, Kill, killing, plane_with_definition

# By turns. The longest time to the kill is about as long as the step takes.
ADOPTIONS = (
    Kill(adopt=True, at=LABELED, milliseconds=2000),
    Kill(adopt=True, at="Copying", milliseconds=500),
    Kill(adopt=True, at="Copying", ours=False, kube_apiserver=1, milliseconds=500, through_api=True),
    Kill(adopt=True, at="Guarding"),
    Kill(adopt=True, at="Guarding", milliseconds=200, through_api=True),
    Kill(adopt=True, at="Guarding", ours=False, kube_apiserver=1, milliseconds=100),
    Kill(adopt=True, at="Switching", milliseconds=300, twice=True),
    Kill(adopt=True, at="Switching", ours=False, kube_apiserver=0, milliseconds=200),
    Kill(adopt=True, at="Switching", kube_apiserver=1, milliseconds=300, through_api=True),
    Kill(adopt=True, at="Adopted", milliseconds=100),
)
RELEASES = (
    Kill(adopt=False, at=LABELED, milliseconds=500),
    Kill(adopt=False, at="GivingBack"),
    Kill(adopt=False, at="GivingBack", milliseconds=100, twice=True),
    Kill(adopt=False, at="GivingBack", ours=False, kube_apiserver=0),
    Kill(adopt=False, at="SwitchingBack"),
    Kill(adopt=False, at="SwitchingBack", milliseconds=300),
    Kill(adopt=False, at="SwitchingBack", milliseconds=1000, twice=True),
    Kill(adopt=False, at="SwitchingBack", ours=False, kube_apiserver=1, milliseconds=300),
    Kill(adopt=False, at="SwitchingBack", kube_apiserver=0, milliseconds=300),
    Kill(adopt=False, at=RECORDLESS),
)


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(obtain(os.environ, print), replicas=2) as plane:
        plane_with_definition(plane)
        yield plane


async def test_killed_at_each_step(plane: ControlPlane, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 20)
    print(f"seed {seed}")
    async with killing(plane, tmp_path, random.Random(seed)) as kills:
        for pair in zip(ADOPTIONS, RELEASES, strict=True):
            for kill in pair:
                told = len(kills.told)
                try:
                    await kills.run(kill)
                finally:
                    print("\n".join(kills.told[told:]), flush=True)
