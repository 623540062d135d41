"""What is logged of an API server that is away: once for all watches of it, and once when it is back."""

from __future__ import annotations

import asyncio
import logging

import pytest

from aggserver.cluster import Unreachable
from aggserver.cluster.outage import Outage
from aggserver.cluster.reflector import Reflector
from tests.fakes.clock import FakeClock, settled, until
from tests.fakes.cluster import FakeCluster, status

SERVER = "https://fake.test:6443"
AWAY = f"{SERVER} can't be reached: connection refused; watches keep what was last known, and try again"


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "aggserver.cluster")
    return caplog


# What happens, to which watch: its reason, "" if the server answers it, None if the watch ends. Then what is logged.
CASES: dict[str, tuple[list[tuple[str, str | None]], list[str]]] = {
    "one attempt": ([("a", "connection refused")], [AWAY]),
    "several of several watches": ([(each, "connection refused") for each in "abcabc"], [AWAY]),
    "another reason": (
        [("a", "connection refused"), ("b", "no answer within 9 s"), ("a", "no answer within 9 s"), ("b", "connection refused")],
        [AWAY, "b: no answer within 9 s"],
    ),
    "back": ([("a", "connection refused"), ("b", "connection refused"), ("b", ""), ("a", "")], [AWAY, "2"]),
    "one is not back yet": ([("a", "connection refused"), ("b", "connection refused"), ("b", "")], [AWAY]),
    "what was never away": ([("a", "")], []),
    "back, and away again": ([("a", "connection refused"), ("a", ""), ("a", "connection refused")], [AWAY, "1", AWAY]),
    "one ends meanwhile": ([("a", "connection refused"), ("b", "connection refused"), ("b", None), ("a", "")], [AWAY, "1"]),
    "the last one ends": ([("a", "connection refused"), ("a", None), ("b", "")], [AWAY]),
}


# Seconds from the first to the last failure; each step takes ten.
FAILED = {"back": 10, "one ends meanwhile": 10}


@pytest.mark.parametrize("name", CASES)
def test_outage(name: str, log: pytest.LogCaptureFixture) -> None:
    steps, told = CASES[name]
    clock = FakeClock()
    outage = Outage(clock=clock)
    for number, (watch, reason) in enumerate(steps):
        clock.advance(10.0)
        if reason:
            outage.lost(watch, SERVER, reason, f"{watch}: {reason}")
        elif reason is None:
            outage.ended(watch)
        else:
            outage.reached(watch, SERVER)
        assert number or len(log.messages) == (reason != "")
    back = {n: f"{SERVER} answers again; attempts failed for {FAILED.get(name, 0)} s; watches that go on: {n}" for n in "12"}
    assert log.messages == [back.get(each, each) for each in told]
    assert [each.levelname for each in log.records] == ["INFO" if each in back else "WARNING" for each in told]


async def test_a_watch_that_is_cut_again_and_again(log: pytest.LogCaptureFixture) -> None:
    """Lists are answered meanwhile."""
    cluster, clock = FakeCluster(), FakeClock()
    cluster.outage = Outage(clock=clock)
    cluster.fail("WATCH", "/api/v1/a", Unreachable("cut"), times=20)
    reflector = Reflector(
        cluster, "/api/v1/a", {}, lambda *_: None, lambda _: None, clock=clock, sleep=clock.sleep, random=lambda: 0.0
    )
    task = asyncio.create_task(reflector.run())
    await until(lambda: cluster.calls.count(("GET", "/api/v1/a")) > 5)
    assert [message.partition(" can't be reached")[2] != "" for message in log.messages] == [True]
    await until(lambda: not cluster._failures)
    await settled()
    await cluster.put("/api/v1/a", {"metadata": {"name": "new"}})
    await until(lambda: "answers again" in log.messages[-1])
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert len(log.messages) == 2


async def test_a_watch_that_ends_is_not_waited_for(log: pytest.LogCaptureFixture) -> None:
    """As those of a server that moves no definitions any more, because it could not renew its Lease."""
    cluster, clock = FakeCluster(), FakeClock()
    cluster.outage = Outage(clock=clock)
    cluster.outage.lost("another", SERVER, "connection refused", "")
    cluster.fail("GET", "/api/v1/a", Unreachable("refused", why="connection refused"), times=1000)
    failed = asyncio.Event()
    reflector = Reflector(
        cluster, "/api/v1/a", {}, lambda *_: None, lambda _: failed.set(), clock=clock, sleep=clock.sleep, random=lambda: 0.0
    )
    task = asyncio.create_task(reflector.run())
    await failed.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    cluster.outage.reached("another", SERVER)
    assert log.messages[0] == AWAY
    assert log.messages[1].endswith("watches that go on: 1")


async def test_watches_of_a_server_that_is_away(log: pytest.LogCaptureFixture) -> None:
    """Each fails five times, in two ways; one of them is refused when the server is back."""
    cluster, clock = FakeCluster(), FakeClock()
    cluster.outage = Outage(clock=clock)
    paths, errors = ("/api/v1/a", "/api/v1/b", "/api/v1/c"), list[str]()
    for path in paths:
        for number in range(5):
            why = "connection refused" if number else "the connection was closed"
            cluster.fail("GET", path, Unreachable(f"{SERVER}{path}: {why}", why=why))
    cluster.fail("GET", paths[2], status(403, "Forbidden", "no"), times=1000)
    tasks = [
        asyncio.create_task(
            Reflector(
                *(cluster, path, {}, lambda *_: None, lambda error: errors.append(str(error))),
                clock=clock,
                sleep=clock.sleep,
                random=lambda: 0.0,
            ).run()
        )
        for path in paths
    ]
    await until(lambda: cluster.watches == 2 and "403 Forbidden: no" in errors)
    *away, back = log.messages
    assert away == [
        f"{SERVER} can't be reached: the connection was closed; watches keep what was last known, and try again",
        f"{SERVER}/api/v1/a: connection refused",
    ]
    assert back.endswith("s; watches that go on: 3")
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
