"""proxy-server and proxy-agent, the programs of the Konnectivity service, built once through the Go module proxy into the user's
cache, as the control plane is (tests/controlplane/binaries.py).

go.mod and go.sum pin them: the release of sigs.k8s.io/apiserver-network-proxy whose client kube-apiserver has. Other modules have
the versions of tests/controlplane/go.mod, since Go then has most packages compiled already.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane.binaries import cache_folder, locked
from tests.controlplane.toolchain import go_command, go_environment

__all__ = ["Programs", "ProgramsError", "build"]

MODULE = Path(__file__).parent
COMMANDS = "sigs.k8s.io/apiserver-network-proxy/cmd"

# The name that the images give to a program, and that of its command, after which Go names it.
NAMES = {"proxy-server": "server", "proxy-agent": "agent"}


class ProgramsError(RuntimeError):
    """They can't be built; the text is what Go said."""


@dataclass(frozen=True)
class Programs:
    """A folder that holds both."""

    folder: Path

    @property
    def server(self) -> Path:
        return self.folder / "proxy-server"

    @property
    def agent(self) -> Path:
        return self.folder / "proxy-agent"


def build(environ: Mapping[str, str], say: Callable[[str], None]) -> Programs:
    """Both, built first if need be: half a minute after the control plane. Raises ProgramsError, ToolchainError."""
    folder = cache_folder(environ, "konnectivity", MODULE)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name("konnectivity.lock"), say):
        if not folder.is_dir():
            _build(folder, environ, say)
    return Programs(folder)


def _build(folder: Path, environ: Mapping[str, str], say: Callable[[str], None]) -> None:
    say("building Konnectivity's server and agent: half a minute, once")
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}.", dir=folder.parent) as scratch:
        output = Path(scratch, "bin")
        packages = [f"{COMMANDS}/{command}" for command in NAMES.values()]
        command = [go_command(MODULE / "go.mod", say), "build", "-ldflags=-s -w", "-o", f"{output}/", *packages]
        done = subprocess.run(command, cwd=MODULE, env=go_environment(environ), capture_output=True, text=True, check=False)
        if done.returncode:
            raise ProgramsError(f"{' '.join(command)} failed:\n{done.stderr[-4000:]}")
        for name, built in NAMES.items():
            (output / built).rename(output / name)
        output.rename(folder)
