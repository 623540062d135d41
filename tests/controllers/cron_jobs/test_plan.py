"""What the controller of CronJobs would do: by tables of what there is."""

from __future__ import annotations

from typing import Any

import pytest

from aggserver.controllers.cron_jobs.plan import CronJobPlan, plan_for, seconds_until_next
from aggserver.meta import times

NOW = times.parse_time("2026-01-02T03:04:05Z")
MINUTE = 29455384  # since the epoch, of 03:04


def cron_job(
    schedule: str = "* * * * *", *, status: Any = None, created: str = "2026-01-02T03:03:30Z", **spec: Any
) -> dict[str, Any]:
    metadata = {"name": "hi", "namespace": "default", "uid": "1", "creationTimestamp": created}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"template": {}}}
    whole = {"schedule": schedule, "jobTemplate": template, "concurrencyPolicy": "Allow", **spec}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": whole, "status": status or {}}


def job(name: str, state: str = "", *, start: str = "2026-01-02T03:00:00Z", end: str = "2026-01-02T03:01:00Z") -> dict[str, Any]:
    status: dict[str, Any] = {"startTime": start}
    if state:
        status["conditions"] = [{"type": state, "status": "True"}]
    if state == "Complete":
        status["completionTime"] = end
    return {"metadata": {"name": name, "namespace": "default", "uid": f"uid of {name}"}, "status": status}


def active(*names: str) -> dict[str, Any]:
    return {"active": [{"name": name, "uid": f"uid of {name}"} for name in names]}


def reasons(plan: CronJobPlan) -> list[str]:
    return [event.reason for event in plan.events]


STARTS: dict[str, tuple[dict[str, Any], str | None, list[str], float | None]] = {
    # name: (the CronJob, the name of the Job that is made, the reasons of Events, seconds until the next plan)
    "its time has come": (cron_job(), f"hi-{MINUTE}", [], 55.1),
    "its time has not come": (cron_job(created="2026-01-02T03:04:01Z"), None, [], 55.1),
    "it was made": (cron_job(status={"lastScheduleTime": "2026-01-02T03:04:00Z"}), None, [], 55.1),
    "it is active": (cron_job(status=active(f"hi-{MINUTE}")), None, [], 55.1),
    "the last of a few that were missed": (cron_job("* 3 * * *", created="2026-01-02T02:00:00Z"), f"hi-{MINUTE}", [], 55.1),
    "too many were missed": (cron_job(created="2026-01-01T00:00:00Z"), f"hi-{MINUTE}", ["TooManyMissedTimes"], 55.1),
    "too many were missed, but not since the deadline": (
        cron_job(created="2026-01-01T00:00:00Z", startingDeadlineSeconds=600),
        f"hi-{MINUTE}",
        [],
        55.1,
    ),
    "it is too late": (cron_job("0 3 * * *", created="2026-01-01T02:00:00Z", startingDeadlineSeconds=200), None, [], 86155.1),
    "it is late": (
        cron_job("0 3 * * *", created="2026-01-01T02:00:00Z", startingDeadlineSeconds=250),
        "hi-29455380",
        [],
        86155.1,
    ),
    "suspended": (cron_job(suspend=True), None, [], None),
    "never": (cron_job("0 0 31 2 *"), None, ["InvalidSchedule"], None),
    "not a schedule": (cron_job("nonsense"), None, ["UnparseableSchedule"], None),
    "not a time zone": (cron_job(timeZone="Nowhere"), None, ["UnknownTimeZone"], None),
    "a time zone in the schedule": (cron_job("TZ=UTC * * * * *"), f"hi-{MINUTE}", ["UnsupportedSchedule"], 55.1),
    "a time zone": (cron_job("4 12 * * *", timeZone="Asia/Tokyo"), f"hi-{MINUTE}", [], 86395.1),
    "Forbid": (cron_job(concurrencyPolicy="Forbid", status=active("hi-1")), None, ["JobAlreadyActive"], 55.1),
    "Forbid, and nothing is active": (cron_job(concurrencyPolicy="Forbid"), f"hi-{MINUTE}", [], 55.1),
    "each second": (cron_job("@every 1s"), f"hi-{MINUTE}", [], 1.1),
}


