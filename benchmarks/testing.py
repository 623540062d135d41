"""`python -m benchmarks.testing`: what a server for tests costs, on aggserver, on the programs of envtest and on those of kwok.

Each round starts all of them in turn: `aggserver.testing.Server`; etcd and kube-apiserver with envtest's flags; and what kwokctl
starts without a scheduler: these two, the controller manager and kwok (with --kwok PROGRAM, from `go install`, and the stages
that are in its module). Measured are the seconds until /readyz is ok, the memory then, the seconds until a deleted namespace with
an object is gone, and the seconds to stop. It prints the table of docs/testing.md, with the median of the rounds.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import ssl
import statistics
import sys
import tempfile
import time
import urllib.error
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aggserver.testing import Server
from benchmarks.client import Access, call
from benchmarks.processes import usage
from benchmarks.report import machine
from benchmarks.run import conditions, progress
from tests.controlplane.binaries import Binaries, obtain
from tests.controlplane.pki import Authority, write_service_account_key
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import Guard, Process, ProcessError, end, free_ports

ROUNDS = 5
TIMEOUT = 120.0
DELETION_TIMEOUT = 20.0
STOP_TIMEOUT = 20.0
INTERVAL = 0.01
NAMESPACE = "measured"
AGGSERVER, ENVTEST, KWOK = "aggserver", "envtest", "kwok"
ROWS = {
    "ready": "start until ready",
    "memory": "memory when ready",
    "deleted": "a deleted namespace is gone after",
    "stopped": "stop",
}


@dataclass
class Figures:
    """Of one program, a number for each round: seconds, and bytes of memory. deleted: None if nothing deletes."""

    ready: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    deleted: list[float] | None = field(default_factory=list)
    stopped: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Running:
    """A server that is ready. pids: its programs."""

    access: Access
    pids: Sequence[int]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.testing", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"how often each is started (default {ROUNDS})")
    parser.add_argument("--kwok", type=Path, metavar="PROGRAM", help="measure kwok as well")
    parser.add_argument("--kwok-stages", type=Path, nargs="*", default=[], metavar="FILE", help="its stages of Nodes and Pods")
    options = parser.parse_args(arguments)
    say = progress()
    binaries = obtain(os.environ, say)
    starts: dict[str, Callable[[Path], contextlib.AbstractContextManager[Running]]] = {
        AGGSERVER: _aggserver,
        ENVTEST: lambda folder: _envtest(binaries, folder),
    }
    if options.kwok:
        stages = [f"--config={file.absolute()}" for file in options.kwok_stages]
        starts[KWOK] = lambda folder: _kwok(binaries, [str(options.kwok.absolute()), *stages], folder)
    found = {name: Figures() for name in starts}
    for number in range(options.rounds):
        for name, start in starts.items():
            say(f"round {number + 1}: {name}")
            with tempfile.TemporaryDirectory(prefix="testing-") as folder:
                _measure(start, Path(folder), found[name])
    print(table(found))
    print(f"\n{machine(conditions())}. Medians of {options.rounds} rounds.")
    return 0


def _measure(start: Callable[[Path], contextlib.AbstractContextManager[Running]], folder: Path, figures: Figures) -> None:
    began = time.monotonic()
    running = start(folder)
    with running as server:
        figures.ready.append(time.monotonic() - began)
        figures.memory.append(sum(usage(pid).resident_bytes for pid in server.pids))
        seconds = _deletion(server.access) if figures.deleted is not None else None
        if seconds is None:
            figures.deleted = None
        elif figures.deleted is not None:
            figures.deleted.append(seconds)
        began = time.monotonic()
    figures.stopped.append(time.monotonic() - began)


def _deletion(access: Access) -> float | None:
    """Seconds until a namespace with a ConfigMap in it is gone; None if it still is there after DELETION_TIMEOUT."""
    call(access, "POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    call(access, "POST", f"/api/v1/namespaces/{NAMESPACE}/configmaps", {"metadata": {"name": "one"}})
    call(access, "DELETE", f"/api/v1/namespaces/{NAMESPACE}")
    began = time.monotonic()
    while time.monotonic() - began < DELETION_TIMEOUT:
        try:
            call(access, "GET", f"/api/v1/namespaces/{NAMESPACE}")
        except urllib.error.HTTPError as error:
            if error.code != http.client.NOT_FOUND:
                raise
            return time.monotonic() - began
        time.sleep(INTERVAL)
    return None


@contextlib.contextmanager
def _aggserver(folder: Path) -> Iterator[Running]:
    with Server(folder=folder) as server:
        access = Access(server.url, server.ca_file, server.client_certificate_file, server.client_key_file)
        yield Running(access, [server.pid])


@contextlib.contextmanager
def _envtest(binaries: Binaries, folder: Path) -> Iterator[Running]:
    """With the flags that controller-runtime's pkg/internal/testing/controlplane sets (v0.24)."""
    authority = Authority(folder, "ca")
    admin = authority.client("admin", "admin", ("system:masters",))
    serving = authority.server("apiserver", ("localhost", "127.0.0.1"))
    key, public_key = write_service_account_key(folder)
    etcd_port, peer_port, port = free_ports(3)
    etcd = f"http://127.0.0.1:{etcd_port}"
    guard = Guard(None)
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    processes: list[Process] = []

    def run(program: Path, *flags: str) -> None:
        processes.append(Process(program.name, [str(program), *flags], folder / f"{program.name}.log", environment, guard))

    try:
        run(
            binaries.etcd,
            f"--data-dir={folder / 'etcd'}",
            f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}",
            f"--listen-peer-urls=http://127.0.0.1:{peer_port}",
            "--unsafe-no-fsync",
        )
        run(
            binaries.kube_apiserver,
            f"--etcd-servers={etcd}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--tls-cert-file={serving.certificate}",
            f"--tls-private-key-file={serving.key}",
            f"--client-ca-file={authority.pair.certificate}",
            f"--service-account-key-file={public_key}",
            f"--service-account-signing-key-file={key}",
            "--service-account-issuer=https://localhost",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--allow-privileged=true",
            "--authorization-mode=RBAC",
            "--disable-admission-plugins=ServiceAccount",
            "--endpoint-reconciler-type=none",
        )
        access = Access(f"https://127.0.0.1:{port}", authority.pair.certificate, admin.certificate, admin.key)
        _wait_until_ready(access, processes)
        yield Running(access, [process.pid for process in processes])
    finally:
        # As envtest does: one after the other, since kube-apiserver does not stop without etcd, and kills what takes longer.
        for process in processes[::-1]:
            end([process], STOP_TIMEOUT)
        guard.dismiss()


