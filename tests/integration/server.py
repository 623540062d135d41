"""aggserver as a child process: started, waited for, talked to by kubectl, ended.

Used by the fixtures of `conftest.py` and by the tests that need a server of their own (restarts, kill -9).
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from aggserver.options.controllers import CONTROLLERS
from tests import records
from tests.controlplane.plane import CONTROLLERS as ALL_THERE
from tests.waiting import HANG_SECONDS, POLL_SECONDS

__all__ = ["NO_COLLECTOR", "SAME_CONTROLLERS", "AggServer", "Aggregated", "Standalone", "eventually", "running"]

# For comparisons with the control plane: the controllers that run there; and these but for the garbage collector, since that of
# kube-controller-manager does not collect custom resources yet.
_THERE = [name for name in ALL_THERE if name in CONTROLLERS]
SAME_CONTROLLERS = f"--controllers={','.join(_THERE)}"
NO_COLLECTOR = f"--controllers={','.join(name for name in _THERE if name != 'garbage-collector-controller')}"


T = TypeVar("T")

_REPOSITORY = Path(__file__).parents[2]


def eventually(probe: Callable[[], T | None], what: str, seconds: float = HANG_SECONDS) -> T:
    """The first answer of `probe` that is true. For what others do in their own time: controllers, the aggregator."""
    deadline = time.monotonic() + seconds
    while True:
        if answer := probe():
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds:g} s; the last answer was {answer!r}")
        time.sleep(POLL_SECONDS)


class AggServer:
    """One process. Its output goes to a file, whose end is in every error."""

    module = "aggserver"

    def __init__(self, arguments: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self._log = log
        records.follow(log)
        self._offset = log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self.module, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": str(_REPOSITORY), **(environment or {})},
                cwd=log.parent,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def output(self) -> str:
        return self._log.read_bytes()[self._offset :].decode(errors="replace")

    def wait_for(self, pattern: str) -> re.Match[str]:
        """The first match of `pattern` in the output."""
        deadline = time.monotonic() + HANG_SECONDS
        while time.monotonic() < deadline:
            found = re.search(pattern, self.output)
            if found:
                return found
            if self._process.poll() is not None:
                raise AssertionError(f"aggserver ended with {self._process.returncode}:\n{self.output}")
            time.sleep(POLL_SECONDS)
        self.kill()
        raise AssertionError(f"no {pattern!r} within {HANG_SECONDS:g} s:\n{self.output}")

    def halt(self) -> None:
        """SIGSTOP: its connections stand, and nothing is answered until `go_on`."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL: no chance to do anything."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """SIGTERM, and the exit status."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(HANG_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"aggserver did not end within {HANG_SECONDS:g} s of SIGTERM:\n{self.output}") from None


class Standalone(AggServer):
    """`aggserver dev`, ready when made."""

    def __init__(self, folder: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        log = folder.parent / f"{folder.name}.log"
        super().__init__(["dev", "--data", str(folder), "--secure-port", "0", *arguments], log, environment)
        self.url = self.wait_for(r"aggserver serves (https://\S+)").group(1)
        self.kubeconfig = folder / "kubeconfig"

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


class Aggregated(AggServer):
    """`aggserver serve` beside a cluster, listening when made; whether it is ready is the cluster's affair."""

    def __init__(self, folder: Path, kubeconfig: Path, port: int, *arguments: str) -> None:
        folder.mkdir(exist_ok=True)
        where = ["--bind-address", "127.0.0.1", "--secure-port", str(port), "--data", str(folder / "data")]
        super().__init__(["serve", "--kubeconfig", str(kubeconfig), *where, *arguments], folder / "aggserver.log")
        self.port = int(self.wait_for(r"aggserver listens on https://127\.0\.0\.1:(\d+)").group(1))


@contextlib.contextmanager
def running(server: AggServer) -> Iterator[AggServer]:
    """Ends the server whatever happens; a clean end is part of the test."""
    try:
        yield server
    except BaseException:
        server.kill()
        raise
    assert server.stop() == 0, server.output
