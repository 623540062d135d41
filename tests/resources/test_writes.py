"""Writes of virtual resources: what is refused, retried and kept, and what a user may know of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from aggserver import AlreadyExists, App, Conflict, FieldError, Forbidden, Invalid, Metadata, NotFound, Request, Unavailable
from aggserver.meta.errors import StatusError
from aggserver.resources.errors import DeclarationError
from tests.fakes.clock import settled
from tests.fakes.server import ALICE
from tests.resources.served import GROUP, PATH, Apps, Rows, Ticket, ticket

KINDS: dict[str, dict[str, Any]] = {"direct": {}, "polled": {"poll": 10.0}}
kinds = pytest.mark.parametrize("kind", KINDS)


# --- metadata ---

LOST: dict[str, dict[str, Any]] = {
    "labels": {"labels": {"a": "b"}},
    "annotations": {"annotations": {"a": "b"}},
    "finalizers": {"finalizers": ["example.com/a"]},
    "ownerReferences": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "u"}]},
}


@pytest.mark.parametrize("member", LOST)
@kinds
async def test_metadata_that_would_be_lost(apps: Apps, kind: str, member: str) -> None:
    rows = Rows()
    rows.set("there")
    await apps.serve_tickets(rows, **KINDS[kind])
    await settled()
    for answer in (
        await apps.client.post(PATH, ticket("a", **LOST[member])),
        await apps.client.merge(f"{PATH}/there", {"metadata": LOST[member]}),
    ):
        assert (answer.status, answer.json()["reason"]) == (422, "Invalid"), answer.body
        assert answer.json()["details"]["causes"] == [
            {"reason": "FieldValueForbidden", "message": "Forbidden: is not kept by this resource", "field": f"metadata.{member}"}
        ]
    assert {"create", "update"}.isdisjoint(rows.calls)


async def test_labels_of_the_source_may_stay_as_they_are(apps: Apps) -> None:
    rows = Rows()
    rows.set("a", labels={"from": "source"})
    await apps.serve_tickets(rows)
    obj = (await apps.client.get(f"{PATH}/a")).json()
    assert (await apps.client.put(f"{PATH}/a", {**obj, "state": "closed"})).status == 200
    changed = await apps.client.merge(f"{PATH}/a", {"metadata": {"labels": {"from": "client"}}})
    assert changed.status == 422


async def test_client_side_apply_needs_no_annotation(apps: Apps) -> None:
    rows = Rows()
    await apps.serve_tickets(rows)
    annotated = ticket("a", annotations={"kubectl.kubernetes.io/last-applied-configuration": "{}"})
    assert (await apps.client.post(PATH, annotated)).status == 201
    assert "annotations" not in (await apps.client.get(f"{PATH}/a")).json()["metadata"]


@kinds
async def test_apply_needs_metadata(apps: Apps, kind: str) -> None:
    await apps.serve_tickets(Rows(), **KINDS[kind])
    answer = await _apply(apps, ticket("a"))
    assert answer.status == 415


async def _apply(apps: Apps, obj: dict[str, Any], manager: str = "me") -> Any:
    target = f"{PATH}/{obj['metadata']['name']}?fieldManager={manager}"
    return await apps.client.request("PATCH", target, obj, content_type="application/apply-patch+yaml")


@kinds
async def test_kept_metadata(apps: Apps, kind: str) -> None:
    rows = Rows()
    await apps.serve_tickets(rows, keeps="metadata", **KINDS[kind])
    await settled()
    made = await _apply(apps, ticket("a", labels={"x": "1", "y": "1"}))
    assert made.status == 201, made.body
    assert [entry["manager"] for entry in made.json()["metadata"]["managedFields"]] == ["me"]
    other = await _apply(apps, ticket("a", "other"), "other")
    assert (other.status, other.json()["reason"]) == (409, "Conflict")
    again = await _apply(apps, ticket("a", labels={"x": "2"}))
    assert again.json()["metadata"]["labels"] == {"x": "2"}  # what is applied no more is gone
    assert await apps.names(f"{PATH}?labelSelector=x=2") == ["a"]
    same = await _apply(apps, ticket("a", labels={"x": "2"}))
    assert same.json()["metadata"]["resourceVersion"] == again.json()["metadata"]["resourceVersion"]
    reference = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}]
    owned = await apps.client.merge(f"{PATH}/a", {"metadata": {"ownerReferences": reference, "annotations": {"n": "1"}}})
    assert (await apps.client.get(f"{PATH}/a")).json()["metadata"]["ownerReferences"] == reference
    assert owned.json()["metadata"]["annotations"] == {"n": "1"}


@kinds
async def test_deletion_with_finalizers(apps: Apps, kind: str) -> None:
    rows = Rows()
    await apps.serve_tickets(rows, keeps="metadata", **KINDS[kind])
    await settled()
    assert (await apps.client.post(PATH, ticket("a", finalizers=["example.com/hold"]))).status == 201
    marked = await apps.client.delete(f"{PATH}/a")
    assert marked.json()["metadata"]["deletionTimestamp"]
    assert "delete" not in rows.calls
    assert (await apps.client.get(f"{PATH}/a")).json()["metadata"]["deletionTimestamp"]
    emptied = await apps.client.merge(f"{PATH}/a", {"metadata": {"finalizers": None}})
    assert emptied.status == 200, emptied.body
    assert rows.calls.count("delete") == 1
    assert (await apps.client.get(f"{PATH}/a")).status == 404


@kinds
async def test_foreground_deletion_without_finalizers(apps: Apps, kind: str) -> None:
    """A policy that needs a finalizer can't be kept without metadata: the object is deleted at once."""
    rows = Rows()
    rows.set("a")
    await apps.serve_tickets(rows, **KINDS[kind])
    await settled()
    assert (await apps.client.delete(f"{PATH}/a", {"propagationPolicy": "Foreground"})).status == 200
    assert rows.rows == {}


