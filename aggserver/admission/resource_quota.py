"""ResourceQuota: counts what writes use against the ResourceQuotas of their namespace.

Before an object is stored, the usage in the quotas' status is written, by compare and swap, so that other replicas and
kube-controller-manager agree. Writes that arrive while the usage is being written share the next one. Those of a dry run are
checked but not counted. Deletions, and what uses less than before, are seen by the controller of quotas.

With the hosting cluster's quotas (`ClusterQuotas`), the usage only grows here: if the object then can't be stored, or is deleted,
kube-controller-manager corrects it when it counts again. With this server's own, a `UsageLedger` knows what stored objects use
and what the writes under way will use; each write of the usage begins from that, and a write that fails is taken back at once.

Upstream gives up after three conflicts. This plugin makes more attempts, and reads the quota again after each conflict: with
several replicas, conflicts are normal.
Source: k8s.io/apiserver pkg/admission/plugin/resourcequota/{admission,controller,resource_access}.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from aggserver.admission.chain import CREATE, DELETE, Attributes, forbidden
from aggserver.admission.quota import Amounts, Charge, Counted, Evaluator, QuotaRefusal, charge
from aggserver.admission.sources import Collection
from aggserver.cluster import Cluster, ClusterError, Unreachable
from aggserver.meta import errors
from aggserver.meta.json_types import JSONObject
from aggserver.storage.keys import ObjectKey

__all__ = ["ClusterQuotas", "QuotaStore", "ResourceQuota", "UsageLedger"]

log = logging.getLogger("aggserver.quota")

# How long a write waits for its turn, and for the usage to be written.
DEADLINE_SECONDS = 10.0
# Attempts to write a quota: after a conflict with another writer, and after another failure.
CONFLICTS = 10
FAILURES = 4
# Namespaces whose quotas are written at the same time, as upstream.
_WORKERS = 5

_GRANT = (
    "grant this server's service account {apiGroups: [''], resources: [resourcequotas/status], verbs: [update]} and "
    "{apiGroups: [''], resources: [resourcequotas], verbs: [get, list, watch]} (cluster-access.yaml)"
)


class QuotaStore(Protocol):
    """Where the quotas are. Raises StatusError."""

    async def write_status(self, quota: JSONObject) -> JSONObject:
        """Write the status, if the quota is at its resourceVersion. Returns it as it is then."""

    async def read(self, namespace: str, name: str) -> JSONObject: ...


class UsageLedger(Protocol):
    """What is used in truth."""

    def truth(self, quota: JSONObject) -> JSONObject:
        """The quota with its limits and usage as they are now; as it is, if they are not known."""

    def reserve(self, key: ObjectKey, after: int, amounts: Mapping[str, Amounts]) -> object:
        """Count what a write of an object is going to use, by the names of quotas, until the object has been stored.

        after: the revision that the object has now, 0 for a new one. Returns a token for `release`.
        """

    def release(self, token: object) -> None:
        """The write has failed. Does nothing for a token that is known no more."""


@dataclass(slots=True, eq=False)
class _Waiting:
    """A write that waits to be counted. reservation: of the ledger, once the write is permitted."""

    attributes: Attributes
    charge: Charge
    key: ObjectKey
    decided: asyncio.Future[None]
    reservation: object | None = None


class ResourceQuota:
    """The plugin. quotas: as last known. At most as many writes wait as the server has requests in flight.

    evaluator: returns that of a group and resource, None for one that is not counted. ledger: None if only a controller elsewhere
    knows it. deadline_seconds: after this time, a write that is not decided fails with 500.
    """

    def __init__(
        self,
        store: QuotaStore,
        quotas: Collection,
        evaluator: Callable[[str, str], Evaluator | None] = Counted,
        ledger: UsageLedger | None = None,
        *,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        self._store = store
        self._quotas = quotas
        self._evaluator = evaluator
        self._ledger = ledger
        self._counts_updates = evaluator is not Counted
        self._deadline_seconds = deadline_seconds
        self._waiting: dict[str, list[_Waiting]] = {}  # by namespace; present while a worker has the namespace
        self._workers: set[asyncio.Task[None]] = set()
        self._turns = asyncio.Semaphore(_WORKERS)

    def concerns(self, attributes: Attributes) -> bool:
        if not attributes.namespace or attributes.operation == DELETE or not self._quotas.within(attributes.namespace):
            return False
        return self._counts_updates or (attributes.operation == CREATE and not attributes.subresource)

    async def validate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> None:
        if obj is None or not attributes.namespace:
            return
        quotas = self._quotas.within(attributes.namespace)
        info = attributes.resource
        evaluator = self._evaluator(info.group, info.resource) if quotas else None
        if evaluator is None or not evaluator.handles(attributes.operation, attributes.subresource, obj, old):
            return
        if not any(evaluator.matching((quota.get("status") or {}).get("hard") or ()) for quota in quotas.values()):
            return
        key = ObjectKey(info.group, info.resource, attributes.namespace, obj["metadata"].get("name") or attributes.name)
        write = Charge(evaluator, obj, old, attributes.subresource)
        await self._counted(_Waiting(attributes, write, key, asyncio.get_running_loop().create_future()))

    def settle(self, namespace: str) -> None:
        """Write what the ledger knows to the quotas of a namespace, in the background, if they have something else."""
        if namespace not in self._waiting and self.is_behind(namespace):
            self._start(namespace)

    def is_behind(self, namespace: str) -> bool:
        """Whether the ledger knows something that is not written."""
        return any(self._truth(quota) is not quota for quota in self._known(namespace))

    async def _counted(self, waiting: _Waiting) -> None:
        namespace = waiting.attributes.namespace
        if namespace not in self._waiting:
            self._start(namespace)
        self._waiting[namespace].append(waiting)
        try:
            async with asyncio.timeout(self._deadline_seconds):
                await waiting.decided
        except BaseException as error:
            self._release(waiting)
            if isinstance(error, TimeoutError):
                raise _timed_out() from None
            raise
        finally:
            others = self._waiting.get(namespace, [])
            if waiting in others:
                others.remove(waiting)
        if waiting.reservation is not None:
            waiting.attributes.undo.append(partial(self._release, waiting))

    def _release(self, waiting: _Waiting) -> None:
        """Take back what was reserved for a write."""
        if waiting.reservation is not None and self._ledger is not None:
            self._ledger.release(waiting.reservation)
            waiting.reservation = None
            self.settle(waiting.attributes.namespace)

    def _start(self, namespace: str) -> None:
        self._waiting[namespace] = []
        worker = asyncio.create_task(self._work(namespace))
        self._workers.add(worker)
        worker.add_done_callback(self._workers.discard)

    async def _work(self, namespace: str) -> None:
        try:
            while True:
                async with self._turns:
                    waiting, self._waiting[namespace] = self._waiting[namespace], []
                    before = self._revisions(namespace)
                    try:
                        async with asyncio.timeout(self._deadline_seconds):
                            error = await self._decide(namespace, waiting)
                    except TimeoutError:
                        error = _timed_out()
                    except Exception:
                        log.exception("quotas of namespace %s", namespace)
                        error = errors.internal_error("resource quota evaluation failed")
                    for each in waiting:
                        _settle(each, error)
                # What the ledger has learned during a write is written, too. If nothing was written, it would not be now.
                is_stuck = before == self._revisions(namespace) or not self.is_behind(namespace)
                if not self._waiting[namespace] and (is_stuck or error is not None):
                    return
        finally:
            del self._waiting[namespace]

    def _known(self, namespace: str) -> list[JSONObject]:
        return list(self._quotas.within(namespace).values())

    def _truth(self, quota: JSONObject) -> JSONObject:
        return quota if self._ledger is None else self._ledger.truth(quota)

    def _revisions(self, namespace: str) -> list[str]:
        return [quota["metadata"]["resourceVersion"] for quota in self._known(namespace)]

    async def _decide(self, namespace: str, waiting: Sequence[_Waiting]) -> errors.StatusError | None:
        """Count the writes, and settle those that are refused or change no quota. Returns the error of the others, if any."""
        names: Iterable[str] | None = None
        for attempt in itertools.count(1):
            known = self._quotas.within(namespace)
            before = [known[name] for name in (known if names is None else names) if name in known]
            after = self._checked([self._truth(quota) for quota in before], waiting)
            changed = {new["metadata"]["name"]: new for old, new in zip(before, after, strict=True) if old is not new}
            failed = await self._write(namespace, changed)
            if not failed:
                return None
            last = next(iter(failed.values()))
            if self._ledger is None:
                # Retry only these: the other quotas have counted the writes already.
                names = failed
            else:
                # Begin again from the truth.
                for each in waiting:
                    if each.reservation is not None and not each.decided.done():
                        self._ledger.release(each.reservation)
                        each.reservation = None
            if attempt >= (CONFLICTS if last.code == 409 else FAILURES):
                return last
        raise AssertionError("it counts without an end")

    def _checked(self, quotas: list[JSONObject], waiting: Sequence[_Waiting]) -> list[JSONObject]:
        """Settle writes that are refused or change no quota. Returns the quotas to write, which count all others."""
        for each in waiting:
            if each.decided.done():
                continue
            try:
                charged = charge(quotas, each.charge)
            except QuotaRefusal as refusal:
                _settle(each, forbidden(each.attributes, each.charge.obj, str(refusal)))
                continue
            if each.attributes.dry_run or not charged.amounts:
                _settle(each, None)
                continue
            quotas = charged.quotas
            if self._ledger is not None:
                old = each.charge.old
                revision = 0 if old is None else int(old["metadata"].get("resourceVersion") or 0)
                each.reservation = self._ledger.reserve(each.key, revision, charged.amounts)
        return quotas

    async def _write(self, namespace: str, quotas: Mapping[str, JSONObject]) -> dict[str, errors.StatusError]:
        """Write the status of these quotas. Returns the errors of those that could not be written, by name."""
        failed = {}
        for name, quota in quotas.items():
            try:
                self._quotas.put_written(await self._store.write_status(quota))
            except errors.StatusError as error:
                failed[name] = error
                if error.code in (404, 409):
                    await self._read_again(namespace, name)
        return failed

    async def _read_again(self, namespace: str, name: str) -> None:
        """Read a quota after a conflict, so that the next attempt starts from its present state."""
        try:
            self._quotas.put_written(await self._store.read(namespace, name))
        except errors.StatusError as error:
            if error.code == 404:
                self._quotas.remove(namespace, name)


class ClusterQuotas:
    """The quotas of the hosting cluster. They are sent without managedFields; an update then keeps the stored ones."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def write_status(self, quota: JSONObject) -> JSONObject:
        metadata = quota["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        try:
            return await self._cluster.request("PUT", f"{_path(namespace, name)}/status", body=quota)
        except (ClusterError, Unreachable) as error:
            if not isinstance(error, ClusterError) or error.code not in (404, 409):
                log.warning("usage of quota %s/%s could not be written: %s", namespace, name, error)
                if isinstance(error, ClusterError) and error.code == 403:
                    log.warning("%s", _GRANT)
            raise _as_status(name, error) from None

    async def read(self, namespace: str, name: str) -> JSONObject:
        try:
            return await self._cluster.request("GET", _path(namespace, name))
        except (ClusterError, Unreachable) as error:
            raise _as_status(name, error) from None


def _path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/resourcequotas/{name}"


def _settle(waiting: _Waiting, error: errors.StatusError | None) -> None:
    if waiting.decided.done():
        return
    if error is None:
        waiting.decided.set_result(None)
    else:
        waiting.decided.set_exception(error)


def _timed_out() -> errors.StatusError:
    return errors.internal_error("resource quota evaluation timed out")


def _as_status(name: str, error: ClusterError | Unreachable) -> errors.StatusError:
    """The error for the client. A missing right of this server becomes 500, since it is not the client's."""
    if isinstance(error, ClusterError) and error.code not in (401, 403) and error.reason:
        return errors.StatusError(error.code, error.reason, error.message, name=name, kind="resourcequotas")
    return errors.internal_error(f"usage of resource quota {name} could not be written: {error}")
