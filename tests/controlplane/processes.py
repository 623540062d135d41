"""Child processes that end when we do: each in a group of its own, its output in a file, a guard behind them all.

Ctrl-C at the terminal reaches only us, so that we end the children in our order; if we are killed, tests.controlplane.guard does
it.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests import records
from tests.waiting import HANG_SECONDS

__all__ = ["Guard", "Process", "ProcessError", "end", "free_ports"]

# Ports below the range that Linux (32768) and macOS (49152) give to outgoing connections: between our look and the child's bind,
# no connection can be given one of these.
PORTS = range(20000, 30000)

# Seconds that a group has to end after SIGTERM. kube-apiserver drains for up to a minute; nothing here is worth waiting for that.
GRACE = 1.0


class ProcessError(RuntimeError):
    """A process ended though nobody asked it to; the text has the end of its log."""


class Guard:
    """Holds the pipe whose closing tells the guard process to act. `folder` is removed then; None leaves everything."""

    def __init__(self, folder: Path | None) -> None:
        script = Path(__file__).with_name("guard.py")
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(script), str(folder or "")], stdin=subprocess.PIPE, text=True, start_new_session=True
        )

    def order(self, text: str) -> None:
        # The guard can be gone only if somebody killed it; then there is nobody to tell, and ending normally still works.
        with contextlib.suppress(BrokenPipeError):
            assert self._process.stdin is not None
            self._process.stdin.write(text + "\n")
            self._process.stdin.flush()

    def dismiss(self) -> None:
        """Close the pipe and wait until the guard has done what was left to do."""
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate()


class Process:
    """A running child. `name` is for people; `log` gets its standard output and error."""

    def __init__(self, name: str, command: Sequence[str], log: Path, environment: Mapping[str, str], guard: Guard) -> None:
        self.name = name
        self.log = log
        self._guard = guard
        records.follow(log)
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                env=environment,
                cwd=log.parent,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        guard.order(f"+{self._process.pid}")

    @property
    def pid(self) -> int:
        return self._process.pid

    def check(self) -> None:
        """Raise ProcessError if it has ended."""
        if (code := self._process.poll()) is not None:
            raise ProcessError(f"{self.name} ended with exit code {code}; the end of its log:\n{self.tail()}")

    def tail(self, lines: int = 40) -> str:
        """The last lines of its log."""
        content = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(content.splitlines()[-lines:])

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to its group; nothing if it is gone."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def wait(self, timeout: float) -> bool:
        """Whether it ended within `timeout` seconds."""
        try:
            self._process.wait(max(timeout, 0.0))
        except subprocess.TimeoutExpired:
            return False
        self._guard.order(f"-{self._process.pid}")
        return True


def end(processes: Sequence[Process], grace: float = GRACE) -> None:
    """End all: SIGTERM, then SIGKILL for those that are still there after `grace` seconds in all."""
    for process in processes:
        process.signal(signal.SIGTERM)
    deadline = time.monotonic() + grace
    left = [process for process in processes if not process.wait(deadline - time.monotonic())]
    for process in left:
        process.signal(signal.SIGKILL)
    for process in left:
        process.wait(HANG_SECONDS)


def free_ports(count: int) -> list[int]:
    """Different ports that are free on 127.0.0.1 now. Nobody who asks this function is given one of them again.

    That goes for other processes too, of this run and of others on this machine: a port is locked as long as its process lives.
    """
    found: list[int] = []
    with _lock_of_ports:
        start = os.getpid() % len(PORTS)  # so that two runs seldom look at the same ones
        for port in (*PORTS[start:], *PORTS[:start]):
            if port not in _given and _is_ours(port):
                _given.add(port)
                with socket.socket() as probe, contextlib.suppress(OSError):
                    probe.bind(("127.0.0.1", port))
                    found.append(port)
            if len(found) == count:
                return found
    raise ProcessError(f"no {count} free ports between {PORTS.start} and {PORTS.stop}")


_lock_of_ports = threading.Lock()
_given: set[int] = set()


def _is_ours(port: int) -> bool:
    """Whether this process has, or now gets, the byte of the file of locks that stands for the port."""
    try:
        fcntl.lockf(_locks(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


@functools.cache
def _locks() -> int:
    """Stays open: the locks go with the first descriptor of the file that is closed, or with the process."""
    return os.open(Path(tempfile.gettempdir(), f"aggserver-ports-{os.getuid()}"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
