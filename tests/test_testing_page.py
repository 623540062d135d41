"""docs/testing.md: its files are a project, whose tests pass, with the ini file as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import yaml

from aggserver.testing import Server, plugin
from tests.command import REPOSITORY
from tests.fakes.definitions import definition, version
from tests.waiting import HANG_SECONDS

PAGE = (REPOSITORY / "docs" / "testing.md").read_text()
FILES = dict(re.findall(r"```(?:python|text)\n# (\S+)\n(.*?)```", PAGE, re.DOTALL))
WIDGETS = definition("widgets", "Widget", version("v1", {"spec": {"type": "object"}}))


def test_its_tests_pass(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "crds").mkdir()
    (tmp_path / "crds" / "crontab.yaml").write_bytes((REPOSITORY / "manifests" / "examples" / "crontab.yaml").read_bytes())
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "widgets.yaml").write_text(yaml.safe_dump(WIDGETS))
    options = ["-p", "aggserver.testing.plugin", "-p", "no:cacheprovider", "-o", "asyncio_default_fixture_loop_scope=function"]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pytest", "-W", "error", *options],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    tests = sum(text.count("def test_") for text in FILES.values())
    assert f"{tests} passed" in done.stdout
    assert tests == 7


def test_all_fixtures_are_named() -> None:
    names = [name for name in vars(plugin) if name.startswith("aggserver")]
    assert len(names) > 5
    assert [name for name in names if f"`{name}`" not in PAGE] == []


def test_all_that_a_server_offers_is_named() -> None:
    section = PAGE[PAGE.index("## Without pytest") : PAGE.index("## Coming from")]
    names = [name for name in dir(Server) if not name.startswith("_")]
    assert [name for name in names if not re.search(rf"[`.]{name}\b", section)] == []
