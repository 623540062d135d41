"""Fair turns: one slice per iteration of the event loop, and users take turns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from aggserver.storage.fair_turns import FairTurns
from tests.fakes.clock import CountedLoop


@pytest.fixture
async def loop() -> AsyncIterator[CountedLoop]:
    counted = CountedLoop()
    yield counted
    counted.stop()


Taken = list[tuple[str, int]]


async def scan(turns: FairTurns, user: str, slices: int, taken: Taken, loop: CountedLoop) -> None:
    for _ in range(slices):
        await turns.turn(user)
        taken.append((user, loop.turn))


async def test_there_is_one_slice_per_iteration_of_the_event_loop(loop: CountedLoop) -> None:
    turns, taken = FairTurns(), Taken()
    await asyncio.gather(*(scan(turns, "ann", 4, taken, loop) for _ in range(25)))
    assert len(taken) == 100
    assert len({at for _, at in taken}) == 100


async def test_users_take_turns_however_many_scans_one_has(loop: CountedLoop) -> None:
    turns, taken = FairTurns(), Taken()
    crowd = [scan(turns, "ann", 5, taken, loop) for _ in range(20)]
    await asyncio.gather(*crowd, scan(turns, "bob", 5, taken, loop))
    order = [user for user, _ in taken]
    assert order.index("bob") < 3
    assert len(order) - 1 - order[::-1].index("bob") < 14  # every second slice or third, but not every 21st


async def test_the_scans_of_a_user_take_turns(loop: CountedLoop) -> None:
    turns = FairTurns()
    ended: list[int] = []

    async def numbered(number: int, slices: int) -> None:
        await scan(turns, "ann", slices, [], loop)
        ended.append(number)

    await asyncio.gather(numbered(0, 50), numbered(1, 3), numbered(2, 2))
    assert ended == [2, 1, 0]


async def test_a_cancelled_scan_keeps_no_turn(loop: CountedLoop) -> None:
    turns, taken = FairTurns(), Taken()
    tasks = [asyncio.create_task(scan(turns, user, 3, taken, loop)) for user in "abc"]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert sorted(user for user, _ in taken if user != "b") == ["a"] * 3 + ["c"] * 3
    await asyncio.wait_for(scan(turns, "d", 2, taken, loop), 5)
