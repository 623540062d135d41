"""CronJobs, and the lifetime of finished Jobs, on a server in memory whose clock stands until a test sets it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from aggserver.controllers.cron_jobs.controller import CronJobController
from aggserver.controllers.finished_jobs import FinishedJobs
from aggserver.kinds.served import Kinds
from aggserver.meta import times
from tests.fakes.asgi import Client
from tests.fakes.server import NOW, LocalServer

BATCH, EVENTS = "/apis/batch/v1/namespaces/default", "/api/v1/namespaces/default/events"
CRON_JOBS, JOBS = f"{BATCH}/cronjobs", f"{BATCH}/jobs"
POD = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
MINUTE = int(NOW) // 60 + 1  # the first after the server's start


@pytest.fixture(autouse=True)
async def running(server: LocalServer) -> AsyncIterator[None]:
    environment = replace(server.environment, random=random.Random(1).randrange)
    kinds = Kinds(environment, server.engine.admission)
    server.engine.installer.install([("built-in kinds", kinds.served())])
    server.run()
    parts = server.engine.installer, server.storage, server.clock, server.timers.call_later
    tasks = [asyncio.create_task(run) for run in (CronJobController(*parts).run(), FinishedJobs(*parts).run())]
    yield
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    kinds.end_watches()


async def until(client: Client, path: str, holds: Callable[[Any], bool]) -> Any:
    for _ in range(300):
        answer = (await client.get(path)).json()
        if holds(answer):
            return answer
        await asyncio.sleep(0)
    raise AssertionError(answer)


async def created(client: Client, name: str = "hi", schedule: str = "* * * * *", **spec: Any) -> None:
    spec = {"schedule": schedule, "jobTemplate": {"spec": {"template": POD}}, **spec}
    body = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name}, "spec": spec}
    answer = await client.post(CRON_JOBS, body)
    assert answer.status == 201, answer.body


async def jobs(client: Client, *names: str) -> list[Any]:
    found = await until(client, JOBS, lambda found: sorted(each["metadata"]["name"] for each in found["items"]) == [*names])
    items: list[Any] = found["items"]
    return items


async def sleeps(server: LocalServer, least: float = 1.0) -> float:
    """The seconds until the controller's next appointment, once it has one."""
    for _ in range(300):
        if found := [seconds for seconds in server.timers.seconds if seconds >= least]:
            return found[-1]
        await asyncio.sleep(0)
    raise AssertionError(server.timers.seconds)


async def minute_passes(server: LocalServer) -> None:
    seconds = await sleeps(server)
    server.clock.now += seconds
    server.timers.fire(seconds)


async def finish(client: Client, server: LocalServer, name: str, kind: str = "Complete") -> None:
    stamp = times.format_time(server.clock.now)
    types = ("SuccessCriteriaMet", "Complete") if kind == "Complete" else ("FailureTarget", "Failed")
    conditions = [{"type": each, "status": "True", "lastTransitionTime": stamp, "lastProbeTime": stamp} for each in types]
    status: dict[str, Any] = {"startTime": stamp, "conditions": conditions}
    if kind == "Complete":
        status |= {"completionTime": stamp, "succeeded": 1}
    answer = await client.merge(f"{JOBS}/{name}/status", {"status": status})
    assert answer.status == 200, answer.body


async def events(client: Client, **counts: int) -> None:
    def holds(found: Any) -> bool:
        return {each["reason"]: each["count"] for each in found["items"]} == counts

    await until(client, EVENTS, holds)


async def test_jobs_by_schedule(client: Client, server: LocalServer) -> None:
    await created(client)
    await minute_passes(server)
    (job,) = await jobs(client, f"hi-{MINUTE}")
    assert [owner["kind"] for owner in job["metadata"]["ownerReferences"]] == ["CronJob"]
    cron_job = await until(client, f"{CRON_JOBS}/hi", lambda found: "active" in found["status"])
    (active,) = cron_job["status"]["active"]
    assert (active["name"], active["uid"]) == (job["metadata"]["name"], job["metadata"]["uid"])
    assert cron_job["status"]["lastScheduleTime"] == times.format_time(MINUTE * 60)
    await finish(client, server, f"hi-{MINUTE}")
    stamp = times.format_time(server.clock.now)
    done = await until(client, f"{CRON_JOBS}/hi", lambda found: found["status"].get("lastSuccessfulTime") == stamp)
    assert "active" not in done["status"]
    await events(client, SuccessfulCreate=1, SawCompletedJob=1)
    await minute_passes(server)
    await jobs(client, f"hi-{MINUTE}", f"hi-{MINUTE + 1}")


