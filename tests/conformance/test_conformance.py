"""Upstream's own tests of definitions against `aggserver dev`: all pass but those of waiting.yaml, each with its reason."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import yaml

from tests.conformance import suite
from tests.integration.server import Standalone, running

WAITING = yaml.safe_load(Path(__file__).with_name("waiting.yaml").read_text())
# A run that passed less has looked at less: tests and subtests.
AT_LEAST = 115
TIMEOUT_MINUTES = 10


@pytest.mark.integration
def test_upstream_suite(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def say(line: str) -> None:
        with capfd.disabled():
            print(line, file=sys.stderr)

    folder = suite.build(os.environ, say)
    with running(server := Standalone(tmp_path / "data")):
        skipped = [name for names in WAITING.values() for name in names]
        results, output = suite.run(folder, server.kubeconfig, skipped, TIMEOUT_MINUTES)
    failed = sorted(name for name, result in results.items() if result == "FAIL")
    assert not failed, output[-20_000:]
    assert list(results.values()).count("PASS") >= AT_LEAST, output[-20_000:]


def test_every_reason_has_its_tests() -> None:
    names = [name for names in WAITING.values() for name in names]
    assert len(names) == len(set(names)) > 0
