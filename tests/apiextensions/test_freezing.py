"""What clients are told while the objects of a definition are being moved, and what whoever moves them can rely on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aggserver.admission.chain import Attributes
from aggserver.apiextensions.definition import parse
from aggserver.apiextensions.definitions import Definitions
from aggserver.informers.informer import ALL, CONTROLLER
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.registry.rest import Context, DeleteOptions
from aggserver.storage.interface import Unavailable
from tests.fakes.asgi import Answer, Client
from tests.fakes.clock import settled
from tests.fakes.definitions import CRONTABS, CRONTABS_PATH, WIDGETS, WIDGETS_PATH, crontab, widget
from tests.fakes.server import LocalServer

NAME = "crontabs.stable.example.com"
ONE = f"{CRONTABS_PATH}/one"
TEXT = f"the objects of {NAME} are being moved; please try again"
SCALE = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "one"}, "spec": {"replicas": 3}}
APPLY = "application/apply-patch+yaml"


class Slow:
    """A mutating plugin that holds up each write of an object until it may go on."""

    def __init__(self) -> None:
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self.waiting = 0

    async def mutate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> bool:
        self.waiting += 1
        await self.may_go_on.wait()
        self.waiting -= 1
        return False


@pytest.fixture
def slow() -> Slow:
    return Slow()


@pytest.fixture
async def server(slow: Slow) -> AsyncIterator[LocalServer]:
    server = LocalServer(mutating_plugins=[slow])
    await server.start()
    server.serve(CRONTABS)
    server.serve(WIDGETS)
    yield server
    await server.stop()


@pytest.fixture
def definitions(server: LocalServer) -> Definitions:
    return server.engine.definitions


@pytest.fixture
async def one(client: Client) -> Any:
    """An object as it was created."""
    answer = await client.post(CRONTABS_PATH, crontab("one", replicas=1))
    assert answer.status == 201
    return answer.json()


def is_told_to_wait(answer: Answer) -> bool:
    assert answer.status == 503, answer.body
    status = answer.json()
    assert (status["reason"], status["message"]) == ("ServiceUnavailable", TEXT)
    assert (status["details"]["retryAfterSeconds"], answer.header("retry-after")) == (1, "1")
    return True


WRITES: dict[str, tuple[str, str, Any, str]] = {
    "create": ("POST", CRONTABS_PATH, crontab("two"), "application/json"),
    "create of what is there": ("POST", CRONTABS_PATH, crontab("one"), "application/json"),
    "create in another version": ("POST", CRONTABS_PATH.replace("/v1/", "/v1beta1/"), crontab("two"), "application/json"),
    "dry run": ("POST", f"{CRONTABS_PATH}?dryRun=All", crontab("two"), "application/json"),
    "update": ("PUT", ONE, crontab("one", image="a"), "application/json"),
    "patch": ("PATCH", ONE, {"spec": {"image": "a"}}, "application/merge-patch+json"),
    "patch that changes nothing": ("PATCH", ONE, {}, "application/merge-patch+json"),
    "patch of what is not there": ("PATCH", f"{CRONTABS_PATH}/two", {}, "application/merge-patch+json"),
    "apply": ("PATCH", f"{ONE}?fieldManager=m", crontab("one", image="a"), APPLY),
    "status": ("PATCH", f"{ONE}/status", {"status": {"note": "a"}}, "application/merge-patch+json"),
    "scale": ("PUT", f"{ONE}/scale", SCALE, "application/json"),
    "delete": ("DELETE", ONE, None, ""),
    "deletecollection": ("DELETE", CRONTABS_PATH, None, ""),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
async def test_a_write_waits_while_they_are_frozen(
    write: tuple[str, str, Any, str], definitions: Definitions, client: Client, one: Any
) -> None:
    method, target, body, kind = write
    if "v1beta1" in target:
        body = {**body, "apiVersion": "stable.example.com/v1beta1"}
    await definitions.freeze(NAME)
    assert is_told_to_wait(await client.request(method, target, body, content_type=kind))
    assert (await client.get(ONE)).json() == one
    definitions.thaw(NAME)
    answer = await client.request(method, target, body, content_type=kind)
    assert answer.status in (200, 201, 404, 409, 422), answer.body


READS = ("", "/one", "/one/status", "/one/scale", "?watch=1", "?resourceVersion=0", "?watch=1&resourceVersion=1")


@pytest.mark.parametrize("target", READS)
async def test_a_read_waits_only_if_they_are_hidden(target: str, definitions: Definitions, client: Client, one: Any) -> None:
    async def read() -> Answer:
        exchange = client.send("GET", CRONTABS_PATH + target)
        await exchange.start()
        if exchange.status == 200:
            exchange.disconnect()
            return Answer(200, exchange.headers, b"")
        return Answer(exchange.status, exchange.headers, await exchange.piece())

    await definitions.freeze(NAME)
    assert (await read()).status == 200
    await definitions.freeze(NAME, reads=True)
    assert is_told_to_wait(await read())
    await definitions.freeze(NAME)  # takes nothing back
    assert is_told_to_wait(await read())
    definitions.thaw(NAME)
    assert (await read()).status == 200


async def test_open_watches_go_on_until_the_objects_are_hidden(definitions: Definitions, client: Client, one: Any) -> None:
    version = one["metadata"]["resourceVersion"]
    watch = f"{CRONTABS_PATH}?watch=1&resourceVersion={version}"
    async with client.watch(watch) as first, client.watch(watch.replace("/v1/", "/v1beta1/")) as second:
        await definitions.freeze(NAME)
        definitions.thaw(NAME)
        assert (await client.post(CRONTABS_PATH, crontab("two"))).status == 201
        await definitions.freeze(NAME)
        await definitions.freeze(NAME, reads=True)
        for each in (first, second):
            added, end = await each.rest()
            assert added["object"]["metadata"]["name"] == "two"
            assert (end["type"], end["object"]["code"], end["object"]["reason"]) == ("ERROR", 410, "Expired")


async def test_a_watch_that_still_reads_its_past_ends_too(definitions: Definitions, client: Client) -> None:
    for number in range(50):
        await client.post(CRONTABS_PATH, crontab(f"a{number}", image="x" * 10_000))
    async with client.watch(f"{CRONTABS_PATH}?watch=1") as watch:
        await definitions.freeze(NAME, reads=True)
        *events, end = await watch.rest()
    assert end["object"]["code"] == 410
    assert {event["type"] for event in events} <= {"ADDED"}


async def test_what_has_begun_is_refused_when_it_would_be_stored(
    slow: Slow, server: LocalServer, definitions: Definitions, client: Client, one: Any
) -> None:
    """Whoever froze them need not wait for a webhook, and yet nothing comes after."""
    slow.may_go_on.clear()
    writes = [WRITES[name] for name in ("create", "patch", "apply", "status", "scale", "delete", "deletecollection")]
    requests = [client.send(method, target, body, content_type=kind) for method, target, body, kind in writes]
    await settled()
    assert slow.waiting == len(writes)
    await definitions.freeze(NAME)
    slow.may_go_on.set()
    for request in requests:
        await request.start()
        assert is_told_to_wait(Answer(request.status, request.headers, await request.piece()))
    assert (await client.get(CRONTABS_PATH)).json()["items"] == [one]


async def test_it_waits_for_what_the_store_is_writing(
    server: LocalServer, definitions: Definitions, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = asyncio.Event()
    monkeypatch.setattr(server.storage, "settle", written.wait)
    freezing = asyncio.create_task(definitions.freeze(NAME))
    await settled()
    assert not freezing.done()
    written.set()
    await freezing


async def test_a_store_that_fails_leaves_them_frozen(
    server: LocalServer, definitions: Definitions, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail() -> None:
        raise Unavailable("gone")

    monkeypatch.setattr(server.storage, "settle", fail)
    with pytest.raises(Unavailable):
        await definitions.freeze(NAME)
    assert is_told_to_wait(await client.post(CRONTABS_PATH, crontab("two")))


async def test_controllers_of_this_server_wait_too(definitions: Definitions, one: Any) -> None:
    resource = definitions.get(NAME)
    assert resource is not None
    store = resource.store(resource.definition.storage_version)
    await definitions.freeze(NAME)
    context = Context(CONTROLLER, namespace="default")
    with pytest.raises(StatusError, match="being moved"):
        await store.delete(context, "one", DeleteOptions())
    with pytest.raises(StatusError, match="being moved"):
        await store.delete_collection(context, DeleteOptions(), ALL)
    assert await definitions.count_objects(NAME) == 1


async def test_a_changed_definition_stays_frozen(server: LocalServer, definitions: Definitions, client: Client) -> None:
    await definitions.freeze(NAME)
    server.serve({**CRONTABS, "spec": {**CRONTABS["spec"], "versions": CRONTABS["spec"]["versions"][:1]}})
    assert is_told_to_wait(await client.post(CRONTABS_PATH, crontab("two")))
    definitions.set_all({NAME: parse(CRONTABS)})
    assert is_told_to_wait(await client.post(CRONTABS_PATH, crontab("two")))
    definitions.thaw(NAME)
    assert (await client.post(CRONTABS_PATH, crontab("two"))).status == 201


async def test_a_definition_is_frozen_before_it_is_served(server: LocalServer, definitions: Definitions, client: Client) -> None:
    definitions.remove(NAME)
    await definitions.freeze(NAME, reads=True)
    server.serve(CRONTABS)
    assert is_told_to_wait(await client.post(CRONTABS_PATH, crontab("two")))
    definitions.remove(NAME)
    server.serve(CRONTABS)
    assert is_told_to_wait(await client.get(CRONTABS_PATH))
    definitions.thaw(NAME)
    definitions.thaw(NAME)
    assert (await client.post(CRONTABS_PATH, crontab("two"))).status == 201


async def test_a_request_to_a_definition_from_before_is_frozen_with_its_successor(
    slow: Slow, server: LocalServer, definitions: Definitions, client: Client
) -> None:
    slow.may_go_on.clear()
    late = client.send("POST", CRONTABS_PATH, crontab("late"))
    await settled()
    definitions.remove(NAME)
    server.serve(CRONTABS)
    await definitions.freeze(NAME)
    slow.may_go_on.set()
    await late.start()
    assert late.status == 503
    assert (await client.get(CRONTABS_PATH)).json()["items"] == []


async def test_a_request_to_a_definition_that_has_gone_is_refused_for_good(
    slow: Slow, server: LocalServer, definitions: Definitions, client: Client
) -> None:
    """Its objects were given back, and are served elsewhere: what came late would be lost."""
    slow.may_go_on.clear()
    late = client.send("POST", CRONTABS_PATH, crontab("late"))
    await settled()
    await definitions.freeze(NAME)
    definitions.remove(NAME)
    definitions.thaw(NAME)
    server.serve(CRONTABS)
    slow.may_go_on.set()
    await late.start()
    assert late.status == 503
    assert (await client.post(CRONTABS_PATH, crontab("new"))).status == 201


async def test_others_are_not_concerned(definitions: Definitions, client: Client) -> None:
    await definitions.freeze(NAME, reads=True)
    assert (await client.post(WIDGETS_PATH, widget())).status == 201
    assert (await client.get(WIDGETS_PATH)).status == 200
