"""Sidecar: the metadata of virtual objects that their source does not keep, in the server's own storage.

There is one record for each object of which clients have set something: `{uid, metadata}`, below `/aggserver/metadata/`. It is
merged into what the source tells (`kept.py`), and holds for an object of the same uid only. All records of a resource are in
memory, and all replicas that share a storage follow them, so that a write of one is shown by the others.

A write changes the source first, and its record after that. So a crash in between loses the metadata of that write, and nothing
of the source. If another replica has written the record while the source was being changed, the write's own changes are made to
what is there then; a write of metadata alone begins anew instead. In one process, writes of one object take turns.

A record is removed when its object is gone for certain: after a delete, and when a reading of the whole source that began after
the record was written does not have the object, nor does the source's `get`. What is not known is not gone.
Source: `storage/interface.py` for compare and swap.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

from aggserver.meta import codec, errors
from aggserver.meta.backoff import Backoff
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.meta.resource import ResourceInfo
from aggserver.registry import stored
from aggserver.registry.storage_errors import reading, writing
from aggserver.resources import kept
from aggserver.storage import records
from aggserver.storage.compare_and_swap import OVERTAKEN
from aggserver.storage.interface import (
    Conflict,
    Event,
    FutureRevision,
    KeyValue,
    NotFound,
    Storage,
    StorageError,
    Subscription,
    Unavailable,
)
from aggserver.storage.keys import resource_prefix
from aggserver.storage.losses import Defect, as_lost, is_own
from aggserver.storage.revision_waiters import RevisionWaiters

__all__ = ["PREFIX", "KeptMetadata", "Sidecar", "read_record"]

log = logging.getLogger("aggserver.resources")

PREFIX = resource_prefix("aggserver", "metadata")

_RETRY = Backoff(initial=0.5, longest=30.0)
# Seconds that a request waits for the records at the start, and for those that are newer than what the storage has told.
_FIRST_SECONDS, _WAIT_SECONDS = 5.0, 3.0
# Records read at once, before other requests run.
_PAGE = 1000


@dataclass(frozen=True, slots=True)
class KeptMetadata:
    """What is kept of one object. value: encoded; objects that are not read cost no more than its bytes."""

    uid: str
    value: bytes
    revision: int

    @property
    def metadata(self) -> JSONObject:
        found: JSONObject = codec.decode_stored(self.value)
        return found


def read_record(item: KeyValue) -> KeptMetadata:
    """Raises DamagedRecord."""

    def read(value: JSONObject) -> KeptMetadata:
        return KeptMetadata(str(value["uid"]), codec.encode_json(dict(value["metadata"])), item.revision)

    return records.decode(item, read)


@dataclass(slots=True)
class _Turn:
    """lock: of the writes of one object. missed: whether its record has changed without being shown, since it is held."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0
    held: bool = False
    missed: bool = False


