"""What the controller of CronJobs does with one of them at a time: which Jobs it makes and deletes, and what its status says.

Source: k8s.io/kubernetes pkg/controller/cronjob/{cronjob_controllerv2,utils}.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import NamedTuple

from aggserver.kinds.schedules import Schedule, ScheduleError, is_known_zone, location, parse
from aggserver.meta import times
from aggserver.meta.golang import quote
from aggserver.meta.json_types import JSONObject

__all__ = ["CronJobPlan", "finished", "plan_for", "seconds_until_next"]

_TIMESTAMP = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_PAGE = "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/"
_DELTA = 0.1  # seconds after the time of the schedule, for clocks that differ
_MANY = 100  # missed times


class _Event(NamedTuple):
    kind: str
    reason: str
    message: str


@dataclass(slots=True)
class CronJobPlan:
    """What to write for a CronJob.

    active, scheduled, successful: what the status says: the active Jobs, lastScheduleTime and lastSuccessfulTime. events: (Normal
    or Warning, reason, message). history: finished Jobs to delete. replaced: names of Jobs to delete before `create`, a Job, is
    made. due: lastScheduleTime once it is made. again: seconds until the next plan; None if something must change before.
    """

    active: list[JSONObject]
    scheduled: str | None
    successful: str | None
    events: list[_Event] = field(default_factory=list)
    history: list[JSONObject] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    create: JSONObject | None = None
    due: str = ""
    again: float | None = None

    def say(self, kind: str, reason: str, message: str) -> None:
        self.events.append(_Event(kind, reason, message))


def plan_for(owner: JSONObject, jobs: Sequence[JSONObject], missing: Collection[str], now: float) -> CronJobPlan:
    """The plan for a CronJob.

    jobs: those whose controller has its name. missing: the uids in status.active of Jobs that do not exist. now: seconds since
    the epoch.
    """
    spec, status = owner["spec"], owner.get("status") or {}
    active = list(status.get("active") or ())
    plan = CronJobPlan(active, status.get("lastScheduleTime"), status.get("lastSuccessfulTime"))
    _look_at_jobs(plan, owner, jobs, missing)
    if "deletionTimestamp" in owner["metadata"]:
        return plan
    zone = spec.get("timeZone")
    if zone is not None and not is_known_zone(zone):
        plan.say("Warning", "UnknownTimeZone", f"invalid timeZone: {quote(zone)}: unknown time zone {zone}")
        return plan
    if spec.get("suspend"):
        return plan
    if "TZ" in spec["schedule"]:
        used = f"CRON_TZ or TZ used in schedule {quote(spec['schedule'])}"
        plan.say("Warning", "UnsupportedSchedule", f"{used} is not officially supported, see {_PAGE} for more details")
    try:
        schedule = _schedule(spec)
    except ScheduleError as error:
        plan.say("Warning", "UnparseableSchedule", f"unparseable schedule: {quote(spec['schedule'])} : {error}")
        return plan
    _start(plan, owner, schedule, now)
    return plan


def seconds_until_next(owner: JSONObject, now: float) -> float | None:
    """Seconds until the next time of the schedule; None if it has none, or can't be parsed."""
    try:
        return _until_next(owner, _schedule(owner["spec"]), now)
    except ScheduleError:
        return None


