"""The store in etcd, which several servers can share, and which can hold objects that kube-apiserver wrote.

Keys and values are as kube-apiserver stores custom resources, so that either server can read what the other wrote. Revisions are
etcd's, and a write is one transaction that compares the key's mod revision.

Other servers write to the store too. So the event of a write arrives when etcd sends it, possibly after the writer has its
answer, and `revision` queries etcd at each call. A read is consistent if it waits until a watch has reached that revision.
`app/engine.py` imports this module only for `--storage etcd`.
Source: `interface.py`; k8s.io/apiserver pkg/storage/etcd3 (store.go, compact.go), pkg/storage/feature, v0.36.3.
"""

from __future__ import annotations

import asyncio
import builtins
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

from aggserver.storage import etcd_wire as wire
from aggserver.storage import jumps
from aggserver.storage.etcd_client import LONG_READ, READ, WRITE, Client, OutOfRange
from aggserver.storage.etcd_watch import EtcdSubscription, EtcdWatch
from aggserver.storage.figures import RequestFigures, StorageFigures
from aggserver.storage.interface import (
    Compacted,
    Conflict,
    Event,
    FutureRevision,
    KeyExists,
    KeyValue,
    NotFound,
    Page,
    Precondition,
    PreconditionFailed,
    Sink,
    StorageError,
    Subscription,
    Unavailable,
)
from aggserver.storage.keys import prefix_end

__all__ = ["EtcdStorage", "IsKine", "check_version", "found_in"]

PAGE = 1000  # keys read at once: a few MB
START = 10.0  # seconds to wait for etcd at start
PROBE = 2.0  # seconds between checks that etcd answers
# `advance` has ADVANCE_AT_ONCE writes in flight, which is 3,500 a second. Each write takes some 100 bytes in etcd until it is
# compacted. So while etcd keeps more than MOST_KEPT revisions, `advance` waits: kube-apiserver compacts every five minutes. Up to
# FEW writes are made without asking etcd how many it keeps, which takes a tenth of a second. Times are in seconds.
ADVANCE_AT_ONCE = 128
MOST_KEPT, FEW = 2_000_000, 10_000
COMPACTION_PATIENCE, COMPACTION_LOOK = 1200.0, 5.0
# The key by which servers agree on which of them compacts. It is the one that kube-apiserver uses, outside of its prefix.
TURN = b"compact_rev_key"

_RANGE = "/etcdserverpb.KV/Range"
_PUT = "/etcdserverpb.KV/Put"
_TXN = "/etcdserverpb.KV/Txn"
_COMPACT = "/etcdserverpb.KV/Compact"
_WATCH = "/etcdserverpb.Watch/Watch"
_STATUS = "/etcdserverpb.Maintenance/Status"


class IsKine(Unavailable):
    """Kine answers in etcd's place, for which there is `kine.KineStorage`."""


