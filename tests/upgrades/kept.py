"""What is kept of older versions: data folders (`*.data.tar.xz`), each with the answers that its own version gave, and the code
of the version before (`*.code.tar.xz`), which needs the same packages as today's.

`0.1.0-schema-1` is the state of the first commits, whose SQLite file had no checksums; `0.1.0` that of before the first upgrade
was thought of. How another one is made: `python -m tests.upgrades`, see docs/releasing.md.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["BEFORE", "DATA", "FOLDER", "unpacked_code", "unpacked_data"]

FOLDER = Path(__file__).parent
DATA = sorted(path.name.removesuffix(".data.tar.xz") for path in FOLDER.glob("*.data.tar.xz"))
# The version whose code is kept, which today's has to run beside.
BEFORE = "0.1.0"


def unpacked_data(name: str, folder: Path) -> tuple[Path, Mapping[str, Any]]:
    """The data folder of a version, made below `folder`, and what its lists were: path to the answer."""
    _unpack(FOLDER / f"{name}.data.tar.xz", folder)
    return folder / "data", json.loads((folder / "answers.json").read_bytes())


def unpacked_code(folder: Path, name: str = BEFORE) -> Mapping[str, str]:
    """The environment in which `python -m aggserver` is that version, unpacked to `folder`."""
    _unpack(FOLDER / f"{name}.code.tar.xz", folder)
    return {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": ""}


def _unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
