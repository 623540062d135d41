"""The queue of a controller's keys: other tasks run between two of them, and within what goes over many things."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aggserver.informers.work_queue import WorkQueue, in_turns


async def test_others_run_between_keys() -> None:
    handled: list[int] = []

    async def handle(key: int) -> None:
        handled.append(key)  # waits for nothing

    queue = WorkQueue("keys", handle)
    for key in range(100):
        queue.add(key)
    task = asyncio.create_task(queue.run())
    seen: list[int] = []
    while len(handled) < 100:
        await asyncio.sleep(0)
        seen.append(len(handled))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert all(later - before <= 1 for before, later in zip([0, *seen], seen, strict=False))


@pytest.mark.parametrize(
    ("weights", "size", "runs"),
    [([1] * 10, 5, [5, 10]), ([1] * 4, 5, []), ([1, 9, 1, 1, 20], 10, [2, 5]), ([], 1, [])],
    ids=["by number", "few", "by weight", "none"],
)
async def test_turns(weights: list[int], size: int, runs: list[int]) -> None:
    done: list[int] = []
    breaks: list[int] = []

    async def other() -> None:
        while True:
            breaks.append(len(done))
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await asyncio.sleep(0)
    given: dict[str, Any] = {} if set(weights) == {1} else {"weigh": lambda weight: weight}
    async for weight in in_turns(weights, size, **given):
        done.append(weight)  # noqa: PERF401 - the other task sees it grow
    task.cancel()
    assert breaks[1:] == runs
    assert done == weights


async def test_many_changes_are_handled_once() -> None:
    timers: list[tuple[float, Callable[[], None]]] = []
    handled: list[str] = []

    async def handle(key: str) -> float | None:
        handled.append(key)
        return None

    queue = WorkQueue("keys", handle, lambda seconds, callback: timers.append((seconds, callback)))
    task = asyncio.create_task(queue.run())
    for _ in range(3):
        queue.add("a", within=0.5)
    await asyncio.sleep(0)
    assert ([seconds for seconds, _ in timers], handled) == ([0.5], [])
    timers.pop()[1]()
    for _ in range(10):
        await asyncio.sleep(0)
    assert handled == ["a"]
    queue.add("a", within=0.25)
    assert [seconds for seconds, _ in timers] == [0.25]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
