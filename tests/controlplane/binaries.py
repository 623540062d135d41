"""Where etcd, kube-apiserver, kube-controller-manager and kubectl come from, and our programs that need its packages.

KUBEBUILDER_ASSETS (envtest's convention) wins where it is set. Otherwise the commands in the `tool` block of go.mod are built
once into `${XDG_CACHE_HOME:-~/.cache}/aggserver/controlplane-<hash>`; the hash covers go.mod, go.sum and the platform, so that a
new Kubernetes is a new folder and an old checkout still finds its own. The folder appears by one rename, under a lock: a build
that was broken off leaves nothing that looks finished, and two runs at once build once.
"""

from __future__ import annotations

import collections
import contextlib
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane.toolchain import go_command, go_environment

__all__ = [
    "Binaries",
    "BinariesError",
    "build_program",
    "cache_folder",
    "kubernetes_version",
    "locked",
    "obtain",
    "obtain_program",
    "stamps",
]

MODULE = Path(__file__).parent
NAMES = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")

# Go names a command by the last part of its import path, and etcd's is go.etcd.io/etcd/server/v3.
ETCD_AS_BUILT = "server"

# Seconds between two lines of progress: often enough to see that it lives, seldom enough for a log.
PROGRESS_INTERVAL = 15.0


class BinariesError(RuntimeError):
    """The control plane can't be had; the text says why, with the end of the build's output."""


@dataclass(frozen=True)
class Binaries:
    """A folder that holds all of NAMES."""

    folder: Path

    @property
    def etcd(self) -> Path:
        return self.folder / "etcd"

    @property
    def kube_apiserver(self) -> Path:
        return self.folder / "kube-apiserver"

    @property
    def kube_controller_manager(self) -> Path:
        return self.folder / "kube-controller-manager"

    @property
    def kubectl(self) -> Path:
        return self.folder / "kubectl"

    def minor(self) -> int:
        """The minor version of kube-apiserver, such as 36."""
        said = subprocess.run([self.kube_apiserver, "--version"], capture_output=True, text=True, check=True).stdout
        match = re.search(r"v1\.(\d+)", said)
        if match is None:
            raise BinariesError(f"{self.kube_apiserver} --version says {said!r}")
        return int(match.group(1))


def obtain(environ: Mapping[str, str], say: Callable[[str], None]) -> Binaries:
    """The binaries, built first if need be (about 6 minutes from cold caches). `say` gets lines of progress.

    Raises BinariesError, ToolchainError.
    """
    if assets := environ.get("KUBEBUILDER_ASSETS"):
        return _given(Path(assets))
    folder = cache_folder(environ)
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with locked(folder.with_name("controlplane.lock"), say):
            if not folder.is_dir():
                _build(folder, environ, say)
    return Binaries(folder)


def obtain_program(name: str, environ: Mapping[str, str], say: Callable[[str], None]) -> Path:
    """`<name>/main.go` of this module: built once for each content of it and of go.mod.

    Raises BinariesError, ToolchainError.
    """
    source = hashlib.sha256((MODULE / name / "main.go").read_bytes()).hexdigest()[:16]
    module = cache_folder(environ)
    program = module.with_name(f"{module.name.replace('controlplane', name)}-{source}")
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        with locked(program.with_name(f"{name}.lock"), say), tempfile.TemporaryDirectory(dir=program.parent) as scratch:
            if not program.exists():
                built = Path(scratch, name)
                go = go_command(MODULE / "go.mod", say)
                _run([go, "build", "-v", "-o", str(built), f"./{name}"], go_environment(environ), say)
                built.rename(program)
    return program


def build_program(
    name: str, module: Path, package: str, environ: Mapping[str, str], say: Callable[[str], None], *, cgo: bool = True
) -> Path:
    """A program by this name of a package that the go.mod in the folder `module` pins: built once for each content of that and of
    the folder's Go files. Raises BinariesError, ToolchainError.

    cgo: whether it may have parts in C, for which a C compiler is needed.
    """
    folder = cache_folder(environ, name, module, [path.read_bytes() for path in sorted(module.glob("*.go"))])
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name(f"{name}.lock"), say):
        if not folder.is_dir():
            say(f"building {name}: a minute or two, once")
            with tempfile.TemporaryDirectory(prefix=f"{folder.name}.", dir=folder.parent) as scratch:
                output = Path(scratch, "bin")
                command = [go_command(module / "go.mod", say), "build", "-ldflags=-s -w", "-o", f"{output}/{name}", package]
                environment = go_environment(environ) | ({} if cgo else {"CGO_ENABLED": "0"})
                done = subprocess.run(command, cwd=module, env=environment, capture_output=True, text=True, check=False)
                if done.returncode:
                    raise BinariesError(f"{' '.join(command)} failed:\n{done.stderr[-4000:]}")
                output.rename(folder)
    return folder / name