# --- names, conflicts, preconditions ---


@kinds
async def test_generated_names(apps: Apps, kind: str) -> None:
    rows = Rows()
    await apps.serve_tickets(rows, **KINDS[kind])
    await settled()
    left = 7

    def taken() -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            raise AlreadyExists

    rows.before["create"] = taken
    made = await apps.client.post(PATH, ticket(generateName="g-"))
    assert made.status == 201, made.body
    assert made.json()["metadata"]["name"].startswith("g-")
    assert rows.calls.count("create") == 8
    left = 8
    failed = await apps.client.post(PATH, ticket(generateName="h-"))
    assert (failed.status, failed.json()["reason"]) == (409, "AlreadyExists")
    assert rows.calls.count("create") == 16


@kinds
async def test_a_conflict_is_retried(apps: Apps, kind: str) -> None:
    rows = Rows()
    rows.set("a")
    await apps.serve_tickets(rows, **KINDS[kind])
    await settled()
    left = 2

    def conflict() -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            raise Conflict("somebody else")

    rows.before["update"] = rows.before["delete"] = conflict
    assert (await apps.client.merge(f"{PATH}/a", {"title": "b"})).status == 200
    assert rows.calls.count("update") == 3
    left = 100
    answer = await apps.client.merge(f"{PATH}/a", {"title": "c"})
    assert (answer.status, answer.json()["reason"]) == (409, "Conflict")
    assert answer.message == 'Operation cannot be fulfilled on tickets.helpdesk.example.com "a": somebody else'
    assert rows.calls.count("update") == 3 + 5
    assert (await apps.client.delete(f"{PATH}/a")).status == 409
    left = 2
    assert (await apps.client.delete(f"{PATH}/a")).status == 200


@kinds
async def test_a_row_that_changed_meanwhile(apps: Apps, kind: str) -> None:
    """The patch is made anew of the row as it is then; a PUT with a revision is refused."""
    rows = Rows()
    rows.set("a", title="one")
    await apps.serve_tickets(rows, **KINDS[kind])
    await settled()
    before = (await apps.client.get(f"{PATH}/a")).json()

    def change() -> None:
        rows.before.clear()
        rows.set("a", title="two")

    rows.before["update"] = change
    patched = await apps.client.merge(f"{PATH}/a", {"state": "closed"})
    assert (patched.status, patched.json()["title"], patched.json()["state"]) == (200, "two", "closed")
    put = await apps.client.put(f"{PATH}/a", {**before, "title": "three"})
    assert put.status == 409
    uid = {"preconditions": {"uid": "another"}}
    assert (await apps.client.delete(f"{PATH}/a", uid)).status == 409
    version = {"preconditions": {"resourceVersion": before["metadata"]["resourceVersion"]}}
    assert (await apps.client.delete(f"{PATH}/a", version)).status == 409
    version = {"preconditions": {"resourceVersion": patched.json()["metadata"]["resourceVersion"]}}
    assert (await apps.client.delete(f"{PATH}/a", version)).status == 200


