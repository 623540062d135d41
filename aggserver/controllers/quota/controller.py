"""QuotaController: counts what is used of each ResourceQuota, and writes its status.

It begins with the first quota. Admission writes what a write uses when it permits it (`admission/resource_quota.py`), so that
this controller has to write only what objects use less than before, such as when they are deleted, and the limits of new quotas.
Kinds that are not served, or whose objects are not in the storage, have no usage in the status, as upstream.
Source: k8s.io/kubernetes pkg/controller/resourcequota, v1.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from aggserver.admission.quota import Evaluator
from aggserver.admission.resource_quota import ResourceQuota
from aggserver.admission.sources import Collection
from aggserver.controllers.internal_client import InternalClient, service_account
from aggserver.controllers.quota.ledger import QuotaLedger
from aggserver.endpoints.installer import Installer
from aggserver.informers.work_queue import CallLater, WorkQueue, call_later
from aggserver.kinds.quota_usage import Evaluators
from aggserver.meta import errors
from aggserver.meta.json_types import JSONObject
from aggserver.storage import keys
from aggserver.storage.interface import Storage
from aggserver.storage.keys import ObjectKey

__all__ = ["QuotaController"]

_AGAIN = 1.0  # seconds until what could not be written is tried again


class QuotaController:
    """`plugin` is the one of admission; `run` is the task. quotas: all there are. clock: in seconds."""

    def __init__(
        self,
        storage: Storage,
        quotas: Collection,
        installer: Installer,
        clock: Callable[[], float],
        later: CallLater = call_later,
    ) -> None:
        self._client = InternalClient(installer, storage, service_account("resourcequota-controller"))
        self._quotas = quotas
        self._evaluators = Evaluators(clock)
        self._ledger = QuotaLedger(storage, quotas, self._counted, self._changed, self._all_again, later)
        self._queue = WorkQueue[str]("quotas of namespace", self._sync, later)
        self.plugin = ResourceQuota(_OwnQuotas(self._client), quotas, self._evaluator, self._ledger)
        installer.on_change(self._all_again)

    async def run(self) -> None:
        self._ledger.active = True
        self._all_again()
        try:
            await self._queue.run()
        finally:
            self._ledger.close()

    def quota_changed(self, namespace: str, name: str) -> None:
        """A quota was made, changed or deleted."""
        self._queue.add(namespace)

    def _all_again(self) -> None:
        for namespace in {quota["metadata"]["namespace"] for quota in self._quotas}:
            self._queue.add(namespace)

    def _changed(self, namespace: str) -> None:
        self.plugin.settle(namespace)

    async def _sync(self, namespace: str) -> float | None:
        await self._ledger.prepare(namespace)
        self.plugin.settle(namespace)
        return _AGAIN if self.plugin.is_behind(namespace) else None

    def _evaluator(self, group: str, resource: str) -> Evaluator | None:
        return self._evaluators.of(group, resource) if self._client.is_stored(group, resource) else None

    def _counted(self, names: Iterable[str]) -> Mapping[tuple[str, str], Evaluator]:
        return self._evaluators.of_quota(names, self._client.is_stored)


class _OwnQuotas:
    """`admission.resource_quota.QuotaStore` of this server."""

    def __init__(self, client: InternalClient) -> None:
        self._client = client

    async def write_status(self, quota: JSONObject) -> JSONObject:
        metadata = quota["metadata"]
        at = ObjectKey("", "resourcequotas", metadata["namespace"], metadata["name"])

        async def counted(current: JSONObject) -> JSONObject:
            if current["metadata"]["resourceVersion"] != metadata["resourceVersion"]:
                raise errors.conflict("", "resourcequotas", at.name, "the object has been modified")
            return {**current, "status": quota["status"]}

        written = await self._client.update(at, counted, uid=metadata["uid"], subresource="status", of_metadata=False)
        return written.decoded()

    async def read(self, namespace: str, name: str) -> JSONObject:
        found = await self._client.read_whole(f"{keys.resource_prefix('', 'resourcequotas')}{namespace}/{name}")
        if found is None:
            raise errors.not_found("", "resourcequotas", name)
        return found
