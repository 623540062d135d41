"""Apps in a LocalServer: a source of rows that a test changes and breaks, and pauses that end when a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from aggserver import AlreadyExists, App, Changed, Conflict, Gone, ListRequest, Metadata, NotFound, Page, Relist, Request
from aggserver.resources.host import Hosting
from aggserver.resources.serving import ServedApp
from aggserver.resources.virtual import Virtual
from tests.fakes.asgi import Client
from tests.fakes.clock import settled
from tests.fakes.server import LocalServer

GROUP = "helpdesk.example.com"
PATH = f"/apis/{GROUP}/v1/namespaces/default/tickets"
ALL = f"/apis/{GROUP}/v1/tickets"

Key = tuple[str, str]


@dataclass
class Ticket:
    """A ticket of the help desk."""

    metadata: Metadata
    title: str = ""
    state: str = "open"


@dataclass
class Rows:
    """What a source has, by (namespace, name). `before` runs first in each function, and may raise; calls: of each function."""

    rows: dict[Key, Mapping[str, Any]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    before: dict[str, Callable[[], Any]] = field(default_factory=dict)
    news: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)

    def set(self, name: str, namespace: str = "default", **row: Any) -> None:
        self.rows[namespace, name] = {"title": name, **row}

    async def called(self, verb: str) -> None:
        self.calls.append(verb)
        if (before := self.before.get(verb)) is not None:
            result = before()
            if asyncio.iscoroutine(result):
                await result

    def ticket(self, key: Key) -> Ticket:
        row = dict(self.rows[key])
        metadata = {name: row.pop(name) for name in ("labels", "annotations", "finalizers", "owner_references") if name in row}
        more = {name: row.pop(name) for name in ("created", "uid", "revision", "generation") if name in row}
        kept = row.pop("metadata", None)
        if kept is not None:
            return Ticket(Metadata.from_json(kept), **row)
        return Ticket(Metadata(key[1], key[0], **metadata, **more), **row)

    def tickets(self) -> list[Ticket]:
        return [self.ticket(key) for key in self.rows]


def row_of(ticket: Ticket) -> dict[str, Any]:
    return {"title": ticket.title, "state": ticket.state}


def row_with_metadata(ticket: Ticket) -> dict[str, Any]:
    return {"metadata": ticket.metadata.to_json(), **row_of(ticket)}


def ticket_app(
    rows: Rows, *, verbs: str = "get list create update delete", **more: Any
) -> tuple[App[Rows], Virtual[Rows, Ticket]]:
    """An App with one resource over `rows`. verbs: its functions, `feed` among them. more: of `App.virtual`."""

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[Rows]:
        yield rows

    app = App(lifespan, deadline=more.pop("deadline", 30.0))
    keep = row_with_metadata if more.get("keeps") == "metadata" else row_of
    dry_run = more.pop("dry_run", False)
    tickets = app.virtual(f"{GROUP}/v1", Ticket, **{"columns": {"State": ".state"}, "selectable": [".state"], **more})
    declared = verbs.split()

    if "list" in declared:

        @tickets.list
        async def list_tickets(request: ListRequest[Rows]) -> Iterable[Ticket]:
            await request.state.called("list")
            return request.state.tickets()

    if "get" in declared:

        @tickets.get
        async def get_ticket(request: Request[Rows], name: str) -> Ticket | None:
            await request.state.called("get")
            key = request.namespace, name
            return request.state.ticket(key) if key in request.state.rows else None

    if "create" in declared:

        @tickets.create(dry_run=dry_run)
        async def create_ticket(request: Request[Rows], new: Ticket) -> Ticket:
            await request.state.called("create")
            key = request.namespace, new.metadata.name
            if key in request.state.rows:
                raise AlreadyExists
            if request.dry_run:
                return new
            request.state.rows[key] = keep(new)
            return request.state.ticket(key)

    if "update" in declared:

        @tickets.update(dry_run=dry_run)
        async def update_ticket(request: Request[Rows], new: Ticket, old: Ticket) -> Ticket:
            await request.state.called("update")
            key = request.namespace, new.metadata.name
            if key not in request.state.rows:
                raise NotFound
            if request.state.ticket(key).title != old.title:
                raise Conflict
            if request.dry_run:
                return new
            request.state.rows[key] = keep(new)
            return request.state.ticket(key)

    if "delete" in declared:

        @tickets.delete(dry_run=dry_run)
        async def delete_ticket(request: Request[Rows], old: Ticket) -> None:
            await request.state.called("delete")
            key = request.namespace, old.metadata.name
            if key not in request.state.rows:
                raise NotFound
            if not request.dry_run:
                del request.state.rows[key]

    if "feed" in declared:

        @tickets.feed
        async def changes(state: Rows) -> AsyncIterator[Changed[Ticket] | Gone | Relist]:
            await state.called("feed")
            while (change := await state.news.get()) is not None:
                if isinstance(change, Exception):
                    raise change
                yield change

    return app, tickets


class Pauses:
    """Sleeps that end when a test says so. `seconds`: of those that are pending."""

    def __init__(self) -> None:
        self._pending: list[tuple[float, asyncio.Event]] = []

    async def sleep(self, seconds: float) -> None:
        over = asyncio.Event()
        self._pending.append((seconds, over))
        try:
            await over.wait()
        finally:
            self._pending = [each for each in self._pending if each[1] is not over]

    @property
    def seconds(self) -> list[float]:
        return [seconds for seconds, _ in self._pending]

    async def end(self) -> None:
        """End all that are pending, and wait until nothing more happens."""
        for _, over in self._pending:
            over.set()
        await settled()


class Apps:
    """Serves Apps in a LocalServer. random: of the environment, which gives each App its replica's number and its secret."""

    def __init__(self, server: LocalServer) -> None:
        self.server = server
        self.pauses = Pauses()
        self.client: Client = server.client()
        self._tasks: list[asyncio.Task[None]] = []

    async def serve(self, app: App[Any], *, name: str = "app", random: int = 7, hosting: Hosting | None = None) -> ServedApp:
        environment = replace(self.server.environment, random=lambda below: random % below)
        served = ServedApp(
            name,
            app,
            environment,
            self.server.engine.admission,
            self.server.engine.definitions,
            hosting=hosting,
            sleep=self.pauses.sleep,
        )
        self.server.engine.installer.install(served.resources())
        self.server.engine.on_end_watches(served.end_watches)
        self._tasks.append(asyncio.create_task(served.run()))
        await settled()
        return served

    async def serve_tickets(self, rows: Rows, *, random: int = 7, **more: Any) -> Virtual[Rows, Ticket]:
        app, tickets = ticket_app(rows, **more)
        await self.serve(app, random=random)
        return tickets

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    async def names(self, target: str = PATH) -> list[str]:
        answer = await self.client.get(target)
        assert answer.status == 200, answer.body
        return [item["metadata"]["name"] for item in answer.json()["items"]]


def ticket(name: str = "", title: str = "x", **metadata: Any) -> dict[str, Any]:
    named = {"name": name} if name else {}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Ticket", "metadata": {**named, **metadata}, "title": title}


def page(tickets: Iterable[Ticket], cursor: str | None = None) -> Page[Ticket]:
    return Page(tickets, cursor)
