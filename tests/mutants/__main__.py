"""`python -m tests.mutants PACKAGE`: which of a number of small changes of a package neither its unit tests nor mypy notice.

Each change is made in a copy of the working tree, where the package's tests and laws run until one fails, and then mypy. A
survivor is printed as a difference: it wants a case in a table, or less code, or a place in `equivalent.txt` where it makes no
difference that a test could see. Ends with 1 if more than five in a hundred survive.
"""

from __future__ import annotations

import argparse
import difflib
import importlib.util
import itertools
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.mutations import Mutation, mutations
from tests.worktree import copy_to

_ROOT = Path(__file__).parents[2]
_EQUIVALENT = Path(__file__).with_name("equivalent.txt")
_SURVIVORS = 0.05  # of the changes, that a package may have


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="What the unit tests of a package notice.")
    parser.add_argument("package", help="of aggserver, for example merge")
    parser.add_argument("--number", type=int, default=100, help="how many changes")
    parser.add_argument("--seed", type=int, default=0, help="which changes")
    parser.add_argument("--lines", nargs="*", default=(), metavar="FILE:LINE", help="all changes of these lines instead")
    parser.add_argument("--tests", nargs="*", metavar="FOLDER", help="the tests (default: those of the package)")
    options = parser.parse_args()
    tests = options.tests or _tests(options.package)
    chosen = _of_lines(options.package, options.lines) if options.lines else _drawn(options.package, options.number, options.seed)
    print(f"{len(chosen)} changes of aggserver/{options.package}, seed {options.seed}; tests: {' '.join(tests)}", flush=True)
    equivalent = _equivalent()
    survivors, equivalents = [], 0
    with _copies(max(1, os.cpu_count() or 1)) as copies:
        copy = copies.get()
        commands = _commands(options.package, tests)
        began = time.monotonic()
        if not all(_passes(copy, command, None) for command in commands):
            print("the tests or mypy fail without any change", file=sys.stderr)
            return 2
        # A change that makes a loop endless is noticed by the time.
        limit = 30 + 10 * (time.monotonic() - began)
        copies.put(copy)
        run = partial(_tried, copies, options.package, commands, limit)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for done, (mutation, survived) in enumerate(pool.map(run, chosen), 1):
                if survived and _difference(mutation) in equivalent:
                    equivalents += 1
                elif survived:
                    survivors.append(mutation)
                    print(f"{done} of {len(chosen)}: not noticed\n{_difference(mutation)}\n", flush=True)
    print(f"{len(survivors)} of {len(chosen)} changes were not noticed; {equivalents} more make no difference")
    return 1 if len(survivors) > _SURVIVORS * len(chosen) else 0


def _tests(package: str) -> list[str]:
    """The package's folder, and the laws that are about it."""
    laws = sorted((_ROOT / "tests" / "property").glob("test_*.py"))
    about = [path for path in laws if f"aggserver.{package}" in path.read_text()]
    return [f"tests/{package}", *(str(path.relative_to(_ROOT)) for path in about)]


def _modules(package: str) -> list[Path]:
    found = sorted(path.relative_to(_ROOT) for path in (_ROOT / "aggserver" / package).rglob("*.py"))
    if not found:
        sys.exit(f"aggserver/{package}: no such package")
    return found


def _drawn(package: str, number: int, seed: int) -> list[Mutation]:
    """Lines are drawn first: a comparison has seven changes and a condition one."""
    found: dict[tuple[Path, int], list[Mutation]] = {}
    for path in _modules(package):
        for each in mutations(path, (_ROOT / path).read_text()):
            found.setdefault((path, each.line), []).append(each)
    draw = random.Random(seed)
    lines = draw.sample(sorted(found), len(found))
    drawn = (draw.choice(found[line]) for line in lines)
    return list(itertools.islice((each for each in drawn if _changed(each) is not None), number))


def _of_lines(package: str, lines: Sequence[str]) -> list[Mutation]:
    found = []
    for text in lines:
        name, _, line = text.rpartition(":")
        path = Path("aggserver") / package / name
        found += [each for each in mutations(path, (_ROOT / path).read_text()) if each.line == int(line)]
    return [each for each in found if _changed(each) is not None]


@contextmanager
def _copies(number: int) -> Iterator[SimpleQueue[Path]]:
    """Copies of the working tree."""
    copies: SimpleQueue[Path] = SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="aggserver-mutants-") as folder:
        for index in range(number):
            copy = Path(folder) / str(index)
            copy_to(copy)
            copies.put(copy)
        yield copies


def _commands(package: str, tests: Sequence[str]) -> list[list[str]]:
    """The tests, and mypy, which keeps what it has seen in the copy."""
    return [_pytest(tests), [sys.executable, "-m", "mypy", "-p", f"aggserver.{package}"]]


def _pytest(tests: Sequence[str]) -> list[str]:
    """What Python itself warns of (`a is "b"`) is an error too."""
    options = [
        "-W",
        "error::SyntaxWarning",
        "-m",
        "pytest",
        "-qx",
        "-p",
        "no:cacheprovider",
        "-m",
        "not integration and not long",
    ]
    return [sys.executable, "-W", "error::SyntaxWarning", *options, *tests]


def _tried(
    copies: SimpleQueue[Path], package: str, commands: Sequence[Sequence[str]], limit: float, mutation: Mutation
) -> tuple[Mutation, bool]:
    """Whether a change survives. limit: in seconds, for each command."""
    copy = copies.get()
    target = copy / mutation.path
    before = target.read_text()
    # The tests that are most likely to notice come first; with them alone most changes are settled.
    own = [str(path) for path in sorted((copy / "tests" / package).glob(f"test_{target.stem}*.py"))]
    first = [_pytest(own)] if own else []
    try:
        _write(target, mutation.changed(before) or before)
        return mutation, all(_passes(copy, command, limit) for command in (*first, *commands))
    finally:
        _write(target, before)
        copies.put(copy)


def _write(module: Path, text: str) -> None:
    """Without its bytecode, which Python would take for that of the new text, if that is as long and of the same second."""
    module.write_text(text)
    Path(importlib.util.cache_from_source(str(module))).unlink(missing_ok=True)


def _passes(copy: Path, command: Sequence[str], limit: float | None) -> bool:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPATH"] = str(copy)
    try:
        ended = subprocess.run(command, cwd=copy, env=environment, capture_output=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return False
    return ended.returncode == 0


def _changed(mutation: Mutation) -> str | None:
    return mutation.changed((_ROOT / mutation.path).read_text())


def _equivalent() -> set[str]:
    """The changes that make no difference. Each stands below its reason, a line that begins with '#'."""
    blocks = _EQUIVALENT.read_text().split("\n\n")
    return {"\n".join(line for line in block.splitlines() if not line.startswith("#")) for block in blocks}


def _difference(mutation: Mutation) -> str:
    """The changed lines, without their numbers, which other changes of the module move."""
    before = (_ROOT / mutation.path).read_text().splitlines()
    after = (_changed(mutation) or "").splitlines()
    lines = [line for line in difflib.unified_diff(before, after, lineterm="", n=0) if not line.startswith(("---", "+++", "@@"))]
    return "\n".join([f"{mutation.path}:", *lines])


if __name__ == "__main__":
    sys.exit(main())
