"""actionlint, built once through the Go module proxy into the user's cache, as the control plane is: some seconds.

go.mod and go.sum pin it.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.controlplane.binaries import cache_folder, locked
from tests.controlplane.toolchain import go_command, go_environment

__all__ = ["build"]

MODULE = Path(__file__).parent
PACKAGE = "github.com/rhysd/actionlint/cmd/actionlint"


def build(environ: Mapping[str, str], say: Callable[[str], None]) -> Path:
    """The program, built first if need be. Raises CalledProcessError, ToolchainError."""
    folder = cache_folder(environ, "actionlint", MODULE)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name("actionlint.lock"), say):
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(prefix=f"{folder.name}.", dir=folder.parent) as scratch:
                output = Path(scratch, "bin")
                command = [go_command(MODULE / "go.mod", say), "build", "-ldflags=-s -w", "-o", f"{output}/", PACKAGE]
                subprocess.run(command, cwd=MODULE, env=go_environment(environ), check=True)
                output.rename(folder)
    return folder / "actionlint"