class EtcdStorage:
    """A `Storage` in the etcd cluster whose members have the URLs `servers`. All keys begin with `prefix`, as kube-apiserver's.

    The files are PEM, for https. `sleep` waits between checks that etcd answers, and between retries of a read.
    """

    def __init__(
        self,
        servers: Sequence[str],
        prefix: str = "/registry",
        *,
        ca_file: Path | None = None,
        cert_file: Path | None = None,
        key_file: Path | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        inside = prefix.strip("/")
        self._prefix = f"/{inside}" if inside else ""
        self._skip = len(self._prefix.encode())
        self._servers = tuple(servers)
        self._files = {"ca_file": ca_file, "cert_file": cert_file, "key_file": key_file}
        self._sleep = sleep
        self._client: Client | None = None
        self._probing: asyncio.Task[None] | None = None
        self._asking: asyncio.Task[int] | None = None
        self._next: asyncio.Task[int] | None = None
        self._writing: set[asyncio.Task[tuple[int, KeyValue | None]]] = set()
        self._newest = 0  # the newest revision in etcd's answers
        self._turns = 0  # the version of TURN that this server last saw
        self._known_oldest = 0
        self._trouble: str | None = None
        self._requests = RequestFigures(time.perf_counter, (PreconditionFailed, OutOfRange))

    _advance_at_once = ADVANCE_AT_ONCE

    # Connection

    async def start(self) -> None:
        """As `Storage.start`. Raises IsKine where that answers."""
        self._client = Client(self._servers, **self._files, sleep=self._sleep)
        try:
            self._check(wire.status(await self._client.read(_STATUS, b"", patience=START)))
            await self.revision()
        except BaseException:
            await self.close()
            raise
        self._probing = asyncio.create_task(self._probe())

    def _check(self, status: wire.MemberStatus) -> None:
        if not status.member:
            raise IsKine(f"{self._servers[0]} is kine, and not etcd")
        check_version(status.version)

    async def close(self) -> None:
        client, self._client = self._client, None
        for task in (self._probing, self._asking, self._next):
            if task is not None:
                task.cancel()
        if client is not None:
            await client.close()

    async def _probe(self) -> None:
        """Probe etcd regularly, to detect its loss without requests, and to leave a member that hangs before requests wait."""
        while True:
            await self._sleep(PROBE)
            try:
                await self.revision()
            except Unavailable as error:
                self._trouble = str(error)
            else:
                self._trouble = None

    def trouble(self) -> str | None:
        return self._trouble

    def figures(self) -> StorageFigures:
        return StorageFigures(revision=self._newest or None, requests=self._requests)

    def location(self, key: str) -> str:
        return self._prefix + key

    def _opened(self) -> Client:
        if self._client is None:
            raise Unavailable("the store is not open")
        return self._client

    # Reading

    async def revision(self) -> int:
        # A running query may have been answered before this call, so wait for the next one, which all waiting callers share.
        if self._next is None:
            self._next = asyncio.create_task(self._query(self._asking))
        query = self._next
        await asyncio.wait([query])
        if query.cancelled():
            raise Unavailable("the store is closed")
        return query.result()

    async def _query(self, before: asyncio.Task[int] | None) -> int:
        if before is not None:
            await asyncio.wait([before])
        self._asking, self._next = self._next, None
        return (await self._range(wire.range_request(self._key("/"), count_only=True))).revision

    async def get(self, key: str) -> KeyValue | None:
        with self._requests.timed("get", key):
            return await self._get(key)

    async def _get(self, key: str, revision: int = 0) -> KeyValue | None:
        items = (await self._range(wire.range_request(self._key(key), revision=revision))).items
        return items[0] if items else None

    async def list(self, prefix: str, *, revision: int = 0, start: str = "", limit: int = 0, counted: bool = True) -> Page:
        first, end = self._key(max(start, prefix)), self._key(prefix_end(prefix))
        items: builtins.list[KeyValue] = []
        at = revision
        while True:
            size = min(limit - len(items), PAGE) if limit else PAGE
            try:
                with self._requests.timed("list", prefix):
                    page = await self._range(wire.range_request(first, end, limit=size, revision=at), long=True)
            except OutOfRange as error:
                raise await self._out_of_range(error, at) from None
            items += page.items
            at = at or page.revision
            if not page.more or len(items) == limit:
                return Page(items, at, page.more, page.count - len(page.items))
            first = self._key(items[-1].key) + b"\0"

    async def count(self, prefix: str) -> int:
        request = wire.range_request(self._key(prefix), self._key(prefix_end(prefix)), count_only=True)
        with self._requests.timed("count", prefix):
            return (await self._range(request)).count

    async def _range(self, request: bytes, *, long: bool = False) -> wire.RangeAnswer:
        seconds = LONG_READ if long else READ
        answer = wire.range_answer(await self._opened().read(_RANGE, request, seconds=seconds), self._skip)
        self._newest = max(self._newest, answer.revision)
        return answer

    async def room(self) -> int | None:
        """Always None: etcd does not report how much of its quota is free."""
        return None

    # Writing

    async def create(self, key: str, value: bytes, guard: Precondition | None = None) -> int:
        with self._requests.timed("create", key):
            revision, found = await self._write(key, 0, wire.put_op(self._key(key), value), guard)
        if found is not None:
            raise KeyExists(key, found)
        return revision

    async def update(self, key: str, value: bytes, expected: int, guard: Precondition | None = None) -> int:
        with self._requests.timed("update", key):
            revision, found = await self._write(key, expected, wire.put_op(self._key(key), value), guard)
        return _replaced(key, revision, found)

    async def delete(self, key: str, expected: int, guard: Precondition | None = None) -> int:
        with self._requests.timed("delete", key):
            revision, found = await self._write(key, expected, wire.delete_op(self._key(key)), guard)
        return _replaced(key, revision, found)

    async def _write(
        self, key: str, expected: int, operation: bytes, guard: Precondition | None = None
    ) -> tuple[int, KeyValue | None]:
        """(the write's revision, None), or (0, the key's state) if its revision is not `expected`. Raises PreconditionFailed."""
        # In a task of its own, so that `settle` can wait for the write even if the caller was cancelled.
        task = asyncio.create_task(self._transact(key, expected, operation, guard))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)
        return await asyncio.shield(task)

    async def _transact(
        self, key: str, expected: int, operation: bytes, guard: Precondition | None
    ) -> tuple[int, KeyValue | None]:
        """As `_write`, which runs it in a task."""
        answer = await self._txn(key, expected, operation, guard)
        if answer.succeeded:
            return answer.revision, None
        found = found_in(answer)
        if guard is not None and expected == (found.revision if found is not None else 0):
            raise PreconditionFailed(guard.key)  # the comparison of the key can't have failed
        return 0, found

    async def _txn(
        self, key: str, expected: int, operation: bytes, guard: Precondition | None = None, seconds: float = WRITE
    ) -> wire.TxnAnswer:
        """Run `operation` if the key is at `expected`, and that of the guard at its revision; else read the key."""
        raw = self._key(key)
        compares = wire.compare(raw, wire.MOD, expected)
        if guard is not None:
            compares += wire.compare(self._key(guard.key), wire.MOD, guard.revision)
        request = wire.txn_request(compares, operation, wire.range_op(raw))
        answer = wire.txn_answer(await self._opened().write(_TXN, request, seconds), self._skip)
        self._newest = max(self._newest, answer.revision)
        return answer

    async def settle(self) -> None:
        self._opened()
        if self._writing:
            await asyncio.wait(self._writing.copy())

    async def advance(self, revision: int) -> int:
        """As `Storage.advance`. Etcd's counter can't jump, so this makes a write of one key for each revision.

        Raises StorageError if etcd is not compacted for so long that it keeps too many revisions, or Unavailable.
        """
        waited = 0.0
        while (now := await self.revision()) < revision:
            most = revision if revision - now <= FEW else await self._oldest() + MOST_KEPT
            if now < most:
                await self._write_up_to(min(revision, most), now)
                waited = 0.0
            elif waited < COMPACTION_PATIENCE:
                await self._sleep(COMPACTION_LOOK)
                waited += COMPACTION_LOOK
            else:
                raise StorageError(
                    f"etcd is at revision {now} and has to advance to {revision}, by a write for each. It was not compacted "
                    f"for {waited:g} s, and keeps {MOST_KEPT} revisions, which is as many as this server fills it with"
                )
        return now

    async def _write_up_to(self, revision: int, now: int) -> None:
        while now < revision:
            due = iter(range(revision - now))

            async def write(due: Iterator[int] = due) -> None:
                for _ in due:
                    if self._newest >= revision:  # other servers have written meanwhile
                        return
                    await self._advance_by_one()

            failure: Exception | None = None
            try:
                async with asyncio.TaskGroup() as group:
                    for _ in range(min(self._advance_at_once, revision - now)):
                        group.create_task(write())
            except* StorageError as failures:
                failure = failures.exceptions[0]
            if failure is not None:  # not raised within `except*`, as in registry/remover.py
                raise failure from None
            now = self._newest

    async def _advance_by_one(self) -> None:
        request = wire.put_request(self._key(jumps.KEY), b"{}")
        self._newest = max(self._newest, wire.put_answer(await self._opened().write(_PUT, request)))

    # Watching

    async def watch(self, prefix: str, after: int, sink: Sink) -> Subscription:
        present = await self._check_kept(after)
        subscription = EtcdSubscription(await self._open_watch(prefix, after), sink)
        await subscription.start(present)
        return subscription

    async def history(self, prefix: str, after: int, upto: int, limit: int) -> Sequence[Event]:
        await self._check_kept(after)
        watch = await self._open_watch(prefix, after, previous=True)
        found: builtins.list[Event] = []
        try:
            watch.progress()
            while watch.revision < upto and len(found) < limit:
                found += await watch.next()
        finally:
            watch.close()
        found = [event for event in found if event.revision <= upto][:limit]
        for number, event in enumerate(found):
            if event.previous is None and (event.value is None or event.create_revision != event.revision):
                previous = await self._replaced(event)
                if previous is None:
                    raise Compacted(after, await self._oldest())
                found[number] = event._replace(previous=previous)
        return found

    async def _replaced(self, event: Event) -> KeyValue | None:
        """What a write replaced, where the watch has not told: in etcd that has been compacted."""
        return None

    async def _open_watch(self, prefix: str, after: int, *, previous: bool = False) -> EtcdWatch:
        key, end = self._key(prefix), self._key(prefix_end(prefix))
        watch = EtcdWatch(await self._opened().stream(_WATCH), after, self._skip, lambda: self._newest)
        await watch.begin(key, end, previous=previous)
        return watch

    async def _check_kept(self, revision: int) -> int:
        """The newest revision. Raises Compacted or FutureRevision if `revision` can't be watched after."""
        try:
            return (await self._range(wire.range_request(self._key("/"), revision=revision, count_only=True))).revision
        except OutOfRange as error:
            raise await self._out_of_range(error, revision) from None

    async def _out_of_range(self, error: OutOfRange, revision: int) -> Compacted | FutureRevision:
        if "compacted" in str(error):
            return Compacted(revision, await self._oldest())
        return FutureRevision(revision, await self.revision())

    async def _oldest(self) -> int:
        """The revision of the last compaction, 1 if there was none. etcd reports it only to a watch from an older revision."""
        watch = await self._open_watch("/", 0)
        try:
            watch.progress()
            await watch.next()
        except Compacted as refused:
            return refused.oldest
        finally:
            watch.close()
        return 1

    # Compaction

    @property
    def oldest_kept(self) -> int:
        return self._known_oldest

    async def claim_compaction(self, revision: int) -> bool:
        mine = wire.put_op(TURN, str(revision).encode())
        request = wire.txn_request(wire.compare(TURN, wire.VERSION, self._turns), mine, wire.range_op(TURN))
        answer = wire.txn_answer(await self._opened().write(_TXN, request), 0)
        if answer.succeeded:
            self._turns += 1
            return True
        assert answer.found is not None
        self._turns = answer.found.version
        # Another server has compacted: the value is the revision.
        for item in answer.found.items:
            if item.value.isdigit():
                self._known_oldest = max(self._known_oldest, int(item.value))
        return False

    async def compact(self, revision: int) -> None:
        if not revision:
            return
        try:
            await self._opened().write(_COMPACT, wire.compaction_request(revision))
        except OutOfRange as error:
            # It is no failure if another server has compacted further.
            if "compacted" not in str(error):
                raise FutureRevision(revision, await self.revision()) from None
        self._known_oldest = max(self._known_oldest, revision)

    def _key(self, key: str) -> bytes:
        return (self._prefix + key).encode()


def _replaced(key: str, revision: int, found: KeyValue | None) -> int:
    """The revision of a write. found: the key's state, if that refused the write."""
    if found is not None:
        raise Conflict(key, found)
    if not revision:
        raise NotFound(key)
    return revision


def found_in(answer: wire.TxnAnswer) -> KeyValue | None:
    """The state of the key, which a transaction reads when its comparisons fail."""
    return answer.found.items[0] if answer.found is not None and answer.found.items else None


def check_version(version: str) -> None:
    """Reject versions that may report a watch's progress before its events. Raises Unavailable."""
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    if found is None:
        return
    numbers = tuple(int(number) for number in found.groups())
    if numbers < (3, 4, 31) or (3, 5, 0) <= numbers < (3, 5, 13):
        raise Unavailable(f"etcd {version} does not support consistent reads from a cache: 3.4.31, 3.5.13 or newer is required")
