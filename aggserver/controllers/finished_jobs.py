"""FinishedJobs: deletes Jobs that have been finished for their ttlSecondsAfterFinished, with their Pods.

Source: k8s.io/kubernetes pkg/controller/ttlafterfinished/ttlafterfinished_controller.go, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Callable

from aggserver.controllers.internal_client import InternalClient, service_account
from aggserver.endpoints.installer import Installer
from aggserver.informers.informer import Informer
from aggserver.informers.work_queue import CallLater, call_later
from aggserver.meta import times
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.registry.rest import DeleteOptions
from aggserver.storage.interface import Storage
from aggserver.storage.keys import ObjectKey

__all__ = ["FinishedJobs"]

_JOBS = ("batch", "jobs")


class FinishedJobs:
    """The controller; `run` is its task. clock: seconds since the epoch."""

    def __init__(self, installer: Installer, storage: Storage, clock: Callable[[], float], later: CallLater = call_later) -> None:
        self._client = InternalClient(installer, storage, service_account("ttl-after-finished-controller"))
        self._clock = clock
        self._jobs = Informer(self._client.store(*_JOBS), self._sync, later)

    async def run(self) -> None:
        await self._jobs.run()

    async def _sync(self, key: str, job: JSONObject | None) -> float | None:
        if job is None or "deletionTimestamp" in job["metadata"]:
            return None
        seconds, since = job["spec"].get("ttlSecondsAfterFinished"), _finished_at(job)
        if seconds is None or since is None:
            return None
        left: float = since + seconds - self._clock()
        if left > 0:
            return left
        metadata = job["metadata"]
        # If the Job has changed since, it may live longer now: then the watch tells, and this is tried again.
        options = DeleteOptions(uid=metadata["uid"], resource_version=metadata["resourceVersion"], propagation="Foreground")
        try:
            await self._client.delete(ObjectKey(*_JOBS, metadata["namespace"], metadata["name"]), options)
        except StatusError as error:
            if error.code not in (404, 409):
                raise
        return None


def _finished_at(job: JSONObject) -> float | None:
    for entry in (job.get("status") or {}).get("conditions") or ():
        if entry["type"] in ("Complete", "Failed") and entry["status"] == "True" and entry.get("lastTransitionTime"):
            return times.parse_frequent_time(entry["lastTransitionTime"])
    return None
