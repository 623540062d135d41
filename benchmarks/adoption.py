"""`python -m benchmarks.adoption`: the same resource built into kube-apiserver, and adopted by aggserver, through kube-apiserver.

Both sides are a control plane of their own with the same objects. On one of them aggserver adopts the definition, with all
objects there, and removes what is left in etcd; clients go on asking kube-apiserver, which proxies. The move itself is measured,
too: how long it copies, and how long writes are refused.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.__main__ import CONNECTIONS, PAGE
from benchmarks.client import Access, LoadError
from benchmarks.processes import Usage, children, file_bytes, usage
from benchmarks.report import BASELINE, MEASURED, Section, machine, number, table, workload_row
from benchmarks.run import Options, Say, keep, measure, progress, show
from benchmarks.servers import KubeApiserver, Server, kubeconfig_access
from benchmarks.workloads import OBJECTS, WORKLOADS, Workload
from tests.controlplane.binaries import Binaries, BinariesError, obtain
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import ProcessError
from tests.controlplane.toolchain import ToolchainError
from tests.integration.adopting import Adopting
from tests.integration.server import eventually

__all__ = ["ADOPTED", "ADOPTION_SECTION", "adoption_document"]

ADOPTION_SECTION = Section("adoption", ".adoption")

DEFINITION = "crontabs.bench.aggserver.dev"
GROUP = "bench.aggserver.dev"
# The second collects the rights that adoption has been given; the garbage collector would watch the custom resources.
CONTROLLERS = ("serviceaccount-controller", "clusterrole-aggregation-controller")

_AIMS = {"create": 2.5, "apply": 2.5, "list-all": 5, "list-500": 5, "table-500": 4, "get": 1, "watch-100": 1, "watch-1000": 1}
ADOPTED: Sequence[Workload] = [replace(each, aim=_AIMS[each.name]) for each in WORKLOADS if each.name in _AIMS]

MOVE_SECONDS = 900.0


class Adopted:
    """kube-apiserver, etcd, and aggserver, which adopts the definition of the benchmark once its objects are there.

    moved: what was measured of the move.
    """

    name = MEASURED

    def __init__(self, binaries: Binaries, folder: Path, say: Say) -> None:
        folder.mkdir()
        self._folder = folder
        self._say = say
        self._plane = ControlPlane(binaries, fsync=True, folder=folder / "plane", controllers=CONTROLLERS)
        self._programs: dict[str, int] = {}
        self.moved: dict[str, Any] = {}

    def __enter__(self) -> Self:
        before, began = children(os.getpid()), time.monotonic()
        self._plane.start()
        self.start_seconds = time.monotonic() - began
        started = {name: pid for pid, name in children(os.getpid()).items() if pid not in before}
        self._programs = {name: started[name] for name in ("kube-apiserver", "etcd")}
        self.access: Access = kubeconfig_access(self._plane.kubeconfig, self._folder / "access")
        self._adopting = Adopting(self._plane, self._folder, GROUP)
        self._server = self._adopting.start("--host-etcd-servers", self._plane.etcd)
        self._programs["aggserver"] = self._server.pid
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self._server.stop()
        finally:
            self._plane.stop()

    def filled(self) -> None:
        before = self.usage()
        began = time.monotonic()
        self._adopting.adopt(DEFINITION)
        took = time.monotonic() - began
        found = re.search(r"(\d+) objects, (\d+) bytes; writes were refused for ([\d.]+) s", self._adopting.log)
        if found is None:
            raise LoadError(f"nothing is said of a move:\n{self._adopting.log}")
        objects, size, frozen = int(found[1]), int(found[2]), float(found[3])
        self._plane.kubectl("annotate", "crd", DEFINITION, "aggserver.io/cleanup=2026-01-01T00:00:00Z")
        eventually(lambda: "were removed from the cluster's etcd" in self._said(), "the leftovers are removed", MOVE_SECONDS)
        self.moved = {
            "objects": objects,
            "bytes": size,
            "seconds": took,
            "frozen_seconds": frozen,
            "before_bytes": {name: use.resident_bytes for name, use in before.items()},
        }
        self._say(f"{number(objects)} objects moved in {took:.1f} s; writes were refused for {frozen:.2f} s")

    def _said(self) -> str:
        told = self._adopting.status().get(DEFINITION, {}).get("told") or {}
        return str(told.get("message", ""))

    def usage(self) -> dict[str, Usage]:
        return {name: usage(pid) for name, pid in self._programs.items()}

    def stored_bytes(self) -> int:
        return file_bytes(self._plane.folder / "etcd") + file_bytes(self._folder / "server")

    def check(self) -> None:
        running = children(os.getpid())
        for name, pid in self._programs.items():
            if pid not in running:
                raise ProcessError(f"{name} ended:\n{self._plane.log_tails().get(name, self._adopting.log)[-4000:]}")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.adoption", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--objects", type=int, default=OBJECTS, help="number of objects (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each side at each workload (default %(default)s)")
    parser.add_argument("--move-only", action="store_true", help="measure the move, and no workload")
    parser.add_argument("--write-docs", action="store_true", help=f"write the table to its section of {PAGE.name}")
    parser.add_argument("--report", type=Path, metavar="FILE", help="measure nothing, use the results of an earlier run")
    options = parser.parse_args(arguments)
    if options.write_docs and options.move_only:
        parser.error("the documents are for whole runs")
    try:
        report = json.loads(options.report.read_text()) if options.report else _measure(options)
    except (LoadError, ProcessError, BinariesError, ToolchainError, AssertionError) as error:
        print(f"no result: {error}", file=sys.stderr)
        return 1
    show(adoption_document(report), PAGE, ADOPTION_SECTION, write=options.write_docs)
    return 1 if report["failed"] else 0


def _measure(options: argparse.Namespace) -> dict[str, Any]:
    say = progress()
    made: list[Adopted] = []

    def servers(_: Options, folder: Path, say: Say) -> list[Server]:
        binaries = obtain(os.environ, say)
        made.append(Adopted(binaries, folder / MEASURED, say))
        return [made[0]] if options.move_only else [KubeApiserver(binaries, folder / BASELINE), made[0]]

    run = Options(
        workloads=[] if options.move_only else ADOPTED,
        objects=options.objects,
        rounds=options.rounds,
        seconds=6.0,
        connections=CONNECTIONS,
    )
    report = {**measure(run, say, servers), "moved": made[0].moved}
    keep(report, say)
    return report


def adoption_document(report: Mapping[str, Any]) -> str:
    """The text between the markers of docs/benchmarks.md. Pure; benchmarks.report describes the report, `Adopted` its `moved`."""
    rows = [workload_row(workload, report) for workload in ADOPTED] if report["runs"] else []
    options, moved = report["options"], report["moved"]
    conditions = (
        f"{machine(report)}, {number(options['objects'])} objects, {options['protocol']}, rounds: {options['rounds']}; "
        "both through kube-apiserver. A factor in bold reaches its aim."
    )
    rate = moved["objects"] / moved["seconds"]
    move = (
        f"The move of {number(moved['objects'])} objects, {number(moved['bytes'] / 1e6)} MB, took {moved['seconds']:.1f} s "
        f"({number(rate)} objects/s); writes were refused for {moved['frozen_seconds']:.2f} s of these."
    )
    remarks = [f"- {row.title}: {row.remark}" for row in rows if row.remark]
    parts = (conditions, table(rows) if rows else "", "\n".join(remarks), move, _memory(report))
    return "\n\n".join(part for part in parts if part)


def _memory(report: Mapping[str, Any]) -> str:
    lines = []
    for server, programs in report["memory_bytes"].items():
        each = ", ".join(f"{name} {number(size / 1e6)}" for name, size in programs.items())
        lines.append(f"{server}'s side {number(sum(programs.values()) / 1e6)} MB ({each})")
    before = ", ".join(f"{name} {number(size / 1e6)}" for name, size in report["moved"]["before_bytes"].items())
    return f"Memory after reads and patches: {'; '.join(lines)}. Before its move, that side had {before} MB."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
