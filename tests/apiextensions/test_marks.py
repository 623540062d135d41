"""Watches and the content of definitions: which end, and from where they may come back, at any server and after a restart."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from aggserver.apiextensions.definition import parse
from aggserver.storage.interface import Unavailable
from aggserver.storage.memory import MemoryStorage
from tests.fakes.asgi import Exchange
from tests.fakes.clock import settled
from tests.fakes.definitions import CRONTABS, CRONTABS_PATH, crontab
from tests.fakes.server import LocalServer

NAME = "crontabs.stable.example.com"
WATCH = f"{CRONTABS_PATH}?watch=1"


def changed(default: str = "red") -> dict[str, Any]:
    crd = copy.deepcopy(dict(CRONTABS))
    for version in crd["spec"]["versions"]:
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["color"] = {"type": "string", "default": default}
    return crd


def with_columns() -> dict[str, Any]:
    crd = copy.deepcopy(dict(CRONTABS))
    crd["spec"]["versions"][0]["additionalPrinterColumns"] = [{"name": "Spec", "type": "string", "jsonPath": ".spec.cronSpec"}]
    return crd


def from_files(server: LocalServer, crd: Any) -> None:
    definition = parse(crd)
    server.engine.definitions.set_all({definition.name: definition})


async def listed(server: LocalServer) -> tuple[str, list[Any]]:
    answer = (await server.client().get(CRONTABS_PATH)).json()
    return answer["metadata"]["resourceVersion"], [item["spec"].get("color") for item in answer["items"]]


async def verdict(server: LocalServer, revision: str) -> str:
    """What a watch from a revision is told at once: the reason of its end, or the name of what is made then."""
    async with server.client().watch(f"{WATCH}&resourceVersion={revision}") as watch:
        made = crontab(f"made-{len((await server.client().get(CRONTABS_PATH)).json()['items'])}")
        assert (await server.client().post(CRONTABS_PATH, made)).status == 201
        event = await watch.event()
        return str(event["object"].get("reason") or event["type"])


async def ended(watch: Exchange) -> bool:
    return await watch.event() is None


async def test_a_new_default_ends_watches_and_what_is_older_is_expired(server: LocalServer) -> None:
    server.serve(CRONTABS)
    await server.client().post(CRONTABS_PATH, crontab("one"))
    before, colors = await listed(server)
    assert colors == [None]
    async with server.client().watch(f"{WATCH}&resourceVersion={before}") as watch:
        server.serve(changed())
        assert await ended(watch)
    assert await verdict(server, before) == "Expired"
    await settled()
    now, colors = await listed(server)
    assert int(now) > int(before)
    assert set(colors) == {"red"}
    assert await verdict(server, now) == "ADDED"


async def test_until_the_mark_is_written_nothing_that_was_told_before_is_resumed(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.serve(CRONTABS)
    before, _ = await listed(server)

    async def full(key: str, value: bytes) -> int:
        raise Unavailable("disk full")

    with monkeypatch.context() as broken:
        broken.setattr(server.storage, "create", full)
        server.serve(changed())
        await settled()
        async with server.client().watch(f"{WATCH}&resourceVersion={before}") as watch:
            assert (await watch.event())["object"]["reason"] == "Expired"
        async with server.client().watch(f"{WATCH}&sendInitialEvents=false&resourceVersionMatch=NotOlderThan") as watch:
            assert watch.status == 200


@pytest.mark.parametrize("edit", [with_columns, lambda: {**CRONTABS, "metadata": {**CRONTABS["metadata"], "labels": {"a": "b"}}}])
async def test_other_changes_end_none(server: LocalServer, edit: Any) -> None:
    server.serve(CRONTABS)
    before, _ = await listed(server)
    async with server.client().watch(f"{WATCH}&resourceVersion={before}") as watch:
        server.serve(edit())
        await server.client().post(CRONTABS_PATH, crontab("one"))
        assert (await watch.event())["type"] == "ADDED"
    assert await verdict(server, before) == "ADDED"


async def test_a_watch_behind_ends_too(server: LocalServer) -> None:
    server.serve(CRONTABS)
    for number in range(3):
        await server.client().post(CRONTABS_PATH, crontab(f"a{number}"))
    async with server.client().watch(WATCH) as watch:
        server.serve(changed())
        names = [event["object"]["metadata"]["name"] for event in await watch.rest()]
    assert names == ["a0", "a1", "a2"]


RESTARTS: dict[str, tuple[Callable[[], Any], str]] = {
    # name: (definition at the next start, what a watch from before is told)
    "the same": (lambda: CRONTABS, "ADDED"),
    "other columns": (with_columns, "ADDED"),
    "a new default": (changed, "Expired"),
}


@pytest.mark.parametrize("name", RESTARTS)
async def test_files_that_change_while_no_server_runs(name: str) -> None:
    after, told = RESTARTS[name]
    storage = MemoryStorage()
    first = LocalServer(storage)
    await first.start()
    from_files(first, CRONTABS)
    await first.client().post(CRONTABS_PATH, crontab("one"))
    before, _ = await listed(first)
    first.end_watches()
    second = LocalServer(storage)
    from_files(second, after())
    assert await verdict(second, before) == told
    revision, _ = await listed(second)
    third = LocalServer(storage)
    from_files(third, after())
    assert await verdict(third, before) == told
    assert await verdict(third, revision) == "ADDED"
    await third.stop()


async def test_the_change_is_known_after_a_restart() -> None:
    storage = MemoryStorage()
    first = LocalServer(storage)
    await first.start()
    first.serve(CRONTABS)
    before, _ = await listed(first)
    first.serve(changed())
    await settled()
    now, _ = await listed(first)
    second = LocalServer(storage)
    second.serve(changed())
    assert await verdict(second, before) == "Expired"
    assert await verdict(second, now) == "ADDED"
    await second.stop()


async def test_the_server_that_changes_over_last_counts() -> None:
    """A client of the slower server has old objects of a newer revision than the quicker server's change."""
    storage = MemoryStorage()
    quick, slow = LocalServer(storage), LocalServer(storage)
    await quick.start()
    for server in (quick, slow):
        from_files(server, CRONTABS)
        await listed(server)
    from_files(quick, changed())
    await settled()
    await slow.client().post(CRONTABS_PATH, crontab("one"))
    old, colors = await listed(slow)
    assert colors == [None]
    from_files(slow, changed())
    await settled()
    assert await verdict(quick, old) == "Expired"
    await quick.stop()
