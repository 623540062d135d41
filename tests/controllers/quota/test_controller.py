"""Quotas of a server without a cluster: never more than they permit, and a usage that follows what is stored."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import pytest

from aggserver.admission.chain import Attributes
from aggserver.admission.quota import Counted, Measure
from aggserver.admission.resource_quota import ResourceQuota
from aggserver.controllers.quota.controller import QuotaController
from aggserver.controllers.quota.tallies import Tallies
from aggserver.kinds.served import Kinds
from aggserver.meta.json_types import JSONObject
from aggserver.standalone.stored_collection import StoredCollection
from aggserver.storage.interface import Event, Unavailable
from aggserver.storage.keys import ObjectKey
from aggserver.storage.memory import MemoryStorage
from tests.fakes.asgi import Client
from tests.fakes.server import LocalServer

CORE = "/api/v1/namespaces/default"
QUOTAS, MAPS, PODS = f"{CORE}/resourcequotas", f"{CORE}/configmaps", f"{CORE}/pods"
COUNT = "count/configmaps"


class _Later:
    """Hands over to the plugin that the controller makes once the server is there."""

    plugin: ResourceQuota

    async def validate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> None:
        if self.plugin.concerns(attributes):
            await self.plugin.validate(attributes, obj, old)


class Running:
    """A server with the controller of quotas."""

    def __init__(self) -> None:
        later = _Later()
        self.server = LocalServer(MemoryStorage(), validating_plugins=[later])
        self.kinds = Kinds(self.server.environment, self.server.engine.admission)
        self.server.engine.installer.install([("built-in kinds", self.kinds.served())])
        storage, timers = self.server.storage, self.server.timers
        self.quotas = StoredCollection(storage, "", "resourcequotas", timers.call_later)
        self.controller = QuotaController(
            storage, self.quotas.objects, self.server.engine.installer, self.server.clock, timers.call_later
        )
        self.quotas.changed = self.controller.quota_changed
        later.plugin = self.controller.plugin
        self.client = self.server.client()

    async def start(self) -> list[asyncio.Task[None]]:
        await self.server.start()
        self.server.run()
        return [asyncio.create_task(self.quotas.run()), asyncio.create_task(self.controller.run())]

    async def quota(self, hard: dict[str, str], name: str = "q", **spec: Any) -> None:
        body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": hard, **spec}}
        answer = await self.client.post(QUOTAS, body)
        assert answer.status == 201, answer.body

    async def status(self, name: str = "q") -> Any:
        return (await self.client.get(f"{QUOTAS}/{name}")).json()["status"]

    async def used(self, name: str = "q") -> Any:
        return (await self.status(name)).get("used")

    async def uses(self, used: dict[str, str], name: str = "q") -> None:
        """Wait for the usage."""
        found = None
        for _ in range(3000):
            if (found := await self.used(name)) == used:
                return
            await asyncio.sleep(0)
        raise AssertionError(f"{found} is used, not {used}")

    async def stored(self, resource: str = "configmaps") -> int:
        return await self.server.storage.count(f"/core/{resource}/default/")


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    made = Running()
    tasks = await made.start()
    yield made
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    made.kinds.end_watches()
    await made.server.stop()


def config_map(name: str) -> Any:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def pod(name: str, cpu: str = "100m", **spec: Any) -> Any:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container], **spec}}


async def created(client: Client, *names: str) -> None:
    for name in names:
        answer = await client.post(MAPS, config_map(name))
        assert answer.status == 201, answer.body


async def test_what_is_there_is_counted(running: Running) -> None:
    await created(running.client, "a", "b")
    await running.quota({COUNT: "5", "configmaps": "5"})
    await running.uses({COUNT: "2", "configmaps": "2"})
    assert (await running.status())["hard"] == {COUNT: "5", "configmaps": "5"}


async def test_a_creation_is_counted_when_it_is_answered(running: Running) -> None:
    await running.quota({COUNT: "2"})
    await running.uses({COUNT: "0"})
    await created(running.client, "a")
    assert await running.used() == {COUNT: "1"}
    await running.client.delete(f"{MAPS}/a")
    await running.uses({COUNT: "0"})
    await created(running.client, "a", "b")
    answer = await running.client.post(MAPS, config_map("c"))
    text = f"exceeded quota: q, requested: {COUNT}=1, used: {COUNT}=2, limited: {COUNT}=2"
    assert (answer.status, answer.json()["message"]) == (403, f'configmaps "c" is forbidden: {text}')


async def test_a_dry_run_is_not_counted(running: Running) -> None:
    await running.quota({COUNT: "1"})
    await running.uses({COUNT: "0"})
    for name in ("a", "b"):
        assert (await running.client.post(f"{MAPS}?dryRun=All", config_map(name))).status == 201
    assert await running.used() == {COUNT: "0"}


async def test_a_hundred_at_once(running: Running) -> None:
    await running.quota({COUNT: "10"})
    await running.uses({COUNT: "0"})
    answers = await asyncio.gather(*(running.client.post(MAPS, config_map(f"c{number}")) for number in range(100)))
    assert sorted(answer.status for answer in answers) == [201] * 10 + [403] * 90
    assert (await running.used(), await running.stored()) == ({COUNT: "10"}, 10)


@pytest.mark.parametrize("seed", range(5))
async def test_there_are_never_more_than_the_quota_permits(running: Running, seed: int) -> None:
    """While others delete, create what is there, and change the quota's metadata; in the end the usage is what is stored."""
    draw = random.Random(seed)
    await running.quota({COUNT: "5"})
    await running.uses({COUNT: "0"})
    most = 0

    class Sink:
        def events(self, batch: Sequence[Event], revision: int) -> None:
            nonlocal most
            for event in batch:
                (names.discard if event.value is None else names.add)(event.key)
                most = max(most, len(names))

        def lost(self, error: Exception) -> None:
            raise AssertionError(error)

    names: set[str] = set()
    storage = running.server.storage
    subscription = await storage.watch("/core/configmaps/default/", await storage.revision(), Sink())

    async def some() -> None:
        for _ in range(20):
            name = f"c{draw.randrange(12)}"
            if draw.random() < 0.6:
                assert (await running.client.post(MAPS, config_map(name))).status in (201, 403, 409)
            elif draw.random() < 0.9:
                assert (await running.client.delete(f"{MAPS}/{name}")).status in (200, 404)
            else:
                patch = {"metadata": {"labels": {"a": str(draw.random())}}}
                assert (await running.client.merge(f"{QUOTAS}/q", patch)).status == 200

    await asyncio.gather(*(some() for _ in range(8)))
    subscription.close()
    assert most == 5
    await running.uses({COUNT: str(await running.stored())})
    ledger = running.controller._ledger
    assert (ledger._reserved, ledger._pending) == ({}, {})


