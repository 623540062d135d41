"""Tasks: their state, restarts, and one replica at a time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from aggserver.app.aggregated import _lease_name
from aggserver.cluster.lease import Lease
from aggserver.resources.app import App
from aggserver.resources.events import Changed
from aggserver.resources.stored import Stored
from tests.fakes.clock import SteppedClock, settled, until
from tests.fakes.cluster import FakeCluster
from tests.resources.site_types import Site, SiteStatus
from tests.resources.stored_apps import SITES, serving, site, stored


async def test_the_state_of_the_lifespan_is_passed() -> None:
    seen: list[str] = []
    left = asyncio.Event()

    @contextlib.asynccontextmanager
    async def lifespan() -> AsyncIterator[str]:
        yield "state"
        left.set()

    app = App(lifespan)

    @app.task
    async def work(state: str) -> None:
        seen.append(state)
        await asyncio.Event().wait()

    async with serving(app):
        await until(lambda: seen)
    assert seen == ["state"]


async def test_a_task_that_fails_or_ends_is_started_again(caplog: pytest.LogCaptureFixture) -> None:
    app: App[None] = App()
    runs: list[int] = []

    @app.task
    async def work(state: None) -> None:
        runs.append(1)
        if len(runs) == 1:
            raise ValueError("broken")
        if len(runs) > 6:
            await asyncio.Event().wait()

    @app.task
    async def other(state: None) -> None:
        await asyncio.Event().wait()

    with caplog.at_level(logging.INFO, logger="aggserver"):
        async with serving(app) as running:
            await until(lambda: len(runs) == 7)
            # Longer each time, with some spread.
            assert running.slept == sorted(running.slept)
            assert running.slept[0] <= 2.0
            assert running.slept[-1] > 2 * running.slept[0]
    assert "ValueError: broken" in caplog.text
    assert "test_tasks.test_a_task_that_fails_or_ends_is_started_again.<locals>.work failed, restarting it in " in caplog.text
    assert "work has ended, restarting it in " in caplog.text


def reconciling(worked: list[str], name: str) -> tuple[App[None], Stored[Any, Site]]:
    app: App[None] = App()
    sites = stored(app)

    @app.task
    async def reconcile(state: None) -> None:
        async for event in sites.watch():
            if isinstance(event, Changed) and event.object.status.observed_generation != event.object.metadata.generation:
                event.object.status = SiteStatus(event.object.spec.replicas, event.object.metadata.generation)
                worked.append(name)
                await sites.update_status(event.object)

    return app, sites


async def test_a_task_that_writes_the_status() -> None:
    worked: list[str] = []
    app, sites = reconciling(worked, "a")
    async with serving(app) as running:
        await running.admin.post(SITES, site(replicas=3))

        async def is_ready() -> bool:
            return (await sites.get("web", "default")).status.ready == 3

        await until(is_ready)
        await running.admin.merge(f"{SITES}/web", {"spec": {"replicas": 4}})

        async def is_more() -> bool:
            return (await sites.get("web", "default")).status.ready == 4

        await until(is_more)
    assert worked == ["a", "a"]


# --- one replica at a time ---


def elected(cluster: FakeCluster, clock: SteppedClock, identity: str) -> Any:
    async def run(name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        lease = Lease(cluster, "default", f"aggserver-app-{name}", identity, clock=clock, now=clock, sleep=clock.sleep)
        await lease.run(work)

    return run


async def test_one_replica_at_a_time_by_a_lease() -> None:
    cluster, clock = FakeCluster(), SteppedClock()
    now: list[str] = []
    begun: list[str] = []

    def of(name: str) -> App[None]:
        app: App[None] = App()

        @app.task
        async def work(state: None) -> None:
            now.append(name)
            begun.append(name)
            assert len(now) == 1, now
            try:
                await asyncio.Event().wait()
            finally:
                now.remove(name)

        return app

    async with contextlib.AsyncExitStack() as second:
        async with serving(of("a"), elected=elected(cluster, clock, "a")):
            await clock.until(lambda: now == ["a"])
            await second.enter_async_context(serving(of("b"), elected=elected(cluster, clock, "b")))
            later = clock.now + 40
            await clock.until(lambda: clock.now > later)
            await settled()
            assert now == ["a"]
        # The first replica has stopped.
        await clock.until(lambda: now == ["b"])
    assert begun == ["a", "b"]
    assert now == []


@pytest.mark.parametrize(
    ("app", "name"), [("hello-app", "aggserver-app-hello-app"), ("my_pkg.Sites-app", "aggserver-app-my-pkg.sites-app")]
)
def test_the_name_of_the_lease_is_one_of_an_object(app: str, name: str) -> None:
    assert _lease_name("aggserver", app) == name
