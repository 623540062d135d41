"""Moves and releases of a definition in the middle of which a server is killed, while writers go on.

When to kill is decided by the record of the move, which is read from the server's store: as soon as a phase is seen, and some
milliseconds later, by chance. What follows is the same for all: the server that was killed is started again over the same data,
or another one takes its place. In the end the definition is where it is wanted, with every acknowledged write and nothing else.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import random
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from tests.controlplane.cluster import write_kubeconfig
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import free_ports
from tests.history.wire import Gone, Wire, connected
from tests.integration import moving
from tests.integration.adopting import LABEL, Adopting
from tests.integration.aggregation import NAMESPACE
from tests.integration.balancing import Balancer
from tests.integration.server import Aggregated, eventually
from tests.integration.stores import EtcdStore, SQLiteStore, Store
from tests.waiting import HANG_SECONDS, KUBECTL_LIMIT

__all__ = ["LABELED", "RECORDLESS", "Kill", "Killing", "killing", "plane_with_definition"]

WRITERS = 4
NAMES = 10  # of each writer, of which about half are there at any time
STILL = 25  # objects that nobody writes
PAUSE = 0.02  # seconds between two writes of a writer
SOME = 40  # acknowledged writes before each move, and after it
SECONDS = (
    2 * HANG_SECONDS
)  # until the definition is where it is wanted: the aggregator looks up to half a minute later whether a server is back

# What is waited for before the kill, beside the phases of the journal: the label only, and the end of the record.
LABELED, RECORDLESS = "the label", "the end of the record"
_ORDER = {True: ("Copying", "Guarding", "Switching", "Adopted"), False: ("GivingBack", "SwitchingBack", RECORDLESS)}

_LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/aggserver-adoption"
_DEFINITION = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{moving.NAME}"
_OBJECTS = f"/{moving.GROUP}/parcels/"
_FINALIZER = "aggserver.io/adopted"
# A write of an object that nobody writes: path, query, body, content type.
_LATE = (f"{moving.PATH}/still-0", {}, {"spec": {"mark": 999}}, "application/merge-patch+json")
_RELEASE = {"aggserver.io/adoption": "release", "aggserver.io/release-through-api": "true"}


@dataclass(frozen=True, slots=True)
class Kill:
    """adopt: else release. at: a phase, LABELED or RECORDLESS. ours: kill aggserver. kube_apiserver: its number, or None.

    milliseconds: the longest time from there to the kill. twice: kill aggserver again once the record changes after that.
    through_api: the server has no access to the host's etcd. The copy is read through the API, and a release goes through it.
    Meanwhile clients read what was there before the adoption, so the writers pause.
    store: "own", "shared" (the cluster's etcd) or "etcd": another etcd, which two servers share. There the one that moves is
    killed, and the other one takes its place: as soon as the Lease is deleted, or if `outlasts`, once it has ended. halts: it is
    only halted, and goes on after the other one has brought the move to its end; a release with a write that was sent meanwhile.
    """

    adopt: bool
    at: str
    ours: bool = True
    kube_apiserver: int | None = None
    milliseconds: int = 0
    twice: bool = False
    through_api: bool = False
    store: str = "own"
    outlasts: bool = False
    halts: bool = False


class Balanced(Wire):
    """To the servers that are not `down`, as a load balancer does. What is no answer of the API is a lost connection.

    wires: may change at any time.
    """

    def __init__(self, wires: Sequence[Wire], chance: random.Random) -> None:
        self.down: set[int] = set()
        self.wires = list(wires)
        self._by = chance

    def copy(self) -> Balanced:
        """To the same servers, with the same ones `down` at any time."""
        made = Balanced(self.wires, random.Random(self._by.random()))
        made.down = self.down
        return made

    async def call(self, *arguments: Any, **more: Any) -> tuple[int, dict[str, Any]]:
        wire = self._by.choice([each for number, each in enumerate(self.wires) if number not in self.down])
        try:
            status, answer = await wire.call(*arguments, **more)
            if "kind" in answer:
                return status, answer
            # The aggregator tells in plain text that it could not reach us, or that the connection broke.
            raise Gone(answer["message"])
        except (Gone, orjson.JSONDecodeError) as error:
            # What is on its way still has this time to happen.
            await asyncio.sleep(0.5)
            raise Gone(str(error)) from error


class Servers:
    """One aggserver, or several that share a store. All methods block."""

    def __init__(self, adopting: Adopting, store: Store, data: str, ports: Sequence[int], arguments: Sequence[str]) -> None:
        self.store = store
        self.ports = ports
        self._adopting = adopting
        self._data = data
        self._arguments = arguments
        self._running: dict[int, Aggregated] = {}

    def start(self) -> None:
        """Those that do not run."""
        for number, port in enumerate(self.ports):
            if number not in self._running:
                data = f"{self._data}-{number}"
                self._running[number] = self._adopting.start(*self._arguments, data=data, port=port)

    def kill_mover(self) -> int:
        """Returns the number of the one that moved families."""
        number = self._mover()
        self._running.pop(number).kill()
        return number

    def halt_mover(self) -> int:
        number = self._mover()
        self._running[number].halt()
        return number

    def go_on(self, number: int) -> None:
        self._running[number].go_on()

    def _mover(self) -> int:
        return eventually(lambda: [each for each, server in self._running.items() if _moves(server)], "one moves", SECONDS)[0]

    def stop(self) -> None:
        for number in list(self._running):
            server = self._running.pop(number)
            assert server.stop() == 0, server.output

    @property
    def log(self) -> str:
        return "\n".join(f"server {number}: {server.output[-5000:]}" for number, server in self._running.items())


def _moves(server: Aggregated) -> bool:
    said = server.output
    return said.rfind("holding the Lease") > said.rfind("is lost: this server moves definitions no more")


def plane_with_definition(plane: ControlPlane) -> None:
    plane.kubectl("create", "-f", "-", input=json.dumps(moving.DEFINITION))
    plane.kubectl("wait", "--for=condition=Established", "crd", moving.NAME, KUBECTL_LIMIT)
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
    """told: a line for each kill, with the phase that the record had then. etcd: the URL of one for `Kill.store`, '' if none."""

    def __init__(
        self, plane: ControlPlane, adopting: Adopting, folder: Path, wire: Balanced, chance: random.Random, etcd: str
    ) -> None:
        self.told: list[str] = []
        self._plane = plane
        self._adopting = adopting
        self._folder = folder
        self._wire = wire
        # Of the writers, who also write to servers themselves; those have higher numbers than the kube-apiservers.
        self._written = wire.copy()
        self._chance = chance
        self._etcd = etcd
        self._pair = free_ports(2)
        self._writers = [moving.Writer(number, self._written, random.Random(chance.random()), NAMES) for number in range(WRITERS)]
        self._still: dict[str, Any] = {}
        self._at_host: set[str] = set()  # uids of the objects that the last adoption left in the cluster's etcd
        self._servers = self._of(Kill(adopt=True, at=LABELED))

    def _of(self, kill: Kill) -> Servers:
        """The servers that the kill is about."""
        host = [] if kill.through_api or kill.store == "shared" else ["--host-etcd-servers", self._plane.etcd]
        if kill.store == "own":
            store: Store = SQLiteStore(self._adopting.store_of("own-0"))
            return Servers(self._adopting, store, "own", [self._adopting.port], host)
        url = self._plane.etcd if kill.store == "shared" else self._etcd
        storage = ["--storage", "etcd", "--etcd-servers", url, "--etcd-compaction-interval", "0"]
        ports = [self._adopting.port] if kill.store == "shared" else self._pair
        return Servers(self._adopting, EtcdStore(url), kill.store, ports, [*storage, *host])

    async def run(self, kill: Kill) -> None:
        """One move or release, until the definition is there, and its objects were compared."""
        self.told.append(f"{kill}")
        self._still = self._still or await self._listed_still()
        self._servers = self._of(kill)
        pauses = kill.through_api and not kill.adopt
        async with contextlib.AsyncExitStack() as stack:
            await asyncio.to_thread(self._servers.start)
            stack.push_async_callback(asyncio.to_thread, self._servers.stop)
            if kill.store == "etcd":
                self._balancer = await stack.enter_async_context(Balancer(self._adopting.port, self._pair))
            async with self._writing(kill):
                await self._write_on()
                if not pauses:
                    await self._move(kill)
                    await self._write_on()
            if pauses:
                await self._move(kill)
                await self._know_new_uids()
                async with self._writing(kill):
                    await self._write_on()
            await self._compare(kill)
            if kill.adopt:
                left = EtcdStore(self._plane.etcd).objects(_OBJECTS)
                self._at_host = {each["metadata"]["uid"] for each in left}

    @contextlib.asynccontextmanager
    async def _writing(self, kill: Kill) -> AsyncIterator[None]:
        """With the writers going on. Where two servers serve a definition, they write to each of them, too."""
        async with asyncio.TaskGroup() as tasks, contextlib.AsyncExitStack() as stack:
            if kill.store == "etcd" and not kill.adopt and not kill.halts:
                for number in range(len(self._pair)):
                    wire = await stack.enter_async_context(connected([await self._direct(number)], self._chance))
                    self._written.wires.append(wire)
            for writer in self._writers:
                writer.again()
                tasks.create_task(writer.run(PAUSE))
            try:
                yield
            finally:
                for writer in self._writers:
                    writer.stop()
                self._only_through_the_cluster()

    def _only_through_the_cluster(self) -> None:
        del self._written.wires[len(self._plane.servers) :]

    async def _direct(self, number: int) -> Path:
        """A kubeconfig for one of two servers itself, past kube-apiserver."""
        secret = (await self._get(f"/api/v1/namespaces/{NAMESPACE}/secrets/aggserver-certificates"))["data"]
        authority = self._folder / "serving-ca.pem"
        authority.write_bytes(base64.b64decode(secret["ca.crt"]))
        path = self._folder / f"direct-{number}.kubeconfig"
        pair = self._plane.client_ca.client("writer", "kubernetes-admin", ("system:masters",))
        write_kubeconfig(path, f"https://127.0.0.1:{self._pair[number]}", authority, "kubernetes-admin", pair)
        return path

    async def _move(self, kill: Kill) -> None:
        """What is asked for, the kill, and what comes of it."""
        if kill.halts:
            await self._halt(kill)
            return
        await asyncio.to_thread(self._ask, kill)
        await asyncio.to_thread(self._until, kill)
        await self._kill(kill)
        if kill.twice:
            await asyncio.to_thread(self._until_changed, self._record())
            await self._kill(replace(kill, ours=True, kube_apiserver=None))
        await asyncio.to_thread(self._until_there, kill)
        self._only_through_the_cluster()

    def _ask(self, kill: Kill) -> None:
        if kill.through_api and not kill.adopt:
            self._plane.kubectl("annotate", "crd", moving.NAME, *(f"{name}={value}" for name, value in _RELEASE.items()))
        else:
            self._adopting.label(moving.NAME, "true" if kill.adopt else "")

    async def _kill(self, kill: Kill) -> None:
        number = kill.kube_apiserver
        if number is not None:
            await asyncio.to_thread(self._plane.kill, number)
            self._wire.down.add(number)
        if kill.ours:
            killed = await asyncio.to_thread(self._servers.kill_mover)
        victims = ["aggserver"] * kill.ours + [f"kube-apiserver {number}"] * (number is not None)
        self.told.append(f"  killed {' and '.join(victims)} in {self._phase()}")
        async with asyncio.TaskGroup() as tasks:
            if kill.ours:
                tasks.create_task(self._go_on(kill, killed))
            if number is not None:
                tasks.create_task(asyncio.to_thread(self._plane.restart, number))
        self._wire.down.clear()

    async def _halt(self, kill: Kill) -> None:
        """The server that moves is held up for so long that the other one takes its place, and then goes on where it was."""
        async with contextlib.AsyncExitStack() as stack:
            wires = [
                await stack.enter_async_context(connected([await self._direct(number)], self._chance))
                for number in range(len(self._pair))
            ]
            for wire in wires if not kill.adopt else ():
                status, _ = await wire.call("GET", moving.PATH)
                assert status == 200
            await asyncio.to_thread(self._ask, kill)
            await asyncio.to_thread(self._until, kill)
            halted = await asyncio.to_thread(self._servers.halt_mover)
            stack.callback(self._servers.go_on, halted)  # a halted server could not be stopped
            self.told.append(f"  halted aggserver in {self._phase()}")
            await self._balancer.leave(self._pair[halted])
            # The connection stands from before, so that the request is there when the server goes on.
            late = asyncio.create_task(wires[halted].call("PATCH", *_LATE)) if not kill.adopt else None
            await asyncio.to_thread(self._until_there, kill)
            self._servers.go_on(halted)
            if late is not None:
                status, answer = await late
                assert status == 503, answer
            self._balancer.join(self._pair[halted])

    async def _go_on(self, kill: Kill, killed: int) -> None:
        if not kill.outlasts:
            # The next server would wait until the Lease of the one that is dead has expired.
            status = 0
            while status not in (200, 404):
                with contextlib.suppress(Gone):
                    status, _ = await self._wire.call("DELETE", _LEASE)
        if kill.store == "etcd":
            self._wire.down.add(len(self._plane.servers) + killed)
            await asyncio.to_thread(self._until_there, kill)
        await asyncio.to_thread(self._servers.start)

    # --- when ---

    def _until(self, kill: Kill) -> None:
        """Until the step has begun, or is over already, and then some milliseconds."""
        if kill.at != LABELED:
            order = _ORDER[kill.adopt]
            wanted = order[order.index(kill.at) :]
            eventually(lambda: self._phase() in wanted, f"{kill.at}: {self._servers.log}", SECONDS)
        time.sleep(self._chance.uniform(0.0, kill.milliseconds / 1000))

    def _until_changed(self, record: Mapping[str, Any] | None) -> None:
        """Until the record is another one, if it is to change at all."""
        with contextlib.suppress(AssertionError):
            eventually(lambda: self._record() != record, "another record", 5.0)

    def _until_there(self, kill: Kill) -> None:
        # With the label, it waits for being adopted anew until the annotation is gone.
        shown = "Adopted" if kill.adopt else "Waiting" if kill.through_api else ""
        record = "Adopted" if kill.adopt else RECORDLESS
        eventually(
            lambda: self._phase() == record and self._adopting.phase(moving.NAME) == shown,
            f"{record}: {self._phase()}, {self._adopting.status()}, {self._servers.log}",
            SECONDS,
        )

    def _phase(self) -> str:
        record = self._record()
        return str(record["phase"]) if record is not None else RECORDLESS

    def _record(self) -> Mapping[str, Any] | None:
        return self._servers.store.record(moving.NAME)

    # --- what is there ---

    async def _write_on(self) -> None:
        goal = sum(writer.acknowledged for writer in self._writers) + SOME
        await asyncio.to_thread(
            eventually, lambda: sum(writer.acknowledged for writer in self._writers) >= goal, "they write on", SECONDS
        )

    async def _listed_still(self) -> dict[str, Any]:
        return _still((await self._get(moving.PATH))["items"])

    async def _know_new_uids(self) -> None:
        """Through the API, what was created here has another uid in the cluster. What came from there keeps its own."""
        uids = {item["metadata"]["name"]: item["metadata"]["uid"] for item in (await self._get(moving.PATH))["items"]}
        for writer in self._writers:
            for name, (mark, uid) in writer.known.items():
                if uid not in self._at_host:
                    writer.known[name] = mark, uids.get(name, "")

    async def _compare(self, kill: Kill) -> None:
        log = self._servers.log
        faults = [fault for writer in self._writers for fault in writer.faults]
        assert not faults, "\n".join([*faults, log])
        for number in range(len(self._plane.servers)):
            self._wire.down.update(set(range(len(self._plane.servers))) - {number})
            listed = await self._get(moving.PATH)
            assert moving.differences(self._writers, listed["items"]) == [], log
            assert _still(listed["items"]) == self._still
            known = {name for writer in self._writers for name in writer.known}
            assert {item["metadata"]["name"] for item in listed["items"]} == known | self._still.keys()
            self._wire.down.clear()
        # Where it is, and that nothing of a step that was cut off is left.
        service = await self._get(f"/apis/apiregistration.k8s.io/v1/apiservices/v1.{moving.GROUP}")
        assert (service["spec"].get("service") is not None) == kill.adopt
        definition = await self._get(_DEFINITION)
        assert (_FINALIZER in definition["metadata"].get("finalizers", ())) == kill.adopt
        if kill.through_api and not kill.adopt:
            # They ask for the release as long as they stay.
            await asyncio.to_thread(self._adopting.label, moving.NAME, "")
            await asyncio.to_thread(self._plane.kubectl, "annotate", "crd", moving.NAME, *(f"{name}-" for name in _RELEASE))
        else:
            assert definition["metadata"].get("labels", {}).get(LABEL) == ("true" if kill.adopt else None)
        assert definition["spec"]["versions"][0]["schema"] == moving.DEFINITION["spec"]["versions"][0]["schema"]
        guards = await self._get("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations")
        assert (moving.GROUP in json.dumps(guards["items"])) == (kill.adopt and kill.store != "shared")
        copies = self._servers.store.count(_OBJECTS)
        assert copies == (len(listed["items"]) if kill.adopt or kill.store == "shared" else 0)

    async def _get(self, path: str) -> dict[str, Any]:
        while True:
            with contextlib.suppress(Gone):
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
async def killing(plane: ControlPlane, folder: Path, chance: random.Random, etcd: str = "") -> AsyncIterator[Killing]:
    """etcd: the URL of one that is not the cluster's, for kills of one of two servers."""
    adopting = await asyncio.to_thread(Adopting, plane, folder, moving.GROUP)
    pair = plane.client_ca.client("writer", "kubernetes-admin", ("system:masters",))
    async with contextlib.AsyncExitStack() as stack:
        wires = []
        for number, server in enumerate(plane.servers):
            path = folder / f"server-{number}.kubeconfig"
            write_kubeconfig(path, server, plane.client_ca.pair.certificate, "kubernetes-admin", pair)
            wires.append(await stack.enter_async_context(connected([path], chance)))
        yield Killing(plane, adopting, folder, Balanced(wires, random.Random(chance.random())), chance, etcd)
