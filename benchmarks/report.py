"""The results of a run as rows with medians and factors, and as a Markdown table. Pure.

Also the sections of docs/benchmarks.md that runs write; benchmarks.growth_report makes the table of growth.

A report is the result of a run as JSON: `commit`, `date`, `machine`, `options`, `start_seconds` by server,
`memory_bytes` by server and program, `not_served` and `failed` by workload, and `runs`, each with `workload`, `server`, `round`,
`cpu_seconds` and the load client's own `result`.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.workloads import WORKLOADS, Workload

__all__ = [
    "BASELINE",
    "ETCD",
    "FIGURES",
    "FIGURES_ON_ETCD",
    "GROWTH",
    "MEASURED",
    "SQLITE",
    "Row",
    "Section",
    "Side",
    "document",
    "machine",
    "number",
    "rows",
    "section",
    "table",
    "with_figures",
    "workload_row",
]

BASELINE = "kube-apiserver"
MEASURED = "aggserver"

SQLITE, ETCD = "sqlite", "etcd"  # aggserver's storage

# By storage. With etcd both sides include its memory, and the seconds until it has a leader.
MEMORY_AIM = {SQLITE: 10.0, ETCD: 4.0}
START_AIM_SECONDS = {SQLITE: 0.5, ETCD: 1.0}

# Bodies of the two sides may differ a little (managed fields, spacing). Beyond this share their content differs, and the rates
# can't be compared.
BODY_TOLERANCE = 0.15


@dataclass(frozen=True)
class Section:
    """A part of docs/benchmarks.md that a run with these flags writes, between two markers."""

    name: str
    flags: str = ""

    @property
    def begin(self) -> str:
        return f"<!-- {self.name}: written by python -m benchmarks{self.flags} --write-docs -->"

    @property
    def end(self) -> str:
        return f"<!-- end of {self.name} -->"


FIGURES = Section("figures")
FIGURES_ON_ETCD = Section("figures on etcd", " --storage etcd")
GROWTH = Section("growth", " --growth")


@dataclass(frozen=True)
class Side:
    """The figures of one server in one row. Times are in milliseconds, None if a row has no requests."""

    value: float
    p99: float | None = None
    cpu: float | None = None


@dataclass(frozen=True)
class Row:
    """`aim` is the factor that aggserver should reach, if more or less is better. `remark` is a note on the row, or empty."""

    title: str
    unit: str
    aim: float
    baseline: Side | None
    ours: Side | None
    less_is_better: bool = False
    remark: str = ""

    @property
    def factor(self) -> float | None:
        """How many times better than kube-apiserver."""
        if self.baseline is None or self.ours is None or not self.baseline.value or not self.ours.value:
            return None
        factor = self.ours.value / self.baseline.value
        return 1 / factor if self.less_is_better else factor

    @property
    def met(self) -> bool | None:
        return None if self.factor is None else self.factor >= self.aim


def rows(report: Mapping[str, Any]) -> list[Row]:
    """The rows that the report has figures for, in the order of the workloads."""
    found = [workload_row(workload, report) for workload in WORKLOADS if workload.name in _measured_names(report)]
    return [*found, *_memory_row(report), *_start_row(report)]


def _storage(report: Mapping[str, Any]) -> str:
    return str(report["options"]["storage"])


def section(report: Mapping[str, Any]) -> Section:
    """The section of docs/benchmarks.md for this report."""
    return FIGURES_ON_ETCD if _storage(report) == ETCD else FIGURES


def _measured_names(report: Mapping[str, Any]) -> set[str]:
    return {run["workload"] for run in report["runs"]} | set(report["not_served"]) | set(report["failed"])


def workload_row(workload: Workload, report: Mapping[str, Any]) -> Row:
    """The row of one workload."""
    of = {
        server: [run for run in report["runs"] if run["workload"] == workload.name and run["server"] == server]
        for server in (BASELINE, MEASURED)
    }
    return Row(
        workload.title,
        workload.unit,
        workload.aim_on_etcd if _storage(report) == ETCD else workload.aim,
        _side(workload, of[BASELINE]),
        _side(workload, of[MEASURED]),
        remark=_reason(workload.name, report) or _body_remark(of[BASELINE], of[MEASURED]) or _resumed_remark(of),
    )


def _reason(name: str, report: Mapping[str, Any]) -> str:
    """Why the row has no figure, empty if it has one."""
    if name in report["not_served"]:
        return f"not served: {report['not_served'][name]}"
    return f"failed: {report['failed'][name]}" if name in report["failed"] else ""


def _side(workload: Workload, runs: Sequence[Mapping[str, Any]]) -> Side | None:
    if not runs:
        return None
    return Side(
        _median(run["result"][workload.figure] for run in runs),
        _median(run["result"]["p99_ms"] for run in runs),
        _median(run["cpu_seconds"] * 1e3 / (run["result"]["operations"] + run["result"]["warmup_operations"]) for run in runs),
    )


def _body_remark(baseline: Sequence[Mapping[str, Any]], ours: Sequence[Mapping[str, Any]]) -> str:
    if not baseline or not ours:
        return ""
    theirs, own = (_median(run["result"]["bytes"] / run["result"]["operations"] for run in runs) for runs in (baseline, ours))
    if abs(own - theirs) <= BODY_TOLERANCE * theirs:
        return ""
    return f"bodies differ: {number(theirs)} bytes from {BASELINE}, {number(own)} from {MEASURED}"


def _resumed_remark(of: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    counts = {server: sum(run["result"]["resumed_watches"] for run in runs) for server, runs in of.items()}
    return ", ".join(f"{server} ended {count} watches early, which were resumed" for server, count in counts.items() if count)


def _memory_row(report: Mapping[str, Any]) -> Iterable[Row]:
    memory = {server: Side(sum(programs.values()) / 1e6) for server, programs in report["memory_bytes"].items()}
    if memory:
        title = f"memory after that, {number(report['options']['objects'])} objects"
        yield Row(title, "MB", MEMORY_AIM[_storage(report)], memory.get(BASELINE), memory.get(MEASURED), less_is_better=True)


def _start_row(report: Mapping[str, Any]) -> Iterable[Row]:
    start = {server: Side(seconds) for server, seconds in report["start_seconds"].items()}
    baseline = start.get(BASELINE)
    # The aim is a time, so its factor depends on the other side.
    aim = baseline.value / START_AIM_SECONDS[_storage(report)] if baseline else 1.0
    yield Row("start until ready", "s", aim, baseline, start.get(MEASURED), less_is_better=True)


def table(found: Sequence[Row]) -> str:
    """The rows as Markdown."""
    head = [
        f"| work | {BASELINE} | {MEASURED} | factor | aim | p99 ms of both | CPU ms each of both |",
        "|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*head, *(_line(row) for row in found)])


def _line(row: Row) -> str:
    factor = "n/a" if row.factor is None else f"{number(row.factor)}x"
    cells = [
        row.title,
        _value(row.baseline, row.unit),
        _value(row.ours, row.unit),
        f"**{factor}**" if row.met else factor,
        f"{number(row.aim)}x",
        _pair(row, "p99"),
        _pair(row, "cpu"),
    ]
    return f"| {' | '.join(cells)} |"


def _value(side: Side | None, unit: str) -> str:
    if side is None:
        return "n/a"
    return f"{number(side.value)}{'' if unit.startswith('/') else ' '}{unit}"


def _pair(row: Row, field: str) -> str:
    values = [None if side is None else getattr(side, field) for side in (row.baseline, row.ours)]
    return "" if values == [None, None] else " / ".join("n/a" if value is None else number(value) for value in values)


def document(report: Mapping[str, Any]) -> str:
    """The text between the markers of docs/benchmarks.md."""
    found, options = rows(report), report["options"]
    storage = "SQLite" if _storage(report) == SQLITE else "an etcd of its own"
    conditions = (
        f"{machine(report)}, {number(options['objects'])} objects, {options['protocol']}, rounds: {options['rounds']}; "
        f"aggserver on {storage}. A factor in bold reaches its aim."
    )
    if options["quick"]:
        conditions = f"A quick run: it shows that everything works, and its figures mean nothing. {conditions}"
    remarks = [f"- {row.title}: {row.remark}" for row in found if row.remark]
    return "\n\n".join(part for part in (conditions, table(found), "\n".join(remarks)) if part)


def machine(report: Mapping[str, Any], *, alone: bool = False) -> str:
    """What was measured, when and on what, as the beginning of a sentence. alone: without kube-apiserver.

    The load is that of the whole machine at the end, which has that of other programs: a benchmark itself makes about 2.
    """
    facts = report["machine"]
    load = f" with a load of {facts['load']:.1f}" if "load" in facts else ""
    beside = "" if alone else f", kube-apiserver {facts['kubernetes']}"
    return (
        f"Commit `{report['commit']}`, {report['date']}: {facts['cores']} cores ({facts['processor']}){load}, "
        f"Python {facts['python']}{beside}"
    )


def with_figures(page: str, part: Section, figures: str) -> str:
    """The page with `figures` in this section. Raises ValueError if the page does not have its markers."""
    before, begin, rest = page.partition(part.begin)
    _, end, after = rest.partition(part.end)
    if not begin or not end:
        raise ValueError(f"the page lacks the lines {part.begin!r} and {part.end!r}")
    return f"{before}{begin}\n\n{figures}\n\n{end}{after}"


def number(value: float) -> str:
    """The number with three significant digits: 1,140, 28.1, 0.456."""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.1f}" if value >= 10 else f"{value:.3g}"


def _median(values: Iterable[float]) -> float:
    return statistics.median(values)
