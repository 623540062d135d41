"""Seeded kinds: those of which every cluster has some objects, made with the first request for the kind.

kube-apiserver makes them when it starts. Here a kind costs nothing until it is asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from aggserver.informers.informer import CONTROLLER
from aggserver.kinds.strategy import KindStrategy
from aggserver.meta import errors, times
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.registry.resource_storage import ResourceStorage
from aggserver.registry.rest import (
    NO_ADMISSION,
    Admission,
    Context,
    Deleted,
    DeleteOptions,
    ListOptions,
    WriteOptions,
    WriteRequest,
)
from aggserver.registry.store import Store
from aggserver.registry.stored import StoredObject
from aggserver.registry.views import Views
from aggserver.registry.watch import Watch

__all__ = ["SeededStore"]

_WRITE = WriteOptions(field_manager="kube-apiserver")


class SeededStore(Store):
    """The store of a seeded kind. seeds: now, in RFC 3339 -> the objects to be made, if there are none of their names.

    status_strategy: for those with a status, which they get afterwards. kept: why an object of this name can't be deleted; '' if
    it can. uids: of objects to be made, by name, if they are known before.
    """

    def __init__(
        self,
        resource: ResourceStorage,
        strategy: KindStrategy,
        views: Views,
        seeds: Callable[[str], Iterable[JSONObject]],
        status_strategy: KindStrategy | None = None,
        kept: Callable[[str], str] = lambda name: "",
        uids: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(resource, strategy, views)
        self._status_strategy = status_strategy
        self._kept = kept
        self._seeds = seeds
        self._beginning: asyncio.Task[None] | None = None
        self._uids = uids

    def new_uid(self, name: str) -> str:
        making = self._beginning is not None and self._beginning is asyncio.current_task()
        return (self._uids.get(name) if making else None) or super().new_uid(name)

    async def create(self, request: WriteRequest, obj: JSONObject) -> StoredObject:
        await self._begun()
        return await super().create(request, obj)

    async def watch(self, context: Context, options: ListOptions) -> Watch:
        await self._begun()
        return await super().watch(context, options)

    async def catch_up(self, resource_version: str) -> None:
        await self._begun()
        await super().catch_up(resource_version)

    async def delete(self, context: Context, name: str, options: DeleteOptions, admission: Admission = NO_ADMISSION) -> Deleted:
        if why := self._kept(name):
            raise errors.forbidden(self._info.group, self._info.resource, name, why)
        return await super().delete(context, name, options, admission)

    async def _begun(self) -> None:
        """Wait until the objects exist. Every request does so first."""
        if self._beginning is None:
            self._beginning = asyncio.create_task(self._begin())
        if self._beginning is not asyncio.current_task():
            await asyncio.shield(self._beginning)

    async def _begin(self) -> None:
        for seed in self._seeds(times.format_time(self._resource.clock())):
            request = WriteRequest(Context(CONTROLLER, seed["metadata"].get("namespace", "")), _WRITE)
            status = seed.pop("status", None)
            try:
                await self.create(request, seed)
                if status is not None and self._status_strategy is not None:
                    await self._add_status(request, seed["metadata"]["name"], status)
            except StatusError as error:
                if error.reason not in ("AlreadyExists", "Invalid"):
                    self._beginning = None  # the next request tries again
                    raise

    async def _add_status(self, request: WriteRequest, name: str, status: JSONObject) -> None:
        assert self._status_strategy is not None

        async def added(obj: JSONObject) -> JSONObject:
            return {**obj, "status": status}

        await self.with_strategy(self._status_strategy).update(request, name, added)
