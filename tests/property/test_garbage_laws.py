"""The law of garbage: after any history of owners and deletions, what stays is what a plain model of the rules says."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from aggserver.controllers.garbage.collector import GarbageCollector
from tests.fakes.asgi import Client
from tests.fakes.clock import until
from tests.fakes.definitions import CRONTABS, CRONTABS_PATH, GROUP, WIDGETS, WIDGETS_PATH, crontab, widget
from tests.fakes.server import LocalServer

CHANCES = st.randoms(use_true_random=False)
PATHS = {"default": CRONTABS_PATH, "other": CRONTABS_PATH.replace("default", "other"), "": WIDGETS_PATH}


@dataclass
class Thing:
    """An object. owners: (its uid, as what kind, with which name), as its references say."""

    namespace: str
    name: str
    uid: str
    owners: list[tuple[str, str, str]] = field(default_factory=list)

    @property
    def kind(self) -> str:
        return "CronTab" if self.namespace else "Widget"


class Model:
    """The rules, without the order in which things happen: policies differ in that alone, but for Orphan."""

    def __init__(self) -> None:
        self.things: list[Thing] = []

    def delete(self, thing: Thing, policy: str) -> None:
        self.things.remove(thing)
        if policy == "Orphan":
            for other in self.things:
                other.owners = [entry for entry in other.owners if entry[0] != thing.uid]
        self.settle()

    def settle(self) -> None:
        changed = True
        while changed:
            changed = False
            for thing in list(self.things):
                if any(kind == "CronTab" for _, kind, _ in thing.owners) and not thing.namespace:
                    continue  # cluster-scoped, with an owner in a namespace: never touched
                solid = [entry for entry in thing.owners if self._exists(thing, entry)]
                if solid == thing.owners:
                    continue
                changed = True
                if solid:
                    thing.owners = solid
                else:
                    self.things.remove(thing)

    def _exists(self, thing: Thing, entry: tuple[str, str, str]) -> bool:
        uid, kind, name = entry
        namespace = thing.namespace if kind == "CronTab" else ""
        return any((other.uid, other.namespace, other.name) == (uid, namespace, name) for other in self.things)

    def state(self) -> dict[tuple[str, str], list[tuple[str, str, str]]]:
        return {(thing.namespace, thing.name): thing.owners for thing in self.things}


async def state(client: Client) -> dict[tuple[str, str], list[tuple[str, str, str]]]:
    found = {}
    for namespace, path in PATHS.items():
        for item in (await client.get(path)).json()["items"]:
            owners = item["metadata"].get("ownerReferences", ())
            found[namespace, item["metadata"]["name"]] = [(entry["uid"], entry["kind"], entry["name"]) for entry in owners]
    return found


def an_owner(chance: random.Random, things: list[Thing]) -> tuple[str, str, str]:
    """Mostly of an object that exists, and that is in the right namespace as often as not."""
    thing = chance.choice(things)
    if chance.random() < 0.1:
        return "no-such-uid", thing.kind, thing.name
    if chance.random() < 0.1:
        return thing.uid, thing.kind, "no-such-name"
    return thing.uid, thing.kind, thing.name


def references(owners: list[tuple[str, str, str]], namespace: str, chance: random.Random) -> list[dict[str, Any]]:
    # A cluster-scoped object with an owner in a namespace is never deleted, so that its owners would wait for ever, as upstream.
    may_block = bool(namespace) or all(kind == "Widget" for _, kind, _ in owners)
    found: list[dict[str, Any]] = []
    for uid, kind, name in owners:
        found.append({"apiVersion": f"{GROUP}/v1", "kind": kind, "name": name, "uid": uid})
        if may_block and chance.random() < 0.7:
            found[-1]["blockOwnerDeletion"] = True
    return found


class Collector:
    """The collector of a server, which can be stopped and started again."""

    def __init__(self, server: LocalServer) -> None:
        self._server = server
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._task is None:
            server = self._server
            server.garbage_collector = GarbageCollector(
                server.engine.installer, server.storage, server.clock, server.timers.call_later
            )
            self._task = asyncio.create_task(server.garbage_collector.run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def idle(self) -> None:
        if self._task is not None:
            await until(lambda: self._server.garbage_collector.idle)


async def play(chance: random.Random) -> None:
    server = LocalServer()
    await server.start()
    for crd in (CRONTABS, WIDGETS):
        server.serve(crd)
    await server.namespace("other")
    client, model, collector = server.client(), Model(), Collector(server)
    collector.start()
    try:
        for step in range(chance.randint(5, 25)):
            things = model.things
            if things and chance.random() < 0.3:
                thing, policy = chance.choice(things), chance.choice(["Background", "Foreground", "Orphan"])
                if policy == "Orphan":
                    # What refers to it in vain goes before, or loses the reference and stays: a matter of time.
                    collector.start()
                    await collector.idle()
                await client.delete(f"{PATHS[thing.namespace]}/{thing.name}", {"propagationPolicy": policy})
                model.delete(thing, policy)
            else:
                namespace = chance.choice(list(PATHS))
                chosen = [an_owner(chance, things) for _ in range(chance.choice([0, 1, 1, 2]))] if things else []
                # The server refuses nothing of this, but keeps one of two that are the same.
                owners = list({entry[0]: entry for entry in chosen}.values())
                obj = crontab(f"thing-{step}") if namespace else widget(f"thing-{step}")
                if owners:
                    obj["metadata"]["ownerReferences"] = references(owners, namespace, chance)
                made = (await client.post(PATHS[namespace], obj)).json()
                model.things.append(Thing(namespace, f"thing-{step}", made["metadata"]["uid"], owners))
                model.settle()
            if chance.random() < 0.1:
                await collector.stop()
            if chance.random() < 0.3:
                collector.start()
            if chance.random() < 0.8:
                await collector.idle()
        collector.start()
        await collector.idle()
        assert await state(client) == model.state()
        assert set(server.garbage_collector._graph.objects()) == {
            f"/{GROUP}/{'crontabs' if thing.namespace else 'widgets'}/{'/'.join(filter(None, (thing.namespace, thing.name)))}"
            for thing in model.things
            if thing.owners
        }
    finally:
        await collector.stop()
        await server.stop()


@given(CHANCES)
def test_what_stays(chance: random.Random) -> None:
    asyncio.run(play(chance))
