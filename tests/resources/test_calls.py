"""How functions are called: on the loop or in threads, with deadlines, and to the end or not when a client goes."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from aggserver import App, ListRequest, Metadata, Request
from aggserver.meta.errors import StatusError
from aggserver.resources.calls import Calls
from tests.fakes.clock import settled, until
from tests.resources.served import GROUP, PATH, Apps, Rows, Ticket, ticket


@pytest.fixture
def calls() -> Iterator[Calls]:
    calls = Calls("app", 2)
    yield calls
    calls.close()


def _direct(**functions: Callable[..., Any]) -> App[None]:
    app: App[None] = App(deadline=functions.pop("deadline", 30.0), threads=functions.pop("threads", 16))  # type: ignore[arg-type]
    tickets = app.virtual(f"{GROUP}/v1", Ticket)
    for name, function in functions.items():
        getattr(tickets, name)(function)
    return app


async def test_plain_functions_do_not_run_on_the_loop(calls: Calls) -> None:
    def plain() -> int:
        return threading.get_ident()

    async def later() -> int:
        return threading.get_ident()

    assert await calls.read(plain, seconds=30.0) != threading.get_ident()
    assert await calls.read(later, seconds=30.0) == threading.get_ident()


async def test_a_function_that_holds_the_loop_is_named(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    calls = Calls("app", 2, lambda: now)

    async def quick() -> None:
        nonlocal now
        for _ in range(10):  # many short steps
            now += 0.09
            await asyncio.sleep(0)

    async def holding() -> int:
        nonlocal now
        await asyncio.sleep(0)
        now += 0.25
        return 1

    async def holding_steps() -> AsyncIterator[int]:
        nonlocal now
        now += 0.15
        yield 1

    await calls.read(quick, seconds=30.0)
    assert not caplog.records
    assert await calls.read(holding, seconds=30.0) == 1
    assert "holding held the event loop for 250 ms" in caplog.text
    assert await calls.read(holding_steps, seconds=30.0) == [1]
    assert "holding_steps held the event loop for 150 ms" in caplog.text
    calls.close()


async def test_exceptions_pass_through_measured_steps(calls: Calls) -> None:
    caught = []

    async def inner() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            caught.append("cancelled")
            raise

    async def outer() -> str:
        try:
            await _raise()
        except KeyError:
            caught.append("key")
        return await asyncio.wait_for(_soon(), 30.0)

    async def _raise() -> None:
        await asyncio.sleep(0)
        raise KeyError

    async def _soon() -> str:
        return "done"

    assert await calls.read(outer, seconds=30.0) == "done"
    task = asyncio.ensure_future(calls.read(inner, seconds=30.0))
    await settled()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert caught == ["key", "cancelled"]


async def test_all_threads_in_use() -> None:
    calls = Calls("app", 1)
    release = threading.Event()
    waiting = [asyncio.ensure_future(calls.read(release.wait, seconds=30.0)) for _ in range(17)]
    await settled()
    with pytest.raises(StatusError) as refused:
        await calls.read(lambda: 1, seconds=30.0)
    assert refused.value.code == 503
    release.set()
    assert await asyncio.gather(*waiting) == [True] * 17
    assert await calls.read(lambda: 1, seconds=30.0) == 1  # the count goes down again
    calls.close()


async def test_another_app_has_threads_of_its_own(apps: Apps) -> None:
    release = threading.Event()

    def hang(request: Request[None], name: str) -> None:
        release.wait()

    app: App[None] = App(threads=1, deadline=0.05)
    app.virtual("hangs.example.com/v1", Ticket).get(hang)
    await apps.serve(app, name="hangs")
    await apps.serve(_direct(list=lambda request: [Ticket(Metadata("a", "default"))]), name="well")
    try:
        hanging = "/apis/hangs.example.com/v1/namespaces/default/tickets/a"
        for _ in range(3):  # the second one finds no thread
            answer = await apps.client.get(hanging)
            assert (answer.status, answer.json()["reason"]) == (504, "Timeout")
        assert await apps.names() == ["a"]
    finally:
        release.set()


async def test_a_thread_that_hangs_does_not_keep_the_process() -> None:
    """Threads of concurrent.futures are joined when the interpreter ends."""
    calls = Calls("app", 1)
    release = threading.Event()
    task = asyncio.ensure_future(calls.read(release.wait, seconds=30.0))
    await settled()
    found = [thread for thread in threading.enumerate() if thread.name.startswith("app app")]
    assert [thread.daemon for thread in found] == [True]
    calls.close()
    release.set()
    assert await task


async def test_work_that_had_no_thread_yet_is_given_up_at_the_end() -> None:
    calls = Calls("app", 1)
    release = threading.Event()
    first = asyncio.ensure_future(calls.read(release.wait, seconds=30.0))
    second = asyncio.ensure_future(calls.read(release.wait, seconds=30.0))
    await settled()
    calls.close()
    with pytest.raises(asyncio.CancelledError):
        await second
    release.set()
    assert await first


# --- deadlines ---


@pytest.mark.parametrize("form", ["async", "plain", "steps", "plain steps"])
async def test_the_deadline_of_a_read(apps: Apps, form: str, caplog: pytest.LogCaptureFixture) -> None:
    release = threading.Event()

    async def hang(request: ListRequest[None]) -> list[Ticket]:
        await asyncio.Event().wait()
        return []

    def hang_in_thread(request: ListRequest[None]) -> list[Ticket]:
        release.wait()
        return []

    async def steps(request: ListRequest[None]) -> AsyncIterator[Ticket]:
        yield Ticket(Metadata("a", "default"))
        await asyncio.Event().wait()

    def plain_steps(request: ListRequest[None]) -> Iterator[Ticket]:
        yield Ticket(Metadata("a", "default"))
        release.wait()

    function = {"async": hang, "plain": hang_in_thread, "steps": steps, "plain steps": plain_steps}[form]
    await apps.serve(_direct(list=function, deadline=0.05))  # type: ignore[arg-type]
    try:
        answer = await apps.client.get(PATH)
        assert (answer.status, answer.json()["reason"]) == (504, "Timeout")
        assert function.__name__ in caplog.text
        assert function.__name__ not in answer.message
    finally:
        release.set()


async def test_what_a_request_has_left(apps: Apps) -> None:
    left = []

    async def get(request: Request[None], name: str) -> Ticket:
        left.append(request.seconds_left)
        return Ticket(Metadata(name, request.namespace))

    await apps.serve(_direct(get=get))
    assert (await apps.client.get(f"{PATH}/a?timeout=10s")).status == 200
    assert (await apps.client.get(f"{PATH}/a")).status == 200
    assert 0 < left[0] <= 10
    assert 10 < left[1] <= 60


# --- a client that goes ---


async def test_a_read_is_given_up_when_its_client_goes(apps: Apps) -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def get(request: Request[None], name: str) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    await apps.serve(_direct(get=get))
    exchange = apps.client.send("GET", f"{PATH}/a")
    await begun.wait()
    exchange.task.cancel()
    await until(cancelled.is_set)


async def test_a_write_is_finished_when_its_client_goes(apps: Apps) -> None:
    rows = Rows()
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        begun.set()
        await go_on.wait()

    await apps.serve_tickets(rows, poll=10.0)
    rows.before["create"] = slow
    exchange = apps.client.send("POST", PATH, ticket("a"))
    await begun.wait()
    exchange.task.cancel()
    await settled()
    assert rows.rows == {}
    go_on.set()
    await until(lambda: rows.rows)
    await settled()
    assert await apps.names() == ["a"]  # also before the next poll
    assert rows.calls.count("list") == 1


# --- what is logged of nobody's ---


async def test_errors_after_the_client_has_gone_are_not_left_to_asyncio(apps: Apps, caplog: pytest.LogCaptureFixture) -> None:
    rows = Rows()
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        begun.set()
        await go_on.wait()
        raise RuntimeError

    await apps.serve_tickets(rows)
    rows.before["create"] = slow
    exchange = apps.client.send("POST", PATH, ticket("a"))
    await begun.wait()
    exchange.task.cancel()
    await settled()
    go_on.set()
    await settled()
    assert not [record for record in caplog.records if record.name == "asyncio" and record.levelno >= logging.ERROR]


def test_time_is_measured_by_a_clock_that_does_not_jump() -> None:
    assert (Calls.__init__.__defaults__ or ())[0] is time.perf_counter
