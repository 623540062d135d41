"""Memory during a long load of writes, and response times while hostile clients flood the servers.

- `soak`: one server after the other. CONNECTIONS clients with a connection each patch objects at full rate for some minutes.
After each
  minute the resident memory and the number of requests are recorded. Caches fill in the first minute; after that memory should
  not grow, and its growth is divided by the connections.
- `flood`: both servers run and take turns, because times are compared. An administrator requests /healthz, one request at a time,
  while HOSTILE connections without a certificate send SETTINGS, PING, requests of 1,900 fields, or endless header blocks
  continuously, and are opened again when they are closed. Then the same beside single requests, one at a time (`hostile.py`),
  the last of them with controllers that make Pods.

A report is kept as JSON: `commit`, `date` and `machine` as in benchmarks.report, `servers`,
`failed` by server, `held`: the minutes of `soak` or the runs of `flood`, and `single`: the figures of single requests.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.client import Access, LoadError, build, call, run_load
from benchmarks.hostile import single_requests, single_table
from benchmarks.hostile_requests import HOSTILE_REQUESTS
from benchmarks.hostile_workloads import HOSTILE_WORKLOADS
from benchmarks.report import BASELINE, MEASURED, machine, number
from benchmarks.run import Say, conditions, define, memory, scratch_folder, settle
from benchmarks.servers import Aggserver, KubeApiserver, Server
from tests.controlplane.binaries import obtain
from tests.controlplane.processes import ProcessError

__all__ = ["FLOODS", "flood", "hold_document", "requests_in", "soak"]

NAMESPACE = "bench"
OBJECTS = 1000
CONNECTIONS = 8
MINUTE = 60.0

HOSTILE = 8
FLOODS = ("", "settings", "ping", "headers", "continuation")  # without any for comparison
FLOOD_SECONDS = 8
ROUNDS = 2

# The aims: the growth of memory from the second minute on, and its growth per connection.
FLAT = 0.05
CONNECTION_BYTES = 100_000

_PATCHES = re.compile(rb'^apiserver_request_total\{[^}]*verb="PATCH"[^}]*\} (\S+)$', re.MULTILINE)


def soak(minutes: int, servers: Sequence[str], say: Say) -> dict[str, Any]:
    """Raises LoadError when the load client can't be built, BinariesError, ToolchainError."""
    held: list[dict[str, Any]] = []
    failed: dict[str, str] = {}
    with scratch_folder() as folder:
        binary = build(folder, say)
        for name in servers:
            try:
                with _server(name, folder, say) as server:
                    _prepare(binary, server)
                    _soak_one(binary, server, minutes, held, say)
            except (LoadError, ProcessError, OSError) as error:
                failed[name] = str(error)
                say(f"{name}: no more figures: {error}")
    return {**conditions(), "servers": list(servers), "minutes": minutes, "failed": failed, "held": held}


def _server(name: str, folder: Path, say: Say, *, pods: bool = False) -> Server:
    folder /= f"{name}-pods" if pods else name
    return Aggserver(folder, pods=pods) if name == MEASURED else KubeApiserver(obtain(os.environ, say), folder, pods=pods)


def _prepare(binary: Path, server: Server) -> None:
    define(server.access, [NAMESPACE])
    run_load(binary, server.access, {"workload": "create", "count": OBJECTS, "namespace": NAMESPACE})
    settle([server])


def _soak_one(binary: Path, server: Server, minutes: int, held: list[dict[str, Any]], say: Say) -> None:
    load = _Writers(binary, server.access, minutes)
    began, before = time.monotonic(), _patches(server.access)
    for minute in range(1, minutes + 1):
        load.wait(began + minute * MINUTE)
        requests = _patches(server.access) - before
        held.append({"server": server.name, "minute": minute, "requests": requests, "memory_bytes": memory(server)})
        resident = ", ".join(f"{program} {number(size / 1e6)} MB" for program, size in held[-1]["memory_bytes"].items())
        say(f"{server.name}, minute {minute}: {resident}, {number(requests)} requests")
    load.stop()


class _Writers:
    """The load client, which runs a little longer than the minutes, so that its connections are open when memory is read."""

    def __init__(self, binary: Path, access: Access, minutes: int) -> None:
        seconds = minutes * MINUTE + 5
        flags = {"workload": "merge-patch", "objects": OBJECTS, "namespace": NAMESPACE, "duration": f"{seconds}s"}
        self._flags: dict[str, str | int] = {**flags, "clients": CONNECTIONS, "connections": CONNECTIONS}
        self._error: LoadError | None = None
        self._thread = threading.Thread(target=self._run, args=(binary, access))
        self._thread.start()

    def _run(self, binary: Path, access: Access) -> None:
        try:
            run_load(binary, access, self._flags)
        except LoadError as error:
            self._error = error

    def wait(self, until: float) -> None:
        """Raises LoadError if the clients have ended."""
        self._thread.join(max(0.0, until - time.monotonic()))
        if not self._thread.is_alive():
            raise self._error or LoadError("the load client ended too soon")

    def stop(self) -> None:
        self._thread.join()
        if self._error is not None:
            raise self._error


def _patches(access: Access) -> int:
    return requests_in(call(access, "GET", "/metrics"))


def requests_in(metrics: bytes) -> int:
    """Number of patches that a server has answered, with any status, according to its /metrics."""
    return sum(int(float(value)) for value in _PATCHES.findall(metrics))


