"""GarbageCollector: deletes objects whose owners are gone, and does what foreground and orphaning deletions wait for.

It gets the events of all keys from the storage, and looks only at those that have owner references or are being deleted, which
their bytes show. A graph (`owner_graph.py`) tells what is worth looking at, and each decision (`garbage.py`) is made from objects
that are read at that moment. At the start, and when the subscription was lost, it reads the store once.
Source: k8s.io/kubernetes pkg/controller/garbagecollector, v1.36.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from aggserver.endpoints.installer import Installer
from aggserver.meta import times
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.registry import stored
from aggserver.registry.rest import DeleteOptions
from aggserver.registry.work_queue import RETRY, CallLater, WorkQueue, call_later
from aggserver.standalone.garbage import (
    Delete,
    Detach,
    Keep,
    Standing,
    judge,
    misplaced_owner_event,
    standing,
    unblock_owners,
    without_finalizer,
    without_owners,
)
from aggserver.standalone.internal_client import Found, InternalClient, service_account
from aggserver.standalone.owner_graph import ABSENT, FOREGROUND, ORPHAN, Check, Kind, OwnerGraph, Reference, address, references
from aggserver.storage import keys
from aggserver.storage.interface import Compacted, Event, Storage, StorageError, Subscription, Unavailable
from aggserver.storage.keys import ObjectKey

__all__ = ["GarbageCollector"]

log = logging.getLogger("aggserver.controllers")

USER = service_account("generic-garbage-collector")
# How many checks run concurrently: each waits for the store, which commits the writes that wait together.
_WORKERS = 16
# Dependents that are orphaned concurrently.
_ORPHANED = 64
_PAGE = 5000  # objects read from the store at once
_CHUNK = 500  # objects looked at before other tasks run
# An object whose bytes have neither of these is of no interest. In text, the quotes would be escaped.
_OWNED, _DELETED = b'"ownerReferences"', b'"deletionTimestamp"'
# As upstream: Events are not collected, because there are many and they expire.
_IGNORED = (keys.resource_prefix("", "events"), keys.resource_prefix("events.k8s.io", "events"))
_KINDS = Check("kinds", "")
_EVENT = Kind("v1", "Event")
_SEARCHED = 500  # namespaces in which an owner is looked for, and Events that are remembered


class GarbageCollector:
    """clock: seconds since the epoch. `run` is the task."""

    def __init__(self, installer: Installer, storage: Storage, clock: Callable[[], float], later: CallLater = call_later) -> None:
        self._storage = storage
        self._clock = clock
        self._later = later
        self._client = InternalClient(installer, storage, USER)
        self._graph = OwnerGraph(self._client.find)
        self._queue = WorkQueue("garbage collector:", self._check, later, workers=_WORKERS)
        self._reported: set[tuple[str, str]] = set()  # dependents and the uids of owners, of which Events tell
        self._subscription: Subscription | None = None
        self._complete = asyncio.Event()  # whether the graph has the whole store
        self._lost = asyncio.Event()
        installer.on_change(lambda: self._queue.add(_KINDS))

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._queue.run())
                tasks.create_task(self._follow())
        finally:
            if self._subscription is not None:
                self._subscription.close()

    @property
    def idle(self) -> bool:
        """Whether it has looked at all that was worth looking at, but for what has to be tried again later."""
        return self._complete.is_set() and self._queue.idle

    # --- the graph ---

    async def _follow(self) -> None:
        pauses = RETRY.pauses()
        while True:
            try:
                await self._load()
                pauses = RETRY.pauses()
                await self._lost.wait()
            except StorageError as error:
                log.info("garbage collector: reading the store again: %s", error)
                over = asyncio.Event()
                self._later(next(pauses), over.set)
                await over.wait()

    async def _load(self) -> None:
        self._complete.clear()
        self._lost.clear()
        graph, checks = OwnerGraph(self._client.find), list[Check]()
        page = await self._storage.list("/", limit=_PAGE)
        revision = page.revision
        while True:
            for first in range(0, len(page.items), _CHUNK):
                for item in page.items[first : first + _CHUNK]:
                    checks += _observe(graph, item.key, item.value)
                await asyncio.sleep(0)
            if not page.more:
                break
            start = page.items[-1].key + "\0"
            try:
                page = await self._storage.list("/", revision=revision, start=start, limit=_PAGE)
            except Compacted as error:
                raise Unavailable(f"reading the store took longer than it keeps history: {error}") from error
        self._graph = graph
        self._subscription = await self._storage.watch("/", revision, self)
        self._complete.set()
        self._add(checks)

    def events(self, batch: Sequence[Event], revision: int) -> None:
        """As the store's sink."""
        graph = self._graph
        for event in batch:
            value = event.value
            if value is None:
                self._add(graph.deleted(event.key))
                continue
            if event.create_revision == event.revision:
                graph.created(event.key)
            if _OWNED in value or _DELETED in value or event.key in graph:
                self._add(_observe(graph, event.key, value))

    def lost(self, error: StorageError) -> None:
        """As the store's sink."""
        self._subscription = None
        self._complete.clear()
        self._lost.set()

    def _add(self, checks: Iterable[Check]) -> None:
        for check in checks:
            self._queue.add(check)

    # --- what the graph finds worth looking at ---

    async def _check(self, check: Check) -> None:
        await self._complete.wait()
        if check.what == "object":
            await self._look_at(check.key)
        elif check.what == "owner":
            await self._verify(check.key)
        else:
            self._add(self._graph.kinds_changed())

    async def _verify(self, key: str) -> None:
        graph = self._graph
        since = graph.unverified(key)
        if since is not None:
            found = await self._client.read(key)
            self._add(graph.verified(key, ABSENT if found is None else str(found.metadata.get("uid") or ABSENT), since))

    async def _look_at(self, key: str) -> None:
        found = await self._client.read(key)
        if found is None:
            return
        at, metadata = keys.split(key), found.metadata
        if metadata.get("deletionTimestamp"):
            finalizers = metadata.get("finalizers") or ()
            if ORPHAN in finalizers:
                await self._orphan_dependents(at, metadata)
            elif FOREGROUND in finalizers:
                await self._wait_for_dependents(at, metadata)
            return
        uid = str(metadata.get("uid") or "")
        owners = [(reference, await self._standing(reference, at)) for reference in references(metadata)]
        for reference, found_as in owners:
            if found_as in (Standing.DANGLING, Standing.MISPLACED):
                await self._report(key, reference)
        dependents = self._graph.dependents(uid)
        waits = any(map(self._graph.is_deleting_dependents, dependents))
        match judge(metadata, owners, has_dependents=bool(dependents), dependents_wait=waits):
            case Detach(uids):
                await self._update(at, uid, lambda obj: without_owners(obj, uids))
            case Delete(propagation, unblock):
                if unblock and await self._update(at, uid, unblock_owners):
                    found = await self._client.read(key) or found
                await self._delete(key, found, propagation)
            case Keep():
                pass

    async def _standing(self, reference: Reference, at: ObjectKey) -> Standing:
        resource = self._graph.resource_of(reference.kind)
        if resource is None:
            return Standing.UNKNOWN
        key = address(reference, at.namespace, resource)
        if key is None:
            return Standing.MISPLACED
        if self._graph.is_absent(key):
            return Standing.DANGLING
        owner = await self._client.read(key)
        return standing(reference, None if owner is None else owner.metadata)

    async def _report(self, key: str, reference: Reference) -> None:
        """Say in an Event if the owner is in another namespace, where its name is looked up unless it was in the right one."""
        resource, at = self._graph.resource_of(reference.kind), keys.split(key)
        if resource is None or not resource.namespaced or (key, reference.uid) in self._reported:
            return
        right = address(reference, at.namespace, resource)
        if right is not None and self._graph.was_there(right):
            return
        prefix = keys.resource_prefix("", "namespaces")
        page = await self._storage.list(prefix, limit=_SEARCHED)
        for namespace in (item.key.removeprefix(prefix) for item in page.items):
            elsewhere = address(reference, namespace, resource)
            found = None if elsewhere in (None, right) else await self._client.read(str(elsewhere))
            if found is not None and found.metadata.get("uid") == reference.uid:
                break
        else:
            return
        obj = await self._client.read_whole(key)
        if obj is None or self._client.find(_EVENT) is None:
            return
        if len(self._reported) >= _SEARCHED:
            self._reported.clear()
        self._reported.add((key, reference.uid))
        now = self._clock()
        event = misplaced_owner_event(at, obj, reference, times.format_time(now), f"{int(now * 1e9):x}")
        try:
            await self._client.create("", "events", event)
        except StatusError as error:
            log.info("garbage collector: no Event about %s: %s", key, error)

    async def _wait_for_dependents(self, at: ObjectKey, metadata: JSONObject) -> None:
        """Remove the finalizer of an object that is deleted in the foreground, if it has to wait for none of its dependents."""
        uid = str(metadata["uid"])
        blocking = self._graph.blocking(uid)
        if not blocking:
            await self._update(at, uid, lambda obj: without_finalizer(obj, FOREGROUND))
        self._add(Check("object", key) for key in blocking if not self._graph.is_deleting_dependents(key))

    async def _orphan_dependents(self, at: ObjectKey, metadata: JSONObject) -> None:
        """Remove the object from the owners of its dependents, and then its finalizer."""
        uid = str(metadata["uid"])
        dependents = self._graph.dependents(uid)
        for first in range(0, len(dependents), _ORPHANED):
            async with asyncio.TaskGroup() as tasks:
                for key in dependents[first : first + _ORPHANED]:
                    tasks.create_task(self._update(keys.split(key), "", lambda obj: without_owners(obj, (uid,))))
        await self._update(at, uid, lambda obj: without_finalizer(obj, ORPHAN))

    async def _update(self, at: ObjectKey, uid: str, edit: Callable[[JSONObject], JSONObject]) -> bool:
        """Returns whether there is such an object."""

        async def transform(obj: JSONObject) -> JSONObject:
            return edit(obj)

        try:
            await self._client.update(at, transform, uid=uid)
        except StatusError as error:
            if error.code != 404:
                raise
            return False
        return True

    async def _delete(self, key: str, found: Found, propagation: str) -> None:
        """Delete an object if its owners are still those by which that was decided."""
        at, uid = keys.split(key), str(found.metadata.get("uid") or "")
        options = DeleteOptions(uid=uid, resource_version=str(found.revision), propagation=propagation)
        try:
            await self._client.delete(at, options)
        except StatusError as error:
            if error.code == 404:
                return
            if error.code != 409:
                raise
            now = await self._client.read(key)
            if now is None or now.metadata.get("uid") != uid:
                return
            if references(now.metadata) != references(found.metadata):
                raise
            # Something else was changed. Without the resourceVersion, frequent writes can't keep the object.
            await self._client.delete(at, DeleteOptions(uid=uid, propagation=propagation))


def _observe(graph: OwnerGraph, key: str, value: bytes) -> list[Check]:
    if key.startswith(_IGNORED) or not (_OWNED in value or _DELETED in value or key in graph):
        return []
    try:
        keys.split(key)
        metadata = stored.metadata_of(value)
    except ValueError:
        return []  # no object, or one that can't be read: its owners are unknown
    return graph.changed(key, metadata)
