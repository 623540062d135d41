"""manifests/examples/kopf: the tests of the operator there pass, run as their page says."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.command import REPOSITORY
from tests.waiting import HANG_SECONDS

FOLDER = REPOSITORY / "manifests" / "examples" / "kopf"


def test_its_tests_pass() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "aggserver.testing.plugin", "-p", "no:asyncio", "-p", "no:cacheprovider", "-v"],
        cwd=FOLDER,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