@pytest.mark.parametrize("name", STARTS)
def test_what_is_started(name: str) -> None:
    owner, made, said, again = STARTS[name]
    plan = plan_for(owner, [job(entry["name"]) for entry in owner["status"].get("active", ())], [], NOW)
    assert (plan.create and plan.create["metadata"]["name"], reasons(plan)) == (made, said)
    assert plan.again == (again if again is None else pytest.approx(again))


def test_a_new_job() -> None:
    owner = cron_job(timeZone="America/New_York")
    owner["spec"]["jobTemplate"]["metadata"]["annotations"] = {"c": "d"}
    plan = plan_for(owner, [], [], NOW)
    assert plan.due == "2026-01-02T03:04:00Z"
    assert plan.scheduled is None
    reference = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "hi", "uid": "1"}
    stamp = "batch.kubernetes.io/cronjob-scheduled-timestamp"
    assert plan.create == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"hi-{MINUTE}",
            "namespace": "default",
            "labels": {"a": "b"},
            "annotations": {"c": "d", stamp: "2026-01-01T22:04:00-05:00"},
            "ownerReferences": [{**reference, "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": {"template": {}},
    }


def test_replace() -> None:
    plan = plan_for(cron_job(concurrencyPolicy="Replace", status=active("hi-1", "hi-2")), [job("hi-1"), job("hi-2")], [], NOW)
    assert plan.replaced == ["hi-1", "hi-2"]
    assert plan.create is not None


JOBS: dict[str, tuple[dict[str, Any], list[dict[str, Any]], list[str], list[str], list[str]]] = {
    # name: (the CronJob, Jobs, those that are active then, those that are deleted, the reasons of Events)
    "one runs": (cron_job(suspend=True, status=active("a")), [job("a")], ["a"], [], []),
    "one is complete": (cron_job(suspend=True, status=active("a")), [job("a", "Complete")], [], [], ["SawCompletedJob"]),
    "one has failed": (cron_job(suspend=True, status=active("a")), [job("a", "Failed")], [], [], ["SawCompletedJob"]),
    "one is gone": (cron_job(suspend=True, status=active("gone", "a")), [job("a")], ["a"], [], ["MissingJob"]),
    "one that it did not make": (cron_job(suspend=True), [job("a")], [], [], ["UnexpectedJob"]),
    "history": (
        cron_job(suspend=True, successfulJobsHistoryLimit=1, failedJobsHistoryLimit=0),
        [
            job("new", "Complete", start="2026-01-02T03:01:00Z"),
            job("old", "Complete"),
            job("failed", "Failed"),
            job("active"),
        ],
        [],
        ["old", "failed"],
        ["UnexpectedJob"],
    ),
}


@pytest.mark.parametrize("name", JOBS)
def test_jobs_that_are_there(name: str) -> None:
    owner, jobs, then, deleted, said = JOBS[name]
    plan = plan_for(owner, jobs, ["uid of gone"], NOW)
    assert [entry["name"] for entry in plan.active] == then
    assert [each["metadata"]["name"] for each in plan.history] == deleted
    assert reasons(plan) == said


def test_the_last_success() -> None:
    jobs = [job("a", "Complete", end="2026-01-02T03:02:00Z"), job("b", "Complete"), job("c", "Failed")]
    assert plan_for(cron_job(suspend=True), jobs, [], NOW).successful == "2026-01-02T03:02:00Z"
    later = cron_job(suspend=True, status={"lastSuccessfulTime": "2026-01-02T03:03:00Z"})
    assert plan_for(later, jobs, [], NOW).successful == "2026-01-02T03:03:00Z"


def test_one_that_is_being_deleted_makes_nothing() -> None:
    owner = cron_job(status=active("a"))
    owner["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:00Z"
    plan = plan_for(owner, [job("a", "Complete")], [], NOW)
    assert (plan.create, plan.active, plan.again) == (None, [], None)


@pytest.mark.parametrize(("schedule", "seconds"), [("5 3 * * *", 55.1), ("0 0 31 2 *", None), ("x", None)])
def test_seconds_until_next(schedule: str, seconds: float | None) -> None:
    found = seconds_until_next(cron_job(schedule), NOW)
    assert found is None if seconds is None else found == pytest.approx(seconds)
