"""`--storage etcd` on kine over SQLite: the contract of stores, what kine's database refuses, and the hold of one server.

`make postgres` runs the contract over PostgreSQL.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from aggserver.storage import kine
from aggserver.storage.etcd import EtcdStorage, IsKine
from aggserver.storage.interface import KeyExists, Unavailable
from aggserver.storage.kine import KineStorage
from tests.integration.test_etcd_store import World
from tests.kine.program import Kine, build
from tests.kine.storing import opened
from tests.storage import contract
from tests.storage.suite import PODS, A, B
from tests.waiting import HANG_SECONDS


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kine]:
    with Kine(build(os.environ, print), tmp_path_factory.mktemp("kine"), socket=True) as running:
        yield running


@pytest.mark.parametrize("case", contract.CASES, ids=lambda case: case.__name__)
async def test_contract(case: contract.Case, running: Kine) -> None:
    async with opened(running.url) as store:
        await case(store)


async def test_it_is_told_from_etcd(running: Kine) -> None:
    store = EtcdStorage([running.url])
    with pytest.raises(IsKine):
        await store.start()


async def test_a_write_that_the_database_refuses_is_not_acknowledged(tmp_path: Path) -> None:
    """A full disk: kine acknowledges the create of a new key, and reports lost races for the rest."""
    with Kine(build(os.environ, print), tmp_path, most_pages=400) as full:
        async with opened(full.url) as store:
            kept = {}

            async def fill() -> None:
                for number in range(1000):
                    key = f"{PODS}default/{number:04}"
                    kept[key] = await store.create(key, bytes(64 << 10))

            with pytest.raises(Unavailable, match="kine's database did not take a new key"):
                await fill()
            with pytest.raises(Unavailable, match="kine's database did not take a write"):
                await store.update(key := min(kept), bytes(64 << 10), kept[key])
            with pytest.raises(KeyExists):
                await store.create(key, b"")
            assert {item.key: item.revision for item in (await store.list(PODS)).items} == kept


async def test_of_two_servers_one_starts(running: Kine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kine, "RENEW", 0.05)
    monkeypatch.setattr(kine, "LOOK", 0.01)
    prefix = "/of-two"
    first, second = (KineStorage([running.url], prefix) for _ in range(2))
    await first.start()
    try:
        with pytest.raises(Unavailable, match=r"another server uses the store in kine .* so one server at a time"):
            await second.start()
        reader = KineStorage([running.url], prefix, writes=False)
        await reader.start()
        await first.create(A, b"1")
        assert (await reader.list(PODS)).items[0].key == A
        with pytest.raises(Unavailable, match="nothing is written"):
            await reader.create(B, b"1")
        await reader.close()
    finally:
        await first.close()
    async with asyncio.timeout(HANG_SECONDS):
        await second.start()  # the first has given its hold back
    await second.close()


async def test_a_hold_that_lapses_is_taken_over_and_its_owner_writes_nothing(
    running: Kine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first server hangs: it renews nothing. The second one sees that for as long as a hold lasts."""
    monkeypatch.setattr(kine, "LOOK", 0.0)
    times = {"first": 0.0, "second": 0.0}
    hung = asyncio.Event()

    async def hangs(seconds: float) -> None:
        await hung.wait()

    async def passes(seconds: float) -> None:
        times["second"] += 1.0
        if times["second"] < 2 * kine.LAPSE:
            await asyncio.sleep(0)
        else:
            await hung.wait()

    first = KineStorage([running.url], "/lapses", sleep=hangs, clock=lambda: times["first"])
    second = KineStorage([running.url], "/lapses", sleep=passes, clock=lambda: times["second"])
    await first.start()
    revision = await first.create(A, b"1")
    await second.start()
    try:
        assert times["second"] >= kine.LAPSE
        await second.update(A, b"2", revision)
        times["first"] = kine.LAPSE
        assert first.trouble() is not None
        for refused in (first.create(B, b"1"), first.update(A, b"3", revision), first.delete(A, revision)):
            with pytest.raises(Unavailable, match="another server may use the store"):
                await refused
        assert [item.value for item in (await first.list(PODS)).items] == [b"2"]
    finally:
        await first.close()
        await second.close()


async def test_a_restart_under_a_watch(tmp_path: Path) -> None:
    with Kine(build(os.environ, print), tmp_path) as restarted:
        async with opened(restarted.url) as store:
            world = World(store)
            await world.begin()
            for _ in range(2):
                await world.acknowledges(50)
                restarted.kill()
                restarted.start_again()
            await world.acknowledges(50)
            await world.end()
