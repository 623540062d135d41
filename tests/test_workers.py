"""Workers: whose work is next, what waits for nothing large, and what is refused."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar

import pytest

from aggserver.meta.errors import StatusError
from aggserver.workers import LARGE_BYTES, MAX_WAITING_BYTES, Workers

LARGE = LARGE_BYTES + 1
SMALL = 8 * 1024


@asynccontextmanager
async def busy(workers: Workers, sizes: Sequence[int], user: str = "first") -> AsyncIterator[None]:
    """While the threads are busy with work of these sizes."""
    begun, may_end = threading.Barrier(len(sizes) + 1), threading.Event()

    def work() -> None:
        begun.wait()
        may_end.wait()

    running = [asyncio.ensure_future(workers.run(user, size, work)) for size in sizes]
    await asyncio.to_thread(begun.wait)
    try:
        yield
    finally:
        may_end.set()
        await asyncio.gather(*running)


async def done(workers: Workers, given: Sequence[tuple[str, int]]) -> list[str]:
    """In which order the work is done that these users give at once, to a single thread that is busy. Each is named a1, a2..."""
    order: list[str] = []
    counts: dict[str, int] = {}

    def work(name: str) -> Callable[[], None]:
        return lambda: order.append(name)

    async with busy(workers, [SMALL]):
        waiting = []
        for user, size in given:
            counts[user] = counts.get(user, 0) + 1
            waiting.append(asyncio.ensure_future(workers.run(user, size, work(f"{user}{counts[user]}"))))
        await asyncio.sleep(0)
    await asyncio.gather(*waiting)
    return order


# name: (what users give, in which order it is done)
ORDERS: dict[str, tuple[list[tuple[str, int]], list[str]]] = {
    "one user": ([("a", LARGE), ("a", SMALL), ("a", LARGE)], ["a1", "a2", "a3"]),
    "many of one, then one of another": ([("a", LARGE)] * 4 + [("b", SMALL)], ["a1", "b1", "a2", "a3", "a4"]),
    "as many of two": ([("a", SMALL)] * 3 + [("b", SMALL)] * 3, ["a1", "b1", "a2", "b2", "a3", "b3"]),
    "large of one and small of another": (
        [("a", 8 * SMALL)] * 2 + [("b", SMALL)] * 5,
        ["a1", "b1", "b2", "b3", "b4", "b5", "a2"],
    ),
    "nothing weighs nothing": ([("a", 0)] * 3 + [("b", SMALL)] * 2, ["a1", "b1", "a2", "a3", "b2"]),
}


@pytest.mark.parametrize("name", ORDERS)
async def test_turns(name: str) -> None:
    given, order = ORDERS[name]
    assert await done(Workers(1, "test"), given) == order


async def test_small_work_waits_for_no_large() -> None:
    workers = Workers(2, "test")
    async with busy(workers, [LARGE]):
        large = asyncio.ensure_future(workers.run("first", LARGE, lambda: "large"))
        assert await workers.run("second", SMALL, lambda: "small") == "small"
        assert not large.done()
    assert await large == "large"


async def test_small_work_may_take_all_threads() -> None:
    workers = Workers(2, "test")
    async with busy(workers, [SMALL, SMALL]):
        pass


async def test_what_one_user_has_waiting_is_bounded() -> None:
    workers = Workers(1, "test")
    size = MAX_WAITING_BYTES // 4
    async with busy(workers, [SMALL]):
        waiting = [asyncio.ensure_future(workers.run("a", size, lambda: 1)) for _ in range(4)]
        await asyncio.sleep(0)
        with pytest.raises(StatusError) as refused:
            await workers.run("a", size, lambda: 1)
        assert (refused.value.code, refused.value.retry_after) == (429, 1)
        waiting.append(asyncio.ensure_future(workers.run("b", size, lambda: 1)))
    assert await asyncio.gather(*waiting) == [1] * 5
    assert await workers.run("a", size, lambda: 1) == 1


async def test_a_single_body_is_never_too_large() -> None:
    assert await Workers(1, "test").run("a", 2 * MAX_WAITING_BYTES, lambda: 1) == 1


async def test_what_is_cancelled_is_not_done() -> None:
    workers = Workers(1, "test")
    called: list[str] = []
    async with busy(workers, [SMALL]):
        given_up = asyncio.ensure_future(workers.run("a", MAX_WAITING_BYTES, called.append, "given up"))
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        # Its room is free at once, not only when a thread comes to it.
        later = asyncio.ensure_future(workers.run("a", MAX_WAITING_BYTES, called.append, "later"))
        await asyncio.sleep(0)
        assert not later.done()
    await later
    assert called == ["later"]


async def test_errors_are_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        await Workers(1, "test").run("a", 0, lambda: 1 // 0)


async def test_users_that_are_not_behind_are_forgotten() -> None:
    workers = Workers(1, "test")
    async with busy(workers, [SMALL]):
        users = [asyncio.ensure_future(workers.run(str(number), SMALL, lambda: 1)) for number in range(3000)]
        await asyncio.sleep(0)
    assert sum(await asyncio.gather(*users)) == 3000
    assert workers._had == {}
    assert not workers._waiting


async def test_a_function_sees_the_context_variables_of_its_caller() -> None:
    variable: ContextVar[str] = ContextVar("variable")
    variable.set("mine")
    assert await Workers(1, "test").run("alice", SMALL, variable.get) == "mine"
