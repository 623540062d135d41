"""`python -m benchmarks.fairness`: how long one client's gets take while another lists all objects on 200 connections.

Both clients are ordinary users, each with a certificate of its own. The reader gets one object after another on its one
connection, first alone, then beside the lister, which has a request in flight on each of its connections all the time. The aim is
that the 99th percentile of the gets stays within three times of that of the reader alone. `--write-docs` writes the table into
docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.client import Access, LoadError, build, call, run_load
from benchmarks.report import BASELINE, MEASURED, Section, machine, number
from benchmarks.run import COLLECTION, Say, conditions, define, progress, scratch_folder, server_of, settle, show
from benchmarks.servers import REPOSITORY, Server
from tests.controlplane.binaries import BinariesError
from tests.controlplane.processes import ProcessError
from tests.controlplane.toolchain import ToolchainError

__all__ = ["Figures", "fairness_document", "main"]

PAGE = REPOSITORY / "docs" / "benchmarks.md"
SECTION = Section("fairness", ".fairness")
NAMESPACE = "bench"
LISTER, READER = "lister", "reader"
AIM = 3.0  # times the reader's p99 when it is alone
LOADS = {"list-all": "all objects as JSON", "table-500": "pages of 500 as Tables"}
# Seconds until the lister has all its connections and the server is busy.
RISING = 3.0


@dataclass(frozen=True)
class Figures:
    """Milliseconds of the reader's gets, alone and beside the lister, and what the lister got meanwhile."""

    server: str
    load: str
    alone_p50: float
    alone_p99: float
    p50: float
    p99: float
    lists_per_second: float


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fairness", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--objects", type=int, default=1000, help="objects in the list (default 1000)")
    parser.add_argument("--connections", type=int, default=200, help="connections of the lister (default 200)")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measurement (default 8)")
    parser.add_argument("--rounds", type=int, default=3, help="of each row; the median is told (default 3)")
    parser.add_argument("--load", choices=list(LOADS), nargs="+", default=list(LOADS), help="what the lister asks for")
    parser.add_argument("--only", choices=[BASELINE, MEASURED], help="measure only this server")
    parser.add_argument("--write-docs", action="store_true", help=f"write the table to its section of {PAGE.name}")
    options = parser.parse_args(arguments)
    say = progress()
    found: list[Figures] = []
    try:
        with scratch_folder() as folder:
            binary = build(folder, say)
            for name in [options.only] if options.only else [BASELINE, MEASURED]:
                with server_of(name, folder, say) as server:
                    found += _measure(server, binary, options, say)
    except (LoadError, ProcessError, BinariesError, ToolchainError, OSError) as error:
        print(f"no result: {error}", file=sys.stderr)
        return 1
    text = fairness_document(found, options.objects, options.connections, conditions())
    show(text, PAGE, SECTION, write=options.write_docs)
    return 0


def _measure(server: Server, binary: Path, options: argparse.Namespace, say: Say) -> list[Figures]:
    define(server.access, [NAMESPACE])
    flags: dict[str, str | int] = {"namespace": NAMESPACE, "objects": options.objects}
    run_load(binary, server.access, {**flags, "workload": "create", "clients": 16, "count": options.objects})
    for name in (LISTER, READER):
        _allow(server.access, name)
    lister, reader = server.user(LISTER), server.user(READER)
    call(reader, "GET", f"{COLLECTION}?limit=1")
    reading = {**flags, "workload": "get", "clients": 1, "connections": 1, "duration": f"{options.seconds}s"}
    found = []
    for load in options.load:
        rounds = []
        for _ in range(options.rounds):
            settle([server])
            alone = run_load(binary, reader, reading)
            listing = {
                **flags,
                "workload": load,
                "clients": options.connections,
                "connections": options.connections,
                "persist": "true",
                "warmup": f"{RISING}s",
                "duration": f"{options.seconds + 1}s",
            }
            with ThreadPoolExecutor(1) as beside:
                lists = beside.submit(run_load, binary, lister, listing)
                time.sleep(RISING)
                busy = run_load(binary, reader, reading)
                rate = lists.result()["rate_per_second"]
            rounds.append(Figures(server.name, load, alone["p50_ms"], alone["p99_ms"], busy["p50_ms"], busy["p99_ms"], rate))
            say(f"{server.name}, {load}: p99 {alone['p99_ms']:.2f} -> {busy['p99_ms']:.2f} ms, {rate:.0f} lists/s")
        found.append(sorted(rounds, key=lambda each: each.p99 / each.alone_p99)[len(rounds) // 2])
    return found


def _allow(access: Access, user: str) -> None:
    """Let a user read everything."""
    group = "rbac.authorization.k8s.io"
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
    metadata = {"name": f"bench-{user}"}
    roles = f"/apis/{group}/v1/clusterroles"
    call(access, "POST", roles, {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules})
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": f"bench-{user}"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }
    call(access, "POST", f"/apis/{group}/v1/clusterrolebindings", binding)


def fairness_document(found: Sequence[Figures], objects: int, connections: int, made: Mapping[str, Any]) -> str:
    """The table."""
    lines = [
        f"{machine(made)}, {objects:,} objects of 3.7 KB, {connections} connections of the lister, HTTP/2. Gets of the reader in "
        f"milliseconds; in bold a 99th percentile within {AIM:.0f} times that of the reader alone.",
        "",
        "| the lister asks for | server | alone: p50 | alone: p99 | beside it: p50 | beside it: p99 | times | lists/s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for load in dict.fromkeys(each.load for each in found):
        for each in (one for one in found if one.load == load):
            times = each.p99 / each.alone_p99
            figures = (each.alone_p50, each.alone_p99, each.p50, each.p99)
            cells = [
                *map(number, figures),
                f"**{number(times)}**" if times <= AIM else number(times),
                number(each.lists_per_second),
            ]
            lines.append(f"| {LOADS[load]} | {each.server} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
