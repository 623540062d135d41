"""kine, built once through the Go module proxy into the user's cache, as the control plane is; and run.

go.mod and go.sum pin it. It is built without cgo, with SQLite in Go, so that no C compiler is needed.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.controlplane.binaries import build_program
from tests.controlplane.processes import Guard, Process, end, free_ports
from tests.waiting import HANG_SECONDS

__all__ = ["RETAINED", "Kine", "build"]

MODULE = Path(__file__).parent
PACKAGE = "github.com/k3s-io/kine"

# The newest revisions, which kine never compacts. By default there are 1,000 of them.
RETAINED = 10


def build(environ: Mapping[str, str], say: Callable[[str], None]) -> Path:
    """The program, built first if need be: two minutes. Raises BinariesError, ToolchainError."""
    return build_program("kine", MODULE, PACKAGE, environ, say, cgo=False)


class Kine:
    """One kine, in a folder. Whoever connects waits until it answers.

    database: the address of a PostgreSQL; else its data is an SQLite file in the folder, without a sync, of at most `most_pages`
    (of 4 KiB; 0: any number). socket: whether it listens at a Unix socket, as that of k3s, in place of a port.
    """

    def __init__(self, program: Path, folder: Path, *, database: str = "", socket: bool = False, most_pages: int = 0) -> None:
        self._program = program
        self._folder = folder
        settings = "_journal_mode=WAL&_busy_timeout=30000&_synchronous=OFF&_txlock=immediate"  # kine's own, but for the sync
        if most_pages:
            settings += f"&_pragma=max_page_count({most_pages})"
        self._endpoint = database or f"sqlite://{folder}/state.db?{settings}"
        self._guard = Guard(None)
        self._process: Process | None = None
        if socket:
            self.url = f"unix://{folder}/kine.sock"
        else:
            (port,) = free_ports(1)
            self.url = f"http://127.0.0.1:{port}"

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self._process is not None:
            end([self._process])
        self._guard.dismiss()

    def start_again(self) -> None:
        """After `kill`, with the data that it had."""
        self._start()

    def _start(self) -> None:
        address = self.url if self.url.startswith("unix") else self.url.removeprefix("http://")
        command = [
            str(self._program),
            f"--listen-address={address}",
            f"--endpoint={self._endpoint}",
            f"--compact-min-retain={RETAINED}",
            "--metrics-bind-address=0",
            "--datastore-max-open-connections=50",  # PostgreSQL lets in 100
        ]
        self._process = Process("kine", command, self._folder / "kine.log", {}, self._guard)

    def kill(self) -> None:
        """SIGKILL, and waits for the end."""
        assert self._process is not None
        self._process.signal(signal.SIGKILL)
        self._process.wait(HANG_SECONDS)
        self._process = None
