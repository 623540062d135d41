"""NamespaceController: empties the namespaces that are being deleted, and then removes their finalizer.

All objects of all kinds are deleted as a client would delete them, so that their finalizers are respected. Pods go first, and the
rest only when there are none. The conditions of the namespace show what is left.
Objects that are not in the store, but kept by a source of somebody's own, are deleted last, by their resources. A source that
fails keeps the namespace, with the reason in its conditions, since nobody can say that it has nothing there.
It begins GRACE_SECONDS after the deletion: suites that were written for envtest, where nothing empties namespaces, delete a
namespace and then finalize it themselves, which must not conflict with writes of this controller.
Source: k8s.io/kubernetes pkg/controller/namespace, v1.36.3. Upstream waits five seconds before it begins, and longer for what has
finalizers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aggserver.controllers.internal_client import InternalClient, service_account
from aggserver.controllers.namespaces.conditions import Remaining, with_conditions
from aggserver.endpoints.installer import Installer
from aggserver.informers.informer import CONTROLLER, Informer
from aggserver.informers.work_queue import CallLater, call_later
from aggserver.kinds.namespaces import FINALIZER, NamespaceFinalizeStrategy, NamespaceStatusStrategy, finalizers
from aggserver.meta import times
from aggserver.meta.errors import StatusError, qualified
from aggserver.meta.json_types import JSONObject
from aggserver.registry.rest import Context, DeleteOptions, WriteOptions, WriteRequest
from aggserver.registry.store import Store
from aggserver.storage.interface import Storage

__all__ = ["GRACE_SECONDS", "NamespaceController"]

GRACE_SECONDS = 1.0

USER = service_account("namespace-controller")
_PODS = ("", "pods")
_BACKGROUND = DeleteOptions(propagation="Background")
_WRITE = WriteOptions(field_manager="aggserver", bounded=False)
# Seconds until a deleted namespace is checked again while its objects wait for the finalizers of others.
_RESYNC_SECONDS = 0.5
# Seconds until that for a source of somebody's own that has failed, and that it may take.
_SOURCE_RESYNC_SECONDS = 5.0
_SOURCE_SECONDS = 10.0
# Namespaces that are emptied concurrently.
_WORKERS = 4


class NamespaceController:
    """The controller; `run` is its task. store: of the namespaces. clock: seconds since the epoch.

    grace: seconds from the deletion of a namespace, or from the start of the task if that is later, to the first deletion in it.
    """

    def __init__(
        self,
        store: Store,
        installer: Installer,
        storage: Storage,
        clock: Callable[[], float],
        later: CallLater = call_later,
        grace: float = GRACE_SECONDS,
    ) -> None:
        self._finalize = store.with_strategy(NamespaceFinalizeStrategy())
        self._status = store.with_strategy(NamespaceStatusStrategy())
        self._client = InternalClient(installer, storage, USER)
        self._clock = clock
        self._grace = grace
        # By name, the uids of namespaces that were seen being deleted.
        self._deleted: dict[str, str] = {}
        self._informer = Informer(store, self._sync, later, workers=_WORKERS)

    async def run(self) -> None:
        await self._informer.run()

    async def _sync(self, name: str, namespace: JSONObject | None) -> float | None:
        if namespace is None:
            self._deleted.pop(name, None)
            return None
        if "deletionTimestamp" not in namespace["metadata"] or not finalizers(namespace):
            return None
        uid = namespace["metadata"]["uid"]
        if self._grace and self._deleted.get(name) != uid:
            self._deleted[name] = uid
            return self._grace
        remaining = await self._empty(name)
        sources = Remaining()
        if not remaining.objects and not remaining.failures:
            await self._empty_sources(name, sources)
            remaining = sources
        now = times.format_time(self._clock())

        async def with_status(current: JSONObject) -> JSONObject:
            return {**current, "status": with_conditions(current.get("status") or {}, remaining, now)}

        async def without_finalizer(current: JSONObject) -> JSONObject:
            return {**current, "spec": {"finalizers": [entry for entry in finalizers(current) if entry != FINALIZER]}}

        try:
            await self._status.update(WriteRequest(Context(CONTROLLER), _WRITE), name, with_status)
            if remaining.objects or remaining.failures:
                return _SOURCE_RESYNC_SECONDS if sources.failures else _RESYNC_SECONDS
            await self._finalize.update(WriteRequest(Context(CONTROLLER), _WRITE), name, without_finalizer)
        except StatusError as error:
            if error.code != 404:  # a client removed it first
                raise
        return None

    async def _empty(self, namespace: str) -> Remaining:
        remaining = Remaining()
        resources = list(self._client.namespaced())
        if _PODS in resources:
            await self._delete(*_PODS, namespace, remaining)
            if remaining.objects:
                remaining.shows_numbers = False
                return remaining
        for group, resource in resources:
            if (group, resource) != _PODS:
                await self._delete(group, resource, namespace, remaining)
        return remaining

    async def _empty_sources(self, namespace: str, remaining: Remaining) -> None:
        """Delete what is not in the store. The sources are asked together: one that hangs delays no other one."""

        async def empty(group: str, resource: str) -> None:
            try:
                async with asyncio.timeout(_SOURCE_SECONDS):
                    if await self._client.list_elsewhere(group, resource, namespace):
                        await self._client.delete_all(group, resource, namespace, _BACKGROUND)
                        if left := await self._client.list_elsewhere(group, resource, namespace):
                            remaining.objects[group, resource] = len(left)
                            for obj in left:
                                remaining.finalizers.update(obj.decoded()["metadata"].get("finalizers") or ())
            except TimeoutError:
                remaining.failures.append(f"{qualified(resource, group)}: no answer in {_SOURCE_SECONDS:.0f} s")
            except StatusError as error:
                remaining.failures.append(f"{qualified(resource, group)}: {error.message}")

        async with asyncio.TaskGroup() as tasks:
            for name in list(self._client.elsewhere()):
                tasks.create_task(empty(*name))

    async def _delete(self, group: str, resource: str, namespace: str, remaining: Remaining) -> None:
        # Count first: most resources have no objects here, and counting needs neither their cache nor their schema.
        if not await self._client.count(group, resource, namespace):
            return
        try:
            await self._client.delete_all(group, resource, namespace, _BACKGROUND)
        except StatusError as error:
            remaining.failures.append(error.message)
        left = await self._client.finalizers(group, resource, namespace)
        if left:
            remaining.objects[group, resource] = len(left)
            for names in left:
                remaining.finalizers.update(names)
