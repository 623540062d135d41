"""Metadata that the server keeps beside sources which keep only their own fields."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from aggserver import Changed, Gone, Relist
from aggserver.resources.errors import DeclarationError
from aggserver.resources.sidecar import PREFIX
from aggserver.storage import interface
from aggserver.storage.memory import MemoryStorage
from tests.fakes.asgi import Answer
from tests.fakes.clock import settled
from tests.fakes.server import ALICE, LocalServer
from tests.resources.served import ALL, GROUP, PATH, Apps, Rows, Ticket, ticket, ticket_app

KINDS: dict[str, dict[str, Any]] = {
    "direct": {},
    "polled": {"poll": 10.0},
    "polled, without get": {"poll": 10.0, "verbs": "list create update delete"},
    "fed": {"verbs": "list get create update delete feed"},
}
kinds = pytest.mark.parametrize("kind", KINDS)
RECORD = f"{PREFIX}tickets.{GROUP}/default:"
FINALIZER = "example.com/hold"


async def serve(apps: Apps, rows: Rows, kind: str = "polled", **more: Any) -> None:
    await apps.serve_tickets(rows, keeps="sidecar", **KINDS[kind], **more)
    if kind == "fed":
        await apps.pauses.end()  # it is read without a change of the feed, which another replica may get


async def apply(apps: Apps, obj: dict[str, Any], manager: str = "me", query: str = "") -> Answer:
    target = f"{PATH}/{obj['metadata']['name']}?fieldManager={manager}{query}"
    return await apps.client.request("PATCH", target, obj, content_type="application/apply-patch+yaml")


async def metadata(apps: Apps, name: str = "a") -> Any:
    answer = await apps.client.get(f"{PATH}/{name}")
    assert answer.status == 200, answer.body
    return answer.json()["metadata"]


async def label(apps: Apps, name: str = "a", **labels: str | None) -> Answer:
    return await apps.client.merge(f"{PATH}/{name}", {"metadata": {"labels": labels}})


async def record(apps: Apps, name: str = "a") -> Any:
    found = await apps.server.storage.get(RECORD + name)
    return None if found is None else json.loads(found.value)


@asynccontextmanager
async def replica(apps: Apps) -> AsyncIterator[Apps]:
    """Another server on the same storage."""
    other = Apps(LocalServer(apps.server.storage))
    try:
        yield other
    finally:
        await other.stop()


# --- what clients see ---


@kinds
async def test_apply(apps: Apps, kind: str) -> None:
    rows = Rows()
    await serve(apps, rows, kind)
    made = await apply(apps, ticket("a", labels={"x": "1", "y": "1"}))
    assert made.status == 201, made.body
    assert [each["manager"] for each in made.json()["metadata"]["managedFields"]] == ["me"]
    assert made.json() == (await apps.client.get(f"{PATH}/a")).json()
    other = await apply(apps, ticket("a", "other"), "other")
    assert (other.status, other.json()["reason"]) == (409, "Conflict")
    again = await apply(apps, ticket("a", labels={"x": "2"}))
    assert again.json()["metadata"]["labels"] == {"x": "2"}  # what is applied no more is gone
    assert await apps.names(f"{PATH}?labelSelector=x=2") == ["a"]
    assert await apps.names(f"{PATH}?labelSelector=x=1") == []
    same = await apply(apps, ticket("a", labels={"x": "2"}))
    assert same.json()["metadata"]["resourceVersion"] == again.json()["metadata"]["resourceVersion"]
    changed = await apply(apps, ticket("a", "changed", labels={"x": "3"}))
    assert (changed.json()["title"], changed.json()["metadata"]["labels"]) == ("changed", {"x": "3"})
    assert changed.json() == (await apps.client.get(f"{PATH}/a")).json()
    assert rows.rows["default", "a"] == {"title": "changed", "state": "open"}


@kinds
async def test_metadata_alone_calls_no_function(apps: Apps, kind: str) -> None:
    rows = Rows()
    rows.set("a")
    await serve(apps, rows, kind)
    before = await metadata(apps)
    answer = await label(apps, x="1")
    assert answer.json()["metadata"]["labels"] == {"x": "1"}
    assert answer.json()["metadata"]["resourceVersion"] != before["resourceVersion"]
    reference = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}]
    await apps.client.merge(f"{PATH}/a", {"metadata": {"annotations": {"n": "1"}, "ownerReferences": reference}})
    found = await metadata(apps)
    assert (found["labels"], found["annotations"], found["ownerReferences"]) == ({"x": "1"}, {"n": "1"}, reference)
    assert (await label(apps, x=None)).status == 200
    assert "labels" not in await metadata(apps)
    assert "update" not in rows.calls
    assert (await apps.client.merge(f"{PATH}/a?dryRun=All", {"metadata": {"labels": {"y": "1"}}})).json()["metadata"]["labels"]
    assert "labels" not in await metadata(apps)


@kinds
async def test_an_old_version_is_refused(apps: Apps, kind: str) -> None:
    """Also if nothing but a label has changed meanwhile."""
    rows = Rows()
    rows.set("a")
    await serve(apps, rows, kind)
    old = (await apps.client.get(f"{PATH}/a")).json()
    await label(apps, x="1")
    stale = await apps.client.put(f"{PATH}/a", {**old, "title": "stale"})
    assert (stale.status, stale.json()["reason"]) == (409, "Conflict")
    newest = (await apps.client.get(f"{PATH}/a")).json()
    assert (await apps.client.put(f"{PATH}/a", {**newest, "title": "new"})).status == 200
    assert (await metadata(apps))["labels"] == {"x": "1"}
    assert (
        await apps.client.delete(f"{PATH}/a", {"preconditions": {"resourceVersion": newest["metadata"]["resourceVersion"]}})
    ).status == 409


async def test_the_version_of_a_source_is_what_its_functions_see(apps: Apps) -> None:
    rows = Rows()
    rows.set("a", revision="17")
    app, tickets = ticket_app(rows, keeps="sidecar", verbs="list get create delete")
    seen = []

    @tickets.update
    def update(request: Any, new: Ticket, old: Ticket) -> None:
        seen.append((new.metadata.revision, old.metadata.revision))
        rows.rows["default", "a"] = {"title": new.title, "revision": "18"}

    await apps.serve(app)
    assert (await metadata(apps))["resourceVersion"] == "17"
    version = (await label(apps, x="1")).json()["metadata"]["resourceVersion"]
    assert version.startswith("kept-")
    assert version.endswith(".17")
    assert (await apps.client.merge(f"{PATH}/a", {"title": "new"})).json()["metadata"]["resourceVersion"].endswith(".18")
    assert seen == [("17", "17")]


@kinds
async def test_functions_that_echo(apps: Apps, kind: str) -> None:
    """They are not given what is kept, so that what they return is not taken for the source's own."""
    rows = Rows()
    app, tickets = ticket_app(rows, keeps="sidecar", **{**KINDS[kind], "verbs": "list get delete"})
    given: list[dict[str, Any]] = []

    @tickets.create
    def create(request: Any, new: Ticket) -> Ticket:
        given.append(new.metadata.to_json())
        rows.set(new.metadata.name)
        return new

    @tickets.update
    def update(request: Any, new: Ticket, old: Ticket) -> Ticket:
        given.append(new.metadata.to_json())
        rows.set(new.metadata.name, title=new.title)
        return new

    await apps.serve(app)
    await settled()
    await apply(apps, ticket("a", labels={"x": "1"}, finalizers=[FINALIZER]))
    await apply(apps, ticket("a", "new", labels={"x": "2"}, finalizers=[FINALIZER]))
    assert len(given) == 2
    assert {"labels", "finalizers", "managedFields"}.isdisjoint({*given[0], *given[1]})
    found = await metadata(apps)
    assert (found["labels"], found["finalizers"]) == ({"x": "2"}, [FINALIZER])
    await apps.pauses.end()
    assert (await metadata(apps)) == found


