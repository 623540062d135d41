"""MirroringController: writes EndpointSlices for Endpoints that clients write.

Source: k8s.io/kubernetes pkg/controller/endpointslicemirroring, v1.36.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aggserver.controllers.event_recorder import EventRecorder
from aggserver.controllers.internal_client import InternalClient, service_account
from aggserver.controllers.network.mirrored import CONTROLLER_NAME, is_to_mirror, mirrored
from aggserver.controllers.network.own_slices import OwnSlices, is_ending
from aggserver.controllers.network.selected_pods import SelectedPods
from aggserver.controllers.network.slices import SlicePlan
from aggserver.endpoints.installer import Installer
from aggserver.informers.informer import CONTROLLER, TransformingInformer
from aggserver.informers.work_queue import CallLater, WorkQueue, call_later
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.registry.rest import Context
from aggserver.storage.interface import Storage

__all__ = ["MirroringController"]

_WORKERS = 5
_MANY = 100_000  # bytes of Endpoints: larger ones are decided upon in a thread


class MirroringController:
    """`run` is the task. selected: the Services. clock: seconds since the epoch."""

    def __init__(
        self,
        installer: Installer,
        storage: Storage,
        selected: SelectedPods,
        clock: Callable[[], float],
        later: CallLater = call_later,
    ) -> None:
        client = InternalClient(installer, storage, service_account("endpointslicemirroring-controller"))
        self._selected = selected
        self._store = client.store("", "endpoints")
        self._queue = WorkQueue("mirror of the endpoints", self._sync, later, workers=_WORKERS)
        self._endpoints = TransformingInformer(self._store, is_to_mirror, self._changed, later)
        self._slices = OwnSlices(client, CONTROLLER_NAME, self._queue.add, later)
        self._events = EventRecorder(client, "endpoint-slice-mirroring-controller", clock)
        selected.listen(self._service_changed)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for part in (self._selected, self._slices, self._endpoints):
                tasks.create_task(part.run())
            for part in (self._selected, self._slices, self._endpoints):
                await part.caught_up()
            tasks.create_task(self._queue.run())

    async def _changed(self, key: str, is_wanted: bool | None) -> float | None:
        if is_wanted or self._slices.has(key):
            self._queue.add(key)
        return None

    def _service_changed(self, key: str, within: float) -> None:
        if self._slices.has(key) or self._endpoints.objects.get(key):
            self._queue.add(key, within=within)

    async def _sync(self, key: str) -> float | None:
        namespace, _, name = key.partition("/")
        service = self._selected.services.get(key)
        is_wanted = service is not None and not service["spec"].get("selector")
        found = await self._store.find(Context(CONTROLLER, namespace), name) if is_wanted else None
        endpoints = found.decoded() if found is not None else None
        slices = await self._slices.of(key)
        if found is None or endpoints is None or not is_to_mirror(endpoints):
            await self._slices.carry_out(key, SlicePlan(delete=[each["metadata"]["name"] for each in slices]))
            return None
        is_large = found.size > _MANY
        plan, invalid, skipped = await asyncio.to_thread(mirrored, endpoints, slices) if is_large else mirrored(endpoints, slices)
        await self._tell(endpoints, invalid, skipped)
        try:
            await self._slices.carry_out(key, plan)
        except StatusError as error:
            if not is_ending(error):
                raise
        return None

    async def _tell(self, endpoints: JSONObject, invalid: int, skipped: int) -> None:
        if invalid:
            message = f"Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices"
            await self._events.warn(endpoints, "InvalidIPAddress", message)
        if skipped > invalid:
            message = "A max of 1000 addresses can be mirrored to EndpointSlices per Endpoints subset."
            await self._events.warn(endpoints, "TooManyAddressesToMirror", f"{message} {skipped} addresses were skipped")