async def test_a_write_that_fails_is_taken_back(running: Running) -> None:
    await created(running.client, "a")
    await running.quota({COUNT: "2"})
    await running.uses({COUNT: "1"})
    assert (await running.client.post(MAPS, config_map("a"))).status == 409
    await running.uses({COUNT: "1"})
    await created(running.client, "b")


async def test_an_update_is_counted_by_what_it_uses_more(running: Running) -> None:
    await running.quota({"pods": "1"}, scopes=["Terminating"])
    await running.quota({"pods": "2"}, "others", scopes=["NotTerminating"])
    await running.uses({"pods": "0"}, "others")
    assert (await running.client.post(PODS, pod("a"))).status == 201
    assert (await running.client.post(PODS, pod("b"))).status == 201
    await running.uses({"pods": "2"}, "others")
    later = {"spec": {"activeDeadlineSeconds": 60}}
    assert (await running.client.merge(f"{PODS}/a", later)).status == 200
    assert await running.used() == {"pods": "1"}
    await running.uses({"pods": "1"}, "others")
    assert (await running.client.merge(f"{PODS}/b", later)).status == 403


async def test_an_ended_pod_uses_nothing(running: Running) -> None:
    await running.quota({"requests.cpu": "1", "count/pods": "5"})
    await running.uses({"requests.cpu": "0", "count/pods": "0"})
    assert (await running.client.post(PODS, pod("a", "600m"))).status == 201
    assert (await running.client.post(PODS, pod("b", "600m"))).status == 403
    await running.client.merge(f"{PODS}/a/status", {"status": {"phase": "Failed"}})
    await running.uses({"requests.cpu": "0", "count/pods": "1"})
    assert (await running.client.post(PODS, pod("b", "600m"))).status == 201


async def test_a_changed_quota_is_counted_anew(running: Running) -> None:
    await created(running.client, "a")
    await running.quota({"pods": "1"})
    await running.uses({"pods": "0"})
    await running.client.merge(f"{QUOTAS}/q", {"spec": {"hard": {COUNT: "1", "pods": None}}})
    await running.uses({COUNT: "1"})
    assert (await running.client.post(MAPS, config_map("b"))).status == 403
    await running.client.delete(f"{QUOTAS}/q")
    await created(running.client, "b")