@kinds
async def test_what_the_source_tells_is_its_own(apps: Apps, kind: str) -> None:
    rows = Rows()
    rows.set("a", labels={"own": "1"})
    await serve(apps, rows, kind)
    assert (await label(apps, x="1")).json()["metadata"]["labels"] == {"own": "1", "x": "1"}
    refused = await label(apps, own="2")
    assert (refused.status, refused.json()["details"]["causes"][0]["field"]) == (422, "metadata.labels[own]")
    stays = await label(apps, own=None, x="2")
    assert stays.json()["metadata"]["labels"] == {"own": "1", "x": "2"}
    assert "metadata.labels[own] comes from the source" in stays.warnings[0]
    rows.set("a", labels={"own": "2", "x": "3"})
    await apps.pauses.end()
    rows.news.put_nowait(Changed(rows.ticket(("default", "a"))))
    await settled()
    assert (await metadata(apps))["labels"] == {"own": "2", "x": "3"}


@kinds
async def test_finalizers(apps: Apps, kind: str) -> None:
    rows = Rows()
    await serve(apps, rows, kind)
    assert (await apps.client.post(PATH, ticket("a", finalizers=[FINALIZER], labels={"x": "1"}))).status == 201
    marked = await apps.client.delete(f"{PATH}/a")
    assert marked.json()["metadata"]["deletionTimestamp"]
    assert "delete" not in rows.calls
    refused = await apps.client.merge(f"{PATH}/a", {"metadata": {"finalizers": [FINALIZER, "example.com/more"]}})
    assert refused.status == 422
    await apps.pauses.end()
    assert (await metadata(apps))["deletionTimestamp"]
    emptied = await apps.client.merge(f"{PATH}/a", {"metadata": {"finalizers": None}})
    assert emptied.status == 200, emptied.body
    assert rows.calls.count("delete") == 1
    assert (await apps.client.get(f"{PATH}/a")).status == 404
    assert await record(apps) is None


