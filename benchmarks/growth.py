"""How the figures change with the number of objects, up to half a million.

Each server starts empty: it gets objects up to a size, is measured, restarted on the same data, and grows to the next size.
kube-apiserver stops at BASELINE_LIMIT, because more would take too long and exceed etcd's default quota. benchmarks.growth_report
describes the report and makes its table.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.client import LoadError, build, call, run_load
from benchmarks.growth_report import Stage
from benchmarks.report import BASELINE, MEASURED, number
from benchmarks.run import COLLECTION, Say, conditions, define, memory, scratch_folder, settle
from benchmarks.servers import Aggserver, KubeApiserver, Server
from tests.controlplane.binaries import obtain
from tests.controlplane.processes import ProcessError

__all__ = ["SIZES", "grow"]

SIZES = (1_000, 10_000, 100_000, 500_000)
BASELINE_LIMIT = 100_000

CLIENTS = 32
SECONDS = 4.0  # of lists

# Bytes of an object as sent; with the fields that servers add, about 2 KB.
OBJECT_SIZE = 1800

# The objects are spread over namespaces. One has few of them at every size, for the informer of one namespace.
NAMESPACES = 50
SPREAD = "bench"
SMALL = "bench-small"
SMALL_OBJECTS = 100

# The last creates before a size is reached are measured: at most this many, and at most half of all.
MEASURED_CREATES = 2000

# Number of watches that are started one after the other.
WATCHES = 50

PAGE = 500

Make = Callable[[], Server]
Load = Callable[[Mapping[str, str | int]], dict[str, Any]]


def grow(sizes: Sequence[int], servers: Sequence[str], say: Say) -> dict[str, Any]:
    """Measure these sizes, smallest first; a server whose load fails ends there, and the report says so.

    Raises LoadError when the load client can't be built, BinariesError, ToolchainError.
    """
    stages: list[Stage] = []
    failed: dict[str, str] = {}
    with scratch_folder() as folder:
        say("building the load client")
        binary = build(folder, say)
        for name in servers:
            wanted = [size for size in sorted(sizes) if name != BASELINE or size <= BASELINE_LIMIT]
            try:
                _grow_one(_maker(name, folder, say), wanted, partial(run_load, binary), stages, say)
            except (LoadError, ProcessError, OSError) as error:
                failed[name] = str(error)
                say(f"{name}: no more figures: {error}")
    options = {"sizes": sorted(sizes), "servers": list(servers), "baseline_limit": BASELINE_LIMIT}
    return {**conditions(), "options": options, "failed": failed, "stages": [asdict(stage) for stage in stages]}


def _maker(name: str, folder: Path, say: Say) -> Make:
    if name == MEASURED:
        return lambda: Aggserver(folder / name)
    binaries = obtain(os.environ, say)
    return lambda: KubeApiserver(binaries, folder / name)


def _grow_one(make: Make, sizes: Sequence[int], load: Callable[..., dict[str, Any]], stages: list[Stage], say: Say) -> None:
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(make())
        define(server.access, [*(f"{SPREAD}-{index:02}" for index in range(NAMESPACES)), SMALL])
        _create(partial(load, server.access), SMALL_OBJECTS, "small", namespace=SMALL)
        there = SMALL_OBJECTS
        for size in sizes:
            figures = _measure(server, partial(load, server.access), there, size)
            there = size
            stack.close()
            server = stack.enter_context(make())
            stages.append(Stage(server.name, size, **figures, **_first_answer(server)))
            say(_summary(stages[-1]))


def _measure(server: Server, load: Load, there: int, size: int) -> dict[str, float]:
    """Fills the server up to `size` and measures it."""
    counted = min(MEASURED_CREATES, (size - there) // 2)
    _create(load, size - there - counted - 1, f"to-{size}", namespaces=NAMESPACES)
    settle([server])
    created = _create(load, counted, f"last-{size}", namespaces=NAMESPACES)
    revision = json.loads(call(server.access, "GET", f"{COLLECTION}?limit=1"))["metadata"]["resourceVersion"]
    # The event that a watch from the resourceVersion before it gets immediately.
    _create(load, 1, f"one-{size}", namespaces=NAMESPACES)
    settle([server])
    lists = load({"workload": "list-500", "namespace": "", "clients": CLIENTS // 8, "duration": f"{SECONDS}s"})
    watches = {"clients": 1, "connections": 1, "count": WATCHES}
    begun = load(watches | {"workload": "watch-from", "namespace": "", "revision": revision})
    informed = load(watches | {"workload": "watch-list", "namespace": SMALL, "events": SMALL_OBJECTS + 1})
    settle([server])
    return {
        "live_bytes": lists["bytes"] / lists["operations"] / PAGE * size,
        "creates_per_second": created["rate_per_second"],
        "pages_per_second": lists["rate_per_second"],
        "watch_ms": begun["p50_ms"],
        "watch_list_ms": informed["p50_ms"],
        "memory_bytes": sum(memory(server).values()),
        "stored_bytes": server.stored_bytes(),
    }


def _create(load: Load, count: int, prefix: str, **where: str | int) -> dict[str, Any]:
    flags: dict[str, str | int] = {
        "workload": "create",
        "clients": CLIENTS,
        "count": count,
        "size": OBJECT_SIZE,
        "prefix": prefix,
        "namespace": SPREAD,
    }
    return load(flags | where)


def _first_answer(server: Server) -> dict[str, float]:
    """Restart the server, and measure it until the first list is answered."""
    began = time.monotonic()
    call(server.access, "GET", f"{COLLECTION}?limit={PAGE}")
    listed = time.monotonic() - began
    settle([server])
    return {
        "ready_seconds": server.start_seconds,
        "listed_seconds": server.start_seconds + listed,
        "loaded_bytes": sum(memory(server).values()),
        "peak_bytes": sum(use.peak_bytes for use in server.usage().values()),
    }


def _summary(stage: Stage) -> str:
    return (
        f"{stage.server} with {number(stage.objects)} objects: create {number(stage.creates_per_second)}/s, "
        f"{number(stage.pages_per_second)} pages/s, watch {number(stage.watch_ms)} ms, {number(stage.memory_bytes / 1e6)} MB, "
        f"restarted, ready after {number(stage.ready_seconds)} s, listed after {number(stage.listed_seconds)} s, "
        f"{number(stage.loaded_bytes / 1e6)} MB, peak {number(stage.peak_bytes / 1e6)} MB"
    )
