"""Read-only over another system's API, page by page.

kubectl get tickets -A --chunk-size 2; kubectl get tickets --field-selector state=open; kubectl explain ticket
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from aggserver import App, ListRequest, Metadata, Page, Request


class Tracker:
    """Stands for the client of a ticket system, which has pages with a cursor."""

    def __init__(self) -> None:
        created = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
        states = ["open", "closed", "open", "open", "closed"]
        self._rows: list[dict[str, Any]] = [
            {"key": f"t{number}", "team": "default", "title": f"Ticket {number}", "state": state, "created": created}
            for number, state in enumerate(states, 1)
        ]

    async def page(self, state: str | None, limit: int, cursor: str | None) -> tuple[list[dict[str, Any]], str | None]:
        rows = [row for row in self._rows if state in (None, row["state"]) and row["key"] > (cursor or "")]
        return rows[:limit], rows[limit - 1]["key"] if len(rows) > limit else None

    async def one(self, team: str, key: str) -> dict[str, Any] | None:
        return next((row for row in self._rows if (row["team"], row["key"]) == (team, key)), None)


@dataclass
class Ticket:
    """A ticket of the help desk."""

    metadata: Metadata
    title: str
    state: Literal["open", "closed"] = "open"


@asynccontextmanager
async def tracker() -> AsyncGenerator[Tracker, None]:
    yield Tracker()


app = App(tracker)
tickets = app.virtual("helpdesk.example.com/v1", Ticket, columns={"State": ".state"}, selectable=[".state"])


def ticket(row: dict[str, Any]) -> Ticket:
    return Ticket(Metadata(row["key"], row["team"], created=row["created"]), row["title"], row["state"])


@tickets.list
async def list_tickets(request: ListRequest[Tracker]) -> Page[Ticket]:
    rows, cursor = await request.state.page(request.fields.exact("state"), request.limit or 500, request.cursor)
    return Page(map(ticket, rows), cursor)


@tickets.get
async def get_ticket(request: Request[Tracker], name: str) -> Ticket | None:
    row = await request.state.one(request.namespace, name)
    return ticket(row) if row else None
