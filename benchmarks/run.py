"""One run of the benchmarks: starts both servers, creates the same objects in them, and alternates between them at each workload.

Both run the whole time and take turns at each workload (A B A B), so that a change in the machine's speed affects both.
benchmarks.report describes the report. benchmarks.growth prepares its servers in the same way.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import platform
import subprocess
import sys
import sysconfig
import tempfile
import time
import urllib.error
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from benchmarks.client import Access, LoadError, NotServedError, build, call, run_load, wait_until_served
from benchmarks.report import BASELINE, ETCD, MEASURED, SQLITE, Section, number, with_figures
from benchmarks.servers import Aggserver, KubeApiserver, Server
from benchmarks.workloads import NAMESPACES, SEEDED, Workload, in_running_order
from tests.controlplane.binaries import kubernetes_version, obtain

__all__ = [
    "DEFINITION",
    "RESULTS",
    "Options",
    "Say",
    "conditions",
    "define",
    "keep",
    "measure",
    "memory",
    "progress",
    "scratch_folder",
    "server_of",
    "settle",
    "show",
]

Say = Callable[[str], None]

HERE = Path(__file__).parent
RESULTS = HERE / "results"
DEFINITION = HERE / "crontab.yaml"
COLLECTION = "/apis/bench.aggserver.dev/v1/crontabs"  # of all namespaces

# Servers count as idle when all together use less than this share of a core. After SETTLE_TIMEOUT seconds the run goes on,
# because kube-apiserver is never completely idle.
REST = 0.15
REST_INTERVAL = 0.3
SETTLE_TIMEOUT = 10.0

UNPROCESSABLE = 422


@dataclass(frozen=True)
class Options:
    """The options of a run.

    seconds: duration of a workload without a count. servers: their names. profile: the file for aggserver's profile. storage:
    aggserver's storage. definition: served in place of crontab.yaml. refused: a spec that every server must reject.
    """

    workloads: Sequence[Workload]
    objects: int
    rounds: int
    seconds: float
    connections: int
    http1: bool = False
    quick: bool = False
    profile: Path | None = None
    servers: Sequence[str] = (BASELINE, MEASURED)
    storage: str = SQLITE
    definition: Mapping[str, Any] | None = None
    refused: Mapping[str, Any] | None = None


@dataclass
class _Bench:
    """The state that the steps of a run share."""

    options: Options
    binary: Path
    servers: Sequence[Server]
    say: Say
    runs: list[dict[str, Any]] = field(default_factory=list)
    not_served: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def measure(
    options: Options, say: Say, make_servers: Callable[[Options, Path, Say], Sequence[Server]] | None = None
) -> dict[str, Any]:
    """Run everything and return the report, which also has the rows that failed. make_servers: others than those of the options.

    Raises LoadError when a server can't be prepared, ProcessError when one ends, BinariesError, ToolchainError.
    """
    with scratch_folder() as folder, contextlib.ExitStack() as stack:
        say("building the load client")
        binary = build(folder, say)
        servers = [stack.enter_context(server) for server in (make_servers or _servers)(options, folder, say)]
        bench = _Bench(options, binary, servers, say)
        for server in servers:
            say(f"{server.name} is ready after {server.start_seconds:.2f} s")
            _prepare(bench, server)
        ordered = in_running_order(options.workloads)
        for workload in (row for row in ordered if row.order < 2):
            _alternate(bench, workload)
        resident = {server.name: memory(server) for server in servers}
        for workload in (row for row in ordered if row.order >= 2):
            _alternate(bench, workload)
        return _report(bench, resident)


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Where servers keep their data for one run."""
    RESULTS.mkdir(exist_ok=True)
    # Beside the results and not in /tmp, which is in memory on many machines, where fsync costs nothing.
    with tempfile.TemporaryDirectory(prefix="run-", dir=RESULTS) as scratch:
        yield Path(scratch)


def server_of(name: str, folder: Path, say: Say) -> Server:
    """A server that is not started yet, with a folder of its name for its data. kube-apiserver is built first if need be."""
    return KubeApiserver(obtain(os.environ, say), folder / name) if name == BASELINE else Aggserver(folder / name)


def show(text: str, page: Path, section: Section, *, write: bool) -> None:
    """Print what was measured, and write it into its section of the page if that is wanted."""
    print(text)
    if write:
        page.write_text(with_figures(page.read_text(), section, text))


def _servers(options: Options, folder: Path, say: Say) -> list[Server]:
    servers: list[Server] = []
    if BASELINE in options.servers:
        servers.append(server_of(BASELINE, folder, say))
    if MEASURED in options.servers:
        etcd = obtain(os.environ, say).etcd if options.storage == ETCD else None
        servers.append(Aggserver(folder / MEASURED, profile=options.profile, etcd=etcd))
    return servers


def _prepare(bench: _Bench, server: Server) -> None:
    """The objects that reads and patches work on."""
    define(server.access, NAMESPACES, bench.options.definition)
    if bench.options.refused is not None:
        _expect_refusal(server, bench.options.refused)
    flags: dict[str, str | int] = {"workload": "create", "clients": 32, "count": bench.options.objects, "namespace": SEEDED}
    result = run_load(bench.binary, server.access, flags)
    bench.say(f"{server.name} has {number(bench.options.objects)} objects, {result['seconds']:.1f} s")
    server.filled()


def _expect_refusal(server: Server, spec: Mapping[str, Any]) -> None:
    body = {"apiVersion": "bench.aggserver.dev/v1", "kind": "CronTab", "metadata": {"name": "refused"}, "spec": spec}
    try:
        call(server.access, "POST", f"/apis/bench.aggserver.dev/v1/namespaces/{SEEDED}/crontabs", body)
    except urllib.error.HTTPError as error:
        if error.code != UNPROCESSABLE:
            raise LoadError(f"{server.name}: {error}") from error
    else:
        raise LoadError(f"{server.name} has taken an object that breaks a rule")