async def test_foreground_deletion(apps: Apps) -> None:
    rows = Rows()
    rows.set("a")
    await serve(apps, rows)
    answer = await apps.client.delete(f"{PATH}/a", {"propagationPolicy": "Foreground"})
    assert answer.json()["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert rows.rows


@pytest.mark.parametrize("kind", ["direct", "polled"])
async def test_what_is_too_large_calls_no_function(apps: Apps, kind: str) -> None:
    rows = Rows()
    rows.set("a")
    await serve(apps, rows, kind)
    many = {f"l{index}": "x" * 60 for index in range(100)}
    object.__setattr__(apps.server.environment, "max_object_bytes", 1000)
    await serve(apps, rows, kind)
    for answer in (await apps.client.post(PATH, ticket("b", labels=many)), await label(apps, **many)):
        assert answer.status == 413, answer.body
    assert {"create", "update"}.isdisjoint(rows.calls)


async def test_names_that_are_given_by_neither() -> None:
    with pytest.raises(DeclarationError, match="keeps is 'metadata', 'sidecar' or nothing, not 'labels'"):
        ticket_app(Rows(), keeps="labels")


# --- lists and watches ---


async def test_watches_get_one_event_for_each_write(apps: Apps) -> None:
    rows = Rows()
    rows.set("a")
    await serve(apps, rows)
    version = (await metadata(apps))["resourceVersion"]
    async with (
        apps.client.watch(f"{PATH}?watch=1&resourceVersion={version}") as everything,
        apps.client.watch(f"{PATH}?watch=1&resourceVersion={version}&labelSelector=x=1") as selected,
    ):
        await label(apps, x="1")
        await apply(apps, ticket("a", "new", labels={"y": "1"}), query="&force=true")
        await label(apps, x=None)
        await label(apps, y="2")
        await apps.client.delete(f"{PATH}/a")
        await apps.client.post(PATH, ticket("b"))
        found = await everything.events(6)
        assert [event["type"] for event in found] == ["MODIFIED"] * 4 + ["DELETED", "ADDED"]
        states = [(event["object"]["title"], event["object"]["metadata"].get("labels")) for event in found[:5]]
        assert states == [
            ("a", {"x": "1"}),
            ("new", {"x": "1", "y": "1"}),
            ("new", {"y": "1"}),
            ("new", {"y": "2"}),
            ("new", {"y": "2"}),
        ]
        assert [event["type"] for event in await selected.events(3)] == ["ADDED", "MODIFIED", "DELETED"]


async def test_a_poll_tells_nothing_of_what_is_as_before(apps: Apps) -> None:
    rows = Rows()
    rows.set("a")
    await serve(apps, rows)
    before = (await label(apps, x="1")).json()
    await apps.pauses.end()
    assert (await apps.client.get(f"{PATH}/a")).json() == before
    rows.set("a", title="changed")
    await apps.pauses.end()
    after = (await apps.client.get(f"{PATH}/a")).json()
    assert (after["title"], after["metadata"]["labels"]) == ("changed", {"x": "1"})


async def test_a_source_is_not_asked_by_labels_that_it_does_not_have(apps: Apps) -> None:
    rows = Rows()
    app, tickets = ticket_app(rows, keeps="sidecar", verbs="get create update")
    for name in "abc":
        rows.set(name)

    @tickets.list
    def listed(request: Any) -> list[Ticket]:
        return [each for each in rows.tickets() if request.labels.matches(each.metadata.labels)]

    await apps.serve(app)
    await label(apps, "b", x="1")
    assert await apps.names(f"{PATH}?labelSelector=x=1") == ["b"]
    assert await apps.names(f"{ALL}?labelSelector=x!=1&limit=2") == ["a", "c"]


async def test_visible_sees_labels(apps: Apps) -> None:
    rows = Rows()
    rows.set("a")
    rows.set("b")
    app, tickets = ticket_app(rows, keeps="sidecar", poll=10.0)
    tickets.visible(lambda request, each: request.user.name != "alice" or each.metadata.labels.get("owner") == "alice")
    await apps.serve(app)
    apps.server.rules.allowed |= {("alice", verb, "tickets") for verb in ("list", "get")}
    alice = apps.server.client(ALICE)
    assert (await alice.get(PATH)).json()["items"] == []
    await label(apps, "b", owner="alice")
    assert [each["metadata"]["name"] for each in (await alice.get(PATH)).json()["items"]] == ["b"]


# --- objects that are gone ---


@kinds
async def test_a_deleted_object_leaves_nothing(apps: Apps, kind: str) -> None:
    rows = Rows()
    rows.set("a")
    await serve(apps, rows, kind)
    await label(apps, x="1")
    assert await record(apps)
    await apps.client.delete(f"{PATH}/a")
    assert await record(apps) is None
    await apps.client.post(PATH, ticket("a"))
    assert "labels" not in await metadata(apps)


async def _elsewhere(apps: Apps, rows: Rows, kind: str) -> None:
    """The source has lost the object `a` without us."""
    del rows.rows["default", "a"]
    if kind == "fed":
        rows.news.put_nowait(Gone("a", "default"))
        await settled()
    await apps.pauses.end()


@pytest.mark.parametrize("kind", ["direct", "polled", "polled, without get", "fed"])
async def test_an_object_that_goes_elsewhere(apps: Apps, kind: str) -> None:
    rows = Rows()
    rows.set("a")
    rows.set("b")
    await serve(apps, rows, kind)
    await label(apps, x="1")
    await label(apps, "b", x="1")
    await _elsewhere(apps, rows, kind)
    assert await record(apps) is None
    assert await record(apps, "b")
    assert (await metadata(apps, "b"))["labels"] == {"x": "1"}


@pytest.mark.parametrize("kind", ["direct", "polled"])
async def test_a_new_object_of_the_same_name(apps: Apps, kind: str) -> None:
    rows = Rows()
    rows.set("a", created=datetime(2026, 1, 1, tzinfo=UTC))
    await serve(apps, rows, kind)
    await label(apps, x="1")
    rows.set("a", created=datetime(2026, 2, 2, tzinfo=UTC))
    await apps.pauses.end()
    assert "labels" not in await metadata(apps)
    assert await record(apps) is None
    assert (await label(apps, y="1")).json()["metadata"]["labels"] == {"y": "1"}


@pytest.mark.parametrize("kind", ["direct", "polled", "fed"])
async def test_a_source_that_fails_loses_nothing(apps: Apps, kind: str) -> None:
    rows = Rows()
    rows.set("a")
    await serve(apps, rows, kind)
    await label(apps, x="1")
    before, rows.rows = rows.rows, {}

    def fail() -> None:
        raise ConnectionError

    rows.before |= {"list": fail, "get": fail, "feed": fail}
    for _ in range(3):
        await apps.pauses.end()
    rows.news.put_nowait(Gone("a", "default"))  # one of them fails: it is not certain
    await settled()
    assert await record(apps)
    rows.rows, rows.before = before, {}
    await apps.pauses.end()
    rows.news.put_nowait(Changed(rows.ticket(("default", "a"))))
    await settled()
    assert (await metadata(apps))["labels"] == {"x": "1"}


async def test_get_has_the_last_word(apps: Apps) -> None:
    """A list that leaves out what is there removes nothing for ever."""
    rows = Rows()
    rows.set("a")
    await serve(apps, rows)
    await label(apps, x="1")
    before = rows.rows

    async def hide() -> None:
        rows.rows = {}

    async def unhide() -> None:
        rows.rows = before

    rows.before |= {"list": hide, "get": unhide}
    await apps.pauses.end()
    assert await record(apps)
    rows.before.clear()
    await apps.pauses.end()
    assert (await metadata(apps))["labels"] == {"x": "1"}


async def test_what_is_made_while_the_source_is_read(apps: Apps) -> None:
    """A reading that began before the object was there does not show that it is gone."""
    rows = Rows()
    await serve(apps, rows, "polled, without get")
    answers: list[Answer] = []

    async def create() -> None:
        rows.before.clear()
        before, rows.rows = rows.rows, {}
        answers.append(await apps.client.post(PATH, ticket("a", labels={"x": "1"})))
        made, rows.rows = rows.rows, before
        asyncio.get_running_loop().call_soon(lambda: rows.rows.update(made))

    rows.before["list"] = create
    await apps.pauses.end()
    assert answers[0].status == 201
    assert await record(apps)
    await apps.pauses.end()
    assert (await metadata(apps))["labels"] == {"x": "1"}


# --- several writers ---


@kinds
async def test_writers_of_one_object(apps: Apps, kind: str) -> None:
    rows = Rows()
    rows.set("a")
    await serve(apps, rows, kind)
    answers = await asyncio.gather(*(label(apps, **{f"l{index}": "1"}) for index in range(20)))
    assert {answer.status for answer in answers} == {200}
    assert len((await metadata(apps))["labels"]) == 20


@kinds
async def test_replicas_agree(apps: Apps, kind: str) -> None:
    rows = Rows()
    rows.set("a")
    await serve(apps, rows, kind)
    async with replica(apps) as other:
        await serve(other, rows, kind)
        await label(apps, x="1")
        assert (await metadata(other))["labels"] == {"x": "1"}
        assert await other.names(f"{PATH}?labelSelector=x=1") == ["a"]
        await asyncio.gather(*(label(each, **{f"l{index}": "1"}) for index in range(10) for each in (apps, other)))
        assert len((await metadata(other))["labels"]) == 11
        await label(other, x=None)
        assert len((await metadata(apps))["labels"]) == 10


@kinds
async def test_another_replica_writes_while_the_source_does(apps: Apps, kind: str) -> None:
    """The source has changed by then, so that this write can't begin anew: both changes are kept."""
    rows = Rows()
    rows.set("a", labels={"own": "1"})
    await serve(apps, rows, kind)
    await label(apps, x="1", gone="1")
    async with replica(apps) as other:
        await serve(other, rows, kind)
        answers = []

        async def meanwhile() -> None:
            rows.before.clear()
            answers.append(await label(other, y="1", x="2"))

        rows.before["update"] = meanwhile
        change = {"title": "new", "metadata": {"labels": {"z": "1", "gone": None}}}
        answers.append(await apps.client.merge(f"{PATH}/a", change))
        assert [answer.status for answer in answers] == [200, 200]
        for each in (apps, other):
            assert (await metadata(each))["labels"].items() >= {"x": "2", "y": "1", "z": "1"}.items()
            assert "gone" not in (await metadata(each))["labels"]


async def test_a_finalizer_that_comes_before_a_deletion(apps: Apps) -> None:
    rows = Rows()
    rows.set("a")
    await serve(apps, rows)
    put, deleted = await asyncio.gather(
        apps.client.merge(f"{PATH}/a", {"metadata": {"finalizers": [FINALIZER]}}), apps.client.delete(f"{PATH}/a")
    )
    assert (put.status, deleted.status) in ((200, 200), (404, 200))
    assert (await apps.client.get(f"{PATH}/a")).status == (200 if put.status == 200 else 404)


# --- restarts, faults ---


@kinds
async def test_a_restart(apps: Apps, kind: str) -> None:
    rows = Rows()
    rows.set("a")
    await serve(apps, rows, kind)
    await apply(apps, ticket("a", "a", labels={"x": "1"}))
    before = await metadata(apps)
    await apps.stop()
    async with replica(apps) as other:
        await serve(other, rows, kind)
        after = await metadata(other)
        assert {**after, "resourceVersion": ""} == {**before, "resourceVersion": ""}


class Failing(MemoryStorage):
    """A storage whose writes below a prefix fail while `broken` is set."""

    broken = False

    async def _write(self, write: Any) -> int:
        if self.broken and write.key.startswith(PREFIX):
            raise interface.Unavailable("the disk is full")
        return await super()._write(write)


@kinds
async def test_a_storage_that_fails_after_the_source_was_changed(kind: str) -> None:
    storage = Failing()
    server = LocalServer(storage)
    await server.start()
    apps = Apps(server)
    rows = Rows()
    rows.set("a")
    try:
        await serve(apps, rows, kind)
        await label(apps, x="1")
        storage.broken = True
        answer = await apps.client.merge(f"{PATH}/a", {"title": "new", "metadata": {"labels": {"y": "1"}}})
        assert answer.status == 500
        assert "the source was changed, but the metadata of this write could not be kept" in answer.message
        assert "the disk is full" in answer.message
        found = (await apps.client.get(f"{PATH}/a")).json()
        assert (found["title"], found["metadata"]["labels"]) == ("new", {"x": "1"})
        assert (await label(apps, z="1")).status == 500
        assert (await apps.client.delete(f"{PATH}/a")).status == 200  # what is left is removed later
        storage.broken = False
        await apps.pauses.end()
        rows.news.put_nowait(Relist())
        await settled()
        assert await record(apps) is None
    finally:
        await apps.stop()
        await server.stop()


@kinds
async def test_a_damaged_record(apps: Apps, kind: str) -> None:
    """The object is shown without it, and not written: what finalizers it has is not known."""
    rows = Rows()
    rows.set("a")
    await apps.server.storage.create(RECORD + "a", b'{"uid": 1}')
    served = ticket_app(rows, keeps="sidecar", **KINDS[kind])[0]
    running = await apps.serve(served)
    rows.news.put_nowait(Relist())
    await settled()
    assert "labels" not in await metadata(apps)
    for answer in (await label(apps, x="1"), await apps.client.delete(f"{PATH}/a")):
        assert answer.status == 500
        assert "storage check --repair" in answer.message
    assert "storage check --repair" in (running.trouble() or "")
    found = await apps.server.storage.get(RECORD + "a")
    assert found is not None
    await apps.server.storage.delete(found.key, found.revision)
    assert (await label(apps, x="1")).status == 200
    assert running.trouble() is None


@kinds
async def test_records_that_are_not_read_yet(apps: Apps, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is shown without its finalizers because the storage is not there."""
    rows = Rows()
    rows.set("a")
    listed = apps.server.storage.list

    async def fail(prefix: str, **more: Any) -> Any:
        if prefix.startswith(PREFIX):
            raise interface.Unavailable("no leader")
        return await listed(prefix, **more)

    monkeypatch.setattr("aggserver.resources.sidecar._FIRST_SECONDS", 0.0)
    monkeypatch.setattr("aggserver.resources.following._FIRST_SECONDS", 0.0)
    monkeypatch.setattr(apps.server.storage, "list", fail)
    await serve(apps, rows, kind)
    answer = await apps.client.get(f"{PATH}/a")
    assert answer.status == 503, answer.body
    monkeypatch.undo()
    await apps.pauses.end()
    rows.news.put_nowait(Relist())
    await settled()
    assert (await apps.client.get(f"{PATH}/a")).status == 200


async def test_a_subscription_that_is_lost(apps: Apps) -> None:
    """What was written meanwhile is read, and what was removed is gone."""
    rows = Rows()
    for name in "abc":
        rows.set(name)
    tickets = await apps.serve_tickets(rows, keeps="sidecar", poll=10.0)
    assert tickets
    await settled()
    for name in "ab":
        await label(apps, name, x="1")
    publisher: Any = apps.server.storage._publisher
    prefix = f"{PREFIX}tickets.{GROUP}/"
    (subscription,) = publisher._by_prefix.pop(prefix)
    async with replica(apps) as other:
        await serve(other, rows)
        await label(other, "b", x=None)
        await label(other, "c", x="1")
        subscription._sink.lost(interface.Unavailable("gone"))
        await settled()
        for name, labels in {"a": {"x": "1"}, "b": None, "c": {"x": "1"}}.items():
            assert (await metadata(apps, name)).get("labels") == labels


async def test_what_a_conflict_of_the_source_does(apps: Apps) -> None:
    rows = Rows()
    rows.set("a")
    await serve(apps, rows)
    await label(apps, x="1")

    async def change() -> None:
        rows.before.clear()
        rows.set("a", title="by others")

    rows.before["update"] = change
    answer = await apps.client.merge(f"{PATH}/a", {"state": "closed", "metadata": {"labels": {"y": "1"}}})
    assert answer.status == 200, answer.body
    assert (answer.json()["title"], answer.json()["state"]) == ("by others", "closed")
    assert answer.json()["metadata"]["labels"] == {"x": "1", "y": "1"}


async def test_an_object_that_cant_be_read_keeps_its_record(apps: Apps) -> None:
    rows = Rows()
    rows.set("a")
    await serve(apps, rows, "polled, without get")
    await label(apps, x="1")
    rows.set("a", title=7)
    await apps.pauses.end()
    assert await record(apps)
