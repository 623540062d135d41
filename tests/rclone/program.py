"""rclone, built once through the Go module proxy into the user's cache, as the control plane is: what uploads backups, and an S3.

go.mod and go.sum pin it, and main.go says what of it is built.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.controlplane.binaries import build_program
from tests.controlplane.processes import Guard, Process, end, free_ports

__all__ = ["build", "s3"]

MODULE = Path(__file__).parent


def build(environ: Mapping[str, str], say: Callable[[str], None]) -> Path:
    """The program, built first if need be: a minute on two idle cores. Raises BinariesError, ToolchainError."""
    return build_program("rclone", MODULE, ".", environ, say, cgo=False)


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
