"""`python -m benchmarks.layers`: where the CPU time of a request goes, layer by layer, in one server under load.

Each work runs twice on the same server: once undisturbed, for the CPU time of each thread by the scheduler's accounting, and once
under py-spy, which takes the stacks of all threads with their native frames, for the shares of the layers in a thread's time. A
stack belongs to the layer of its innermost frame that has one: time in orjson is JSON's, whoever calls it, and time in the
interpreter or in a library without a row is that of the nearest caller with one. Samples of a thread that waits for a lock or for
sockets do not count. py-spy stops the process for each sample, so its run is slower, and its own rate says nothing.

py-spy is installed beside aggserver in the version of constraints.txt where it is missing. It must be allowed to trace the
server: as root, or with kernel.yama.ptrace_scope=0. `--write-docs` writes the table into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.client import LoadError, build, run_load
from benchmarks.processes import thread_seconds
from benchmarks.report import Section, machine
from benchmarks.run import Say, conditions, define, progress, scratch_folder, show
from benchmarks.servers import REPOSITORY, Aggserver
from tests.controlplane.binaries import BinariesError
from tests.controlplane.processes import ProcessError
from tests.controlplane.toolchain import ToolchainError

__all__ = ["LAYERS", "OTHER", "Work", "layer_of", "layers_document", "main", "profile", "samples_of"]

PAGE = REPOSITORY / "docs" / "benchmarks.md"
SECTION = Section("layers", ".layers")
PROFILER = Path(sys.executable).with_name("py-spy")
NAMESPACE = "bench"
# How many objects there are, and how many in turn have the same label `group`.
OBJECTS, IN_GROUP = 5000, 10
SAMPLES_A_SECOND = 200
# Below that a share says nothing: with so few samples of a layer, its error is half of it.
FEW = 4


class Work(NamedTuple):
    name: str
    unit: str
    flags: Mapping[str, str | int]


WORK = (
    Work("get", "request", {"workload": "get", "clients": 32, "duration": "8s"}),
    Work("create", "request", {"workload": "create", "clients": 32, "count": 2000}),
    Work("merge patch", "request", {"workload": "merge-patch", "clients": 32, "duration": "8s"}),
    Work("apply", "request", {"workload": "apply", "clients": 32, "duration": "8s"}),
    Work("list of 10", "request", {"workload": "list-all", "selector": "group=group-000077", "clients": 32, "duration": "8s"}),
    Work("list 500", "page", {"workload": "list-500", "clients": 4, "duration": "8s"}),
    Work("watch", "event", {"workload": "watch", "watchers": 100, "count": 300, "clients": 16}),
)

# Name of a layer, and what a frame of it matches: `function (file)` as py-spy writes it. The first that matches counts.
LAYERS: tuple[tuple[str, str], ...] = (
    ("sockets", r"^(__)?(libc_)?(send|recv|sendmsg|recvmsg|read|write|writev|readv|accept4|epoll_ctl)(64)?(_nocancel)? \("),
    ("TLS", r"^SSLProtocol|\(.*(_ssl\.|libssl|libcrypto|ssl\.py)"),
    ("jh2", r"\((jh2/|.*_hazmat)"),
    ("JSON", r"\(.*orjson"),
    ("SQLite", r"\(.*(libsqlite3|_sqlite3|aggserver/storage/(sqlite|log|checksums|compactor))"),
    ("etcd's client", r"\(.*(cygrpc|grpc/|aggserver/storage/(etcd|kine))"),
    ("watchers", r"\(.*(aggserver/storage/watcher|aggserver/endpoints/handlers/watch)"),
    ("cache", r"\(.*aggserver/storage/"),
    ("metrics", r"\(.*(aggserver/monitoring/|prometheus_client/)"),
    ("HTTP/2 shell", r"\(.*aggserver/server/"),
    ("authentication", r"\(.*aggserver/authentication/"),
    ("authorization", r"\(.*(aggserver/authorization/|aggserver/standalone/)"),
    ("filters", r"\(.*aggserver/endpoints/(filters|lane|access|forms|fixed|impersonation|request_log|turns|compression)"),
    ("dispatch", r"\(.*aggserver/endpoints/(dispatch|installer|request|negotiation|loading|front_page)"),
    ("handlers", r"\(.*aggserver/endpoints/"),
    ("managedFields", r"\(.*aggserver/(merge|typed)/"),
    ("schema and CEL", r"\(.*(aggserver/(schema|cel|conversion)/|<generated from|<cel>)"),
    ("admission", r"\(.*aggserver/admission/"),
    ("metadata", r"\(.*aggserver/(meta|publish|scheme)/"),
    ("store", r"\(.*aggserver/(registry|apiextensions|resources|kinds)/"),
    ("controllers", r"\(.*aggserver/(controllers|informers)/"),
    ("event loop", r"\((.*uvloop|asyncio/|loop\.c)"),
)
OTHER = "other"
_WAITING = ("PyThread_acquire_lock_timed (", "epoll_pwait (", "epoll_wait (")
_THREAD = re.compile(r"thread \((\d+)\)")
_RULES = tuple((name, re.compile(rule)) for name, rule in LAYERS)


def layer_of(stack: Sequence[str]) -> str:
    """The layer of a stack. Its frames go from the outermost to the innermost."""
    for frame in reversed(stack):
        for name, rule in _RULES:
            if rule.search(frame):
                return name
    return OTHER


def samples_of(raw: Iterable[str]) -> dict[int, Counter[str]]:
    """Samples by thread and layer. raw: lines of py-spy's format of this name: frames, between semicolons, and their number.

    A thread that was only seen waiting has these samples, so that what little it did is not lost.
    """
    running: dict[int, Counter[str]] = defaultdict(Counter)
    waiting: dict[int, Counter[str]] = defaultdict(Counter)
    for line in raw:
        stack, _, count = line.rpartition(" ")
        thread = _THREAD.match(stack)
        if thread:
            frames = stack.split(";")[1:]
            counted = waiting if any(frame.startswith(_WAITING) for frame in frames) else running
            counted[int(thread[1])][layer_of(frames)] += int(count)
    return {**waiting, **running}


class Profile(NamedTuple):
    """microseconds: of CPU time for one operation, by layer. samples: how many there were, by layer."""

    microseconds: Mapping[str, float]
    samples: Counter[str]


def profile(spent: Mapping[int, float], operations: int, samples: Mapping[int, Counter[str]]) -> Profile:
    """spent: CPU seconds by thread. What a thread without samples has spent is `OTHER`."""
    found: dict[str, float] = defaultdict(float)
    total: Counter[str] = Counter()
    for thread, seconds in spent.items():
        layers = samples.get(thread) or Counter({OTHER: 1})
        for layer, count in layers.items():
            found[layer] += 1e6 * seconds / operations * count / layers.total()
        total += samples.get(thread, Counter())
    return Profile(found, total)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.layers", description=(__doc__ or "").partition("\n")[0])
    names = [work.name for work in WORK]
    parser.add_argument(
        "--work", nargs="+", choices=names, default=names, metavar="NAME", help=f"only these of {', '.join(names)}"
    )
    parser.add_argument("--stacks", type=Path, metavar="FOLDER", help="keep py-spy's stacks there, for a flame graph")
    parser.add_argument("--write-docs", action="store_true", help=f"write the table to its section of {PAGE.name}")
    options = parser.parse_args(arguments)
    try:
        found = _measure([work for work in WORK if work.name in options.work], options.stacks, progress())
    except (BinariesError, LoadError, ProcessError, ToolchainError) as error:
        print(f"no result: {error}", file=sys.stderr)
        return 1
    text = layers_document(found, conditions())
    show(text, PAGE, SECTION, write=options.write_docs)
    return 0


def _measure(chosen: Sequence[Work], stacks: Path | None, say: Say) -> dict[str, Profile]:
    _install(say)
    found = {}
    with scratch_folder() as folder:
        binary = build(folder, say)
        with Aggserver(folder / "aggserver") as server:
            define(server.access, [NAMESPACE, f"{NAMESPACE}-create", f"{NAMESPACE}-watch"])
            begun: dict[str, str | int] = {
                "workload": "create",
                "clients": 32,
                "count": OBJECTS,
                "namespace": NAMESPACE,
                "in-group": IN_GROUP,
            }
            run_load(binary, server.access, begun)
            for work in chosen:
                kept = stacks or folder
                kept.mkdir(parents=True, exist_ok=True)
                file = kept / f"{work.name.replace(' ', '-')}.txt"
                flags = {"objects": OBJECTS, "namespace": NAMESPACE, **work.flags}
                if "count" in work.flags:
                    flags["namespace"] = f"{NAMESPACE}-{work.name}"
                before = thread_seconds(server.pid)
                result = run_load(binary, server.access, {**flags, "prefix": _prefix(work, "plain")})
                spent = {thread: seconds - before.get(thread, 0.0) for thread, seconds in thread_seconds(server.pid).items()}
                with _Profiler(server.pid, file):
                    run_load(binary, server.access, {**flags, "prefix": _prefix(work, "profiled")})
                operations = result["operations"] + result["warmup_operations"]
                found[work.name] = profile(spent, operations, samples_of(file.read_text().splitlines()))
                total = sum(found[work.name].microseconds.values())
                say(f"{work.name}: {total:.1f} µs of CPU time, {found[work.name].samples.total()} samples")
    return found


def _prefix(work: Work, turn: str) -> str:
    return turn if "count" in work.flags else "obj"


class _Profiler:
    """py-spy on a process, while this context is open. Raises LoadError if it can't trace it."""

    def __init__(self, pid: int, file: Path) -> None:
        command = [
            str(PROFILER),
            "record",
            "--native",
            "--threads",
            "--format",
            "raw",
            "--rate",
            str(SAMPLES_A_SECOND),
            "--pid",
            str(pid),
        ]
        self._command = [*command, "--output", str(file)]

    def __enter__(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def __exit__(self, *error: object) -> None:
        self._process.send_signal(signal.SIGINT)
        said, _ = self._process.communicate()
        if self._process.returncode and not any(error):
            raise LoadError(f"py-spy ended with {self._process.returncode}: {said[-500:]}")


def _install(say: Say) -> None:
    if not PROFILER.exists():
        say("installing py-spy")
        command = [sys.executable, "-m", "pip", "install", "-q", "-c", str(REPOSITORY / "constraints.txt"), "py-spy"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise LoadError(f"py-spy could not be installed:\n{done.stdout}{done.stderr}")


def layers_document(found: Mapping[str, Profile], made: Mapping[str, Any]) -> str:
    """The table: µs of CPU time by layer."""
    units = {work.name: work.unit for work in WORK}
    lines = [
        f"{machine(made, alone=True)}, {OBJECTS:,} objects, HTTP/2, SQLite. µs of CPU time, for each:",
        "",
        f"| layer | {' | '.join(f'{name}: {units[name]}' for name in found)} |",
        "|" + "---|" * (1 + len(found)),
    ]
    names = [name for name, _ in LAYERS] + [OTHER]
    for name in names:
        cells = [_cell(profile, name) for profile in found.values()]
        if any(cells):
            lines.append(f"| {name} | {' | '.join(cells)} |")
    totals = [_number(sum(profile.microseconds.values())) for profile in found.values()]
    samples = [f"{profile.samples.total():,}" for profile in found.values()]
    return "\n".join([*lines, f"| **all** | {' | '.join(totals)} |", f"| samples | {' | '.join(samples)} |"])


def _cell(profile: Profile, name: str) -> str:
    return _number(profile.microseconds[name]) if profile.samples[name] >= FEW and profile.microseconds[name] else ""


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
