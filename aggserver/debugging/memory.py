"""`/debug/memory`: what the process holds, by resource, and on request where memory was allocated.

Sizes are those of stored objects; Python's own for them come on top, about 200 bytes an object.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import tracemalloc
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from aggserver.debugging.sampler import Busy
from aggserver.meta.json_types import JSONObject
from aggserver.registry.environment import Environment
from aggserver.workers import Workers

__all__ = ["allocations", "report"]

# Places of allocations that are shown.
_PLACES = 100
_STATUS = Path("/proc/self/status")
# Lines of Linux' /proc/self/status: resident memory now and at most, and threads.
_WANTED = ("VmRSS", "VmHWM", "VmSwap", "Threads")

_tracing = threading.Lock()


async def report(environment: Environment, pools: Iterable[Workers], counts: Mapping[str, Callable[[], int]]) -> JSONObject:
    """counts: further numbers by name, such as of open connections."""
    caches = [await cacher.footprint() for cacher in list(environment.cachers.values())]
    waiting = {pool.name: pool.waiting for pool in pools}
    return {
        "process": _process(),
        "garbageCollector": {
            "objectsByGeneration": list(gc.get_count()),
            "collections": [each["collections"] for each in gc.get_stats()],
        },
        "counts": {"tasks": len(asyncio.all_tasks()), **{name: count() for name, count in counts.items()}},
        "caches": [
            {
                "resource": cache.prefix.strip("/"),
                "objects": cache.objects,
                "bytes": cache.bytes,
                "window": {"changes": cache.window_changes, "bytes": cache.window_bytes},
                "watches": {"count": cache.watches, "pendingEvents": cache.pending_events, "pendingBytes": cache.pending_bytes},
            }
            for cache in sorted(caches, key=lambda cache: (-cache.bytes - cache.window_bytes, cache.prefix))
        ],
        "converted": {"bytes": environment.converted.bytes},
        "queues": {name: {"waiting": count, "bytes": size} for name, (count, size) in sorted(waiting.items())},
    }


def _garbage_collector() -> JSONObject:
    return {"pending": list(gc.get_count()), "collections": [each["collections"] for each in gc.get_stats()]}


def _process() -> JSONObject:
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return {}
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return {name: fields[name].strip() for name in _WANTED if name in fields}


def allocations(stop: threading.Event, seconds: float) -> str:
    """Where memory was allocated in so many seconds that is still held after them. Blocks, so call it in a thread. Raises Busy.

    All allocations take about twice as long meanwhile.
    """
    if not _tracing.acquire(blocking=False) or tracemalloc.is_tracing():
        raise Busy
    try:
        tracemalloc.start()
        try:
            stop.wait(seconds)
            snapshot = tracemalloc.take_snapshot()
            traced, overhead = tracemalloc.get_traced_memory()[0], tracemalloc.get_tracemalloc_memory()
        finally:
            tracemalloc.stop()
    finally:
        _tracing.release()
    found = snapshot.filter_traces([tracemalloc.Filter(inclusive=False, filename_pattern=tracemalloc.__file__)])
    lines = [f"{traced} bytes allocated in {seconds:g} s are still held; tracing took {overhead} bytes\n"]
    for each in found.statistics("lineno")[:_PLACES]:
        place = each.traceback[0]
        lines += [f"{each.size} bytes in {each.count} pieces: {place.filename}:{place.lineno}\n"]
    return "".join(lines)
