"""`python -m tests SIZE ...`: sizes of tests, one after the other, as `make test`, `make integration` and `make long` run them.

`test` is ruff, mypy, and all tests that need nothing but Python. `integration` and `long` need the real control plane and other
programs in Go, which are built first, with a line of progress now and then. What follows `--` goes to pytest.

pytest prints one line while it works and one count at the end (tests/progress.py). After several sizes there is a last line with
the sum, also if one of them failed.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tests.arguments import split
from tests.kind.engine import why_not

REPOSITORY = Path(__file__).parents[1]
# Its tests need a Docker engine.
IMAGE = "tests/kind/test_image.py"


@dataclass(frozen=True, slots=True)
class Size:
    """selection: of pytest's marks. jobs: pytest's processes, for each core. rest: what the size leaves to others.

    unread: folders without any of its tests, and files with those that can't be run here.
    """

    selection: str
    jobs: float
    by: str
    rest: str
    unread: tuple[str, ...] = ()


# What needs other programs than a control plane, or hours.
_OTHERS = "make kind, make pythons, make versions, make operators, make postgres, make kills, make fuzz"

# More processes than cores: while one waits, for a disk or for another program, the others go on.
SIZES = {
    "test": Size(
        "not integration and not long",
        jobs=1.5,
        by="worksteal",
        rest="not run: the tests beside a real kube-apiserver (make integration; then make long has more cases of the same)",
        unread=("tests/integration",),
    ),
    "integration": Size(
        "integration and not long",
        jobs=1.5,
        by="loadfile",
        rest=f"not run: more cases of the same (make long); {_OTHERS}",
    ),
    "long": Size("long", jobs=1.5, by="loadfile", rest=f"not run: {_OTHERS}"),
}

# These take a second, so they come first; mypy runs beside the tests, and is told of after them.
_CHECKS = (("ruff", "check", "--quiet", "."), ("ruff", "format", "--quiet", "--check", "."))
_TYPES = ("mypy", "--no-error-summary")


def main(arguments: Sequence[str]) -> int:
    sizes, more = _parsed(arguments)
    with _alone():
        counts = [_run(name, more) for name in sizes]
    if len(counts) > 1:
        print(f"{sum(passed for _, passed, _ in counts)} passed, {sum(failed for _, _, failed in counts)} failed")
    return max(status for status, _, _ in counts)


def _parsed(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    sizes, more = split(arguments)
    if not sizes or not set(sizes) <= set(SIZES):
        raise SystemExit(f"usage: python -m tests {{{','.join(SIZES)}}}... [-- pytest's arguments]")
    return sizes, more


@contextmanager
def _alone() -> Iterator[None]:
    """Two runs in one folder would take each other's time, and the caches of mypy and ruff."""
    with Path(__file__).open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("other tests are running in this folder: waiting until they have ended", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(name: str, more: Sequence[str]) -> tuple[int, int, int]:
    """(exit status, passed, failed)."""
    began = time.monotonic()
    size = SIZES[name]
    if name == "long" and (reason := why_not()):
        size = replace(size, rest=f"{size.rest}; the image: {reason}", unread=(*size.unread, IMAGE))
    if name == "test":
        statuses = [_tool(check) for check in _CHECKS]
        if any(statuses):
            return 1, 0, 0
        with subprocess.Popen(
            _command(*_TYPES), cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as types:
            counted = _pytest(size, more)
            output, _ = types.communicate()
        if types.returncode:
            print(f"mypy:\n{output}", end="")
        counted = (max(counted[0], types.returncode), *counted[1:])
    else:
        if status := subprocess.run([sys.executable, "-m", "tests.programs"], cwd=REPOSITORY, check=False).returncode:
            return status, 0, 0
        counted = _pytest(size, more)
    print(f"make {name}: {time.monotonic() - began:.0f} s. {size.rest}", flush=True)
    return counted


def _pytest(size: Size, more: Sequence[str]) -> tuple[int, int, int]:
    jobs = max(2, round((os.cpu_count() or 1) * size.jobs))
    with tempfile.TemporaryDirectory() as folder:
        counts = Path(folder, "counts")
        # Without percentages, which count the dots that are not there.
        options = [
            "-q",
            "-o",
            "console_output_style=classic",
            "-m",
            size.selection,
            "-n",
            str(jobs),
            "--dist",
            size.by,
            "--no-loadscope-reorder",
            f"--counts={counts}",
        ]
        options += [f"--ignore={folder}" for folder in size.unread]
        status = _tool(("pytest", *options, *more))
        counted = json.loads(counts.read_text()) if counts.exists() else {}
    return status, counted.get("passed", 0), counted.get("failed", 0)


def _tool(command: Sequence[str]) -> int:
    return subprocess.run(_command(*command), cwd=REPOSITORY, env=_environment(), check=False).returncode


def _command(tool: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", tool, *arguments]


def _environment() -> dict[str, str]:
    """Bytecode is kept: tests start the server hundreds of times, and without it each start compiles all modules."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
