"""Upstream's own integration tests of definitions, built to be run against a server that is there already.

The packages k8s.io/apiextensions-apiserver/test/integration and test/integration/conversion are compiled as published; only the
file that starts a server is replaced by `server.go`, which takes the one of $KUBECONFIG. Go refuses to overlay files of the
module cache, so the module is copied to a folder of the build, and nothing of it is kept but the test binaries, in the user's
cache. The test of rules is k8s.io/kubernetes', whose other tests of the API server are of built-in kinds; it is compiled in the
copy too, and `rules.go` has what it takes from kube-apiserver's packages. Called by `test_conformance.py`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.controlplane.binaries import cache_folder, kubernetes_version, locked
from tests.controlplane.toolchain import go_command, go_environment

__all__ = ["CONVERSION", "DEFINITIONS", "ETCD_PREFIX", "RULES_BINARY", "Results", "SuiteError", "build", "run"]

MODULE = "k8s.io/apiextensions-apiserver"
PACKAGE = "test/integration"
SERVER = Path(__file__).with_name("server.go")
RULES_MODULE = "k8s.io/kubernetes"
RULES_TEST = "test/integration/apiserver/crd_validation_expressions_test.go"
RULES_PACKAGE = "test/rules"
RULES = Path(__file__).with_name("rules.go")
CONTROL_PLANE = Path(__file__).parents[1] / "controlplane"
# The default of upstream's server, which its tests ask their options for.
ETCD_PREFIX = "/registry/apiextensions.kubernetes.io"
# As `go test` names them: some tests look for the name of their binary among the field managers.
DEFINITIONS, RULES_BINARY, CONVERSION = "integration.test", "rules.test", "conversion.test"
BINARIES = {DEFINITIONS: PACKAGE, RULES_BINARY: RULES_PACKAGE, CONVERSION: f"{PACKAGE}/conversion"}  # name to package

# Name of a test -> PASS, FAIL or SKIP.
Results = dict[str, str]
_RESULT = re.compile(r"^\s*--- (PASS|FAIL|SKIP): (\S+) \(", re.MULTILINE)


class SuiteError(RuntimeError):
    """The tests can't be built; the text is the end of what Go said."""


def build(environ: Mapping[str, str], say: Callable[[str], None]) -> Path:
    """The folder with the test binaries and the files that they read, built first if need be (two minutes).

    Raises SuiteError, ToolchainError.
    """
    folder = _cache_folder(environ)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name("conformance.lock"), say):
        if not folder.is_dir():
            say("building upstream's tests of definitions: about two minutes, once")
            _build(folder, go_command(CONTROL_PLANE / "go.mod", say), go_environment(environ), say)
    return folder


def run(
    folder: Path,
    kubeconfig: Path,
    timeout_minutes: int,
    *,
    binaries: Sequence[str],
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    etcd: str = "",
) -> tuple[Results, str]:
    """(results of the tests and their subtests, everything that was printed). The time is for each binary.

    binaries: some of BINARIES, which run one after the other, since each test removes the definitions of the one before. only: of
    their tests, all if none is named. etcd: the URL of the server's, for tests that look there; its keys begin with ETCD_PREFIX.
    """
    arguments = ["-test.v", f"-test.timeout={timeout_minutes}m"]
    arguments += [f"-test.{flag}={_pattern(names)}" for flag, names in (("run", only), ("skip", skip)) if names]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "KUBE_INTEGRATION_ETCD_URL": etcd}
    output = ""
    for binary in binaries:
        command = [str(folder / binary), *arguments]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        output += done.stdout + done.stderr
    return {name: result for result, name in _RESULT.findall(output)}, output


def _pattern(names: Sequence[str]) -> str:
    """As -run and -skip take it: alternatives at each level, so that names of different depths go into separate ones."""
    return "|".join("/".join(f"^{part}$" for part in name.split("/")) for name in names)


def _cache_folder(environ: Mapping[str, str]) -> Path:
    return cache_folder(environ, "conformance", more=(file.read_bytes() for file in (SERVER, RULES, Path(__file__))))


def _build(folder: Path, go: str, environment: Mapping[str, str], say: Callable[[str], None]) -> None:
    version = kubernetes_version()
    source = _source(go, f"{MODULE}@{version.replace('v1.', 'v0.', 1)}", environment)
    rules = _source(go, f"{RULES_MODULE}@{version}", environment) / RULES_TEST
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}.", dir=folder.parent) as scratch:
        module, made = Path(scratch, "module"), Path(scratch, "made")
        shutil.copytree(source, module, copy_function=shutil.copyfile)
        for path in (module, *module.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        shutil.copyfile(SERVER, module / PACKAGE / "fixtures" / "server.go")
        _add_rules(rules, module / RULES_PACKAGE)
        for binary, package in BINARIES.items():
            _go([go, "test", "-c", "-o", str(made / binary), f"./{package}"], module, environment)
            say(f"  {binary} is built")
        # The tests of ratcheting read files that lie beside them.
        for found in (module / PACKAGE).iterdir():
            if found.is_dir() and not list(found.glob("*.go")):
                shutil.copytree(found, made / found.name)
        made.rename(folder)


def _source(go: str, module: str, environment: Mapping[str, str]) -> Path:
    """Where Go keeps a module, by name and version."""
    told = _go([go, "mod", "download", "-json", module], CONTROL_PLANE, environment)
    match = re.search(r'"Dir": "(.*)"', told)
    if match is None:
        raise SuiteError(f"Go did not say where {module} is:\n{told}")
    return Path(match[1])


def _add_rules(test: Path, package: Path) -> None:
    """Upstream's test of rules, with `rules.go` for what it imports from kube-apiserver's packages."""
    text = test.read_text()
    here = f'"{MODULE}/{RULES_PACKAGE}"'
    text = text.replace('"k8s.io/kubernetes/cmd/kube-apiserver/app/testing"', here)
    text = text.replace('"k8s.io/kubernetes/test/integration/framework"', f"framework {here}")
    package.mkdir()
    (package / "rules_test.go").write_text(text.replace("package apiserver\n", "package rules_test\n"))
    shutil.copyfile(RULES, package / RULES.name)


def _go(command: list[str], where: Path, environment: Mapping[str, str]) -> str:
    done = subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SuiteError(f"{' '.join(command)} failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout
