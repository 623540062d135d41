"""A task that several controllers share runs while one of them does."""

from __future__ import annotations

import asyncio

import pytest

from aggserver.informers.shared import SharedTask
from tests.fakes.clock import settled


class Task:
    """begun, ended: how often it was. broken: set when it is to fail."""

    def __init__(self) -> None:
        self.begun = self.ended = 0
        self.broken = asyncio.Event()

    async def run(self) -> None:
        self.begun += 1
        try:
            await self.broken.wait()
            raise ValueError("broken")
        finally:
            self.ended += 1


async def end(*users: asyncio.Task[None]) -> None:
    for user in users:
        user.cancel()
    await asyncio.gather(*users, return_exceptions=True)


async def test_it_runs_once_until_the_last_one_ends() -> None:
    task = Task()
    shared = SharedTask(task.run)
    one, two = (asyncio.create_task(shared.run()) for _ in range(2))
    await settled()
    assert (task.begun, task.ended) == (1, 0)
    await end(one)
    assert (task.begun, task.ended) == (1, 0)
    await end(two)
    assert (task.begun, task.ended) == (1, 1)
    three = asyncio.create_task(shared.run())
    await settled()
    assert (task.begun, task.ended) == (2, 1)
    await end(three)


async def test_when_it_fails_all_do() -> None:
    task = Task()
    shared = SharedTask(task.run)
    users = [asyncio.create_task(shared.run()) for _ in range(2)]
    await settled()
    task.broken.set()
    for user in users:
        with pytest.raises(ValueError, match="broken"):
            await user
    assert task.begun == 1
