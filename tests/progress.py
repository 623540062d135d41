"""What a run of the tests shows: one line while it works, each failure at once, and one count at the end.

A plugin of pytest, which tests/conftest.py registers. At a terminal the line is written again and again; elsewhere, as in CI, a
new one is written every quarter of a minute, so that a run that hangs can be told from one that works.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# Seconds between two writings of the line.
_AT_A_TERMINAL, _ELSEWHERE = 0.2, 15.0


class Progress:
    """counts: a file that gets `{"passed": N, "failed": N}` at the end, or None. clock: seconds."""

    def __init__(
        self, reporter: pytest.TerminalReporter, counts: Path | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._reporter = reporter
        self._counts = counts
        self._at_a_terminal = reporter.isatty
        self._clock = clock
        self._began = self._said = clock()
        self._total = self._done = self._failed = 0

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._total = max(self._total, len(session.items))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        """Of pytest-xdist: every worker has collected the same tests."""
        del node
        self._total = len(ids)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.CollectReport | pytest.TestReport) -> tuple[str, str, str] | None:
        """No dots: the line tells how many have passed, and a failure has a line of its own."""
        if report.passed:
            return ("passed" if report.when == "call" else ""), "", ""
        if report.failed:
            return ("failed", "", "FAILED") if report.when == "call" else ("error", "", "ERROR")
        return None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed += 1
            self._write(f"FAILED {report.nodeid} ({report.when})\n")
        if report.when == "teardown":
            self._done += 1
            now = self._clock()
            if now - self._said >= (_AT_A_TERMINAL if self._at_a_terminal else _ELSEWHERE):
                self._said = now
                line = f"{now - self._began:4.0f} s: {self._done:,} of {self._total:,} tests, {self._failed} failed"
                self._write(line if self._at_a_terminal else f"{line}\n")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        self._write("")
        if self._counts is not None:
            stats = self._reporter.stats
            failed = len(stats.get("failed", ())) + len(stats.get("error", ()))
            self._counts.write_text(json.dumps({"passed": len(stats.get("passed", ())), "failed": failed}))

    def _write(self, text: str) -> None:
        """In the place of the line that a terminal shows."""
        start = "\r\x1b[K" if self._at_a_terminal else ""
        self._reporter.write(start + text, flush=True)
