"""The graph by which kubelets are authorized, as it follows what is stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aggserver.authorization.node_graph import GraphRef
from aggserver.controllers.node_follower import NodeFollower
from aggserver.kinds.served import Kinds
from tests.fakes.asgi import Client
from tests.fakes.clock import until
from tests.fakes.server import LocalServer

SECRET = GraphRef("secrets", "default", "s")
VOLUME = GraphRef("persistentvolumes", "", "v")


@pytest.fixture
async def follower(server: LocalServer) -> AsyncIterator[NodeFollower]:
    kinds = Kinds(server.environment, server.engine.admission)
    server.engine.installer.install([("built-in kinds", kinds.served())])
    made = NodeFollower(kinds.store, server.timers.call_later)
    server.run()
    task = asyncio.create_task(made.run())
    yield made
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    kinds.end_watches()


async def make(client: Client, resource: str, obj: dict[str, Any]) -> None:
    answer = await client.post(f"/api/v1/{resource}", obj)
    assert answer.status == 201, answer.json()


def pod(name: str, *, node: str = "n", mirror: bool = False) -> dict[str, Any]:
    metadata = {"name": name, "annotations": {"kubernetes.io/config.mirror": "x"} if mirror else {}}
    volumes = [
        {"name": "v", "secret": {"secretName": "s"}},
        {"name": "w", "persistentVolumeClaim": {"claimName": "data"}},
    ]
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": node, "volumes": volumes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


VOLUME_OBJECT = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "v"},
    "spec": {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "claimRef": {"namespace": "default", "name": "data"},
        "hostPath": {"path": "/x"},
    },
}


async def test_it_follows_pods_and_volumes(server: LocalServer, client: Client, follower: NodeFollower) -> None:
    await make(client, "namespaces/default/pods", pod("before"))
    graph = await follower.graph()
    assert graph.leads_to(GraphRef("pods", "default", "before"), "n")
    assert graph.leads_to(SECRET, "n")
    await make(client, "persistentvolumes", VOLUME_OBJECT)
    await until(lambda: graph.leads_to(VOLUME, "n"))
    await make(client, "namespaces/default/pods", pod("mirror", node="m", mirror=True))
    await until(lambda: graph.leads_to(GraphRef("pods", "default", "mirror"), "m"))
    assert not graph.leads_to(SECRET, "m")
    await client.delete("/api/v1/namespaces/default/pods/before?gracePeriodSeconds=0")
    await until(lambda: not graph.leads_to(SECRET, "n"))
    assert not graph.leads_to(VOLUME, "n")


async def test_nothing_is_read_before_somebody_asks(client: Client, follower: NodeFollower) -> None:
    await make(client, "namespaces/default/pods", pod("p"))
    assert follower._ready is None
    assert (await follower.graph()).leads_to(SECRET, "n")
