"""helm, built once through the Go module proxy into the user's cache, as the control plane is; and run.

go.mod and go.sum pin it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.controlplane.binaries import build_program
from tests.waiting import HANG_SECONDS

__all__ = ["HelmError", "build", "run"]

MODULE = Path(__file__).parent
PACKAGE = "helm.sh/helm/v4/cmd/helm"


class HelmError(RuntimeError):
    """It ended with an error; the text is what it said."""


def build(environ: Mapping[str, str], say: Callable[[str], None]) -> Path:
    """The program, built first if need be: a minute on two idle cores. Raises BinariesError, ToolchainError."""
    return build_program("helm", MODULE, PACKAGE, environ, say)


def run(program: Path, scratch: Path, *arguments: str) -> str:
    """What it prints. Its caches and settings are in `scratch`, so that those of the user have no effect. Raises HelmError."""
    homes = {f"HELM_{name}_HOME": str(scratch / name) for name in ("CACHE", "CONFIG", "DATA")}
    command = [str(program), *arguments]
    done = subprocess.run(command, env={**os.environ, **homes}, capture_output=True, text=True, timeout=HANG_SECONDS, check=False)
    if done.returncode:
        raise HelmError(f"{' '.join(arguments)}: {done.stdout}{done.stderr}")
    return done.stdout
