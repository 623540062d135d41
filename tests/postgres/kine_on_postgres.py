"""`--storage etcd` on kine over PostgreSQL: the contract of stores, and watches beside many writers.

PostgreSQL gives a transaction its number before it commits, so that writes become visible in another order than that of their
revisions. What kine lists and tells meanwhile may lack some for ever; storage/kine.py keeps that from happening.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from tests.kine.program import Kine, build
from tests.kine.storing import opened
from tests.postgres.database import Database
from tests.storage import contract
from tests.storage.suite import PODS, Recorder, follow

WRITERS, ROUNDS, READERS, MOST = 16, 20, 4, 60

# Each write takes up to 20 ms more between its number and its commit, so that they often overtake each other.
SLOW = """
create function slow() returns trigger language plpgsql as $$ begin perform pg_sleep(random() * 0.02); return null; end $$;
create trigger slow after insert on kine for each row execute function slow();
"""


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    database = Database()
    try:
        database.start()
        yield database
    finally:
        database.stop()


@pytest.fixture(scope="module")
def running(database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kine]:
    address = database.address.replace("postgresql://", "postgres://") + "?sslmode=disable"
    with Kine(build(os.environ, print), tmp_path_factory.mktemp("kine"), database=address) as running:
        yield running


@pytest.mark.parametrize("case", contract.CASES, ids=lambda case: case.__name__)
async def test_contract(case: contract.Case, running: Kine) -> None:
    async with opened(running.url) as store:
        await case(store)


async def test_lists_and_watches_that_begin_beside_many_writers_lack_nothing(running: Kine, database: Database) -> None:
    async with opened(running.url) as store:
        database.sql(SLOW)
        writing = True

        async def write(writer: int) -> None:
            for number in range(ROUNDS):
                await store.create(f"{PODS}w{writer}/{number}", b"x")

        copies: list[tuple[set[str], Recorder]] = []

        async def read() -> None:
            while writing and len(copies) < MOST:
                page = await store.list(PODS)
                copies.append(({item.key for item in page.items}, (await follow(store, PODS, page.revision))[0]))

        async with asyncio.TaskGroup() as group:
            readers = [asyncio.create_task(read()) for _ in range(READERS)]
            for writer in range(WRITERS):
                group.create_task(write(writer))
        writing = False
        await asyncio.gather(*readers)
        whole = await store.list(PODS)
        assert len(whole.items) == WRITERS * ROUNDS
        assert len(copies) > READERS
        for keys, recorder in copies:
            await recorder.reached(whole.revision)
            assert not keys.intersection(event.key for event in recorder.seen)
            assert keys.union(event.key for event in recorder.seen) == {item.key for item in whole.items}
            assert recorder.subscription is not None
            recorder.subscription.close()