async def test_what_nobody_needs_is_not_followed(running: Running) -> None:
    await running.quota({COUNT: "1"})
    await running.uses({COUNT: "0"})
    tallies = running.controller._ledger._tallies["", "configmaps"]
    assert list(tallies) == ["default"]
    await running.client.delete(f"{QUOTAS}/q")
    for _ in range(50):
        await asyncio.sleep(0)
    assert (list(tallies), tallies._subscription) == ([], None)


async def test_a_kind_that_is_not_served_yet(running: Running) -> None:
    name = "count/crontabs.stable.example.com"
    await running.quota({name: "1", COUNT: "3"})
    await running.uses({COUNT: "0"})
    versions = [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}]
    names = {"plural": "crontabs", "kind": "CronTab"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "crontabs.stable.example.com"},
        "spec": {"group": "stable.example.com", "scope": "Namespaced", "names": names, "versions": versions},
    }
    assert (await running.client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)).status == 201
    await running.uses({name: "0", COUNT: "0"})
    path, body = (
        "/apis/stable.example.com/v1/namespaces/default/crontabs",
        {"apiVersion": "stable.example.com/v1", "kind": "CronTab"},
    )
    assert (await running.client.post(path, {**body, "metadata": {"name": "a"}})).status == 201
    assert (await running.client.post(path, {**body, "metadata": {"name": "b"}})).status == 403


async def test_all_is_counted_again_when_the_watch_is_lost(running: Running) -> None:
    await running.quota({COUNT: "3"})
    await running.uses({COUNT: "0"})
    tallies = running.controller._ledger._tallies["", "configmaps"]
    assert tallies._subscription is not None
    tallies._subscription.close()
    await created(running.client, "a")
    await running.client.delete(f"{MAPS}/a")
    tallies.lost(Unavailable("gone"))
    await created(running.client, "b")
    await running.uses({COUNT: "2"})  # nobody knows of the first whether it is still being written
    running.server.timers.fire(60.0)
    await running.uses({COUNT: "1"})


# --- tallies ---


class _Slow(MemoryStorage):
    """Calls a function before each page of a list."""

    before_page: Callable[[], Any] | None = None

    async def list(self, *arguments: Any, **more: Any) -> Any:
        page = await super().list(*arguments, **more)
        if self.before_page is not None:
            await self.before_page()
        return page


async def _tallies(storage: MemoryStorage) -> tuple[Tallies, list[tuple[str, int]]]:
    seen: list[tuple[str, int]] = []

    def changed(key: ObjectKey, revision: int, before: Measure | None, after: Measure | None) -> None:
        seen.append((key.name, (after is not None) - (before is not None)))

    return Tallies(storage, "", "configmaps", Counted("", "configmaps"), changed, lambda: None), seen


async def test_changes_during_the_count() -> None:
    """What the listing has, and what it has not, is counted once."""
    storage = _Slow()
    await storage.start()
    for number in range(30):
        await storage.create(f"/core/configmaps/n/c{number}", b"{}")
    tallies, seen = await _tallies(storage)
    revisions = iter(range(100, 200))

    async def change() -> None:
        number = next(revisions)
        await storage.create(f"/core/configmaps/n/c{number}", b"{}")
        await storage.delete("/core/configmaps/n/c0", (await storage.get("/core/configmaps/n/c0")).revision)  # type: ignore[union-attr]
        await storage.create("/core/configmaps/n/c0", b"{}")
        await storage.create(f"/core/configmaps/other/c{number}", b"{}")

    storage.before_page = change
    await tallies.count("n")
    storage.before_page = None
    (number,) = tallies.numbers("n").values()
    assert number == await storage.count("/core/configmaps/n/")
    assert number > 30
    seen.clear()
    await storage.create("/core/configmaps/n/new", b"{}")
    await storage.create("/core/configmaps/other/new", b"{}")
    assert seen == [("new", 1)]


async def test_a_lost_watch_during_the_count() -> None:
    storage = _Slow()
    await storage.start()
    await storage.create("/core/configmaps/n/a", b"{}")
    tallies, _ = await _tallies(storage)

    async def lose() -> None:
        tallies.lost(Unavailable("gone"))

    storage.before_page = lose
    await tallies.count("n")
    with pytest.raises(Unavailable):
        tallies.numbers("n")
