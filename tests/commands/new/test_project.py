"""`aggserver new`: the project passes its own test and is served; what is there already is left alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import REPOSITORY, run
from tests.waiting import HANG_SECONDS


def python(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )


def test_it_passes_its_own_test_and_is_served(tmp_path: Path) -> None:
    done = run("new", "helpdesk", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "Next: cd helpdesk; pytest; aggserver dev --app helpdesk:app --reload\n"
    project = tmp_path / "helpdesk"
    assert {path.name for path in project.iterdir()} == {"helpdesk.py", "test_helpdesk.py", "Dockerfile"}

    options = ["-p", "aggserver.testing.plugin", "-p", "no:cacheprovider", "-p", "no:asyncio"]
    tested = python("-m", "pytest", "-W", "error", *options, cwd=project)
    assert "2 passed" in tested.stdout, tested.stdout + tested.stderr

    script = (
        "import os, ssl, urllib.request, pathlib; from aggserver.testing.api import Api; import json;"
        "config = pathlib.Path(os.environ['KUBECONFIG']); api = Api(__import__('yaml').safe_load(config.read_text())"
        "['clusters'][0]['cluster']['server'], config, pathlib.Path('.'));"
        "print(api._request('GET', '/apis/helpdesk.example.com/v1/notes', None, '')['kind'])"
    )
    served = python("-m", "aggserver", "dev", "--app", "helpdesk:app", "--", sys.executable, "-c", script, cwd=project)
    assert (served.returncode, served.stdout) == (0, "NoteList\n"), served.stderr


def test_the_dockerfile_has_four_lines(tmp_path: Path) -> None:
    run("new", "helpdesk", cwd=tmp_path)
    lines = (tmp_path / "helpdesk" / "Dockerfile").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["FROM", "WORKDIR", "COPY", "CMD"]
    assert lines[3] == 'CMD ["serve", "--app", "helpdesk:app"]'


REFUSED = {
    "an existing folder": ("taken", 2, "taken: is there already; take another name"),
    "a file of that name": ("file", 2, "file: is there already; take another name"),
    "a module of Python's": (
        "json",
        2,
        "json: is the name of a module that is there already; take another one",
    ),
    "a name that is no module": (
        "help-desk",
        2,
        "help-desk: must be of lower-case letters and digits, such as helpdesk: it names a module and an API group",
    ),
    "a folder in what is no folder": ("file/below", 1, "file/below: Not a directory"),
}


@pytest.mark.parametrize(("name", "status", "why"), REFUSED.values(), ids=REFUSED)
def test_what_it_refuses(tmp_path: Path, name: str, status: int, why: str) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "file").touch()
    done = run("new", name, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", f"aggserver: {why}\n")
    assert {path.name for path in tmp_path.rglob("*")} == {"taken", "file"}