def cache_folder(
    environ: Mapping[str, str], name: str = "controlplane", module: Path = MODULE, more: Iterable[bytes] = ()
) -> Path:
    """The folder for the go.mod and go.sum of a module, and the platform, whether it is there or not.

    more: what else the folder is made of.
    """
    cache = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or Path.home(), ".cache")
    key = hashlib.sha256(f"{platform.system()} {platform.machine()}\n".encode())
    for content in (*more, *((module / file).read_bytes() for file in ("go.mod", "go.sum"))):
        key.update(content)
    return Path(cache, "aggserver", f"{name}-{key.hexdigest()[:16]}")


def kubernetes_version() -> str:
    """The version of k8s.io/kubernetes that go.mod requires, such as `v1.36.3`."""
    match = re.search(r"k8s\.io/kubernetes (v\S+)", (MODULE / "go.mod").read_text())
    if match is None:
        raise BinariesError("tests/controlplane/go.mod does not require k8s.io/kubernetes")
    return match.group(1)


def _given(folder: Path) -> Binaries:
    missing = [name for name in NAMES if not os.access(folder / name, os.X_OK)]
    if missing:
        # envtest's own archives lack the controller manager, without which namespaces are never deleted. One of another
        # version beside them would be a control plane that nobody runs.
        raise BinariesError(f"KUBEBUILDER_ASSETS is {folder}, which has no {', '.join(missing)}: add them, or unset the variable")
    return Binaries(folder)


@contextlib.contextmanager
def locked(path: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold an exclusive lock that the kernel drops when the process ends, however it ends."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another run is building the same: waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(folder: Path, environ: Mapping[str, str], say: Callable[[str], None]) -> None:
    version = kubernetes_version()
    go = go_command(MODULE / "go.mod", say)
    say(f"building etcd, kube-apiserver, kube-controller-manager and kubectl {version} into {folder}")
    say("this takes about 6 minutes from cold caches, and is done once")
    began = time.monotonic()
    for abandoned in folder.parent.glob(f"{folder.name}.*"):  # of a run that was killed: we hold the lock, so nobody uses it
        shutil.rmtree(abandoned)
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}.", dir=folder.parent) as scratch:
        output = Path(scratch, "bin")
        output.mkdir()
        command = [go, "install", "-v", "-ldflags", stamps(version), "tool"]
        _run(command, go_environment(environ) | {"GOBIN": str(output)}, say)
        (output / ETCD_AS_BUILT).rename(output / "etcd")
        output.rename(folder)
    say(f"the control plane was built in {time.monotonic() - began:.0f} s")


def _run(command: list[str], environment: Mapping[str, str], say: Callable[[str], None]) -> None:
    """Run go, reporting how many packages it has named so far: `go install -v` prints one line for each."""
    tail: collections.deque[str] = collections.deque(maxlen=40)
    began = said = time.monotonic()
    downloads = packages = 0
    with subprocess.Popen(
        command,
        cwd=MODULE,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        for line in process.stdout or ():
            tail.append(line)
            downloads += (is_download := line.startswith("go: downloading"))
            packages += not is_download
            if (now := time.monotonic()) - said >= PROGRESS_INTERVAL:
                said = now
                say(f"  {now - began:3.0f} s: {downloads} modules downloaded, {packages} packages compiled")
    if process.returncode:
        raise BinariesError(f"building failed ({' '.join(command)}):\n{''.join(tail)}")


def stamps(version: str) -> str:
    """Linker flags that stamp the version, as hack/lib/version.sh of Kubernetes does; unstamped it is v0.0.0-master."""
    major, minor = version.removeprefix("v").split(".")[:2]
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    flags = [f"-X {package}.{name}={value}" for package in packages for name, value in values.items()]
    return " ".join(["-s", "-w", *flags])
