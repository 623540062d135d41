"""StoredCollection: the objects of a built-in kind that few servers have, for admission.

They are read from the storage itself, so that neither a watch cache nor the kind's types are made for a kind that nobody uses. A
backend in this process delivers a write before its call returns: a quota is in force when the request that made it is answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from aggserver.admission.sources import Collection
from aggserver.controllers.stored_pages import pages
from aggserver.informers.work_queue import RETRY, CallLater, call_later
from aggserver.registry import stored
from aggserver.storage import keys
from aggserver.storage.interface import Event, KeyValue, Storage, StorageError, Subscription

__all__ = ["StoredCollection"]

log = logging.getLogger("aggserver.admission")


class StoredCollection:
    """`objects` as last known; `run` is the task. changed: called with the namespace and name of each object that has changed."""

    def __init__(self, storage: Storage, group: str, resource: str, later: CallLater = call_later) -> None:
        self.objects = Collection()
        self.changed: Callable[[str, str], None] = lambda namespace, name: None
        self._storage = storage
        self._prefix = keys.resource_prefix(group, resource)
        self._later = later
        self._subscription: Subscription | None = None
        self._lost = asyncio.Event()
        self._known = asyncio.Event()

    async def known(self) -> None:
        """Wait until the objects in the store at the start were read."""
        await self._known.wait()

    async def run(self) -> None:
        pauses = RETRY.pauses()
        try:
            while True:
                self._lost.clear()
                try:
                    await self._follow()
                    pauses = RETRY.pauses()
                except StorageError as error:
                    log.info("reading %s again: %s", self._prefix, error)
                    self._later(next(pauses), self._lost.set)
                await self._lost.wait()
        finally:
            if self._subscription is not None:
                self._subscription.close()

    async def _follow(self) -> None:
        """Read all objects, and subscribe to later changes."""
        present: set[tuple[str, str]] = set()
        revision = 0
        async for page in pages(self._storage, self._prefix, at_one_revision=True):
            revision = page.revision
            for item in page.items:
                _, _, namespace, name = keys.split(item.key)
                present.add((namespace, name))
                self._put(item)
        for obj in list(self.objects):
            metadata = obj["metadata"]
            if (metadata["namespace"], metadata["name"]) not in present:
                self._remove(metadata["namespace"], metadata["name"])
        self._known.set()
        self._subscription = await self._storage.watch(self._prefix, revision, self)

    def events(self, batch: Sequence[Event], revision: int) -> None:
        """As the store's sink."""
        for event in batch:
            if event.value is None:
                _, _, namespace, name = keys.split(event.key)
                self._remove(namespace, name)
            else:
                self._put(KeyValue(event.key, event.value, event.create_revision, event.revision, event.fault))

    def lost(self, error: StorageError) -> None:
        """As the store's sink."""
        self._subscription = None
        self._lost.set()

    def _put(self, kv: KeyValue) -> None:
        """Take over an object; one that can't be read stays as it was known."""
        if kv.fault:
            return
        try:
            obj = stored.make(kv).decoded()
        except StorageError as error:
            log.warning("%s", error)
            return
        self.objects.put(obj)
        self.changed(obj["metadata"]["namespace"], obj["metadata"]["name"])

    def _remove(self, namespace: str, name: str) -> None:
        self.objects.remove(namespace, name)
        self.changed(namespace, name)
