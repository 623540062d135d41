"""Integration tests of k8s.io/kubernetes, built to be run against the kube-apiserver of `aggserver envtest`.

As published they start a kube-apiserver within their own process. Here each package is copied into a module of its own, whose
`testing` and `framework` (in `kubernetes/`) start the program instead; all else is compiled from the module cache, where the
control plane's build has most of it already. Tests that reach into the server's process are skipped by `framework`, or are named
in `kubernetes.yaml` with the reason, as are those that fail here. Called by `python -m tests.operators`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.controlplane.binaries import cache_folder, kubernetes_version, locked
from tests.controlplane.toolchain import go_command, go_environment

__all__ = ["NOTHING", "PACKAGES", "Expected", "IntegrationError", "Run", "build", "expected", "run"]

MODULE = "k8s.io/kubernetes"
FOLDER = "test/integration"
OURS = Path(__file__).with_name("kubernetes")
OURS_MODULE = "aggserver.test/kubernetes"
CONTROL_PLANE = Path(__file__).parents[1] / "controlplane"
# Of upstream's framework: what starts etcd and a server, for which ours has `start.go`, and a search for goroutines after it.
REPLACED = frozenset({"etcd.go", "test_server.go", "goleak.go"})
TESTING, FRAMEWORK = f"{MODULE}/cmd/kube-apiserver/app/testing", f"{MODULE}/{FOLDER}/framework"

PACKAGES = (
    "namespace",
    "garbagecollector",
    "dryrun",
    "certificates",
    "quota",
    "deployment",
    "apiserver/cel",
    "apiserver/admissionwebhook",
)
"""Below test/integration of the module: those that are about what `aggserver dev` serves."""

# Minutes for the tests of one package, and seconds more until its process is ended from here.
TIMEOUT_MINUTES = 30
PATIENCE_SECONDS = 60

_RESULT = re.compile(r"^\s*--- (PASS|FAIL|SKIP): (\S+) \(", re.MULTILINE)


class IntegrationError(RuntimeError):
    """A package can't be built or run; the text is the end of what was printed."""


@dataclass(frozen=True)
class Expected:
    """Names of tests of one package. failing: it, or something below it, fails. left_out: would end the process, or never end."""

    failing: frozenset[str]
    left_out: frozenset[str]


NOTHING = Expected(frozenset(), frozenset())


@dataclass(frozen=True)
class Run:
    """One run of one package. results: PASS, FAIL or SKIP of each test that has none below it, or fails for itself."""

    package: str
    results: Mapping[str, str]
    seconds: float
    output: str

    def wrong(self, expected: Expected) -> Iterator[str]:
        """What differs from what is expected, one line for each."""
        met = set()
        for test, result in sorted(self.results.items()):
            names = {name for name in expected.failing if test == name or test.startswith(f"{name}/")}
            if result == "FAIL":
                met |= names
                if not names:
                    yield f"failed: {test}"
        yield from (f"passes, and is listed in kubernetes.yaml: {name}" for name in sorted(expected.failing - met))

    def count(self, result: str) -> int:
        return sum(each == result for each in self.results.values())


def build(packages: tuple[str, ...], environ: Mapping[str, str], say: Callable[[str], None]) -> Path:
    """The module with the packages, each with its test program, built first if need be.

    Raises IntegrationError, ToolchainError.
    """
    folder = _cache_folder(environ)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name("kubernetes.lock"), say):
        missing = [package for package in packages if not _program(folder, package).exists()]
        if missing:
            say(f"building {len(missing)} integration tests of kubernetes: a minute each, once")
            go, environment = go_command(CONTROL_PLANE / "go.mod", say), go_environment(environ)
            source = _source(go, environment)
            _lay_out(folder, source)
            for package in missing:
                _copy(source / FOLDER / package, folder / package)
                program = _program(folder, package)
                # One after the other: the linker takes 2 GB for each. Go adds to go.mod what tests require beyond the control
                # plane, in the versions of kubernetes, whose sums are there.
                command = [go, "test", "-mod=mod", "-c", "-ldflags=-s -w", "-o", f"{program}.new", f"./{package}"]
                _go(command, folder, environment)
                Path(f"{program}.new").rename(program)
                say(f"  {package} is built")
    return folder


