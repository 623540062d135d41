"""The sizes of tests: each test is in one of them, and a run tells how far it is, what failed, and what it has left out."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import __main__ as sizes
from tests import records
from tests.progress import Progress

REPOSITORY = Path(__file__).parents[1]
MAKEFILE = (REPOSITORY / "Makefile").read_text()


@pytest.fixture(autouse=True)
def _unlocked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run that these tests are part of has the lock."""
    monkeypatch.setattr(sizes.fcntl, "flock", lambda file, how: None)


@pytest.mark.parametrize(("integration", "long"), list(itertools.product([False, True], repeat=2)))
def test_each_test_is_in_one_size(integration: bool, long: bool) -> None:
    marks = {"integration": integration, "long": long}
    assert [bool(eval(size.selection, {}, marks)) for size in sizes.SIZES.values()].count(True) == 1


def test_ci_runs_all_of_them() -> None:
    assert (REPOSITORY / ".ci" / "run").read_text().splitlines()[-1] == "exec make ci"
    [recipe] = re.findall(r"^ci: \$\(READY\)\n\t@\$\(BIN\)/python -m tests (.*)$", MAKEFILE, re.MULTILINE)
    assert recipe.split() == list(sizes.SIZES)


@pytest.mark.parametrize("name", sizes.SIZES)
def test_each_has_a_target(name: str) -> None:
    assert f"\n{name}: $(READY)\n\t@$(BIN)/python -m tests {name} -- $(ARGS)\n" in MAKEFILE


def test_the_sum_of_several(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Also if the first of them failed."""
    counts = {"test": (1, 10, 2), "long": (0, 5, 0)}
    monkeypatch.setattr(sizes, "_run", lambda name, more: counts[name])
    assert sizes.main(["test", "long"]) == 1
    assert capsys.readouterr().out == "15 passed, 2 failed\n"


@pytest.mark.parametrize("arguments", [[], ["unit"], ["--", "-k", "x"]])
def test_what_is_no_size(arguments: list[str]) -> None:
    with pytest.raises(SystemExit, match="usage"):
        sizes.main(arguments)


def test_a_second_run_waits(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def flock(file: object, how: int) -> None:
        if how & sizes.fcntl.LOCK_NB:
            raise BlockingIOError

    monkeypatch.setattr(sizes.fcntl, "flock", flock)
    monkeypatch.setattr(sizes, "_run", lambda name, more: (0, 1, 0))
    assert sizes.main(["test"]) == 0
    assert capsys.readouterr().out == "other tests are running in this folder: waiting until they have ended\n"


class Reporter:
    """Of pytest's terminal reporter, what Progress uses."""

    def __init__(self, isatty: bool, **stats: list[Any]) -> None:
        self.isatty = isatty
        self.stats = stats
        self.written = ""

    def write(self, text: str, *, flush: bool = False) -> None:
        self.written += text


def report(outcome: str, when: str = "call") -> Any:
    return SimpleNamespace(passed=outcome == "passed", failed=outcome == "failed", when=when, nodeid="tests/test_x.py::test")


def test_the_line_of_progress() -> None:
    reporter, seconds = Reporter(True), iter([0.0, 0.1, 0.5])
    progress = Progress(reporter, None, lambda: next(seconds))  # type: ignore[arg-type]
    progress.pytest_xdist_node_collection_finished(None, ["a", "b", "c"])
    progress.pytest_runtest_logreport(report("passed", "teardown"))
    assert reporter.written == ""
    progress.pytest_runtest_logreport(report("passed", "teardown"))
    assert reporter.written == "\r\x1b[K   0 s: 2 of 3 tests, 0 failed"


def test_in_a_file_lines_are_seldom() -> None:
    reporter, seconds = Reporter(False), iter([0.0, 14.0, 16.0])
    progress = Progress(reporter, None, lambda: next(seconds))  # type: ignore[arg-type]
    for _ in range(2):
        progress.pytest_runtest_logreport(report("passed", "teardown"))
    assert reporter.written == "  16 s: 2 of 0 tests, 0 failed\n"


def test_a_failure_is_told_at_once() -> None:
    reporter = Reporter(False)
    Progress(reporter, None, lambda: 0.0).pytest_runtest_logreport(report("failed"))  # type: ignore[arg-type]
    assert reporter.written == "FAILED tests/test_x.py::test (call)\n"


def test_no_dots() -> None:
    progress = Progress(Reporter(False), None, lambda: 0.0)  # type: ignore[arg-type]
    assert progress.pytest_report_teststatus(report("passed")) == ("passed", "", "")
    assert progress.pytest_report_teststatus(report("passed", "setup")) == ("", "", "")
    assert progress.pytest_report_teststatus(report("failed")) == ("failed", "", "FAILED")
    assert progress.pytest_report_teststatus(report("failed", "setup")) == ("error", "", "ERROR")
    assert progress.pytest_report_teststatus(report("skipped")) is None


def test_errors_count_as_failures(tmp_path: Path) -> None:
    counts = tmp_path / "counts"
    stats = {"passed": [1, 2, 3], "failed": [1], "error": [1]}
    Progress(Reporter(False, **stats), counts, lambda: 0.0).pytest_sessionfinish()  # type: ignore[arg-type]
    assert json.loads(counts.read_text()) == {"passed": 3, "failed": 2}


class TestRecords:
    @pytest.fixture(autouse=True)
    def _afterwards(self) -> Any:
        yield
        records.begin()

    def test_a_log_of_this_test_alone(self, tmp_path: Path) -> None:
        log = tmp_path / "kube-apiserver.log"
        log.write_text("of another test\n")
        records.follow(log)
        records.begin()
        with log.open("a") as file:
            file.write("of this test\n")
        records.exchange("POST", "/api", [("Accept", "x"), ("Authorization", "Bearer y")], b"{}", 201, b"made")
        written = records.write(tmp_path / "failures", "tests/a.py::test[1 2]-call")
        assert written == tmp_path / "failures" / "tests-a.py-test-1-2--call.log"
        expected = "==== requests and answers\n> POST /api (Accept: x)\n{}\n< 201 made\n==== kube-apiserver.log\nof this test\n\n"
        assert written.read_text() == expected

    def test_a_log_that_began_anew(self, tmp_path: Path) -> None:
        log = tmp_path / "etcd.log"
        log.write_text("a long line before the restart\n")
        records.follow(log)
        log.write_text("restarted\n")
        written = records.write(tmp_path / "failures", "t")
        assert written is not None
        assert "restarted" in written.read_text()

    def test_nothing_is_nothing(self, tmp_path: Path) -> None:
        assert records.write(tmp_path / "failures", "t") is None
        assert not (tmp_path / "failures").exists()

    def test_the_last_exchanges(self) -> None:
        for number in range(5):
            records.exchanged(f"asked {number}", "answered")
        assert records.last_exchanges(2) == "> asked 3\n< answered\n> asked 4\n< answered"
