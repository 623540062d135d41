"""sample-apiserver, built once through the Go module proxy into the user's cache, as the control plane is; and run beside one.

go.mod and go.sum pin it: the version of the control plane, whose modules Go then has compiled already (tests/controlplane).
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

__all__ = ["SampleApiserver", "SampleError", "build"]

MODULE = Path(__file__).parent
PACKAGE = "k8s.io/sample-apiserver"


class SampleError(RuntimeError):
    """It can't be built or does not start; the text is what Go or the program said."""


def build(environ: Mapping[str, str], say: Callable[[str], None]) -> Path:
    """The program, built first if need be: a minute after the control plane. Raises SampleError, ToolchainError."""
    folder = cache_folder(environ, "sample-apiserver", MODULE)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name("sample-apiserver.lock"), say):
        if not folder.is_dir():
            _build(folder, environ, say)
    return folder / "sample-apiserver"


def _build(folder: Path, environ: Mapping[str, str], say: Callable[[str], None]) -> None:
    say("building sample-apiserver: a minute, once")
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}.", dir=folder.parent) as scratch:
        output = Path(scratch, "bin")
        command = [go_command(MODULE / "go.mod", say), "build", "-ldflags=-s -w", "-o", f"{output}/", PACKAGE]
        done = subprocess.run(command, cwd=MODULE, env=go_environment(environ), capture_output=True, text=True, check=False)
        if done.returncode:
            raise SampleError(f"{' '.join(command)} failed:\n{done.stderr[-4000:]}")
        output.rename(folder)


class SampleApiserver:
    """Beside a control plane, whose etcd it uses. Ready when made. arguments: further ones of the program.

    start_seconds: from the start of the process until /readyz is ok.
    """

    def __init__(self, plane: ControlPlane, folder: Path, port: int = 0, arguments: Sequence[str] = ()) -> None:
        program = build(os.environ, print)
        self.port = port or free_ports(1)[0]
        self._log = folder / "sample-apiserver.log"
        kubeconfig = plane.kubeconfig
        command = [
            str(program),
            f"--etcd-servers={plane.etcd}",
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            f"--secure-port={self.port}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={folder / 'sample-certificates'}",
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
        raise SampleError(f"sample-apiserver is not ready:\n{self._log.read_text(errors='replace')[-4000:]}")

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(HANG_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
