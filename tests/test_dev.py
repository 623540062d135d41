"""`aggserver dev` as a process: what it prints and leaves behind, the command it runs, the parent it follows, what it imports."""

from __future__ import annotations

import base64
import functools
import json
import os
import re
import shlex
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.command import REPOSITORY, run
from tests.integration.server import Standalone, eventually, running
from tests.test_cli import DEFINITION
from tests.waiting import HANG_SECONDS

GOOD = DEFINITION.replace("wrong.name", "things.example.com")


dev = functools.partial(run, "dev")


# --- what keeps it from starting ---


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_a_port_in_use(tmp_path: Path, taken: int) -> None:
    done = dev("--secure-port", str(taken), cwd=tmp_path)
    why = f"port {taken} is in use: --secure-port 0 takes a free port, --secure-port PORT another"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"aggserver: can't listen on 127.0.0.1: {why}\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("data", "why"),
    [("file", "it is no folder"), ("file/below", "Not a directory"), ("a blank/below/file", "it is no folder")],
)
def test_a_folder_that_cannot_be_made(tmp_path: Path, data: str, why: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "a blank" / "below").mkdir(parents=True)
    (tmp_path / "a blank" / "below" / "file").touch()
    done = dev("--data", data, "--secure-port", "0", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr == f"aggserver: --data {shlex.quote(data)}: the folder can't be made or used: {why}\n"


def test_an_address_of_others(tmp_path: Path) -> None:
    done = dev("--bind-address", "192.0.2.1", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (
        1,
        "aggserver: can't listen on 192.0.2.1: 192.0.2.1 is no address of this machine: --bind-address IP takes another\n",
    )


def test_a_file_that_is_no_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("just text")
    done = dev("--kubeconfig", "config", "--secure-port", "0", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "aggserver: config: not a kubeconfig; left unchanged\n")
    assert [file.name for file in tmp_path.iterdir()] == ["config"]


def test_a_kubeconfig_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = dev("--kubeconfig", "file/config", "--", "true", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "aggserver: file/config: Not a directory\n")


# --- what it prints and leaves ---


def test_paths_with_blanks(tmp_path: Path) -> None:
    folder = tmp_path / "my data's"
    with running(server := Standalone(folder)):
        quoted = shlex.quote(str(folder / "kubeconfig"))
        assert f"(data: {shlex.quote(str(folder))}). Next: export KUBECONFIG={quoted}; kubectl api-resources" in server.output
    assert (folder / ".gitignore").read_text() == "*\n"
    assert stat.S_IMODE((folder / "kubeconfig").stat().st_mode) == 0o600


def test_a_folder_with_something_in_it_gets_no_gitignore(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "README").touch()
    with running(Standalone(folder)):
        pass
    assert not (folder / ".gitignore").exists()


def test_the_kubeconfig_is_added_to_others(tmp_path: Path) -> None:
    config = tmp_path / "my config"
    config.write_text("users: [{name: me, user: {token: t}}]\ncurrent-context: mine\n")
    with running(server := Standalone(tmp_path / "data", "--kubeconfig", str(config))):
        assert f"export KUBECONFIG={shlex.quote(str(config))}; kubectl" in server.output
        own, tree = yaml.safe_load(server.kubeconfig.read_text()), yaml.safe_load(config.read_text())
    assert tree["users"] == [{"name": "me", "user": {"token": "t"}}, *own["users"]]
    assert tree["current-context"] == "aggserver"
    assert base64.b64decode(own["users"][0]["user"]["client-key-data"]).startswith(b"-----BEGIN EC PRIVATE KEY-----")


def test_colours_are_for_terminals(tmp_path: Path) -> None:
    """Those of the log, which goes to the standard error."""
    for variables, coloured in (
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
    ):
        assert ("\x1b[" in _on_a_terminal(tmp_path, variables)) is coloured
    assert "\x1b[" not in dev("--log-level", "info", "--", "true", cwd=tmp_path, environment={"TERM": "xterm"}).stderr


def _on_a_terminal(folder: Path, variables: dict[str, str]) -> str:
    """The standard error of a short run."""
    main, terminal = os.openpty()
    try:
        subprocess.run(
            [sys.executable, "-m", "aggserver", "dev", "--log-level", "info", "--", "true"],
            stderr=terminal,
            stdout=subprocess.DEVNULL,
            cwd=folder,
            env={"PYTHONPATH": str(REPOSITORY), "PATH": os.environ["PATH"], **variables},
            check=True,
            timeout=HANG_SECONDS,
        )
        return os.read(main, 65536).decode()
    finally:
        os.close(main)
        os.close(terminal)


# --- a command ---


STATUSES = {
    # name: (the command, the exit status, what aggserver says)
    "done": (["true"], 0, ""),
    "its own": (["sh", "-c", "exit 7"], 7, ""),
    "by a signal": (["sh", "-c", "kill -9 $$"], 137, ""),
    "no such command": (["no-such-command"], 127, "aggserver: no-such-command: no such command\n"),
    "no program": (["/"], 126, "aggserver: /: Permission denied\n"),
}


@pytest.mark.parametrize(("command", "status", "said"), STATUSES.values(), ids=STATUSES)
def test_exit_status_of_a_command(tmp_path: Path, command: list[str], status: int, said: str) -> None:
    done = dev("--", *command, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", said)
    assert list(tmp_path.iterdir()) == []


def test_a_command_has_the_server_and_the_standard_streams(tmp_path: Path) -> None:
    """Nothing of ours is in its output, and its input is not taken."""
    program = "import os, sys; print(open(os.environ['KUBECONFIG']).read()); print(sys.stdin.read(), file=sys.stderr)"
    done = dev("-f", "-", "--secure-port", "0", "--", sys.executable, "-c", program, cwd=tmp_path, input=GOOD)
    assert (done.returncode, done.stderr) == (0, "\n")  # -f - has read it all
    config = yaml.safe_load(done.stdout)
    assert re.fullmatch(r"https://127\.0\.0\.1:[1-9]\d+", config["clusters"][0]["cluster"]["server"])
    done = dev("--", "cat", cwd=tmp_path, input="to the command")
    assert (done.stdout, done.stderr) == ("to the command", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_are_for_the_command(tmp_path: Path, number: signal.Signals) -> None:
    """Which may end as it likes, and the server with it."""
    names = ("SIGTERM", "SIGINT", "SIGHUP")
    traps = f"for n in {names}: signal.signal(getattr(signal, n), lambda got, _: os._exit(got + 40))"
    program = f"import os, signal, time\n{traps}\nprint('ready', flush=True)\ntime.sleep(60)"
    with subprocess.Popen(
        [sys.executable, "-m", "aggserver", "dev", "--", sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(REPOSITORY)},
        start_new_session=True,
    ) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        server.send_signal(number)
        assert server.wait(timeout=HANG_SECONDS) == number + 40
        assert server.stdout.read() == ""


# --- a parent ---


def test_it_ends_with_its_parent_where_asked(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "aggserver", "dev", "--data", "d", "--secure-port", "0", "--exit-with-parent"]
    parent = f"""
import subprocess, sys
server = subprocess.Popen({command!r}, stdout=subprocess.PIPE, text=True)
print(server.pid, server.stdout.readline(), flush=True)
sys.stdin.read()
"""
    environment = {"PYTHONPATH": str(REPOSITORY)}
    with subprocess.Popen(
        [sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path, env=environment, text=True
    ) as process:
        assert process.stdout is not None
        pid, _, said = process.stdout.readline().partition(" ")
        assert said.startswith("aggserver serves https://")
        process.kill()
    eventually(lambda: not _is_alive(int(pid)), "the server ends too")


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # An orphan whose new parent asks for no statuses stays as a zombie.
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.startswith("Z")


# --- what is imported ---


# Nothing of these is needed before a request asks for it: rules, other clusters, what talks to them, other storages.
NOT_AT_START = (
    *("aggserver.cel", "aggserver.schema.compiled_rules", "aggserver.schema.rule_validation", "aggserver.schema.rule_costs"),
    *("aggserver.storage.etcd", "aggserver.standalone.download", "aggserver.controllers.pods.runner"),
    *("aggserver.kinds.services", "aggserver.controllers.network", "aggserver.controllers.pod_index"),
    *("aggserver.controllers.workloads.controller", "aggserver.controllers.cron_jobs.controller", "aggserver.kinds.schedules"),
    *("aggserver.controllers.disruption", "aggserver.controllers.volumes"),
    *("aggserver.authorization.rbac", "aggserver.authorization.bootstrap"),
    *("aggserver.authentication.account_tokens", "aggserver.authentication.jws", "aggserver.standalone.tokens"),
    *("aiohttp", "grpc", "kubernetes", "opentelemetry"),
)
# What prints a text and ends asks no library for help.
NOT_FOR_A_TEXT = (
    *NOT_AT_START,
    "asyncio",
    "cryptography",
    "hypercorn",
    "orjson",
    "prometheus_client",
    "ssl",
    "starlette",
    "yaml",
)

_MODULES = """
import json, sys
from aggserver.cli import main
try:
    main(sys.argv[2:])
except SystemExit:
    pass
regexp = sys.modules.get("aggserver.meta.regexp")
patterns = regexp.matcher.cache_info().currsize if regexp else 0
with open(sys.argv[1], "w") as file:
    json.dump({"modules": sorted(sys.modules), "patterns": patterns}, file)
"""


def _imported(folder: Path, *arguments: str) -> tuple[set[str], int]:
    """The modules that are there when `aggserver` with these arguments has ended; how many of Go's patterns were compiled."""
    file = folder / "modules.json"
    done = subprocess.run(
        [sys.executable, "-c", _MODULES, str(file), *arguments],
        cwd=folder,
        env={"PYTHONPATH": str(REPOSITORY), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_text())
    return set(found["modules"]), found["patterns"]


def test_a_start_imports_what_it_needs(tmp_path: Path) -> None:
    """With a new folder and a definition without rules, and with what that has left."""
    (tmp_path / "crd.yaml").write_text(GOOD)
    for more in (["-f", "crd.yaml"], []):
        modules, patterns = _imported(tmp_path, "dev", "--data", "d", *more, "--", "true")
        assert "aggserver.app.standalone" in modules
        assert modules.isdisjoint(NOT_AT_START)
        assert patterns <= 1  # the empty one, which a definition without patterns has


@pytest.mark.parametrize("arguments", [[], ["--help"], ["--version"], ["dev", "--help"], ["completion", "bash"]])
def test_a_text_needs_no_library(tmp_path: Path, arguments: list[str]) -> None:
    modules, _ = _imported(tmp_path, *arguments)
    assert modules.isdisjoint(NOT_FOR_A_TEXT)
