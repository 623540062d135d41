"""`python -m tests.kind.pythons`, which `make pythons` runs: the tests of `make test` on other versions of Python, in containers.

Each runs in the slim image of that Python, or in one made of Debian's packages where no registry can be had, on a copy of the
files that git knows. mypy and ruff look at the same files whatever Python runs them: they are left to `make test`. Afterwards
those integration tests run that depend most on the Python: on its ssl, sqlite3 and asyncio, and on the wheels for it. At the end
there is one line for each Python.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.arguments import split
from tests.controlplane.binaries import BinariesError, obtain
from tests.controlplane.toolchain import ToolchainError
from tests.kind import engine
from tests.kind.images import PYTHON_SUITES, Images, cache
from tests.worktree import copy_to

REPOSITORY = Path(__file__).parents[2]

# TLS, HTTP/2 and watches behind the aggregator and alone, client certificates, SIGTERM, the log in SQLite, and gRPC to etcd.
MODULES = ("test_aggregated_server", "test_authentication", "test_http2", "test_stop", "test_standalone", "test_etcd_store")

# Of the files at /given, which stay as they are. No slim image has make and ps, which tests run. The index of a release that is
# not out yet may be older than it says, on a mirror. pytest's status 5 is that of a run whose arguments choose none of its tests.
_RUN = f"""
{{
    apt-get -o Acquire::Check-Valid-Until=false update && apt-get install -y --no-install-recommends make procps
}} >/tmp/apt 2>&1 || {{ cat /tmp/apt; exit 1; }}
cp -r /given /tested && cd /tested && python tests/environment.py .venv ready || exit
some() {{
    counts=$1
    shift
    .venv/bin/python -m pytest -q -o console_output_style=classic --counts="/counts/$counts" "$@"
    ended=$?
    [ $ended = 5 ] || [ $ended = 0 ] || status=$ended
}}
status=0
some unit -n 3 --dist worksteal -m 'not integration and not long' --ignore=tests/integration "$@"
some integration -n 2 --dist loadfile -m 'not long' {" ".join(f"tests/integration/{module}.py" for module in MODULES)} "$@"
exit $status
"""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kind.pythons", description="make test on other Pythons.")
    parser.add_argument("versions", nargs="*", default=[*PYTHON_SUITES], help="(default: %(default)s)")
    own, more = split(arguments)
    versions = parser.parse_args(own).versions
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:5.0f} s: {text}", flush=True)

    lines, failed = [], False
    try:
        engine.install(say)
        programs = obtain(os.environ, say).folder
        with engine.engine(cache(os.environ) / "docker", say):
            images = Images(os.environ, say)
            for version in versions:
                image = images.python(version)
                say(f"the tests on {image}")
                since = time.monotonic()
                status, counted = _tested(image, programs, more)
                failed = failed or status != 0
                ended = f"{counted or 'no test ran'}, in {time.monotonic() - since:.0f} s"
                lines.append(f"{image}: {ended}" + (f", status {status}" if status else ""))
    except (engine.EngineError, BinariesError, ToolchainError) as error:
        print(f"make pythons: {error}", file=sys.stderr)
        return 1
    print("\n".join(lines))
    return int(failed)


def _tested(image: str, programs: Path, more: Sequence[str]) -> tuple[int, str]:
    """(exit status, what each run of pytest counted). programs: those of the control plane, which no container builds."""
    with tempfile.TemporaryDirectory(prefix="aggserver-python-") as scratch:
        given, counts = Path(scratch, "given"), Path(scratch, "counts")
        copy_to(given)
        counts.mkdir()
        volumes = [f"--volume={given}:/given:ro", f"--volume={counts}:/counts", f"--volume={programs}:{programs}:ro"]
        command = ["docker", "run", "--rm", "--init", *volumes, f"--env=KUBEBUILDER_ASSETS={programs}"]
        status = subprocess.run(
            [*command, image, "sh", "-c", _RUN, "sh", *more], stdin=subprocess.DEVNULL, check=False
        ).returncode
        said = []
        for path in sorted(counts.iterdir(), reverse=True):
            counted = json.loads(path.read_text())
            said.append(f"{path.name} tests {counted['passed']:,} passed, {counted['failed']:,} failed")
        return status, "; ".join(said)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
