"""Completion: the script of bash as bash runs it, and of the others that they name what there is."""

from __future__ import annotations

import shlex
import shutil
import subprocess

import pytest

from aggserver.options.commands import COMMANDS
from aggserver.options.completion import script
from aggserver.options.table import FLAGS
from tests.waiting import HANG_SECONDS

# Runs the function as the shell does at a key press: the last argument is the word before the cursor.
_PRESS = """
source /dev/stdin <<< "$SCRIPT"
compopt() { printf 'compopt %s\\n' "$*"; }
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
_aggserver
printf '%s\\n' "${COMPREPLY[@]}"
"""


def press(*words: str) -> list[str]:
    bash = shutil.which("bash")
    assert bash is not None
    done = subprocess.run(
        [bash, "-c", _PRESS, "bash", *words],
        capture_output=True,
        text=True,
        check=True,
        timeout=HANG_SECONDS,
        env={"SCRIPT": script("bash"), "PATH": "/usr/bin:/bin"},
    )
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if line and line != "compopt -o nosort"]


COMPLETED = {
    # words up to the cursor: what is offered
    ("aggserver", "c"): ["cel", "convert", "completion"],
    ("aggserver", "--v"): ["--version"],
    ("aggserver", "storage", ""): ["check", "backup", "restore", "migrate", "compact", "--help"],
    ("aggserver", "storage", "check", "--d"): ["--data"],
    ("aggserver", "adopt", ""): ["plan", "status", "release", "cleanup", "--help"],
    ("aggserver", "adopt", "release", "--t"): ["--through-api", "--timeout"],
    ("aggserver", "dev", "--ku"): ["--kubeconfig"],
    ("aggserver", "dev", "u"): ["user"],
    ("aggserver", "dev", "user", "--"): ["--kubeconfig", "--server", "--data", "--group", "--config", "--help"],
    ("aggserver", "dev", "user", "alice", "--kubeconfig", ""): ["compopt -o default"],
    ("aggserver", "serve", "--authentication-k"): ["--authentication-kubeconfig"],
    ("aggserver", "dev", "--authentication-k"): [],
    ("aggserver", "dev", "--storage", ""): ["sqlite", "etcd"],
    ("aggserver", "dev", "--storage", "=", "e"): ["etcd"],
    ("aggserver", "dev", "--storage", "="): ["sqlite", "etcd"],
    ("aggserver", "dev", "--exit-with-parent", "--data"): ["--data"],
    ("aggserver", "cel", "-o", "j"): ["json"],
    ("aggserver", "completion", ""): ["bash", "zsh", "fish", "--help"],
    ("aggserver", "dev", "-f", ""): ["compopt -o default"],
    ("aggserver", "dev", "--data", "/us"): ["compopt -o filenames", "/usr"],
    ("aggserver", "dev", "--secure-port", ""): [],
    ("aggserver", "dev", "--data", "x", "--", "py"): ["compopt -o default"],
}


@pytest.mark.parametrize(("words", "offered"), COMPLETED.items(), ids=[" ".join(words) for words in COMPLETED])
def test_bash(words: tuple[str, ...], offered: list[str]) -> None:
    assert press(*words) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_all_is_named(shell: str) -> None:
    text = script(shell)
    for command in COMMANDS:
        assert command.rpartition(" ")[2] in text
    for flag in FLAGS.values():
        if not flag.positional:
            assert (f"-l {flag.name} " if shell == "fish" else f"--{flag.name}") in text


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_its_syntax(shell: str) -> None:
    """By the shell itself where it is there; its quotes are those of a shell everywhere."""
    text = script(shell)
    if program := shutil.which(shell):
        subprocess.run([program, "-n"], input=text, text=True, check=True, timeout=HANG_SECONDS)
    if shell == "fish":
        assert all(shlex.split(line.replace("\\'", "")) for line in text.splitlines())