class Sidecar:
    """The records of one resource. `run` is its task.

    there: the object of a key as it is shown now, without its resourceVersion; None if it is not there, or if nothing is kept
    ready to be shown. show: called when its record has changed, with the object as it is to be shown from now on.
    """

    def __init__(
        self,
        storage: Storage,
        info: ResourceInfo,
        *,
        there: Callable[[str], bytes | None] = lambda key: None,
        show: Callable[[str, bytes], object] = lambda key, shown: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.there = there
        self.show = show
        # The revision of the storage up to which all records are known.
        self.revision = 0
        self._storage = storage
        self._info = info
        self._sleep = sleep
        self._prefix = f"{PREFIX}{info.resource}.{info.group}/"
        self._objects = resource_prefix(info.group, info.resource)
        self._records: dict[str, KeptMetadata] = {}
        self._damaged: dict[str, records.DamagedRecord] = {}
        # Of the objects that were last shown with a record: what the source tells of the same members; and what they were merged
        # from: a hash of what the source told, and the record's revision. 64 bits miss a change once in 2^64 times.
        self._own: dict[str, JSONObject] = {}
        self._merged: dict[str, tuple[int, int]] = {}
        # Those whose record is of an object that was there before them.
        self._others: set[str] = set()
        # Revisions of own writes that the storage has not told of yet.
        self._ahead: dict[str, int] = {}
        self._turns: dict[str, _Turn] = {}
        self._ready = asyncio.Event()
        self._lost = asyncio.Event()
        self._subscription: Subscription | None = None
        self._waiters = RevisionWaiters()
        self._trouble = ""

    def trouble(self) -> str | None:
        """For readiness: why not all of what is kept is known."""
        damaged = "; ".join(map(str, self._damaged.values()))
        return "; ".join(filter(None, (self._trouble, damaged))) or None

    # --- what is shown ---

    def shown(self, key: str, encoded: bytes) -> bytes:
        """An object as clients see it. encoded: as the source tells it, by `stored.encode`."""
        found = self._records.get(key)
        if found is None:
            self._forget_merge(key)
            return encoded
        merged_from = hash(encoded), found.revision
        if self._merged.get(key) == merged_from and (there := self.there(key)) is not None:
            return there  # most objects of a poll
        obj = codec.decode_stored(encoded)
        metadata = obj["metadata"]
        record = self.record_of(key, metadata["uid"])
        if record is None:
            self._others.add(key)
            self._forget_merge(key)
            return encoded
        self._others.discard(key)
        own = self._own[key] = kept.part(metadata)
        self._merged[key] = merged_from
        return self._encoded(obj, kept.merged(own, record.metadata))

    def with_kept(self, encoded: bytes, members: JSONMapping) -> bytes:
        """As `shown`, with other members kept: the result of a dry run."""
        obj = codec.decode_stored(encoded)
        return self._encoded(obj, kept.merged(kept.part(obj["metadata"]), members))

    def divided(self, key: str, metadata: JSONMapping) -> tuple[JSONObject, JSONObject]:
        """(the source's own, what is kept) of the metadata of an object as it was last shown. Raises 500 for a damaged record."""
        if (damaged := self._damaged.get(key)) is not None:
            raise errors.internal_error(str(damaged))
        own = self._own.get(key)
        if own is None:
            return kept.part(metadata), {}
        record = self.record_of(key, metadata.get("uid", ""))
        return own, {} if record is None else record.metadata

    def record(self, key: str) -> KeptMetadata | None:
        return self._records.get(key)

    def record_of(self, key: str, uid: str) -> KeptMetadata | None:
        """The record of a key, if it is that of the object with this uid."""
        record = self._records.get(key)
        return record if record is not None and record.uid == uid else None

    def _encoded(self, obj: JSONObject, members: JSONMapping) -> bytes:
        metadata = dict(sorted(kept.replaced(obj["metadata"], members).items()))
        return stored.encode({**obj, "metadata": metadata}, self._info.api_version, self._info.kind)

    def _forget_merge(self, key: str) -> None:
        if self._own:
            self._own.pop(key, None)
            self._merged.pop(key, None)

    def refresh(self, key: str) -> None:
        """Show an object with its present record, if it was shown with another one."""
        if (turn := self._turns.get(key)) is not None:
            if not turn.missed:
                return
            turn.missed = False
        there = self.there(key)
        if there is None:
            self._merged.pop(key, None)
            if key not in self._records:
                self._forget_merge(key)
                self._others.discard(key)
            return
        own = self._own.get(key)
        bare = there if own is None else self._encoded(codec.decode_stored(there), own)
        shown = self.shown(key, bare)
        if shown != there:
            self.show(key, shown)

    # --- being up to date ---

    async def ready(self) -> None:
        """Wait until all records were read."""
        await self._ready.wait()

    async def current(self) -> None:
        """Wait until everything that was kept before the call is known here. Raises StatusError."""
        if not self._ready.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FIRST_SECONDS):
                    await self._ready.wait()
            if not self._ready.is_set():
                resource = errors.qualified(self._info.resource, self._info.group)
                why = self._trouble or f"the metadata of {resource} has not been read yet"
                raise errors.service_unavailable(why, retry_after=1)
        with reading():
            await self._reached(await self._storage.revision())

    async def _reached(self, revision: int) -> None:
        if revision > self.revision and self._subscription is not None:
            self._subscription.progress()
        if revision <= self.revision:
            return
        try:
            await self._waiters.wait(revision, _WAIT_SECONDS)
        except TimeoutError:
            raise FutureRevision(revision, self.revision) from None

    async def run(self) -> None:
        """Follow the records, until cancelled."""
        pauses = _RETRY.pauses()
        try:
            while True:
                try:
                    self._lost.clear()
                    self._subscription = await self._storage.watch(self._prefix, await self._read(), self)
                    pauses = _RETRY.pauses()
                    self._trouble = ""
                    self._ready.set()
                    await self._lost.wait()
                except BaseException as error:
                    if is_own(error):
                        raise
                    self._failed(as_lost(error))
                    await self._sleep(next(pauses))
                finally:
                    if self._subscription is not None:
                        self._subscription.close()
                        self._subscription = None
        finally:
            self._ready.clear()

    def _failed(self, error: StorageError) -> None:
        resource = errors.qualified(self._info.resource, self._info.group)
        trouble = f"the metadata that is kept of {resource} is not followed: {error}"
        if trouble != self._trouble:
            log.warning("%s", trouble, exc_info=error.__cause__ if isinstance(error, Defect) else None)
        self._trouble = trouble

    async def _read(self) -> int:
        """Read all records as they are now. Returns the revision of the list."""
        found: set[str] = set()
        page = await self._storage.list(self._prefix, limit=_PAGE, counted=False)
        if page.revision < self.revision:  # a storage that was restored, whose revisions begin again
            self.revision, self._ahead = 0, {}
            self._records = {key: replace(record, revision=0) for key, record in self._records.items()}
        while True:
            for item in page.items:
                found.add(self._key(item.key))
                self._take(self._key(item.key), item.revision, item)
            if not page.more:
                break
            await asyncio.sleep(0)
            page = await self._storage.list(
                self._prefix, revision=page.revision, start=page.items[-1].key + "\0", limit=_PAGE, counted=False
            )
        for key in [*self._records, *self._damaged]:
            if key not in found:
                self._take(key, page.revision, None)
        self._advance(page.revision)
        return page.revision

    # --- what the storage calls: this is a `storage.interface.Sink` ---

    def events(self, batch: Sequence[Event], revision: int) -> None:
        for event in batch:
            item = None
            if event.value is not None:
                item = KeyValue(event.key, event.value, event.create_revision, event.revision, event.fault)
            self._take(self._key(event.key), event.revision, item)
        self._advance(revision)

    def lost(self, error: StorageError) -> None:
        log.info("the metadata that is kept of %s is read again: %s", self._info.resource, error)
        self._lost.set()

    def _take(self, key: str, revision: int, item: KeyValue | None) -> None:
        """A record as it is at a revision, None if there is none. What this process knows to be older is ignored."""
        before = self._records.get(key)
        if self._ahead.get(key, 0) >= revision or (before is not None and before.revision >= revision):
            return
        record = None
        if item is not None:
            try:
                record = read_record(item)
            except records.DamagedRecord as error:
                if key not in self._damaged:
                    log.error("what is kept of an object is damaged: %s", error)
                self._damaged[key] = error
                return
        self._damaged.pop(key, None)
        self._set(key, record)

    def _set(self, key: str, record: KeptMetadata | None) -> None:
        if record is None:
            if self._records.pop(key, None) is None:
                return
        else:
            self._records[key] = record
        turn = self._turns.get(key)
        if turn is not None:
            turn.missed = True
        if turn is None or not turn.held:
            self.refresh(key)

    def _advance(self, revision: int) -> None:
        self.revision = max(self.revision, revision)
        if self._ahead:
            self._ahead = {key: at for key, at in self._ahead.items() if at > revision}
        self._waiters.reached(self.revision)

    # --- writing ---

    @contextlib.asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[None]:
        """Around a write of an object: no other one of this process runs meanwhile. Its record is shown when it ends."""
        turn = self._turns.setdefault(key, _Turn())
        turn.users += 1
        try:
            async with turn.lock:
                turn.held = True
                try:
                    yield
                finally:
                    turn.held = False
                    self.refresh(key)
        finally:
            turn.users -= 1
            if not turn.users:
                del self._turns[key]

    async def write(self, key: str, uid: str, record: KeptMetadata | None, members: JSONObject) -> bool:
        """Keep this of an object in place of a record. In its turn. Returns False if another replica was quicker.

        Raises StatusError.
        """
        with writing():
            try:
                await self._swap(key, uid, record, members)
            except OVERTAKEN:
                await self._look(key)
                return False
        return True

    async def settle(self, key: str, uid: str, record: KeptMetadata | None, before: JSONMapping, after: JSONObject) -> None:
        """Keep what has changed from `before` to `after`, since the source has changed already. In the turn of the object.

        record: the one that the write began with. Raises StatusError.
        """
        members = after
        with writing():
            while True:
                try:
                    return await self._swap(key, uid, record, members)
                except OVERTAKEN:
                    await self._look(key)
                    record, of_it = self._records.get(key), self.record_of(key, uid)
                    members = kept.rebased(before, after, {} if of_it is None else of_it.metadata)

    async def _swap(self, key: str, uid: str, record: KeptMetadata | None, members: JSONObject) -> None:
        if (damaged := self._damaged.get(key)) is not None:
            raise Unavailable(str(damaged))
        path = self._path(key)
        if not members:
            if record is not None:
                self._wrote(key, None, await self._storage.delete(path, record.revision))
            return
        value = codec.encode_json(members)
        if record is not None and (record.uid, record.value) == (uid, value):
            return
        encoded = codec.encode_json({"uid": uid, "metadata": members})
        if record is None:
            revision = await self._storage.create(path, encoded)
        else:
            revision = await self._storage.update(path, encoded, record.revision)
        self._wrote(key, KeptMetadata(uid, value, revision), revision)

    def _wrote(self, key: str, record: KeptMetadata | None, revision: int) -> None:
        """Know an own write at once: etcd tells of it later."""
        if revision > self.revision:
            self._ahead[key] = revision
            self._set(key, record)

    async def _look(self, key: str) -> None:
        """Read a record again, for those that can't wait for the watch."""
        since = await self._storage.revision()  # before the record is read, which may be made right after that
        item = await self._storage.get(self._path(key))
        revision = since if item is None else item.revision
        self._take(key, revision, item)
        if revision > self.revision:
            self._ahead[key] = max(revision, self._ahead.get(key, 0))

    async def forget(self, key: str, record: KeptMetadata | None) -> None:
        """Remove the record of an object that is gone, unless there is another one by now.

        A storage that fails is not in the way: what is left is removed later.
        """
        if record is None:
            return
        try:
            self._wrote(key, None, await self._storage.delete(self._path(key), record.revision))
        except (Conflict, NotFound):
            return
        except StorageError as error:
            log.warning("what is kept of %s could not be removed, which is tried again later: %s", key, error)

    async def sweep(self, since: int, is_absent: Callable[[str], bool], is_gone: Callable[[str], Awaitable[bool]]) -> None:
        """Remove the records of objects that are gone, after a reading of the whole source.

        since: `revision` when the reading began: a later record may be of an object that it did not see. is_absent: whether the
        reading has not found an object. is_gone: asks the source for one object, and raises what that raises.
        """
        found = [
            (key, record)
            for key, record in self._records.items()
            if record.revision <= since and key not in self._turns and (key in self._others or is_absent(key))
        ]
        for key, record in found:
            if key in self._others or await is_gone(key):
                await self.forget(key, record)

    # --- keys ---

    def _path(self, key: str) -> str:
        """The key of an object's record. The names of namespaces and objects have no colon."""
        return self._prefix + key.removeprefix(self._objects).replace("/", ":")

    def _key(self, path: str) -> str:
        return self._objects + path.removeprefix(self._prefix).replace(":", "/")

    def __len__(self) -> int:
        return len(self._records)
