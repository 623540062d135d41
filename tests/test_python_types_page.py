"""docs/python-types.md: its program has the schema that stands below it; `aggserver schema` and its errors."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from aggserver.cli import main
from tests.fenced import Command, commands

PAGE = (Path(__file__).parents[1] / "docs" / "python-types.md").read_text()
FILES = dict(re.findall(r"```python\n# (\S+)\n(.*?)```", PAGE, re.DOTALL))
COMMANDS = [command for command in commands() if command.text.startswith("aggserver schema ")]
RUNS = [command.text for command in COMMANDS]

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Runs the command in a folder with the page's files; returns the exit status and what was printed."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def run(*argv: str) -> tuple[int, str, str]:
        code = main(["schema", *argv])
        out, err = capsys.readouterr()
        return code, out, err

    yield run
    sys.modules.pop("shop", None)


@pytest.mark.parametrize("command", COMMANDS, ids=RUNS)
def test_a_command(command: Command, run: Run) -> None:
    code, out, err = run(*shlex.split(command.text)[2:])
    assert (code, err) == (0, "")
    assert out == command.printed


def test_json(run: Run) -> None:
    assert json.loads(run("shop:Site", "-o", "json")[1]) == yaml.safe_load(run("shop:Site")[1])


@pytest.mark.parametrize(
    ("name", "status", "text"),
    [
        ("shop", 2, "aggserver: shop: must be MODULE:TYPE, such as shop:Site\n"),
        ("shop:Nothing", 2, "aggserver: shop:Nothing: shop has no Nothing\n"),
        ("nothing:Site", 2, "aggserver: nothing:Site: there is no module nothing in this folder or on the path\n"),
        ("shop:Port", 2, "aggserver: shop.py:9: Port: has no metadata: write metadata: Metadata as its first field\n"),
        ("shop:FILE", 2, "aggserver: FILE.a: list of what? Give it items\n"),
    ],
)
def test_errors(run: Run, tmp_path: Path, name: str, status: int, text: str) -> None:
    with (tmp_path / "shop.py").open("a") as file:
        file.write("FILE = {'type': 'object', 'properties': {'a': {'type': 'array'}}}\n")
    code, out, err = run(name)
    assert (code, out) == (status, "")
    assert err == text


def test_a_dict_is_a_json_schema(run: Run, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("FILE = {'type': 'object', 'properties': {'a': {'const': 1}}}\n")
    assert yaml.safe_load(run("shop:FILE")[1]) == {"type": "object", "properties": {"a": {"type": "integer", "enum": [1]}}}


def test_an_error_of_the_module_is_the_users(run: Run, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("import not_there_at_all\n")
    with pytest.raises(ModuleNotFoundError, match="not_there_at_all"):
        run("shop:Site")
