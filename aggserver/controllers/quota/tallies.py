"""Tallies: what the stored objects of one resource use, in the namespaces that have quotas for them.

The objects of a namespace are read once, when a quota first needs them, and then followed: each write costs the same, however
many objects there are. Of an object only its measure is kept, which objects from one template share.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from aggserver.admission.quota import Counted, Evaluator, Measure
from aggserver.controllers.stored_pages import pages
from aggserver.informers.work_queue import in_turns
from aggserver.registry import stored
from aggserver.storage import keys
from aggserver.storage.interface import Event, KeyValue, Storage, StorageError, Subscription, Unavailable
from aggserver.storage.keys import ObjectKey

__all__ = ["Changed", "Tallies"]

log = logging.getLogger("aggserver.quota")

_DECODED = 128 * 1024  # bytes of objects that are measured before other tasks run: some milliseconds

# Called with each change of an object, its revision, and what it used before and uses now (None if it was not or is not there).
Changed = Callable[[ObjectKey, int, Measure | None, Measure | None], None]


class _Tally:
    """The objects of one namespace by name. late: the changes since the listing began, None after it."""

    def __init__(self) -> None:
        self.measures: dict[str, Measure] = {}
        self.numbers: Counter[Measure] = Counter()
        self._shared: dict[Measure, Measure] = {}
        self.late: list[tuple[int, str, Measure | None]] | None = []

    def set(self, name: str, measure: Measure | None) -> Measure | None:
        """Returns what the object has used before."""
        before = self.measures.pop(name, None)
        if before is not None:
            self.numbers[before] -= 1
            if not self.numbers[before]:
                del self.numbers[before], self._shared[before]
        if measure is not None:
            measure = self._shared.setdefault(measure, measure)
            self.measures[name] = measure
            self.numbers[measure] += 1
        return before


class Tallies:
    """Of one resource. changed: is called on the event loop. lost: all must be counted again, since changes were missed."""

    def __init__(
        self,
        storage: Storage,
        group: str,
        resource: str,
        evaluator: Evaluator,
        changed: Changed,
        lost: Callable[[], None],
    ) -> None:
        self.evaluator = evaluator
        self._storage = storage
        self._group, self._resource = group, resource
        self._prefix = keys.resource_prefix(group, resource)
        self._changed = changed
        self._lost = lost
        self._namespaces: dict[str, _Tally] = {}
        self._subscription: Subscription | None = None
        self._is_number_only = isinstance(evaluator, Counted)

    def numbers(self, namespace: str) -> dict[Measure, int]:
        """How many objects of a namespace that was counted have each measure. Raises Unavailable if the watch was lost since."""
        tally = self._namespaces.get(namespace)
        if tally is None or tally.late is not None:
            raise Unavailable(f"the objects below {self._prefix}{namespace}/ must be counted again")
        return tally.numbers

    async def count(self, namespace: str) -> None:
        """Count the objects of a namespace, if they are not known. One call at a time. Raises StorageError."""
        if self._subscription is None:
            self._subscription = await self._storage.watch(self._prefix, await self._storage.revision(), self)
        if namespace in self._namespaces:
            return
        tally = self._namespaces[namespace] = _Tally()
        try:
            await self._read(namespace, tally)
        except BaseException:
            if self._namespaces.get(namespace) is tally:
                del self._namespaces[namespace]
            raise

    async def _read(self, namespace: str, tally: _Tally) -> None:
        revision = 0
        async for page in pages(self._storage, f"{self._prefix}{namespace}/", at_one_revision=True):
            revision = page.revision
            async for item in in_turns(page.items, _DECODED, lambda item: len(item.value)):
                tally.set(keys.split(item.key).name, self._measure(item))
            await asyncio.sleep(0)  # a page of small objects takes some milliseconds, too
        late, tally.late = tally.late, None
        for written, name, measure in late or ():
            if written > revision:
                tally.set(name, measure)

    def forget(self, namespace: str) -> None:
        self._namespaces.pop(namespace, None)
        if not self._namespaces:
            self.close()

    def close(self) -> None:
        if self._subscription is not None:
            self._subscription.close()
            self._subscription = None

    def _measure(self, item: KeyValue) -> Measure | None:
        """None for an object that can't be read."""
        if self._is_number_only:
            return self.evaluator.measure({})
        if item.fault:
            return None
        try:
            return self.evaluator.measure(stored.make(item).decoded())
        except (StorageError, ValueError, KeyError, TypeError, AttributeError) as error:
            log.warning("%s is not counted: %s", item.key, error)
            return None

    def events(self, batch: Sequence[Event], revision: int) -> None:
        """As the store's sink."""
        for event in batch:
            key = keys.split(event.key)
            tally = self._namespaces.get(key.namespace)
            if tally is None:
                continue
            measure = None
            if event.value is not None:
                measure = self._measure(KeyValue(event.key, event.value, event.create_revision, event.revision, event.fault))
            if tally.late is not None:
                tally.late.append((event.revision, key.name, measure))
                self._changed(key, event.revision, None, None)
            else:
                self._changed(key, event.revision, tally.set(key.name, measure), measure)

    def lost(self, error: StorageError) -> None:
        """As the store's sink."""
        log.info("counting %s again: %s", self._prefix, error)
        self._subscription = None
        self._namespaces.clear()
        self._lost()

    def __iter__(self) -> Iterator[str]:
        return iter(self._namespaces)
