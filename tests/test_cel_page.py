"""docs/cel.md: its commands print what stands below them, and so does its program."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from aggserver.cli import main

REPOSITORY = Path(__file__).parents[1]
PAGE = (REPOSITORY / "docs" / "cel.md").read_text()
FILES = dict(re.findall(r"```yaml\n# (\S+)\n(.*?)```", PAGE, re.DOTALL))
COMMANDS = re.findall(r"```console\n\$ aggserver (.*?)\n(.*?)```", PAGE, re.DOTALL)
[(PROGRAM, PRINTED)] = re.findall(r"```python\n(.*?)```\n\nprints\n\n```text\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("command", "printed"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_a_command(
    command: str, printed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    main(shlex.split(command))
    assert capsys.readouterr().out == printed


def test_the_program() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, cwd=REPOSITORY, check=True, timeout=60)
    assert done.stdout == PRINTED
