"""Adoption and release where aggserver and its clients know two kube-apiservers by one address, which leads to either in turn.

One of them hears late of every change during the moves: of the guard, the APIService, objects. So what one kube-apiserver has
said does not hold for the other, and whoever asks only one of them loses what clients write at the other.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from aggserver.endpoints.discovery import ADOPTED_HEADER
from tests.controlplane.binaries import obtain
from tests.controlplane.cluster import write_kubeconfig
from tests.controlplane.plane import ControlPlane
from tests.controlplane.processes import free_ports
from tests.history.wire import connected
from tests.integration import moving
from tests.integration.adopting import Adopting
from tests.integration.aggregation import SERVICE
from tests.integration.balancing import Balancer, Behind
from tests.integration.raw import Answer, Client
from tests.integration.server import eventually, running
from tests.integration.stores import SQLiteStore
from tests.waiting import KUBECTL_LIMIT

pytestmark = pytest.mark.long

STILL = 300  # objects that nobody writes
SOME = 30  # acknowledged writes before each move, and after it
NAMES, PAUSE = 20, 0.01  # of the writer, and seconds between two of its writes
LATE_SECONDS = 2.5  # longer than the steps of a move, and shorter than kube-apiserver lets a list wait until it knows the newest
SEED = 471_902  # of what is written

DISCOVERY = f"/apis/{moving.GROUP}/v1"
API_SERVICE = f"/apis/apiregistration.k8s.io/v1/apiservices/v1.{moving.GROUP}"
AGGREGATED = {"accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}


@dataclass(frozen=True)
class Balanced:
    """address: of both kube-apiservers. kubeconfigs: an administrator's there, and at each of them alone."""

    plane: ControlPlane
    address: str
    behind: Behind
    balanced: Path
    kubeconfigs: list[Path]

    def led_away(self) -> list[bool]:
        """Of each kube-apiserver: whether it passes requests for the group-version on, answered or not."""
        answers = [_get(each, DISCOVERY) for each in self.kubeconfigs]
        return [answer.status != 200 or bool(answer.header(ADOPTED_HEADER.lower())) for answer in answers]

    def objects(self) -> list[list[Mapping[str, Any]]]:
        """As each has them, which may be asked to come again."""
        return [json.loads(eventually(lambda at=at: _found(at), "an answer").body)["items"] for at in self.kubeconfigs]  # type: ignore[misc]

    def shown(self) -> list[tuple[bool, bool, list[str]]]:
        """Of each: whether its APIService leads to aggserver, and is available; what its discovery of all groups names."""
        found = []
        for kubeconfig in self.kubeconfigs:
            service = json.loads(_get(kubeconfig, API_SERVICE).body)
            conditions = service.get("status", {}).get("conditions", [])
            available = any(each["type"] == "Available" and each["status"] == "True" for each in conditions)
            ours = service.get("spec", {}).get("service", {}).get("name") == SERVICE
            groups = json.loads(_get(kubeconfig, "/apis", AGGREGATED).body)["items"]
            (versions,) = [each["versions"] for each in groups if each["metadata"]["name"] == moving.GROUP]
            found.append((ours, available, [each["resource"] for version in versions for each in version["resources"]]))
        return found


def _get(kubeconfig: Path, path: str, headers: Mapping[str, str] | None = None) -> Answer:
    with Client(kubeconfig) as client:
        return client.request("GET", path, headers or {})


def _found(kubeconfig: Path) -> Answer | None:
    answer = _get(kubeconfig, moving.PATH)
    return answer if answer.status == 200 else None


