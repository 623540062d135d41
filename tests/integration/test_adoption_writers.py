"""No acknowledged write is lost while a definition moves to this server, back, and here again, under writers that never stop.

Two kube-apiservers on one etcd; requests go to either, by chance, so that some reach one that has switched and some one that has
not. Reflectors, raw watchers and informers of client-go and of the Python client watch through it all, and the history checker
holds what each was told against what was written.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.binaries import obtain
from tests.controlplane.cluster import write_kubeconfig
from tests.controlplane.plane import ControlPlane
from tests.history.checker import check
from tests.history.clients import travellers
from tests.history.informers import InformerRecording, check_informer
from tests.history.moved import Moved
from tests.history.scenarios import observe
from tests.history.servers import DEFINITIONS
from tests.history.wire import GROUP, KINDS, Shared, connected
from tests.integration import moving
from tests.integration.adopting import Adopting
from tests.integration.informing import Recordings, go_informers, python_informers
from tests.integration.server import eventually
from tests.waiting import KUBECTL_LIMIT

WRITERS = 6
# Seconds between two writes of a writer: together a few hundred a second.
PAUSE = 0.01
SOME = 300  # acknowledged writes between two moves
MOVES = 3
SEED = 520_211

# Those of the history are one family, since they share a group.
ALL = [moving.NAME, *(f"{resource}.{GROUP.partition('/')[0]}" for resource in KINDS)]

INFORMERS: dict[str, Callable[[Path, Shared, Recordings], contextlib.AbstractAsyncContextManager[None]]] = {
    "client-go": lambda *to: go_informers(*to, watch_list=True),
    "Python": python_informers,
}


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(obtain(os.environ, print), replicas=2) as plane:
        plane.kubectl("create", "-f", "-", input=json.dumps(moving.DEFINITION))
        plane.kubectl("create", "-f", str(DEFINITIONS))
        plane.kubectl("wait", "--for=condition=Established", *(f"crd/{name}" for name in ALL), KUBECTL_LIMIT)
        for server in plane.servers:
            for name in ALL:
                # Each kube-apiserver learns of a definition in its own time.
                read = ("get", name, "-A", "--server", server)
                eventually(lambda read=read: not plane.kubectl(*read, check=False).returncode, f"{name} is served")  # type: ignore[misc]
        yield plane


def kubeconfigs(plane: ControlPlane, folder: Path) -> list[Path]:
    """An administrator's at each kube-apiserver."""
    made = []
    pair = plane.client_ca.client("writer", "kubernetes-admin", ("system:masters",))
    for number, server in enumerate(plane.servers):
        path = folder / f"server-{number}.kubeconfig"
        write_kubeconfig(path, server, plane.client_ca.pair.certificate, "kubernetes-admin", pair)
        made.append(path)
    return made


async def write_on(writers: list[moving.Writer], count: int) -> None:
    """Until so many more writes are acknowledged."""
    goal = sum(writer.acknowledged for writer in writers) + count
    await asyncio.to_thread(eventually, lambda: sum(writer.acknowledged for writer in writers) >= goal, "they write on")


async def told_on(recordings: list[InformerRecording]) -> None:
    """Until each informer was told more: it has found its way after whatever happened."""
    known = [len(recording.entries) for recording in recordings]

    def more() -> bool:
        return all(len(recording.entries) > count for recording, count in zip(recordings, known, strict=True))

    await asyncio.to_thread(eventually, more, f"{[recording.client for recording in recordings]} are told more")


async def test_no_acknowledged_write_is_lost(plane: ControlPlane, tmp_path: Path) -> None:
    adopting = await asyncio.to_thread(Adopting, plane, tmp_path, moving.GROUP, GROUP.partition("/")[0])
    server = await asyncio.to_thread(adopting.start, "--host-etcd-servers", plane.etcd)
    chance = random.Random(SEED)
    told: list[Any] = []
    shared = Shared()
    shared.up.set()
    shared.shaken = True
    recordings = {kind: {resource: InformerRecording(kind, resource) for resource in KINDS} for kind in INFORMERS}
    every = [recording for of_kind in recordings.values() for recording in of_kind.values()]
    try:
        async with connected(kubeconfigs(plane, tmp_path), chance) as wire, contextlib.AsyncExitStack() as informers:
            for kind, run_informers in INFORMERS.items():
                await informers.enter_async_context(run_informers(plane.kubeconfig, shared, recordings[kind]))
            writers = [moving.Writer(number, wire, random.Random(chance.random())) for number in range(WRITERS)]

            async def moves() -> None:
                async with asyncio.TaskGroup() as tasks:
                    for writer in writers:
                        tasks.create_task(writer.run(PAUSE))
                    try:
                        for move in (adopting.adopt, adopting.release, adopting.adopt):
                            await write_on(writers, SOME)
                            await told_on(every)
                            for definition in ALL:
                                adopting.label(definition, "" if move == adopting.release else "true")
                            for definition in ALL:
                                await asyncio.to_thread(move, definition)
                            told.append([dict(writer.refused) for writer in writers])
                            told.append({f"{recording.client}, {recording.resource}": recording.lists for recording in every})
                        await write_on(writers, SOME)
                        await told_on(every)
                    finally:
                        for writer in writers:
                            writer.stop()

            observed = await observe(wire, shared, chance, travellers, moves, goal=1, pause=PAUSE, plain=True)
            assert [writer.faults for writer in writers] == [[]] * WRITERS, told
            for _ in plane.servers:
                status, listed = await wire.call("GET", moving.PATH)
                assert status == 200
                assert moving.differences(writers, listed["items"]) == [], told
        assert "came late" not in adopting.log, adopting.log
    finally:
        assert server.stop() == 0, server.output
    moved = Moved(observed.writes, observed.recordings, observed.looked, MOVES)
    verdict = check(moved.writes, moved.recordings)
    assert moved.faults == [], told
    assert not verdict.faults, f"{verdict}\n{told}"
    # Nobody can watch on over a move. Who is slow to come back meets several moves with one list.
    assert verdict.expired > 0, told
    for recording in every:
        faults = check_informer(verdict.truth, moved.informer(recording))
        assert not faults, "\n".join([f"{len(faults)} faults, {told}; the first:", *faults[:5]])
        assert recording.lists > 1, told
