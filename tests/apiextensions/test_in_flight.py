"""Requests that are under way when their definition is deleted, or gets other selectable fields, end as if it was not."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from typing import Any

import pytest

from aggserver.admission.chain import Attributes
from aggserver.apiextensions.definition import parse
from aggserver.meta.json_types import JSONObject
from aggserver.registry.in_use import InUse
from tests.fakes.definitions import CRONTABS, GROUP
from tests.fakes.server import LocalServer

NAME = CRONTABS["metadata"]["name"]
CRONS = f"/apis/{GROUP}/v1/namespaces/default/crontabs"


class Slow:
    """Admission that takes until it is let go."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.let_go = asyncio.Event()
        self.is_slow = False

    async def mutate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> bool:
        if self.is_slow:
            self.asked.set()
            await self.let_go.wait()
        return False


def cron(name: str) -> JSONObject:
    return {"apiVersion": f"{GROUP}/v1", "kind": "CronTab", "metadata": {"name": name}, "spec": {"image": "i"}}


def deleted(server: LocalServer) -> None:
    server.engine.definitions.remove(NAME)


def without_fields(server: LocalServer) -> None:
    changed = copy.deepcopy(CRONTABS)
    del changed["spec"]["versions"][0]["selectableFields"]
    server.engine.definitions.set(parse(changed))


REQUESTS: dict[str, tuple[str, str, Any, int]] = {
    "create": ("POST", CRONS, cron("new"), 201),
    "update": ("PUT", f"{CRONS}/old", None, 200),
    "patch": ("PATCH", f"{CRONS}/old", {"spec": {"image": "j"}}, 200),
    "delete": ("DELETE", f"{CRONS}/old", None, 200),
    "deletecollection": ("DELETE", CRONS, None, 200),
}


@pytest.mark.parametrize("change", [deleted, without_fields])
@pytest.mark.parametrize("name", REQUESTS)
async def test_a_write_under_way(name: str, change: Callable[[LocalServer], None]) -> None:
    method, path, body, code = REQUESTS[name]
    slow = Slow()
    server = LocalServer(mutating_plugins=[slow])
    await server.start()
    try:
        server.serve(CRONTABS)
        client = server.client()
        old = (await client.post(CRONS, cron("old"))).json()
        resource = server.engine.definitions.get(NAME)
        assert resource is not None
        cache = resource.store(resource.definition.storage_version)._cacher
        slow.is_slow = True
        headers = {"content-type": "application/merge-patch+json"} if method == "PATCH" else {}
        sent = {**old, "spec": {"image": "j"}} if method == "PUT" else body
        under_way = asyncio.create_task(client.request(method, path, sent, headers=headers))
        await slow.asked.wait()
        change(server)
        assert not cache._closed
        slow.let_go.set()
        assert (await under_way).status == code
        assert cache._closed  # and with the last request, the cache is given up
    finally:
        await server.stop()


async def test_a_list_under_way(server: LocalServer) -> None:
    server.serve(CRONTABS)
    client = server.client()
    assert (await client.post(CRONS, cron("old"))).status == 201
    asked, let_go = asyncio.Event(), asyncio.Event()
    revision = server.storage.revision

    async def slow_revision() -> int:
        asked.set()
        await let_go.wait()
        return await revision()

    server.storage.revision = slow_revision  # type: ignore[method-assign]
    under_way = asyncio.create_task(client.get(CRONS))
    await asked.wait()
    deleted(server)
    let_go.set()
    answer = await under_way
    assert (answer.status, len(answer.json()["items"])) == (200, 1)
    assert (await client.get(CRONS)).status == 404


def test_what_is_in_use() -> None:
    in_use, done = InUse(), []
    with in_use:
        with in_use:
            in_use.when_idle(lambda: done.append(1))
        assert not done
    assert done == [1]
    in_use.when_idle(lambda: done.append(2))
    assert done == [1, 2]
