from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aggserver.admission.cluster_namespaces import ClusterNamespaces
from aggserver.cluster import Unreachable
from aggserver.meta.errors import StatusError
from tests.fakes.clock import until
from tests.fakes.cluster import FakeCluster, status

PATH = "/api/v1/namespaces"


def namespace(name: str, phase: str = "") -> dict[str, Any]:
    return {"metadata": {"name": name}, **({"status": {"phase": phase}} if phase else {})}


@asynccontextmanager
async def running(cluster: FakeCluster) -> AsyncIterator[ClusterNamespaces]:
    namespaces = ClusterNamespaces(cluster)
    task = asyncio.create_task(namespaces.run())
    try:
        yield namespaces
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def phase_becomes(namespaces: ClusterNamespaces, name: str, phase: str) -> None:
    await until(lambda: namespaces._phases.get(name) == phase)


async def refused(namespaces: ClusterNamespaces, name: str) -> StatusError:
    with pytest.raises(StatusError) as refusal:
        await namespaces.phase(name)
    return refusal.value


async def test_phases_are_followed() -> None:
    cluster = FakeCluster()
    await cluster.put(PATH, namespace("a", "Active"))
    await cluster.put(PATH, namespace("b", "Terminating"))
    await cluster.put(PATH, namespace("c"))
    async with running(cluster) as namespaces:
        await until(lambda: namespaces.healthy() is None)
        assert [await namespaces.phase(name) for name in "abc"] == ["Active", "Terminating", "Active"]
        asked = len(cluster.calls)
        await cluster.put(PATH, namespace("a", "Terminating"))
        await phase_becomes(namespaces, "a", "Terminating")
        assert [await namespaces.phase(name) for name in "abc"] == ["Terminating", "Terminating", "Active"]
        assert len(cluster.calls) == asked, "what is known is not asked for"
        await cluster.remove(PATH, "b")
        await until(lambda: "b" not in namespaces._phases)
        assert await namespaces.phase("b") is None


async def test_one_that_is_new_is_asked_for() -> None:
    """A namespace can be used immediately after its creation, before the watch delivers it."""
    cluster = FakeCluster()
    async with running(cluster) as namespaces:
        await until(lambda: namespaces.healthy() is None)
        cluster.objects[PATH]["new"] = namespace("new", "Active")
        assert await namespaces.phase("new") == "Active"
        assert await namespaces.phase("none") is None
        assert cluster.calls[-2:] == [("GET", f"{PATH}/new"), ("GET", f"{PATH}/none")]


async def test_not_listed_yet() -> None:
    namespaces = ClusterNamespaces(FakeCluster())
    assert namespaces.healthy() == "waiting for the cluster's namespaces: they have not been listed yet"
    error = await refused(namespaces, "a")
    assert (error.code, error.retry_after) == (503, 1)
    assert error.message == (
        "not yet ready to handle request: waiting for the cluster's namespaces: they have not been listed yet"
    )


async def test_the_trouble_is_told(caplog: pytest.LogCaptureFixture) -> None:
    cluster = FakeCluster()
    cluster.fail("GET", PATH, Unreachable("connection refused"), times=1000)
    async with running(cluster) as namespaces:
        await until(lambda: "refused" in (namespaces.healthy() or ""))
        assert namespaces.healthy() == "waiting for the cluster's namespaces: connection refused"
        assert caplog.messages == ["watch of the cluster's namespaces failed: connection refused"]


LIVE: dict[str, tuple[Exception, int, str]] = {
    "refused": (
        status(403, "Forbidden", "no"),
        500,
        "Internal error occurred: namespace new could not be looked up: 403 Forbidden: no",
    ),
    "unreachable": (Unreachable("time-out"), 503, "namespace new could not be looked up: time-out"),
}


@pytest.mark.parametrize("case", LIVE)
async def test_a_look_that_fails(case: str) -> None:
    failure, code, message = LIVE[case]
    cluster = FakeCluster()
    async with running(cluster) as namespaces:
        await until(lambda: namespaces.healthy() is None)
        cluster.fail("GET", f"{PATH}/new", failure)
        error = await refused(namespaces, "new")
        assert (error.code, error.message) == (code, message)
