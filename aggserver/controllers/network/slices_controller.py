"""SlicesController: writes the EndpointSlices of Services that select Pods.

Those of a deleted Service are left to the garbage collector. Unlike upstream, a Pod has an endpoint also if its Node does not
exist: without kubelets, Nodes are objects that only some clients make.
Source: k8s.io/kubernetes pkg/controller/endpointslice, v1.36.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from aggserver.controllers.internal_client import InternalClient, service_account
from aggserver.controllers.network.own_slices import OwnSlices, is_ending
from aggserver.controllers.network.selected_pods import SelectedPods
from aggserver.controllers.network.services import has_endpoints
from aggserver.controllers.network.slices import CONTROLLER_NAME, SlicePlan, planned
from aggserver.controllers.network.trigger_times import TriggerTimes
from aggserver.endpoints.installer import Installer
from aggserver.informers.informer import TransformingInformer
from aggserver.informers.work_queue import CallLater, WorkQueue, call_later, in_turns
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.storage.interface import Storage

__all__ = ["SlicesController"]

_WORKERS = 5
_MANY = 500  # the plan for more Pods is made in a thread
_STEPS = 1000  # Services that are enqueued before other tasks run
_ZONE = "topology.kubernetes.io/zone"


class SlicesController:
    """`run` is the task. selected: the Services and their Pods."""

    def __init__(self, installer: Installer, storage: Storage, selected: SelectedPods, later: CallLater = call_later) -> None:
        client = InternalClient(installer, storage, service_account("endpointslice-controller"))
        self._selected = selected
        self._queue = WorkQueue("endpoint slices of the service", self._sync, later, workers=_WORKERS)
        self._slices = OwnSlices(client, CONTROLLER_NAME, self._queue.add, later)
        self._nodes = TransformingInformer(client.store("", "nodes"), _zone, _ignore, later)
        self._times = TriggerTimes()
        selected.listen(lambda key, within: self._queue.add(key, within=within))

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for part in (self._selected, self._slices, self._nodes):
                tasks.create_task(part.run())
            for part in (self._selected, self._slices, self._nodes):
                await part.caught_up()
            async for key in in_turns(list(self._selected.services), _STEPS):
                self._queue.add(key)
            tasks.create_task(self._queue.run())

    async def _sync(self, key: str) -> float | None:
        service = self._selected.services.get(key)
        if service is None:
            self._times.forget(key)
        elif has_endpoints(service):
            pods = await self._selected.pods(key)
            changed = self._times.changed(key, service, pods)
            slices = await self._slices.of(key)
            zones: Mapping[str, str] = self._nodes.objects

            def plan() -> SlicePlan:
                return planned(service, pods, slices, zones, changed)

            try:
                await self._slices.carry_out(key, await asyncio.to_thread(plan) if len(pods) > _MANY else plan())
            except StatusError as error:
                if not is_ending(error):
                    raise
        return None


def _zone(node: JSONObject) -> str:
    return (node["metadata"].get("labels") or {}).get(_ZONE) or ""


async def _ignore(name: str, zone: str | None) -> float | None:
    return None