@contextlib.contextmanager
def _kwok(binaries: Binaries, command: Sequence[str], folder: Path) -> Iterator[Running]:
    with ControlPlane(binaries, folder=folder) as plane:
        guard = Guard(None)
        [port] = free_ports(1)
        flags = [f"--kubeconfig={plane.kubeconfig}", "--manage-all-nodes=true", f"--server-address=127.0.0.1:{port}"]
        kwok = Process("kwok", [*command, *flags], folder / "kwok.log", {"HOME": str(folder)}, guard)
        try:
            _wait(lambda: _answers(port), [kwok])
            admin = plane.folder / "pki"
            access = Access(plane.server, plane.client_ca.pair.certificate, admin / "admin.crt", admin / "admin.key")
            yield Running(access, [*(process.pid for process in plane._processes), kwok.pid])
        finally:
            end([kwok], STOP_TIMEOUT)
            guard.dismiss()


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", "/healthz")
        return connection.getresponse().status == http.client.OK
    return False


def _wait_until_ready(access: Access, processes: Sequence[Process]) -> None:
    def ready() -> bool:
        try:
            return bool(call(access, "GET", "/readyz"))
        except (OSError, http.client.HTTPException, ssl.SSLError):
            return False

    _wait(ready, processes)


def _wait(is_ready: Callable[[], bool], processes: Sequence[Process]) -> None:
    """Raises ProcessError if one of the processes ends before, or if it takes too long."""
    deadline = time.monotonic() + TIMEOUT
    while not is_ready():
        for process in processes:
            process.check()
        if time.monotonic() > deadline:
            raise ProcessError(f"not ready after {TIMEOUT:.0f} s:\n{processes[-1].tail()}")
        time.sleep(INTERVAL)


def table(found: dict[str, Figures]) -> str:
    """The medians, a column for each program."""
    lines = [f"| | {' | '.join(found)} |", f"|---|{'---|' * len(found)}"]
    for attribute, text in ROWS.items():
        cells = [_cell(attribute, getattr(figures, attribute)) for figures in found.values()]
        lines.append(f"| {text} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(attribute: str, numbers: Sequence[float] | None) -> str:
    if numbers is None:
        return "never"
    median = statistics.median(numbers)
    return f"{median / 1e6:,.0f} MB" if attribute == "memory" else f"{median:.2f} s"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