def run(folder: Path, package: str, assets: Path, left_out: frozenset[str], logs: Path | None = None) -> Run:
    """Runs the tests of a package with the programs in `assets`. logs: keeps those of the servers. Raises IntegrationError."""
    arguments = ["-test.v", f"-test.timeout={TIMEOUT_MINUTES}m"]
    if left_out:
        arguments.append(f"-test.skip={_pattern(left_out)}")
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        environment = {
            **os.environ,
            "INTEGRATION_KUBE_APISERVER": str(assets / "kube-apiserver"),
            "INTEGRATION_SCRATCH": scratch,
            "AGGSERVER_EXIT_WITH_PARENT": "true",
            # Tests run the controllers that they are about themselves. Some turn off the plugin StorageObjectInUseProtection, but
            # it is always on here; so what it keeps is let go.
            "AGGSERVER_CONTROLLERS": "pvc-protection,pv-protection",
        }
        try:
            done = subprocess.run(
                [str(_program(folder, package)), *arguments],
                cwd=folder / package,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=TIMEOUT_MINUTES * 60 + PATIENCE_SECONDS,
                check=False,
            )
        finally:
            if logs is not None:
                logs.mkdir(parents=True, exist_ok=True)
                for log in Path(scratch).glob("server-*.log"):
                    shutil.copyfile(log, logs / f"{package.replace('/', '-')}-{log.name}")
    results = _leaves(done.stdout)
    if not results or (done.returncode and "FAIL" not in results.values()) or "\npanic: " in done.stdout:
        raise IntegrationError(f"{package}: the tests ended with {done.returncode}:\n{done.stdout[-4000:]}")
    return Run(package, results, time.monotonic() - began, done.stdout)


def expected() -> dict[str, Expected]:
    """What kubernetes.yaml lists, by package."""
    found: dict[str, tuple[set[str], set[str]]] = {}
    for at, kind in enumerate(("failing", "left out")):
        listed = yaml.safe_load(Path(__file__).with_name("kubernetes.yaml").read_text())[kind] or {}
        for tests in listed.values():
            for test in tests:
                package, _, name = test.partition(": ")
                found.setdefault(package, (set(), set()))[at].add(name)
    return {package: Expected(frozenset(failing), frozenset(out)) for package, (failing, out) in found.items()}


def _leaves(output: str) -> dict[str, str]:
    results = {name: result for result, name in _RESULT.findall(output)}
    # A name may have slashes of its own.
    above = {name: {name[: slash.start()] for slash in re.finditer("/", name)} for name in results}
    inner = set().union(*above.values())
    explained = set().union(*(above[name] for name, result in results.items() if result == "FAIL"))
    return {name: result for name, result in results.items() if name not in inner or (result == "FAIL" and name not in explained)}


def _pattern(names: frozenset[str]) -> str:
    """As -skip takes it: alternatives, with a pattern for each level."""
    return "|".join("/".join(f"^{re.escape(part)}$" for part in name.split("/")) for name in sorted(names))


def _cache_folder(environ: Mapping[str, str]) -> Path:
    return cache_folder(environ, "kubernetes", more=(file.read_bytes() for file in sorted(OURS.rglob("*.go"))))


def _lay_out(folder: Path, source: Path) -> None:
    """The module without the packages: what the control plane requires, and ours."""
    requirements = (CONTROL_PLANE / "go.mod").read_text()
    (folder / "go.mod").write_text(re.sub(r"^module .*$", f"module {OURS_MODULE}", requirements, count=1, flags=re.MULTILINE))
    shutil.copyfile(CONTROL_PLANE / "go.sum", folder / "go.sum")
    shutil.copytree(OURS, folder, dirs_exist_ok=True)
    for file in (source / FOLDER / "framework").glob("*.go"):
        if file.name not in REPLACED:
            shutil.copyfile(file, folder / "framework" / file.name)


def _copy(package: Path, target: Path) -> None:
    """A package with the files that its tests read, so that it imports our `testing` and `framework`."""
    shutil.copytree(package, target, dirs_exist_ok=True, copy_function=shutil.copyfile)
    for path in (target, *target.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    for file in target.rglob("*.go"):
        text = file.read_text().replace(f'"{TESTING}"', f'"{OURS_MODULE}/testing"')
        file.write_text(text.replace(f'"{FRAMEWORK}"', f'"{OURS_MODULE}/framework"'))


def _source(go: str, environment: Mapping[str, str]) -> Path:
    """Where Go keeps the module."""
    told = _go([go, "mod", "download", "-json", f"{MODULE}@{kubernetes_version()}"], CONTROL_PLANE, environment)
    match = re.search(r'"Dir": "(.*)"', told)
    if match is None:
        raise IntegrationError(f"Go did not say where {MODULE} is:\n{told}")
    return Path(match[1])


def _program(folder: Path, package: str) -> Path:
    return folder / "programs" / f"{package.replace('/', '-')}.test"


def _go(command: list[str], where: Path, environment: Mapping[str, str]) -> str:
    done = subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise IntegrationError(f"{' '.join(command)} failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout
