"""controller-runtime's own suites, built to be run against whatever kube-apiserver and etcd KUBEBUILDER_ASSETS names.

They are compiled as published, but with the versions of k8s.io that the control plane is built from
(`controller_runtime/go.mod`, `go.sum`), since Go then has most packages compiled already. Go does not write to the module cache,
so the module is copied into the user's cache, where its suites find the files that they read. Called by
`test_controller_runtime.py`, by `make operators` and by benchmarks/operators.py; programs of our own are compiled with it, too.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.controlplane.binaries import cache_folder, locked
from tests.controlplane.toolchain import go_command, go_environment

__all__ = ["PACKAGES", "VERSION", "Run", "SuiteError", "build", "compile_program", "listed", "obtain_program", "run", "stand_ins"]

MODULE, VERSION = "sigs.k8s.io/controller-runtime", "v0.24.1"
# Of the module's files, as go.sum has it for modules that require it.
SUM = "h1:miPEwrmirImAvgME1L9qebGHrOnGJoVmVdtOU9fRfo4="
PINS = Path(__file__).with_name("controller_runtime")
REPOSITORY = Path(__file__).parents[2]

PACKAGES = (
    "builder",
    "cache",
    "client",
    "cluster",
    "controller",
    "controller/controllerutil",
    "envtest",
    "handler",
    "internal/controller",
    "internal/recorder",
    "manager",
    "manager/internal/integration",
    "metrics/filters",
    "reconcile",
    "source",
    "webhook",
)
"""Below pkg/ of the module: all whose suites start an envtest.Environment."""

# Seconds for one suite. The slowest takes 97 with the real binaries.
TIMEOUT_SECONDS = 600


class SuiteError(RuntimeError):
    """A suite can't be built or run; the text is the end of what was printed."""


@dataclass(frozen=True)
class Run:
    """One run of one suite. states: of each spec, by its texts, `passed`, `failed`, `panicked` ...; pending ones are left out."""

    package: str
    states: Mapping[str, str]
    seconds: float
    output: str

    @property
    def failed(self) -> set[str]:
        return {spec for spec, state in self.states.items() if state != "passed"}


def build(packages: Iterable[str], environ: Mapping[str, str], say: Callable[[str], None]) -> Path:
    """The copy of the module, with a program for each of the packages, built first if need be.

    Raises SuiteError, ToolchainError.
    """
    folder = _cache_folder(environ)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name("operators.lock"), say):
        missing = [package for package in packages if not _program(folder, package).exists()]
        if missing:
            say(f"building {len(missing)} suites of controller-runtime {VERSION}: one to four minutes, once")
            go, environment = go_command(PINS / "go.mod", say), go_environment(environ)
            _copy(folder, go, environment)
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                for package, _ in zip(
                    missing, pool.map(lambda each: _compile(folder, each, go, environment), missing), strict=True
                ):
                    say(f"  {package} is built")
    return folder


def obtain_program(name: str, environ: Mapping[str, str], say: Callable[[str], None]) -> Path:
    """`<name>/main.go` beside this module: compiled once for each content of it. Raises SuiteError, ToolchainError."""
    source = Path(__file__).with_name(name) / "main.go"
    folder = _cache_folder(environ)
    folder.parent.mkdir(parents=True, exist_ok=True)
    program = folder / "programs" / f"{name}-{hashlib.sha256(source.read_bytes()).hexdigest()[:16]}"
    with locked(folder.with_name("operators.lock"), say):
        if not program.exists():
            say(f"building {name} with controller-runtime {VERSION}: up to two minutes, once")
            _copy(folder, go_command(PINS / "go.mod", say), go_environment(environ))
            program.parent.mkdir(exist_ok=True)
            compile_program(folder, source, program.with_suffix(".new"), environ, say).rename(program)
    return program


def compile_program(folder: Path, source: Path, program: Path, environ: Mapping[str, str], say: Callable[[str], None]) -> Path:
    """A program of one file, compiled in the copy of the module, which has the packages that it imports. Raises SuiteError.

    It needs no C library, so that it runs in any image.
    """
    go, environment = go_command(PINS / "go.mod", say), {**go_environment(environ), "CGO_ENABLED": "0"}
    with tempfile.TemporaryDirectory(dir=folder) as package:
        shutil.copyfile(source, Path(package, source.name))
        _go([go, "build", "-ldflags=-s -w", "-o", str(program), f"./{Path(package).name}"], folder, environment)
    return program


