"""WorkloadController: creates the Pods of workloads, as kube-controller-manager's controllers do, for `--pods=pending` and `run`.

It follows Pods, nodes and the kinds of workloads, keeps in memory which object controls which, and carries out the plans of the
modules beside it. Whether Pods run is another's matter: `pods` is called for each, if something runs them.
Source: k8s.io/kubernetes pkg/controller (controller_ref_manager.go for adoption and release), v1.36.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple

from aggserver.controllers.event_recorder import EventRecorder
from aggserver.controllers.internal_client import InternalClient
from aggserver.controllers.workloads.daemon_sets import daemon_set, scheduling
from aggserver.controllers.workloads.deployments import deployment
from aggserver.controllers.workloads.jobs import job
from aggserver.controllers.workloads.plan import Plan, controller_of, is_active, is_ready, reference_to
from aggserver.controllers.workloads.replicas import replicas
from aggserver.controllers.workloads.selected import Selected, Workload, selector_of
from aggserver.controllers.workloads.stateful_sets import is_member, stateful_set
from aggserver.endpoints.installer import Installer
from aggserver.informers.informer import ALL, CONTROLLER, Informer, TransformingInformer
from aggserver.informers.work_queue import CallLater, call_later, in_turns
from aggserver.meta import codec
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.meta.selectors import LabelSelector
from aggserver.registry.rest import Context, DeleteOptions
from aggserver.storage import keys
from aggserver.storage.interface import Storage
from aggserver.storage.keys import ObjectKey

__all__ = ["WorkloadController"]

_RESOURCES = {
    "Pod": ("", "pods"),
    "PersistentVolumeClaim": ("", "persistentvolumeclaims"),
    "ControllerRevision": ("apps", "controllerrevisions"),
    "ReplicationController": ("", "replicationcontrollers"),
    "ReplicaSet": ("apps", "replicasets"),
    "Deployment": ("apps", "deployments"),
    "StatefulSet": ("apps", "statefulsets"),
    "DaemonSet": ("apps", "daemonsets"),
    "Job": ("batch", "jobs"),
}
# What each kind of workload controls.
_CONTROLS = {
    "ReplicationController": ("Pod",),
    "ReplicaSet": ("Pod",),
    "Deployment": ("ReplicaSet",),
    "StatefulSet": ("Pod", "ControllerRevision"),
    "DaemonSet": ("Pod", "ControllerRevision"),
    "Job": ("Pod",),
}
_OWNED = b'"ownerReferences"'  # in the JSON of claims that have owners, and perhaps of others
_EXITS = ("containerStatuses", "initContainerStatuses")  # which tell the policy of a Job how a Pod has failed
_NOT_READY = "node.kubernetes.io/not-ready"
_WORKERS = 8
# The plan of a workload with more Pods than this is made in a thread.
_MANY = 500
# Bytes of Pods that are decoded before other tasks run: some milliseconds.
_DECODED = 256 * 1024
# Seconds that a change waits for others, for each object that the workload controls or node there is, and at most; none if there
# are few. A plan reads them all, which takes about half of that.
_WAIT, _LONGEST, _FEW = 0.0001, 5.0, 100


class _Controller(NamedTuple):
    kind: str
    key: str
    uid: str


class WorkloadController:
    """The controller; `run` is its task.

    clock: seconds since the epoch. pods: called for each Pod that was written; returns the seconds until its next call, or None.
    """

    def __init__(
        self,
        installer: Installer,
        storage: Storage,
        clock: Callable[[], float],
        pods: Callable[[JSONObject], Awaitable[float | None]] | None = None,
        later: CallLater = call_later,
    ) -> None:
        self._client = InternalClient(installer, storage, CONTROLLER)
        self._events = EventRecorder(self._client, "aggserver", clock)
        self._clock = clock
        self._run_pod = pods
        # Nothing is kept of a Pod: as a tree it takes ten times its bytes, which the store has.
        self._pods = TransformingInformer(
            self._client.store(*_RESOURCES["Pod"]), _nothing, self._sync_pod, later, workers=_WORKERS
        )
        self._nodes = Informer(self._client.store("", "nodes"), self._sync_node, later)
        self._revisions = Informer(self._client.store(*_RESOURCES["ControllerRevision"]), self._sync_revision, later)
        self._workloads = {
            kind: Informer(self._client.store(*_RESOURCES[kind]), partial(self._sync, kind), later, workers=_WORKERS)
            for kind in _CONTROLS
        }
        followed = {"ControllerRevision": self._revisions, **self._workloads}
        self._informers: dict[str, TransformingInformer[Any]] = {"Pod": self._pods, **followed}
        # The controller of each controlled object, by their kinds and keys, which is synced again when one is gone.
        self._controllers: dict[tuple[str, str], _Controller] = {}
        # The keys of controlled objects, by their kinds and the uid of their controller.
        self._controlled_by: dict[tuple[str, str], dict[str, None]] = {}
        self._selected = {kind: Selected() for kinds in _CONTROLS.values() for kind in kinds}
        self._selected["Pod"] = Selected(_may_adopt)
        self._scheduling: dict[str, object] = {}

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for informer in (self._nodes, *self._informers.values()):
                tasks.create_task(informer.run())

    # --- what workloads control ---

    async def _sync_pod(self, key: str, there: bool | None) -> float | None:
        namespace, _, name = key.partition("/")
        item = await self._client.store(*_RESOURCES["Pod"]).find(Context(CONTROLLER, namespace), name) if there else None
        pod = None if item is None else item.decoded()
        self._observe("Pod", key, pod)
        return None if pod is None or self._run_pod is None else await self._run_pod(pod)

    async def _sync_revision(self, key: str, revision: JSONObject | None) -> None:
        self._observe("ControllerRevision", key, revision)

    async def _sync_node(self, key: str, node: JSONObject | None) -> None:
        known, found = self._scheduling.get(key), None if node is None else (is_ready(node), *scheduling(node))
        if known == found:
            return
        self._scheduling[key] = found
        if node is None:
            del self._scheduling[key]
        elif is_ready(node) and any(each["key"] == _NOT_READY for each in node["spec"].get("taints") or ()):
            await self._remove_taint(node)
            return
        sets, within = self._workloads["DaemonSet"], _wait(len(self._nodes.objects))
        async for name in in_turns(list(sets.objects), _MANY):
            sets.enqueue(name, within=within)

    async def _remove_taint(self, node: JSONObject) -> None:
        """A new node has the taint `not-ready`. In a cluster, the controller of nodes removes it when the node is ready."""

        async def without(current: JSONObject) -> JSONObject:
            left = [each for each in current["spec"].get("taints") or () if each["key"] != _NOT_READY]
            spec = {name: value for name, value in current["spec"].items() if name != "taints"}
            return {**current, "spec": {**spec, **({"taints": left} if left else {})}}

        at = ObjectKey("", "nodes", "", node["metadata"]["name"])
        await self._client.update(at, without, uid=node["metadata"]["uid"], of_metadata=False)

    def _observe(self, kind: str, key: str, obj: JSONObject | None) -> None:
        """Note who controls an object. Enqueue its controller and its former one, or those that may adopt it."""
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
                members = self._controlled_by.get((kind, each.uid), ())
                self._workloads[each.kind].enqueue(each.key, within=_wait(len(members)))
        if obj is None or reference is not None or not is_active(obj):
            self._selected[kind].remove_object(key)
            return
        for workload in self._selected[kind].put_object(key, obj["metadata"].get("labels") or {}):
            self._workloads[workload.kind].enqueue(workload.key)

    def _forget(self, kind: str, key: str, uid: str) -> None:
        """Forget that the object at a key has the controller with this uid."""
        members = self._controlled_by.get((kind, uid), {})
        members.pop(key, None)
        if not members:
            self._controlled_by.pop((kind, uid), None)

    # --- workloads ---

    async def _sync(self, kind: str, key: str, owner: JSONObject | None) -> float | None:
        if kind == "ReplicaSet":
            self._observe(kind, key, owner)
        selector = None if owner is None or "deletionTimestamp" in owner["metadata"] else selector_of(owner)
        for controlled in _CONTROLS[kind]:
            await self._selected[controlled].put_workload(Workload(kind, key), selector)
        if owner is None or "deletionTimestamp" in owner["metadata"]:
            return None
        plan = await self._plan(kind, owner, selector)
        await self._carry_out(owner, plan)
        return plan.again

    async def _plan(self, kind: str, owner: JSONObject, selector: LabelSelector | None) -> Plan:
        now, (controlled, *others) = self._clock(), _CONTROLS[kind]
        found = await self._controlled(controlled, owner, selector)
        revisions = [each for other in others for each in await self._controlled(other, owner, selector)]
        plan: Callable[[], Plan]
        if kind == "Deployment":
            plan = partial(deployment, owner, found, now)
        elif kind == "StatefulSet":
            plan = partial(stateful_set, owner, found, revisions, await self._claims(owner), now)
        elif kind == "DaemonSet":
            await self._nodes.caught_up()
            plan = partial(daemon_set, owner, found, revisions, list(self._nodes.objects.values()), now)
        else:
            plan = partial(job if kind == "Job" else replicas, owner, found, now)
        return await asyncio.to_thread(plan) if len(found) + len(self._nodes.objects) > _MANY else plan()

    async def _controlled(self, kind: str, owner: JSONObject, selector: LabelSelector | None) -> list[JSONObject]:
        """The objects of a kind that the owner controls, after it has adopted and released some.

        Read from the store: the informer may not have the newest ones yet.
        """
        await self._informers[kind].caught_up()
        metadata, store, found = owner["metadata"], self._client.store(*_RESOURCES[kind]), list[JSONObject]()
        workload = Workload(owner["kind"], f"{metadata['namespace']}/{metadata['name']}")
        candidates, may_adopt = self._selected[kind].of(workload), None
        read = 0
        for key in dict.fromkeys((*self._controlled_by.get((kind, metadata["uid"]), ()), *candidates)):
            item = await store.find(Context(CONTROLLER, metadata["namespace"]), key.rpartition("/")[2])
            if item is None:
                self._forget(kind, key, metadata["uid"])
                continue
            obj = item.decoded()
            reference = controller_of(obj)
            matches = selector is not None and selector.matches(obj["metadata"].get("labels") or {})
            if reference is not None and reference["uid"] == metadata["uid"]:
                if matches:
                    found.append(_planned(obj) if kind == "Pod" else obj)
                else:
                    await self._release(obj, metadata["uid"])
            elif reference is None and matches and is_active(obj):
                if may_adopt is None:
                    may_adopt = await self._exists(owner)
                if may_adopt:
                    found.append(await self._adopt(owner, obj))
            read += item.size
            if read >= _DECODED:
                read = 0
                await asyncio.sleep(0)
        return found

    async def _exists(self, owner: JSONObject) -> bool:
        """Whether the owner is still there and not being deleted: else what it adopts would be deleted with it."""
        metadata = owner["metadata"]
        item = await self._client.store(*_RESOURCES[owner["kind"]]).find(
            Context(CONTROLLER, metadata["namespace"]), metadata["name"]
        )
        found = {} if item is None else item.decoded()["metadata"]
        return found.get("uid") == metadata["uid"] and "deletionTimestamp" not in found

    async def _adopt(self, owner: JSONObject, obj: JSONObject) -> JSONObject:
        async def adopted(current: JSONObject) -> JSONObject:
            if controller_of(current) is not None:  # another was quicker; the next plan sees it
                return current
            metadata = current["metadata"]
            owners = [*(metadata.get("ownerReferences") or ()), reference_to(owner)]
            return {**current, "metadata": {**metadata, "ownerReferences": owners}}

        return (await self._client.update(_at(obj), adopted, uid=obj["metadata"]["uid"])).decoded()

    async def _release(self, obj: JSONObject, uid: str) -> None:
        async def released(current: JSONObject) -> JSONObject:
            metadata = {**current["metadata"]}
            left = [each for each in metadata.pop("ownerReferences", ()) if each.get("uid") != uid]
            return {**current, "metadata": {**metadata, **({"ownerReferences": left} if left else {})}}

        await self._client.update(_at(obj), released, uid=obj["metadata"]["uid"])

    async def _claims(self, owner: JSONObject) -> dict[str, list[JSONMapping]]:
        """The owner references of the PersistentVolumeClaims in the owner's namespace by name, if it has templates of claims."""
        if not owner["spec"].get("volumeClaimTemplates"):
            return {}
        store = self._client.store(*_RESOURCES["PersistentVolumeClaim"])
        result = await store.list(Context(CONTROLLER, owner["metadata"]["namespace"]), ALL)
        found: dict[str, list[JSONMapping]] = {}
        async for item in in_turns(result.items, _MANY):
            is_owned = _OWNED in item.raw
            found[keys.split(item.key).name] = item.decoded()["metadata"].get("ownerReferences") or [] if is_owned else []
        return found

    # --- writing ---

    async def _carry_out(self, owner: JSONObject, plan: Plan) -> None:
        for obj, number in plan.renumber:
            await self._renumber(obj, number)
        try:
            await self._create_all(owner, plan)
        except StatusError as error:
            await self._report(owner, plan, "FailedCreate", error)
            raise
        for name, references in plan.own:
            await self._own(owner, name, references)
        try:
            for obj in plan.delete:
                await self._delete(obj)
        except StatusError as error:
            await self._report(owner, plan, "FailedDelete", error)
            raise
        for obj, count in plan.scale:
            await self._scale(obj, count)
        for obj, added in plan.annotate:
            await self._annotate(obj, added)
        if plan.status:
            await self._write_status(owner, plan.status)

    async def _create_all(self, owner: JSONObject, plan: Plan) -> None:
        uid, namespace = owner["metadata"]["uid"], owner["metadata"]["namespace"]
        async for obj in in_turns(plan.create, 1):
            kind = obj["kind"]
            try:
                # Give the store a copy of its own. `copy.deepcopy` would take a second for a large template.
                made = await self._client.create(*_RESOURCES[kind], codec.decode_stored(codec.encode_json(obj)))
            except StatusError as error:
                if error.reason == "AlreadyExists" and kind in ("ControllerRevision", "ReplicaSet"):
                    # Another template's has the name: the next one gets another name.
                    collisions = (owner.get("status") or {}).get("collisionCount", 0)
                    await self._write_status(owner, {"collisionCount": collisions + 1})
                raise
            if kind in self._informers:
                name = f"{namespace}/{keys.split(made.key).name}"
                self._controlled_by.setdefault((kind, uid), {})[name] = None

    async def _report(self, owner: JSONObject, plan: Plan, reason: str, error: StatusError) -> None:
        action = "creating" if reason == "FailedCreate" else "deleting"
        if error.reason not in ("AlreadyExists", "Conflict"):
            await self._events.warn(owner, reason, f"Error {action}: {error.message}")
        if plan.failed is not None:
            await self._write_status(owner, plan.failed(reason, error.message))

    async def _renumber(self, revision: JSONObject, number: int) -> None:
        async def renumbered(current: JSONObject) -> JSONObject:
            return {**current, "revision": number}

        await self._client.update(_at(revision), renumbered, uid=revision["metadata"]["uid"], of_metadata=False)

    async def _own(self, owner: JSONObject, claim: str, references: list[JSONMapping]) -> None:
        async def owned(current: JSONObject) -> JSONObject:
            metadata = {name: value for name, value in current["metadata"].items() if name != "ownerReferences"}
            return {**current, "metadata": {**metadata, **({"ownerReferences": references} if references else {})}}

        at = ObjectKey(*_RESOURCES["PersistentVolumeClaim"], owner["metadata"]["namespace"], claim)
        await self._client.update(at, owned)

    async def _scale(self, obj: JSONObject, count: int) -> None:
        async def scaled(current: JSONObject) -> JSONObject:
            return {**current, "spec": {**current["spec"], "replicas": count}}

        await self._client.update(_at(obj), scaled, uid=obj["metadata"]["uid"], of_metadata=False)

    async def _annotate(self, obj: JSONObject, annotations: dict[str, str]) -> None:
        async def annotated(current: JSONObject) -> JSONObject:
            metadata = current["metadata"]
            return {**current, "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), **annotations}}}

        # A Deployment's annotations count for its generation, except as part of its status.
        subresource = "status" if obj["kind"] == "Deployment" else ""
        await self._client.update(_at(obj), annotated, uid=obj["metadata"]["uid"], subresource=subresource)

    async def _write_status(self, owner: JSONObject, members: JSONObject) -> None:
        """Merge members into a workload's status; None removes one."""

        async def with_status(current: JSONObject) -> JSONObject:
            merged = {**(current.get("status") or {}), **members}
            return {**current, "status": {name: value for name, value in merged.items() if value is not None}}

        uid = owner["metadata"]["uid"]
        await self._client.update(_at(owner), with_status, uid=uid, subresource="status", of_metadata=False)

    async def _delete(self, obj: JSONObject) -> None:
        try:
            await self._client.delete(_at(obj), DeleteOptions(uid=obj["metadata"]["uid"], propagation="Background"))
        except StatusError as error:
            if error.code != 404:
                raise


def _nothing(pod: JSONObject) -> bool:
    """What is kept of a Pod: that it is there."""
    return True


def _wait(count: int) -> float:
    """Seconds that a change waits for others, so that the work for thousands of Pods does not grow with their square."""
    return 0.0 if count <= _FEW else min(_LONGEST, _WAIT * count)


def _planned(pod: JSONObject) -> JSONObject:
    """What plans look at of a Pod: a plan for thousands would fill the memory with whole ones."""
    metadata = {name: value for name, value in pod["metadata"].items() if name != "managedFields"}
    spec = {name: pod["spec"][name] for name in ("nodeName", "affinity") if name in pod["spec"]}
    status = pod.get("status") or {}
    members = ("phase", "conditions", *(_EXITS if status.get("phase") == "Failed" else ()))
    return {**pod, "metadata": metadata, "spec": spec, "status": {name: status[name] for name in members if name in status}}


def _may_adopt(workload: Workload, key: str) -> bool:
    """A StatefulSet adopts only Pods with one of its names."""
    return workload.kind != "StatefulSet" or is_member(workload.key, key)


def _at(obj: JSONObject) -> ObjectKey:
    return ObjectKey(*_RESOURCES[obj["kind"]], obj["metadata"]["namespace"], obj["metadata"]["name"])
