"""PodRunner: shows every Pod as running at once, for `--pods=run`.

It replaces the scheduler and a kubelet, as kwok does: no container runs, but objects get the status that clients wait for. It
creates one node and binds Pods to it. They are ready once they are bound, and complete after a while if a Job controls them; a
deleted Pod is gone at once. `running.py` decides what to write.
Source: k8s.io/kubernetes pkg/kubelet, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Callable

from aggserver.controllers.internal_client import InternalClient
from aggserver.controllers.pods import running as running_pods
from aggserver.controllers.workloads.daemon_sets import node_of
from aggserver.controllers.workloads.plan import controller_of
from aggserver.endpoints.installer import Installer
from aggserver.informers.informer import CONTROLLER
from aggserver.meta import times
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.registry.rest import DeleteOptions
from aggserver.storage.interface import Storage
from aggserver.storage.keys import ObjectKey

__all__ = ["PodRunner"]

NODE = "aggserver"
_SCHEDULERS = ("", "default-scheduler")


class PodRunner:
    """clock: seconds since the epoch. job_seconds: how long the Pods of Jobs run."""

    def __init__(self, installer: Installer, storage: Storage, clock: Callable[[], float], job_seconds: float = 0.0) -> None:
        self._client = InternalClient(installer, storage, CONTROLLER)
        self._clock = clock
        self._job_seconds = job_seconds

    async def make_node(self) -> None:
        try:
            await self._client.create("", "nodes", running_pods.node(NODE))
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise
        status = running_pods.node_status(NODE, self._now())
        await self._write_status(ObjectKey("", "nodes", "", NODE), "", status)

    async def sync(self, pod: JSONObject) -> float | None:
        """Do the next step with a Pod that was written. Returns the seconds until the step after it, if it waits for time."""
        metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
        at = ObjectKey("", "pods", metadata["namespace"], metadata["name"])
        phase = status.get("phase") or "Pending"
        controller = controller_of(pod)
        if "deletionTimestamp" in metadata:
            if metadata.get("deletionGracePeriodSeconds"):
                if phase == "Running":
                    await self._write_status(at, metadata["uid"], lambda now: running_pods.completed(pod, now))
                await self._delete(at, metadata["uid"])
        elif not spec.get("nodeName"):
            if spec.get("schedulerName", "") in _SCHEDULERS and not spec.get("schedulingGates"):
                await self._bind(at, metadata["uid"], node_of(pod) or NODE)
        elif phase == "Pending" or (phase == "Running" and spec.get("readinessGates")):
            await self._write_status(at, metadata["uid"], lambda now: running_pods.running(pod, now))
        elif phase == "Running" and controller is not None and controller["kind"] == "Job":
            left = self._job_seconds
            if left and status.get("startTime"):
                left += times.parse_frequent_time(status["startTime"]) - self._clock()
            if left > 0:
                return left
            await self._write_status(at, metadata["uid"], lambda now: running_pods.completed(pod, now))
        return None

    async def _bind(self, at: ObjectKey, uid: str, node: str) -> None:
        metadata = {"name": at.name, "namespace": at.namespace, "uid": uid}
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        await self._client.create("", "pods", binding, "binding")

    async def _write_status(self, at: ObjectKey, uid: str, status: JSONObject | Callable[[str], JSONObject]) -> None:
        """Merge members into an object's status. status: the members, or a function of the time (RFC 3339)."""
        members = status(self._now()) if callable(status) else status

        async def with_status(current: JSONObject) -> JSONObject:
            return {**current, "status": {**(current.get("status") or {}), **members}}

        await self._client.update(at, with_status, uid=uid, subresource="status", of_metadata=False)

    async def _delete(self, at: ObjectKey, uid: str) -> None:
        try:
            await self._client.delete(at, DeleteOptions(uid=uid, propagation="Background", grace_period_seconds=0))
        except StatusError as error:
            if error.code != 404:
                raise

    def _now(self) -> str:
        return times.format_time(self._clock())
