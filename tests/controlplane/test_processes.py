"""Children end with us. Each test's child holds the writing end of a pipe, so that the end of what can be read is the child's."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.controlplane.processes import Guard, Process, ProcessError, end, free_ports
from tests.waiting import HANG_SECONDS

# Ignores SIGTERM, as kube-apiserver seems to, says that it does, and stays.
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); signal.pause()"

# A run that is killed: starts a guard and a child that inherits the pipe, and kills itself without a word.
KILLED = f"""
import os, pathlib, signal, subprocess, sys
from tests.controlplane.processes import Guard
folder, pipe = pathlib.Path(sys.argv[1]), int(sys.argv[2])
guard = Guard(folder)
command = [sys.executable, "-c", {STUBBORN!r}]
child = subprocess.Popen(command, pass_fds=[pipe], stdout=subprocess.PIPE, start_new_session=True)
child.stdout.readline()
guard.order(f"+{{child.pid}}")
os.kill(os.getpid(), signal.SIGKILL)
"""

REPOSITORY = Path(__file__).parents[2]


def test_a_killed_run_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "plane"
    folder.mkdir()
    reading, writing = os.pipe()
    command = [sys.executable, "-c", KILLED, str(folder), str(writing)]
    run = subprocess.run(command, cwd=REPOSITORY, pass_fds=[writing], check=False)
    assert run.returncode == -signal.SIGKILL
    os.close(writing)
    assert select.select([reading], [], [], 30)[0], "the child is still there"
    assert os.read(reading, 1) == b""
    os.close(reading)


def test_the_guard_removes_the_folder_when_dismissed(tmp_path: Path) -> None:
    folder = tmp_path / "plane"
    folder.mkdir()
    (folder / "file").touch()
    Guard(folder).dismiss()
    assert not folder.exists()


def test_a_stubborn_child_is_killed(tmp_path: Path) -> None:
    guard = Guard(None)
    child = Process("stubborn", [sys.executable, "-c", STUBBORN], tmp_path / "log", os.environ, guard)
    end([child], grace=0.0)
    assert child.wait(0.0)
    guard.dismiss()


def test_a_child_that_ended_is_reported_with_its_log(tmp_path: Path) -> None:
    guard = Guard(None)
    child = Process("brief", [sys.executable, "-c", "raise SystemExit('no such flag')"], tmp_path / "log", os.environ, guard)
    assert child.wait(HANG_SECONDS)
    with pytest.raises(ProcessError, match=r"brief ended with exit code 1; the end of its log:\nno such flag"):
        child.check()
    guard.dismiss()


PORTS = """
import os
from tests.controlplane.processes import free_ports
os.getpid = lambda: {}
print(*free_ports(8), flush=True)
input()
"""


def test_no_port_is_given_twice() -> None:
    """Also not by another run at the same time, which begins to look where this process did."""
    mine = free_ports(8)
    command = [sys.executable, "-c", PORTS.format(os.getpid())]
    with subprocess.Popen(command, cwd=REPOSITORY, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        theirs = [int(port) for port in other.stdout.readline().split()]
        more = free_ports(8)
        other.communicate("\n")
    assert len({*mine, *theirs, *more}) == 24
