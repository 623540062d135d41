"""The commands of README.md and docs/ as a shell runs them in a checkout.

Used by tests/test_readme.py and tests/integration/test_commands.py.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.fenced import REPOSITORY
from tests.waiting import HANG_SECONDS

__all__ = ["Shell"]


class Shell:
    """Runs commands as a user does, in a folder with the manifests and an environment. programs: folders with more of them."""

    def __init__(self, folder: Path, *programs: Path) -> None:
        self.folder = folder
        self.variables = {
            **{name: value for name, value in os.environ.items() if not name.startswith("KUBE")},
            "KUBECACHEDIR": str(folder / "kubectl-cache"),
            "KUBERC": "off",
            "PATH": os.pathsep.join([str(folder / ".venv" / "bin"), *map(str, programs), os.environ["PATH"]]),
            "PYTHONPATH": str(REPOSITORY),
        }
        (folder / "manifests").symlink_to(REPOSITORY / "manifests")
        installed = folder / ".venv" / "bin"
        installed.mkdir(parents=True)
        for name, module in (("aggserver", "-m aggserver"), ("python", "")):
            (installed / name).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {module} "$@"\n')
            (installed / name).chmod(0o755)

    def run(self, command: str) -> str:
        """What it prints; the first line that a failure prints is in the error."""
        done = subprocess.run(
            command,
            shell=True,
            cwd=self.folder,
            env=self.variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=HANG_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}"
        return done.stdout

    @contextlib.contextmanager
    def running(self, command: str, said: str) -> Iterator[str]:
        """The command for as long as the block runs, once it has printed a line like `said`: that line. Ctrl-C ends it."""
        with subprocess.Popen(
            f"exec {command}",
            shell=True,
            cwd=self.folder,
            env=self.variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            assert process.stdout is not None
            try:
                lines = ""
                for line in process.stdout:
                    lines += line
                    if re.match(said, line):
                        break
                else:
                    raise AssertionError(f"{command} ended: {lines}")
                yield line
                process.send_signal(signal.SIGINT)
                rest, _ = process.communicate(timeout=HANG_SECONDS)
                assert process.returncode == 0, lines + rest
            finally:
                process.kill()

    def recipe(self, target: str) -> str:
        """The last line of a target of the Makefile; those before it make the environment."""
        done = subprocess.run(
            ["make", "--dry-run", "--no-print-directory", target], cwd=REPOSITORY, capture_output=True, text=True, check=True
        )
        return done.stdout.splitlines()[-1]
