from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aggserver.cluster import ClusterError, Unreachable
from aggserver.cluster.lease import RENEW_SECONDS, Lease, LeaseError
from tests.fakes.clock import SteppedClock
from tests.fakes.cluster import FakeCluster, status

# Of requests, in seconds.
DELAYS = (0.0, 0.0, 0.0, 0.1, 1.0, 2.5, 4.0, 6.0, 9.0, 20.0)
LEASES = "/apis/coordination.k8s.io/v1/namespaces/ns/leases"


class Server:
    """One of the servers: how often it began to work, and whether it works now."""

    def __init__(self, cluster: FakeCluster, clock: SteppedClock, identity: str) -> None:
        self.starts = 0
        self.working = False
        self.lease = Lease(cluster, "ns", "moves", identity, clock=clock, now=lambda: clock() + 0.5, sleep=clock.sleep)

    async def work(self) -> None:
        self.starts += 1
        self.working = True
        try:
            await asyncio.Event().wait()
        finally:
            self.working = False


@asynccontextmanager
async def running(server: Server) -> AsyncIterator[None]:
    task = asyncio.create_task(server.lease.run(server.work))
    try:
        yield
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def spec(cluster: FakeCluster) -> dict[str, Any]:
    found: dict[str, Any] = cluster.objects[LEASES]["moves"]["spec"]
    return found