@kinds
async def test_a_put_without_a_revision(apps: Apps, kind: str) -> None:
    rows = Rows()
    rows.set("a")
    await apps.serve_tickets(rows, **KINDS[kind])
    await settled()
    answer = await apps.client.put(f"{PATH}/a", ticket("a"))
    assert answer.status == 422
    assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in answer.message


@kinds
async def test_gone_meanwhile(apps: Apps, kind: str) -> None:
    rows = Rows()
    rows.set("a")
    await apps.serve_tickets(rows, **KINDS[kind])
    await settled()
    rows.before["update"] = rows.before["delete"] = rows.rows.clear
    assert (await apps.client.merge(f"{PATH}/a", {"title": "b"})).status == 404
    rows.set("a")
    assert (await apps.client.delete(f"{PATH}/a")).status == 404
    assert (await apps.client.get(f"{PATH}/a")).status == 404


async def test_another_writer_made_it_during_an_apply(apps: Apps) -> None:
    rows = Rows()
    await apps.serve_tickets(rows, keeps="metadata")

    def make() -> None:
        rows.before.clear()
        rows.set("a", title="applied", state="closed")

    rows.before["create"] = make
    answer = await _apply(apps, ticket("a", "applied"), "me")
    # As an update of what is there then.
    assert (answer.status, answer.json()["title"], answer.json()["state"]) == (200, "applied", "closed"), answer.body
    assert rows.calls.count("create") == 1


# --- dry run ---


@kinds
async def test_dry_run_is_opt_in(apps: Apps, kind: str) -> None:
    rows = Rows()
    rows.set("a")
    await apps.serve_tickets(rows, **KINDS[kind])
    await settled()
    for verb, answer in (
        ("create", await apps.client.post(f"{PATH}?dryRun=All", ticket("b"))),
        ("update", await apps.client.merge(f"{PATH}/a?dryRun=All", {"title": "b"})),
        ("delete", await apps.client.delete(f"{PATH}/a?dryRun=All")),
        ("delete", await apps.client.delete(f"{PATH}?dryRun=All")),
    ):
        assert (answer.status, answer.json()["reason"]) == (400, "BadRequest")
        assert answer.message == f"dry run is not supported for {verb} of tickets.{GROUP}"
    assert {"create", "update", "delete"}.isdisjoint(rows.calls)
    assert list(rows.rows) == [("default", "a")]


@kinds
async def test_dry_run(apps: Apps, kind: str) -> None:
    rows = Rows()
    rows.set("a")
    await apps.serve_tickets(rows, dry_run=True, **KINDS[kind])
    await settled()
    made = await apps.client.post(f"{PATH}?dryRun=All", ticket("b"))
    assert (made.status, made.json()["title"]) == (201, "x")
    there = await apps.client.post(f"{PATH}?dryRun=All", ticket("a"))
    assert (there.status, there.json()["reason"]) == (409, "AlreadyExists")
    changed = await apps.client.merge(f"{PATH}/a?dryRun=All", {"state": "closed"})
    assert (changed.status, changed.json()["state"]) == (200, "closed")
    assert (await apps.client.delete(f"{PATH}/a?dryRun=All")).status == 200
    assert (await apps.client.delete(f"{PATH}?dryRun=All")).status == 200
    assert (await apps.client.get(f"{PATH}/a")).json()["state"] == "open"
    assert list(rows.rows) == [("default", "a")]
    assert {"create", "update", "delete"}.issubset(rows.calls)


# --- errors ---

