"""controller-runtime's own suites with the programs of `aggserver envtest`: all specs pass but those of waiting.yaml.

Here are the suites that take seconds; `make operators` runs all of them, beside the real binaries.
"""

from __future__ import annotations

import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.controlplane.binaries import MODULE as CONTROL_PLANE
from tests.operators import suite

# A run that passed less has looked at less.
AT_LEAST = {
    "builder": 72,
    "client": 296,
    "cluster": 15,
    "controller": 32,
    "controller/controllerutil": 60,
    "envtest": 28,
    "handler": 96,
    "internal/recorder": 5,
    "manager/internal/integration": 2,
    "metrics/filters": 2,
    "reconcile": 9,
    "source": 19,
    "webhook": 8,
}


@pytest.mark.integration
def test_the_suites_pass(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def say(line: str) -> None:
        with capfd.disabled():
            print(line, file=sys.stderr)

    folder = suite.build(AT_LEAST, os.environ, say)
    assets = suite.stand_ins(tmp_path / "assets")

    def run(package: str) -> suite.Run:
        return suite.run(folder, package, assets, tmp_path / f"{package.replace('/', '-')}.json")

    # Two at once: for most of their time they wait for what they have started.
    with ThreadPoolExecutor(2) as pool:
        for made in pool.map(run, AT_LEAST):
            expected = suite.listed().get(made.package, set())
            assert made.failed == expected, f"{made.package}: {made.failed ^ expected}\n{made.output[-20_000:]}"
            assert len(made.states) - len(made.failed) >= AT_LEAST[made.package], made.output[-20_000:]


def test_every_listed_spec_is_of_a_suite() -> None:
    assert set(suite.listed()) <= set(suite.PACKAGES)


def test_the_suites_are_built_with_the_control_planes_kubernetes() -> None:
    """So that Go has compiled most of it already."""

    def versions(go_mod: Path) -> set[str]:
        return set(re.findall(r"\bk8s\.io/(?:api|apimachinery|apiserver|client-go) (v\S+)", go_mod.read_text()))

    assert versions(suite.PINS / "go.mod") == versions(CONTROL_PLANE / "go.mod")
