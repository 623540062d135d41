"""actionlint, built once through the Go module proxy into the user's cache, as the control plane is: some seconds.

go.mod and go.sum pin it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.controlplane.binaries import build_program

__all__ = ["build"]

MODULE = Path(__file__).parent
PACKAGE = "github.com/rhysd/actionlint/cmd/actionlint"


def build(environ: Mapping[str, str], say: Callable[[str], None]) -> Path:
    """The program, built first if need be. Raises BinariesError, ToolchainError."""
    return build_program("actionlint", MODULE, PACKAGE, environ, say)
