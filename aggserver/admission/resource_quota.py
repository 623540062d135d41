"""ResourceQuota: counts created objects against the ResourceQuotas of their namespace in the hosting cluster.

Before an object is stored, the usage in the quotas' status is written to the cluster, by compare and swap, so that other replicas
and kube-controller-manager agree. Creations that arrive while a write is under way share the next one. The usage only grows here:
if the object then can't be stored, or is deleted, kube-controller-manager corrects it when it counts again. Only creations are
counted, and those of a dry run are checked but not counted.

Upstream gives up after three conflicts. This plugin makes more attempts, and reads the quota again after each conflict: with
several replicas, conflicts are normal.
Source: k8s.io/apiserver pkg/admission/plugin/resourcequota/{admission,controller,resource_access}.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from aggserver.admission.chain import CREATE, Attributes
from aggserver.admission.quota import QuotaRefusal, applies, charge, count_name
from aggserver.admission.sources import Collection
from aggserver.cluster import Cluster, ClusterError, Unreachable
from aggserver.meta import errors
from aggserver.meta.json_types import JSONObject

__all__ = ["ResourceQuota"]

log = logging.getLogger("aggserver.quota")

# How long a creation waits for its turn, and for the usage to be written.
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


@dataclass(slots=True, eq=False)
class _Creation:
    """A creation that waits to be counted."""

    attributes: Attributes
    count: str
    decided: asyncio.Future[None]


class ResourceQuota:
    """The plugin. quotas: of the cluster. At most as many creations wait as the server has requests in flight.

    deadline_seconds: after this time, a creation that is not decided fails with 500.
    """

    def __init__(self, cluster: Cluster, quotas: Collection, *, deadline_seconds: float = DEADLINE_SECONDS) -> None:
        self._cluster = cluster
        self._quotas = quotas
        self._deadline_seconds = deadline_seconds
        self._waiting: dict[str, list[_Creation]] = {}  # by namespace; present while a worker has the namespace
        self._workers: set[asyncio.Task[None]] = set()
        self._turns = asyncio.Semaphore(_WORKERS)

    def concerns(self, attributes: Attributes) -> bool:
        is_creation = attributes.operation == CREATE and not attributes.subresource
        return is_creation and bool(attributes.namespace) and bool(self._quotas.within(attributes.namespace))

    async def validate(self, attributes: Attributes, obj: JSONObject | None, old: JSONObject | None) -> None:
        if attributes.operation != CREATE or attributes.subresource or not attributes.namespace:
            return
        quotas = self._quotas.within(attributes.namespace)
        if not quotas:
            return
        count = count_name(attributes.resource.group, attributes.resource.resource)
        if any(applies(quota, count) for quota in quotas.values()):
            await self._counted(_Creation(attributes, count, asyncio.get_running_loop().create_future()))

    async def _counted(self, creation: _Creation) -> None:
        namespace = creation.attributes.namespace
        if namespace in self._waiting:
            self._waiting[namespace].append(creation)
        else:
            self._waiting[namespace] = [creation]
            worker = asyncio.create_task(self._work(namespace))
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)
        try:
            async with asyncio.timeout(self._deadline_seconds):
                await creation.decided
        except TimeoutError:
            raise _timed_out() from None
        finally:
            waiting = self._waiting.get(namespace, [])
            if creation in waiting:
                waiting.remove(creation)

    async def _work(self, namespace: str) -> None:
        try:
            while waiting := self._waiting[namespace]:
                async with self._turns:
                    self._waiting[namespace] = []
                    try:
                        async with asyncio.timeout(self._deadline_seconds):
                            error = await self._decide(namespace, waiting)
                    except TimeoutError:
                        error = _timed_out()
                    except Exception:
                        log.exception("quotas of namespace %s", namespace)
                        error = errors.internal_error("resource quota evaluation failed")
                    for creation in waiting:
                        _settle(creation, error)
        finally:
            del self._waiting[namespace]

    async def _decide(self, namespace: str, creations: Sequence[_Creation]) -> errors.StatusError | None:
        """Count the creations, and settle those that are refused or need no write. Returns the error of the others, if any."""
        names: Iterable[str] = list(self._quotas.within(namespace))
        for attempt in itertools.count(1):
            known = self._quotas.within(namespace)
            before = [known[name] for name in names if name in known]
            after = _checked(before, creations)
            changed = {new["metadata"]["name"]: new for old, new in zip(before, after, strict=True) if old is not new}
            failed = await self._write(namespace, changed)
            if not failed:
                return None
            # Retry only these: the other quotas have counted the creations already.
            names = failed
            last = next(iter(failed.values()))
            if attempt >= (CONFLICTS if last.code == 409 else FAILURES):
                return last
        raise AssertionError("it counts without an end")

    async def _write(self, namespace: str, quotas: Mapping[str, JSONObject]) -> dict[str, errors.StatusError]:
        """Write the status of these quotas. Returns the errors of those that could not be written, by name.

        The objects are sent without managedFields; an update then keeps the stored ones.
        """
        failed = {}
        for name, quota in quotas.items():
            path = f"/api/v1/namespaces/{namespace}/resourcequotas/{name}"
            try:
                self._quotas.put_written(await self._cluster.request("PUT", f"{path}/status", body=quota))
            except (ClusterError, Unreachable) as error:
                failed[name] = _as_status(name, error)
                await self._read_again(namespace, name, path, error)
        return failed

    async def _read_again(self, namespace: str, name: str, path: str, error: ClusterError | Unreachable) -> None:
        """Read a quota after a conflict, so that the next attempt starts from its present state. Logs other failures."""
        if not isinstance(error, ClusterError) or error.code not in (404, 409):
            log.warning("usage of quota %s/%s could not be written: %s", namespace, name, error)
            if isinstance(error, ClusterError) and error.code == 403:
                log.warning("%s", _GRANT)
            return
        try:
            self._quotas.put_written(await self._cluster.request("GET", path))
        except ClusterError as missing:
            if missing.code == 404:
                self._quotas.remove(namespace, name)
        except Unreachable:
            return


def _checked(quotas: list[JSONObject], creations: Sequence[_Creation]) -> list[JSONObject]:
    """Settle creations that are refused or need no write. Returns the quotas to write, which count all other creations."""
    for creation in creations:
        if creation.decided.done():
            continue
        try:
            charged = charge(quotas, creation.count)
        except QuotaRefusal as refusal:
            attributes = creation.attributes
            info = attributes.resource
            _settle(creation, errors.forbidden(info.group, info.resource, attributes.name, str(refusal)))
            continue
        if creation.attributes.dry_run or all(new is old for new, old in zip(charged, quotas, strict=True)):
            _settle(creation, None)
        else:
            quotas = charged
    return quotas


def _settle(creation: _Creation, error: errors.StatusError | None) -> None:
    if creation.decided.done():
        return
    if error is None:
        creation.decided.set_result(None)
    else:
        creation.decided.set_exception(error)


def _timed_out() -> errors.StatusError:
    return errors.internal_error("resource quota evaluation timed out")


def _as_status(name: str, error: ClusterError | Unreachable) -> errors.StatusError:
    """The error for the client. A missing right of this server becomes 500, since it is not the client's."""
    if isinstance(error, ClusterError) and error.code not in (401, 403) and error.reason:
        return errors.StatusError(error.code, error.reason, error.message, name=name, kind="resourcequotas")
    return errors.internal_error(f"usage of resource quota {name} could not be written: {error}")
