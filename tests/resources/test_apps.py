"""Apps in a server: what is refused when they are declared, lifespans that fail, and that no App disturbs another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from aggserver import App, ListRequest, Metadata
from aggserver.resources.errors import DeclarationError
from aggserver.resources.serving import ServedApp
from tests.fakes.clock import settled, until
from tests.fakes.server import LocalServer
from tests.resources.served import GROUP, PATH, Apps, Rows, Ticket


def _nothing(app: App[None]) -> None:
    app.virtual("a.example.com/v1", Ticket)


def _poll_without_list(app: App[None]) -> None:
    app.virtual("a.example.com/v1", Ticket, poll=1.0).get(lambda request, name: None)


def _both(app: App[None]) -> None:
    tickets = app.virtual("a.example.com/v1", Ticket, poll=1.0)
    tickets.list(lambda request: [])

    @tickets.feed
    async def feed(state: None) -> AsyncIterator[Any]:
        yield 1


def _twice(app: App[None]) -> None:
    app.virtual("a.example.com/v1", Ticket)
    app.virtual("a.example.com/v2", Ticket)


def _two_functions(app: App[None]) -> None:
    tickets = app.virtual("a.example.com/v1", Ticket)
    tickets.list(lambda request: [])
    tickets.list(lambda request: [])


def _no_field(app: App[None]) -> None:
    app.virtual("a.example.com/v1", Ticket, selectable=[".nothing"]).list(lambda request: [])


def _two_revisions(app: App[None]) -> None:
    app.virtual("a.example.com/v1", Ticket, revisions="source", keeps="sidecar").list(lambda request: [])


DECLARATIONS: dict[str, tuple[Callable[[App[None]], Any], str]] = {
    "no functions": (_nothing, "has neither a list nor a get function"),
    "poll without list": (_poll_without_list, "needs a list function"),
    "poll and feed": (_both, "poll is for sources without one"),
    "twice": (_twice, "is declared already, at test_apps.py:"),
    "revisions of two": (_two_revisions, "whose changes the source has no revisions for"),
    "two functions": (_two_functions, "has two functions for list"),
    "a field that is not there": (_no_field, "nothing"),
    "no group": (lambda app: app.virtual("v1", Ticket), "is no `group/version`"),
    "poll of 0": (lambda app: app.virtual("a.example.com/v1", Ticket, poll=0), "above 0"),
    "no type": (lambda app: app.virtual("a.example.com/v1", None), "needs a class, or a kind and a schema"),  # type: ignore[call-overload]
}


@pytest.mark.parametrize("name", DECLARATIONS)
async def test_declarations_that_can_not_be_served(server: LocalServer, name: str) -> None:
    declare, text = DECLARATIONS[name]
    app: App[None] = App()

    def serve() -> None:
        declare(app)
        ServedApp("app", app, server.environment, server.engine.admission, server.engine.definitions)

    with pytest.raises(DeclarationError, match=text):
        serve()


class Lifespan:
    """Fails as often as a test says. entered, left: how often."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.entered = self.left = 0

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[Rows]:
        self.entered += 1
        if self.entered <= self.failures:
            raise ConnectionError("secret 4711")
        rows = Rows()
        rows.set("a")
        yield rows
        self.left += 1


def _app(lifespan: Any, group: str = GROUP, **more: Any) -> App[Rows]:
    app = App(lifespan)
    tickets = app.virtual(f"{group}/v1", Ticket, **more)

    @tickets.list
    async def list_tickets(request: ListRequest[Rows]) -> list[Ticket]:
        return request.state.tickets()

    return app


