"""EndpointsController: writes the Endpoints of Services that select Pods, and deletes those of deleted Services.

Source: k8s.io/kubernetes pkg/controller/endpoint, v1.36.3.
"""

from __future__ import annotations

import asyncio
from functools import partial

from aggserver.controllers.internal_client import InternalClient, service_account
from aggserver.controllers.network.endpoints import MANAGED_BY, NAME, desired_subsets, updated
from aggserver.controllers.network.own_slices import is_ending, stored_copy
from aggserver.controllers.network.selected_pods import SelectedPods
from aggserver.controllers.network.services import has_endpoints
from aggserver.controllers.network.trigger_times import TriggerTimes
from aggserver.endpoints.installer import Installer
from aggserver.informers.informer import CONTROLLER, TransformingInformer
from aggserver.informers.work_queue import CallLater, WorkQueue, call_later, in_turns
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.registry.rest import Context, DeleteOptions
from aggserver.storage.interface import Storage
from aggserver.storage.keys import ObjectKey

__all__ = ["EndpointsController"]

_WORKERS = 5
_MANY = 500  # the subsets for more Pods are made in a thread
_STEPS = 1000  # Services that are enqueued before other tasks run


class EndpointsController:
    """`run` is the task. selected: the Services and their Pods."""

    def __init__(self, installer: Installer, storage: Storage, selected: SelectedPods, later: CallLater = call_later) -> None:
        self._client = InternalClient(installer, storage, service_account("endpoint-controller"))
        self._selected = selected
        self._store = self._client.store("", "endpoints")
        self._services = self._client.store("", "services")
        self._queue = WorkQueue("endpoints of the service", self._sync, later, workers=_WORKERS)
        self._endpoints = TransformingInformer(self._store, _is_managed, self._look_again, later)
        self._times = TriggerTimes()
        selected.listen(lambda key, within: self._queue.add(key, within=within))

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._selected.run())
            await self._selected.caught_up()
            async for key in in_turns(list(self._selected.services), _STEPS):
                self._queue.add(key)
            tasks.create_task(self._endpoints.run())
            tasks.create_task(self._queue.run())

    async def _look_again(self, key: str, is_managed: bool | None) -> float | None:
        """Write Endpoints again that were deleted, and delete those whose Service was deleted while nothing ran."""
        if is_managed is None or (is_managed and key not in self._selected.services):
            self._queue.add(key)
        return None

    async def _sync(self, key: str) -> float | None:
        service = self._selected.services.get(key)
        if service is None:
            await self._delete(key)
        elif has_endpoints(service):
            try:
                await self._update(key, service)
            except StatusError as error:
                if not is_ending(error):
                    raise
        return None

    async def _delete(self, key: str) -> None:
        self._times.forget(key)
        namespace, _, name = key.partition("/")
        if await self._services.find(Context(CONTROLLER, namespace), name) is not None:
            return  # it is there again
        try:
            await self._client.delete(ObjectKey("", "endpoints", namespace, name), DeleteOptions())
        except StatusError as error:
            if error.code != 404:
                raise

    async def _update(self, key: str, service: JSONObject) -> None:
        namespace, _, name = key.partition("/")
        pods = await self._selected.pods(key)
        changed = self._times.changed(key, service, pods)
        found = await self._store.find(Context(CONTROLLER, namespace), name)
        current = None if found is None else found.decoded()

        def wanted() -> JSONObject | None:
            return updated(service, desired_subsets(service, pods), current, changed)

        new = await asyncio.to_thread(wanted) if len(pods) > _MANY else wanted()
        if new is None:
            return
        if current is None:
            await self._client.create("", "endpoints", stored_copy(new))
        else:
            at = ObjectKey("", "endpoints", namespace, name)
            await self._client.update(at, partial(_written, stored_copy(new)), of_metadata=False)


async def _written(new: JSONObject, current: JSONObject) -> JSONObject:
    """The new Endpoints, whose resourceVersion makes the write fail if they were changed since they were read."""
    return new


def _is_managed(endpoints: JSONObject) -> bool:
    return (endpoints["metadata"].get("labels") or {}).get(MANAGED_BY) == NAME
