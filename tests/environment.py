"""Makes the environment of this checkout: `python3 tests/environment.py .venv ready-KEY`, which is what the Makefile calls.

The folder is complete or absent: what fails removes it and says in one line what could not be had, and a run that was killed
leaves no file `ready-KEY`, so that the next one begins anew. Two runs at once make it once. Only the standard library is used,
and any Python 3 can read this file, since it is here that one that is too old is told so.
"""

import fcntl
import re
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST = (3, 11)

# Bytes that the environment takes, with room for the packages that pip unpacks on the way: 420 MB on Linux with Python 3.11.
NEEDED = 700_000_000

REPOSITORY = Path(__file__).resolve().parents[1]
CONSTRAINTS = REPOSITORY / "constraints.txt"

# What pip says when it has no answer of an index, or none with the package; the second form is older pips' for a pinned one.
_MISSING = re.compile(r"No matching distribution found for (\S+)|Cannot install (\S+) because|Max retries exceeded")


class EnvironmentFailed(Exception):
    """The text is one line for the user."""


def main(arguments: "list[str]") -> int:
    folder, ready = Path(arguments[0]), Path(arguments[0], arguments[1])
    try:
        if sys.version_info < OLDEST:
            raise EnvironmentFailed(
                f"Python {_text(OLDEST)} or newer is needed, and {sys.executable} is {_text(sys.version_info[:2])}"
            )
        with (REPOSITORY / "pyproject.toml").open() as lock:
            _lock(lock.fileno(), folder)
            if not ready.exists():
                _make(folder, ready)
    except EnvironmentFailed as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _lock(file: int, folder: Path) -> None:
    """The kernel drops the lock when this process ends, however it ends."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"another make in this folder is making {folder}: waiting for it", flush=True)
        fcntl.flock(file, fcntl.LOCK_EX)


def _make(folder: Path, ready: Path) -> None:
    free = shutil.disk_usage(REPOSITORY).free
    if free < NEEDED:
        raise EnvironmentFailed(f"no space: {folder} needs {NEEDED // 1_000_000} MB, and {free // 1_000_000} MB are free here")
    print(f"making {folder} with Python {_text(sys.version_info[:3])}: about a minute", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        _run("venv", str(folder), with_python=sys.executable)
        python = str(folder / "bin" / "python")
        # Without build isolation, so that the build backend is one of the pinned versions, too.
        _install(python, "hatchling", "editables")
        _install(python, "--no-build-isolation", "-e", f"{REPOSITORY}[test]")
        ready.touch()
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _install(python: str, *what: str) -> None:
    _run("pip", "--disable-pip-version-check", "install", "--quiet", "-c", str(CONSTRAINTS), *what, with_python=python)


def _run(module: str, *arguments: str, with_python: str) -> None:
    done = subprocess.run(
        [with_python, "-m", module, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise EnvironmentFailed(_reason(module, done.stdout))


def _reason(module: str, output: str) -> str:
    """In one line, of all that was printed."""
    missing = [found.group(1) or found.group(2) for found in _MISSING.finditer(output)]
    if missing:
        package = next(filter(None, reversed(missing)), "")
        return f"{package or 'a package'} could not be had from the package index: is there a network?"
    if "No space left on device" in output:
        return "no space is left on the device"
    last = output.strip().splitlines()[-1:] or ["nothing was printed"]
    return f"python -m {module} failed: {last[0]}"


def _text(version: "tuple[int, ...]") -> str:
    return ".".join(map(str, version))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
