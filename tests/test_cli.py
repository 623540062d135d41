"""The command line, as a child process: what it prints and how it ends."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import aggserver
from aggserver import cli
from aggserver.meta import codec
from aggserver.options import OptionsError
from aggserver.storage.interface import Unavailable
from tests.command import REPOSITORY, run
from tests.waiting import HANG_SECONDS

DEFINITION = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: wrong.name}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: things, kind: Thing}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
"""

# What rules may have with options alone: labels, and a cost above the limit.
BEYOND = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {plural: things, kind: Thing}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        x-kubernetes-validations:
        - rule: has(self.metadata.labels) && self.metadata.labels.all(a, self.metadata.labels.all(b, a == b))
          message: labels are needed
        properties: {list: {type: array, items: {type: string}}}
---
{apiVersion: example.com/v1, kind: Thing, metadata: {name: one}}
"""


def test_version(tmp_path: Path) -> None:
    done = run("version", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"aggserver {aggserver.__version__}\n")


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        pytest.param(["dev", "--secure-port", "x"], 2, "secure-port", id="option"),
        pytest.param(["dev", "--nonsense"], 2, "nonsense", id="unknown-option"),
        pytest.param(
            ["dev", "-f", "missing.yaml", "--data", ":memory:"], 1, "missing.yaml: No such file or directory", id="missing-file"
        ),
        pytest.param(["dev", "-f", "broken.yaml", "--data", ":memory:"], 1, "broken.yaml: ", id="broken-file"),
        pytest.param(["dev", "-f", "text.yaml", "--data", ":memory:"], 1, "text.yaml: ", id="no-object"),
        pytest.param(
            ["dev", "-f", "definition.yaml", "--data", ":memory:", "--secure-port", "0"],
            1,
            'must be spec.names.plural+"."+spec.group',
            id="refused-object",
        ),
        pytest.param(["dev", "--data", "file", "--secure-port", "0"], 1, "file", id="data-is-a-file"),
    ],
)
def test_errors_are_one_line(tmp_path: Path, arguments: list[str], status: int, text: str) -> None:
    (tmp_path / "broken.yaml").write_text("a: [1\n")
    (tmp_path / "text.yaml").write_text("just text\n")
    (tmp_path / "definition.yaml").write_text(DEFINITION)
    (tmp_path / "file").write_text("")
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == status, done.stderr
    assert text in done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("aggserver: ")
    assert "Traceback" not in done.stderr


def test_the_error_that_ends_a_server_of_a_cluster_is_in_its_log(tmp_path: Path) -> None:
    done = run("serve", "--kubeconfig", "none", "--data", "d", cwd=tmp_path)
    *_, last = done.stderr.splitlines()
    assert done.returncode == 1
    assert re.fullmatch(r"\d{4}-\d\d-\d\d [\d:]{8},\d{3} CRITICAL aggserver\.cli: no kubeconfig at none.*", last), done.stderr


def test_a_bug_in_a_server_of_a_cluster_is_raised(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(_: object) -> int:
        raise KeyError("spec")

    monkeypatch.setattr(cli, "_serve", fail)
    monkeypatch.setattr("aggserver.app.logs.log_to", lambda *_, **__: None)
    with pytest.raises(KeyError):
        cli.main(["serve", "--data", str(tmp_path)])


ENDS: dict[str, tuple[Exception, int | None]] = {
    "what a person can mend": (Unavailable("the store is gone"), 1),
    "wrong input": (OptionsError("the store is gone"), 2),
    "in a group": (ExceptionGroup("tasks", [ExceptionGroup("tasks", [Unavailable("the store is gone")])]), 1),
    "two at once": (ExceptionGroup("tasks", [Unavailable("one"), Unavailable("two")]), None),
    "a bug": (KeyError("spec"), None),
    "a bug that the system refuses": (BlockingIOError(11, "Resource temporarily unavailable"), None),
    "a parser's error that nobody placed": (codec.DecodeError("line 1"), None),
}


@pytest.mark.parametrize(("error", "status"), ENDS.values(), ids=ENDS)
def test_only_what_a_person_can_mend_is_told_in_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, status: int | None
) -> None:
    """All else is a bug and ends with its traceback."""

    def fail(*_: object) -> int:
        raise error

    monkeypatch.setattr(cli, "_run", fail)
    if status is None:
        with pytest.raises(type(error)):
            cli.main([])
        return
    assert cli.main([]) == status
    assert capsys.readouterr().err == "aggserver: the store is gone\n"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        pytest.param([], "undefined field 'labels'", id="none"),
        pytest.param(["--rules-see-labels"], "estimated rule cost exceeds budget by factor of", id="labels"),
        pytest.param(["--rules-see-labels", "--rules-budget", "100000"], "labels are needed", id="budget"),
    ],
)
def test_options_of_rules(tmp_path: Path, options: list[str], text: str) -> None:
    """They reach those who check definitions and those who check objects."""
    (tmp_path / "beyond.yaml").write_text(BEYOND)
    done = run("dev", "-f", "beyond.yaml", "--data", ":memory:", "--secure-port", "0", *options, cwd=tmp_path)
    assert done.returncode == 1
    assert text in done.stderr


def test_etcd_without_its_library(tmp_path: Path) -> None:
    """What an installation without the extra says."""
    hidden = "import sys; sys.modules['grpc'] = None; from aggserver.cli import main; sys.exit(main())"
    arguments = ["dev", "--data", ":memory:", "--storage", "etcd", "--etcd-servers", "http://127.0.0.1:1"]
    command = [sys.executable, "-c", hidden, *arguments]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        cwd=tmp_path,
        env={"PYTHONPATH": str(REPOSITORY)},
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "aggserver: --storage etcd needs grpc: pip install 'aggserver[etcd]'\n")


def test_a_reader_that_has_enough() -> None:
    """As `aggserver completion bash | head -1`: no traceback."""
    command = [sys.executable, "-m", "aggserver", "completion", "bash"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
        assert (process.wait(HANG_SECONDS), said) == (141, "")
