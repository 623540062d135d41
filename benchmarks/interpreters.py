"""`python -m benchmarks.interpreters`: what requests cost on each Python that users have, in one run.

One server at a time, `aggserver dev` on SQLite: with the interpreter that runs this, and in the images of the versions that
`make pythons` tests, where users' Pythons are: slim images, or Debian's packages where no registry can be had. They take turns
(A B C A B C), and the least CPU time of a work counts, by the scheduler's accounting: other programs make a turn slower, never
quicker. Needs Docker, or root and Debian's docker.io, as `make kind` does. `--write-docs` writes the table into
docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.client import Access, LoadError, build, run_load
from benchmarks.layers import Work
from benchmarks.processes import thread_seconds, usage
from benchmarks.report import Section, machine
from benchmarks.run import Say, conditions, define, progress, scratch_folder, show
from benchmarks.servers import REPOSITORY, Aggserver, ReadyWatch
from tests.controlplane.binaries import BinariesError
from tests.controlplane.processes import ProcessError
from tests.controlplane.toolchain import ToolchainError
from tests.kind import engine
from tests.kind.images import PYTHON_SUITES, Images, cache
from tests.worktree import copy_to

__all__ = ["HERE", "Figures", "interpreters_document", "main"]

PAGE = REPOSITORY / "docs" / "benchmarks.md"
SECTION = Section("interpreters", ".interpreters")
NAMESPACE = "bench"
OBJECTS = 2000
# The name of the interpreter that runs this, in the table.
HERE = "here"

# What describes a build: its version, and how it was optimized. Debian's packages do not tell: their rules have PGO and LTO.
_DESCRIBE = (
    "import platform, sys, sysconfig; arguments = sysconfig.get_config_var('CONFIG_ARGS') or ''; "
    "found = [name for flag, name in (('--enable-optimizations', 'PGO'), ('--with-lto', 'LTO')) if flag in arguments]; "
    "debian = sys.base_prefix == '/usr' and 'debian' in platform.freedesktop_os_release()['ID']; "
    "print(platform.python_version(), 'of Debian' if debian else 'with ' + ' and '.join(found) if found else 'without PGO')"
)


WORK = (
    Work("get", "request", {"workload": "get", "clients": 32, "duration": "4s"}),
    Work("create", "request", {"workload": "create", "clients": 32, "count": 1500}),
    Work("merge patch", "request", {"workload": "merge-patch", "clients": 32, "duration": "4s"}),
    Work("apply", "request", {"workload": "apply", "clients": 16, "duration": "4s"}),
    Work("list 500", "page", {"workload": "list-500", "clients": 4, "duration": "3s"}),
    Work("watch", "event", {"workload": "watch", "watchers": 100, "count": 200, "clients": 16}),
)


@dataclass
class Figures:
    """Of one Python. microseconds: the least CPU time of each work. resident: bytes of memory after the last turn."""

    build: str
    microseconds: dict[str, float] = field(default_factory=dict)
    resident: int = 0


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.interpreters", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("versions", nargs="*", default=[*PYTHON_SUITES], help="beside the one here (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=2, help="turns of each Python (default 2)")
    parser.add_argument("--write-docs", action="store_true", help=f"write the table to its section of {PAGE.name}")
    options = parser.parse_args(arguments)
    say = progress()
    try:
        engine.install(say)
        with engine.engine(cache(os.environ) / "docker", say), scratch_folder() as folder:
            found = _measure(folder, options.versions, options.rounds, say)
    except (BinariesError, LoadError, ProcessError, ToolchainError, engine.EngineError) as error:
        print(f"no result: {error}", file=sys.stderr)
        return 1
    text = interpreters_document(found, options.rounds, conditions())
    show(text, PAGE, SECTION, write=options.write_docs)
    return 0


def _measure(folder: Path, versions: Sequence[str], rounds: int, say: Say) -> dict[str, Figures]:
    binary = build(folder, say)
    images = Images(os.environ, say)
    copy_to(folder / "source")
    found = {HERE: Figures(engine.run(sys.executable, "-c", _DESCRIBE).strip())}
    pythons = {}
    for version in versions:
        pythons[version] = _Python(images.python(version), folder / f"python-{version}", folder / "source")
        say(f"installing aggserver on {pythons[version].image}")
        pythons[version].install()
        found[version] = Figures(pythons[version].run("python", "-c", _DESCRIBE).strip())
    for turn in range(rounds):
        for name, figures in found.items():
            data = folder / f"data-{name}-{turn}"
            with _here(data) if name == HERE else pythons[name].served(data) as server:
                _turn(binary, server, figures)
            costs = ", ".join(f"{work} {cost:.0f}" for work, cost in figures.microseconds.items())
            say(f"{figures.build}, µs of CPU time: {costs}")
    return found


class _Server(NamedTuple):
    access: Access
    pid: int


def _turn(binary: Path, server: _Server, figures: Figures) -> None:
    define(server.access, [NAMESPACE, *(f"{NAMESPACE}-{work.name}" for work in WORK if "count" in work.flags)])
    run_load(binary, server.access, {"workload": "create", "clients": 32, "count": OBJECTS, "namespace": NAMESPACE})
    for work in WORK:
        flags = {"objects": OBJECTS, "namespace": NAMESPACE, **work.flags}
        if "count" in work.flags:
            flags |= {"namespace": f"{NAMESPACE}-{work.name}", "prefix": "measured"}
        before = sum(thread_seconds(server.pid).values())
        result = run_load(binary, server.access, flags)
        spent = sum(thread_seconds(server.pid).values()) - before
        cost = 1e6 * spent / (result["operations"] + result["warmup_operations"])
        figures.microseconds[work.name] = min(cost, figures.microseconds.get(work.name, cost))
    figures.resident = usage(server.pid).resident_bytes


@contextmanager
def _here(folder: Path) -> Iterator[_Server]:
    with Aggserver(folder) as server:
        yield _Server(server.access, server.pid)


class _Python:
    """A Python in an image, with an environment in `folder` that has aggserver as it is installed for users."""

    def __init__(self, image: str, folder: Path, source: Path) -> None:
        self.image = image
        self._folder = folder
        self._source = source

    def run(self, *command: str | Path) -> str:
        volumes = [f"--volume={path}:{path}" for path in (self._folder, self._source)]
        return engine.run("docker", "run", "--rm", "--network=host", *volumes, self.image, *command)

    def install(self) -> None:
        self._folder.mkdir()
        python = self._folder / "bin" / "python"
        self.run("python", "-m", "venv", self._folder)
        constraints = self._source / "constraints.txt"
        self.run(python, "-m", "pip", "install", "--quiet", "--constraint", constraints, self._source)
        # As the image has it: a start that compiles each module would be another figure.
        self.run(python, "-m", "compileall", "-q", "-x", "/kubernetes/", self._folder / "lib")

    @contextmanager
    def served(self, data: Path) -> Iterator[_Server]:
        """`aggserver dev` in a container, in the machine's network, so that nothing lies between the client and it."""
        data.mkdir()
        volumes = [f"--volume={path}:{path}" for path in (self._folder, data)]
        watch = ReadyWatch(data / "data" / "kubeconfig", data / "access")
        dev = ["aggserver", "dev", "--data", data / "data", "--secure-port", "0"]
        own = ["--env=PYTHONDONTWRITEBYTECODE=1", "--network=host", "--detach", "--init"]
        name = engine.run("docker", "run", *own, *volumes, self.image, self._folder / "bin" / "python", "-m", *dev).strip()
        try:
            access, _ = watch.result()
            init = engine.run("docker", "inspect", "--format={{.State.Pid}}", name).strip()
            (pid,) = Path(f"/proc/{init}/task/{init}/children").read_text().split()
            yield _Server(access, int(pid))
        finally:
            subprocess.run(["docker", "rm", "--force", name], capture_output=True, check=False)


def interpreters_document(found: Mapping[str, Figures], rounds: int, made: Mapping[str, Any]) -> str:
    """The table: a row for each Python."""
    lines = [
        f"{machine(made, alone=True)} and others, {OBJECTS:,} objects, HTTP/2, SQLite, the least of {rounds} turns. "
        "µs of CPU time, for each:",
        "",
        f"| Python | {' | '.join(f'{work.name}: {work.unit}' for work in WORK)} | memory at the end |",
        "|" + "---|" * (2 + len(WORK)),
    ]
    for name, figures in found.items():
        cells = [_number(figures.microseconds[work.name]) for work in WORK]
        where = " (the one of the other tables)" if name == HERE else ""
        lines.append(f"| {figures.build}{where} | {' | '.join(cells)} | {figures.resident / 1e6:.0f} MB |")
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
