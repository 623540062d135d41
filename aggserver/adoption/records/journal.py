"""Journal: the records of moves and the adopted definitions, kept in our store.

One server moves families and writes the records. The others that share the store follow the records, so that they also serve what
is adopted. The definitions are kept so that after a restart their objects are served at once, even if the host can't be reached.
Keys are `/aggserver/adoptions/<family>` and `/aggserver/adopted/<definition>`; no custom resource has the group `aggserver`,
since their groups have a dot.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from aggserver.adoption.records.record import Record, encode
from aggserver.adoption.records.record import decode as record_of
from aggserver.meta import codec
from aggserver.meta.backoff import Backoff
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.storage.compare_and_swap import OVERTAKEN, swap
from aggserver.storage.interface import Conflict, Event, KeyValue, NotFound, Storage, StorageError, Subscription
from aggserver.storage.keys import resource_prefix
from aggserver.storage.losses import Defect, as_lost, is_own
from aggserver.storage.records import ADOPTIONS as RECORDS
from aggserver.storage.records import DamagedRecord, decode

__all__ = ["RECORDS", "Journal"]

log = logging.getLogger("aggserver.adoption")

_DEFINITIONS = resource_prefix("aggserver", "adopted")

_RETRY = Backoff(initial=0.5, longest=30.0)


class Journal:
    """Keeps and follows the records. on_change: called on the event loop after each change of them, and must not raise."""

    def __init__(
        self,
        storage: Storage,
        on_change: Callable[[], None] = lambda: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._storage = storage
        # By family, why its record can't be read; and why the records are not followed now, '' if they are.
        self._damaged: dict[str, DamagedRecord] = {}
        self._trouble = ""
        self._on_change = on_change
        self._sleep = sleep
        # By family: the record, None if it is deleted, and the revision of that write.
        self._known: dict[str, tuple[Record | None, int]] = {}
        self._family_of: dict[str, str] = {}  # by definition, of those that a record has
        self._wrote: dict[str, int] = {}  # by family: the revision at which this server wrote the record last
        self._ready = asyncio.Event()
        self._lost = asyncio.Event()

    @property
    def records(self) -> dict[str, Record]:
        """The records by family, as far as the watch has delivered them; this server's own writes are included at once."""
        return {family: record for family, (record, _) in self._known.items() if record is not None}

    def get(self, family: str) -> Record | None:
        return self._known.get(family, (None, 0))[0]

    def holding(self, definition: str) -> tuple[Record, int] | None:
        """The record that has this definition, and the revision at which it was written; as far as this server knows."""
        record, revision = self._known.get(self._family_of.get(definition, ""), (None, 0))
        return (record, revision) if record is not None else None

    def wrote(self, family: str) -> bool:
        """Whether this process made the last write of the record."""
        return family in self._wrote and self._wrote[family] == self._known[family][1]

    async def look(self, family: str) -> None:
        """Read a record again, for callers that can't wait for the watch. Raises StorageError."""
        found = await self._storage.get(RECORDS + family)
        if found is None:
            self._set_newer(family, None, await self._storage.revision())
        elif self._read(found):
            self._on_change()

    async def ready(self) -> None:
        """Wait until the records were read. `run` reads them."""
        await self._ready.wait()

    def is_ready(self) -> bool:
        return self._ready.is_set()

    def unreadable(self) -> DamagedRecord | None:
        """A record that can't be read, of a family of which nothing else is known here: it may be adopted, or half moved."""
        return next((error for family, error in self._damaged.items() if self.get(family) is None), None)

    def trouble(self) -> str | None:
        """For readiness: why the records are not fully known; None if they are."""
        return "; ".join(filter(None, (self._trouble, *map(str, self._damaged.values())))) or None

    async def run(self) -> None:
        """Follow the records, until cancelled."""
        pauses = _RETRY.pauses()
        while True:
            subscription: Subscription | None = None
            try:
                self._lost.clear()
                subscription = await self._storage.watch(RECORDS, await self.read(), self)
                pauses = _RETRY.pauses()
                if self._trouble:
                    log.info("the records of adoptions are followed again")
                self._trouble = ""
                await self._lost.wait()
            except BaseException as error:
                if is_own(error):
                    raise
                self._failed(as_lost(error))
                await self._sleep(next(pauses))
            finally:
                if subscription is not None:
                    subscription.close()

    def _failed(self, error: StorageError) -> None:
        trouble = f"the records of adoptions are not followed: {error}"
        if trouble != self._trouble:
            log.warning("%s", trouble, exc_info=error.__cause__ if isinstance(error, Defect) else None)
        self._trouble = trouble

    async def read(self) -> int:
        """Read all records as they are now. Returns the revision of the list. Raises StorageError."""
        page = await self._storage.list(RECORDS)
        for item in page.items:
            self._read(item)
        there = {item.key.removeprefix(RECORDS) for item in page.items}
        for family, (record, revision) in list(self._known.items()):
            if record is not None and family not in there and revision <= page.revision:
                self._set(family, None, page.revision)
        self._damaged = {family: error for family, error in self._damaged.items() if family in there}
        self._ready.set()
        self._on_change()
        return page.revision

    async def write(self, record: Record) -> None:
        """Create or replace a record. Raises StorageError: Conflict or KeyExists if another server has written it meanwhile."""
        key, value = RECORDS + record.family, codec.encode_json(encode(record))
        before, revision = self._known.get(record.family, (None, 0))
        if before is None:
            revision = await self._storage.create(key, value)
        else:
            revision = await self._storage.update(key, value, revision)
        self._wrote[record.family] = revision
        self._set_newer(record.family, record, revision)

    async def remove(self, family: str) -> None:
        """Remove a record, if there is one. Raises StorageError, as `write` does."""
        before, revision = self._known.get(family, (None, 0))
        if before is not None:
            try:
                revision = await self._storage.delete(RECORDS + family, revision)
            except NotFound:
                revision = await self._storage.revision()
            self._wrote.pop(family, None)
            self._set_newer(family, None, revision)

    # --- the definitions ---

    async def definitions(self) -> Mapping[str, JSONObject]:
        """The definitions that are kept, by name. Raises StorageError. What can't be read is left out and logged."""
        found: dict[str, JSONObject] = {}
        for item in (await self._storage.list(_DEFINITIONS)).items:
            name = item.key.removeprefix(_DEFINITIONS)
            try:
                found[name] = decode(item, dict)
            except DamagedRecord as error:
                # The host has the definition, and the copy is made anew once it can be reached.
                log.error("the copy of a definition is left out: %s", error)
        return found

    async def keep_definition(self, crd: JSONMapping) -> None:
        """Keep the present state of a definition; the same again writes nothing. Raises StorageError."""
        key, value = _DEFINITIONS + crd["metadata"]["name"], codec.encode_json(dict(crd))
        with contextlib.suppress(*OVERTAKEN):  # another server has just written the same state
            current = await self._storage.get(key)
            if current is None or current.value != value or current.fault:
                await swap(self._storage, key, current, value)

    async def forget_definition(self, name: str) -> None:
        """Delete the copy of a definition, if there is one. Raises StorageError."""
        with contextlib.suppress(Conflict, NotFound):
            current = await self._storage.get(_DEFINITIONS + name)
            if current is not None:
                await self._storage.delete(current.key, current.revision)

    # --- what the storage calls: this is a `storage.interface.Sink` ---

    def events(self, batch: Sequence[Event], revision: int) -> None:
        changed = [self._take(event) for event in batch]
        if any(changed):
            self._on_change()

    def lost(self, error: StorageError) -> None:
        log.info("the records of adoptions are read again: %s", error)
        self._lost.set()

    # --- internals ---

    def _take(self, event: Event) -> bool:
        """Apply an event of the watch. Returns whether it changed anything."""
        if event.value is not None:
            return self._read(KeyValue(event.key, event.value, event.create_revision, event.revision, event.fault))
        family = event.key.removeprefix(RECORDS)
        if not self._is_news(family, event.revision):
            return False
        self._set(family, None, event.revision)
        return True

    def _is_news(self, family: str, revision: int) -> bool:
        """Whether the revision is newer than the known one. This server's own writes are known before the watch delivers them."""
        return self._known.get(family, (None, 0))[1] < revision

    def _read(self, item: KeyValue) -> bool:
        """Apply a record as stored. Returns whether it changed anything. If it can't be read, the last known one is kept."""
        family = item.key.removeprefix(RECORDS)
        if not self._is_news(family, item.revision):
            return False
        try:
            record = decode(item, record_of)
        except DamagedRecord as error:
            if family not in self._damaged:
                log.error("the record of an adoption is damaged: %s", error)
            self._damaged[family] = error
            return False
        self._set(family, record, item.revision)
        return True

    def _set_newer(self, family: str, record: Record | None, revision: int) -> None:
        if self._known.get(family, (None, 0))[1] < revision:
            self._set(family, record, revision)
            self._on_change()

    def _set(self, family: str, record: Record | None, revision: int) -> None:
        before, _ = self._known.get(family, (None, 0))
        for name in before.uids if before is not None else ():
            self._family_of.pop(name, None)
        self._known[family] = record, revision
        self._damaged.pop(family, None)
        for name in record.uids if record is not None else ():
            self._family_of[name] = family
