"""Crowd: a few watches begin in a turn of the event loop, in the order in which they came."""

from __future__ import annotations

import asyncio

from aggserver.endpoints import crowd as crowd_module
from aggserver.endpoints.crowd import Crowd


async def test_a_few_begin_in_each_turn() -> None:
    crowd = Crowd()
    turn, begun = 0, list[tuple[int, int]]()

    async def begin(number: int) -> None:
        await crowd.wait()
        begun.append((number, turn))

    tasks = [asyncio.create_task(begin(number)) for number in range(50)]
    tasks[20].cancel()
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        turn += 1
    assert [number for number, _ in begun] == [number for number in range(50) if number != 20]
    turns = [at for _, at in begun]
    assert max(map(turns.count, turns)) == crowd_module._AT_ONCE


async def test_one_that_gave_up_while_it_waited_takes_no_place() -> None:
    crowd = Crowd()
    tasks = [asyncio.create_task(crowd.wait()) for _ in range(4 * crowd_module._AT_ONCE)]
    await asyncio.sleep(0)
    for task in tasks[crowd_module._AT_ONCE : 3 * crowd_module._AT_ONCE]:
        task.cancel()
    for _ in range(3):
        await asyncio.sleep(0)
    assert all(task.done() for task in tasks)


async def test_a_single_one_never_waits() -> None:
    crowd = Crowd()
    for _ in range(3):
        waiting = crowd.wait()
        try:
            waiting.send(None)
        except StopIteration:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            continue
        raise AssertionError("it waited")
