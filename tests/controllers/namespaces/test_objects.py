"""What each namespace has from its beginning, on a server in memory that serves the built-in kinds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aggserver.controllers.namespaces.objects import NamespaceObject, NamespaceObjects, default_service_account, root_ca
from aggserver.kinds.served import Kinds
from aggserver.storage.interface import Unavailable
from tests.fakes.asgi import Client
from tests.fakes.clock import until
from tests.fakes.server import LocalServer

ACCOUNTS, MAPS = "/api/v1/namespaces/{}/serviceaccounts", "/api/v1/namespaces/{}/configmaps"
CA = "/api/v1/namespaces/{}/configmaps/kube-root-ca.crt"


class Running:
    """A controller that runs."""

    def __init__(self, server: LocalServer, wanted: NamespaceObject) -> None:
        self.controller = NamespaceObjects(
            wanted, server.namespaces, server.engine.installer, server.storage, server.timers.call_later
        )
        self.task = asyncio.create_task(self.controller.run())

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@pytest.fixture(autouse=True)
async def running(server: LocalServer) -> AsyncIterator[list[Running]]:
    kinds = Kinds(server.environment, server.engine.admission)
    server.engine.installer.install([("built-in kinds", kinds.served())])
    started = [Running(server, wanted) for wanted in (default_service_account(), root_ca("PEM"))]
    server.run()
    yield started
    for each in started:
        await each.stop()
    kinds.end_watches()


async def names(client: Client, path: str, namespace: str = "default") -> list[str]:
    return [item["metadata"]["name"] for item in (await client.get(path.format(namespace))).json()["items"]]


async def appears(client: Client, path: str) -> Any:
    """The object at a path, once the controller has made it."""
    for _ in range(100):
        if (answer := await client.get(path)).status == 200:
            return answer.json()
        await asyncio.sleep(0)
    raise AssertionError(f"{path} is not made")


async def test_namespaces_that_are_there_and_that_come(server: LocalServer, client: Client) -> None:
    await server.namespace("team")
    for namespace in ("default", "team"):
        account = await appears(client, f"{ACCOUNTS.format(namespace)}/default")
        assert (account["kind"], account["metadata"]["namespace"]) == ("ServiceAccount", namespace)
        ca = await appears(client, CA.format(namespace))
        assert ca["data"] == {"ca.crt": "PEM"}
        assert "can be used to verify the kube-apiserver" in ca["metadata"]["annotations"]["kubernetes.io/description"]


async def test_deleted_ones_are_made_again(client: Client) -> None:
    for path in (f"{ACCOUNTS.format('default')}/default", CA.format("default")):
        before = await appears(client, path)
        await client.delete(path)
        assert (await appears(client, path))["metadata"]["uid"] != before["metadata"]["uid"]


async def test_a_changed_bundle_is_corrected(client: Client) -> None:
    await appears(client, CA.format("default"))
    changes = {"data": {"ca.crt": "other", "more": "x"}, "metadata": {"annotations": None, "labels": {"mine": "yes"}}}
    changed = (await client.merge(CA.format("default"), changes)).json()
    assert changed["data"]["ca.crt"] == "other"
    for _ in range(100):
        after = (await client.get(CA.format("default"))).json()
        if after["data"] == {"ca.crt": "PEM"}:
            break
        await asyncio.sleep(0)
    assert (after["data"], after["metadata"]["labels"]) == ({"ca.crt": "PEM"}, {"mine": "yes"})
    assert after["metadata"]["annotations"].keys() == {"kubernetes.io/description"}


async def test_they_go_with_the_namespace(server: LocalServer, client: Client) -> None:
    await server.namespace("team")
    await appears(client, f"{ACCOUNTS.format('team')}/default")
    await appears(client, CA.format("team"))
    await client.delete("/api/v1/namespaces/team")
    for _ in range(200):
        if (await client.get("/api/v1/namespaces/team")).status == 404:
            break
        await asyncio.sleep(0)
    assert await names(client, ACCOUNTS, "team") == []
    assert await names(client, MAPS, "team") == []


async def test_another_one_of_a_name_is_left_alone(client: Client) -> None:
    await appears(client, CA.format("default"))
    await client.post(MAPS.format("default"), {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
    await client.delete(f"{MAPS.format('default')}/a")
    assert await names(client, MAPS) == ["kube-root-ca.crt"]


async def test_a_lost_subscription(running: list[Running], client: Client) -> None:
    await appears(client, f"{ACCOUNTS.format('default')}/default")
    controller = running[0].controller
    await until(lambda: controller._subscription is not None)
    assert controller._subscription is not None
    controller._subscription.close()
    await client.delete(f"{ACCOUNTS.format('default')}/default")
    assert await names(client, ACCOUNTS) == []
    controller.lost(Unavailable("lost"))
    await appears(client, f"{ACCOUNTS.format('default')}/default")
