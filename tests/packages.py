"""Packages that single tests need beside aggserver: each set is installed once, into a folder of the user's cache.

They are too large for the environment of every checkout, or nobody else needs them. A folder belongs to the content of its
requirements file, so that a changed file gets a new one.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.controlplane.binaries import cache_folder, locked

__all__ = ["PackagesError", "installed"]


class PackagesError(RuntimeError):
    """What could not be installed, and what pip said."""


def installed(name: str, requirements: Path, environ: Mapping[str, str], say: Callable[[str], None]) -> Path:
    """The folder with what a requirements file names, for PYTHONPATH. name: of the set. Raises PackagesError."""
    key = hashlib.sha256(f"{sys.version_info[:2]}\n{requirements.read_text()}".encode()).hexdigest()[:16]
    folder = cache_folder(environ).with_name(f"{name}-{key}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name(f"{name}.lock"), say):
        if not folder.is_dir():
            say(f"installing {name}: some seconds, once")
            making = folder.with_name(f"{folder.name}-making")
            shutil.rmtree(making, ignore_errors=True)  # of a run that was killed
            command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--target", str(making)]
            done = subprocess.run([*command, "-r", str(requirements)], capture_output=True, text=True, check=False)
            if done.returncode:
                raise PackagesError(f"{name} could not be installed:\n{done.stdout}{done.stderr}")
            making.rename(folder)
    return folder
