"""The command line as a child process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.waiting import HANG_SECONDS

REPOSITORY = Path(__file__).parents[1]


def run(
    *arguments: str | Path, cwd: Path, environment: Mapping[str, str] | None = None, **more: object
) -> subprocess.CompletedProcess[str]:
    """Runs `aggserver` with these arguments to its end. environment: added to PATH and PYTHONPATH; nothing else is inherited."""
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [sys.executable, "-m", "aggserver", *arguments],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        cwd=cwd,
        env={"PYTHONPATH": str(REPOSITORY), "PATH": os.environ["PATH"], **(environment or {})},
        check=False,
        **more,
    )
