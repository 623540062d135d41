"""The servers under test, each at one address over one folder, however often it is ended; and the etcd of those that have one.

A replica is `aggserver dev`, with a CA of its own: to be one of several it only needs the same store.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.controlplane.binaries import obtain
from tests.controlplane.etcd import EtcdCluster
from tests.controlplane.processes import free_ports
from tests.history.wire import Shared
from tests.integration.server import Standalone
from tests.kine.program import Kine, build

__all__ = ["DEFINITIONS", "STORES", "Backing", "Fleet"]

DEFINITIONS = Path(__file__).with_name("definitions.yaml")


class Backing:
    """Where the servers of one run keep their objects: arguments that say so, and the etcd, if there is one."""

    def __init__(self, arguments: Sequence[str] = (), etcd: EtcdCluster | Kine | None = None) -> None:
        self.arguments = arguments
        self._etcd = etcd

    async def restart(self) -> None:
        """Kills etcd or kine, and starts it over the same data."""
        assert self._etcd is not None, "only etcd is a process of its own"
        await asyncio.to_thread(self._etcd.kill)
        self._etcd.start_again()


@contextmanager
def _sqlite(folder: Path) -> Iterator[Backing]:
    yield Backing()


@contextmanager
def _etcd(folder: Path) -> Iterator[Backing]:
    folder = folder / "etcd"
    folder.mkdir()
    with EtcdCluster(obtain(os.environ, print), folder) as etcd:
        yield Backing(("--storage", "etcd", "--etcd-servers", ",".join(etcd.urls)), etcd)


# By name: what is entered for a run, with a folder for its files.
@contextmanager
def _kine(folder: Path) -> Iterator[Backing]:
    folder = folder / "kine"
    folder.mkdir()
    with Kine(build(os.environ, print), folder) as kine:
        yield Backing(("--storage", "etcd", "--etcd-servers", kine.url), kine)


STORES: dict[str, Callable[[Path], AbstractContextManager[Backing]]] = {"sqlite": _sqlite, "etcd": _etcd, "kine": _kine}


class _ShortHistory(Standalone):
    module = "tests.history.short_history"

    def compact(self) -> None:
        self._process.send_signal(signal.SIGUSR1)


class Fleet:
    """`count` servers of one backing; `short`: their history is. `Shared.up` is set while any of them is there.

    older: the environment of the version before, with which all begin; `replace` says which version a server's next start is of.
    """

    def __init__(
        self, folder: Path, backing: Backing, shared: Shared, *, count: int, short: bool, older: Mapping[str, str] | None = None
    ) -> None:
        self.backing = backing
        self.count = count
        self._kind = _ShortHistory if short else Standalone
        self._folders = [folder / f"server-{number}" for number in range(count)]
        self._ports = free_ports(count)
        self._shared = shared
        self._running: dict[int, Standalone] = {}
        self._older = older
        self._environments = [older] * count

    def replace(self, number: int, *, older: bool = False) -> None:
        """By today's code, or by the version before."""
        self._environments[number] = self._older if older else None

    async def start_all(self) -> list[Path]:
        """Returns their kubeconfigs."""
        return [await self.start(number) for number in range(len(self._ports))]

    async def start(self, number: int) -> Path:
        port = str(self._ports[number])
        arguments = ["-f", str(DEFINITIONS), "--secure-port", port, *self.backing.arguments]
        environment = self._environments[number]
        self._running[number] = await asyncio.to_thread(self._kind, self._folders[number], *arguments, environment=environment)
        self._shared.up.set()
        return self._running[number].kubeconfig

    def compact(self) -> None:
        """Forgets what was history at the last call, where history is short and a server there to do it."""
        for server in self._running.values():
            if isinstance(server, _ShortHistory):
                server.compact()
                return

    async def end(self, number: int, how: signal.Signals) -> None:
        """By SIGKILL or SIGTERM; the latter's end must be a clean one."""
        server = self._running.pop(number)
        if not self._running:
            self._shared.up.clear()
        if how == signal.SIGKILL:
            server.kill()
        else:
            status = await asyncio.to_thread(server.stop)
            assert status == 0, server.output

    async def end_all(self) -> None:
        for number in list(self._running):
            await self.end(number, signal.SIGTERM)
