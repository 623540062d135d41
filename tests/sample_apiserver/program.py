"""sample-apiserver, built once through the Go module proxy into the user's cache, as the control plane is; and run beside one.

go.mod and go.sum pin it: the version of the control plane, whose modules Go then has compiled already (tests/controlplane).
`GoServer` is what it has in common with other servers that are made with k8s.io/apiserver.
"""

from __future__ import annotations

import os
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.controlplane.binaries import build_program
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import free_ports
from tests.waiting import HANG_SECONDS, POLL_SECONDS

__all__ = ["GoServer", "SampleApiserver", "SampleError", "build"]

MODULE = Path(__file__).parent
PACKAGE = "k8s.io/sample-apiserver"


class SampleError(RuntimeError):
    """A program does not start; the text is what it said."""


def build(environ: Mapping[str, str], say: Callable[[str], None]) -> Path:
    """The program, built first if need be: a minute after the control plane. Raises BinariesError, ToolchainError."""
    return build_program("sample-apiserver", MODULE, PACKAGE, environ, say)


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
