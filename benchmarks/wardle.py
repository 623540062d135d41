"""`python -m benchmarks.wardle`: Kubernetes' sample-apiserver and the same API in Python, side by side.

The latter is manifests/examples/python/wardle.py. Both run beside one control plane, on loopback with one certificate, and get
the same requests directly, by the load client of the other benchmarks. sample-apiserver keeps its objects in etcd, which syncs
each write; aggserver in SQLite, which does so too. They take turns, and the better of the rounds counts on both sides.
CPU time is that of the server, and of etcd for sample-apiserver: unlike rates, it does not depend on what else the machine does.
`--write-docs` writes the table into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.client import Access, LoadError, build, call, run_load, wait_until_served
from benchmarks.processes import children, usage
from benchmarks.report import Section, machine
from benchmarks.run import conditions, show
from benchmarks.servers import REPOSITORY, kubeconfig_access
from tests.controlplane.binaries import BinariesError, obtain
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import Guard, Process, ProcessError, end, free_ports
from tests.controlplane.toolchain import ToolchainError
from tests.sample_apiserver.program import MODULE, SampleApiserver, SampleError
from tests.sample_apiserver.program import build as build_sample

PAGE = REPOSITORY / "docs" / "benchmarks.md"
SECTION = Section("figures of wardle", ".wardle")
EXAMPLE = REPOSITORY / "manifests" / "examples" / "python" / "wardle.py"
GROUP = "wardle.example.com"
NAMESPACE = "bench"
STOP_SECONDS, READY_SECONDS = 15.0, 120.0
# Bytes of an object as sent.
SIZE = 1000

# Title, field of the load client's result, unit, flags. In this order: creates make what the others read.
# Of a watch, what costs CPU time is an event.
WORK: tuple[tuple[str, str, str, Mapping[str, str | int]], ...] = (
    ("create, 32 clients", "rate_per_second", "/s", {"workload": "create", "clients": 32}),
    ("get, 32 clients", "rate_per_second", "/s", {"workload": "get", "clients": 32}),
    ("list of all objects, 2 clients", "megabytes_per_second", "MB/s", {"workload": "list-all", "clients": 2}),
    ("list limit=500, 4 clients", "rate_per_second", "pages/s", {"workload": "list-500", "clients": 4}),
    (
        "watch: 100 watchers, 200 creates",
        "rate_per_second",
        "events/s",
        {"workload": "watch", "watchers": 100, "count": 200, "clients": 16, "prefix": "watched"},
    ),
)
STARTED, RESTING, LOADED = "start until served", "memory after that", "memory at the end"


@dataclass(frozen=True)
class Running:
    """One server. storage: the process that keeps its objects, 0 if that is its own. start_seconds: from the start of its process
    until it answers for the objects.
    """

    access: Access
    pid: int
    start_seconds: float
    storage: int = 0

    @property
    def cpu_seconds(self) -> float:
        return usage(self.pid).cpu_seconds + (usage(self.storage).cpu_seconds if self.storage else 0.0)


@dataclass(frozen=True)
class Figure:
    """cpu_milliseconds: for each request or event, None where nothing was counted."""

    value: float
    cpu_milliseconds: float | None = None


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.wardle", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--objects", type=int, default=5000)
    parser.add_argument("--write-docs", action="store_true")
    options = parser.parse_args(arguments)
    try:
        with tempfile.TemporaryDirectory() as folder:
            figures = _measure(Path(folder), options.rounds, options.objects)
    except (BinariesError, LoadError, ProcessError, SampleError, ToolchainError) as error:
        print(error, file=sys.stderr)
        return 1
    table = _table(figures, options.rounds, options.objects)
    show(table, PAGE, SECTION, write=options.write_docs)
    return 0


def _measure(folder: Path, rounds: int, objects: int) -> dict[str, dict[str, Figure]]:
    """Server -> title -> the best figure."""
    binaries = obtain(os.environ, _say)
    build_sample(os.environ, _say)
    load = build(folder, _say)
    best: dict[str, dict[str, Figure]] = {"sample-apiserver": {}, "aggserver": {}}
    with ControlPlane(binaries, fsync=True, folder=folder / "plane", controllers=("serviceaccount-controller",)) as plane:
        access = kubeconfig_access(plane.kubeconfig, folder / "access")
        call(access, "POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        for number in range(rounds):
            for name, started in (("sample-apiserver", _sample), ("aggserver", _aggserver)):
                _say(f"round {number + 1}: {name}")
                place = folder / f"{name}-{number}"
                place.mkdir()
                with started(plane, access, place) as server:
                    for title, figure in _figures(server, load, objects).items():
                        known = best[name].get(title)
                        best[name][title] = figure if known is None else _better(title, known, figure)
    return best


def _better(title: str, one: Figure, other: Figure) -> Figure:
    choose = min if title in (STARTED, RESTING, LOADED) else max
    costs = [each.cpu_milliseconds for each in (one, other) if each.cpu_milliseconds is not None]
    return Figure(choose(one.value, other.value), min(costs, default=None))


def _figures(server: Running, load: Path, objects: int) -> dict[str, Figure]:
    found = {STARTED: Figure(server.start_seconds, server.cpu_seconds * 1000), RESTING: _memory(server)}
    for title, field, _, flags in WORK:
        more: dict[str, str | int] = {"flunders": "true", "namespace": NAMESPACE, "objects": objects, "size": SIZE, **flags}
        if flags["workload"] == "create":
            more["count"] = objects
        before = server.cpu_seconds
        result = run_load(load, server.access, more)
        count = result["operations"] + result["warmup_operations"]
        found[title] = Figure(float(result[field]), (server.cpu_seconds - before) * 1000 / count)
    return found | {LOADED: _memory(server)}


def _memory(server: Running) -> Figure:
    return Figure(usage(server.pid).resident_bytes / 1e6)


def _certificate(plane: ControlPlane) -> list[str]:
    """kube-apiserver's own, so that one authority is enough."""
    return [f"--tls-cert-file={plane.serving.certificate}", f"--tls-private-key-file={plane.serving.key}"]


