"""No acknowledged write is lost while a definition moves to this server, back, and here again, under writers that never stop.

Two kube-apiservers on one etcd; requests go to either, by chance, so that some reach one that has switched and some one that has
not. client-go's informers watch through it all, and know in the end what is there.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.binaries import obtain, obtain_program
from tests.controlplane.cluster import write_kubeconfig
from tests.controlplane.plane import ControlPlane
from tests.history.wire import connected
from tests.integration import moving
from tests.integration.adopting import Adopting
from tests.integration.server import eventually

WRITERS = 6
# Seconds between two writes of a writer: together a few hundred a second.
PAUSE = 0.01
SOME = 300  # acknowledged writes between two moves


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane(obtain(os.environ, print), replicas=2) as plane:
        plane.kubectl("create", "-f", "-", input=json.dumps(moving.DEFINITION))
        plane.kubectl("wait", "--for=condition=Established", "crd", moving.NAME, "--timeout=30s")
        yield plane


class Informer:
    """What the handlers of a client-go informer were told: mark and uid by name."""

    def __init__(self) -> None:
        self.known: dict[str, tuple[int, str]] = {}
        self.lists = 0

    def read(self, line: bytes) -> None:
        said = json.loads(line)
        if said["did"] == "list":
            self.lists += 1
        elif said["did"] in ("add", "update"):
            metadata = said["object"]["metadata"]
            self.known[metadata["name"]] = (said["object"]["spec"]["mark"], metadata["uid"])
        elif said["did"] == "delete":
            self.known.pop(said["object"]["metadata"]["name"], None)


@contextlib.asynccontextmanager
async def informer(kubeconfig: Path) -> AsyncIterator[Informer]:
    program = await asyncio.to_thread(obtain_program, "informer", os.environ, print)
    process = await asyncio.create_subprocess_exec(
        program,
        str(kubeconfig),
        f"parcels.v1.{moving.GROUP}",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 24,
    )
    made = Informer()

    async def follow() -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            made.read(line)

    following = asyncio.create_task(follow())
    try:
        yield made
    finally:
        process.kill()
        await process.wait()
        await following


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
    await asyncio.to_thread(eventually, lambda: sum(writer.acknowledged for writer in writers) >= goal, "they write on", 60.0)


async def test_no_acknowledged_write_is_lost(plane: ControlPlane, tmp_path: Path) -> None:
    adopting = await asyncio.to_thread(Adopting, plane, tmp_path, moving.GROUP)
    server = await asyncio.to_thread(adopting.start, "--host-etcd-servers", plane.etcd)
    seed = random.SystemRandom().randrange(1 << 20)
    chance = random.Random(seed)
    told: list[Any] = [f"seed {seed}"]
    try:
        async with connected(kubeconfigs(plane, tmp_path), chance) as wire, informer(plane.kubeconfig) as informed:
            writers = [moving.Writer(number, wire, random.Random(chance.random())) for number in range(WRITERS)]
            async with asyncio.TaskGroup() as tasks:
                for writer in writers:
                    tasks.create_task(writer.run(PAUSE))
                try:
                    for move in (adopting.adopt, adopting.release, adopting.adopt):
                        await write_on(writers, SOME)
                        await asyncio.to_thread(move, moving.NAME)
                        told.append([writer.refused for writer in writers])
                    await write_on(writers, SOME)
                finally:
                    for writer in writers:
                        writer.stop()
            assert [writer.faults for writer in writers] == [[]] * WRITERS, told
            for _ in plane.servers:
                status, listed = await wire.call("GET", moving.PATH)
                assert status == 200
                assert moving.differences(writers, listed["items"]) == [], told
            final = {item["metadata"]["name"]: (item["spec"]["mark"], item["metadata"]["uid"]) for item in listed["items"]}
            await asyncio.to_thread(eventually, lambda: informed.known == final, "the informer knows what is there", 60.0)
            # The moves were in the way of some writers, and an informer that moves lists anew.
            assert any(503 in writer.refused for writer in writers)
            assert informed.lists >= 3
        assert "came late" not in adopting.log, adopting.log
    finally:
        assert server.stop() == 0, server.output
