"""Removes the leftovers of a definition through kube-apiserver's API, where the cluster's etcd can't be reached.

While the definition has the version of `version.py`, kube-apiserver serves what the move left. The guard refuses everybody's
writes there but this server's. Deletions have the propagation policy Background, which removes the object alone: the garbage
collector follows another version, and does not see it go. Orphan and Foreground would leave finalizers that it never takes off.

The definition has the version only during a removal. Every step can be repeated: what an interrupted step left is found in the
host.
Source: k8s.io/apiserver pkg/registry/generic/registry/store.go (deletionFinalizersForGarbageCollection), k8s.io/kubernetes
pkg/controller/garbagecollector/graph_builder.go, k8s.io/apiextensions-apiserver pkg/controller/finalizer, v0.36.3.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

from aggserver.adoption.give_back.to_etcd import MOST_NAMED, Fault, all_of, fault_text, objects_prefix
from aggserver.adoption.leftovers.version import (
    LEFTOVER,
    MANAGER,
    VERSION,
    Leftover,
    acting_webhooks,
    addition,
    fault,
    is_open,
    leftover,
    obstacle,
    removal,
    restored_managers,
)
from aggserver.adoption.records.record import CantGiveBack, Copied, Progress, being_removed, digest
from aggserver.adoption.switch.switching import ATTEMPTS, DEFINITIONS, LASTING, LOOKS, PATIENCE
from aggserver.apiextensions.api_service import API_SERVICES
from aggserver.cluster import Cluster, ClusterError, Unreachable, find
from aggserver.cluster.pacing import Sleep
from aggserver.meta.json_types import JSONMapping, JSONObject

__all__ = ["APILeftovers", "close"]

log = logging.getLogger("aggserver.adoption")

PAGE = 500
AT_ONCE = 16  # requests at the same time
SECONDS = 60.0  # for the answer of one
TRIES = 6  # of a request that the host does not answer, or is too busy for
_BUSY = (429, 503)

# Watches that were opened before the version was there end a second after each kube-apiserver has seen it.
OLD_WATCHES_SECONDS = 2.0

# On a definition that is being deleted, until the host has deleted all its objects: at once, unless they have finalizers.
CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
# How often to check whether the host has deleted them: for more than a second in all.
DELETION_LOOKS = 9

_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_WEBHOOKS = tuple(f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations" for kind in ("mutating", "validating"))
_ETCD = "removing what is left needs --host-etcd-servers"

Clusters = Callable[[], Awaitable[Sequence[Cluster]]]


class APILeftovers:
    """A `steps.Remains`, to be used within `opened`.

    clusters: returns a client for each kube-apiserver. definition: such as crontabs.stable.example.com; uid: its uid in the host.
    """

    def __init__(self, cluster: Cluster, clusters: Clusters, definition: str, uid: str, *, sleep: Sleep = asyncio.sleep) -> None:
        self._cluster = cluster
        self._clusters = clusters
        self._definition = definition
        self._uid = uid
        self._sleep = sleep
        self._plural, _, group = definition.partition(".")
        self._base = f"/apis/{group}/{VERSION}"
        self._prefix = objects_prefix(definition)
        self._crd: JSONMapping = {}

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[APILeftovers]:
        """Within the block kube-apiserver serves the leftovers. Raises CantGiveBack, ClusterError and Unreachable."""
        try:
            await self._open()
            yield self
        finally:
            await close(self._cluster, self._definition, self._uid, sleep=self._sleep)

    async def check_removable(self, copied: Copied) -> Copied:
        pairs: list[tuple[str, int]] = []
        have_finalizers = False
        async for page in self._pages():
            pairs += [(each.key, each.revision) for each in page]
            have_finalizers = have_finalizers or any(each.finalizers for each in page)
        await self._check_webhooks(updates=have_finalizers)
        if copied.is_being_removed:
            return copied
        if len(pairs) != copied.count or await asyncio.to_thread(lambda: digest(sorted(pairs))) != copied.digest:
            raise CantGiveBack(
                f"{self._definition}: the cluster's etcd has {len(pairs)} objects, and {copied.count} were copied, or some have "
                "changed since: nothing is removed"
            )
        return being_removed(copied)

    async def remove(self, copied: Copied, progress: Progress) -> int:
        """Remove all leftovers. Raises CantGiveBack at an object that was written after the move, and at the end for refusals."""
        removed = 0

        async def take(page: Sequence[Leftover]) -> tuple[int, list[Fault]]:
            nonlocal removed
            if faults := [Fault(each.key, why) for each in page if (why := fault(each, copied))]:
                raise CantGiveBack(fault_text("not all that is left in the cluster's etcd was copied", faults))
            done, refused = await self._each(page, self._remove)
            removed += done
            progress(removed, max(copied.count, removed), 0)
            return done, refused

        if refused := await self._repeat(take):
            raise CantGiveBack(fault_text(f"{removed} objects were removed, and the rest is refused", refused))
        return removed

    async def release_finalizers(self) -> None:
        """Take the finalizers off what is left of a definition that is being deleted, so that the host deletes it.

        Raises CantGiveBack, ClusterError and Unreachable.
        """

        async def take(page: Sequence[Leftover]) -> tuple[int, list[Fault]]:
            return await self._each([each for each in page if each.finalizers], self._unfinalize)

        for pause in itertools.islice(LOOKS.pauses(), DELETION_LOOKS):
            crd = await self._found()
            if crd is None or CLEANUP_FINALIZER not in (crd["metadata"].get("finalizers") or ()):
                return  # the host has deleted all objects itself
            await self._sleep(pause)
        async with self.opened():
            await self._check_webhooks(updates=True)
            if refused := await self._repeat(take):
                raise CantGiveBack(fault_text("what is left in the cluster's etcd keeps its finalizers", refused))

    # --- the version ---

    async def _open(self) -> None:
        for left in reversed(range(ATTEMPTS)):
            crd = await self._found()
            if crd is None:
                raise CantGiveBack(f"{self._definition} is not in the host any more")
            if why := obstacle(crd):
                raise CantGiveBack(f"{self._definition}: {why}; {_ETCD}")
            self._crd = crd
            if is_open(crd):
                break
            try:
                await _change(self._cluster, crd, addition(crd))
            except ClusterError as error:
                # 409, or 422 of a test that failed: somebody has changed the definition since it was read.
                if left and error.code in (409, 422):
                    continue
                if error.code not in LASTING:
                    raise
                raise CantGiveBack(f"{self._definition} can't be given the version {VERSION}: {error}; {_ETCD}") from error
            log.info("%s has the version %s, by which kube-apiserver serves what the move left", self._definition, VERSION)
            break
        for cluster in await self._clusters():
            await self._until_served(cluster)
        await self._sleep(OLD_WATCHES_SECONDS)

    async def _until_served(self, cluster: Cluster) -> None:
        pauses = LOOKS.pauses()
        for left in reversed(range(PATIENCE)):
            try:
                await cluster.request("GET", f"{self._base}/{self._plural}", query={"limit": "1"}, accept=_METADATA)
            except ClusterError as error:
                if error.code not in (404, *_BUSY) or not left:
                    raise
                await self._sleep(next(pauses))
            else:
                return

    async def _found(self) -> JSONObject | None:
        return await _definition(self._cluster, self._definition, self._uid)

    async def _check_webhooks(self, *, updates: bool) -> None:
        found = [each for path in _WEBHOOKS for each in (await self._request("GET", path))["items"]]
        if names := acting_webhooks(found, self._crd, updates=updates):
            named = ", ".join(names[:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else "")
            raise CantGiveBack(
                f"{self._definition}: admission webhooks with side effects would be asked about objects that live on here: "
                f"{named}; {_ETCD}"
            )

    # --- the objects ---

    async def _pages(self) -> AsyncIterator[list[Leftover]]:
        query = {"limit": str(PAGE)}
        while True:
            page = await self._request("GET", f"{self._base}/{self._plural}", query=query, accept=_METADATA)
            yield [leftover(self._prefix, each["metadata"]) for each in page.get("items") or ()]
            query["continue"] = page["metadata"].get("continue") or ""
            if not query["continue"]:
                return

    async def _repeat(self, take: Callable[[Sequence[Leftover]], Awaitable[tuple[int, list[Fault]]]]) -> list[Fault]:
        """Call `take` for all pages, again and again until it changes nothing more. Returns what was refused at last."""
        while True:
            done, refused, expired = 0, list[Fault](), False
            try:
                async for page in self._pages():
                    more, faults = await take(page)
                    done += more
                    refused += faults[: MOST_NAMED + 1 - len(refused)]
            except ClusterError as error:
                if error.code != 410 or not done:
                    raise
                expired = True  # the list is older than the host's history by now
            if not done and not expired:
                return refused

    async def _each(self, items: Sequence[Leftover], change: Callable[[Leftover], Awaitable[object]]) -> tuple[int, list[Fault]]:
        """Change each, several at the same time. Returns how many were changed, and what kube-apiserver refuses."""
        refused = []
        for at in range(0, len(items), AT_ONCE):
            group = items[at : at + AT_ONCE]
            for item, error in zip(group, await all_of(map(change, group)), strict=True):
                if isinstance(error, ClusterError) and 400 <= error.code < 500 and error.code not in (401, *_BUSY):
                    refused.append(Fault(item.key, f"is refused: {error}"))
                elif isinstance(error, BaseException):
                    raise error
        return len(items) - len(refused), refused

    async def _remove(self, item: Leftover) -> None:
        revision = item.revision
        if item.finalizers:
            metadata = await self._unfinalize(item)
            if "deletionTimestamp" in metadata:
                return  # it went with its last finalizer
            revision = int(metadata["resourceVersion"])
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": item.uid, "resourceVersion": str(revision)},
            "propagationPolicy": "Background",
        }
        try:
            await self._request("DELETE", self._path(item), body=body)
        except ClusterError as error:
            if error.code != 404:
                raise

    async def _unfinalize(self, item: Leftover) -> JSONObject:
        """Take the finalizers off an object. Returns its metadata after that."""
        metadata = {"uid": item.uid, "resourceVersion": str(item.revision), "finalizers": None}
        body = {"metadata": {**metadata, "annotations": {LEFTOVER: str(item.revision)}}}
        changed = await self._request("PATCH", self._path(item), query={"fieldManager": MANAGER}, body=body)
        return dict(changed["metadata"])

    def _path(self, item: Leftover) -> str:
        place = f"namespaces/{quote(item.namespace, safe='')}/" if item.namespace else ""
        return f"{self._base}/{place}{self._plural}/{quote(item.name, safe='')}"

    async def _request(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Any = None, accept: str = ""
    ) -> JSONObject:
        pauses = LOOKS.pauses()
        for _ in range(TRIES - 1):
            try:
                return await self._cluster.request(method, path, query=query, body=body, timeout=SECONDS, accept=accept)
            except Unreachable:
                await self._sleep(next(pauses))
            except ClusterError as error:
                if error.code not in _BUSY:
                    raise
                await self._sleep(max(1.0, float(error.retry_after)))
        return await self._cluster.request(method, path, query=query, body=body, timeout=SECONDS, accept=accept)


async def close(cluster: Cluster, definition: str, uid: str, *, sleep: Sleep = asyncio.sleep) -> None:
    """Remove the version of the leftovers and its managedFields from the definition with that uid. Does nothing if that is done.

    Raises ClusterError and Unreachable.
    """
    for left in reversed(range(ATTEMPTS)):
        crd = await _definition(cluster, definition, uid)
        if crd is None:
            return
        try:
            if not is_open(crd):
                # An interrupted removal may have left its entry in managedFields.
                await _restore_managers(cluster, crd, crd)
                return
            await _change(cluster, crd, removal(crd))
        except ClusterError as error:
            if not left or error.code not in (404, 409, 422):
                raise
        else:
            log.info("%s has the version %s no longer", definition, VERSION)
            break
    await _until_gone(cluster, definition.partition(".")[2], sleep)


async def _until_gone(cluster: Cluster, group: str, sleep: Sleep) -> None:
    """Wait until kube-apiserver has removed its APIService of the version, if no other definition of the group has it."""
    for pause in itertools.islice(LOOKS.pauses(), PATIENCE):
        try:
            await cluster.request("GET", f"{API_SERVICES}/{VERSION}.{group}")
        except ClusterError as error:
            if error.code == 404:
                return
        except Unreachable:
            pass
        await sleep(pause)
    log.warning("APIService %s.%s is still there, although its version is gone", VERSION, group)


async def _change(cluster: Cluster, crd: JSONMapping, patch: list[JSONObject]) -> None:
    """Change a definition, and restore the managers of its versions in managedFields."""
    path = f"{DEFINITIONS}/{crd['metadata']['name']}"
    changed = await cluster.request("PATCH", path, query={"fieldManager": MANAGER}, body=patch, timeout=SECONDS)
    try:
        await _restore_managers(cluster, changed, crd)
    except ClusterError as error:
        if error.code not in (404, 409, 422):
            raise
        # Somebody has changed it meanwhile. `close` removes our entry in managedFields.


async def _restore_managers(cluster: Cluster, crd: JSONMapping, before: JSONMapping) -> None:
    patch = restored_managers(crd, before)
    if patch is not None:
        path = f"{DEFINITIONS}/{crd['metadata']['name']}"
        await cluster.request("PATCH", path, query={"fieldManager": MANAGER}, body=patch, timeout=SECONDS)


async def _definition(cluster: Cluster, name: str, uid: str) -> JSONObject | None:
    """The host's definition; None if it is gone, or another one of that name."""
    found = await find(cluster, f"{DEFINITIONS}/{name}")
    return found if found is not None and found["metadata"]["uid"] == uid else None
