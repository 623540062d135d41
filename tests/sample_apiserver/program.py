"""sample-apiserver, built once through the Go module proxy into the user's cache, as the control plane is; and run beside one.

go.mod and go.sum pin it: the version of the control plane, whose modules Go then has compiled already (tests/controlplane).
`built` and `GoServer` are what it has in common with other servers that are made with k8s.io/apiserver.
"""

from __future__ import annotations

import os
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.controlplane.binaries import cache_folder, locked
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import free_ports
from tests.controlplane.toolchain import go_command, go_environment
from tests.waiting import HANG_SECONDS, POLL_SECONDS

__all__ = ["GoServer", "SampleApiserver", "SampleError", "build", "built"]

MODULE = Path(__file__).parent
PACKAGE = "k8s.io/sample-apiserver"


class SampleError(RuntimeError):
    """A program can't be built or does not start; the text is what Go or the program said."""


def build(environ: Mapping[str, str], say: Callable[[str], None]) -> Path:
    """The program, built first if need be: a minute after the control plane. Raises SampleError, ToolchainError."""
    return built("sample-apiserver", MODULE, PACKAGE, environ, say)


def built(name: str, module: Path, package: str, environ: Mapping[str, str], say: Callable[[str], None]) -> Path:
    """A program by this name of a package that the go.mod in the folder `module` pins. Raises SampleError, ToolchainError."""
    folder = cache_folder(environ, name, module, [path.read_bytes() for path in sorted(module.glob("*.go"))])
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name(f"{name}.lock"), say):
        if not folder.is_dir():
            _build(folder, module, package, environ, say)
    return folder / name


def _build(folder: Path, module: Path, package: str, environ: Mapping[str, str], say: Callable[[str], None]) -> None:
    name = folder.name.rpartition("-")[0]
    say(f"building {name}: a minute, once")
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}.", dir=folder.parent) as scratch:
        output = Path(scratch, "bin")
        command = [go_command(module / "go.mod", say), "build", "-ldflags=-s -w", "-o", f"{output}/{name}", package]
        done = subprocess.run(command, cwd=module, env=go_environment(environ), capture_output=True, text=True, check=False)
        if done.returncode:
            raise SampleError(f"{' '.join(command)} failed:\n{done.stderr[-4000:]}")
        output.rename(folder)


class GoServer:
    """A server that is made with k8s.io/apiserver, beside a control plane. Ready when made. arguments: its own.

    start_seconds: from the start of the process until /readyz is ok.
    """

    def __init__(self, program: Path, plane: ControlPlane, folder: Path, port: int = 0, arguments: Sequence[str] = ()) -> None:
        self.port = port or free_ports(1)[0]
        self._log = folder / f"{program.name}.log"
        kubeconfig = plane.kubeconfig
        command = [
            str(program),
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            f"--secure-port={self.port}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={folder / f'{program.name}-certificates'}",
            *arguments,
        ]
        began = time.monotonic()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder)
        try:
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise
        self.start_seconds = time.monotonic() - began

    @property
    def pid(self) -> int:
        return self._process.pid

    def _wait_until_ready(self) -> None:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        deadline = time.monotonic() + HANG_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            try:
                with urllib.request.urlopen(f"https://127.0.0.1:{self.port}/readyz", context=context) as answer:
                    if answer.status == 200:
                        return
            except (OSError, urllib.error.URLError):
                pass
            time.sleep(POLL_SECONDS)
        raise SampleError(f"{self._log.stem} is not ready:\n{self._log.read_text(errors='replace')[-4000:]}")

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(HANG_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class SampleApiserver(GoServer):
    """Uses the etcd of the control plane. arguments: further ones of the program."""

    def __init__(self, plane: ControlPlane, folder: Path, port: int = 0, arguments: Sequence[str] = ()) -> None:
        own = (f"--etcd-servers={plane.etcd}", f"--kubeconfig={plane.kubeconfig}")
        super().__init__(build(os.environ, print), plane, folder, port, (*own, *arguments))