async def held_by(cluster: FakeCluster, holder: str) -> None:
    held = {"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 3}
    await cluster.put(LEASES, {"metadata": {"name": "moves"}, "spec": held})


async def test_one_acquires_it_and_frees_it_at_the_end() -> None:
    cluster, clock = FakeCluster(), SteppedClock()
    first, second = Server(cluster, clock, "first"), Server(cluster, clock, "second")
    async with running(first):
        await clock.until(lambda: first.working)
        assert spec(cluster)["holderIdentity"] == "first"
        assert spec(cluster)["renewTime"] == "1970-01-01T00:16:40.500000Z"
        async with running(second):
            await clock.until(lambda: clock.now > 1060)
            assert first.working
            assert not second.working
    assert not first.working
    assert spec(cluster)["holderIdentity"] == ""
    async with running(second):
        await clock.until(lambda: second.working)
    assert spec(cluster)["leaseTransitions"] == 1


async def test_one_that_does_not_renew_loses_it_when_its_time_is_over() -> None:
    cluster, clock = FakeCluster(), SteppedClock()
    await held_by(cluster, "gone")
    server = Server(cluster, clock, "first")
    async with running(server):
        await clock.until(lambda: server.working)
    assert clock.now >= 1015, "the whole time since it was first seen"
    assert spec(cluster)["leaseTransitions"] >= 4


async def test_the_holder_stops_before_others_may_begin() -> None:
    cluster, clock = FakeCluster(), SteppedClock()
    server = Server(cluster, clock, "first")
    async with running(server):
        await clock.until(lambda: server.working)
        cluster.fail("GET", f"{LEASES}/moves", Unreachable("no answer"), times=6)
        began = clock.now
        await clock.until(lambda: not server.working)
        assert clock.now - began < 15
        await clock.until(lambda: server.starts == 2)


class Slow(FakeCluster):
    """A cluster whose requests take time before and after they are done: so long as `delay` says, by method."""

    def __init__(self, clock: SteppedClock) -> None:
        super().__init__()
        self._clock = clock
        self.delay: Callable[[str], tuple[float, float]] = lambda _: (0.0, 0.0)
        self.written: list[float] = []

    async def request(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        before, after = self.delay(method)
        await self._clock.sleep(before)
        answer = await super().request(method, path, **more)
        if method != "GET":
            self.written.append(self._clock.now)
        await self._clock.sleep(after)
        return answer


async def test_the_holder_stops_in_time_whatever_takes_long() -> None:
    clock = SteppedClock()
    cluster = Slow(clock)
    server = Server(cluster, clock, "first")
    async with running(server):
        await clock.until(lambda: server.working)
        count = len(cluster.written)
        # One more renewal is made at once, and answered late. After that nothing is answered.
        cluster.delay = lambda method: (0.0, 4.5) if method == "PUT" else (0.0, 0.0)
        await clock.until(lambda: len(cluster.written) > count)
        cluster.delay = lambda _: (1e6, 0.0)
        sent = cluster.written[-1]
        await clock.until(lambda: not server.working)
        assert clock.now - sent == RENEW_SECONDS
        cluster.delay = lambda _: (0.0, 0.0)
        await clock.until(lambda: server.starts == 2)


@pytest.mark.parametrize("seed", range(3))
async def test_never_do_two_work_however_long_requests_take(seed: int) -> None:
    clock, chance = SteppedClock(), random.Random(seed)
    cluster = Slow(clock)
    cluster.delay = lambda _: (chance.choice(DELAYS), chance.choice(DELAYS))
    servers = [Server(cluster, clock, name) for name in ("first", "second", "third")]
    most = 0

    def over() -> bool:
        nonlocal most
        most = max(most, sum(server.working for server in servers))
        return clock.now > 1600

    async with running(servers[0]), running(servers[1]), running(servers[2]):
        await clock.until(over)
        cluster.delay = lambda _: (0.0, 0.0)
    assert most == 1
    assert sum(server.starts for server in servers) > 3


async def test_the_holder_stops_if_another_has_it() -> None:
    cluster, clock = FakeCluster(), SteppedClock()
    server = Server(cluster, clock, "first")
    async with running(server):
        await clock.until(lambda: server.working)
        await held_by(cluster, "another")
        await clock.until(lambda: not server.working)
        assert spec(cluster)["holderIdentity"] == "another", "it is not freed"


async def test_a_conflict_means_that_another_was_faster() -> None:
    cluster, clock = FakeCluster(), SteppedClock()
    cluster.fail("POST", LEASES, status(409, "AlreadyExists"))
    server = Server(cluster, clock, "first")
    async with running(server):
        await clock.until(lambda: server.working)
    assert clock.now == 1002


async def test_no_right_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    cluster, clock = FakeCluster(), SteppedClock()
    cluster.fail("GET", f"{LEASES}/moves", status(403, "Forbidden", "no"), times=5)
    server = Server(cluster, clock, "first")
    async with running(server):
        await clock.until(lambda: server.working)
    told = [record.message for record in caplog.records if "can't be acquired" in record.message]
    assert told == [
        "the Lease moves can't be acquired: 403 Forbidden: no; grant get, create and update on leases.coordination.k8s.io in "
        "the namespace of this server's Service to its service account"
    ]


async def test_an_error_of_the_work_is_raised() -> None:
    async def work() -> None:
        raise ValueError("why")

    lease = Lease(FakeCluster(), "ns", "moves", "first", sleep=SteppedClock().sleep)
    with pytest.raises(ValueError, match="why"):
        await lease.run(work)


async def test_a_confirmation_is_a_write() -> None:
    cluster, clock = FakeCluster(), SteppedClock()
    lease = Server(cluster, clock, "first").lease
    await lease.confirm()
    cluster.calls.clear()
    await lease.confirm()
    assert cluster.calls == [("GET", f"{LEASES}/moves"), ("PUT", f"{LEASES}/moves")]
    # The task that renews it was faster.
    cluster.fail("PUT", f"{LEASES}/moves", status(409, "Conflict"), times=2)
    await lease.confirm()
    cluster.fail("PUT", f"{LEASES}/moves", status(500, "InternalError", "etcdserver: mvcc: database space exceeded"))
    with pytest.raises(ClusterError, match="database space exceeded"):
        await lease.confirm()
    await held_by(cluster, "second")
    with pytest.raises(LeaseError, match="the Lease moves is held by second"):
        await lease.confirm()
