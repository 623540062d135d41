"""h2spec, which holds a server to RFC 9113 (by its older number, 7540) and 7541: built once, run against a port, its report read.

go.mod and go.sum pin it. It is built through the Go module proxy into the user's cache, as the control plane is
(tests/controlplane/binaries.py). Called by `test_h2spec.py`.
"""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from xml.etree import ElementTree

from tests.controlplane.binaries import cache_folder, locked
from tests.controlplane.toolchain import go_command, go_environment
from tests.waiting import HANG_SECONDS

__all__ = ["Results", "SuiteError", "build", "run"]

MODULE = Path(__file__).parent
PACKAGE = "github.com/summerwind/h2spec/cmd/h2spec"

# Name of a case, such as http2/5.1.1/2 -> PASS, FAIL or SKIP.
Results = dict[str, str]


class SuiteError(RuntimeError):
    """h2spec can't be built; the text is what Go said."""


def build(environ: Mapping[str, str], say: Callable[[str], None]) -> Path:
    """The program, built first if need be (ten seconds). Raises SuiteError, ToolchainError."""
    program = cache_folder(environ, "h2spec", MODULE)
    program.parent.mkdir(parents=True, exist_ok=True)
    with locked(program.with_name("h2spec.lock"), say), tempfile.TemporaryDirectory(dir=program.parent) as scratch:
        if not program.exists():
            built = Path(scratch, "h2spec")
            command = [go_command(MODULE / "go.mod", say), "build", "-o", str(built), PACKAGE]
            environment = go_environment(environ)
            done = subprocess.run(command, cwd=MODULE, env=environment, capture_output=True, text=True, check=False)
            if done.returncode:
                raise SuiteError(f"{' '.join(command)} failed:\n{done.stderr[-4000:]}")
            built.rename(program)
    return program


async def run(program: Path, port: int, folder: Path, *more: str) -> tuple[Results, str]:
    """(results of all cases, everything that was printed), over TLS. `more` are cases to run, or options."""
    report = folder / "report.xml"
    options = ["--tls", "--insecure", "--strict", f"--port={port}", f"--timeout={HANG_SECONDS:.0f}", f"--junit-report={report}"]
    process = await asyncio.create_subprocess_exec(
        str(program), *options, *more, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    return _results(report.read_text()), output.decode()


def _results(report: str) -> Results:
    """Of the JUnit report, in which a case is the next of its section."""
    results: Results = {}
    for suite in ElementTree.fromstring(report):
        for number, case in enumerate(suite, start=1):
            said = {part.tag for part in case}
            outcome = "SKIP" if "skipped" in said else "FAIL" if said & {"failure", "error"} else "PASS"
            results[f"{case.attrib['package']}/{number}"] = outcome
    return results
