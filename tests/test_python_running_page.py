"""docs/python-running.md: its project passes its tests, and its tables and lines name what there is."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

from aggserver.commands.new.project import files
from aggserver.testing import AppClient, SyncClient
from tests.command import REPOSITORY, run
from tests.waiting import HANG_SECONDS

PAGE = (REPOSITORY / "docs" / "python-running.md").read_text()
TESTS = dict(re.findall(r"```python\n# (\S+)\n(.*?)```", PAGE, re.DOTALL))
NEW, TEST = "aggserver new helpdesk", "pytest"
RUNS = [NEW, TEST]


def test_its_tests_pass(tmp_path: Path) -> None:
    made = run(*NEW.split()[1:], cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    project = tmp_path / "helpdesk"
    for name, text in TESTS.items():
        (project / name).write_text(text)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", TEST, "-W", "error", "-p", "aggserver.testing.plugin", "-p", "no:asyncio"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTEST_ADDOPTS": "-p no:cacheprovider"},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


def test_the_dockerfile_is_the_projects() -> None:
    assert f"```text\n{files('helpdesk', '0.1.0')['Dockerfile']}```" in PAGE


def test_all_methods_are_named() -> None:
    section = PAGE[PAGE.index("## Tests") : PAGE.index("## In a cluster")]
    for client in (AppClient, SyncClient):
        methods = [name for name, _ in inspect.getmembers(client, inspect.isfunction) if not name.startswith("_")]
        assert len(methods) > 10
        assert [name for name in methods if not re.search(rf"[`.]{name}\b", section)] == []
    public = ["create", "get", "list", "update", "patch", "delete", "watch", "get_raw", "post", "put", "request", "stream"]
    assert set(public) <= {name for name in dir(SyncClient) if not name.startswith("_")}


def test_both_clients_take_the_same() -> None:
    for name, method in inspect.getmembers(AppClient, inspect.isfunction):
        if not name.startswith("_"):
            ours, theirs = (inspect.signature(each).parameters for each in (method, getattr(SyncClient, name)))
            assert [(each.name, each.default, each.kind) for each in ours.values()] == [
                (each.name, each.default, each.kind) for each in theirs.values()
            ], name