@contextmanager
def _sample(plane: ControlPlane, access: Access, folder: Path) -> Iterator[Running]:
    port = free_ports(1)[0]
    began = time.monotonic()
    arguments = [*_certificate(plane), f"--etcd-prefix=/registry/{folder.name}"]
    server = SampleApiserver(plane, folder, port, arguments)
    try:
        etcd = next(pid for pid, name in children(os.getpid()).items() if name == "etcd")
        yield replace(_served(replace(access, server=f"https://127.0.0.1:{port}"), server.pid, began), storage=etcd)
    finally:
        server.stop()


@contextmanager
def _aggserver(plane: ControlPlane, access: Access, folder: Path) -> Iterator[Running]:
    port = free_ports(1)[0]
    shutil.copy(EXAMPLE, folder)
    guard = Guard(None)
    began = time.monotonic()
    where = ["--bind-address", "127.0.0.1", "--secure-port", str(port), "--data", str(folder / "data")]
    service = ["--service-name", "wardle", "--service-namespace", NAMESPACE]
    command = [sys.executable, "-m", "aggserver", "serve", "--kubeconfig", str(plane.kubeconfig), "--app", "wardle:app"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": f"{REPOSITORY}:{folder}"}
    process = Process(
        "aggserver", [*command, *where, *service, *_certificate(plane)], folder / "aggserver.log", environment, guard
    )
    try:
        yield _served(replace(access, server=f"https://127.0.0.1:{port}"), process.pid, began)
    finally:
        end([process], STOP_SECONDS)
        guard.dismiss()


def _served(access: Access, pid: int, began: float) -> Running:
    path = f"/apis/{GROUP}/v1alpha1/namespaces/{NAMESPACE}/flunders"
    while True:
        try:
            wait_until_served(access, path)
            return Running(access, pid, time.monotonic() - began)
        except urllib.error.URLError as error:
            if time.monotonic() - began > READY_SECONDS:
                raise LoadError(f"{access.server} does not answer: {error}") from error
            time.sleep(0.01)


# --- lines ---


def _lines_of_sample() -> tuple[int, int]:
    """(written by hand, generated): lines of Go code, without comments, blank lines and tests."""
    described = subprocess.run(
        ["go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/sample-apiserver"], cwd=MODULE, capture_output=True, text=True, check=True
    )
    written = generated = 0
    for path in sorted(Path(described.stdout.strip()).rglob("*.go")):
        if path.name.endswith("_test.go") or "hack" in path.parts:
            continue
        text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
        count = sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith("//"))
        if "generated" in str(path):
            generated += count
        else:
            written += count
    return written, generated


def _lines_of_example() -> int:
    text = EXAMPLE.read_text().split('"""', 2)[2]
    return sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith("#"))


# --- the table ---


def _table(figures: Mapping[str, Mapping[str, Figure]], rounds: int, objects: int) -> str:
    written, generated = _lines_of_sample()
    short = _lines_of_example()
    sample, ours = figures["sample-apiserver"], figures["aggserver"]
    lines = [
        f"{machine(conditions())}, {objects:,} objects of {SIZE:,} bytes, HTTP/2, rounds: {rounds}.",
        "",
        "| what | sample-apiserver | wardle.py on aggserver | times | CPU ms each of both |",
        "|---|---|---|---|---|",
        f"| lines of code | {written:,} in Go, and {generated:,} generated | {short} in Python | {written / short:.0f} | |",
    ]
    units = {title: unit for title, _, unit, _ in WORK} | {STARTED: " s", RESTING: " MB", LOADED: " MB"}
    for title in (STARTED, RESTING, *(title for title, *_ in WORK), LOADED):
        unit = units[title]
        lower = unit in (" s", " MB")
        factor = sample[title].value / ours[title].value if lower else ours[title].value / sample[title].value
        gap = "" if unit.startswith((" ", "/")) else " "
        values = (f"{_short(each[title].value)}{gap}{unit}" for each in (sample, ours))
        costs = [each[title].cpu_milliseconds for each in (sample, ours)]
        cost = "" if None in costs else " / ".join(_short(each) for each in costs if each is not None)
        lines.append(f"| {title} | {' | '.join(values)} | {factor:.2g} | {cost} |")
    return "\n".join(lines)


def _short(value: float) -> str:
    return f"{value:,.3g}" if value < 100 else f"{value:,.0f}"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
