"""`python -m benchmarks.selectors`: lists and watches whose selector matches few of many objects, beside kube-apiserver.

Both servers get the same objects, of which ten in turn share a value of the label `group`, and take turns at each row. Watches
begin all at once, each with `sendInitialEvents`, and a row's time is that until the last of them has its bookmark; meanwhile
/healthz is asked for on a connection of its own, one request after the other. CPU time is that of the server without its etcd:
unlike times, it does not depend on what else the machine does. `--write-docs` writes the table into docs/benchmarks.md. Beside
100,000 objects, a thousand watches that begin at once make kube-apiserver's memory grow beyond 14 GB.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.client import LoadError, build, run_load
from benchmarks.report import BASELINE, MEASURED, Section, machine
from benchmarks.run import Say, conditions, define, progress, scratch_folder, server_of, settle, show
from benchmarks.servers import REPOSITORY, Server
from tests.controlplane.binaries import BinariesError
from tests.controlplane.processes import ProcessError
from tests.controlplane.toolchain import ToolchainError

PAGE = REPOSITORY / "docs" / "benchmarks.md"
SECTION = Section("figures of selectors", ".selectors")
NAMESPACE = "bench"
# Bytes of an object as sent, and how many objects in turn have the same `group`.
SIZE, IN_GROUP = 1000, 10


@dataclass(frozen=True)
class Row:
    """What is measured. flags: the load client's. is_rate: whether its figure is a rate; else seconds."""

    title: str
    flags: Mapping[str, str | int]
    is_rate: bool = False


def _watches(count: int, selector: str) -> Row:
    flags: dict[str, str | int] = {"workload": "watch-list", "clients": count, "count": count, "events": 1, "probe": "true"}
    return Row(f"{count:,} watches begin, `{selector}`", {**flags, "selector": selector})


GET = Row("get, 32 clients", {"workload": "get", "clients": 32}, is_rate=True)
LIST = Row(
    "list, `group=group-000777`, 32 clients",
    {"workload": "list-all", "clients": 32, "selector": "group=group-000777"},
    is_rate=True,
)
ROWS = (
    _watches(1000, "group=none"),
    _watches(100, "group=none"),
    _watches(100, "group in (none,nobody)"),
    _watches(100, "tier notin (batch)"),
    _watches(100, "!tier"),
    GET,
    LIST,
)


@dataclass(frozen=True)
class Figure:
    """value: seconds, or a rate per second. cpu: milliseconds of each operation. probe: the 99th percentile of /healthz in ms."""

    value: float
    cpu: float
    probe: float | None = None

    def __str__(self) -> str:
        probe = "" if self.probe is None else f", `/healthz` p99 {self.probe:.0f} ms"
        return f"{self.value:.3g}, {self.cpu:.3g} ms of CPU each{probe}"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.selectors", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--objects", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=[BASELINE, MEASURED], help="measure only this server")
    parser.add_argument("--write-docs", action="store_true")
    options = parser.parse_args(arguments)
    if options.write_docs and options.only:
        parser.error("the documents are for whole runs of both servers")
    say = progress()
    try:
        with scratch_folder() as folder:
            figures = _measure(
                folder, options.objects, options.rounds, [options.only] if options.only else [BASELINE, MEASURED], say
            )
    except (BinariesError, LoadError, ProcessError, ToolchainError) as error:
        print(f"no result: {error}", file=sys.stderr)
        return 1
    table = _table(figures, options.objects, options.rounds)
    show(table, PAGE, SECTION, write=options.write_docs)
    return 0


Figures = Mapping[tuple[str, str], Sequence[Figure]]  # by server and title, one of each round


def _measure(folder: Path, objects: int, rounds: int, names: Sequence[str], say: Say) -> Figures:
    binary = build(folder, say)
    servers: list[Server] = []
    found: dict[tuple[str, str], list[Figure]] = {}
    try:
        for name in names:
            server = server_of(name, folder, say)
            server.__enter__()
            servers.append(server)
            define(server.access, [NAMESPACE])
            flags = {
                "workload": "create",
                "clients": 32,
                "count": objects,
                "size": SIZE,
                "in-group": IN_GROUP,
                "namespace": NAMESPACE,
            }
            created = run_load(binary, server.access, flags)
            say(f"{name} has {objects:,} objects, {created['seconds']:.0f} s")
        for number in range(rounds):
            for row in ROWS:
                for server in servers:
                    settle(servers)
                    try:
                        figure = _one(binary, server, row, objects)
                    except LoadError as error:
                        # Not within the two minutes that the load client waits for a request.
                        server.check()
                        say(f"round {number + 1}, {row.title}: {server.name} has no figure: {error}")
                        continue
                    found.setdefault((server.name, row.title), []).append(figure)
                    say(f"round {number + 1}, {row.title}: {server.name} {figure}")
    finally:
        for server in reversed(servers):
            server.__exit__(None, None, None)
    return found


def _one(binary: Path, server: Server, row: Row, objects: int) -> Figure:
    before = _cpu(server)
    flags: dict[str, str | int] = {"namespace": NAMESPACE, "objects": objects, **row.flags}
    result: dict[str, Any] = run_load(binary, server.access, flags)
    count = result["operations"] + result["warmup_operations"]
    value = result["rate_per_second"] if row.is_rate else result["seconds"]
    return Figure(value, (_cpu(server) - before) * 1000 / count, result.get("probe_p99_ms"))


def _cpu(server: Server) -> float:
    return server.usage()[server.name].cpu_seconds


def _table(figures: Figures, objects: int, rounds: int) -> str:
    lines = [
        f"{machine(conditions())}, {objects:,} objects of {SIZE:,} bytes, HTTP/2, medians of {rounds} rounds.",
        "",
        "| what | kube-apiserver | aggserver | times | CPU ms each of both | `/healthz` p99 of both |",
        "|---|---|---|---|---|---|",
    ]
    for row in ROWS:
        both = [figures.get((name, row.title), ()) for name in (BASELINE, MEASURED)]
        values = [median(each.value for each in one) if one else None for one in both]
        base, ours = values
        factor = "" if base is None or ours is None else f"{ours / base if row.is_rate else base / ours:.3g}"
        costs = " / ".join(f"{median(each.cpu for each in one):.3g}" if one else "" for one in both)
        probes = " / ".join(_probe(one) for one in both) if "probe" in row.flags else ""
        shown = ["" if value is None else f"{value:,.0f}/s" if row.is_rate else f"{value:.3g} s" for value in values]
        lines.append(f"| {row.title} | {shown[0]} | {shown[1]} | {factor} | {costs} | {probes} |")
    if first := figures.get((MEASURED, ROWS[0].title)):
        seconds, cost = first[0].value, first[0].cpu
        lines += ["", f"The first round of the first row builds aggserver's index: {seconds:.3g} s, {cost:.3g} ms of CPU each."]
    rates = [figures.get((MEASURED, row.title), ()) for row in (GET, LIST)]
    if all(rates):
        get, listed = (median(each.value for each in one) for one in rates)
        lines += ["", f"aggserver answers {listed / get:.2f} such lists in the time of a get."]
    return "\n".join(lines)


def _probe(figures: Sequence[Figure]) -> str:
    found = [each.probe for each in figures if each.probe is not None]
    return f"{median(found):.0f} ms" if found else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