ERRORS: dict[str, tuple[Callable[[], Exception], int, str, str]] = {
    "NotFound": (NotFound, 404, "NotFound", 'tickets.helpdesk.example.com "a" not found'),
    "Forbidden": (
        lambda: Forbidden("not you"),
        403,
        "Forbidden",
        'tickets.helpdesk.example.com "a" is forbidden: not you',
    ),
    "Invalid": (
        lambda: Invalid(FieldError(".title", "is too long", "xx"), FieldError(".state", "is odd")),
        422,
        "Invalid",
        'Ticket.helpdesk.example.com "a" is invalid: [title: Invalid value: "xx": is too long, state: Forbidden: is odd]',
    ),
    "Unavailable": (lambda: Unavailable("upstream is down", retry_after=7), 503, "ServiceUnavailable", "upstream is down"),
    "Exception": (lambda: RuntimeError("secret 4711"), 500, "InternalError", ""),
    "TimeoutError": (lambda: TimeoutError("secret 4711"), 500, "InternalError", ""),
    "KeyError": (lambda: KeyError("secret 4711"), 500, "InternalError", ""),
}


@pytest.mark.parametrize("name", ERRORS)
async def test_errors_of_functions(apps: Apps, name: str, caplog: pytest.LogCaptureFixture) -> None:
    make, status, reason, message = ERRORS[name]
    rows = Rows()
    rows.set("a")
    await apps.serve_tickets(rows)

    def fail() -> None:
        raise make()

    for verb in ("get", "update", "delete", "create", "list"):
        caplog.clear()
        rows.before = {verb: fail}
        answer = {
            "get": lambda: apps.client.get(f"{PATH}/a"),
            "update": lambda: apps.client.merge(f"{PATH}/a", {"title": "b"}),
            "delete": lambda: apps.client.delete(f"{PATH}/a"),
            "create": lambda: apps.client.post(PATH, ticket("a")),
            "list": lambda: apps.client.get(PATH),
        }[verb]
        found = await answer()
        assert (found.status, found.json()["reason"]) == (status, reason), (verb, found.body)
        if status == 500:
            assert b"4711" not in found.body
            assert b"RuntimeError" not in found.body
            assert "audit-1" in found.message
            assert f"{verb}_ticket" in caplog.text
            assert "secret 4711" in caplog.text
            assert "Traceback" in caplog.text
        elif verb != "list":
            assert found.message == message
        if name == "Unavailable":
            assert found.header("retry-after") == "7"
        if name == "Invalid":
            assert [cause["field"] for cause in found.json()["details"]["causes"]] == ["title", "state"]


async def test_a_create_function_that_returns_nothing(apps: Apps) -> None:
    rows = Rows()
    app: App[None] = App()
    tickets = app.virtual(f"{GROUP}/v1", Ticket)
    tickets.get(lambda request, name: rows.ticket((request.namespace, name)) if (request.namespace, name) in rows.rows else None)

    @tickets.create
    def create(request: Request[None], new: Ticket) -> None:
        rows.set(new.metadata.name, title="from the source")

    await apps.serve(app)
    made = await apps.client.post(PATH, ticket("a"))
    assert (made.status, made.json()["title"]) == (201, "from the source")


async def test_a_create_function_that_makes_another_object(apps: Apps, caplog: pytest.LogCaptureFixture) -> None:
    app: App[None] = App()
    tickets = app.virtual(f"{GROUP}/v1", Ticket)
    tickets.get(lambda request, name: None)
    tickets.create(lambda request, new: Ticket(Metadata("other", "default")))
    await apps.serve(app)
    made = await apps.client.post(PATH, ticket("a"))
    assert made.status == 500
    assert "returned another object than a" in caplog.text


# --- visible ---


def _only_own(request: Request[Rows], each: Ticket) -> bool:
    if each.title == "broken":
        raise RuntimeError("secret 4711")
    return request.user.name == "admin" or each.title == request.user.name


