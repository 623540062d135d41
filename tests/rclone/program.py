"""rclone, built once through the Go module proxy into the user's cache, as the control plane is: what uploads backups, and an S3.

go.mod and go.sum pin it, and main.go says what of it is built.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.controlplane.binaries import cache_folder, locked
from tests.controlplane.processes import Guard, Process, end, free_ports
from tests.controlplane.toolchain import go_command, go_environment

__all__ = ["RcloneError", "build", "s3"]

MODULE = Path(__file__).parent


class RcloneError(RuntimeError):
    """It can't be built; the text is what Go said."""


def build(environ: Mapping[str, str], say: Callable[[str], None]) -> Path:
    """The program, built first if need be: a minute on two idle cores. Raises RcloneError, ToolchainError."""
    folder = cache_folder(environ, "rclone", MODULE, [(MODULE / "main.go").read_bytes()])
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name("rclone.lock"), say):
        if not folder.is_dir():
            say("building rclone: a minute, once")
            with tempfile.TemporaryDirectory(prefix=f"{folder.name}.", dir=folder.parent) as scratch:
                output = Path(scratch, "bin")
                command = [go_command(MODULE / "go.mod", say), "build", "-ldflags=-s -w", "-o", f"{output}/", "."]
                environment = {**go_environment(environ), "CGO_ENABLED": "0"}
                done = subprocess.run(command, cwd=MODULE, env=environment, capture_output=True, text=True, check=False)
                if done.returncode:
                    raise RcloneError(f"{' '.join(command)} failed:\n{done.stderr[-4000:]}")
                output.rename(folder)
    return folder / "rclone"


@contextlib.contextmanager
def s3(program: Path, folder: Path, key: str, secret: str) -> Iterator[str]:
    """The URL of an object storage, with a bucket for each folder in `folder`, which one key may use."""
    (port,) = free_ports(1)
    command = [str(program), "serve", "s3", f"--addr=127.0.0.1:{port}", f"--auth-key={key},{secret}", "--config=", str(folder)]
    guard = Guard(None)
    process = Process("rclone", command, folder.with_name("s3.log"), {"HOME": str(folder.parent)}, guard)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        end([process])
        guard.dismiss()
