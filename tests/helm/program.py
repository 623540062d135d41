"""helm, built once through the Go module proxy into the user's cache, as the control plane is; and run.

go.mod and go.sum pin it.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.controlplane.binaries import cache_folder, locked
from tests.controlplane.toolchain import go_command, go_environment
from tests.waiting import HANG_SECONDS

__all__ = ["HelmError", "build", "run"]

MODULE = Path(__file__).parent
PACKAGE = "helm.sh/helm/v4/cmd/helm"


class HelmError(RuntimeError):
    """It can't be built, or ended with an error; the text is what it said."""


def build(environ: Mapping[str, str], say: Callable[[str], None]) -> Path:
    """The program, built first if need be: a minute on two idle cores. Raises HelmError, ToolchainError."""
    folder = cache_folder(environ, "helm", MODULE)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name("helm.lock"), say):
        if not folder.is_dir():
            _build(folder, environ, say)
    return folder / "helm"


def _build(folder: Path, environ: Mapping[str, str], say: Callable[[str], None]) -> None:
    say("building helm: a minute, once")
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}.", dir=folder.parent) as scratch:
        output = Path(scratch, "bin")
        command = [go_command(MODULE / "go.mod", say), "build", "-ldflags=-s -w", "-o", f"{output}/", PACKAGE]
        done = subprocess.run(command, cwd=MODULE, env=go_environment(environ), capture_output=True, text=True, check=False)
        if done.returncode:
            raise HelmError(f"{' '.join(command)} failed:\n{done.stderr[-4000:]}")
        output.rename(folder)


def run(program: Path, scratch: Path, *arguments: str) -> str:
    """What it prints. Its caches and settings are in `scratch`, so that those of the user have no effect. Raises HelmError."""
    homes = {f"HELM_{name}_HOME": str(scratch / name) for name in ("CACHE", "CONFIG", "DATA")}
    command = [str(program), *arguments]
    done = subprocess.run(command, env={**os.environ, **homes}, capture_output=True, text=True, timeout=HANG_SECONDS, check=False)
    if done.returncode:
        raise HelmError(f"{' '.join(arguments)}: {done.stdout}{done.stderr}")
    return done.stdout