def flood(servers: Sequence[str], say: Say) -> dict[str, Any]:
    """Raises LoadError when a server can't be prepared, ProcessError when one ends, BinariesError, ToolchainError."""
    held: list[dict[str, Any]] = []
    failed: dict[str, str] = {}
    with scratch_folder() as folder, contextlib.ExitStack() as stack:
        binary = build(folder, say)
        running = [stack.enter_context(_server(name, folder, say)) for name in servers]
        for server in running:
            _prepare(binary, server)
        for kind in FLOODS:
            for turn in range(ROUNDS):
                for server in running:
                    settle(running)
                    flags = {"workload": "health", "clients": 1, "connections": 1, "duration": f"{FLOOD_SECONDS}s"}
                    try:
                        result = run_load(binary, server.access, flags | ({"flood": kind, "floods": HOSTILE} if kind else {}))
                    except LoadError as error:
                        server.check()
                        failed[f"{server.name}, {kind}"] = str(error)
                        say(f"{server.name}, {kind or 'quiet'}: {error}")
                        continue
                    held.append({"server": server.name, "flood": kind, "round": turn, "result": result})
                    say(f"{server.name}, {kind or 'quiet'}: p50 {number(result['p50_ms'])} p99 {number(result['p99_ms'])} ms")
        single, unanswered = single_requests(HOSTILE_REQUESTS, running, say)
    with scratch_folder() as folder, contextlib.ExitStack() as stack:
        running = [stack.enter_context(_server(name, folder, say, pods=True)) for name in servers]
        more, others = single_requests(HOSTILE_WORKLOADS, running, say)
    failed |= unanswered | others
    return {**conditions(), "servers": list(servers), "failed": failed, "held": held, "single": [*single, *more]}


def hold_document(report: Mapping[str, Any]) -> str:
    """The report as Markdown."""
    lines = _minutes(report) if "minutes" in report else [*_floods(report), "", *single_table(report)]
    remarks = [f"- {server} failed: {error}" for server, error in report["failed"].items()]
    return "\n\n".join(part for part in (f"{machine(report)}.", "\n".join(lines), "\n".join(remarks)) if part)


def _minutes(report: Mapping[str, Any]) -> list[str]:
    servers = report["servers"]
    lines = [f"| minute | {' | '.join(f'{name} | requests' for name in servers)} |", "|---" * (1 + 2 * len(servers)) + "|"]
    found = {(row["server"], row["minute"]): row for row in report["held"]}
    for minute in range(1, report["minutes"] + 1):
        cells = []
        for name in servers:
            row = found.get((name, minute))
            cells += [_megabytes(row), number(row["requests"])] if row else ["n/a", "n/a"]
        lines.append(f"| {minute} | {' | '.join(cells)} |")
    grown = [_grown([row for row in report["held"] if row["server"] == name and row["minute"] > 1]) for name in servers]
    for title, index in (("most, beside minute 2", 0), ("growth since then for each connection", 1)):
        cells = [_bold(text[index], name == MEASURED and met[index]) for name, (text, met) in zip(servers, grown, strict=True)]
        lines.append(f"| {title} | {' | | '.join(cells)} | |")
    return lines


def _megabytes(row: Mapping[str, Any]) -> str:
    return " + ".join(number(size / 1e6) for size in row["memory_bytes"].values()) + " MB"


def _grown(rows: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, str], tuple[bool, bool]]:
    """(largest change of memory, growth per connection), and whether these reach the aims.

    The whole growth is attributed to the connections, so this is the most that they can have taken.
    """
    if not rows:
        return ("n/a", "n/a"), (False, False)
    sizes = [sum(row["memory_bytes"].values()) for row in rows]
    away = max(abs(size - sizes[0]) for size in sizes) / sizes[0]
    each = max(0, sizes[-1] - sizes[0]) / CONNECTIONS
    return (f"{away:.1%}", f"{number(each / 1e3)} KB"), (away <= FLAT, each < CONNECTION_BYTES)


def _floods(report: Mapping[str, Any]) -> list[str]:
    columns = [f"{name}: p50 / p99 / most" for name in report["servers"]]
    lines = [f"| {HOSTILE} connections send | {' | '.join(columns)} |", "|---" * (1 + len(columns)) + "|"]
    for kind in FLOODS:
        worst = {name: _worst(report, kind, name) for name in report["servers"]}
        cells = []
        for name, figures in worst.items():
            text = " / ".join(f"{number(figure)}" for figure in figures) + " ms" if figures else "n/a"
            other = worst.get(BASELINE)
            cells.append(_bold(text, bool(name == MEASURED and figures and other and figures[1] <= other[1])))
        lines.append(f"| {kind.upper() or 'nothing'} | {' | '.join(cells)} |")
    return lines


def _worst(report: Mapping[str, Any], kind: str, server: str) -> tuple[float, float, float] | None:
    """(p50, p99, maximum) in milliseconds of the round with the longest p99."""
    results = [row["result"] for row in report["held"] if (row["flood"], row["server"]) == (kind, server)]
    return max(((r["p50_ms"], r["p99_ms"], r["max_ms"]) for r in results), key=lambda figures: figures[1], default=None)


def _bold(text: str, met: bool) -> str:
    return f"**{text}**" if met else text