def define(access: Access, namespaces: Iterable[str], definition: Mapping[str, Any] | None = None) -> None:
    """Create the definition and these namespaces on an empty server."""
    definition = definition or yaml.safe_load(DEFINITION.read_text())
    call(access, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    wait_until_served(access, COLLECTION)
    for name in namespaces:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        call(access, "POST", "/api/v1/namespaces", namespace)


def _alternate(bench: _Bench, workload: Workload) -> None:
    for turn in range(bench.options.rounds):
        for server in bench.servers:
            if workload.name not in bench.not_served | bench.failed:
                _one(bench, workload, server, turn)


def _one(bench: _Bench, workload: Workload, server: Server, turn: int) -> None:
    settle(bench.servers)
    before, others_before = _cpu([server]), _cpu(bench.servers)
    try:
        result = run_load(bench.binary, server.access, _flags(bench.options, workload, turn))
    except LoadError as error:
        _without_figure(bench, workload, server, error)
        return
    spent = _cpu([server]) - before
    run = {
        "workload": workload.name,
        "server": server.name,
        "round": turn,
        "cpu_seconds": spent,
        # CPU time that the other servers used meanwhile.
        "others_cpu_seconds": _cpu(bench.servers) - others_before - spent,
        "result": result,
    }
    bench.runs.append(run)
    figure = f"{number(result[workload.figure])} {workload.unit}"
    cost = f"{spent:.1f} s of CPU, load client {result['client_cpu_seconds']:.1f} s"
    bench.say(
        f"{workload.title}: {server.name} {figure}, p50 {number(result['p50_ms'])} p99 {number(result['p99_ms'])} ms, {cost}"
    )


def _without_figure(bench: _Bench, workload: Workload, server: Server, error: LoadError) -> None:
    """Record why the row has no figure of this server, also if earlier rounds succeeded."""
    server.check()
    (bench.not_served if isinstance(error, NotServedError) else bench.failed)[workload.name] = f"{server.name}: {error}"
    bench.runs = [run for run in bench.runs if (run["workload"], run["server"]) != (workload.name, server.name)]
    bench.say(f"{workload.title}: no figure, {server.name}: {error}")


def _flags(options: Options, workload: Workload, turn: int) -> dict[str, str | int]:
    return {
        "namespace": workload.namespace,
        "objects": options.objects,
        "duration": f"{options.seconds}s",
        "connections": options.connections,
        "http1": "true" if options.http1 else "false",
        # Reads and patches need the names that were seeded; each round of a writer needs new ones.
        "prefix": "obj" if workload.namespace == SEEDED else f"{workload.name}-{turn}",
        **workload.flags,
    }


def settle(servers: Sequence[Server]) -> None:
    """Wait for the work after a run: ending watches, garbage collection, compaction of logs."""
    deadline = time.monotonic() + SETTLE_TIMEOUT
    used = _cpu(servers)
    while time.monotonic() < deadline:
        time.sleep(REST_INTERVAL)
        before, used = used, _cpu(servers)
        if used - before < REST * REST_INTERVAL:
            return


def _cpu(servers: Sequence[Server]) -> float:
    return sum((use.cpu_seconds for server in servers for use in server.usage().values()), 0.0)


def memory(server: Server) -> dict[str, int]:
    """Resident bytes of each of its programs."""
    return {program: use.resident_bytes for program, use in server.usage().items()}


def _report(bench: _Bench, resident: dict[str, dict[str, int]]) -> dict[str, Any]:
    options = bench.options
    return {
        **conditions(),
        "options": {
            "storage": options.storage,
            "objects": options.objects,
            "rounds": options.rounds,
            "seconds": options.seconds,
            "connections": options.connections,
            "quick": options.quick,
            "protocol": "HTTP/1.1" if options.http1 else "HTTP/2",
        },
        "start_seconds": {server.name: server.start_seconds for server in bench.servers},
        "memory_bytes": resident,
        "not_served": bench.not_served,
        "failed": bench.failed,
        "runs": bench.runs,
    }


def conditions() -> dict[str, Any]:
    """The part that all reports share: commit, date and machine, whose load is that of now."""
    return {
        "commit": _commit(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": {
            "cores": os.cpu_count(),
            "load": os.getloadavg()[0],
            "processor": _processor(),
            "python": _python(),
            "kubernetes": kubernetes_version(),
        },
    }


def _commit() -> str:
    """The short hash of the measured commit, marked if the tree has changes. Tables that were just written are none."""
    git = partial(subprocess.run, cwd=HERE.parent, capture_output=True, text=True, check=False)
    commit = git(["git", "rev-parse", "--short=7", "HEAD"]).stdout.strip()
    modified = git(["git", "status", "--porcelain", "--untracked-files=no", "--", ".", ":(exclude)docs"]).stdout
    return f"{commit}{'-modified' if modified else ''}" if commit else "uncommitted"


def _python() -> str:
    """The version, and how it was built: with profile-guided optimization, as Debian's and that of the image, it is faster."""
    optimized = "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "")
    return f"{platform.python_version()} {'with' if optimized else 'without'} PGO"


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def progress() -> Say:
    """A function that reports progress on standard error, with the seconds since now."""
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:5.0f} s  {text}", file=sys.stderr, flush=True)

    return say


def keep(report: dict[str, Any], say: Say) -> None:
    """Write a report to a file of its own in RESULTS, as JSON."""
    path = RESULTS / f"{datetime.datetime.now(datetime.UTC):%Y%m%dT%H%M%SZ}.json"
    path.write_text(json.dumps(report, indent=2) + "\n")
    say(f"results are in {path}")
