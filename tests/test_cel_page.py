"""docs/cel.md: its commands print what stands below them, and so does its program. README.md has one command more."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from aggserver.cli import main
from tests.fenced import Command, commands
from tests.waiting import HANG_SECONDS

REPOSITORY = Path(__file__).parents[1]
PAGE = (REPOSITORY / "docs" / "cel.md").read_text()
FILES = dict(re.findall(r"```yaml\n# (\S+)\n(.*?)```", PAGE, re.DOTALL))
COMMANDS = [command for command in commands() if command.text.startswith("aggserver cel ")]
RUNS = [command.text for command in COMMANDS]
# What README.md's command is given, which shows no files.
README_FILES = {
    "crd.yaml": """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: fleets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: fleets, kind: Fleet}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {replicas: {type: integer}, maxReplicas: {type: integer}}}
""",
    "my.yaml": "{apiVersion: example.com/v1, kind: Fleet, metadata: {name: a}, spec: {replicas: 1, maxReplicas: 3}}",
}
[(PROGRAM, PRINTED)] = re.findall(r"```python\n(.*?)```\n\nprints\n\n```text\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("command", COMMANDS, ids=RUNS)
def test_a_command(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in (FILES | README_FILES).items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    main(shlex.split(command.text)[1:])
    assert capsys.readouterr().out == command.printed


def test_the_program() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, cwd=REPOSITORY, check=True, timeout=HANG_SECONDS
    )
    assert done.stdout == PRINTED
