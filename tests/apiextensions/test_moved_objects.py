"""Objects that were moved here: what clients have of them from the server where they were before has expired."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from aggserver.apiextensions.definition import parse
from aggserver.storage import keys
from aggserver.storage.memory import MemoryStorage
from tests.fakes.asgi import Answer, Client
from tests.fakes.clock import settled
from tests.fakes.definitions import CRONTABS, CRONTABS_PATH, WIDGETS, WIDGETS_PATH, crontab, widget
from tests.fakes.server import LocalServer

NAME = "crontabs.stable.example.com"
PREFIX = "/stable.example.com/crontabs/"
NAMES = ["a", "b", "c"]
LIST_EXPIRED = "The resourceVersion for the provided list is too old."
HOST_REVISION = 5_000  # the newest where the objects were before


async def moved(server: LocalServer) -> int:
    """Move objects as an adoption does, and serve them. Returns the revision of the mark."""
    definitions = server.engine.definitions
    for name in NAMES:
        await server.storage.create(f"{PREFIX}default/{name}", stored(name))
    await server.storage.advance(HOST_REVISION)
    since = await definitions.expire_before(NAME)
    definitions.set(parse(CRONTABS))
    return since


def stored(name: str) -> bytes:
    metadata = (
        f'{{"name":"{name}","namespace":"default","uid":"uid-{name}","creationTimestamp":"2026-01-02T03:04:05Z","generation":1}}'
    )
    return f'{{"apiVersion":"stable.example.com/v1","kind":"CronTab","metadata":{metadata},"spec":{{"cronSpec":"*"}}}}'.encode()


def names(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.body
    return [item["metadata"]["name"] for item in answer.json()["items"]]


def expired(answer: Answer) -> Any:
    status = answer.json()
    assert (answer.status, status["code"], status["reason"]) == (410, 410, "Expired")
    return status


async def watched(client: Client, revision: int) -> str:
    """How a watch from a revision begins: the reason of its end, or the type of the event of a write that is made then."""
    async with client.watch(f"{CRONTABS_PATH}?watch=1&resourceVersion={revision}") as watch:
        assert (await client.merge(f"{CRONTABS_PATH}/a", {"metadata": {"labels": {"at": str(revision)}}})).status == 200
        event = await watch.event()
        return str(event["object"].get("reason") or event["type"])


EXACT = ("resourceVersionMatch=Exact", "limit=2", "limit=2&resourceVersionMatch=Exact", "limit=2&labelSelector=!x")


@pytest.mark.parametrize("how", EXACT)
@pytest.mark.parametrize("revision", [3, HOST_REVISION - 1, HOST_REVISION])
async def test_there_is_no_list_at_a_revision_from_before(server: LocalServer, client: Client, how: str, revision: int) -> None:
    since = await moved(server)
    for path in (CRONTABS_PATH, CRONTABS_PATH.replace("namespaces/default/", "")):
        assert expired(await client.get(f"{path}?{how}&resourceVersion={revision}"))["message"] == LIST_EXPIRED
        assert names(await client.get(f"{path}?{how}&resourceVersion={since}")) == NAMES[: 2 if "limit" in how else 3]


@pytest.mark.parametrize(
    "query", ["", "resourceVersion=0", "resourceVersion=3&resourceVersionMatch=NotOlderThan", "resourceVersion=3"]
)
async def test_a_list_that_need_not_be_exact_is_the_newest(server: LocalServer, client: Client, query: str) -> None:
    since = await moved(server)
    answer = await client.get(f"{CRONTABS_PATH}?{query}")
    assert names(answer) == NAMES
    assert int(answer.json()["metadata"]["resourceVersion"]) >= since


async def test_a_list_that_the_host_began_goes_on_with_what_is_newest(server: LocalServer, client: Client) -> None:
    """Or, as client-go's pager does it, all is listed anew."""
    await moved(server)
    token = keys.encode_continue("default/a\0", HOST_REVISION)
    status = expired(await client.get(f"{CRONTABS_PATH.replace('namespaces/default/', '')}?limit=2&continue={token}"))
    assert status["message"].startswith("The provided continue parameter is too old to display a consistent list result.")
    rest = status["metadata"]["continue"]
    assert keys.decode_continue(rest, PREFIX) == (f"{PREFIX}default/a\0", -1)
    assert names(await client.get(f"{CRONTABS_PATH.replace('namespaces/default/', '')}?limit=2&continue={rest}")) == ["b", "c"]


async def test_a_list_that_is_begun_here_goes_on(server: LocalServer, client: Client) -> None:
    await moved(server)
    first = await client.get(f"{CRONTABS_PATH}?limit=2")
    assert names(first) == ["a", "b"]
    token = first.json()["metadata"]["continue"]
    # At the revision of the first page.
    await client.delete(f"{CRONTABS_PATH}/c")
    assert names(await client.get(f"{CRONTABS_PATH}?limit=2&continue={token}")) == ["c"]
    # To another server it says: the rest, as it is then.
    assert json.loads(base64.urlsafe_b64decode(token + "=="))["rv"] == -1


async def test_watches_begin_where_the_objects_are_here(server: LocalServer, client: Client) -> None:
    since = await moved(server)
    for revision in (3, HOST_REVISION, since - 1):
        assert await watched(client, revision) == "Expired"
    assert await watched(client, since) == "MODIFIED"


async def test_all_servers_of_a_store_know_it_also_after_a_restart() -> None:
    storage = MemoryStorage()
    first, other = LocalServer(storage), LocalServer(storage)
    await first.start()
    other.serve(WIDGETS)
    await other.client().get(WIDGETS_PATH)  # it has read the marks before
    since = await moved(first)
    later = LocalServer(storage)
    for server in (other, later):
        server.serve(CRONTABS)
        expired(await server.client().get(f"{CRONTABS_PATH}?limit=2&resourceVersion={HOST_REVISION}"))
        assert await watched(server.client(), HOST_REVISION) == "Expired"
        assert await watched(server.client(), since) == "MODIFIED"
    await first.stop()


async def test_a_change_of_the_definition_takes_nothing_away(server: LocalServer, client: Client) -> None:
    since = await moved(server)
    await client.get(CRONTABS_PATH)
    server.serve(
        {**CRONTABS, "spec": {**CRONTABS["spec"], "preserveUnknownFields": False, "versions": CRONTABS["spec"]["versions"][:1]}}
    )
    await settled()
    expired(await client.get(f"{CRONTABS_PATH}?limit=2&resourceVersion={since - 1}"))
    # The objects were here at that revision. The list has them in their new form.
    assert names(await client.get(f"{CRONTABS_PATH}?limit=2&resourceVersion={since}")) == ["a", "b"]


async def test_they_may_be_moved_again(server: LocalServer, client: Client) -> None:
    first = await moved(server)
    assert names(await client.get(f"{CRONTABS_PATH}?limit=3&resourceVersion={first}")) == NAMES
    again = await server.engine.definitions.expire_before(NAME)
    assert again > first
    expired(await client.get(f"{CRONTABS_PATH}?limit=3&resourceVersion={first}"))
    assert await watched(client, again) == "MODIFIED"


async def test_other_definitions_are_not_concerned(server: LocalServer, client: Client) -> None:
    server.serve(WIDGETS)
    made = (await client.post(WIDGETS_PATH, widget("w"))).json()["metadata"]["resourceVersion"]
    await moved(server)
    assert (await client.post(CRONTABS_PATH, crontab("d"))).status == 201
    assert names(await client.get(f"{WIDGETS_PATH}?limit=2&resourceVersion={made}")) == ["w"]