@kinds
async def test_visible(apps: Apps, kind: str) -> None:
    rows = Rows()
    rows.set("a", title="alice")
    rows.set("b", title="bob")
    rows.set("c", title="alice")
    tickets = await apps.serve_tickets(rows, **KINDS[kind])
    tickets.visible(_only_own)
    await settled()
    verbs = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
    apps.server.rules.allowed |= {("alice", verb, "tickets") for verb in verbs}
    alice = apps.client.as_user(ALICE)
    assert [item["metadata"]["name"] for item in (await alice.get(PATH)).json()["items"]] == ["a", "c"]
    assert [item["metadata"]["name"] for item in (await alice.get(f"{PATH}?limit=2")).json()["items"]] == ["a", "c"]
    assert (await alice.get(f"{PATH}/b")).status == 404
    assert (await alice.get(f"{PATH}?fieldSelector=metadata.name=b")).json()["items"] == []
    assert (await alice.merge(f"{PATH}/b", {"state": "closed"})).status == 404
    assert (await alice.delete(f"{PATH}/b")).status == 404
    assert (await alice.merge(f"{PATH}/a", {"state": "closed"})).status == 200
    if kind == "polled":
        async with alice.watch(f"{PATH}?watch=1") as watch:
            said = [(event["type"], event["object"]["metadata"]["name"]) for event in await watch.events(2)]
            assert said == [("ADDED", "a"), ("ADDED", "c")]
            rows.set("b", title="alice")  # now it is hers
            rows.set("c", title="bob")
            await apps.pauses.end()
            said = [(event["type"], event["object"]["metadata"]["name"]) for event in await watch.events(2)]
            assert said == [("ADDED", "b"), ("DELETED", "c")]
            rows.set("b", title="bob")
            rows.set("c", title="alice")
            await apps.pauses.end()
            await watch.events(2)
    assert (await alice.delete(PATH)).status == 200
    assert [name for _, name in rows.rows] == ["b"]
    assert await apps.names() == ["b"]


@kinds
async def test_visible_that_fails(apps: Apps, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """It shows nothing, and nothing is reported as deleted: the request fails, or the watch ends."""
    rows = Rows()
    rows.set("a", title="alice")
    tickets = await apps.serve_tickets(rows, **KINDS[kind])
    tickets.visible(_only_own)
    await settled()
    if kind == "polled":
        async with apps.client.watch(f"{PATH}?watch=1") as watch:
            assert (await watch.event())["type"] == "ADDED"
            rows.set("a", title="broken")
            await apps.pauses.end()
            error = await watch.event()
            assert (error["type"], error["object"]["code"]) == ("ERROR", 500)
            assert "4711" not in str(error)
            assert await watch.event() is None
    rows.set("a", title="broken")
    for target in (PATH, f"{PATH}/a"):
        answer = await apps.client.get(target)
        assert answer.status == 500, target
        assert b"4711" not in answer.body
    assert "secret 4711" in caplog.text
    rows.set("a", title="alice")
    if kind == "polled":
        await apps.pauses.end()
    assert await apps.names() == ["a"]


@kinds
async def test_visible_that_is_async(apps: Apps, kind: str) -> None:
    """A coroutine is true whatever it would say, so that it would show everything to everybody."""

    async def nothing(request: Request[Rows], each: Ticket) -> bool:
        return False

    rows = Rows()
    rows.set("a")
    tickets = await apps.serve_tickets(rows, **KINDS[kind])
    with pytest.raises(DeclarationError, match=r"visible of tickets\.helpdesk\.example\.com can't be an async function"):
        tickets.visible(nothing)  # type: ignore[arg-type]
    tickets.visible(lambda request, each: nothing(request, each))  # type: ignore[arg-type, return-value]
    await settled()
    for target in (PATH, f"{PATH}/a"):
        assert (await apps.client.get(target)).status == 500


def test_status_errors_are_one_family() -> None:
    for error in (NotFound(), Forbidden(""), Conflict(), AlreadyExists(), Invalid(), Unavailable("")):
        assert isinstance(error, StatusError)
    assert replace(FieldError("a", "b"), message="c").message == "c"


@pytest.mark.parametrize("verb", ["create", "update"])
async def test_what_was_written_and_is_gone_again(apps: Apps, verb: str) -> None:
    """A function that leaves it to `get` to tell what it has written, and somebody else who was quicker to delete that."""
    there = {"a": Ticket(Metadata("a", "default"))} if verb == "update" else {}
    app: App[None] = App()
    tickets = app.virtual(f"{GROUP}/v1", Ticket)
    tickets.list(lambda request: list(there.values()))
    tickets.get(lambda request, name: there.get(name))
    tickets.create(lambda request, new: None)
    tickets.update(lambda request, new, old: there.pop("a") and None)
    await apps.serve(app)
    sent = apps.client.post(PATH, ticket("a")) if verb == "create" else apps.client.merge(f"{PATH}/a", {"title": "new"})
    answer = await sent
    assert (answer.status, answer.json()["reason"]) == (404, "NotFound")
