"""NamespaceController: a deleted namespace rests for a moment, as suites that were written for envtest finalize it themselves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from aggserver.controllers.namespaces.controller import GRACE_SECONDS, NamespaceController
from tests.fakes.asgi import Client
from tests.fakes.clock import settled, until
from tests.fakes.server import LocalServer, gone

PATH = "/api/v1/namespaces"
TEAM = f"{PATH}/team"


@pytest.fixture(autouse=True)
async def running(server: LocalServer) -> AsyncIterator[None]:
    controller = NamespaceController(
        server.namespaces, server.engine.installer, server.storage, server.clock, server.timers.call_later
    )
    task = asyncio.create_task(controller.run())
    yield
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def deleted(client: Client) -> Any:
    await client.post(PATH, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    answer = await client.delete(TEAM)
    return answer.json()


async def test_who_finalizes_a_deleted_namespace_meets_no_conflict(server: LocalServer, client: Client) -> None:
    namespace = await deleted(client)
    await until(lambda: GRACE_SECONDS in server.timers.seconds)
    await settled()
    assert (await client.get(TEAM)).json() == namespace
    namespace["spec"] = {}
    assert (await client.put(f"{TEAM}/finalize", namespace)).status == 200
    assert (await client.get(TEAM)).status == 404
    server.timers.fire(GRACE_SECONDS)
    await settled()


async def test_each_deletion_has_its_moment(server: LocalServer, client: Client) -> None:
    for _ in range(2):
        await deleted(client)
        await until(lambda: GRACE_SECONDS in server.timers.seconds)
        server.timers.fire(GRACE_SECONDS)
        await gone(client, TEAM)
