"""What happens to the server while it is written to and watched, and a run of it from beginning to verdict.

A scenario needs a server that can be ended and had again at the same address over the same data; `STORES` says with which
arguments it is started for each store. Everything random comes from the seed, but for what the machine's load decides.
"""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane.processes import free_ports
from tests.history.checker import Verdict, check
from tests.history.clients import Client, clients
from tests.history.recording import Listed, Recording, Selection
from tests.history.wire import KINDS, Shared, Wire, connected, path_of
from tests.history.writers import Writer
from tests.integration.server import Standalone

__all__ = ["SCENARIOS", "STORES", "Scenario", "run"]

DEFINITIONS = Path(__file__).with_name("definitions.yaml")
WRITERS = 6

_COMPACT_WRITES = 100  # between compactions, where history is short: less than clients stay away, or look back

_END_SECONDS = 20.0  # for clients to come to the end, after the last write: a watch lasts three


# Arguments of `aggserver dev` by store.
STORES: dict[str, Sequence[str]] = {"sqlite": ()}


class _ShortHistory(Standalone):
    module = "tests.history.short_history"

    def compact(self) -> None:
        self._process.send_signal(signal.SIGUSR1)


class Server:
    """At one address over one folder, however often it is ended. `up` tells clients whether it is there."""

    def __init__(self, kind: type[Standalone], folder: Path, arguments: Sequence[str], up: asyncio.Event) -> None:
        self._kind = kind
        self._folder = folder
        self._arguments = ["-f", str(DEFINITIONS), "--secure-port", str(free_ports(1)[0]), *arguments]
        self._up = up
        self._process: Standalone | None = None

    async def start(self) -> Path:
        """Returns its kubeconfig."""
        self._process = await asyncio.to_thread(self._kind, self._folder, *self._arguments)
        self._up.set()
        return self._process.kubeconfig

    def compact(self) -> None:
        """Forgets what was history at the last call; nothing while the server is not there, or if it is not made for that."""
        if isinstance(self._process, _ShortHistory):
            self._process.compact()

    async def end(self, number: signal.Signals) -> None:
        """By SIGKILL or SIGTERM; the latter's end must be a clean one."""
        process, self._process = self._process, None
        if process is None:
            return
        self._up.clear()
        if number == signal.SIGKILL:
            process.kill()
        else:
            status = await asyncio.to_thread(process.stop)
            assert status == 0, process.output


async def _compact(server: Server, shared: Shared) -> None:
    """By writes and not by time, so that it is never quicker than those who come back at once."""
    while not shared.progress.over.is_set():
        await shared.progress.more(_COMPACT_WRITES)
        server.compact()


# What happens meanwhile: returns when it is over.
Events = Callable[[Server, Shared, random.Random, int], Awaitable[None]]


async def _nothing(server: Server, shared: Shared, chance: random.Random, goal: int) -> None:
    pass


def _restarts(times: int, number: signal.Signals) -> Events:
    async def restarts(server: Server, shared: Shared, chance: random.Random, goal: int) -> None:
        for _ in range(times):
            await shared.progress.more(chance.randint(1, goal // (times + 1)))
            await server.end(number)
            await server.start()

    return restarts


@dataclass(frozen=True, slots=True)
class Scenario:
    """`events` happen to a server while `goal` writes are acknowledged. `short`: history is, so that clients come too late."""

    events: Events
    goal: int = 800
    short: bool = False


SCENARIOS = {
    "calm": Scenario(_nothing),
    "compaction": Scenario(_nothing, goal=1000, short=True),
    "killed": Scenario(_restarts(4, signal.SIGKILL)),
    "restarted": Scenario(_restarts(3, signal.SIGTERM)),
    "killed in compaction": Scenario(_restarts(3, signal.SIGKILL), goal=1000, short=True),
}


# Clients of the run, and who else is there: entered when the server is up, left when the writers are done.
Audience = Callable[[Wire, Shared, random.Random], list[Client]]
Beside = Callable[[Path, Shared], AbstractAsyncContextManager[object]]


async def run(
    scenario: Scenario,
    store: str,
    seed: int,
    folder: Path,
    audience: Audience = clients,
    beside: Beside = lambda kubeconfig, shared: nullcontext(),
) -> Verdict:
    chance = random.Random(seed)
    shared = Shared()
    server = Server(_ShortHistory if scenario.short else Standalone, folder, STORES[store], shared.up)
    try:
        kubeconfig = await server.start()
        async with connected(kubeconfig) as wire, asyncio.TaskGroup() as tasks, beside(kubeconfig, shared):
            watching = audience(wire, shared, chance)
            writing = [
                Writer(f"writer{number}", wire, shared, random.Random(chance.random()), scenario.goal)
                for number in range(WRITERS)
            ]
            following = [tasks.create_task(client.run()) for client in watching]
            tasks.create_task(_compact(server, shared))
            writers = [tasks.create_task(writer.run()) for writer in writing]
            await scenario.events(server, shared, chance, scenario.goal)
            await asyncio.wait(writers)
            final = [await _final(wire, shared, resource) for resource in KINDS]
            shared.progress.finish()
            # Who is not at the end by then is for the checker to name.
            await asyncio.wait(following, timeout=_END_SECONDS)
            for task in following:
                task.cancel()
    finally:
        await server.end(signal.SIGTERM)
    writes = [write for writer in writing for write in writer.writes]
    return check(writes, final + [client.recording for client in watching])


async def _final(wire: Wire, shared: Shared, resource: str) -> Recording:
    """What is there at the end: nothing that was acknowledged may be lacking."""
    sent = shared.tick()
    status, answer = await wire.call("GET", path_of(resource))
    assert status == 200, answer
    items = [shared.same(resource, item) for item in answer["items"]]
    shared.final[resource] = items
    shared.last = int(answer["metadata"]["resourceVersion"])
    listed = Listed(sent, [(shared.last, items)], latest=True)
    return Recording(f"the last list of {resource}", Selection(resource), False, [listed])
