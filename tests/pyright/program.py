"""pyright in strict mode, by basedpyright, whose wheels have all that it needs. It is the same program, with more rules that
`strict` leaves off."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.command import REPOSITORY
from tests.packages import installed
from tests.waiting import HANG_SECONDS

__all__ = ["build", "complaints"]

REQUIREMENTS = Path(__file__).with_name("requirements.txt")


def build(environ: Mapping[str, str], say: Callable[[str], None]) -> Path:
    """The folder with it, installed first if need be. Raises PackagesError."""
    return installed("pyright", REQUIREMENTS, environ, say)


def complaints(scratch: Path, *files: Path, paths: Sequence[Path] = ()) -> list[str]:
    """All errors in these files, as `FILE:LINE: TEXT (RULE)`. scratch: an empty folder. paths: where else modules are found."""
    settings = {
        "include": [str(each) for each in files],
        "extraPaths": [str(each) for each in (REPOSITORY, *paths)],
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
    }
    project = scratch / "pyrightconfig.json"
    project.write_text(json.dumps(settings))
    folder = build(os.environ, lambda line: print(line, flush=True))
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(project)]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(folder)}, capture_output=True, text=True, check=False, timeout=HANG_SECONDS
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    said = json.loads(done.stdout)
    assert said["summary"]["filesAnalyzed"] == len(files), said["summary"]
    return [
        f"{Path(each['file']).name}:{each['range']['start']['line'] + 1}: {each['message']} ({each.get('rule', '')})"
        for each in said["generalDiagnostics"]
        if each["severity"] == "error"
    ]
