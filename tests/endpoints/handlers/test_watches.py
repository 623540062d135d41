"""Watches as clients see them: events, how they end, errors, bookmarks, other versions and forms."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest

from aggserver.endpoints.handlers.watch import Watching
from aggserver.storage.interface import Compacted
from tests.fakes.asgi import Client, Exchange
from tests.fakes.clock import settled, until
from tests.fakes.definitions import CRONTABS, CRONTABS_PATH, crontab
from tests.fakes.server import LocalServer

ONE = f"{CRONTABS_PATH}/one"
WATCH = f"{CRONTABS_PATH}?watch=1"


@pytest.fixture(autouse=True)
def served(server: LocalServer) -> None:
    server.serve(CRONTABS)


def short(events: list[Any]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


def watchers(server: LocalServer) -> int:
    """The number of watches on the watch cache of crontabs."""
    resource = server.engine.definitions.get("crontabs.stable.example.com")
    assert resource is not None
    cacher = resource._cacher
    return 0 if cacher is None else sum(map(len, cacher._watchers.values()))


async def create(client: Client, name: str = "one", **spec: Any) -> Any:
    return (await client.post(CRONTABS_PATH, crontab(name, **spec))).json()


# --- events ---


async def test_events(client: Client) -> None:
    made = await create(client)
    async with client.watch(WATCH) as watch:
        assert watch.status == 200
        assert dict(watch.headers)[b"content-type"] == b"application/json"
        assert b"content-length" not in dict(watch.headers)
        assert await watch.event() == {"type": "ADDED", "object": made}
        changed = (await client.merge(ONE, {"spec": {"replicas": 2}})).json()
        assert await watch.event() == {"type": "MODIFIED", "object": changed}
        await client.delete(ONE)
        event = await watch.event()
        assert event["type"] == "DELETED"
        assert event["object"] == {**changed, "metadata": {**changed["metadata"], "resourceVersion": "5"}}


async def test_from_a_version_on(client: Client) -> None:
    made = await create(client)
    await create(client, "two")
    async with client.watch(f"{WATCH}&resourceVersion={made['metadata']['resourceVersion']}") as watch:
        assert short([await watch.event()]) == [("ADDED", "two")]


@pytest.mark.parametrize(
    "target",
    [
        f"{WATCH}&fieldSelector=metadata.name%3Done",
        f"{WATCH}&fieldSelector=spec.image%3Dx",
        f"{WATCH}&labelSelector=tier",
        CRONTABS_PATH.replace("/v1/", "/v1/watch/") + "/one",
        f"{CRONTABS_PATH.replace('/v1/', '/v1/watch/')}/one?fieldSelector=metadata.name%3Done",
    ],
)
async def test_selected(client: Client, target: str) -> None:
    await create(client, "two")
    obj = crontab(image="x")
    obj["metadata"]["labels"] = {"tier": "a"}
    async with client.watch(target) as watch:
        await client.post(CRONTABS_PATH, obj)
        assert short([await watch.event()]) == [("ADDED", "one")]


async def test_entering_and_leaving_a_selection(client: Client) -> None:
    await create(client)
    async with client.watch(f"{WATCH}&fieldSelector=spec.image%3Dx") as watch:
        await client.merge(ONE, {"spec": {"image": "x"}})
        await client.merge(ONE, {"spec": {"image": "y"}})
        added, deleted = await watch.events(2)
        assert (added["type"], added["object"]["spec"]["image"]) == ("ADDED", "x")
        assert (deleted["type"], deleted["object"]["spec"]["image"]) == ("DELETED", "x")
        assert deleted["object"]["metadata"]["resourceVersion"] == "5"


async def test_of_all_namespaces(server: LocalServer, client: Client) -> None:
    await server.namespace("other")
    async with client.watch("/apis/stable.example.com/v1/crontabs?watch=true") as watch:
        await create(client)
        await client.post(CRONTABS_PATH.replace("default", "other"), crontab("two"))
        assert short(await watch.events(2)) == [("ADDED", "one"), ("ADDED", "two")]


async def test_another_version(client: Client) -> None:
    await create(client, image="x")
    async with client.watch(WATCH.replace("/v1/", "/v1beta1/") + "&allowWatchBookmarks=1") as watch:
        event = await watch.event()
        assert event["object"]["apiVersion"] == "stable.example.com/v1beta1"
        assert event["object"]["spec"] == {"cronSpec": "* * * * *"}
        assert any(name == b"warning" for name, _ in watch.headers)


async def test_partial_object_metadata(client: Client) -> None:
    made = await create(client)
    accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    async with client.watch(WATCH, headers={"accept": accept}) as watch:
        event = await watch.event()
        assert event["object"] == {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": made["metadata"]}


async def test_table(client: Client) -> None:
    await create(client)
    accept = "application/json;as=Table;g=meta.k8s.io;v=v1"
    async with client.watch(WATCH, headers={"accept": accept}) as watch:
        await create(client, "two", replicas=3)
        first, second = await watch.events(2)
        assert first["object"]["kind"] == second["object"]["kind"] == "Table"
        assert [column["name"] for column in first["object"]["columnDefinitions"]] == ["Name", "Spec", "Replicas"]
        assert not second["object"].get("columnDefinitions")
        assert second["object"]["rows"][0]["cells"] == ["two", "* * * * *", 3]
        assert second["object"]["metadata"]["resourceVersion"] == "4"


async def test_yaml_has_no_frames(client: Client) -> None:
    answer = await client.get(WATCH, headers={"accept": "application/yaml"})
    assert (answer.status, answer.header("content-type")) == (406, "application/yaml")
    assert b"message: 'only the following media types are accepted: application/json;stream=watch,\n" in answer.body


# --- the end ---


async def test_a_client_that_goes_away_frees_its_watch(server: LocalServer, client: Client) -> None:
    async with client.watch(f"{WATCH}&allowWatchBookmarks=1"):
        await until(lambda: watchers(server) == 1)
        assert len(server.timers.pending) == 3
    assert watchers(server) == 0
    assert server.timers.pending == []


class Broken(Exception):
    pass


@pytest.mark.parametrize("nth", [1, 2, 3])
async def test_a_connection_that_fails_frees_its_watch(server: LocalServer, client: Client, nth: int) -> None:
    """Sending may fail at the head, at the empty chunk after it, or at an event."""
    await create(client)
    sent = 0

    async def receive() -> Any:
        await until(lambda: False)

    async def send(message: Any) -> None:
        nonlocal sent
        sent += 1
        if sent == nth:
            raise Broken

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "path": CRONTABS_PATH,
        "query_string": b"watch=1",
        "headers": [],
        "state": {"peer_certificate": client.user},
    }
    try:
        await server.app(scope, receive, send)
    except Broken:
        assert nth < 3
    assert watchers(server) == 0
    assert server.timers.pending == []


async def test_head_of_a_watch(server: LocalServer, client: Client) -> None:
    answer = await client.request("HEAD", WATCH)
    assert (answer.status, answer.body) == (200, b"")
    assert watchers(server) == 0


@pytest.mark.parametrize(("query", "seconds"), [("", 1800.0), ("&timeoutSeconds=5", 5), ("&timeoutSeconds=0", 1800.0)])
async def test_time_limit(server: LocalServer, client: Client, query: str, seconds: float) -> None:
    async with client.watch(WATCH + query) as watch:
        assert server.timers.seconds == [seconds]
        server.timers.fire(seconds)
        assert await watch.event() is None


async def test_limits_are_spread(server: LocalServer, client: Client) -> None:
    seen: list[float] = []

    def call_later(seconds: float, callback: Any) -> Any:
        seen.append(seconds)
        return server.timers.call_later(seconds, callback)

    watching = Watching(lambda: 0.5, lambda scope, count, size: None, call_later)
    verbs = server.handler._verbs  # type: ignore[attr-defined]
    verbs["watch"] = watching
    async with client.watch(WATCH):
        assert seen == [2700.0]


async def test_a_withdrawn_definition_ends_its_watches(server: LocalServer, client: Client) -> None:
    await create(client)
    async with client.watch(WATCH) as watch:
        await watch.event()
        server.engine.definitions.remove("crontabs.stable.example.com")
        assert await watch.event() is None


async def test_a_changed_definition_keeps_them(server: LocalServer, client: Client) -> None:
    async with client.watch(WATCH) as watch:
        spec = {**CRONTABS["spec"], "names": {**CRONTABS["spec"]["names"], "shortNames": ["cts"]}}
        server.serve({**CRONTABS, "spec": spec})
        await create(client)
        assert short([await watch.event()]) == [("ADDED", "one")]


async def test_other_selectable_fields_end_them(server: LocalServer, client: Client) -> None:
    await create(client, image="x")
    async with client.watch(f"{WATCH}&fieldSelector=spec.image%3Dx") as watch:
        await watch.event()
        first = {**CRONTABS["spec"]["versions"][0], "selectableFields": [{"jsonPath": ".spec.cronSpec"}]}
        server.serve({**CRONTABS, "spec": {**CRONTABS["spec"], "versions": [first, *CRONTABS["spec"]["versions"][1:]]}})
        assert await watch.event() is None
    listed = (await client.get(f"{CRONTABS_PATH}?fieldSelector=spec.cronSpec%3D%2A%20%2A%20%2A%20%2A%20%2A")).json()
    assert len(listed["items"]) == 1


async def test_what_is_sent_is_counted(server: LocalServer, client: Client) -> None:
    async with client.watch(WATCH) as watch:
        await create(client)
        await watch.event()
    assert server.events == 1


# --- errors ---


async def error_of(watch: Exchange) -> Any:
    event = await watch.event()
    assert event["type"] == "ERROR"
    assert await watch.event() is None
    return event["object"]


async def test_too_old(server: LocalServer, client: Client) -> None:
    await create(client)
    await client.merge(ONE, {"spec": {"replicas": 1}})
    await server.storage.compact(4)
    resource = server.engine.definitions.get("crontabs.stable.example.com")
    assert resource is not None
    resource.close()
    server.engine.definitions.remove("crontabs.stable.example.com")
    server.serve(CRONTABS)
    async with client.watch(f"{WATCH}&resourceVersion=1") as watch:
        assert watch.status == 200
        assert await error_of(watch) == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": "too old resource version: 1 (4)",
            "reason": "Expired",
            "code": 410,
        }


async def test_from_the_future(server: LocalServer, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aggserver.storage.cacher.Cacher.wait_for.__defaults__", (0.0,))
    async with client.watch(f"{WATCH}&resourceVersion=100") as watch:
        status = await error_of(watch)
        assert (status["code"], status["reason"]) == (504, "Timeout")
        assert status["message"] == "Timeout: Too large resource version: 100, current: 2"
        assert status["details"] == {
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        }


async def test_a_watch_that_loses_events_ends_with_an_error(server: LocalServer, client: Client) -> None:
    """The watch on the storage was lost, and the events since were compacted: the client has to list again."""
    await create(client)
    async with client.watch(WATCH) as watch:
        await watch.event()
        resource = server.engine.definitions.get("crontabs.stable.example.com")
        assert resource is not None
        cacher = resource._cacher
        assert cacher is not None
        cacher._end_watchers(Compacted(3, 9))
        status = await error_of(watch)
        assert (status["code"], status["message"]) == (410, "too old resource version: 3 (9)")


REFUSED: dict[str, tuple[str, int, str]] = {
    # name: (query, code, message)
    "a version that is none": (
        "resourceVersion=x",
        500,
        'resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax',
    ),
    "a time that is none": ("timeoutSeconds=x", 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
    "a field that is none": ("fieldSelector=spec.x%3D1", 400, "field label not supported: spec.x"),
    "a match alone": (
        "resourceVersionMatch=NotOlderThan",
        422,
        'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: '
        "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
    ),
    "the state without a match": (
        "sendInitialEvents=true",
        422,
        'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: '
        "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_refused(client: Client, name: str) -> None:
    query, code, message = REFUSED[name]
    answer = await client.get(f"{WATCH}&{query}")
    assert (answer.message, answer.status) == (message, code)


async def test_a_name_that_does_not_agree(client: Client) -> None:
    target = CRONTABS_PATH.replace("/v1/", "/v1/watch/")
    answer = await client.get(f"{target}/one?fieldSelector=metadata.name%3Dtwo")
    assert (answer.status, answer.message) == (400, "fieldSelector metadata.name doesn't match requested name")


# --- bookmarks ---


async def test_bookmarks(server: LocalServer, client: Client) -> None:
    await create(client)
    async with client.watch(f"{WATCH}&allowWatchBookmarks=true&timeoutSeconds=100&resourceVersion=1") as watch:
        await watch.event()
        await settled()  # all initial events are sent
        assert sorted(server.timers.seconds) == [60.0, 98.0, 100]
        server.timers.fire(60.0)
        assert await watch.event() == {
            "type": "BOOKMARK",
            "object": {"apiVersion": "stable.example.com/v1", "kind": "CronTab", "metadata": {"resourceVersion": "3"}},
        }
        assert sorted(server.timers.seconds) == [60.0, 98.0, 100]
        server.timers.fire(98.0)
        assert (await watch.event())["type"] == "BOOKMARK"
        server.timers.fire(100)
        assert await watch.event() is None
    assert server.timers.pending == []


@pytest.mark.parametrize("revision", ["", "&resourceVersion=0"])
async def test_a_watch_without_a_revision_is_told_where_the_state_ends(client: Client, revision: str) -> None:
    await create(client)
    async with client.watch(f"{WATCH}&allowWatchBookmarks=true{revision}") as watch:
        assert (await watch.event())["type"] == "ADDED"
        end = await watch.event()
        assert end["object"]["metadata"] == {"resourceVersion": "3", "annotations": {"k8s.io/initial-events-end": "true"}}


async def test_no_bookmarks_unless_asked_for(server: LocalServer, client: Client) -> None:
    async with client.watch(f"{WATCH}&timeoutSeconds=100"):
        assert server.timers.seconds == [100]


async def test_no_last_bookmark_in_a_short_watch(server: LocalServer, client: Client) -> None:
    async with client.watch(f"{WATCH}&timeoutSeconds=2&allowWatchBookmarks=true"):
        assert server.timers.seconds == [2, 60.0]


STREAMING_LIST = "&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&allowWatchBookmarks=true"


async def test_initial_events(client: Client) -> None:
    await create(client)
    async with client.watch(WATCH + STREAMING_LIST) as watch:
        added, mark = await watch.events(2)
        assert added["type"] == "ADDED"
        assert mark == {
            "type": "BOOKMARK",
            "object": {
                "apiVersion": "stable.example.com/v1",
                "kind": "CronTab",
                "metadata": {"resourceVersion": "3", "annotations": {"k8s.io/initial-events-end": "true"}},
            },
        }
        await create(client, "two")
        assert short([await watch.event()]) == [("ADDED", "two")]


@pytest.mark.parametrize("include", ["None", "Metadata"])
async def test_the_end_of_initial_events_always_has_its_annotation_in_a_table(client: Client, include: str) -> None:
    await create(client)
    path = f"{WATCH}{STREAMING_LIST}&includeObject={include}"
    async with client.watch(path, headers={"accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}) as watch:
        added, mark = [event["object"]["rows"][0] for event in await watch.events(2)]
        assert (added["cells"][0], added["object"] is None) == ("one", include == "None")
        assert (mark["cells"][0], mark["object"]["kind"]) == ("", "PartialObjectMetadata")
        assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_no_initial_events(client: Client) -> None:
    await create(client)
    async with client.watch(f"{WATCH}&resourceVersionMatch=NotOlderThan&sendInitialEvents=false") as watch:
        await create(client, "two")
        assert short([await watch.event()]) == [("ADDED", "two")]


# --- the stop of the server ---


async def test_a_stop_ends_watches_after_all_that_happened(server: LocalServer, client: Client) -> None:
    made = [await create(client, name) for name in ("one", "two", "three")]
    resumed = f"{WATCH}&resourceVersion={made[0]['metadata']['resourceVersion']}"
    async with client.watch(WATCH) as whole, client.watch(resumed) as later, client.watch(WATCH) as live:
        assert short(await live.events(3))
        await create(client, "four")
        server.end_watches()
        assert short(await whole.rest()) == [("ADDED", name) for name in ("one", "three", "two", "four")]
        assert short(await later.rest()) == [("ADDED", name) for name in ("two", "three", "four")]
        assert short(await live.rest()) == [("ADDED", "four")]
    assert watchers(server) == 0


async def test_a_watch_that_begins_at_the_stop_is_told_to_come_again(server: LocalServer, client: Client) -> None:
    begins = client.send("GET", WATCH)
    server.end_watches()
    await begins.start()
    assert (begins.status, dict(begins.headers)[b"retry-after"]) == (503, b"1")
    answer = await client.get(WATCH)
    assert (answer.status, answer.message) == (503, "apiserver is shutting down")
    assert answer.json()["details"] == {"retryAfterSeconds": 1}
    assert watchers(server) == 0


async def test_what_is_under_way_at_the_stop_is_served(server: LocalServer, client: Client) -> None:
    await create(client)
    server.end_watches()
    await create(client, "two")
    assert (await client.merge(ONE, {"spec": {"replicas": 2}})).status == 200
    assert len((await client.get(CRONTABS_PATH)).json()["items"]) == 2


# --- pieces ---


async def test_a_watch_that_nobody_reads_has_one_piece_under_way(server: LocalServer, client: Client) -> None:
    """A piece is made when the client has taken the one before."""
    for number in range(20):
        await create(client, f"a{number:02}", cronSpec="*" * 20_000)
    taken = asyncio.Event()
    sent: list[bytes] = []

    async def send(message: Any) -> None:
        if message.get("body"):
            sent.append(message["body"])
            await taken.wait()

    scope = {
        "type": "http",
        "http_version": "2",
        "method": "GET",
        "path": CRONTABS_PATH,
        "query_string": b"watch=1",
        "headers": [],
        "state": {"peer_certificate": client.user},
    }
    task = asyncio.create_task(server.app(scope, asyncio.Event().wait, send))  # type: ignore[arg-type]
    await settled()
    assert [len(sent), server.events] == [1, 4]
    taken.set()
    await until(lambda: server.events == 20)
    assert b"".join(sent).count(b"\n") == 20
    assert max(map(len, sent)) < 100_000
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("accept", ["application/json", "application/json;as=Table;g=meta.k8s.io;v=v1"])
@pytest.mark.parametrize("query", ["", "&includeObject=Object"])
async def test_a_large_object_is_cut(client: Client, accept: str, query: str) -> None:
    await create(client, cronSpec="*" * 500_000)
    pieces = []
    async with client.watch(WATCH + query, headers={"accept": accept}) as watch:
        while not pieces or not pieces[-1].endswith(b"\n"):
            pieces.append(await watch.piece())
    whole = json.loads(b"".join(pieces))
    assert whole["type"] == "ADDED"
    if "Table" not in accept:
        assert whole["object"]["spec"]["cronSpec"] == "*" * 500_000
        assert len(pieces) == 16
    assert max(map(len, pieces)) <= 32 * 1024


async def test_the_last_piece_is_let_go_of(server: LocalServer, client: Client) -> None:
    """An idle watch doesn't keep the events that it has sent."""
    await create(client, cronSpec="*" * 50_000)
    async with client.watch(WATCH) as watch:
        piece = await watch.piece()
        await settled()
        # Only this variable refers to it. The argument of the call is counted, too, until Python 3.14.
        mine = bytes(bytearray(piece))
        assert sys.getrefcount(piece) == sys.getrefcount(mine)
