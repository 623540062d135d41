"""Changes are pushed: one feed per process, however many clients watch.

kubectl get machines -A -w
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aggserver import App, Changed, Gone, ListRequest, Metadata, Relist, Request


class Inventory:
    """Stands for a database that notifies of the keys that have changed."""

    def __init__(self) -> None:
        self.rows = {("berlin", "m1"): 8, ("paris", "m2"): 16}
        self._listeners: list[asyncio.Queue[tuple[str, str]]] = []

    def set(self, site: str, name: str, cores: int | None) -> None:
        if cores is None:
            self.rows.pop((site, name), None)
        else:
            self.rows[site, name] = cores
        for listener in self._listeners:
            listener.put_nowait((site, name))

    @asynccontextmanager
    async def listen(self) -> AsyncGenerator[asyncio.Queue[tuple[str, str]], None]:
        queue: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self._listeners.append(queue)
        try:
            yield queue
        finally:
            self._listeners.remove(queue)


@dataclass
class Machine:
    """A machine of a data center."""

    metadata: Metadata
    cores: int


@asynccontextmanager
async def inventory() -> AsyncGenerator[Inventory, None]:
    yield Inventory()


app = App(inventory)
machines = app.virtual("dc.example.com/v1", Machine, columns={"Cores": ".cores"})


@machines.list
async def list_machines(request: ListRequest[Inventory]) -> list[Machine]:
    return [Machine(Metadata(name, site), cores) for (site, name), cores in request.state.rows.items()]


@machines.get
async def get_machine(request: Request[Inventory], name: str) -> Machine | None:
    cores = request.state.rows.get((request.namespace, name))
    return None if cores is None else Machine(Metadata(name, request.namespace), cores)


@machines.feed
async def machine_changes(state: Inventory) -> AsyncIterator[Changed[Machine] | Gone | Relist]:
    async with state.listen() as keys:  # first subscribe, then list: nothing is lost between
        yield Relist()
        while True:
            site, name = await keys.get()
            cores = state.rows.get((site, name))
            yield Gone(name, site) if cores is None else Changed(Machine(Metadata(name, site), cores))
