"""`python -m benchmarks.replicas`: one, two and four servers on one etcd, as replicas behind a Service.

The servers run as in a cluster: `aggserver serve --definitions`, beside one control plane, and on an etcd of their own, which
syncs its writes. Each server has the same number of clients, whose connections take turns at the servers. All processes share
the machine's cores, so the rate alone says little: the CPU time of each server is read from the scheduler's accounting, and the
factor is that of the busiest server's CPU time for an operation of all. With a core for each server, and enough for etcd, that
is the factor of the rates.

A server spends CPU time on its own requests, and on the events of what others write, which it keeps in its cache. For the model,
all requests go to one of the servers: what that takes is its own, and what the others take is theirs, less what they take idle.
`--write-docs` writes the table and the model into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import urllib.error
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.client import Access, LoadError, build, call, run_load, wait_until_served
from benchmarks.processes import thread_seconds
from benchmarks.report import Section, machine
from benchmarks.run import COLLECTION, DEFINITION, Say, conditions, progress, scratch_folder, show
from benchmarks.servers import REPOSITORY, kubeconfig_access
from tests.controlplane.binaries import BinariesError, obtain
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import Guard, Process, ProcessError, end, free_ports
from tests.controlplane.toolchain import ToolchainError

__all__ = ["Cost", "Model", "main", "model", "replicas_document"]

PAGE = REPOSITORY / "docs" / "benchmarks.md"
SECTION = Section("figures of replicas", ".replicas")
NAMESPACE = "bench"
OBJECTS = 5000
CONNECTIONS = 4  # to each server
READY_SECONDS, STOP_SECONDS, IDLE_SECONDS = 120.0, 15.0, 4.0
# More of them, for the model.
MODELLED = (2, 4, 8, 16)


class Work(NamedTuple):
    """writes: whether other servers have anything to do for it."""

    name: str
    title: str
    unit: str
    flags: Mapping[str, str | int]
    writes: bool = False


# For one server; clients, watchers and counts are that many times for more. An operation of a watch is an event of one watcher.
WORK = (
    Work("get", "get, 32 clients", "/s", {"workload": "get", "clients": 32, "duration": "4s"}),
    Work("list-500", "list limit=500, 4 clients", "pages/s", {"workload": "list-500", "clients": 4, "duration": "4s"}),
    Work(
        "watch", "watch: 50 watchers, 300 creates", "events/s", {"workload": "watch", "watchers": 50, "count": 300, "clients": 16}
    ),
    Work("create", "create, 32 clients", "/s", {"workload": "create", "clients": 32, "count": 1500}, writes=True),
)


@dataclass(frozen=True)
class Cost:
    """What one workload took: CPU seconds of each server and of etcd, for so many operations in so many seconds.

    idle: CPU seconds in a second of a server that has no requests.
    """

    rate: float
    operations: int
    servers: Sequence[float]
    etcd: float
    seconds: float = 0.0
    idle: float = 0.0

    @property
    def busiest(self) -> float:
        """CPU seconds of the busiest server for an operation of all."""
        return max(self.servers) / self.operations


class Model(NamedTuple):
    """CPU seconds: own, of a server for an operation that it serves; other, for one that another server serves."""

    own: float
    other: float

    def factor(self, servers: int) -> float:
        """The rate of so many servers, as a factor of that of one, if each has a core."""
        return servers * self.own / (self.own + (servers - 1) * self.other)


def model(aside: Cost) -> Model:
    """From a run in which all requests went to the first server."""
    first, *others = (max(0.0, spent - aside.idle * aside.seconds) for spent in aside.servers)
    return Model(first / aside.operations, sum(others) / len(others) / aside.operations)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replicas", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--servers", type=int, nargs="+", default=[1, 2, 4], help="numbers of servers (default 1 2 4)")
    parser.add_argument("--rounds", type=int, default=2, help="turns of each number; the least CPU time counts (default 2)")
    parser.add_argument("--write-docs", action="store_true", help=f"write the table to its section of {PAGE.name}")
    options = parser.parse_args(arguments)
    if options.servers[0] != 1 or len(options.servers) < 2:
        parser.error("--servers: one, and others to compare with it")
    try:
        with scratch_folder() as folder:
            costs = _measure(folder, options.servers, options.rounds, progress())
    except (BinariesError, LoadError, ProcessError, ToolchainError) as error:
        print(f"no result: {error}", file=sys.stderr)
        return 1
    text = replicas_document(costs, options.rounds, conditions())
    show(text, PAGE, SECTION, write=options.write_docs)
    return 0


Costs = dict[str, dict[int, Cost]]

# In place of a number of servers: the largest number, with all requests sent to the first one.
ASIDE = 0


def _measure(folder: Path, numbers: Sequence[int], rounds: int, say: Say) -> Costs:
    """By workload and number of servers."""
    best: Costs = {}
    binaries = obtain(os.environ, say)
    load = build(folder, say)
    definitions = folder / "definitions"
    definitions.mkdir()
    (definitions / "crontab.yaml").write_text(DEFINITION.read_text())
    with (
        ControlPlane(binaries, folder=folder / "plane", controllers=("serviceaccount-controller",)) as plane,
        ExitStack() as stack,
    ):
        access = kubeconfig_access(plane.kubeconfig, folder / "access")
        call(access, "POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        etcd = stack.enter_context(_etcd(binaries.etcd, folder))
        common = _Common(plane, access, etcd, definitions, folder)
        with _replicas(common, 1) as (one, _):
            run_load(load, one, {"workload": "create", "clients": 32, "count": OBJECTS, "namespace": NAMESPACE})
        for turn in range(rounds):
            for number in numbers:
                with _replicas(common, number) as (servers, pids):
                    idle = _idle(pids)
                    measured = [(number, servers, number)]
                    if number == max(numbers):
                        measured.append((ASIDE, replace(servers, server=servers.server.partition(",")[0]), 1))
                    for key, to, times in measured:
                        for work in WORK:
                            flags = _flags(work, times, f"{work.name}-{turn}-{key}")
                            cost = _cost(load, to, pids, etcd.pid, flags, idle)
                            known = best.setdefault(work.name, {}).get(key)
                            if known is None or cost.busiest < known.busiest:
                                best[work.name][key] = cost
                            each = ", ".join(f"{1e3 * cpu / cost.operations:.3f}" for cpu in cost.servers)
                            say(f"{times} of {number} servers, {work.title}: {cost.rate:,.0f} {work.unit}, CPU ms each {each}")
    return best


def _flags(work: Work, times: int, prefix: str) -> dict[str, str | int]:
    flags: dict[str, str | int] = {"namespace": NAMESPACE, "objects": OBJECTS, "connections": CONNECTIONS * times, **work.flags}
    for name in ("clients", "watchers"):
        if name in flags:
            flags[name] = int(flags[name]) * times
    if work.name == "create":
        flags["count"] = int(flags["count"]) * times
    if "count" in flags:
        flags["prefix"] = prefix
    return flags


def _idle(pids: Sequence[int]) -> float:
    """CPU seconds in a second of a server that nobody asks, the mean of all."""
    before = sum(map(_seconds, pids))
    time.sleep(IDLE_SECONDS)
    return (sum(map(_seconds, pids)) - before) / IDLE_SECONDS / len(pids)


def _cost(load: Path, servers: Access, pids: Sequence[int], etcd: int, flags: Mapping[str, str | int], idle: float) -> Cost:
    began = time.monotonic()
    before = [_seconds(pid) for pid in (*pids, etcd)]
    result = run_load(load, servers, flags)
    *spent, of_etcd = (_seconds(pid) - was for pid, was in zip((*pids, etcd), before, strict=True))
    operations = result["operations"] + result["warmup_operations"]
    return Cost(result["rate_per_second"], operations, spent, of_etcd, time.monotonic() - began, idle)


def _seconds(pid: int) -> float:
    return sum(thread_seconds(pid).values())


@dataclass(frozen=True)
class _Etcd:
    url: str
    pid: int


@dataclass(frozen=True)
class _Common:
    plane: ControlPlane
    access: Access
    etcd: _Etcd
    definitions: Path
    folder: Path


@contextmanager
def _etcd(program: Path, folder: Path) -> Iterator[_Etcd]:
    client, peer = (f"http://127.0.0.1:{port}" for port in free_ports(2))
    own = [f"--data-dir={folder / 'etcd'}", f"--listen-client-urls={client}", f"--advertise-client-urls={client}"]
    cluster = [f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}"]
    guard = Guard(None)
    process = Process("etcd", [str(program), *own, *cluster, "--log-level=warn"], folder / "etcd.log", {}, guard)
    try:
        yield _Etcd(client, process.pid)
    finally:
        end([process], STOP_SECONDS)
        guard.dismiss()


@contextmanager
def _replicas(common: _Common, number: int) -> Iterator[tuple[Access, Sequence[int]]]:
    """Access to so many servers, all of which have their caches, and their process ids."""
    ports = free_ports(number)
    guard = Guard(None)
    processes: list[Process] = []
    try:
        processes += [_server(common, port, guard) for port in ports]
        for port, process in zip(ports, processes, strict=True):
            _wait(replace(common.access, server=f"https://127.0.0.1:{port}"), process)
        servers = ",".join(f"https://127.0.0.1:{port}" for port in ports)
        yield replace(common.access, server=servers), [process.pid for process in processes]
    finally:
        end(processes, STOP_SECONDS)
        guard.dismiss()


def _server(common: _Common, port: int, guard: Guard) -> Process:
    plane, data = common.plane, common.folder / f"server-{port}"
    where = ["--bind-address", "127.0.0.1", "--secure-port", str(port), "--data", str(data)]
    service = ["--service-name", "bench", "--service-namespace", NAMESPACE]
    # kube-apiserver's own certificate, so that one authority is enough.
    certificate = [f"--tls-cert-file={plane.serving.certificate}", f"--tls-private-key-file={plane.serving.key}"]
    storage = ["--storage", "etcd", "--etcd-servers", common.etcd.url, "--definitions", str(common.definitions)]
    command = [sys.executable, "-m", "aggserver", "serve", "--kubeconfig", str(plane.kubeconfig)]
    environment = {"PATH": os.environ["PATH"], "HOME": str(common.folder), "PYTHONPATH": str(REPOSITORY)}
    log = common.folder / f"server-{port}.log"
    return Process("aggserver", [*command, *where, *service, *certificate, *storage], log, environment, guard)


def _wait(access: Access, process: Process) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while True:
        process.check()
        try:
            wait_until_served(access, f"{COLLECTION}?limit=1")
            return
        except urllib.error.URLError as error:
            if time.monotonic() > deadline:
                raise LoadError(f"{access.server} does not answer: {error}") from error
            time.sleep(0.05)


def replicas_document(costs: Costs, rounds: int, made: Mapping[str, Any]) -> str:
    """The table and the model."""
    lines = [
        f"{machine(made, alone=True)}, {OBJECTS:,} objects, HTTP/2, rounds: {rounds}.",
        "",
        "| work, for each server | servers | rate on these cores | CPU ms each: busiest server | all servers | etcd | factor |",
        "|---|---|---|---|---|---|---|",
    ]
    for work in WORK:
        for number, cost in sorted(costs[work.name].items()):
            if number != ASIDE:
                each = (cost.busiest, sum(cost.servers) / cost.operations, cost.etcd / cost.operations)
                factor = costs[work.name][1].busiest / cost.busiest
                rate = f"{cost.rate:,.0f}{'' if work.unit.startswith('/') else ' '}{work.unit}"
                lines.append(f"| {' | '.join([work.title, str(number), rate, *map(_milliseconds, each)])} | {factor:.2f}x |")
    lines += ["", f"| work | own, CPU ms | of another, CPU ms | {' | '.join(f'{n} servers' for n in MODELLED)} | at most |"]
    lines.append("|" + "---|" * (4 + len(MODELLED)))
    for work in (work for work in WORK if work.writes):
        found = model(costs[work.name][ASIDE])
        more = [f"{found.factor(number):.1f}x" for number in MODELLED]
        most = f"{found.own / found.other:,.0f}x"
        lines.append(
            f"| {work.title} | {_milliseconds(found.own)} | {_milliseconds(found.other)} | {' | '.join(more)} | {most} |"
        )
    return "\n".join(lines)


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3g}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
