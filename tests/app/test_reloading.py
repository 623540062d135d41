"""`aggserver dev --reload`: a new process after each change, and the old one as long as the files have errors."""

from __future__ import annotations

import json
import os
import re
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aggserver.app.reloading import changed_files, stamps
from aggserver.testing.api import Api
from tests.command import REPOSITORY, run
from tests.integration.server import eventually
from tests.waiting import HANG_SECONDS

RUNS = ["aggserver dev --app helpdesk:app --reload"]

APP = """
from dataclasses import dataclass
from aggserver import App, Metadata
{imports}

@dataclass
class Greeting:
    metadata: Metadata
    text: str = "hello"

app = App()
app.virtual("demo.example.com/v1", Greeting).list(lambda request: [Greeting(Metadata("world", "default"), {text})])
"""


def test_what_has_changed(tmp_path: Path) -> None:
    one, two = str(tmp_path / "one.py"), str(tmp_path / "two.py")
    Path(one).write_text("1")
    before = stamps([one, two])
    assert changed_files(before, stamps([one, two])) == []
    Path(two).write_text("2")
    os.utime(one, ns=(5, 5))
    now = stamps([one, two])
    assert changed_files(before, now) == [one, two]
    Path(one).unlink()
    assert changed_files(now, stamps([one, two])) == [one]


class Reloading:
    """The command in a folder with helpdesk.py, whose output goes to a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"
        self._offset = 0
        arguments = [*RUNS[0].split()[1:], "--secure-port", "0", "--log-level", "warning"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "aggserver", *arguments],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_for(self, pattern: str) -> re.Match[str]:
        """The next place in the output that matches."""

        def found() -> re.Match[str] | None:
            assert self.process.poll() is None, self.log.read_text()
            return re.compile(pattern).search(self.log.read_text(), self._offset)

        match = eventually(found, f"{pattern!r} in the output")
        self._offset = match.end()
        return match

    def write(self, text: str, imports: str = "", more: str = "") -> None:
        (self.folder / "helpdesk.py").write_text(APP.format(text=text, imports=imports) + more)


@pytest.fixture
def reloading(tmp_path: Path) -> Iterator[Reloading]:
    (tmp_path / "helpdesk.py").write_text(APP.format(text="'first'", imports=""))
    command = Reloading(tmp_path)
    yield command
    if command.process.poll() is None:
        os.killpg(command.process.pid, signal.SIGKILL)
        command.process.wait()


def test_from_change_to_change(reloading: Reloading) -> None:
    url = reloading.wait_for(r"aggserver serves (https://\S+) \(data: \.aggserver\)")[1]
    kubeconfig = reloading.folder / ".aggserver" / "kubeconfig"
    api = Api(url, kubeconfig, reloading.folder)
    tls = ssl.create_default_context(cafile=str(api.ca_file))
    tls.load_cert_chain(api.certificate_file, api.key_file)

    def get(path: str) -> Any:
        # No answer may be missing: connections wait while one process follows the other.
        with urllib.request.urlopen(f"{url}{path}", context=tls, timeout=HANG_SECONDS) as answer:
            return json.load(answer)

    def text() -> str:
        [greeting] = get("/apis/demo.example.com/v1/greetings")["items"]
        said: str = greeting["text"]
        return said

    assert text() == "first"
    made = api.create_namespace("kept")

    reloading.write("'second'")
    reloading.wait_for("aggserver serves helpdesk:app again: helpdesk.py changed")
    assert text() == "second"
    assert get(f"/api/v1/namespaces/{made}")["metadata"]["name"] == made
    assert f"server: {url}\n" in kubeconfig.read_text()

    reloading.write("'third")
    reloading.wait_for(r"helpdesk:app: its import failed:\n(?s:.*?)SyntaxError: unterminated string literal")
    reloading.wait_for("the server from before that goes on")
    assert text() == "second"

    reloading.write("helper.TEXT", "import helper")
    reloading.wait_for("No module named 'helper'")
    assert text() == "second"
    (reloading.folder / "helper.py").write_text("TEXT = 'helped'")
    reloading.wait_for("again: helper.py changed")
    assert text() == "helped"
    (reloading.folder / "helper.py").write_text("TEXT = 'better'")
    reloading.wait_for("again: helper.py changed")
    assert text() == "better"

    reloading.write("'x'", "App().virtual('demo.example.com/v1', int)")
    reloading.wait_for("the server from before that goes on")
    reloading.write("'x'", more="app.virtual('demo.example.com/v2', Greeting, plural='others')")
    reloading.wait_for("helpdesk.py:[0-9]+: others.demo.example.com has neither a list nor a get function")
    assert text() == "better"

    reloading.process.send_signal(signal.SIGTERM)
    assert reloading.process.wait(HANG_SECONDS) == 0
    with pytest.raises(urllib.error.URLError):
        get("/version")
    with pytest.raises(ProcessLookupError):
        os.killpg(reloading.process.pid, 0)


def test_a_first_import_that_fails_waits_for_a_change(tmp_path: Path) -> None:
    (tmp_path / "helpdesk.py").write_text("import nothing_of_that_name")
    command = Reloading(tmp_path)
    try:
        command.wait_for("No module named 'nothing_of_that_name'\naggserver: waiting for a change")
        command.write("'good'")
        command.wait_for("aggserver serves helpdesk:app again: helpdesk.py changed")
        os.kill(command.process.pid, signal.SIGKILL)
        command.process.wait()
        eventually(lambda: not _lives(command.process.pid), "the end of the worker of a killed supervisor")
    finally:
        if _lives(command.process.pid):
            os.killpg(command.process.pid, signal.SIGKILL)


def _lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--reload"], "--reload has no meaning without --app"),
        (["--reload", "--app", "a:b", "--", "true"], "--reload has no meaning with -- COMMAND, for which the server runs once"),
        (["--reload", "--app", "a:b", "-f", "-"], "--reload: -f - can't be read again"),
    ],
)
def test_where_it_has_no_meaning(tmp_path: Path, arguments: list[str], why: str) -> None:
    done = run("dev", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, f"aggserver: {why}\n")
