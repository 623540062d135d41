"""docs/python.md: its programs can be served, and nothing is missing. tests/integration/test_python_page.py runs the tutorial."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import aggserver
from aggserver.resources.handle import Handle
from aggserver.resources.host import HostCluster
from aggserver.resources.host_informer import HostInformer
from aggserver.resources.requests import ListRequest
from aggserver.resources.stored import Stored
from aggserver.resources.virtual import Virtual
from tests.command import REPOSITORY
from tests.waiting import HANG_SECONDS

PAGE = (REPOSITORY / "docs" / "python.md").read_text()
README = (REPOSITORY / "README.md").read_text()
PROGRAMS = dict(re.findall(r"```python\n# (\S+)\n(.*?)```", PAGE, re.DOTALL))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_programs(tmp_path)


def write_programs(folder: Path) -> Path:
    for name, text in PROGRAMS.items():
        (folder / name).write_text(text)
    return folder


def dev(folder: Path, app: str, *command: str, more: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "aggserver", "dev", "--app", app, *more, "--", *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_served(folder: Path, name: str) -> None:
    more = ["--web-port", "0"] if ".mount(" in PROGRAMS[name] else []
    done = dev(folder, f"{name.removesuffix('.py')}:app", "true", more=more)
    assert done.returncode == 0, done.stderr


def test_readme_has_the_same() -> None:
    (program,) = re.findall(r"```python\n# hello.py\n(.*?)```", README, re.DOTALL)
    assert program == PROGRAMS["hello.py"]


def test_programs_are_as_short_as_said() -> None:
    assert len([line for line in PROGRAMS["hello.py"].splitlines() if line.strip()]) == 8


def test_programs_pass_mypy(folder: Path) -> None:
    names = [str(folder / name) for name in PROGRAMS]
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir", str(folder / "cache"), *names]
    environment = {**os.environ, "MYPYPATH": str(REPOSITORY)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=HANG_SECONDS)
    assert done.returncode == 0, done.stdout


def test_shorter_pieces_are_python() -> None:
    pieces = re.findall(r"```python\n(?!# )(.*?)```", PAGE, re.DOTALL)
    assert pieces
    for piece in pieces:
        ast.parse(piece)


@pytest.mark.parametrize("made", [Virtual, Stored, HostCluster, HostInformer], ids=lambda made: made.__name__)
def test_all_methods_are_named(made: type) -> None:
    names = [
        name
        for name, _ in inspect.getmembers(made, inspect.isfunction)
        if not name.startswith("_") and name not in ("bind", "run")
    ]
    assert [name for name in names if not re.search(rf"[.`]{name}\b", PAGE)] == []


def test_all_that_a_request_has_is_named() -> None:
    names = [name for name in dir(ListRequest) if not name.startswith("_") and name != "warnings"]
    assert [name for name in names if f"`{name}" not in PAGE and f"`{name}(" not in PAGE] == []


def test_all_public_names_are_explained() -> None:
    pages = PAGE + (REPOSITORY / "docs" / "python-types.md").read_text()
    assert [name for name in aggserver.__all__ if name not in pages and not name.startswith("_")] == []


assert issubclass(Stored, Handle)
