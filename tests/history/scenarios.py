"""What happens to the servers while they are written to and watched, and a run of it from beginning to verdict.

Everything random comes from the seed, but for what the machine's load decides.
"""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from tests.history.checker import Verdict, check
from tests.history.clients import Client, clients
from tests.history.recording import Key, Listed, Object, Recording, Selection, Write
from tests.history.servers import STORES, Fleet
from tests.history.wire import KINDS, Shared, Wire, connected, path_of
from tests.history.writers import Writer
from tests.upgrades.kept import unpacked_code
from tests.waiting import HANG_SECONDS

__all__ = ["RUNS", "SCENARIOS", "Observed", "Scenario", "observe", "run"]

WRITERS = 6

_COMPACT_WRITES = 100  # between compactions, where history is short: less than clients stay away, or look back


async def _compact(fleet: Fleet, shared: Shared) -> None:
    """By writes and not by time, so that it is never quicker than those who come back at once."""
    while not shared.progress.over.is_set():
        await shared.progress.more(_COMPACT_WRITES)
        fleet.compact()


# What happens meanwhile: returns when it is over.
Events = Callable[[Fleet, Shared, random.Random, int], Awaitable[None]]


async def _nothing(fleet: Fleet, shared: Shared, chance: random.Random, goal: int) -> None:
    pass


def _restarts(times: int, how: signal.Signals) -> Events:
    """Of one server after the other."""

    async def restarts(fleet: Fleet, shared: Shared, chance: random.Random, goal: int) -> None:
        for turn in range(times):
            await shared.progress.more(chance.randint(1, goal // (times + 1)))
            number = turn % fleet.count
            await fleet.end(number, how)
            await fleet.start(number)

    return restarts


def _etcd_restarts(times: int) -> Events:
    async def restarts(fleet: Fleet, shared: Shared, chance: random.Random, goal: int) -> None:
        shared.shaken = True
        for _ in range(times):
            await shared.progress.more(chance.randint(1, goal // (times + 1)))
            await fleet.backing.restart()

    return restarts


def _replaced(*, back: bool) -> Events:
    """One server after the other by today's code; with `back`, then one by the version before again."""

    async def replaced(fleet: Fleet, shared: Shared, chance: random.Random, goal: int) -> None:
        turns = [(number, False) for number in range(fleet.count)] + [(0, True)] * back
        for number, older in turns:
            await shared.progress.more(chance.randint(1, goal // (len(turns) + 1)))
            await fleet.end(number, signal.SIGTERM)
            fleet.replace(number, older=older)
            await fleet.start(number)

    return replaced


@dataclass(frozen=True, slots=True)
class Scenario:
    """`events` happen to so many `servers` while `goal` writes are acknowledged. `stores`: those that it makes sense for.

    `short`: history is, so that clients come too late. `older`: the servers are of the version before, until they are replaced.
    """

    events: Events
    goal: int = 500
    short: bool = False
    servers: int = 1
    older: bool = False
    stores: tuple[str, ...] = ("sqlite", "etcd")


SCENARIOS = {
    "calm": Scenario(_nothing, stores=("sqlite",)),
    "compaction": Scenario(_nothing, goal=800, short=True, stores=("sqlite",)),
    "killed": Scenario(_restarts(4, signal.SIGKILL), stores=("sqlite",)),
    "restarted": Scenario(_restarts(3, signal.SIGTERM), stores=("sqlite", "kine")),
    "killed in compaction": Scenario(_restarts(3, signal.SIGKILL), goal=800, short=True),
    "replicas killed": Scenario(_restarts(4, signal.SIGKILL), servers=2, stores=("etcd",)),
    "etcd killed": Scenario(_etcd_restarts(3), servers=2, stores=("etcd",)),
    "kine killed": Scenario(_etcd_restarts(3), stores=("kine",)),
    "upgraded": Scenario(_replaced(back=True), servers=2, older=True, stores=("etcd",)),
    "upgraded alone": Scenario(_replaced(back=True), older=True, stores=("sqlite",)),
}

# (scenario, store): all there is to run.
RUNS = [(name, store) for store in STORES for name, scenario in SCENARIOS.items() if store in scenario.stores]


# Clients of the run, and who else is there: entered when the server is up, left when the writers are done.
Audience = Callable[[Wire, Shared, random.Random], list[Client]]
Beside = Callable[[Path, Shared], AbstractAsyncContextManager[object]]


@dataclass(frozen=True, slots=True)
class Observed:
    """What was written down. looked: the objects that writers were told when they looked for one."""

    writes: Sequence[Write]
    recordings: Sequence[Recording]
    looked: Sequence[tuple[Key, Object]]


async def run(
    scenario: Scenario,
    store: str,
    seed: int,
    folder: Path,
    audience: Audience = clients,
    beside: Beside = lambda kubeconfig, shared: nullcontext(),
) -> Verdict:
    """Makes its files in `folder`, which is there and empty."""
    shared = Shared()
    older = unpacked_code(folder / "older") if scenario.older else None
    with STORES[store](folder) as backing:
        fleet = Fleet(folder, backing, shared, count=scenario.servers, short=scenario.short, older=older)
        try:
            return await _run(fleet, scenario, shared, random.Random(seed), audience, beside)
        finally:
            await fleet.end_all()


async def _run(
    fleet: Fleet, scenario: Scenario, shared: Shared, chance: random.Random, audience: Audience, beside: Beside
) -> Verdict:
    kubeconfigs = await fleet.start_all()
    async with connected(kubeconfigs, chance) as wire, asyncio.TaskGroup() as tasks, beside(kubeconfigs[0], shared):
        tasks.create_task(_compact(fleet, shared))
        seen = await observe(
            wire, shared, chance, audience, lambda: scenario.events(fleet, shared, chance, scenario.goal), goal=scenario.goal
        )
    return check(seen.writes, seen.recordings)


async def observe(
    wire: Wire,
    shared: Shared,
    chance: random.Random,
    audience: Audience,
    meanwhile: Callable[[], Awaitable[None]],
    *,
    goal: int,
    pause: float = 0.0,
    plain: bool = False,
) -> Observed:
    """Writers write until `goal` writes are acknowledged and `meanwhile` is over; what they and the audience wrote down.

    pause, plain: of `Writer`.
    """
    async with asyncio.TaskGroup() as tasks:
        watching = audience(wire, shared, chance)
        writing = [
            Writer(f"writer{number}", wire, shared, random.Random(chance.random()), goal, pause, plain=plain)
            for number in range(WRITERS)
        ]
        following = [tasks.create_task(client.run()) for client in watching]
        # A witness that is broken off before it stands somewhere begins anew, and nobody would be told of what went meanwhile.
        for witness in (client for client in watching if client.is_witness):
            await asyncio.wait_for(witness.begun.wait(), HANG_SECONDS)
        writers = [tasks.create_task(writer.run()) for writer in writing]
        await meanwhile()
        shared.settled.set()
        await asyncio.wait(writers)
        final = [await _final(wire, shared, resource) for resource in KINDS]
        shared.progress.finish()
        # Who is not at the end by then is for the checker to name.
        await asyncio.wait(following, timeout=HANG_SECONDS)
        for task in following:
            task.cancel()
    return Observed(
        [write for writer in writing for write in writer.writes],
        final + [client.recording for client in watching],
        [each for writer in writing for each in writer.looked],
    )


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