async def test_history_limits(client: Client, server: LocalServer) -> None:
    await created(client, successfulJobsHistoryLimit=1, failedJobsHistoryLimit=0)
    names = [f"hi-{MINUTE + number}" for number in range(3)]
    for number, kind in enumerate(("Complete", "Complete", "Failed")):
        await minute_passes(server)
        await until(client, f"{JOBS}/{names[number]}", lambda found: found["kind"] == "Job")
        await until(client, f"{CRON_JOBS}/hi", lambda found: "active" in found["status"])
        await finish(client, server, names[number], kind)
        await until(client, f"{CRON_JOBS}/hi", lambda found: "active" not in found["status"])
    await jobs(client, names[1])


@pytest.mark.parametrize(("policy", "left"), [("Allow", (0, 1)), ("Forbid", (0,)), ("Replace", (1,))])
async def test_concurrency(client: Client, server: LocalServer, policy: str, left: tuple[int, ...]) -> None:
    await created(client, concurrencyPolicy=policy)
    await minute_passes(server)
    await jobs(client, f"hi-{MINUTE}")
    await until(client, f"{CRON_JOBS}/hi", lambda found: "active" in found["status"])
    await minute_passes(server)
    await jobs(client, *(f"hi-{MINUTE + number}" for number in left))
    if policy == "Forbid":
        await events(client, SuccessfulCreate=1, JobAlreadyActive=1)


async def test_a_job_is_not_made_twice(client: Client, server: LocalServer) -> None:
    """As after a kill between the Job and the status."""
    await created(client, concurrencyPolicy="Allow")
    await minute_passes(server)
    (job,) = await jobs(client, f"hi-{MINUTE}")
    await until(client, f"{CRON_JOBS}/hi", lambda found: "active" in found["status"])
    await client.merge(f"{CRON_JOBS}/hi/status", {"status": {"active": None, "lastScheduleTime": None}})
    cron_job = await until(client, f"{CRON_JOBS}/hi", lambda found: "active" in found["status"])
    assert [entry["uid"] for entry in cron_job["status"]["active"]] == [job["metadata"]["uid"]]


async def test_a_deleted_job_is_not_active(client: Client, server: LocalServer) -> None:
    await created(client)
    await minute_passes(server)
    await jobs(client, f"hi-{MINUTE}")
    await until(client, f"{CRON_JOBS}/hi", lambda found: "active" in found["status"])
    await client.delete(f"{JOBS}/hi-{MINUTE}", {"propagationPolicy": "Background"})
    await until(client, f"{CRON_JOBS}/hi", lambda found: "active" not in found["status"])
    await jobs(client)


async def test_a_new_schedule_starts_nothing_for_the_past(client: Client, server: LocalServer) -> None:
    await created(client, schedule="0 0 1 1 *")
    await sleeps(server)
    server.clock.now += 600
    await client.merge(f"{CRON_JOBS}/hi", {"spec": {"schedule": "*/5 * * * *"}})
    for _ in range(300):
        if (shortest := min(server.timers.seconds)) < 600:
            break
        await asyncio.sleep(0)
    await jobs(client)
    server.timers.fire(shortest)
    ((job),) = (await until(client, JOBS, lambda found: found["items"]))["items"]
    assert job["metadata"]["name"] == f"hi-{(int(NOW) + 600) // 300 * 5}"


async def test_a_schedule_that_never_comes(client: Client, server: LocalServer) -> None:
    await created(client, schedule="0 0 31 2 *")
    await events(client, InvalidSchedule=1)
    await client.merge(f"{CRON_JOBS}/hi", {"metadata": {"labels": {"a": "b"}}})
    await events(client, InvalidSchedule=2)
    for number in range(60):
        await client.merge(f"{CRON_JOBS}/hi", {"metadata": {"labels": {"a": str(number)}}})
        await asyncio.sleep(0)
    found = await until(client, EVENTS, lambda found: found["items"][0]["count"] >= 25)
    assert [each["count"] for each in found["items"]] == [25]


@pytest.mark.parametrize("schedule", ["nonsense", "TZ=UTC * * * * *"])
async def test_what_is_refused(client: Client, schedule: str) -> None:
    await created(client)
    answer = await client.merge(f"{CRON_JOBS}/hi", {"spec": {"schedule": schedule}})
    assert (answer.status, answer.json()["details"]["causes"][0]["field"]) == (422, "spec.schedule")


async def test_a_finished_job_is_deleted_in_time(client: Client, server: LocalServer) -> None:
    for name, seconds in (("later", 100), ("now", 0)):
        spec = {"template": POD, "ttlSecondsAfterFinished": seconds}
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
        assert (await client.post(JOBS, body)).status == 201
    await finish(client, server, "now")
    await jobs(client, "later")
    await finish(client, server, "later")
    assert await sleeps(server, 99.0) == 100
    server.clock.now += 100
    server.timers.fire(100)
    await jobs(client)
