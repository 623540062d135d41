"""Tickets in SQLite, by each way to know of changes: asked each time, polled, and fed by a table of changes.

`app` has five resources over five tables of `tickets.db`; the server keeps the metadata of two of them. `broken` has one whose
source does what the file `behaviour` says.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import threading
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aggserver import AlreadyExists, App, Changed, Conflict, Gone, ListRequest, Metadata, NotFound, Page, Relist, Request

DATABASE = "tickets.db"
# The environment variable with the path of another database.
PLACE = "TICKETS"
BEHAVIOUR = "behaviour"
POLL_SECONDS = 0.2


@dataclass
class Ticket:
    """A ticket of the help desk."""

    metadata: Metadata
    title: str
    state: str = "open"


def database() -> sqlite3.Connection:
    """The tables, made at first use. A row has the metadata of its object as JSON, a number that grows with each change, and a
    uid of its own. `log` has all that ever happened to each.
    """
    db = sqlite3.connect(os.environ.get(PLACE, DATABASE), isolation_level=None, timeout=30.0)
    db.execute("pragma journal_mode=wal")
    logged = "namespace text, name text, uid text, version integer, title text, state text"
    db.execute(f"create table if not exists log (id integer primary key autoincrement, source text, {logged})")
    for table in ("direct", "polled", "fed", "beside", "besidedirect"):
        columns = "namespace text, name text, title text, state text, metadata text, version integer, uid text"
        db.execute(f"create table if not exists {table} ({columns}, primary key (namespace, name))")
        into = "insert into log (source, namespace, name, uid, version, title, state) values"
        for what in ("insert", "update"):
            values = f"'{table}', new.namespace, new.name, new.uid, new.version, new.title, new.state"
            db.execute(f"create trigger if not exists {table}_{what} after {what} on {table} begin {into} ({values}); end")
        values = f"'{table}', old.namespace, old.name, old.uid, null, null, null"
        db.execute(f"create trigger if not exists {table}_delete after delete on {table} begin {into} ({values}); end")
    db.execute("create table if not exists changes (id integer primary key autoincrement, namespace text, name text)")
    return db


class Table:
    """One table. Its methods block, and so do the functions that call them."""

    def __init__(self, name: str) -> None:
        self.name = name

    def all(self) -> list[Ticket]:
        return [_ticket(row) for row in database().execute(f"select * from {self.name} order by namespace, name")]

    def page(self, limit: int, cursor: str | None) -> Page[Ticket]:
        after = json.loads(cursor) if cursor else ["", ""]
        query = f"select * from {self.name} where (namespace, name) > (?, ?) order by namespace, name limit ?"
        found = [_ticket(row) for row in database().execute(query, (*after, limit))]
        more = len(found) == limit
        return Page(found, json.dumps([found[-1].metadata.namespace, found[-1].metadata.name]) if more else None)

    def get(self, namespace: str, name: str) -> Ticket | None:
        row = database().execute(f"select * from {self.name} where (namespace, name) = (?, ?)", (namespace, name)).fetchone()
        return None if row is None else _ticket(row)

    def create(self, new: Ticket) -> None:
        key = new.metadata.namespace, new.metadata.name
        with database() as db:
            try:
                # Another one each time that a name is used, since its deletion is in the log.
                (last,) = db.execute("select coalesce(max(id), 0) from log").fetchone()
                uid = uuid.uuid5(uuid.NAMESPACE_OID, f"{self.name}/{key}/{last}")
                values = (*key, new.title, new.state, _kept(new), str(uid))
                db.execute(f"insert into {self.name} values (?, ?, ?, ?, ?, 1, ?)", values)
            except sqlite3.IntegrityError:
                raise AlreadyExists from None
            self._tell(db, *key)

    def update(self, new: Ticket, old: Ticket) -> None:
        """Compares and swaps: the row must be as it was read."""
        key = new.metadata.namespace, new.metadata.name
        with database() as db:
            query = f"update {self.name} set title = ?, state = ?, metadata = ?, version = version + 1"
            query += " where (namespace, name, title, state, metadata) = (?, ?, ?, ?, ?)"
            values: list[object] = [new.title, new.state, _kept(new), *key, old.title, old.state, _kept(old)]
            if old.metadata.uid:  # as a server has read it
                query += " and (uid, version) = (?, ?)"
                values += [old.metadata.uid, old.metadata.generation]
            done = db.execute(query, values)
            if not done.rowcount:
                raise Conflict if self.get(*key) else NotFound
            self._tell(db, *key)

    def delete(self, namespace: str, name: str) -> None:
        with database() as db:
            if not db.execute(f"delete from {self.name} where (namespace, name) = (?, ?)", (namespace, name)).rowcount:
                raise NotFound
            self._tell(db, namespace, name)

    def _tell(self, db: sqlite3.Connection, namespace: str, name: str) -> None:
        if self.name == "fed":
            db.execute("insert into changes (namespace, name) values (?, ?)", (namespace, name))


def _ticket(row: tuple[Any, ...]) -> Ticket:
    namespace, name, title, state, kept, version, uid = row
    metadata = {**json.loads(kept), "name": name, "namespace": namespace, "uid": uid, "generation": version}
    return Ticket(Metadata.from_json(metadata), title, state)


def _kept(ticket: Ticket) -> str:
    system = ("name", "namespace", "uid", "resourceVersion", "generation")
    return json.dumps({key: value for key, value in ticket.metadata.to_json().items() if key not in system}, sort_keys=True)


app: App[None] = App()
_SHOWN: dict[str, Any] = {"columns": {"State": ".state"}, "selectable": [".state"]}
direct = app.virtual("direct.example.com/v1", Ticket, **_SHOWN)
polled = app.virtual("polled.example.com/v1", Ticket, poll=POLL_SECONDS, keeps="metadata", **_SHOWN)
fed = app.virtual("fed.example.com/v1", Ticket, keeps="metadata", **_SHOWN)
beside = app.virtual("beside.example.com/v1", Ticket, poll=POLL_SECONDS, keeps="sidecar", **_SHOWN)
beside_direct = app.virtual("besidedirect.example.com/v1", Ticket, keeps="sidecar", **_SHOWN)


def _functions(handle: Any, table: Table) -> None:
    @handle.get
    def get(request: Request[None], name: str) -> Ticket | None:
        return table.get(request.namespace, name)

    @handle.create
    def create(request: Request[None], new: Ticket) -> None:
        table.create(new)

    @handle.update
    def update(request: Request[None], new: Ticket, old: Ticket) -> None:
        table.update(new, old)

    @handle.delete
    def delete(request: Request[None], old: Ticket) -> None:
        table.delete(old.metadata.namespace, old.metadata.name)


_HANDLES = {"direct": direct, "polled": polled, "fed": fed, "beside": beside, "besidedirect": beside_direct}
for _name, _handle in _HANDLES.items():
    _functions(_handle, Table(_name))


@direct.list
def list_direct(request: ListRequest[None]) -> Page[Ticket]:
    return Table("direct").page(request.limit or 500, request.cursor)


@polled.list
def list_polled(request: ListRequest[None]) -> Iterable[Ticket]:
    yield from Table("polled").all()


@beside.list
def list_beside(request: ListRequest[None]) -> Iterable[Ticket]:
    yield from Table("beside").all()


@beside_direct.list
def list_beside_direct(request: ListRequest[None]) -> Page[Ticket]:
    return Table("besidedirect").page(request.limit or 500, request.cursor)


@fed.list
def list_fed(request: ListRequest[None]) -> list[Ticket]:
    return Table("fed").all()


@fed.feed
async def changes(state: None) -> AsyncIterator[Changed[Ticket] | Gone | Relist]:
    db = database()
    (last,) = db.execute("select coalesce(max(id), 0) from changes").fetchone()
    yield Relist()
    while True:
        told = db.execute("select id, namespace, name from changes where id > ? order by id", (last,)).fetchall()
        for number, namespace, name in told:
            found = Table("fed").get(namespace, name)
            yield Gone(name, namespace) if found is None else Changed(found)
            last = number
        await asyncio.sleep(0.02)


broken: App[None] = App(deadline=1.0, threads=4)
bad = broken.virtual("broken.example.com/v1", Ticket, poll=POLL_SECONDS)
_NAMES = ("a", "b", "c")


@bad.list
def list_bad(request: ListRequest[None]) -> Iterator[Ticket]:
    behaviour = Path(BEHAVIOUR).read_text() if Path(BEHAVIOUR).exists() else ""
    if behaviour == "fails":
        raise ConnectionError("secret 4711")
    if behaviour == "hangs":
        threading.Event().wait()
    for name in _NAMES:
        yield Ticket(Metadata(name, "default"), name)
        if behaviour == "answers half":
            raise ConnectionError("secret 4711")


@bad.create
def create_bad(request: Request[None], new: Ticket) -> Ticket:
    return new


@bad.delete
def delete_bad(request: Request[None], old: Ticket) -> None:
    raise NotFound
