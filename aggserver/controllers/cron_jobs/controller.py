"""CronJobController: makes the Jobs of CronJobs when their time has come, and deletes those that history limits do not keep.

It sleeps until the next time of each schedule. A change of a CronJob or of one of its Jobs wakes it before. A Job is named after
its time, so it is not made twice, even if the server is killed before the status says that it was made.
Source: k8s.io/kubernetes pkg/controller/cronjob/cronjob_controllerv2.go, v1.36.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aggserver.controllers.cron_jobs.plan import CronJobPlan, plan_for, seconds_until_next
from aggserver.controllers.event_recorder import EventRecorder
from aggserver.controllers.internal_client import InternalClient, service_account
from aggserver.endpoints.installer import Installer
from aggserver.informers.informer import CONTROLLER, Informer
from aggserver.informers.work_queue import CallLater, call_later, in_turns
from aggserver.meta import codec
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.registry.rest import Context, DeleteOptions
from aggserver.storage.interface import Storage
from aggserver.storage.keys import ObjectKey

__all__ = ["CronJobController"]

_NAME = "cronjob-controller"
_CRON_JOBS, _JOBS = ("batch", "cronjobs"), ("batch", "jobs")
_WORKERS = 5
_AT_ONCE = 100  # Jobs that are looked at before other tasks run
# The plan of a CronJob with more Jobs than this is made in a thread.
_MANY = 500


class CronJobController:
    """The controller; `run` is its task. clock: seconds since the epoch."""

    def __init__(self, installer: Installer, storage: Storage, clock: Callable[[], float], later: CallLater = call_later) -> None:
        self._client = InternalClient(installer, storage, service_account(_NAME))
        self._clock = clock
        self._events = EventRecorder(self._client, _NAME, clock)
        self._cron_jobs = Informer(self._client.store(*_CRON_JOBS), self._sync, later, workers=_WORKERS)
        self._jobs = Informer(self._client.store(*_JOBS), self._sync_job, later)
        # The Jobs of each CronJob by their keys, and the other way round.
        self._of: dict[str, dict[str, None]] = {}
        self._owners: dict[str, str] = {}
        # Schedule and time zone of each CronJob: if they change, nothing is made up for that the new ones would have asked for.
        self._schedules: dict[str, tuple[str, str | None]] = {}

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._jobs.run())
            await self._jobs.caught_up()
            tasks.create_task(self._cron_jobs.run())

    async def _sync_job(self, key: str, job: JSONObject | None) -> None:
        owner = ""
        for entry in ((job or {}).get("metadata") or {}).get("ownerReferences") or ():
            if entry.get("controller") and entry["kind"] == "CronJob":
                owner = f"{key.partition('/')[0]}/{entry['name']}"
        known = self._owners.pop(key, "")
        if known and known != owner:
            self._of[known].pop(key, None)
            if not self._of[known]:
                del self._of[known]
        if owner:
            self._owners[key] = owner
            self._of.setdefault(owner, {})[key] = None
        for each in dict.fromkeys((known, owner)):
            if each:
                self._cron_jobs.enqueue(each)

    async def _sync(self, key: str, cron_job: JSONObject | None) -> float | None:
        if cron_job is None:
            self._schedules.pop(key, None)
            return None
        spec = cron_job["spec"]
        schedule = spec["schedule"], spec.get("timeZone")
        known, self._schedules[key] = self._schedules.get(key, schedule), schedule
        if known != schedule:
            return seconds_until_next(cron_job, self._clock())
        names = in_turns(list(self._of.get(key, ())), _AT_ONCE)
        jobs = [job async for name in names if (job := self._jobs.objects.get(name)) is not None]
        arguments = cron_job, jobs, await self._missing(cron_job, jobs), self._clock()
        plan = await asyncio.to_thread(plan_for, *arguments) if len(jobs) > _MANY else plan_for(*arguments)
        try:
            await self._carry_out(cron_job, plan)
        finally:
            await self._write_status(cron_job, plan)
        return plan.again

    async def _missing(self, cron_job: JSONObject, jobs: list[JSONObject]) -> set[str]:
        """The uids in status.active of Jobs that do not exist. Those that the informer does not know are looked up."""
        known = {job["metadata"]["uid"] for job in jobs}
        found = set()
        for entry in (cron_job.get("status") or {}).get("active") or ():
            if entry["uid"] not in known and await self._find(cron_job, entry["name"]) is None:
                found.add(entry["uid"])
        return found

    async def _find(self, cron_job: JSONObject, name: str) -> JSONObject | None:
        item = await self._client.store(*_JOBS).find(Context(CONTROLLER, cron_job["metadata"]["namespace"]), name)
        return None if item is None else item.decoded()

    async def _carry_out(self, cron_job: JSONObject, plan: CronJobPlan) -> None:
        for event in plan.events:
            say = self._events.warn if event.kind == "Warning" else self._events.tell
            await say(cron_job, event.reason, event.message)
        for job in plan.history:
            try:
                await self._delete(cron_job, job)
            except StatusError:
                continue  # the Event says it, and the next plan tries again
        for name in plan.replaced:
            if (former := await self._find(cron_job, name)) is not None:
                await self._delete(cron_job, former)
            plan.active = [entry for entry in plan.active if entry["name"] != name]
        if plan.create is not None:
            await self._create(cron_job, plan, plan.create)

    async def _delete(self, cron_job: JSONObject, job: JSONObject) -> None:
        metadata = job["metadata"]
        at = ObjectKey(*_JOBS, metadata["namespace"], metadata["name"])
        try:
            await self._client.delete(at, DeleteOptions(uid=metadata["uid"], propagation="Background"))
        except StatusError as error:
            if error.code == 404:
                return
            await self._events.warn(cron_job, "FailedDelete", f"Deleted job: {error.message}")
            raise
        await self._events.tell(cron_job, "SuccessfulDelete", f"Deleted job {metadata['name']}")

    async def _create(self, cron_job: JSONObject, plan: CronJobPlan, job: JSONObject) -> None:
        name = job["metadata"]["name"]
        try:
            made = (await self._client.create(*_JOBS, codec.decode_stored(codec.encode_json(job)))).decoded()
        except StatusError as error:
            if error.reason != "AlreadyExists":
                if "is being terminated" not in error.message:
                    await self._events.warn(cron_job, "FailedCreate", f"Error creating job: {error.message}")
                raise
            # It was made before, and the status does not say so; or it is another's.
            found = await self._find(cron_job, name)
            if found is None:
                raise
            owners = found["metadata"].get("ownerReferences") or ()
            is_own = any(entry.get("controller") and entry["uid"] == cron_job["metadata"]["uid"] for entry in owners)
            if not is_own or any(entry["uid"] == found["metadata"]["uid"] for entry in plan.active):
                return
            made = found
        else:
            await self._events.tell(cron_job, "SuccessfulCreate", f"Created job {name}")
        reference = {member: made["metadata"][member] for member in ("namespace", "name", "uid", "resourceVersion")}
        plan.active.append({"kind": "Job", "apiVersion": "batch/v1", **reference})
        plan.scheduled = plan.due

    async def _write_status(self, cron_job: JSONObject, plan: CronJobPlan) -> None:
        before, metadata = cron_job.get("status") or {}, cron_job["metadata"]
        members = {"active": plan.active or None, "lastScheduleTime": plan.scheduled, "lastSuccessfulTime": plan.successful}
        if all((before.get(member) or None) == value for member, value in members.items()):
            return

        async def with_status(current: JSONObject) -> JSONObject:
            merged = {**(current.get("status") or {}), **members}
            return {**current, "status": {member: value for member, value in merged.items() if value is not None}}

        at = ObjectKey(*_CRON_JOBS, metadata["namespace"], metadata["name"])
        written = await self._client.update(at, with_status, uid=metadata["uid"], subresource="status", of_metadata=False)
        # Else the next plan might not know of the Job that this one has made.
        self._cron_jobs.put_written(written.decoded())