@asynccontextmanager
async def balanced(folder: Path) -> AsyncIterator[Balanced]:
    """With the definition and the objects that nobody writes."""
    plane = ControlPlane(obtain(os.environ, print), replicas=2)
    way, address = free_ports(2)
    plane.etcd_ways[1] = f"http://127.0.0.1:{way}"
    async with AsyncExitStack() as stack:
        behind = await stack.enter_async_context(Behind(way, _port(plane.etcd)))
        await stack.enter_async_context(Balancer(address, [_port(server) for server in plane.servers]))
        stack.push_async_callback(asyncio.to_thread, plane.stop)
        await asyncio.to_thread(plane.start)
        pair = plane.client_ca.client("writer", "kubernetes-admin", ("system:masters",))
        paths = []
        urls = [f"https://127.0.0.1:{address}", *plane.servers]
        for number, url in enumerate(urls):
            paths.append(folder / f"{number}.kubeconfig")
            write_kubeconfig(paths[-1], url, plane.client_ca.pair.certificate, "kubernetes-admin", pair)
        made = Balanced(plane, urls[0], behind, paths[0], paths[1:])
        await asyncio.to_thread(_create, made)
        yield made


def _port(url: str) -> int:
    return int(url.rpartition(":")[2])


def _create(made: Balanced) -> None:
    made.plane.kubectl("create", "-f", "-", input=json.dumps(moving.DEFINITION))
    made.plane.kubectl("wait", "--for=condition=Established", "crd", moving.NAME, KUBECTL_LIMIT)
    items = [
        {
            "apiVersion": f"{moving.GROUP}/v1",
            "kind": moving.KIND,
            "metadata": {"name": f"still-{number}", "namespace": "default"},
            "spec": {"mark": number},
        }
        for number in range(STILL)
    ]
    made.plane.kubectl("create", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    eventually(lambda: [len(each) for each in made.objects()] == [STILL] * 2, "both serve the objects")


@pytest.mark.parametrize("etcd", [False, True], ids=["through the API", "with the cluster's etcd"])
async def test_what_one_says_is_not_taken_for_the_other(tmp_path: Path, etcd: bool) -> None:
    chance = random.Random(SEED)
    async with balanced(tmp_path) as made, connected([made.balanced], chance, kept=False) as wire:
        adopting = await asyncio.to_thread(Adopting, made.plane, tmp_path, moving.GROUP, address=made.address)
        arguments = ["--host-etcd-servers", made.plane.etcd] if etcd else []
        store = SQLiteStore(adopting.store)
        writer = moving.Writer(0, wire, random.Random(chance.random()), NAMES)

        async def write_on() -> None:
            goal = writer.acknowledged + SOME
            await asyncio.to_thread(eventually, lambda: writer.acknowledged >= goal, "it writes on")

        def recorded() -> str:
            return str((store.record(moving.NAME) or {"phase": ""})["phase"])

        async def moved(move: Callable[[], None], *, adopted: bool) -> None:
            """One move while the writer goes on, and what both kube-apiservers show then: at once, and in their own time."""
            phase = "Adopted" if adopted else ""
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(writer.run(PAUSE))
                try:
                    await write_on()
                    made.behind.seconds = LATE_SECONDS
                    await asyncio.to_thread(move)
                    await asyncio.to_thread(eventually, lambda: recorded() == phase, f"{phase}: {adopting.log}")
                    assert await asyncio.to_thread(made.led_away) == [adopted] * 2, "it is there only once both lead there"
                    made.behind.seconds = 0.0
                    await write_on()
                finally:
                    writer.stop()
            writer.again()
            wanted = [(adopted, True, ["parcels"])] * 2
            await asyncio.to_thread(eventually, lambda: made.shown() == wanted, f"both show {wanted}")
            assert writer.faults == [], adopting.log
            for items in await asyncio.to_thread(made.objects):
                assert moving.differences([writer], items) == [], adopting.log
                assert len(items) == STILL + len(writer.known)

        server = await asyncio.to_thread(adopting.start, *arguments)
        with running(server):
            await moved(lambda: adopting.label(moving.NAME), adopted=True)
        # Through the API, what was created here would get another uid, and the writes would wait.
        server = await asyncio.to_thread(adopting.start, "--host-etcd-servers", made.plane.etcd)
        with running(server):
            await moved(lambda: adopting.label(moving.NAME, ""), adopted=False)
        assert "came late" not in adopting.log, adopting.log