def finished(job: JSONObject) -> str:
    """`Complete` or `Failed`; '' if a Job is not finished."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    ends = (entry["type"] for entry in conditions if entry["type"] in ("Complete", "Failed") and entry["status"] == "True")
    return str(next(ends, ""))


# --- Jobs that are there ---


def _look_at_jobs(plan: CronJobPlan, owner: JSONObject, jobs: Sequence[JSONObject], missing: Collection[str]) -> None:
    spec = owner["spec"]
    for state, member in (("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")):
        if spec.get(member) is not None:
            ended = sorted((job for job in jobs if finished(job) == state), key=_by_start)
            plan.history += ended[: max(len(ended) - spec[member], 0)]
    gone = {job["metadata"]["uid"] for job in plan.history}
    plan.active = [entry for entry in plan.active if entry["uid"] not in gone]
    known = {entry["uid"] for entry in plan.active}
    for job in jobs:
        name, uid, state = job["metadata"]["name"], job["metadata"]["uid"], finished(job)
        if not state and uid not in known:
            plan.say("Warning", "UnexpectedJob", f"Saw a job that the controller did not create or forgot: {name}")
        elif state and uid in known:
            plan.active = [entry for entry in plan.active if entry["uid"] != uid]
            plan.say("Normal", "SawCompletedJob", f"Saw completed job: {name}, condition: {state}")
        end = (job.get("status") or {}).get("completionTime") if state == "Complete" else None
        if end and (plan.successful is None or _seconds(end) > _seconds(plan.successful)):
            plan.successful = end
    for entry in plan.active:
        if entry["uid"] in missing:
            plan.say("Normal", "MissingJob", f"Active job went missing: {entry['name']}")
    plan.active = [entry for entry in plan.active if entry["uid"] not in missing]


def _by_start(job: JSONObject) -> tuple[bool, float, str]:
    start = (job.get("status") or {}).get("startTime")
    return start is None, _seconds(start) if start else 0.0, job["metadata"]["name"]


# --- the next Job ---


def _start(plan: CronJobPlan, owner: JSONObject, schedule: Schedule, now: float) -> None:
    spec, status, metadata = owner["spec"], owner.get("status") or {}, owner["metadata"]
    try:
        due = _most_recent(owner, schedule, now, with_deadline=True)
    except ScheduleError as error:
        plan.say("Warning", "InvalidSchedule", f"invalid schedule: {spec['schedule']} : {error}")
        return
    plan.again = _until_next(owner, schedule, now)
    if due.time is None:
        return
    if due.missed > _MANY:
        text = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
        plan.say("Warning", "TooManyMissedTimes", text)
    deadline = spec.get("startingDeadlineSeconds")
    if deadline is not None and due.time + deadline < now:
        stamp = format_datetime(datetime.fromtimestamp(due.time, UTC))
        plan.say("Warning", "MissSchedule", f"Missed scheduled time to start a job: {stamp}")
        return
    name = f"{metadata['name']}-{due.time // 60}"
    last = status.get("lastScheduleTime")
    if any(entry["name"] == name for entry in plan.active) or (last is not None and _seconds(last) == due.time):
        return
    policy = spec.get("concurrencyPolicy")
    if policy == "Forbid" and plan.active:
        text = "Not starting job because prior execution is running and concurrency policy is Forbid"
        plan.say("Normal", "JobAlreadyActive", text)
        return
    if policy == "Replace":
        plan.replaced = [entry["name"] for entry in plan.active]
    plan.due = times.format_time(due.time)
    plan.create = _job(owner, name, due.time)


def _job(owner: JSONObject, name: str, time: int) -> JSONObject:
    spec, metadata = owner["spec"], owner["metadata"]
    template = spec["jobTemplate"]
    given = template.get("metadata") or {}
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"], "uid": metadata["uid"]}
    offset = location(spec.get("timeZone") or "")(time)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            **({"labels": given["labels"]} if given.get("labels") else {}),
            "annotations": {**(given.get("annotations") or {}), _TIMESTAMP: _with_offset(time, offset)},
            "ownerReferences": [{**reference, "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": template.get("spec") or {},
    }


def _with_offset(time: int, offset: int) -> str:
    """RFC 3339 as a clock with this offset shows the time."""
    text = times.format_time(time + offset)
    if not offset:
        return text
    minutes = abs(offset) // 60
    return f"{text[:-1]}{'-' if offset < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"


# --- times of the schedule ---


class _Due(NamedTuple):
    """since: nothing is missed before. time: the last one that was missed, None for none. missed: about how many."""

    since: float
    time: int | None
    missed: int


def _schedule(spec: JSONObject) -> Schedule:
    """Raises ScheduleError."""
    zone = spec.get("timeZone")
    is_known = zone is not None and "TZ" not in spec["schedule"] and is_known_zone(zone)
    return parse(spec["schedule"], location(zone) if is_known else None)


def _most_recent(owner: JSONObject, schedule: Schedule, now: float, *, with_deadline: bool) -> _Due:
    """Raises ScheduleError for a schedule that never comes."""
    since = _seconds((owner.get("status") or {}).get("lastScheduleTime") or owner["metadata"]["creationTimestamp"])
    deadline = owner["spec"].get("startingDeadlineSeconds")
    if with_deadline and deadline is not None:
        since = max(since, now - deadline)
    first = schedule.next(since)
    second = None if first is None else schedule.next(first)
    if first is not None and now < first:
        return _Due(since, None, 0)
    if first is not None and second is not None and now < second:
        return _Due(since, first, 0)
    if first is None or second is None or second - first < 1:
        raise ScheduleError("time difference between two schedules is less than 1 second")
    missed = int(now - first) // (second - first) + 1
    # As upstream, the search begins one interval before the last: intervals of `@every` are counted from there.
    return _Due(since, schedule.latest(first + (missed - 2) * (second - first), now), missed)


def _until_next(owner: JSONObject, schedule: Schedule, now: float) -> float | None:
    try:
        due = _most_recent(owner, schedule, now, with_deadline=False)
        since = due.time if due.time is not None else due.since if not due.missed else now
    except ScheduleError:
        since = now
    following = schedule.next(since)
    return None if following is None else max(following + _DELTA - now, 0.0)


def _seconds(text: str) -> float:
    return times.parse_frequent_time(text)
