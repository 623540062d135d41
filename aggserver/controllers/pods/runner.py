"""PodRunner: shows every Pod as running at once, and creates the Pods of workloads, for `--pods=run`.

It replaces the scheduler, a kubelet and kube-controller-manager's controllers of workloads, as kwok does: no container runs, but
objects get the status that clients wait for. It creates one node and binds Pods to it. They are ready once they are bound, and
complete if a Job controls them; a deleted Pod is gone at once. `workloads.py` and `running.py` decide what to write.
Source: k8s.io/kubernetes pkg/controller, pkg/kubelet, v1.36.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from aggserver.controllers.internal_client import InternalClient
from aggserver.controllers.pods import running as running_pods
from aggserver.controllers.pods import workloads
from aggserver.controllers.pods.workloads import WorkloadPlan, controller_of
from aggserver.endpoints.installer import Installer
from aggserver.informers.informer import ALL, CONTROLLER, Informer
from aggserver.informers.work_queue import CallLater, call_later, in_turns
from aggserver.meta import codec, times
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.registry.rest import Context, DeleteOptions
from aggserver.storage import keys
from aggserver.storage.interface import Storage
from aggserver.storage.keys import ObjectKey

__all__ = ["PodRunner"]

NODE = "aggserver"
_PODS, _CLAIMS, _SETS = ("", "pods"), ("", "persistentvolumeclaims"), ("apps", "replicasets")
_BY_KIND = {"Pod": _PODS, "PersistentVolumeClaim": _CLAIMS, "ReplicaSet": _SETS}
_WORKLOADS = {
    "ReplicaSet": _SETS,
    "Deployment": ("apps", "deployments"),
    "StatefulSet": ("apps", "statefulsets"),
    "DaemonSet": ("apps", "daemonsets"),
    "Job": ("batch", "jobs"),
}
_SCHEDULERS = ("", "default-scheduler")
_WORKERS = 8
# The plan of a workload with more Pods than this is made in a thread.
_MANY = 500
# Bytes of Pods that are decoded before other tasks run: some milliseconds.
_DECODED = 256 * 1024


class _Controller(NamedTuple):
    kind: str
    key: str
    uid: str


class PodRunner:
    """The controller; `run` is its task. clock: seconds since the epoch."""

    def __init__(self, installer: Installer, storage: Storage, clock: Callable[[], float], later: CallLater = call_later) -> None:
        self._client = InternalClient(installer, storage, CONTROLLER)
        self._clock = clock
        self._pods = Informer(self._client.store(*_PODS), self._sync_pod, later, workers=_WORKERS)
        self._workloads = {
            kind: Informer(self._client.store(*resource), partial(self._sync, kind), later, workers=_WORKERS)
            for kind, resource in _WORKLOADS.items()
        }
        # The controller of each Pod and ReplicaSet, by their kinds and keys, which is synced again when one is gone.
        self._controllers: dict[tuple[str, str], _Controller] = {}
        # The keys of Pods and ReplicaSets, by their kinds and the uid of their controller.
        self._controlled_by: dict[tuple[str, str], dict[str, None]] = {}

    async def run(self) -> None:
        await self._make_node()
        async with asyncio.TaskGroup() as tasks:
            for informer in (self._pods, *self._workloads.values()):
                tasks.create_task(informer.run())

    async def _make_node(self) -> None:
        try:
            await self._client.create("", "nodes", running_pods.node(NODE))
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise
        status = running_pods.node_status(NODE, self._now())
        at = ObjectKey("", "nodes", "", NODE)
        await self._write_status(at, "", status)

        async def ready(current: JSONObject) -> JSONObject:
            return running_pods.without_not_ready(current)

        await self._client.update(at, ready, of_metadata=False)

    def _now(self) -> str:
        return times.format_time(self._clock())

    # --- Pods ---

    async def _sync_pod(self, key: str, pod: JSONObject | None) -> float | None:
        self._enqueue_controllers("Pod", key, pod)
        if pod is None:
            return None
        metadata, spec = pod["metadata"], pod["spec"]
        at = ObjectKey("", "pods", metadata["namespace"], metadata["name"])
        phase = (pod.get("status") or {}).get("phase") or "Pending"
        controller = controller_of(pod)
        if "deletionTimestamp" in metadata:
            if metadata.get("deletionGracePeriodSeconds"):
                if phase == "Running":
                    await self._write_status(at, metadata["uid"], lambda now: running_pods.completed(pod, now))
                await self._delete(at, metadata["uid"], grace=0)
        elif not spec.get("nodeName"):
            if spec.get("schedulerName", "") in _SCHEDULERS and not spec.get("schedulingGates"):
                await self._bind(at, metadata["uid"])
        elif phase == "Pending" or (phase == "Running" and spec.get("readinessGates")):
            await self._write_status(at, metadata["uid"], lambda now: running_pods.running(pod, now))
        elif phase == "Running" and controller is not None and controller["kind"] == "Job":
            await self._write_status(at, metadata["uid"], lambda now: running_pods.completed(pod, now))
        return None

    async def _bind(self, at: ObjectKey, uid: str) -> None:
        metadata = {"name": at.name, "namespace": at.namespace, "uid": uid}
        target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        await self._client.create("", "pods", binding, "binding")

    # --- workloads ---

    def _enqueue_controllers(self, kind: str, key: str, obj: JSONObject | None) -> None:
        """Enqueue the controller of an object, and its former controller."""
        known = self._controllers.pop((kind, key), None)
        reference = controller_of(obj) if obj is not None else None
        found = None
        if reference is not None and reference["kind"] in self._workloads:
            found = _Controller(reference["kind"], f"{key.partition('/')[0]}/{reference['name']}", reference["uid"])
            self._controllers[kind, key] = found
            self._controlled_by.setdefault((kind, found.uid), {})[key] = None
        if known is not None and (found is None or found.uid != known.uid):
            self._forget(kind, key, known.uid)
        for each in dict.fromkeys((known, found)):
            if each is not None:
                self._workloads[each.kind].enqueue(each.key)

    def _forget(self, kind: str, key: str, uid: str) -> None:
        """Forget that the object at a key has the controller with this uid."""
        members = self._controlled_by.get((kind, uid), {})
        members.pop(key, None)
        if not members:
            self._controlled_by.pop((kind, uid), None)

    async def _sync(self, kind: str, key: str, owner: JSONObject | None) -> float | None:
        if kind == "ReplicaSet":
            self._enqueue_controllers(kind, key, owner)
        if owner is None or "deletionTimestamp" in owner["metadata"]:
            return None
        metadata = owner["metadata"]
        at = ObjectKey(*_WORKLOADS[kind], metadata["namespace"], metadata["name"])
        await self._carry_out(at, owner, await self._plan(kind, owner))
        return None

    async def _plan(self, kind: str, owner: JSONObject) -> WorkloadPlan:
        now = self._now()
        if kind == "Deployment":
            return workloads.deployment(owner, await self._controlled("ReplicaSet", owner), now)
        pods = await self._controlled("Pod", owner)
        if kind == "ReplicaSet":
            plan = partial(workloads.replica_set, owner, pods)
        elif kind == "DaemonSet":
            plan = partial(workloads.daemon_set, owner, pods, NODE)
        elif kind == "Job":
            plan = partial(workloads.job, owner, pods, now)
        else:
            plan = partial(workloads.stateful_set, owner, pods, await self._claims(owner))
        return await asyncio.to_thread(plan) if len(pods) > _MANY else plan()

    async def _controlled(self, kind: str, owner: JSONObject) -> list[JSONObject]:
        """The objects of a kind that the owner controls. Read from the store: the informer may not have the newest ones yet."""
        await (self._pods if kind == "Pod" else self._workloads[kind]).caught_up()
        metadata, store, found = owner["metadata"], self._client.store(*_BY_KIND[kind]), list[JSONObject]()
        read = 0
        for key in list(self._controlled_by.get((kind, metadata["uid"]), ())):
            item = await store.find(Context(CONTROLLER, metadata["namespace"]), key.rpartition("/")[2])
            if item is None:
                self._forget(kind, key, metadata["uid"])
                continue
            obj = item.decoded()
            if (controller_of(obj) or {}).get("uid") == metadata["uid"]:
                found.append(obj)
            read += item.size
            if read >= _DECODED:
                read = 0
                await asyncio.sleep(0)
        return found

    async def _claims(self, owner: JSONObject) -> set[str]:
        """The names of the PersistentVolumeClaims in the owner's namespace, if the owner has templates of claims."""
        if not owner["spec"].get("volumeClaimTemplates"):
            return set()
        result = await self._client.store(*_CLAIMS).list(Context(CONTROLLER, owner["metadata"]["namespace"]), ALL)
        return {keys.split(item.key).name async for item in in_turns(result.items, _MANY)}

    async def _carry_out(self, at: ObjectKey, owner: JSONObject, plan: WorkloadPlan) -> None:
        async for obj in in_turns(plan.create, 1):
            # Give the store a copy of its own. `copy.deepcopy` would take a second for a large template.
            made = await self._client.create(*_BY_KIND[obj["kind"]], codec.decode_stored(codec.encode_json(obj)))
            if obj["kind"] != "PersistentVolumeClaim":
                name = f"{at.namespace}/{keys.split(made.key).name}"
                self._controlled_by.setdefault((obj["kind"], owner["metadata"]["uid"]), {})[name] = None
        for obj in plan.delete:
            metadata = obj["metadata"]
            resource = _BY_KIND[obj["kind"]]
            await self._delete(ObjectKey(*resource, metadata["namespace"], metadata["name"]), metadata["uid"])
        for obj, replicas in plan.scale:
            await self._scale(obj, replicas)
        uid = owner["metadata"]["uid"]
        for obj, added in plan.annotate:
            await self._annotate(obj, added)
        if plan.status:
            await self._write_status(at, uid, plan.status)

    async def _scale(self, obj: JSONObject, replicas: int) -> None:
        metadata = obj["metadata"]

        async def scaled(current: JSONObject) -> JSONObject:
            return {**current, "spec": {**current["spec"], "replicas": replicas}}

        at = ObjectKey(*_SETS, metadata["namespace"], metadata["name"])
        await self._client.update(at, scaled, uid=metadata["uid"], of_metadata=False)

    async def _annotate(self, obj: JSONObject, annotations: dict[str, str]) -> None:
        named = obj["metadata"]

        async def annotated(current: JSONObject) -> JSONObject:
            metadata = current["metadata"]
            return {**current, "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), **annotations}}}

        at = ObjectKey(*_WORKLOADS[obj["kind"]], named["namespace"], named["name"])
        await self._client.update(at, annotated, uid=named["uid"])

    # --- writing ---

    async def _write_status(self, at: ObjectKey, uid: str, status: JSONObject | Callable[[str], JSONObject]) -> None:
        """Merge members into an object's status. status: the members, or a function of the time (RFC 3339); None removes one."""
        members = status(self._now()) if callable(status) else status

        async def with_status(current: JSONObject) -> JSONObject:
            merged = {**(current.get("status") or {}), **members}
            return {**current, "status": {name: value for name, value in merged.items() if value is not None}}

        await self._client.update(at, with_status, uid=uid, subresource="status", of_metadata=False)

    async def _delete(self, at: ObjectKey, uid: str, grace: int | None = None) -> None:
        try:
            await self._client.delete(at, DeleteOptions(uid=uid, propagation="Background", grace_period_seconds=grace))
        except StatusError as error:
            if error.code != 404:
                raise
