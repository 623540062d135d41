"""`python -m tests.kind.pythons`, which `make pythons` runs: the tests of `make test` on other versions of Python, in containers.

Each runs in the slim image of that Python, or in one made of Debian's packages where no registry can be had, on a copy of the
files that git knows. mypy and ruff look at the same files whatever Python runs them: they are left to `make test`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.arguments import split
from tests.controlplane.binaries import BinariesError
from tests.controlplane.toolchain import ToolchainError
from tests.kind import engine
from tests.kind.images import PYTHON_SUITES, Images, cache
from tests.worktree import copy_to

REPOSITORY = Path(__file__).parents[2]

# Of the files at /given, which stay as they are.
_RUN = """
set -e
cp -r /given /tested
cd /tested
python tests/environment.py .venv ready
.venv/bin/python -m pytest -q -o console_output_style=classic -m 'not integration and not long' --ignore=tests/integration \
    -n 3 --dist worksteal "$@"
"""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kind.pythons", description="make test on other Pythons.")
    parser.add_argument("versions", nargs="*", default=[*PYTHON_SUITES], help="(default: %(default)s)")
    own, more = split(arguments)
    versions = parser.parse_args(own).versions
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:5.0f} s: {text}", flush=True)

    failed = []
    try:
        engine.install(say)
        with engine.engine(cache(os.environ) / "docker", say):
            images = Images(os.environ, say)
            for version in versions:
                image = images.python(version)
                say(f"the tests on {image}")
                if _tested(image, more):
                    failed.append(version)
    except (engine.EngineError, BinariesError, ToolchainError) as error:
        print(f"make pythons: {error}", file=sys.stderr)
        return 1
    say(f"failed on {', '.join(failed)}" if failed else f"passed on {', '.join(versions)}")
    return bool(failed)


def _tested(image: str, more: Sequence[str]) -> int:
    """The exit status of pytest."""
    with tempfile.TemporaryDirectory(prefix="aggserver-python-") as scratch:
        copy_to(Path(scratch))
        command = ["docker", "run", "--rm", "--init", "--volume", f"{scratch}:/given:ro", image, "sh", "-c", _RUN, "sh", *more]
        return subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
