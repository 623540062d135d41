"""The files of the working tree that git knows or would take, copied elsewhere: for what must not touch anything else."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

__all__ = ["copy_to"]

_ROOT = Path(__file__).parents[1]


def copy_to(folder: Path) -> None:
    """folder: made if need be."""
    listed = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=_ROOT, check=True, capture_output=True)
    for name in listed.stdout.decode().split("\0"):
        if name and (_ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(_ROOT / name, folder / name)