@pytest.mark.parametrize("more", [{}, {"poll": 5.0}], ids=["direct", "polled"])
async def test_a_lifespan_that_fails(apps: Apps, more: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    lifespan = Lifespan(2)
    served = await apps.serve(_app(lifespan, **more))
    answer = await apps.client.get(PATH)
    assert (answer.status, answer.json()["reason"]) == (503, "ServiceUnavailable")
    assert "4711" not in answer.message
    assert "lifespan has failed" in str(served.trouble())
    assert "secret 4711" in caplog.text
    assert (await apps.client.get(f"/apis/{GROUP}/v1")).status == 200  # discovery asks nobody
    assert apps.pauses.seconds == [1.0]
    await apps.pauses.end()
    assert apps.pauses.seconds == [2.0]
    await apps.pauses.end()
    assert served.trouble() is None
    assert await apps.names() == ["a"]
    await apps.stop()
    assert (lifespan.entered, lifespan.left) == (3, 0)  # cancelled, as a server that stops does


async def test_a_lifespan_is_left_at_the_end(apps: Apps) -> None:
    left = []

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[Rows]:
        try:
            yield Rows()
        finally:
            await asyncio.sleep(0)
            left.append(1)

    await apps.serve(_app(lifespan))
    await apps.stop()
    assert left == [1]


def _late(begin: asyncio.Event) -> Callable[[], AbstractAsyncContextManager[Rows]]:
    """A lifespan that yields one row, once it has begun."""

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[Rows]:
        await begin.wait()
        rows = Rows()
        rows.set("a")
        yield rows

    return lifespan


async def test_before_the_lifespan_has_begun(apps: Apps) -> None:
    begin = asyncio.Event()
    served = await apps.serve(_app(_late(begin)))
    assert (await apps.client.get(PATH)).status == 503
    assert served.trouble() == "it has not started yet"
    begin.set()
    await settled()
    assert await apps.names() == ["a"]


async def test_a_first_request_waits_for_the_first_poll(apps: Apps) -> None:
    begin = asyncio.Event()
    await apps.serve(_app(_late(begin), poll=5.0))
    listing = asyncio.ensure_future(apps.names())
    await settled()
    begin.set()
    assert await listing == ["a"]


async def test_apps_do_not_disturb_each_other(apps: Apps) -> None:
    async def hang(request: ListRequest[None]) -> list[Ticket]:
        await asyncio.Event().wait()
        return []

    def fail(request: ListRequest[None]) -> list[Ticket]:
        raise SystemError

    bad: App[None] = App()
    bad.virtual("hangs.example.com/v1", Ticket, poll=1.0).list(hang)
    bad.virtual("fails.example.com/v1", Ticket, poll=1.0).list(fail)
    good = bad.virtual("good.example.com/v1", Ticket, poll=1.0)
    good.list(lambda request: [Ticket(Metadata("g", "default"))])
    served = await apps.serve(bad, name="bad")
    await apps.serve(_app(Lifespan(100), "broken.example.com"), name="broken")
    other = await apps.serve(_app(Lifespan(0)), name="other")
    await until(lambda: "fails" in str(served.trouble()))
    assert await apps.names("/apis/good.example.com/v1/tickets") == ["g"]
    assert await apps.names() == ["a"]
    assert other.trouble() is None
    groups = {group["name"] for group in (await apps.client.get("/apis")).json()["groups"]}
    assert groups >= {"hangs.example.com", "fails.example.com", "good.example.com", "broken.example.com", GROUP}
    for group in groups - {"apiextensions.k8s.io"}:
        assert (await apps.client.get(f"/apis/{group}")).status == 200
    assert (await apps.client.get("/openapi/v3")).status == 200
    assert (await apps.client.get(f"/openapi/v3/apis/{GROUP}/v1")).status == 200


async def test_dicts(apps: Apps) -> None:
    """A resource without a class: a kind and a schema, and functions on dicts."""
    schema = {"type": "object", "properties": {"size": {"type": "integer"}, "at": {"type": "string"}}}
    app: App[None] = App()
    crates = app.virtual(f"{GROUP}/v1", kind="Crate", schema=schema, columns={"Size": ".size"})
    crates.list(lambda request: [{"metadata": {"name": "a", "namespace": "default"}, "size": 3, "at": "x", "unknown": 1}])
    await apps.serve(app)
    path = f"/apis/{GROUP}/v1/namespaces/default/crates"
    (item,) = (await apps.client.get(path)).json()["items"]
    assert (item["kind"], item["size"]) == ("Crate", 3)
    assert "unknown" not in item


async def test_cluster_scoped(apps: Apps) -> None:
    app: App[None] = App()
    app.virtual(f"{GROUP}/v1", Ticket, scope="Cluster").list(lambda request: [Ticket(Metadata("a", "ignored"))])
    await apps.serve(app)
    path = f"/apis/{GROUP}/v1/tickets"
    (item,) = (await apps.client.get(path)).json()["items"]
    assert "namespace" not in item["metadata"]
    assert (await apps.client.get(f"{path}/a")).status == 200
