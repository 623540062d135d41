"""GarbageCollector: deletes objects whose owners are gone, and does what foreground and orphaning deletions wait for.

It gets the events of all keys from the storage, and decodes only objects that have owner references or are being deleted, which
their bytes show. A graph (`owner_graph.py`, kept current by `graph_builder.py`) gives the objects to check, and each decision
(`decisions.py`) is made from objects that are read at that moment. At the start, and when the subscription was lost, it reads the
store once. An object may have tens of thousands of owners and any number of dependents, so all loops over them let other tasks
run in between.
Source: k8s.io/kubernetes pkg/controller/garbagecollector, v1.36.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from itertools import islice

from aggserver.controllers.garbage.decisions import (
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
from aggserver.controllers.garbage.graph_builder import GraphBuilder
from aggserver.controllers.garbage.owner_graph import (
    ABSENT,
    FOREGROUND,
    ORPHAN,
    OwnerCheck,
    OwnerGraph,
    OwnerKind,
    Reference,
    address,
    references,
)
from aggserver.controllers.internal_client import FoundObject, InternalClient, service_account
from aggserver.controllers.stored_pages import pages
from aggserver.endpoints.installer import Installer
from aggserver.informers.work_queue import RETRY, CallLater, WorkQueue, call_later, in_turns
from aggserver.meta import times
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.registry.rest import DeleteOptions
from aggserver.storage import keys
from aggserver.storage.interface import Compacted, Event, Storage, StorageError, Subscription, Unavailable
from aggserver.storage.keys import ObjectKey

__all__ = ["GarbageCollector"]

log = logging.getLogger("aggserver.controllers")

USER = service_account("generic-garbage-collector")
# How many checks run concurrently. Each waits for the store, which commits all waiting writes together.
_WORKERS = 16
_READ = 50  # owners read from the store before other tasks run: about a millisecond
# How many dependents are orphaned concurrently.
_ORPHANED = 64
# Steps of the graph before other tasks run: about two milliseconds.
_STEPS = 200
# Bytes of written objects that may wait to be added to the graph. With more, the store is read again.
_MOST_WAITING = 32 * 1024 * 1024
_KINDS = OwnerCheck("kinds", "")
_EVENT = OwnerKind("v1", "Event")
_SEARCHED = 500  # namespaces in which an owner is looked for, and Events that are remembered
_REPORTED = 10  # owners of one object that are looked for in other namespaces


class GarbageCollector:
    """The controller; `run` is its task. clock: seconds since the epoch."""

    def __init__(self, installer: Installer, storage: Storage, clock: Callable[[], float], later: CallLater = call_later) -> None:
        self._storage = storage
        self._clock = clock
        self._later = later
        self._client = InternalClient(installer, storage, USER)
        self._builder = GraphBuilder(OwnerGraph(self._client.find))
        self._queue = WorkQueue("garbage collector:", self._check, later, workers=_WORKERS)
        self._reported: set[tuple[str, str]] = set()  # (key of a dependent, uid of its owner) that already have an Event
        self._subscription: Subscription | None = None
        self._complete = asyncio.Event()  # whether the graph has the whole store
        self._current = asyncio.Event()  # whether the graph has all that was written since
        self._current.set()
        self._behind = asyncio.Event()  # whether writes wait to be added to the graph
        self._lost = asyncio.Event()
        installer.on_change(lambda: self._queue.add(_KINDS))

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._queue.run())
                tasks.create_task(self._catch_up())
                tasks.create_task(self._follow())
        finally:
            if self._subscription is not None:
                self._subscription.close()

    @property
    def idle(self) -> bool:
        """Whether all checks were done, except those that are to be tried again later."""
        return self._complete.is_set() and self._builder.is_done and self._queue.idle

    # --- the graph ---

    @property
    def _graph(self) -> OwnerGraph:
        return self._builder.graph

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
        builder, checks, revision = GraphBuilder(OwnerGraph(self._client.find)), list[OwnerCheck](), 0
        try:
            async for page in pages(self._storage, "/", at_one_revision=True):
                revision = page.revision
                for item in page.items:
                    builder.written(item.key, item.value)
                while not builder.is_done:
                    checks += builder.advance(_STEPS)
                    await asyncio.sleep(0)
        except Compacted as error:
            raise Unavailable(f"reading the store took longer than it keeps history: {error}") from error
        self._builder = builder
        self._subscription = await self._storage.watch("/", revision, self)
        self._complete.set()
        async for check in in_turns(checks, _STEPS):
            self._queue.add(check)

    def events(self, batch: Sequence[Event], revision: int) -> None:
        """As the store's sink."""
        for event in batch:
            self._builder.written(event.key, event.value, is_new=event.create_revision == event.revision)
        if self._builder.waiting_bytes <= _MOST_WAITING:
            self._advance()
            return
        if self._subscription is not None:
            self._subscription.close()
        self._builder.abandon()
        self.lost(Unavailable("more was written than could be looked at"))

    def _advance(self) -> None:
        """Bring the graph up to date, by a limited number of steps. `_catch_up` does the rest."""
        for check in self._builder.advance(_STEPS):
            self._queue.add(check)
        if self._builder.is_done:
            self._current.set()
        else:
            self._current.clear()
            self._behind.set()

    async def _catch_up(self) -> None:
        while True:
            await self._behind.wait()
            self._behind.clear()
            self._advance()
            await asyncio.sleep(0)

    def lost(self, error: StorageError) -> None:
        """As the store's sink."""
        self._subscription = None
        self._complete.clear()
        self._lost.set()

    # --- the checks that the graph asks for ---

    async def _check(self, check: OwnerCheck) -> None:
        await self._complete.wait()
        await self._current.wait()
        if check.what == "object":
            await self._look_at(check.key)
        elif check.what == "owner":
            await self._verify(check.key)
        else:
            self._builder.kinds_changed()
            self._advance()

    async def _verify(self, key: str) -> None:
        graph = self._graph
        since = graph.unverified(key)
        if since is None:
            return
        found = await self._client.read(key)
        if graph.verified(key, ABSENT if found is None else str(found.metadata.get("uid") or ABSENT), since):
            async for check in in_turns(graph.misfits(key), _STEPS):
                if check is not None:
                    self._queue.add(check)

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
        owners = [(reference, await self._standing(reference, at)) async for reference in in_turns(references(metadata), _READ)]
        lost = (reference for reference, found_as in owners if found_as in (Standing.DANGLING, Standing.MISPLACED))
        for reference in islice(lost, _REPORTED):
            await self._report(key, reference)
        dependents = self._graph.dependents(uid)
        waits = False
        if any(found_as is Standing.WAITING for _, found_as in owners):
            waits = await self._is_any_deleting(dependents)
        match judge(metadata, owners, has_dependents=bool(dependents), dependents_wait=waits):
            case Detach(uids):
                await self._update(at, uid, lambda obj: without_owners(obj, uids))
            case Delete(propagation, unblock):
                if unblock and await self._update(at, uid, unblock_owners):
                    found = await self._client.read(key) or found
                await self._delete(key, found, propagation)
            case Keep():
                pass

    async def _is_any_deleting(self, dependents: Sequence[str]) -> bool:
        async for key in in_turns(dependents, _STEPS):
            if self._graph.is_deleting_dependents(key):
                return True
        return False

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
        """Create an Event if the owner is in another namespace. It is looked for there only if it was never in the right one."""
        resource, at = self._graph.resource_of(reference.kind), keys.split(key)
        if resource is None or not resource.namespaced or (key, reference.uid) in self._reported:
            return
        right = address(reference, at.namespace, resource)
        if right is not None and self._graph.was_there(right):
            return
        prefix = keys.resource_prefix("", "namespaces")
        page = await self._storage.list(prefix, limit=_SEARCHED)
        async for item in in_turns(page.items, _READ):
            namespace = item.key.removeprefix(prefix)
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
        """Remove the finalizer of an object that is deleted in the foreground, if no dependent blocks its deletion."""
        uid = str(metadata["uid"])
        blocking = self._graph.blocking(uid)
        if not blocking:
            await self._update(at, uid, lambda obj: without_finalizer(obj, FOREGROUND))
        async for key in in_turns(blocking, _STEPS):
            if not self._graph.is_deleting_dependents(key):
                self._queue.add(OwnerCheck("object", key))

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
        """Update an object, with `edit`. Returns whether it exists. uid: what it must have, '' for any."""

        async def transform(obj: JSONObject) -> JSONObject:
            return edit(obj)

        try:
            await self._client.update(at, transform, uid=uid)
        except StatusError as error:
            if error.code != 404:
                raise
            return False
        return True

    async def _delete(self, key: str, found: FoundObject, propagation: str) -> None:
        """Delete an object, if its owner references are still those on which the decision was based."""
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
            if now.metadata.get("ownerReferences") != found.metadata.get("ownerReferences"):
                raise
            # Something else was changed. Without the resourceVersion, frequent writes can't keep the object.
            await self._client.delete(at, DeleteOptions(uid=uid, propagation=propagation))
