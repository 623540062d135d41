"""The workflows as GitHub would read them, by actionlint: keys, expressions, what a job needs, inputs of known actions."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.workflows.actionlint import build

WORKFLOWS = Path(__file__).parents[2] / ".github" / "workflows"


def test_actionlint_finds_nothing(tmp_path: Path) -> None:
    program = build(os.environ, print)

    def lint(*files: Path) -> subprocess.CompletedProcess[str]:
        # Without shellcheck and pyflakes, which a machine may have or not.
        command = [program, "-shellcheck=", "-pyflakes=", *files]
        return subprocess.run(command, cwd=WORKFLOWS.parents[1], capture_output=True, text=True, check=False)

    done = lint(*sorted(WORKFLOWS.glob("*.yml")))
    assert done.returncode == 0, done.stdout + done.stderr
    wrong = tmp_path / "wrong.yml"
    wrong.write_text((WORKFLOWS / "release.yml").read_text().replace("needs: [packages]", "needs: [package]"))
    assert 'needs job "package" which does not exist' in lint(wrong).stdout
