from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aggserver.cluster import ClusterError, Unreachable
from aggserver.cluster.lease import Lease, LeaseError
from tests.fakes.clock import FakeClock, until
from tests.fakes.cluster import FakeCluster, status

LEASES = "/apis/coordination.k8s.io/v1/namespaces/ns/leases"


class Server:
    """One of the servers: how often it began to work, and whether it works now."""

    def __init__(self, cluster: FakeCluster, clock: FakeClock, identity: str) -> None:
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
    cluster, clock = FakeCluster(), FakeClock()
    first, second = Server(cluster, clock, "first"), Server(cluster, clock, "second")
    async with running(first):
        await until(lambda: first.working)
        assert spec(cluster)["holderIdentity"] == "first"
        assert spec(cluster)["renewTime"] == "1970-01-01T00:16:40.500000Z"
        async with running(second):
            await until(lambda: clock.now > 1060)
            assert first.working
            assert not second.working
    assert not first.working
    assert spec(cluster)["holderIdentity"] == ""
    async with running(second):
        await until(lambda: second.working)
    assert spec(cluster)["leaseTransitions"] == 1


async def test_one_that_does_not_renew_loses_it_when_its_time_is_over() -> None:
    cluster, clock = FakeCluster(), FakeClock()
    await held_by(cluster, "gone")
    server = Server(cluster, clock, "first")
    async with running(server):
        await until(lambda: server.working)
    assert clock.slept.count(2.0) * 2 + 1000 >= 1015, "the whole time since it was first seen"
    assert spec(cluster)["leaseTransitions"] >= 4


async def test_the_holder_stops_before_others_may_begin() -> None:
    cluster, clock = FakeCluster(), FakeClock()
    server = Server(cluster, clock, "first")
    async with running(server):
        await until(lambda: server.working)
        cluster.fail("GET", f"{LEASES}/moves", Unreachable("no answer"), times=6)
        began = clock.now
        await until(lambda: not server.working)
        assert clock.now - began < 15
        await until(lambda: server.starts == 2)


async def test_the_holder_stops_if_another_has_it() -> None:
    cluster, clock = FakeCluster(), FakeClock()
    server = Server(cluster, clock, "first")
    async with running(server):
        await until(lambda: server.working)
        await held_by(cluster, "another")
        await until(lambda: not server.working)
        assert spec(cluster)["holderIdentity"] == "another", "it is not freed"


async def test_a_conflict_means_that_another_was_faster() -> None:
    cluster, clock = FakeCluster(), FakeClock()
    cluster.fail("POST", LEASES, status(409, "AlreadyExists"))
    server = Server(cluster, clock, "first")
    async with running(server):
        await until(lambda: server.working)
    assert clock.slept[0] == 2.0


async def test_no_right_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    cluster, clock = FakeCluster(), FakeClock()
    cluster.fail("GET", f"{LEASES}/moves", status(403, "Forbidden", "no"), times=5)
    server = Server(cluster, clock, "first")
    async with running(server):
        await until(lambda: server.working)
    told = [record.message for record in caplog.records if "can't be acquired" in record.message]
    assert told == [
        "the Lease moves can't be acquired: 403 Forbidden: no; grant get, create and update on leases.coordination.k8s.io in "
        "the namespace of this server's Service to its service account"
    ]


async def test_an_error_of_the_work_is_raised() -> None:
    async def work() -> None:
        raise ValueError("why")

    lease = Lease(FakeCluster(), "ns", "moves", "first", sleep=FakeClock().sleep)
    with pytest.raises(ValueError, match="why"):
        await lease.run(work)


async def test_a_confirmation_is_a_write() -> None:
    cluster, clock = FakeCluster(), FakeClock()
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
