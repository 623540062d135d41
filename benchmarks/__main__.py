"""`python -m benchmarks`: measure aggserver against kube-apiserver and print the table; see docs/benchmarks.md.

A whole run takes about ten minutes, `--quick` two. It wants a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.chart import svg
from benchmarks.client import LoadError
from benchmarks.report import BASELINE, MEASURED, document, rows, with_figures
from benchmarks.run import RESULTS, Options, measure, write
from benchmarks.workloads import OBJECTS, WORKLOADS, chosen
from tests.controlplane.binaries import BinariesError
from tests.controlplane.processes import ProcessError
from tests.controlplane.toolchain import ToolchainError

DOCS = Path(__file__).parents[1] / "docs"
PAGE, CHART = DOCS / "benchmarks.md", DOCS / "benchmarks.svg"

# client-go keeps one connection for each server and process; the workloads stand for several processes (benchmarks/load/main.go).
CONNECTIONS = 4


def main(arguments: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.write_docs and (options.quick or options.only):
        parser.error("the documents are for whole runs of both servers")
    if options.profile and options.only != MEASURED:
        parser.error(f"--profile slows {MEASURED} down, and goes with --only {MEASURED}")
    try:
        report = json.loads(options.report.read_text()) if options.report else _measure(options)
    except (LoadError, ProcessError, BinariesError, ToolchainError) as error:
        print(f"no result: {error}", file=sys.stderr)
        return 1
    print(document(report))
    if options.write_docs:
        _write_docs(report)
    return 1 if report["failed"] else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="aggserver against kube-apiserver under the same load."
    )
    names = [workload.name for workload in WORKLOADS]
    parser.add_argument(
        "--workloads", nargs="+", choices=names, default=[], metavar="NAME", help=f"only these of {', '.join(names)}"
    )
    parser.add_argument("--objects", type=int, help=f"objects that are there before anything is measured (default {OBJECTS})")
    parser.add_argument("--rounds", type=int, help="how often the two take turns at each workload (default 2); medians count")
    parser.add_argument("--quick", action="store_true", help="a fifth of everything in one round: to see that it works")
    parser.add_argument("--http1", action="store_true", help="speak HTTP/1.1 rather than HTTP/2, which client-go prefers")
    parser.add_argument("--only", choices=[BASELINE, MEASURED], help="measure one server alone")
    parser.add_argument(
        "--profile", type=Path, metavar="FILE", help=f"run {MEASURED} under cProfile, which writes FILE at the end"
    )
    parser.add_argument("--write-docs", action="store_true", help=f"put table and chart into {PAGE.name} and {CHART.name}")
    parser.add_argument("--report", type=Path, metavar="FILE", help="measure nothing, take the results of an earlier run")
    return parser


def _measure(options: argparse.Namespace) -> dict[str, Any]:
    quick = options.quick
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:5.0f} s  {text}", file=sys.stderr, flush=True)

    plan = Options(
        workloads=chosen(options.workloads, quick=quick),
        objects=options.objects or (OBJECTS // 5 if quick else OBJECTS),
        rounds=options.rounds or (1 if quick else 2),
        seconds=2.0 if quick else 6.0,
        connections=CONNECTIONS,
        http1=options.http1,
        quick=quick,
        profile=options.profile,
        servers=[options.only] if options.only else [BASELINE, MEASURED],
    )
    report = measure(plan, say)
    path = RESULTS / f"{datetime.datetime.now(datetime.UTC):%Y%m%dT%H%M%SZ}.json"
    write(report, path)
    say(f"results are in {path}")
    return report


def _write_docs(report: dict[str, Any]) -> None:
    figures = f"![How many times better than kube-apiserver]({CHART.name})\n\n{document(report)}"
    PAGE.write_text(with_figures(PAGE.read_text(), figures))
    CHART.write_text(svg(rows(report), f"commit {report['commit']}, {report['date']}; strokes mark the aims"))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
