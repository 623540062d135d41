"""docs/python.md: the tutorial shows what it says, with the kubectl of the control plane."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.command import REPOSITORY
from tests.controlplane.cluster import Cluster
from tests.test_python_page import PAGE, README, write_programs
from tests.waiting import HANG_SECONDS

# As the pages have it.
RUNS = ["aggserver dev --app hello:app -- kubectl get greetings -A"]


def dev(cluster: Cluster, folder: Path, app: str, *command: str) -> subprocess.CompletedProcess[str]:
    path = f"{cluster.program.parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        [sys.executable, "-m", "aggserver", "dev", "--app", app, "--", *command],
        cwd=write_programs(folder),
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )


def test_the_tutorial(control_plane: Cluster, tmp_path: Path) -> None:
    block = re.search(r"```console\n\$ aggserver dev --app hello:app -- (.*?)\n(.*?)```", PAGE, re.DOTALL)
    assert block is not None
    assert RUNS[0] in README
    done = dev(control_plane, tmp_path, "hello:app", *block[1].split())
    assert [line.split() for line in done.stdout.splitlines()] == [line.split() for line in block[2].splitlines()]


def test_the_second_part_of_the_tutorial(control_plane: Cluster, tmp_path: Path) -> None:
    block = re.search(r"```bash\naggserver dev --app desk:app -- sh -c '\n(.*?)'\n```", PAGE, re.DOTALL)
    assert block is not None
    done = dev(control_plane, tmp_path, "desk:app", "sh", "-c", block[1])
    assert done.returncode == 0, done.stderr
    refused = 'The Ticket "t2" is invalid: state: Unsupported value: "odd": supported values: "open", "closed"'
    assert refused in done.stderr
    assert "t1     open    No coffee" in done.stdout
    assert "ticket.helpdesk.example.com/t2 created\nticket.helpdesk.example.com/t2 patched" in done.stdout
    assert "ticket.helpdesk.example.com/t2 condition met" in done.stdout
    assert "t2     closed   Slow" in done.stdout
    assert 'ticket.helpdesk.example.com "t1" deleted' in done.stdout
