"""`python -m benchmarks`: measure aggserver against kube-apiserver and print the table; see docs/benchmarks.md.

A whole run takes about ten minutes, `--quick` two, `--growth` up to twenty, `--hostile` twenty, `--soak` twice its minutes. The
machine should run nothing else.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.chart import svg
from benchmarks.client import LoadError
from benchmarks.growth import SIZES, grow
from benchmarks.growth_report import growth_document
from benchmarks.hold import flood, hold_document, soak
from benchmarks.report import BASELINE, ETCD, FIGURES, GROWTH, MEASURED, SQLITE, document, rows, section, with_figures
from benchmarks.run import Options, keep, measure, progress
from benchmarks.workloads import OBJECTS, WORKLOADS, chosen
from tests.controlplane.binaries import BinariesError
from tests.controlplane.processes import ProcessError
from tests.controlplane.toolchain import ToolchainError

DOCS = Path(__file__).parents[1] / "docs"
PAGE, CHART = DOCS / "benchmarks.md", DOCS / "benchmarks.svg"

# client-go keeps one connection per server and process; the workloads stand for several processes (benchmarks/load/main.go).
CONNECTIONS = 4

# Of --growth: room for the small namespace and for creates that are measured.
MIN_SIZE = 500

# Of --soak.
MIN_MINUTES = 2


def main(arguments: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.write_docs and (options.quick or options.only):
        parser.error("the documents are for whole runs of both servers")
    if options.profile and options.only != MEASURED:
        parser.error(f"--profile slows {MEASURED} down, and goes with --only {MEASURED}")
    if options.growth is not None:
        options.growth = options.growth or list(SIZES)
        others = ("workloads", "objects", "rounds", "quick", "http1", "profile")
        if options.storage != SQLITE or any(getattr(options, name) for name in others):
            parser.error("--growth goes with --only and --write-docs alone")
        if problem := sizes_problem(options.growth):
            parser.error(problem)
    if options.soak is not None or options.hostile:
        others = ("workloads", "objects", "rounds", "quick", "http1", "profile", "growth", "write_docs")
        both = options.soak is not None and options.hostile
        if both or options.storage != SQLITE or any(getattr(options, name) for name in others):
            parser.error("--soak and --hostile go with --only alone")
        if options.soak is not None and options.soak < MIN_MINUTES:
            parser.error(f"--soak: at least {MIN_MINUTES} minutes, since the first is for filling caches")
    try:
        report = json.loads(options.report.read_text()) if options.report else _measure(options)
    except (LoadError, ProcessError, BinariesError, ToolchainError) as error:
        print(f"no result: {error}", file=sys.stderr)
        return 1
    print(_text(report))
    if options.write_docs:
        _write_docs(report)
    return 1 if report["failed"] else 0


def sizes_problem(sizes: Sequence[int]) -> str:
    """The error in the sizes of a growth, '' if there is none. Half of the added objects are needed to measure creates."""
    if sizes[0] < MIN_SIZE:
        return f"--growth: the first size is at least {MIN_SIZE}"
    if any(after < 2 * before for before, after in itertools.pairwise(sizes)):
        return "--growth: each size is at least twice the one before"
    return ""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="aggserver against kube-apiserver under the same load."
    )
    names = [workload.name for workload in WORKLOADS]
    parser.add_argument(
        "--workloads", nargs="+", choices=names, default=[], metavar="NAME", help=f"only these of {', '.join(names)}"
    )
    parser.add_argument("--objects", type=int, help=f"number of objects before the measurement (default {OBJECTS})")
    parser.add_argument("--rounds", type=int, help="turns of each server at each workload (default 2); the result is the median")
    parser.add_argument("--quick", action="store_true", help="a fifth of the work in one round, to check that everything works")
    parser.add_argument("--http1", action="store_true", help="use HTTP/1.1 instead of HTTP/2, which client-go prefers")
    parser.add_argument("--storage", choices=[SQLITE, ETCD], default=SQLITE, help=f"storage of {MEASURED} (default {SQLITE})")
    parser.add_argument(
        "--growth",
        nargs="*",
        type=int,
        metavar="OBJECTS",
        help=f"measure both at growing numbers of objects (default {SIZES})",
    )
    parser.add_argument(
        "--soak", type=int, metavar="MINUTES", help="measure memory every minute, while eight connections write at full rate"
    )
    parser.add_argument(
        "--hostile",
        action="store_true",
        help="measure response times while eight connections without a certificate flood both, and beside single large requests",
    )
    parser.add_argument("--only", choices=[BASELINE, MEASURED], help="measure only this server")
    parser.add_argument(
        "--profile", type=Path, metavar="FILE", help=f"run {MEASURED} under cProfile, which writes FILE at the end"
    )
    parser.add_argument(
        "--write-docs", action="store_true", help=f"write the table to its section of {PAGE.name}, and the chart to {CHART.name}"
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="measure nothing, use the results of an earlier run")
    return parser


def _measure(options: argparse.Namespace) -> dict[str, Any]:
    say = progress()
    servers = [options.only] if options.only else [BASELINE, MEASURED]
    if options.growth is not None:
        report = grow(options.growth, servers, say)
    elif options.soak is not None:
        report = soak(options.soak, servers, say)
    elif options.hostile:
        report = flood(servers, say)
    else:
        report = measure(_plan(options, servers), say)
    keep(report, say)
    return report


def _plan(options: argparse.Namespace, servers: Sequence[str]) -> Options:
    quick = options.quick
    return Options(
        workloads=chosen(options.workloads, quick=quick),
        objects=options.objects or (OBJECTS // 5 if quick else OBJECTS),
        rounds=options.rounds or (1 if quick else 2),
        seconds=2.0 if quick else 6.0,
        connections=CONNECTIONS,
        http1=options.http1,
        quick=quick,
        profile=options.profile,
        servers=servers,
        storage=options.storage,
    )


def _text(report: dict[str, Any]) -> str:
    if "held" in report:
        return hold_document(report)
    return growth_document(report) if "stages" in report else document(report)


def _write_docs(report: dict[str, Any]) -> None:
    part = GROWTH if "stages" in report else section(report)
    figures = _text(report)
    if part == FIGURES:
        figures = f"![How many times better than kube-apiserver]({CHART.name})\n\n{figures}"
        CHART.write_text(svg(rows(report), f"commit {report['commit']}, {report['date']}; strokes mark the aims"))
    PAGE.write_text(with_figures(PAGE.read_text(), part, figures))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
