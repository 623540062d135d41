"""CPU time and memory of a process and all its descendants, read from /proc (Linux), and the size of its files."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Usage", "children", "file_bytes", "thread_seconds", "usage"]

PROC = Path("/proc")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    """CPU seconds since the start of the process, resident bytes now, and their peak. For several processes, the sums."""

    cpu_seconds: float = 0.0
    resident_bytes: int = 0
    peak_bytes: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.cpu_seconds + other.cpu_seconds,
            self.resident_bytes + other.resident_bytes,
            self.peak_bytes + other.peak_bytes,
        )


def children(pid: int) -> dict[int, str]:
    """The process's direct children and the names of their programs, which the kernel cuts after 15 characters."""
    found = {}
    for folder in PROC.glob("[0-9]*"):
        if (fields := _stat(int(folder.name))) is not None and int(fields[2]) == pid:
            found[int(folder.name)] = fields[0]
    return found


def usage(pid: int) -> Usage:
    """The usage of the process and its descendants. A process that ends meanwhile is not counted."""
    # Rss of smaps_rollup, because the kernel updates the counters in status only now and then.
    resident = _kilobytes(pid, "smaps_rollup", "Rss:") * 1024
    total = Usage(_cpu_seconds(pid), resident, max(resident, _kilobytes(pid, "status", "VmHWM:") * 1024))
    for child in children(pid):
        total += usage(child)
    return total


def thread_seconds(pid: int) -> dict[int, float]:
    """CPU seconds of each thread that a process has now, by the scheduler's own accounting in nanoseconds."""
    found = {}
    for file in (PROC / str(pid) / "task").glob("*/schedstat"):
        with contextlib.suppress(OSError):
            found[int(file.parent.name)] = int(file.read_text().split()[0]) / 1e9
    return found


def _cpu_seconds(pid: int) -> float:
    fields = _stat(pid)
    # utime and stime, then those of children that ended and were waited for: fields 14 to 17 of proc_pid_stat(5).
    return 0.0 if fields is None else sum(map(int, fields[12:16])) / TICKS_PER_SECOND


def _kilobytes(pid: int, file: str, name: str) -> int:
    with contextlib.suppress(OSError, StopIteration):
        lines = (PROC / str(pid) / file).read_text().splitlines()
        return int(next(line for line in lines if line.startswith(name)).split()[1])
    return 0


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/<pid>/stat from the second on. The name in parentheses may contain anything, so it is removed."""
    try:
        text = (PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    name, _, rest = text.partition("(")[2].rpartition(")")
    return [name, *rest.split()]


def file_bytes(folder: Path) -> int:
    """Bytes of all files in a folder and below. A file that is deleted meanwhile is not counted."""
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size if path.is_file() else 0
    return total