def run(folder: Path, package: str, assets: Path, report: Path) -> Run:
    """Runs the suite of a package with the programs in `assets`. report: a file that ginkgo writes. Raises SuiteError."""
    command = [str(_program(folder, package)), "--ginkgo.no-color", f"--ginkgo.json-report={report}"]
    # Of the variables that a developer may have set, those of single programs would win.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TEST_ASSET_", "USE_EXISTING_"))}
    began = time.monotonic()
    for _ in range(2):
        done = subprocess.run(
            command,
            cwd=folder / "pkg" / package,
            env={**kept, "KUBEBUILDER_ASSETS": str(assets)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        # A suite looks for a free port long before its webhook server listens there, in a goroutine whose failure ends the whole
        # program. Somebody else may have the port by then; if that was not the reason, it ends so again.
        if report.exists() or "Your Test Panicked" not in done.stdout:
            break
    seconds = time.monotonic() - began
    if not report.exists():
        raise SuiteError(f"{package}: no report; the suite ended with {done.returncode}:\n{done.stdout[-4000:]}")
    states = _states(json.loads(report.read_text()))
    if done.returncode and all(state == "passed" for state in states.values()):
        raise SuiteError(f"{package}: all specs passed, but the suite ended with {done.returncode}:\n{done.stdout[-4000:]}")
    return Run(package, states, seconds, done.stdout)


def stand_ins(folder: Path) -> Path:
    """The programs of `aggserver envtest` in a folder."""
    command = [sys.executable, "-m", "aggserver", "envtest", str(folder)]
    subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.DEVNULL, check=True)
    return folder


def listed() -> dict[str, set[str]]:
    """The specs of waiting.yaml, by package."""
    waiting = yaml.safe_load(Path(__file__).with_name("waiting.yaml").read_text()) or {}
    found: dict[str, set[str]] = {}
    for specs in waiting.values():
        for spec in specs:
            package, _, text = spec.partition(": ")
            found.setdefault(package, set()).add(text)
    return found


def _states(report: list[dict]) -> dict[str, str]:  # type: ignore[type-arg]
    """By the texts of containers and spec, numbered where others have the same. Nodes around specs only if they failed."""
    states: dict[str, str] = {}
    for suite in report:
        for spec in suite["SpecReports"] or ():
            is_spec = spec["LeafNodeType"] == "It"
            text = " ".join([*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"]]) if is_spec else spec["LeafNodeType"]
            if spec["State"] not in ("pending", "skipped") and (is_spec or spec["State"] != "passed"):
                names = itertools.chain([text], (f"{text} #{number}" for number in itertools.count(2)))
                states[next(name for name in names if name not in states)] = spec["State"]
    return states


def _cache_folder(environ: Mapping[str, str]) -> Path:
    return cache_folder(environ, "operators", PINS, [f"{VERSION}\n".encode()])


def _copy(folder: Path, go: str, environment: Mapping[str, str]) -> None:
    """Does nothing if the copy is there."""
    if folder.is_dir():
        return
    told = json.loads(_go([go, "mod", "download", "-json", f"{MODULE}@{VERSION}"], PINS, environment))
    if told["Sum"] != SUM:
        raise SuiteError(f"{MODULE}@{VERSION} has the checksum {told['Sum']}, and {SUM} was expected")
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}.", dir=folder.parent) as scratch:
        module = Path(scratch, "module")
        shutil.copytree(told["Dir"], module, copy_function=shutil.copyfile)
        for path in (module, *module.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        for name in ("go.mod", "go.sum"):
            shutil.copyfile(PINS / name, module / name)
        module.rename(folder)


def _program(folder: Path, package: str) -> Path:
    # Some suites look for the name of their program among the field managers: it is that which `go test` gives.
    return folder / "programs" / package / f"{package.rpartition('/')[2]}.test"


def _compile(folder: Path, package: str, go: str, environment: Mapping[str, str]) -> None:
    """Without what a debugger needs, which is a third of the size, and of the linker's time."""
    program = _program(folder, package)
    unfinished = program.with_suffix(".new")
    _go([go, "test", "-c", "-ldflags=-s -w", "-o", str(unfinished), f"./pkg/{package}"], folder, environment)
    unfinished.rename(program)


def _go(command: list[str], where: Path, environment: Mapping[str, str]) -> str:
    done = subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SuiteError(f"{' '.join(command)} failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout
