"""The table of growth: one row per size and server. Pure.

A report of growth is kept as JSON: `commit`, `date` and `machine` as in benchmarks.report, `options` (`sizes`, `servers`,
`baseline_limit`), `failed` by server, and `stages`, each the fields of a `Stage`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.report import BASELINE, MEASURED, machine, number

__all__ = ["Stage", "growth_document"]

# The aims. Memory: the live objects with a share for keys and indexes, the program and its window of recent events.
MEMORY_PER_LIVE_BYTE, MEMORY_BESIDE = 1.5, (80 + 64) * 1_000_000
# Seconds until ready: those of an empty store, and for each object.
READY_EMPTY, READY_PER_OBJECT = 0.5, 1 / 100_000


@dataclass(frozen=True)
class Stage:
    """One server at one size.

    live_bytes: size of all objects as served. watch_ms: until a watch has its first event; watch_list_ms: until an informer of a
    namespace with 100 objects has them and their bookmark; both are medians. memory_bytes: resident memory at this size;
    stored_bytes: size of the files. The other fields are those after a restart: seconds from the start until ready, and until the
    first list is answered; resident memory after that, and its peak.
    """

    server: str
    objects: int
    live_bytes: float
    creates_per_second: float
    pages_per_second: float
    watch_ms: float
    watch_list_ms: float
    memory_bytes: float
    stored_bytes: float
    ready_seconds: float
    listed_seconds: float
    loaded_bytes: float
    peak_bytes: float

    @property
    def memory_met(self) -> bool:
        return max(self.memory_bytes, self.peak_bytes) <= MEMORY_PER_LIVE_BYTE * self.live_bytes + MEMORY_BESIDE

    @property
    def ready_met(self) -> bool:
        return self.ready_seconds <= READY_EMPTY + READY_PER_OBJECT * self.objects


COLUMNS: tuple[tuple[str, Callable[[Stage], str]], ...] = (
    ("live objects", lambda stage: _megabytes(stage.live_bytes)),
    ("create", lambda stage: f"{number(stage.creates_per_second)}/s"),
    ("list limit=500", lambda stage: f"{number(stage.pages_per_second)} pages/s"),
    ("watch begins", lambda stage: f"{number(stage.watch_ms)} ms"),
    ("WatchList of 100", lambda stage: f"{number(stage.watch_list_ms)} ms"),
    ("files", lambda stage: _megabytes(stage.stored_bytes)),
    (
        "memory: grown / started / peak",
        lambda stage: _bold(
            " / ".join(number(size / 1e6) for size in (stage.memory_bytes, stage.loaded_bytes, stage.peak_bytes)) + " MB",
            stage.server == MEASURED and stage.memory_met,
        ),
    ),
    (
        "start until ready",
        lambda stage: _bold(f"{number(stage.ready_seconds)} s", stage.server == MEASURED and stage.ready_met),
    ),
    ("until the first list", lambda stage: f"{number(stage.listed_seconds)} s"),
)


def growth_document(report: Mapping[str, Any]) -> str:
    """The text between the markers of growth in docs/benchmarks.md."""
    options = report["options"]
    stages = {(stage["server"], stage["objects"]): Stage(**stage) for stage in report["stages"]}
    lines = [f"| objects | server | {' | '.join(name for name, _ in COLUMNS)} |", "|---" * (len(COLUMNS) + 2) + "|"]
    for size in options["sizes"]:
        for server in options["servers"]:
            stage = stages.get((server, size))
            cells = [text(stage) for _, text in COLUMNS] if stage else ["n/a"] * len(COLUMNS)
            lines.append(f"| {number(size)} | {server} | {' | '.join(cells)} |")
    remarks = [f"- {server} ended early: {error}" for server, error in report["failed"].items()]
    if BASELINE in options["servers"] and max(options["sizes"]) > options["baseline_limit"]:
        remarks.append(
            f"- {BASELINE} is not measured beyond {number(options['baseline_limit'])} objects: filling it takes too long."
        )
    aims = f"In bold what reaches {MEASURED}'s aims: memory, its peak included, and start."
    return "\n\n".join(part for part in (f"{machine(report)}. {aims}", "\n".join(lines), "\n".join(remarks)) if part)


def _megabytes(size: float) -> str:
    return f"{number(size / 1e6)} MB"


def _bold(text: str, met: bool) -> str:
    return f"**{text}**" if met else text
