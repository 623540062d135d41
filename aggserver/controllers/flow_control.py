"""Follows the FlowSchemas and PriorityLevelConfigurations of a server without a cluster, and keeps them in order.

The objects that every cluster has are made with the first request for one of the two kinds (`kinds/seeded.py`). Until then flow
control has their values from the tables, and the UIDs that they will get, since responses name them; nothing is read or stored.
From then on the objects count. FlowSchemas are told whether their priority level exists. A minute after a change, what is missing
of the first objects is made anew, and those that nobody has taken over get their values back.
Source: k8s.io/apiserver pkg/util/flowcontrol/apf_controller.go, v0.36.3; k8s.io/kubernetes
pkg/registry/flowcontrol/{rest/storage_flowcontrol,ensurer/strategy}.go, v1.36.3.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from aggserver.controllers.first_use import until_stored
from aggserver.endpoints.flow_control.flow_control import FlowControl
from aggserver.endpoints.flow_control.matching import CATCH_ALL, EXEMPT, Schema, schema
from aggserver.informers.informer import CONTROLLER, CallLater, Informer, call_later
from aggserver.kinds.flow_control import dangling_condition, flow_schemas, priority_levels
from aggserver.meta import times
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.registry.rest import Context, DeleteOptions, WriteOptions, WriteRequest
from aggserver.registry.store import Store
from aggserver.storage import keys
from aggserver.storage.interface import Storage

__all__ = ["FlowControlController"]

log = logging.getLogger("aggserver.controllers")

_GROUP = "flowcontrol.apiserver.k8s.io"
_SCHEMAS, _LEVELS = "flowschemas", "prioritylevelconfigurations"
_AUTOUPDATE = "apf.kubernetes.io/autoupdate-spec"
_PRODUCER = WriteOptions(field_manager="api-priority-and-fairness-config-producer-v1", bounded=False)
_CONSUMER = WriteOptions(field_manager="api-priority-and-fairness-config-consumer-v1", bounded=False)
_MANDATORY = (EXEMPT, CATCH_ALL)
# Seconds from a change to the repair of the first objects, as upstream, which looks every minute.
_REPAIR_AFTER = 60.0
# Thousands of objects that come at once are taken over together: seconds of rest for each second that it has taken.
_REST = 20.0


class Stores(Protocol):
    """The built-in kinds; `kinds.served.Kinds`."""

    def store(self, group: str, resource: str) -> Store: ...

    def status_store(self, group: str, resource: str) -> Store: ...

    def promise(self, group: str, resource: str, uids: Mapping[str, str]) -> None:
        """Let the objects that are made with the first request have these UIDs, by name."""


class FlowControlController:
    """The controller; `run` is its task. clock: seconds since the epoch."""

    def __init__(
        self,
        flow_control: FlowControl,
        storage: Storage,
        stores: Stores,
        new_uid: Callable[[], str],
        clock: Callable[[], float],
        later: CallLater = call_later,
    ) -> None:
        self._flow_control = flow_control
        self._storage = storage
        self._stores = stores
        self._new_uid = new_uid
        self._clock = clock
        self._later = later
        self._compiled: dict[str, Schema] = {}
        self._changed = asyncio.Event()
        self._changed_for_repair = asyncio.Event()

    async def run(self) -> None:
        """Keep flow control up to date until cancelled."""
        prefixes = [keys.resource_prefix(_GROUP, resource) for resource in (_SCHEMAS, _LEVELS)]
        if not [page for prefix in prefixes if (page := await self._storage.list(prefix, limit=1, counted=False)).items]:
            self._promise()
        first = [asyncio.create_task(until_stored(self._storage, prefix)) for prefix in prefixes]
        try:
            done, _ = await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in first:
                task.cancel()
            await asyncio.gather(*first, return_exceptions=True)
        await self._follow()

    def _promise(self) -> None:
        schemas, levels = flow_schemas(), priority_levels()
        for resource, objects in ((_SCHEMAS, schemas), (_LEVELS, levels)):
            uids = {obj["metadata"]["name"]: self._new_uid() for obj in objects}
            for obj in objects:
                obj["metadata"]["uid"] = uids[obj["metadata"]["name"]]
            self._stores.promise(_GROUP, resource, uids)
        self._flow_control.configure(map(schema, schemas), levels)

    async def _follow(self) -> None:
        levels = Informer(self._stores.store(_GROUP, _LEVELS), self._level_changed, self._later)
        schemas = Informer(self._stores.store(_GROUP, _SCHEMAS), partial(self._schema_changed, levels.objects), self._later)
        self._enqueue = schemas.enqueue
        self._schemas = schemas.objects
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(levels.run())
            await levels.caught_up()
            tasks.create_task(schemas.run())
            await schemas.caught_up()
            tasks.create_task(self._take_over(levels.objects))
            tasks.create_task(self._repair(schemas.objects, levels.objects))

    # --- what changes ---

    _schemas: Mapping[str, JSONObject] = {}

    async def _level_changed(self, name: str, level: JSONObject | None) -> float | None:
        self._note_change()
        for key, obj in self._schemas.items():
            if obj["spec"]["priorityLevelConfiguration"]["name"] == name:
                self._enqueue(key)
        return None

    async def _schema_changed(self, levels: Mapping[str, JSONObject], name: str, obj: JSONObject | None) -> float | None:
        self._note_change()
        if obj is None:
            self._compiled.pop(name, None)
            return None
        self._compiled[name] = schema(obj)
        wanted = dangling_condition(obj, obj["spec"]["priorityLevelConfiguration"]["name"] in levels)
        if not _has(obj, wanted):
            now = times.format_time(self._clock())

            async def told(current: JSONObject) -> JSONObject:
                others = [each for each in _conditions(current) if each.get("type") != wanted["type"]]
                return {**current, "status": {"conditions": [*others, {**wanted, "lastTransitionTime": now}]}}

            try:
                store = self._stores.status_store(_GROUP, _SCHEMAS)
                await store.update(WriteRequest(Context(CONTROLLER), _CONSUMER), name, told)
            except StatusError as error:
                if error.reason != "NotFound":
                    raise
        return None

    def _note_change(self) -> None:
        self._changed.set()
        self._changed_for_repair.set()

    async def _take_over(self, levels: Mapping[str, JSONObject]) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            began = time.monotonic()
            self._flow_control.configure(self._compiled.values(), levels.values())
            await self._pause(_REST * (time.monotonic() - began))

    async def _pause(self, seconds: float) -> None:
        over = asyncio.Event()
        self._later(seconds, over.set)
        await over.wait()

    # --- the first objects ---

    async def _repair(self, schemas: Mapping[str, JSONObject], levels: Mapping[str, JSONObject]) -> None:
        while True:
            await self._changed_for_repair.wait()
            await self._pause(_REPAIR_AFTER)
            self._changed_for_repair.clear()
            try:
                await self._repair_all(_LEVELS, levels, priority_levels())
                await self._repair_all(_SCHEMAS, schemas, flow_schemas())
            except StatusError as error:
                log.warning("the FlowSchemas and PriorityLevelConfigurations of every cluster: %s", error.message)
                self._changed_for_repair.set()

    async def _repair_all(self, resource: str, found: Mapping[str, JSONObject], wanted: Sequence[JSONObject]) -> None:
        store = self._stores.store(_GROUP, resource)
        context = Context(CONTROLLER)
        names = {obj["metadata"]["name"] for obj in wanted}
        for obj in wanted:
            name = obj["metadata"]["name"]
            current = found.get(name)
            if current is None:
                await store.create(WriteRequest(context, _PRODUCER), obj)
            elif repaired(current, obj) is not None:

                async def mended(there: JSONObject, obj: JSONObject = obj) -> JSONObject:
                    return repaired(there, obj) or there

                await store.update(WriteRequest(context, _PRODUCER), name, mended)
        for name, current in list(found.items()):
            if name not in names and _annotations(current).get(_AUTOUPDATE) == "true":
                # It belonged to every cluster in an earlier release.
                await store.delete(context, name, DeleteOptions())


def repaired(current: JSONObject, wanted: JSONMapping) -> JSONObject | None:
    """A first object as it should be; None if it is. Those that are not mandatory are left to whoever has changed them.

    Whoever changes one also sets its annotation to "false", or has it without, and then its generation tells.
    """
    mandatory = wanted["metadata"]["name"] in _MANDATORY
    annotation = _annotations(current).get(_AUTOUPDATE)
    is_ours = mandatory or annotation == "true"
    if annotation not in ("true", "false"):
        is_ours = is_ours or current["metadata"].get("generation") == 1
    text = "true" if is_ours else "false"
    spec = wanted["spec"] if is_ours else current["spec"]
    if mandatory and wanted["kind"] == "PriorityLevelConfiguration" and wanted["spec"]["type"] == "Exempt":
        # Its shares may be chosen.
        spec = {**spec, "exempt": current["spec"].get("exempt", spec["exempt"])}
    if annotation == text and current["spec"] == spec:
        return None
    metadata = {**current["metadata"], "annotations": {**_annotations(current), _AUTOUPDATE: text}}
    return {**current, "metadata": metadata, "spec": spec}


def _annotations(obj: JSONMapping) -> JSONMapping:
    return obj["metadata"].get("annotations") or {}


def _conditions(obj: JSONMapping) -> Sequence[JSONMapping]:
    return (obj.get("status") or {}).get("conditions") or ()


def _has(obj: JSONMapping, wanted: JSONMapping) -> bool:
    return any({**each, **wanted} == each for each in _conditions(obj))
