"""docs/conversion.md: its commands print what stands below them, and its rules compile."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml

from aggserver.cli import main
from tests.conversion.rules import compiled, findings
from tests.fenced import Command, commands

PAGE = (Path(__file__).parents[1] / "docs" / "conversion.md").read_text()
FILES = dict(re.findall(r"```yaml\n# (\S+)\n(.*?)```", PAGE, re.DOTALL))
COMMANDS = [command for command in commands() if command.text.startswith("aggserver convert ")]
RUNS = [command.text for command in COMMANDS]


@pytest.mark.parametrize("command", COMMANDS, ids=RUNS)
def test_a_command(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(command.text)[1:]) == 0
    assert capsys.readouterr().out == command.printed


def snippet(start: str) -> str:
    """The block of the page that starts so."""
    [text] = re.findall(rf"```yaml\n({start}.*?)```", PAGE, re.DOTALL)
    return str(text)


def test_the_hub() -> None:
    size = "{spec: {type: object, properties: {%s: {type: integer}}}}"
    scaling = "{spec: {type: object, properties: {scaling: {type: object, properties: {replicas: {type: integer}}}}}}"
    versions = {"v1": size % "size", "v2": size % "replicas", "v3": scaling}
    assert findings(snippet("hub: v2"), versions) == []


def test_the_expressions() -> None:
    changes = yaml.safe_load(snippet("changes:"))["changes"]
    rules = {"conversions": [{"from": "v1", "to": "v2", "changes": changes}, {"from": "v2", "to": "v1"}]}
    retry = "retry: {type: object, properties: {count: {type: integer}}}"
    old = f"url: {{type: string, maxLength: 100}}, timeoutSeconds: {{type: integer}}, {retry}"
    new = "scheme: {type: string}, timeout: {type: integer}, retries: {type: integer}"
    versions = {"v1": f"{{{old}}}", "v2": f"{{{new}}}"}
    compiled(json.dumps(rules), versions)
    # Nothing fails, also where fields are absent.
    assert not any("fails" in finding for finding in findings(json.dumps(rules), versions))


def test_the_strategy_of_files() -> None:
    rules = yaml.safe_load(snippet("spec:\n  conversion:"))["spec"]["conversion"]["rules"]
    spec = "{spec: {type: object, properties: {%s}}}"
    versions = {
        "v1beta1": spec % "replicas: {type: integer}",
        "v1": spec % "scaling: {type: object, properties: {size: {type: integer}}}",
    }
    assert findings(json.dumps(rules), versions) == []
