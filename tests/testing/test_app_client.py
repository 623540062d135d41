"""`App.client` and `aggserver_app`: the whole way of a request without a socket, as the users of an App test it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio.from_thread
import pytest

from aggserver import App, Conflict, ListRequest, Metadata, Request, StatusError
from aggserver.authentication.user import UserInfo
from aggserver.testing import AppClient, AppClients, AppEvent
from aggserver.testing.client import Shared

TICKETS = "/apis/helpdesk.example.com/v1/namespaces/default/tickets"
HEAD = {"apiVersion": "helpdesk.example.com/v1", "kind": "Ticket"}


@dataclass
class Ticket:
    metadata: Metadata
    title: str
    state: str = "open"


class Tracker:
    def __init__(self, *titles: str) -> None:
        self.rows = {("default", title): Ticket(Metadata(title, "default"), title) for title in titles}
        self.closed = False


@asynccontextmanager
async def tracker() -> AsyncGenerator[Tracker, None]:
    made = Tracker("real")
    try:
        yield made
    finally:
        made.closed = True


def helpdesk(lifespan: Any = tracker) -> App[Tracker]:
    """An App whose tickets can be watched and written."""
    app: App[Tracker] = App(lifespan)
    tickets = app.virtual("helpdesk.example.com/v1", Ticket, selectable=[".state"], poll=3600, keeps="metadata")

    @tickets.list
    async def list_tickets(request: ListRequest[Tracker]) -> Iterable[Ticket]:
        return [*request.state.rows.values()]

    @tickets.create(dry_run=True)
    async def create(request: Request[Tracker], new: Ticket) -> Ticket:
        request.warn(f'"{request.user.name}" of {",".join(request.user.groups)}')
        if not request.dry_run:
            request.state.rows[new.metadata.namespace, new.metadata.name] = new
        return new

    @tickets.update
    def update(request: Request[Tracker], new: Ticket, old: Ticket) -> Ticket:
        if new.title == "taken":
            raise Conflict("somebody else has it")
        request.state.rows[new.metadata.namespace, new.metadata.name] = new
        return new

    @tickets.delete
    async def delete(request: Request[Tracker], old: Ticket) -> None:
        del request.state.rows[old.metadata.namespace, old.metadata.name]

    @tickets.visible
    def visible(request: Request[Tracker], ticket: Ticket) -> bool:
        return ticket.state != "secret" or request.user.name == "ann"

    return app


def names(tickets: Iterable[Ticket]) -> list[str]:
    return [f"{each.metadata.namespace}/{each.metadata.name}" for each in tickets]


@pytest.fixture
async def ann() -> AsyncGenerator[AppClient, None]:
    async with helpdesk().client(user="ann", groups=["dev"], state=Tracker("one", "two")) as client:
        yield client


async def test_state_takes_the_lifespans_place(ann: AppClient) -> None:
    assert names(await ann.list(Ticket)) == ["default/one", "default/two"]
    async with helpdesk().client() as admin:
        assert names(await admin.list(Ticket)) == ["default/real"]


async def test_who_asks(ann: AppClient) -> None:
    made = await ann.create(Ticket(Metadata("three", "team"), "Printer"))
    assert (made.metadata.namespace, made.title, made.state) == ("team", "Printer", "open")
    assert made.metadata.uid
    assert ann.warnings == ['"ann" of dev,system:authenticated']
    bob = ann.as_user("bob", ["ops"])
    await bob.create(Ticket(Metadata("four"), "No namespace is the one of kubectl"))
    assert bob.warnings == ['"bob" of ops,system:authenticated']
    assert len(ann.warnings) == 1
    assert names(await bob.list(Ticket)) == ["default/four", "default/one", "default/two", "team/three"]
    assert names(await bob.list(Ticket, "team")) == ["team/three"]
    [review] = [await ann.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})]
    assert review["status"]["userInfo"] == {"username": "ann", "groups": ["dev", "system:authenticated"]}


async def test_what_a_user_may(ann: AppClient) -> None:
    """The rules are those of a ClusterRole; discovery is for all."""
    reader = ann.as_user("bob", rules=[{"apiGroups": ["helpdesk.example.com"], "resources": ["tickets"], "verbs": ["get"]}])
    assert (await reader.get(Ticket, "one")).title == "one"
    assert (await reader.get_raw("/apis/helpdesk.example.com/v1"))["kind"] == "APIResourceList"
    with pytest.raises(StatusError, match=r'User "bob" cannot delete resource "tickets" in API group') as refused:
        await reader.delete(Ticket, "one")
    assert (refused.value.code, refused.value.reason) == (403, "Forbidden")
    await ann.delete(Ticket, "one")
    # Rights that are given later count for the name, not for one of its clients.
    ann.as_user("bob")
    await reader.delete(Ticket, "two")


async def test_visible_is_asked_for_each_user(ann: AppClient) -> None:
    await ann.patch(Ticket, "one", {"state": "secret"})
    bob = ann.as_user("bob")
    assert (names(await ann.list(Ticket)), names(await bob.list(Ticket))) == (["default/one", "default/two"], ["default/two"])
    with pytest.raises(StatusError) as unseen:
        await bob.get(Ticket, "one")
    assert unseen.value.code == 404


async def test_errors_are_those_of_the_server(ann: AppClient) -> None:
    with pytest.raises(StatusError) as missing:
        await ann.get(Ticket, "nine")
    expected = {"name": "nine", "group": "helpdesk.example.com", "kind": "tickets"}
    assert (missing.value.code, missing.value.reason, missing.value.status()["details"]) == (404, "NotFound", expected)
    with pytest.raises(StatusError) as invalid:
        await ann.post(TICKETS, {**HEAD, "metadata": {"name": "x"}, "title": 5})
    assert [cause.field for cause in invalid.value.causes] == ["title"]
    conflicting = await ann.get(Ticket, "one")
    conflicting.title = "taken"
    with pytest.raises(StatusError, match="somebody else has it"):
        await ann.update(conflicting)


async def test_a_fault_of_a_function_is_a_500_without_its_text(ann: AppClient, caplog: pytest.LogCaptureFixture) -> None:
    ticket = await ann.get(Ticket, "one")
    ticket.metadata.name = "gone"
    broken = helpdesk()
    broken.resources["tickets.helpdesk.example.com"].functions.update = lambda request, new, old: 1 / 0
    async with broken.client(state=Tracker("one")) as client:
        with pytest.raises(StatusError) as failed:
            await client.patch(Ticket, "one", {"title": "x"})
    assert (failed.value.code, "division" in failed.value.message) == (500, False)
    assert "ZeroDivisionError" in caplog.text


async def test_changes(ann: AppClient) -> None:
    ticket = await ann.get(Ticket, "one")
    ticket.title = "Printer"
    assert (await ann.update(ticket)).title == "Printer"
    with pytest.raises(StatusError) as old:
        await ann.update(ticket)  # its revision is that of before
    assert old.value.reason == "Conflict"
    assert (await ann.patch(Ticket, "one", {"title": "Scanner"})).title == "Scanner"
    operations = [{"op": "replace", "path": "/title", "value": "Phone"}]
    assert (await ann.patch(Ticket, "one", operations, kind="json")).title == "Phone"
    applied = await ann.patch(Ticket, "new", {"title": "Applied"}, "team", kind="apply", manager="me")
    assert names([applied]) == ["team/new"]
    with pytest.raises(StatusError, match='conflict with "me"'):
        await ann.patch(Ticket, "new", {"title": "Other"}, "team", kind="apply", manager="you")
    forced = await ann.patch(Ticket, "new", {"title": "Other"}, "team", kind="apply", manager="you", force=True)
    assert forced.title == "Other"
    await ann.delete(Ticket, "new", "team")
    assert names(await ann.list(Ticket)) == ["default/one", "default/two"]


async def test_dry_runs(ann: AppClient) -> None:
    made = await ann.create(Ticket(Metadata("three"), "Printer"), dry_run=True)
    assert made.title == "Printer"
    assert names(await ann.list(Ticket)) == ["default/one", "default/two"]
    with pytest.raises(StatusError, match="dry run is not supported"):
        await ann.delete(Ticket, "one", dry_run=True)


async def test_lists_in_pages_and_by_selectors(ann: AppClient) -> None:
    await ann.create(Ticket(Metadata("three", labels={"a": "b"}), "Printer", "closed"))
    assert names(await ann.list(Ticket, limit=1)) == ["default/one", "default/three", "default/two"]
    assert names(await ann.list(Ticket, labels="a=b")) == ["default/three"]
    assert names(await ann.list(Ticket, fields="state=open", limit=1)) == ["default/one", "default/two"]


async def test_watches(ann: AppClient) -> None:
    async with ann.watch(Ticket, fields="state=open") as events:
        seen: list[AppEvent[Ticket]] = [await anext(events), await anext(events)]
        await ann.patch(Ticket, "one", {"state": "closed"})
        await ann.create(Ticket(Metadata("three"), "Printer"))
        seen += [await anext(events), await anext(events)]
    assert [(event.type, event.object.metadata.name) for event in seen] == [
        ("ADDED", "one"),
        ("ADDED", "two"),
        ("DELETED", "one"),
        ("ADDED", "three"),
    ]


async def test_a_watch_that_gets_nothing_fails(ann: AppClient) -> None:
    async with ann.watch(Ticket, "nowhere", seconds=0.01) as events:
        with pytest.raises(TimeoutError):
            await anext(events)


EVENTS = (
    b'{"type": "ADDED", "object": {"metadata": {"name": "one", "namespace": "a"}, "title": "One"}}\n{"type": "BOOK',
    b'MARK", "object": {}}\n',
    b'{"type": "MODIFIED", "object": {"metadata": {"name": "one", "namespace": "a"}, "title": "Two"}}\n',
    b'{"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}\n',
)


async def test_events_that_come_in_any_pieces() -> None:
    """Bookmarks are not for tests; an error is raised."""

    async def sends(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"warning", b'299 - "a \\"watch\\""')]})
        for piece in EVENTS:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            await asyncio.sleep(0)
        await receive()
        assert await receive() == {"type": "http.disconnect"}

    declarations = [handle.declaration for handle in helpdesk().resources.values()]
    client = AppClient(Shared(sends, declarations, lambda user, rules: None), UserInfo("ann"))
    async with client.watch(Ticket) as events:
        assert [(event.type, event.object.title) for event in [await anext(events), await anext(events)]] == [
            ("ADDED", "One"),
            ("MODIFIED", "Two"),
        ]
        with pytest.raises(StatusError, match="too old") as expired:
            await anext(events)
    assert (expired.value.code, expired.value.reason) == (410, "Expired")
    assert client.warnings == ['a "watch"']


async def test_a_watch_that_is_refused(ann: AppClient) -> None:
    bob = ann.as_user("bob", rules=[])
    with pytest.raises(StatusError, match="cannot watch"):
        async with bob.watch(Ticket):
            raise AssertionError


async def test_any_other_request(ann: AppClient) -> None:
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    answer = await ann.request("GET", "/apis/helpdesk.example.com/v1/tickets", headers={"Accept": table})
    assert (answer.status, answer.json()["kind"]) == (200, "Table")
    assert answer.header("Content-Type").startswith("application/json")
    assert (await ann.request("GET", "/nothing")).status == 404
    assert (await ann.post("/api/v1/namespaces", {"metadata": {"name": "team"}}))["status"] == {"phase": "Active"}
    with pytest.raises(TypeError, match="use `request`"):
        await ann.get_raw("/readyz")


async def test_a_namespace_that_is_deleted_stays_deleted(ann: AppClient) -> None:
    """It is made for the first write that needs it, and not again for later ones."""
    await ann.create(Ticket(Metadata("three", "team"), "Printer"))
    await ann.delete_raw("/api/v1/namespaces/team")
    with pytest.raises(StatusError, match="because it is being terminated"):
        await ann.create(Ticket(Metadata("four", "team"), "Printer"))
    namespace = await ann.get_raw("/api/v1/namespaces/team")
    await ann.put("/api/v1/namespaces/team/finalize", {**namespace, "spec": {}})
    with pytest.raises(StatusError, match='namespaces "team" not found'):
        await ann.create(Ticket(Metadata("four", "team"), "Printer"))


async def test_handles_and_dicts() -> None:
    app: App[None] = App()
    schema = {"type": "object", "properties": {"size": {"type": "integer"}}}
    disks = app.virtual("node.example.com/v1", kind="Disk", schema=schema, scope="Cluster")
    disks.list(lambda request: [{"metadata": {"name": "sda"}, "size": 5}])
    disks.create(lambda request, new: new)
    async with app.client() as admin:
        assert (await admin.get(disks, "sda"))["size"] == 5
        assert [each["size"] for each in await admin.list(disks)] == [5]
        made = await admin.create({"metadata": {"name": "sdb"}, "size": 6}, disks)
        named = await admin.create({"apiVersion": "node.example.com/v1", "kind": "Disk", "metadata": {"name": "sdc"}})
        assert (made["metadata"]["name"], named["metadata"]["name"]) == ("sdb", "sdc")
        with pytest.raises(TypeError, match="a dict needs the apiVersion"):
            await admin.create({"metadata": {"name": "sdb"}})


async def test_a_class_that_does_not_say_which_resource() -> None:
    app: App[None] = App()
    first = app.virtual("a.example.com/v1", Ticket)
    second = app.virtual("b.example.com/v1", Ticket)
    for handle in (first, second):
        handle.list(lambda request: [Ticket(Metadata("one", "default"), "x")])
    async with app.client() as admin:
        assert (await admin.get(second, "one")).title == "x"
        with pytest.raises(TypeError, match=r"Ticket is the class of tickets.a.example.com and tickets.b.example.com"):
            await admin.list(Ticket)
        with pytest.raises(TypeError, match=r"int is no resource of this App; it has tickets.a"):
            await admin.list(int)
        with pytest.raises(TypeError, match="a name is needed"):
            await admin.delete(first, "")


async def test_two_servers_of_one_app_at_the_same_time() -> None:
    app = helpdesk()
    async with app.client(state=Tracker("one")) as first, app.client(state=Tracker("two")) as second:
        assert names(await first.list(Ticket)) + names(await second.list(Ticket)) == ["default/one", "default/two"]


# --- the lifespan ---


async def test_a_lifespan_that_fails_fails_the_test(caplog: pytest.LogCaptureFixture) -> None:
    @asynccontextmanager
    async def broken() -> AsyncGenerator[Tracker, None]:
        raise RuntimeError("no database")
        yield Tracker()

    with pytest.raises(RuntimeError, match="no database"):
        async with helpdesk(broken).client():
            raise AssertionError


async def test_a_lifespan_that_fails_at_its_end_fails_the_test(caplog: pytest.LogCaptureFixture) -> None:
    @asynccontextmanager
    async def broken() -> AsyncGenerator[Tracker, None]:
        try:
            yield Tracker("one")
        finally:
            raise RuntimeError("no goodbye")

    with pytest.raises(RuntimeError, match="no goodbye"):
        async with helpdesk(broken).client() as admin:
            assert names(await admin.list(Ticket)) == ["default/one"]


async def test_the_lifespan_ends_with_the_client_and_in_the_task_where_it_began() -> None:
    states: list[Tracker] = []

    @asynccontextmanager
    async def grouped() -> AsyncGenerator[Tracker, None]:
        async with asyncio.TaskGroup() as tasks, tracker() as made:
            waiting = tasks.create_task(asyncio.Event().wait())
            states.append(made)
            yield made
            waiting.cancel()

    manager = helpdesk(grouped).client()
    admin = await manager.__aenter__()
    assert names(await admin.list(Ticket)) == ["default/real"]
    await asyncio.create_task(manager.__aexit__(None, None, None))
    assert [state.closed for state in states] == [True]


# --- other ways to run it ---


async def _see(app: App[Tracker]) -> list[str]:
    async with app.client(state=Tracker("one")) as admin:
        return names(await admin.list(Ticket))


RUNNERS: dict[str, Callable[[Callable[[], Coroutine[Any, Any, list[str]]]], list[str]]] = {
    "asyncio.run": lambda make: asyncio.run(make()),
    "anyio.run": lambda make: anyio.run(make, backend="asyncio"),
}


@pytest.mark.parametrize("run", RUNNERS.values(), ids=RUNNERS)
def test_without_a_plugin(run: Callable[[Callable[[], Coroutine[Any, Any, list[str]]]], list[str]]) -> None:
    assert run(lambda: _see(helpdesk())) == ["default/one"]


def test_plain_functions(aggserver_app: AppClients) -> None:
    app = helpdesk()
    ann = aggserver_app(app, user="ann", groups=["dev"], state=Tracker("one"))
    made = ann.create(Ticket(Metadata("three", "team"), "Printer"))
    assert ann.warnings == ['"ann" of dev,system:authenticated']
    made.title = "Scanner"
    assert ann.update(made).title == "Scanner"
    assert ann.get(Ticket, "three", "team").title == "Scanner"
    with ann.watch(Ticket, "team") as events:
        assert next(events).object.title == "Scanner"
        ann.patch(Ticket, "three", {"title": "Phone"}, "team")
        assert next(events).object.title == "Phone"
    bob = ann.as_user("bob", rules=[])
    with pytest.raises(StatusError, match="forbidden"):
        bob.delete(Ticket, "three", "team")
    ann.delete(Ticket, "three", "team")
    assert names(ann.list(Ticket)) == ["default/one"]
    ann.post(TICKETS, {**HEAD, "metadata": {"name": "raw"}, "title": "x"})
    raw = ann.get_raw(f"{TICKETS}/raw")
    assert ann.put(f"{TICKETS}/raw", {**raw, "title": "y"})["title"] == "y"
    assert ann.patch_raw(f"{TICKETS}/raw", {"title": "z"})["title"] == "z"
    assert ann.delete_raw(f"{TICKETS}/raw")["status"] == "Success"
    assert ann.request("GET", "/readyz").status == 200
    with ann.stream(f"{TICKETS}?watch=true") as pieces:
        assert b'"ADDED"' in next(pieces)
    assert names(aggserver_app(app).list(Ticket)) == ["default/real"]


def test_the_lifespan_of_a_plain_functions_app_ends_with_the_test() -> None:
    states: list[Tracker] = []

    @asynccontextmanager
    async def kept() -> AsyncGenerator[Tracker, None]:
        async with tracker() as made:
            states.append(made)
            yield made

    with AppClients() as clients:
        assert names(clients(helpdesk(kept)).list(Ticket)) == ["default/real"]
    assert [state.closed for state in states] == [True]
