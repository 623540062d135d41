"""An etcd cluster of its own, whose members can be lost, stopped and started again: for tests of the etcd store.

All on loopback, in a folder that the caller gives and removes; ended with the run, as the control plane is.
"""

from __future__ import annotations

import signal
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.controlplane.binaries import Binaries
from tests.controlplane.pki import Authority, KeyPair
from tests.controlplane.processes import Guard, Process, end, free_ports
from tests.waiting import HANG_SECONDS

__all__ = ["EtcdCluster"]


class EtcdCluster:
    """`size` members; with `tls`, `ca` is who signs them, and `client` the one client certificate they let in.

    `trusted` is the CA of clients that a member started from now on lets in. `urls` are the members', in order. Whoever connects
    waits until they answer.
    """

    def __init__(self, binaries: Binaries, folder: Path, *, size: int = 1, tls: bool = False) -> None:
        self._binary = binaries.etcd
        self._folder = folder
        self._tls = tls
        self._guard = Guard(None)
        self._processes: list[Process] = []
        self._started = 0
        ports = free_ports(2 * size)
        self.urls = [f"{'https' if tls else 'http'}://127.0.0.1:{port}" for port in ports[:size]]
        self._peers = [f"http://127.0.0.1:{port}" for port in ports[size:]]
        authority = Authority(folder, "etcd-ca")
        self.ca = authority.pair.certificate
        self.trusted = self.ca
        self.client: KeyPair = authority.client("etcd-client", "aggserver")
        self._serving = authority.server("etcd-server", ("127.0.0.1", "localhost"))

    def __enter__(self) -> Self:
        self._processes = [self._run(number) for number in range(len(self.urls))]
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        for process in self._processes:
            process.signal(signal.SIGCONT)
        end(self._processes)
        self._guard.dismiss()

    def kill(self, number: int = 0) -> None:
        """SIGKILL, and waits for the end."""
        self._processes[number].signal(signal.SIGKILL)
        self._processes[number].wait(HANG_SECONDS)

    def stop(self, number: int) -> None:
        """SIGSTOP: its connections stand, and nothing answers."""
        self._processes[number].signal(signal.SIGSTOP)

    def resume(self, number: int) -> None:
        self._processes[number].signal(signal.SIGCONT)

    def start_again(self, number: int = 0, *, empty: bool = False) -> None:
        """After `kill`: with the data it had, or with none."""
        self._started += empty
        self._processes[number] = self._run(number)

    def _run(self, number: int) -> Process:
        url, peer = self.urls[number], self._peers[number]
        everybody = ",".join(f"m{one}={address}" for one, address in enumerate(self._peers))
        command = [
            str(self._binary),
            f"--name=m{number}",
            f"--data-dir={self._folder / f'data-{number}-{self._started}'}",
            f"--listen-client-urls={url}",
            f"--advertise-client-urls={url}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster={everybody}",
            "--log-level=error",
            "--unsafe-no-fsync",
        ]
        if self._tls:
            command += [
                f"--cert-file={self._serving.certificate}",
                f"--key-file={self._serving.key}",
                f"--trusted-ca-file={self.trusted}",
                "--client-cert-auth",
            ]
        return Process(f"etcd {number}", command, self._folder / f"etcd-{number}.log", {}, self._guard)
