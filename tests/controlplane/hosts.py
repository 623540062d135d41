"""Control planes of other versions of Kubernetes, built from Go modules into the cache: `make versions` runs beside them.

k8s.io/kubernetes names its parts (k8s.io/api and the like) by folders of its own repository, which a module that requires it must
replace by the versions under which they are published: v1.31.14 is v0.31.14 there. A part that a module proxy does not have in
that version is taken in the next older one of the same minor version. All else is as in the module's own go.mod.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.controlplane.binaries import Binaries, BinariesError, cache_folder, locked, obtain, stamps
from tests.controlplane.toolchain import go_command, go_environment

__all__ = ["obtain_version"]

Say = Callable[[str], None]

MODULE = "k8s.io/kubernetes"
COMMANDS = ("kube-apiserver", "kube-controller-manager")
CONTROL_PLANE = Path(__file__).parent


def obtain_version(version: str, environ: Mapping[str, str], say: Say) -> Binaries:
    """kube-apiserver and kube-controller-manager of a version such as `v1.31.14`, built if need be; our own etcd and kubectl.

    Raises BinariesError, ToolchainError.
    """
    ours = obtain(environ, say)
    folder = cache_folder(environ).with_name(f"host-{version}")
    if not folder.is_dir():
        with locked(folder.with_name("host.lock"), say):
            if not folder.is_dir():
                _build(version, folder, ours, environ, say)
    return Binaries(folder)


def _build(version: str, folder: Path, ours: Binaries, environ: Mapping[str, str], say: Say) -> None:
    """In a folder of a fixed name, so that a build that was broken off goes on where it was."""
    say(f"building kube-apiserver and kube-controller-manager {version}: several minutes, once")
    building = folder.with_name(f"{folder.name}-building")
    building.mkdir(exist_ok=True)
    go = go_command(CONTROL_PLANE / "go.mod", say)
    environment = {**go_environment(environ), "GOFLAGS": "-mod=mod -buildvcs=false"}
    _write_module(go, version, building, environment)
    for command in COMMANDS:
        package = f"{MODULE}/cmd/{command}"
        _run([go, "build", "-ldflags", stamps(version), "-o", str(building), package], building, environment)
    for command in ("etcd", "kubectl"):
        link = building / command
        link.unlink(missing_ok=True)
        link.symlink_to(ours.folder / command)
    building.rename(folder)


def _write_module(go: str, version: str, folder: Path, environment: Mapping[str, str]) -> None:
    """A go.mod that requires what the version's own requires."""
    (folder / "go.mod").write_text("module aggserver.test/host\n")
    described = json.loads(_run([go, "mod", "download", "-json", f"{MODULE}@{version}"], folder, environment))
    text = Path(described["GoMod"]).read_text()
    published = version.replace("v1.", "v0.", 1)
    parts = set(re.findall(r"^\s*(k8s\.io/\S+) => \./staging/", text, re.MULTILINE))
    required = [
        (name, published if name in parts else number)
        for name, number in re.findall(r"^(?:require )?\s*(\S+\.\S+/\S+|\S+\.\S+) (v\S+)(?: // indirect)?$", text, re.MULTILINE)
    ]
    replaced = [
        f"replace {name} => {name} {nearest}"
        for name, number in required
        if name in parts and (nearest := _published(go, name, number, folder, environment)) != number
    ]
    found = re.search(r"^go (\S+)$", text, re.MULTILINE)
    lines = ["module aggserver.test/host", f"go {found[1] if found else '1.22'}"]
    lines += [f"require {name} {number}" for name, number in (*required, (MODULE, version))]
    lines += replaced
    (folder / "go.mod").write_text("\n".join(lines) + "\n")
    (folder / "go.sum").write_bytes((Path(described["Dir"]) / "go.sum").read_bytes())


def _published(go: str, name: str, version: str, folder: Path, environment: Mapping[str, str]) -> str:
    """The newest version that can be had, from this one on downwards. Raises BinariesError if there is none."""
    minor, _, patch = version.rpartition(".")
    for number in range(int(patch), -1, -1):
        command = [go, "mod", "download", f"{name}@{minor}.{number}"]
        if not subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False).returncode:
            return f"{minor}.{number}"
    raise BinariesError(f"the module proxy has no version of {name} {minor}")


def _run(command: list[str], folder: Path, environment: Mapping[str, str]) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = "\n".join(done.stderr.splitlines()[-20:])
        raise BinariesError(f"building failed ({' '.join(command)}):\n{said}")
    return done.stdout
