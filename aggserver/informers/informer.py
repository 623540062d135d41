"""Informer: watches a Store, caches its objects, and calls a controller's `sync` for each changed key.

The base of the server's own controllers (definitions, namespaces). Like a client-go informer with a work queue
(`work_queue.py`). When the watch is lost, the informer lists again. A TransformingInformer keeps only what a function
makes of each object, for kinds with many objects.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from aggserver.authentication.user import PRIVILEGED_GROUP, UserInfo
from aggserver.informers.work_queue import RETRY, CallLater, WorkQueue, call_later, in_turns
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.meta.selectors import FieldSelector, LabelSelector
from aggserver.registry.rest import Context, ListOptions
from aggserver.registry.store import Store
from aggserver.registry.watch import Watch
from aggserver.storage import keys

__all__ = ["ALL", "CONTROLLER", "CallLater", "Informer", "Sync", "TransformingInformer", "call_later"]

log = logging.getLogger("aggserver.controllers")

T = TypeVar("T")
# (key, the object or None if it was deleted) -> seconds until the next call for this key, or None.
Sync = Callable[[str, JSONObject | None], Awaitable[float | None]]

CONTROLLER = UserInfo("system:apiserver", groups=(PRIVILEGED_GROUP,))
# Other tasks run after so many keys, and after so many decoded bytes of objects: some milliseconds.
_KEYS = 1000
_DECODED = 256 * 1024
# Objects that can't be read are skipped, so that they do not prevent the others from being handled.
ALL = ListOptions(labels=LabelSelector.parse(""), fields=FieldSelector.parse(""), readable_only=True)


class TransformingInformer(Generic[T]):
    """Follows one Store.

    `objects` has what `keep` made of each of the store's objects, by key: `namespace/name`, or the name of a cluster-scoped one.

    workers: how many keys are handled concurrently. A key is never handled by two at the same time.
    """

    def __init__(
        self,
        store: Store,
        keep: Callable[[JSONObject], T],
        sync: Callable[[str, T | None], Awaitable[float | None]],
        later: CallLater = call_later,
        *,
        workers: int = 1,
    ) -> None:
        self.objects: dict[str, T] = {}
        self._keep = keep
        self._store = store
        self._sync = sync
        self._later = later
        self._queue = WorkQueue(store.strategy.info.resource, self._call, later, workers=workers)
        self._watch_retries = RETRY.pauses()
        # Names of the first list that were not handled yet; None before the first list.
        self._initial: set[str] | None = None
        self._caught_up = asyncio.Event()

    def enqueue(self, name: str, *, within: float = 0.0) -> None:
        """Call `sync` for a key, at the latest in so many seconds, and once for all calls until then."""
        self._queue.add(name, within=within)

    async def caught_up(self) -> None:
        """Wait until `sync` was called for every object of the first list."""
        await self._caught_up.wait()

    async def run(self) -> None:
        """Watch and call `sync`, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch())
            group.create_task(self._queue.run())

    async def _watch(self) -> None:
        while True:
            try:
                await self._reflect(await self._store.watch(Context(CONTROLLER), ALL))
                # Pause, since the watch of a store that is not served any more ends at once.
                await self._pause(next(self._watch_retries))
            except StatusError as error:
                log.info("watching %s again: %s", self._store.strategy.info.resource, error.message)
                # After an expired resourceVersion, list immediately; after other errors, back off.
                if error.reason != "Expired":
                    await self._pause(next(self._watch_retries))

    async def _reflect(self, stream: Watch) -> None:
        try:
            # The watch starts with all objects. Cached ones that do not exist any more were deleted while there was no watch.
            listed = (await self._store.list(Context(CONTROLLER), ALL)).items
            present = {_named(obj.key) async for obj in in_turns(listed, _KEYS)}
            self._watch_retries = RETRY.pauses()
            # Objects that can't be read any more stay in the cache as they were.
            unreadable = {_named(error.key) for error in self._store.unreadable()}
            for name in self.objects.keys() - present - unreadable:
                self._deleted(name)
            if self._initial is None:
                self._initial = present
                self._handled("")
            async for batch in stream:
                async for event in in_turns(batch, _DECODED, lambda event: event.size):
                    if event.object is not None:
                        self._apply(event.type, event.object.decoded())
        finally:
            stream.close()

    async def _pause(self, seconds: float) -> None:
        over = asyncio.Event()
        self._later(seconds, over.set)
        await over.wait()

    def _apply(self, kind: str, tree: JSONObject) -> None:
        name = _key(tree)
        if kind == "DELETED":
            self._deleted(name)
        else:
            self._put(name, tree)
            self.enqueue(name)

    def _put(self, name: str, tree: JSONObject) -> None:
        self.objects[name] = self._keep(tree)

    def _deleted(self, name: str) -> None:
        self.objects.pop(name, None)
        self.enqueue(name)

    def _handled(self, name: str) -> None:
        if self._initial is not None and not self._caught_up.is_set():
            self._initial.discard(name)
            if not self._initial:
                self._caught_up.set()

    async def _call(self, name: str) -> float | None:
        try:
            return await self._sync(name, self.objects.get(name))
        finally:
            self._handled(name)


class Informer(TransformingInformer[JSONObject]):
    """Follows one Store, and keeps its objects as they are."""

    def __init__(self, store: Store, sync: Sync, later: CallLater = call_later, *, workers: int = 1) -> None:
        super().__init__(store, lambda tree: tree, sync, later, workers=workers)

    def put_written(self, obj: JSONObject) -> None:
        """Cache an object that `sync` has just written, because the next key's `sync` must see it before the watch delivers it.

        Ignored if the watch has already delivered the object's deletion.
        """
        key = _key(obj)
        known = self.objects.get(key)
        if known is not None and int(known["metadata"]["resourceVersion"]) < int(obj["metadata"]["resourceVersion"]):
            self.objects[key] = obj

    def _put(self, name: str, tree: JSONObject) -> None:
        self.objects.setdefault(name, tree)
        self.put_written(tree)


def _named(key: str) -> str:
    """The key in `objects` of the object with this storage key."""
    _, _, *names = keys.split(key)
    return "/".join(filter(None, names))


def _key(obj: JSONObject) -> str:
    metadata = obj["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])
