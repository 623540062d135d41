"""DisruptionController: writes the status of PodDisruptionBudgets, by which evictions are allowed or refused.

A budget of a percentage, or of what may be unavailable, is one of the Pods that their controllers want: of the built-in kinds,
spec.replicas, a Deployment's for its ReplicaSets, and of other kinds what their /scale says.
Source: k8s.io/kubernetes pkg/controller/disruption, v1.36.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from aggserver.controllers.disruption_status import DELETION_TIMEOUT, decided, failed, needs_scale
from aggserver.controllers.event_recorder import EventRecorder
from aggserver.controllers.garbage.owner_graph import OwnerKind
from aggserver.controllers.internal_client import InternalClient, service_account
from aggserver.controllers.pod_facts import Controller, Pod, controller_of
from aggserver.controllers.pod_index import PodIndex
from aggserver.controllers.selector_index import SelectorIndex
from aggserver.endpoints.installer import Installer
from aggserver.informers.informer import Informer
from aggserver.informers.work_queue import CallLater, WorkQueue, call_later, in_turns
from aggserver.meta import times
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.meta.selectors import LabelSelector, SelectorError
from aggserver.storage import keys
from aggserver.storage.interface import Storage
from aggserver.storage.keys import ObjectKey

__all__ = ["DisruptionController"]

_GROUP, _RESOURCE = "policy", "poddisruptionbudgets"
_WORKERS = 4
_STEPS = 500  # Pods that are handled before other tasks run: about a millisecond
# Seconds that a change of a Pod waits for others, for each Pod of the budget, and at most.
_WAIT, _LONGEST = 0.0002, 1.0
_KINDS = {"ReplicaSet": ("apps", "extensions"), "StatefulSet": ("apps",), "ReplicationController": ("",)}


class _SyncError(Exception):
    """The status can't be computed. Its text is upstream's."""


class DisruptionController:
    """`run` is the task. clock: seconds since the epoch."""

    def __init__(
        self, installer: Installer, storage: Storage, pods: PodIndex, clock: Callable[[], float], later: CallLater = call_later
    ) -> None:
        self._client = InternalClient(installer, storage, service_account("disruption-controller"))
        self._pods = pods
        self._clock = clock
        self._budgets = Informer(self._client.store(_GROUP, _RESOURCE), self._sync, later, workers=_WORKERS)
        self._selectors = SelectorIndex()
        self._given: dict[str, JSONObject | None] = {}  # the selectors as they are written
        self._counts: dict[str, int] = {}  # how many Pods each budget had when it was last asked
        self._later = later
        self._stale = WorkQueue("disrupted pod", self._clear, later)
        self._events = EventRecorder(self._client, "controllermanager", clock)
        pods.listen(self._pod_changed)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._pods.run())
            await self._pods.caught_up()
            async for pod in in_turns(self._pods.disrupted(), _STEPS):
                self._watch_disruption(pod)
            tasks.create_task(self._budgets.run())
            tasks.create_task(self._stale.run())

    async def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        is_relabelled = before is None or after is None or before.labels != after.labels
        for pod in (before, after) if is_relabelled else (after,):
            if pod is not None:
                async for key in self._selectors.matching(pod.namespace, pod.labels):
                    self._budgets.enqueue(key, within=min(_LONGEST, _WAIT * self._counts.get(key, 0)))
        if after is not None:
            self._watch_disruption(after)

    # --- budgets ---

    async def _sync(self, key: str, budget: JSONObject | None) -> float | None:
        given = None if budget is None else budget["spec"].get("selector")
        if key not in self._given or self._given[key] != given:
            # In a thread: a selector may have thousands of terms.
            self._selectors.put(key, await asyncio.to_thread(_selector, given))
            self._given[key] = given
        if budget is None:
            del self._given[key]
            self._counts.pop(key, None)
            return None
        pods = await self._selected(key)
        if not pods:
            await self._events.tell(budget, "NoPods", "No matching pods found")
        recheck = None
        try:
            scale = await self._scale(budget, pods) if needs_scale(budget["spec"]) else 0
            status, recheck, late = decided(budget, pods, scale, self._clock())
        except (_SyncError, ValueError) as error:
            message = f"Failed to calculate the number of expected pods: {error}"
            await self._events.warn(budget, "CalculateExpectedPodCountFailed", message)
            status, late = failed(budget, str(error), self._clock()), ()
        for name in late:
            await self._tell_late(budget, name)
        if status != _without_nothing(budget.get("status") or {}):
            await self._write(key, budget, status)
        return recheck

    async def _selected(self, key: str) -> list[Pod]:
        selector = self._selectors.get(key)
        found: list[Pod] = []
        if selector is not None:
            weight = 1 + len(selector.requirements()) // 5
            candidates = in_turns(self._pods.selected(key.partition("/")[0], selector), _STEPS, lambda pod: weight)
            found = [pod async for pod in candidates if selector.matches(pod.labels)]
        self._counts[key] = len(found)
        return found

    async def _write(self, key: str, budget: JSONObject, status: JSONObject) -> None:
        async def with_status(current: JSONObject) -> JSONObject:
            # With the resourceVersion that was decided upon: an eviction in between has changed the status, too.
            metadata = {**current["metadata"], "resourceVersion": budget["metadata"]["resourceVersion"]}
            return {**current, "metadata": metadata, "status": status}

        namespace, _, name = key.partition("/")
        at = ObjectKey(_GROUP, _RESOURCE, namespace, name)
        uid = budget["metadata"]["uid"]
        written = await self._client.update(at, with_status, uid=uid, subresource="status", of_metadata=False)
        self._budgets.put_written(written.decoded())

    async def _tell_late(self, budget: JSONObject, name: str) -> None:
        namespace = budget["metadata"]["namespace"]
        pod = self._pods.get(f"{namespace}/{name}")
        if pod is not None:
            # As upstream, which tells the namespace twice.
            message = f"Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't"
            metadata = {"namespace": namespace, "name": name, "uid": pod.uid}
            await self._events.warn({"apiVersion": "v1", "kind": "Pod", "metadata": metadata}, "NotDeleted", message)

    # --- controllers of the Pods ---

    async def _scale(self, budget: JSONObject, pods: Sequence[Pod]) -> int:
        """How many Pods the controllers of these Pods want. Raises _SyncError if one is not known."""
        scales: dict[str, int] = {}
        asked: set[str] = set()
        are_unmanaged = False
        async for pod in in_turns(pods, _STEPS):
            if pod.controller is None:
                are_unmanaged = True
            elif pod.controller.uid not in asked:
                asked.add(pod.controller.uid)
                found = await self._scale_of(pod.namespace, pod.controller)
                if found is None:
                    raise _SyncError(f'found no controllers for pod "{pod.name}"')
                uid, replicas = found
                scales[uid] = replicas
        if are_unmanaged:
            await self._events.warn(budget, "UnmanagedPods", _UNMANAGED.format(selector=_shown(budget["spec"].get("selector"))))
        return sum(scales.values())

    async def _scale_of(self, namespace: str, of: Controller) -> tuple[str, int] | None:
        """The uid and the replicas of a controller, or of the Deployment that controls it; None if it is gone."""
        group = of.api_version.rpartition("/")[0]
        if group not in _KINDS.get(of.kind, ()):
            return await self._scale_of_any(namespace, of)
        obj = await self._object(namespace, of)
        if obj is None:
            return None
        if of.kind == "ReplicaSet" and (owner := controller_of(obj["metadata"])) is not None and owner.kind == "Deployment":
            deployment = await self._object(namespace, owner)
            return None if deployment is None else (owner.uid, _replicas(deployment))
        return of.uid, _replicas(obj)

    async def _object(self, namespace: str, of: Controller) -> JSONObject | None:
        """The object that a reference names, if it still is that one."""
        resource = self._client.find(OwnerKind(of.api_version, of.kind))
        if resource is None:
            return None
        obj = await self._client.read_whole(f"{keys.resource_prefix(resource.group, resource.resource)}{namespace}/{of.name}")
        return obj if obj is not None and obj["metadata"]["uid"] == of.uid else None

    async def _scale_of_any(self, namespace: str, of: Controller) -> tuple[str, int] | None:
        resource = self._client.find(OwnerKind(of.api_version, of.kind))
        if resource is None:
            raise _SyncError(f'no matches for kind "{of.kind}" in version "{of.api_version}"')
        if not self._client.has(resource.group, resource.resource, "scale"):
            where = f"{resource.resource}.{resource.group}" if resource.group else resource.resource
            raise _SyncError(f"{where} does not implement the scale subresource")
        try:
            scale = await self._client.get(ObjectKey(resource.group, resource.resource, namespace, of.name), "scale")
        except StatusError as error:
            if error.code == 404:
                return None
            raise _SyncError(error.message) from None
        obj = scale.decoded()
        return (of.uid, _replicas(obj)) if obj["metadata"].get("uid") == of.uid else None

    # --- Pods that were to be disrupted and were not ---

    def _watch_disruption(self, pod: Pod) -> None:
        if pod.disrupted_since and not pod.is_terminating and not pod.is_over:
            until = times.parse_time(pod.disrupted_since) + DELETION_TIMEOUT
            self._stale.add(pod.key, within=until - self._clock())

    async def _clear(self, key: str) -> float | None:
        """Set the condition DisruptionTarget of a Pod to False if nobody has deleted it for two minutes."""
        pod = self._pods.get(key)
        if pod is None or not pod.disrupted_since or pod.is_terminating or pod.is_over:
            return None
        left = times.parse_time(pod.disrupted_since) + DELETION_TIMEOUT - self._clock()
        if left > 0:
            return left

        async def cleared(current: JSONObject) -> JSONObject:
            status = current.get("status") or {}
            now = times.format_time(self._clock())
            conditions = [
                {"type": "DisruptionTarget", "status": "False", "lastProbeTime": None, "lastTransitionTime": now}
                if each.get("type") == "DisruptionTarget"
                else each
                for each in status.get("conditions") or ()
            ]
            return {**current, "status": {**status, "conditions": conditions}}

        at = ObjectKey("", "pods", pod.namespace, pod.name)
        await self._client.update(at, cleared, uid=pod.uid, subresource="status", of_metadata=False)
        return None


_UNMANAGED = (
    "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be unmanaged. As a result, the status of the "
    "PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please set "
    '".spec.minAvailable" field of the PDB to an integer value.'
)


def _selector(selector: JSONObject | None) -> LabelSelector | None:
    """The selector of a budget, None if it selects nothing."""
    if selector is None:
        return None
    try:
        return LabelSelector.from_object(selector)
    except SelectorError:
        return None


def _shown(selector: JSONObject | None) -> str:
    """A selector as Go prints it."""
    given = selector or {}
    labels = "".join(f"{name}: {value}," for name, value in sorted((given.get("matchLabels") or {}).items()))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{' '.join(values)}],}},"
        for key, operator, values in (
            (each["key"], each["operator"], each.get("values") or ()) for each in given.get("matchExpressions") or ()
        )
    )
    kept = f"MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},"
    return f"&LabelSelector{{{kept}}}"


def _replicas(obj: JSONObject) -> int:
    replicas: int | None = (obj.get("spec") or {}).get("replicas")
    return 1 if replicas is None else replicas


def _without_nothing(status: JSONObject) -> JSONObject:
    return {name: value for name, value in status.items() if value != {}}
