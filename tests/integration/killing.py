"""Moves and releases of a definition in the middle of which a server is killed, while writers go on.

When to kill is decided by the server's journal, which is read from the file of its store: as soon as a phase is seen, and some
milliseconds later, by chance. What follows is the same for all: the server that was killed is started again over the same data,
and in the end the definition is where it is wanted, with every acknowledged write and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import sqlite3
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from tests.controlplane.cluster import write_kubeconfig
from tests.controlplane.plane import ControlPlane
from tests.history.wire import Gone, Wire, connected
from tests.integration import moving
from tests.integration.adopting import LABEL, Adopting
from tests.integration.aggregation import NAMESPACE
from tests.integration.server import eventually

__all__ = ["LABELED", "RECORDLESS", "Kill", "Killing", "killing", "plane_with_definition"]

WRITERS = 4
NAMES = 10  # of each writer, of which about half are there at any time
STILL = 25  # objects that nobody writes
PAUSE = 0.02  # seconds between two writes of a writer
SOME = 40  # acknowledged writes before each move, and after it
SECONDS = (
    180.0  # until the definition is where it is wanted: the aggregator looks up to half a minute later whether a server is back
)

# What is waited for before the kill, beside the phases of the journal: the label only, and the end of the record.
LABELED, RECORDLESS = "the label", "the end of the record"
_ORDER = {True: ("Copying", "Guarding", "Switching", "Adopted"), False: ("GivingBack", "SwitchingBack", RECORDLESS)}

_LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/aggserver-adoption"
_RECORD = f"/aggserver/adoptions/{moving.NAME}"
_OBJECTS = f"/{moving.GROUP}/parcels/"
_FINALIZER = "aggserver.io/adopted"


@dataclass(frozen=True, slots=True)
class Kill:
    """adopt: else release. at: a phase, LABELED or RECORDLESS. ours: kill aggserver. kube_apiserver: its number, or None.

    milliseconds: the longest time from there to the kill. twice: kill aggserver again once the record changes after that.
    through_api: the server has no access to the host's etcd, so the copy is read through the API.
    """

    adopt: bool
    at: str
    ours: bool = True
    kube_apiserver: int | None = None
    milliseconds: int = 0
    twice: bool = False
    through_api: bool = False


class Balanced(Wire):
    """To the kube-apiservers that are not `down`, as a load balancer does. What is no answer of the API is a lost connection."""

    def __init__(self, wires: Sequence[Wire], chance: random.Random) -> None:
        self.down: set[int] = set()
        self._wires = wires
        self._by = chance

    async def call(self, *arguments: Any, **more: Any) -> tuple[int, dict[str, Any]]:
        wire = self._by.choice([each for number, each in enumerate(self._wires) if number not in self.down])
        try:
            status, answer = await wire.call(*arguments, **more)
            if status == 403 and "system:anonymous" in answer.get("message", ""):
                # aggserver has just been started, and does not know yet whom to believe the user's name. It is not ready, so
                # that the Service of a cluster leads nobody to it; that of these tests does.
                raise Gone("the server is not ready")
            return status, answer
        except (Gone, orjson.JSONDecodeError) as error:
            # The aggregator tells in plain text that it could not reach us. What is on its way still has this time to happen.
            await asyncio.sleep(0.5)
            raise Gone(str(error)) from error


def plane_with_definition(plane: ControlPlane) -> None:
    plane.kubectl("create", "-f", "-", input=json.dumps(moving.DEFINITION))
    plane.kubectl("wait", "--for=condition=Established", "crd", moving.NAME, "--timeout=30s")
    objects = [
        {
            "apiVersion": f"{moving.GROUP}/v1",
            "kind": moving.KIND,
            "metadata": {"name": f"still-{number}", "namespace": "default"},
            "spec": {"mark": number},
        }
        for number in range(STILL)
    ]
    plane.kubectl("create", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))


class Killing:
    """told: a line for each kill, with the phase that the journal had then."""

    def __init__(self, plane: ControlPlane, adopting: Adopting, wire: Balanced, chance: random.Random) -> None:
        self.told: list[str] = []
        self._plane = plane
        self._adopting = adopting
        self._wire = wire
        self._chance = chance
        self._writers = [moving.Writer(number, wire, random.Random(chance.random()), NAMES) for number in range(WRITERS)]
        self._still: dict[str, Any] = {}

    async def run(self, kill: Kill) -> None:
        """One move or release, until the definition is there, and its objects were compared."""
        self.told.append(f"{kill}")
        self._still = self._still or await self._listed_still()
        etcd = [] if kill.through_api else ["--host-etcd-servers", self._plane.etcd]
        await asyncio.to_thread(self._adopting.start, *etcd)
        try:
            for writer in self._writers:
                writer.again()
            async with asyncio.TaskGroup() as tasks:
                for writer in self._writers:
                    tasks.create_task(writer.run(PAUSE))
                try:
                    await self._write_on()
                    await asyncio.to_thread(self._adopting.label, moving.NAME, "true" if kill.adopt else "")
                    await asyncio.to_thread(self._until, kill)
                    await self._kill(kill, etcd)
                    if kill.twice:
                        await asyncio.to_thread(self._until_changed, self._record())
                        await self._kill(Kill(kill.adopt, kill.at), etcd)
                    await asyncio.to_thread(self._until_there, kill.adopt)
                    await self._write_on()
                finally:
                    for writer in self._writers:
                        writer.stop()
            await self._compare(kill.adopt)
        finally:
            assert self._adopting.server.stop() == 0, self._adopting.server.output

    async def _kill(self, kill: Kill, etcd: Sequence[str]) -> None:
        number = kill.kube_apiserver
        if number is not None:
            await asyncio.to_thread(self._plane.kill, number)
            self._wire.down.add(number)
        if kill.ours:
            await asyncio.to_thread(self._adopting.server.kill)
        victims = ["aggserver"] * kill.ours + [f"kube-apiserver {number}"] * (number is not None)
        self.told.append(f"  killed {' and '.join(victims)} in {self._phase()}")
        async with asyncio.TaskGroup() as tasks:
            if kill.ours:
                tasks.create_task(self._start(etcd))
            if number is not None:
                tasks.create_task(asyncio.to_thread(self._plane.restart, number))
        self._wire.down.clear()

    async def _start(self, etcd: Sequence[str]) -> None:
        # The next server would wait until the Lease of the one that is dead has expired.
        status = 0
        while status not in (200, 404):
            with contextlib.suppress(Gone):
                status, _ = await self._wire.call("DELETE", _LEASE)
        await asyncio.to_thread(self._adopting.start, *etcd)

    # --- when ---

    def _until(self, kill: Kill) -> None:
        """Until the step has begun, or is over already, and then some milliseconds."""
        if kill.at != LABELED:
            order = _ORDER[kill.adopt]
            wanted = order[order.index(kill.at) :]
            eventually(lambda: self._phase() in wanted, f"{kill.at}: {self._adopting.log[-3000:]}", SECONDS)
        time.sleep(self._chance.uniform(0.0, kill.milliseconds / 1000))

    def _until_changed(self, record: Mapping[str, Any] | None) -> None:
        """Until the record is another one, if it is to change at all."""
        with contextlib.suppress(AssertionError):
            eventually(lambda: self._record() != record, "another record", 5.0)

    def _until_there(self, adopted: bool) -> None:
        wanted = "Adopted" if adopted else ""
        eventually(
            lambda: (self._phase() == (wanted or RECORDLESS)) and self._adopting.phase(moving.NAME) == wanted,
            f"{wanted or 'released'}: {self._phase()}, {self._adopting.status()}, {self._adopting.log[-5000:]}",
            SECONDS,
        )

    def _phase(self) -> str:
        record = self._record()
        return str(record["phase"]) if record is not None else RECORDLESS

    def _record(self) -> Mapping[str, Any] | None:
        rows = self._rows(
            "SELECT CAST(events.value AS BLOB) FROM current JOIN events USING (revision) WHERE current.key = ?", _RECORD
        )
        return orjson.loads(rows[0][0]) if rows else None

    def _rows(self, query: str, *arguments: str) -> list[Any]:
        # Read-only, so that it never takes the place of the server that is dead: recovery and checkpoints are the next one's.
        uri = f"{self._adopting.store.as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=30.0)) as connection:
            return connection.execute(query, arguments).fetchall()

    # --- what is there ---

    async def _write_on(self) -> None:
        goal = sum(writer.acknowledged for writer in self._writers) + SOME
        await asyncio.to_thread(
            eventually, lambda: sum(writer.acknowledged for writer in self._writers) >= goal, "they write on", SECONDS
        )

    async def _listed_still(self) -> dict[str, Any]:
        return _still((await self._get(moving.PATH))["items"])

    async def _compare(self, adopted: bool) -> None:
        faults = [fault for writer in self._writers for fault in writer.faults]
        assert not faults, "\n".join([*faults, self._adopting.log[-5000:]])
        for number in range(len(self._plane.servers)):
            self._wire.down = set(range(len(self._plane.servers))) - {number}
            listed = await self._get(moving.PATH)
            assert moving.differences(self._writers, listed["items"]) == [], self._adopting.log[-5000:]
            assert _still(listed["items"]) == self._still
            known = {name for writer in self._writers for name in writer.known}
            assert {item["metadata"]["name"] for item in listed["items"]} == known | self._still.keys()
        self._wire.down = set()
        # Where it is, and that nothing of a step that was cut off is left.
        service = await self._get(f"/apis/apiregistration.k8s.io/v1/apiservices/v1.{moving.GROUP}")
        assert (service["spec"].get("service") is not None) == adopted
        definition = await self._get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{moving.NAME}")
        assert (_FINALIZER in definition["metadata"].get("finalizers", ())) == adopted
        assert definition["metadata"].get("labels", {}).get(LABEL) == ("true" if adopted else None)
        assert definition["spec"]["versions"][0]["schema"] == moving.DEFINITION["spec"]["versions"][0]["schema"]
        guards = await self._get("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations")
        assert (moving.GROUP in json.dumps(guards["items"])) == adopted
        copies = self._rows("SELECT key FROM current WHERE key >= ? AND key < ?", _OBJECTS, _OBJECTS[:-1] + "0")
        assert len(copies) == (len(listed["items"]) if adopted else 0)

    async def _get(self, path: str) -> dict[str, Any]:
        while True:
            status, found = await self._wire.call("GET", path)
            if status not in (429, 503):
                assert status == 200, found
                return found
            await asyncio.sleep(0.1)


def _still(items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The objects that nobody writes, as they must stay: all but the revision."""
    found = [item for item in items if item["metadata"]["name"].startswith("still-")]
    return {
        item["metadata"]["name"]: {
            **item,
            "metadata": {key: value for key, value in item["metadata"].items() if key != "resourceVersion"},
        }
        for item in found
    }


@contextlib.asynccontextmanager
async def killing(plane: ControlPlane, folder: Path, chance: random.Random) -> AsyncIterator[Killing]:
    adopting = await asyncio.to_thread(Adopting, plane, folder, moving.GROUP)
    pair = plane.client_ca.client("writer", "kubernetes-admin", ("system:masters",))
    async with contextlib.AsyncExitStack() as stack:
        wires = []
        for number, server in enumerate(plane.servers):
            path = folder / f"server-{number}.kubeconfig"
            write_kubeconfig(path, server, plane.client_ca.pair.certificate, "kubernetes-admin", pair)
            wires.append(await stack.enter_async_context(connected([path], chance)))
        yield Killing(plane, adopting, Balanced(wires, random.Random(chance.random())), chance)
