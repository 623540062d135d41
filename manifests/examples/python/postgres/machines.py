"""Machines that are rows of a PostgreSQL table, as objects of Kubernetes: kubectl reads, watches, changes and applies them.

    pip install -r requirements.txt
    psql "$DATABASE" -f schema.sql
    aggserver dev --app machines:app -- kubectl get machines -A

DATABASE is the address, such as postgresql://user@host/name. `site` is the namespace. docs/sources.md explains each part.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

import asyncpg

from aggserver import (
    AlreadyExists,
    App,
    Changed,
    Conflict,
    FieldError,
    Gone,
    Invalid,
    ListRequest,
    Metadata,
    Page,
    Relist,
    Request,
    Unavailable,
)

PAGE = 5000
# What clients write into metadata, and the table keeps in one column. With it, there is server-side apply.
KEPT = ("labels", "annotations", "finalizers", "ownerReferences", "managedFields", "deletionTimestamp")
# A connection that is broken without a word is found out by a question, every so many seconds.
ALIVE_SECONDS = 15.0
LOST = (OSError, TimeoutError, asyncpg.PostgresConnectionError, asyncpg.OperatorInterventionError, asyncpg.InterfaceError)


@dataclass
class Machine:
    """A machine of a site."""

    metadata: Metadata
    cores: int
    state: Literal["off", "on"] = "off"


@asynccontextmanager
async def database() -> AsyncGenerator[asyncpg.Pool, None]:
    """No connection is made before one is needed, so that the server starts without the database."""
    async with asyncpg.create_pool(os.environ["DATABASE"], min_size=0, max_size=10, command_timeout=20, init=_prepare) as pool:
        yield pool


async def _prepare(db: asyncpg.Connection) -> None:
    await db.set_type_codec("jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")


app = App(database)
machines = app.virtual(
    "dc.example.com/v1",
    Machine,
    columns={"Cores": ".cores", "State": ".state"},
    selectable=[".state"],
    keeps="metadata",
)


@asynccontextmanager
async def connection(pool: asyncpg.Pool) -> AsyncGenerator[asyncpg.Connection, None]:
    """A database that does not answer is 503, and never an empty list."""
    try:
        async with pool.acquire() as db:
            yield db
    except LOST as error:
        raise Unavailable("the database does not answer") from error


@asynccontextmanager
async def writing(request: Request[asyncpg.Pool]) -> AsyncGenerator[asyncpg.Connection, None]:
    """A transaction, which is rolled back in a dry run. Its notices are sent when it is committed."""
    async with connection(request.state) as db:
        transaction = db.transaction()
        await transaction.start()
        try:
            yield db
        except asyncpg.CheckViolationError as error:
            await transaction.rollback()
            raise Invalid(FieldError(".cores", f"the database refuses it: {error}")) from error
        except BaseException:
            if not db.is_closed():
                await transaction.rollback()
            raise
        await (transaction.rollback() if request.dry_run else transaction.commit())


def machine(row: asyncpg.Record) -> Machine:
    metadata = Metadata.from_json(row["metadata"])
    metadata.name, metadata.namespace, metadata.uid = row["name"], row["site"], str(row["uid"])
    metadata.created, metadata.generation = row["created"], row["version"]
    return Machine(metadata, row["cores"], row["state"])


def kept(new: Machine) -> dict[str, Any]:
    return {member: value for member, value in new.metadata.to_json().items() if member in KEPT}


@machines.list
async def list_machines(request: ListRequest[asyncpg.Pool]) -> Page[Machine]:
    """Pages by key: rows that come and go between two pages move no other row out of sight, as they would with OFFSET."""
    site, name = json.loads(request.cursor) if request.cursor else ("", "")
    limit = min(request.limit or PAGE, PAGE)
    async with connection(request.state) as db:
        rows = await db.fetch(
            """select * from machine where (site, name) > ($1, $2) and ($3 = '' or site = $3)
               order by site, name limit $4""",
            *(site, name, request.namespace, limit + 1),
        )
    last = rows[limit - 1] if len(rows) > limit else None
    return Page(map(machine, rows[:limit]), json.dumps([last["site"], last["name"]]) if last else None)


@machines.get
async def get_machine(request: Request[asyncpg.Pool], name: str) -> Machine | None:
    async with connection(request.state) as db:
        row = await db.fetchrow("select * from machine where site = $1 and name = $2", request.namespace, name)
    return machine(row) if row else None


@machines.create(dry_run=True)
async def create_machine(request: Request[asyncpg.Pool], new: Machine) -> Machine:
    try:
        async with writing(request) as db:
            row = await db.fetchrow(
                "insert into machine (site, name, cores, state, metadata) values ($1, $2, $3, $4, $5) returning *",
                *(new.metadata.namespace, new.metadata.name, new.cores, new.state, kept(new)),
            )
    except asyncpg.UniqueViolationError:
        raise AlreadyExists from None
    return machine(row)


@machines.update(dry_run=True)
async def update_machine(request: Request[asyncpg.Pool], new: Machine, old: Machine) -> Machine:
    """Compare and swap in one statement: the row is written if it still has the version that was read."""
    async with writing(request) as db:
        row = await db.fetchrow(
            """update machine set cores = $3, state = $4, metadata = $5
               where site = $1 and name = $2 and version = $6 returning *""",
            *(new.metadata.namespace, new.metadata.name, new.cores, new.state, kept(new), old.metadata.generation),
        )
    if row is None:
        raise Conflict  # or it is gone: the server reads it again, and knows
    return machine(row)


@machines.delete(dry_run=True)
async def delete_machine(request: Request[asyncpg.Pool], old: Machine) -> None:
    async with writing(request) as db:
        row = await db.fetchrow(
            "delete from machine where site = $1 and name = $2 and version = $3 returning name",
            *(old.metadata.namespace, old.metadata.name, old.metadata.generation),
        )
    if row is None:
        raise Conflict


@machines.feed
async def machine_changes(pool: asyncpg.Pool) -> AsyncIterator[Changed[Machine] | Gone | Relist]:
    """First listen, then list: no change is lost between. When the connection is lost, this raises, and is called again."""
    told: asyncio.Queue[str | None] = asyncio.Queue()

    def tell(_: object, process: int, channel: str, key: str) -> None:
        told.put_nowait(key)

    async with connection(pool) as db:
        db.add_termination_listener(lambda _: told.put_nowait(None))
        await db.add_listener("machine", tell)
        try:
            yield Relist()
            while True:
                keys = await _next(told)
                if None in keys or db.is_closed():
                    raise ConnectionError("the connection to the database was lost")
                if not keys:
                    await db.execute("select 1")
                    continue
                names = [key.split("/", 1) for key in keys if key is not None]
                rows = await db.fetch(
                    "select machine.* from unnest($1::text[], $2::text[]) as told (site, name) join machine using (site, name)",
                    *map(list, zip(*names, strict=True)),
                )
                found = {(row["site"], row["name"]) for row in rows}
                for row in rows:
                    yield Changed(machine(row))
                for site, name in names:
                    if (site, name) not in found:
                        yield Gone(name, site)
        finally:
            await db.remove_listener("machine", tell)


async def _next(told: asyncio.Queue[str | None]) -> list[str | None]:
    """All keys that wait, each once, PAGE at most; none if there was none for some seconds."""
    keys: dict[str | None, None] = {}
    try:
        async with asyncio.timeout(ALIVE_SECONDS):
            keys[await told.get()] = None
    except TimeoutError:
        return []
    while len(keys) < PAGE and not told.empty():
        keys[told.get_nowait()] = None
    return list(keys)
