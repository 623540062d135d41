"""The controllers of endpoints on a server in memory: what they write, and that they write again what others have changed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from aggserver.controllers.network import selected_pods
from aggserver.controllers.network.endpoints_controller import EndpointsController
from aggserver.controllers.network.mirroring_controller import MirroringController
from aggserver.controllers.network.selected_pods import SelectedPods
from aggserver.controllers.network.slices_controller import SlicesController
from aggserver.controllers.pod_index import PodIndex
from aggserver.kinds.served import Kinds
from tests.fakes.asgi import Client
from tests.fakes.server import LocalServer

CORE = "/api/v1/namespaces/default"
PODS, SERVICES, ENDPOINTS = f"{CORE}/pods", f"{CORE}/services", f"{CORE}/endpoints"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
WEB = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
NAME = "kubernetes.io/service-name"


class World:
    """The controllers, which run, and the server."""

    def __init__(self, server: LocalServer) -> None:
        # Names that are generated must differ, since the timers that would try again are not fired.
        environment = replace(server.environment, random=random.Random(1).randrange)
        self.kinds = Kinds(environment, server.engine.admission)
        installer, storage, later = server.engine.installer, server.storage, server.timers.call_later
        installer.install([("built-in kinds", self.kinds.served())])
        self.pods = PodIndex(partial(self.kinds.store, "", "pods"), later)
        selected = SelectedPods(partial(self.kinds.store, "", "services"), self.pods, later)
        self._controllers = (
            EndpointsController(installer, storage, selected, later),
            SlicesController(installer, storage, selected, later),
            MirroringController(installer, storage, selected, server.clock, later),
        )
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(each.run()) for each in self._controllers]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@pytest.fixture
async def world(server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(selected_pods, "_WAIT", 0.0)  # timers are not fired
    made = World(server)
    server.run()
    made.start()
    yield made
    await made.stop()
    made.kinds.end_watches()


async def post(client: Client, path: str, kind: str, name: str, **members: Any) -> Any:
    version = "v1" if path.startswith("/api/") else "discovery.k8s.io/v1"
    metadata = {"name": name, **members.pop("metadata", {})}
    answer = await client.post(path, {"apiVersion": version, "kind": kind, "metadata": metadata, **members})
    assert answer.status == 201, answer.body
    return answer.json()


async def running_pod(client: Client, number: int, **labels: str) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}
    await post(client, PODS, "Pod", f"p{number}", metadata={"labels": labels or {"app": "web"}}, spec=spec)
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    ip = f"10.1.0.{number}"
    status = {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": [ready]}
    assert (await client.merge(f"{PODS}/p{number}/status", {"status": status})).status == 200


async def addresses(client: Client, name: str) -> Any:
    """The addresses in the Endpoints of a Service, None if it has none, and those in its slices."""
    answer = await client.get(f"{ENDPOINTS}/{name}")
    slices = (await client.get(f"{SLICES}?labelSelector={NAME}={name}")).json()["items"]
    in_slices = sorted(each["addresses"][0] for found in slices for each in found["endpoints"] or ())
    if answer.status == 404:
        return None, in_slices
    return sorted(each["ip"] for found in answer.json().get("subsets", ()) for each in found["addresses"]), in_slices


async def becomes(client: Client, name: str, wanted: Any) -> None:
    for _ in range(1000):
        if await addresses(client, name) == wanted:
            return
        await asyncio.sleep(0)
    assert await addresses(client, name) == wanted


@pytest.mark.usefixtures("world")
async def test_a_service_and_its_pods(client: Client) -> None:
    await running_pod(client, 1)
    await running_pod(client, 9, app="other")
    await post(client, SERVICES, "Service", "web", spec=WEB)
    await becomes(client, "web", (["10.1.0.1"], ["10.1.0.1"]))
    await running_pod(client, 2)
    await becomes(client, "web", (["10.1.0.1", "10.1.0.2"],) * 2)
    await client.merge(f"{PODS}/p1", {"metadata": {"labels": {"app": "other"}}})
    await becomes(client, "web", (["10.1.0.2"],) * 2)
    await client.merge(f"{SERVICES}/web", {"spec": {"selector": {"app": "other"}}})
    await becomes(client, "web", (["10.1.0.1", "10.1.0.9"],) * 2)
    await client.delete(f"{PODS}/p9", {"gracePeriodSeconds": 0})
    await becomes(client, "web", (["10.1.0.1"],) * 2)
    await client.delete(f"{SERVICES}/web")
    await becomes(client, "web", (None, []))


@pytest.mark.usefixtures("world")
async def test_what_others_delete_or_change_is_written_again(client: Client) -> None:
    await running_pod(client, 1)
    await post(client, SERVICES, "Service", "web", spec=WEB)
    await becomes(client, "web", (["10.1.0.1"],) * 2)
    (found,) = (await client.get(f"{SLICES}?labelSelector={NAME}=web")).json()["items"]
    await client.delete(f"{ENDPOINTS}/web")
    await client.delete(f"{SLICES}/{found['metadata']['name']}")
    await becomes(client, "web", (["10.1.0.1"],) * 2)
    (found,) = (await client.get(f"{SLICES}?labelSelector={NAME}=web")).json()["items"]
    await client.merge(f"{SLICES}/{found['metadata']['name']}", {"endpoints": []})
    await becomes(client, "web", (["10.1.0.1"],) * 2)


@pytest.mark.usefixtures("world")
async def test_endpoints_of_a_client_are_mirrored(client: Client) -> None:
    subsets = [{"addresses": [{"ip": "10.9.0.1"}], "ports": [{"port": 80}]}]
    await post(client, ENDPOINTS, "Endpoints", "mine", subsets=subsets)
    await becomes(client, "mine", (["10.9.0.1"], []))
    await post(client, SERVICES, "Service", "mine", spec={"ports": [{"port": 80}]})
    await becomes(client, "mine", (["10.9.0.1"],) * 2)
    await client.merge(f"{ENDPOINTS}/mine", {"subsets": [{**subsets[0], "addresses": [{"ip": "10.9.0.2"}]}]})
    await becomes(client, "mine", (["10.9.0.2"],) * 2)
    await client.merge(f"{ENDPOINTS}/mine", {"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}})
    await becomes(client, "mine", (["10.9.0.2"], []))
    await client.merge(f"{ENDPOINTS}/mine", {"metadata": {"labels": None}})
    await becomes(client, "mine", (["10.9.0.2"],) * 2)
    await client.delete(f"{ENDPOINTS}/mine")
    await becomes(client, "mine", (None, []))


@pytest.mark.usefixtures("world")
async def test_endpoints_of_a_client_go_with_their_service(client: Client) -> None:
    await post(client, SERVICES, "Service", "mine", spec={"ports": [{"port": 80}]})
    subsets = [{"addresses": [{"ip": "10.9.0.1"}], "ports": [{"port": 80}]}]
    await post(client, ENDPOINTS, "Endpoints", "mine", subsets=subsets)
    await becomes(client, "mine", (["10.9.0.1"],) * 2)
    await client.delete(f"{SERVICES}/mine")
    await becomes(client, "mine", (None, []))


@pytest.mark.usefixtures("world")
async def test_too_many_addresses(client: Client) -> None:
    await post(client, SERVICES, "Service", "mine", spec={"ports": [{"port": 80}]})
    many = [{"ip": f"10.9.{n // 250}.{n % 250 + 1}"} for n in range(1003)]
    await post(client, ENDPOINTS, "Endpoints", "mine", subsets=[{"addresses": many, "ports": [{"port": 80}]}])
    for _ in range(1000):
        events = (await client.get(f"{CORE}/events")).json()["items"]
        if events:
            break
        await asyncio.sleep(0)
    message = "A max of 1000 addresses can be mirrored to EndpointSlices per Endpoints subset. 3 addresses were skipped"
    (event,) = events
    assert (event["reason"], event["message"], event["type"]) == ("TooManyAddressesToMirror", message, "Warning")


@pytest.mark.usefixtures("world")
async def test_a_service_without_a_selector_needs_no_pods(world: World, client: Client) -> None:
    await post(client, SERVICES, "Service", "mine", spec={"ports": [{"port": 80}]})
    await becomes(client, "mine", (None, []))
    assert world.pods._follower is None


async def test_what_was_deleted_while_nothing_ran(world: World, client: Client) -> None:
    await running_pod(client, 1)
    await post(client, SERVICES, "Service", "web", spec=WEB)
    await becomes(client, "web", (["10.1.0.1"],) * 2)
    await world.stop()
    await client.delete(f"{SERVICES}/web")
    assert (await client.get(f"{ENDPOINTS}/web")).status == 200
    world.start()
    await becomes(client, "web", (None, []))
