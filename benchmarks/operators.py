"""`python -m benchmarks.operators`: operators' tests in Go, with the real programs and with those of `aggserver envtest`.

A program starts and stops an envtest.Environment, with either in turn; memory is that of kube-apiserver and etcd then. After that
each suite of controller-runtime runs once with either (tests/operators). It prints the tables of docs/testing.md.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.processes import children, usage
from benchmarks.report import machine
from benchmarks.run import conditions, progress
from tests.controlplane.binaries import obtain
from tests.operators import suite

ROUNDS = 5
PROGRAM = Path(__file__).with_name("envtest") / "main.go"
TIMEOUT = 60.0
REAL, OURS = "real", "aggserver"


@dataclass
class Starts:
    """A number for each round: seconds, and bytes of memory."""

    ready: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    stopped: list[float] = field(default_factory=list)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operators", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"how often each is started (default {ROUNDS})")
    parser.add_argument("--packages", nargs="*", choices=suite.PACKAGES, default=suite.PACKAGES, help="the suites to run")
    options = parser.parse_args(arguments)
    say = progress()
    folder = suite.build(options.packages, os.environ, say)
    with tempfile.TemporaryDirectory(prefix="operators-") as scratch:
        assets = {REAL: obtain(os.environ, say).folder, OURS: suite.stand_ins(Path(scratch, "assets"))}
        program = suite.compile_program(folder, PROGRAM, Path(scratch, "start"), os.environ, say)
        starts = {side: Starts() for side in assets}
        for number in range(options.rounds):
            for side, programs in assets.items():
                say(f"round {number + 1}: {side}")
                _start(program, programs, starts[side])
        runs: dict[str, dict[str, suite.Run]] = {}
        for package in options.packages:
            for side, programs in assets.items():
                say(f"{package}: {side}")
                runs.setdefault(package, {})[side] = suite.run(folder, package, programs, Path(scratch, "report.json"))
    print(starts_table(starts))
    print(f"\n{runs_table({package: {side: run.seconds for side, run in each.items()} for package, each in runs.items()})}")
    print(f"\n{machine(conditions())}. Starts: medians of {options.rounds} rounds.")
    for package, each in runs.items():
        for side, run in each.items():
            for spec in sorted(run.failed):
                print(f"failed with {side}: {package}: {spec}", file=sys.stderr)
    return int(any(run.failed for each in runs.values() for run in each.values()))


def _start(program: Path, assets: Path, figures: Starts) -> None:
    environment = {**os.environ, "KUBEBUILDER_ASSETS": str(assets)}
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        figures.ready.append(float(process.stdout.readline()))
        figures.memory.append(sum(usage(child).resident_bytes for child in children(process.pid)))
        process.stdin.close()
        figures.stopped.append(float(process.stdout.readline()))
        process.wait(TIMEOUT)


def starts_table(found: Mapping[str, Starts]) -> str:
    """The medians, a row for each figure."""
    rows: dict[str, Callable[[Starts], str]] = {
        "`Environment.Start`": lambda starts: f"{statistics.median(starts.ready):.2f} s",
        "memory then": lambda starts: f"{statistics.median(starts.memory) / 1e6:,.0f} MB",
        "`Environment.Stop`": lambda starts: f"{statistics.median(starts.stopped):.2f} s",
    }
    lines = ["| | kube-apiserver and etcd | aggserver |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| {text} | {show(found[REAL])} | {show(found[OURS])} |" for text, show in rows.items())])


def runs_table(seconds: Mapping[str, Mapping[str, float]]) -> str:
    """Seconds by suite and side, and their sums."""
    total = {side: sum(each[side] for each in seconds.values()) for side in (REAL, OURS)}
    lines = ["| suite | kube-apiserver and etcd | aggserver |", "|---|---|---|"]
    lines += [f"| {package} | {each[REAL]:.1f} s | {each[OURS]:.1f} s |" for package, each in seconds.items()]
    return "\n".join([*lines, f"| all | {total[REAL]:.0f} s | {total[OURS]:.0f} s |"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
