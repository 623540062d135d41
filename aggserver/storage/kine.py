"""The store in kine, which k3s has in etcd's place, over SQLite, PostgreSQL, MySQL or NATS.

Kine has the part of etcd's API that kube-apiserver uses. This server needs more, and does it as follows:

- A transaction compares one key only, so a guard can't be checked in the transaction of the write (`interface.Precondition`).
  This process checks it: it lets no write of a guard's key run beside a write that depends on it. For that, all writes must come
  from one process: `Hold` sees to it that one server uses the store at a time.
- In a database with concurrent transactions, a write may become visible after one of a greater revision. A list, and a watch of
  the past, would then lack it for ever. So a list is read at a revision, and a watch begins, while no write is in progress.
- Kine takes any failure of its database for a lost race. It acknowledges a create that the database refused, for instance for a
  full disk, and the deletion of a key that is not there. So each create is read again, and what was deleted is counted.
- What an event has replaced is left out if it is older than the last compaction. So it is read.
- Kine never compacts its newest 1,000 revisions, and nothing on demand if it compacts by itself (`--compact-interval`).
- The number of a key's writes is not kept, except for the key by which servers agree on who compacts.

Source: k3s-io/kine v0.17.5 pkg/server (create.go, update.go, delete.go, watch.go), pkg/logstructured/logstructured.go.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import socket
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

import orjson

from aggserver.storage import etcd_wire as wire
from aggserver.storage.etcd import EtcdStorage, check_version, found_in
from aggserver.storage.etcd_client import WRITE, OutOfRange
from aggserver.storage.etcd_watch import EtcdWatch
from aggserver.storage.interface import Event, KeyValue, Page, Precondition, PreconditionFailed, StorageError, Unavailable

__all__ = ["KineStorage"]

# Outside of the prefix of all keys, like the key by which servers agree on who compacts: it is in no list.
HOLDER = "-aggserver-holder"
# Seconds. The hold is renewed every RENEW. Others take it over when they have seen no renewal for LAPSE, so its owner writes
# nothing that could still be in progress then.
RENEW, LAPSE = 4.0, 15.0
LOOK = 0.5  # between looks at a hold of another server

logger = logging.getLogger(__name__)

# Kine reports an error of its database, such as that it is busy, as a comparison that has failed. What it then says of the key
# shows that the comparison holds, and nothing was written.
_TRIES = 3


class KineStorage(EtcdStorage):
    """A `Storage` in kine. Arguments as `EtcdStorage`; clock: seconds, monotonic.

    writes: whether this process will write; then `start` waits until no other server does, and raises Unavailable if one goes on.
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
        clock: Callable[[], float] = time.monotonic,
        writes: bool = True,
    ) -> None:
        super().__init__(servers, prefix, ca_file=ca_file, cert_file=cert_file, key_file=key_file, sleep=sleep)
        self._clock = clock
        self._writes = writes
        self._order = _Order()
        self._guards: dict[str, int | None] = {}  # the revisions of guards, None where it has to be read again
        self._name = f"{socket.gethostname()} {os.getpid()} {secrets.token_hex(4)}"
        self._held = 0  # the revision of our record of the hold, 0 if we don't have it
        self._until = 0.0  # when the hold lapses
        self._renewing: asyncio.Task[None] | None = None

    # A few: kine opens a connection to its database for each, and they all write the same key.
    _advance_at_once = 8

    # Connection

    def _check(self, status: wire.MemberStatus) -> None:
        check_version(status.version)

    async def start(self) -> None:
        await super().start()
        if not self._writes:
            return
        try:
            await self._take()
        except BaseException:
            await self.close()
            raise
        self._renewing = asyncio.create_task(self._renew())
        logger.warning(
            "the store is kine, which has no transactions over two keys: one server at a time can use it, and a second one ends "
            "at its start. For several servers use etcd"
        )

    async def close(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait([self._renewing])
            self._renewing = None
        if self._held:
            await self.settle()
            with contextlib.suppress(StorageError):
                await self._txn(HOLDER, self._held, wire.delete_op(self._key(HOLDER)))
            self._held = 0
        await super().close()

    def trouble(self) -> str | None:
        if (trouble := super().trouble()) is None and self._renewing is not None and self._left() <= 0:
            return "another server may use the store, since this one could not renew its hold on it"
        return trouble

    # The hold

    async def _take(self) -> None:
        """Take the hold, if nobody has it, or nobody has renewed it for LAPSE. Raises Unavailable if another server does."""
        seen = await self.get(HOLDER)
        since = self._clock()
        while seen is not None and self._clock() - since < LAPSE:
            await self._sleep(LOOK)
            now = await self.get(HOLDER)
            if now is not None and now.revision != seen.revision:
                raise Unavailable(
                    f"another server uses the store in kine ({_name(now)}). Kine has no transactions over two keys, so one "
                    "server at a time can use it: stop the other one, or use etcd for several servers"
                )
            seen = now
        before = 0 if seen is None else seen.revision
        if not await self._hold(before):
            now = await self.get(HOLDER)
            if before == (0 if now is None else now.revision):
                raise Unavailable(
                    "kine refused this server's hold on the store, although nobody else has it: is its database busy?"
                )
            raise Unavailable("another server has begun to use the store in kine at the same time, and only one can")
        self._guards.clear()

    async def _hold(self, expected: int) -> bool:
        """Write our record in place of the one at `expected`; returns whether that was still there."""
        asked = self._clock()
        value = orjson.dumps({"holder": self._name})
        answer = await self._txn(HOLDER, expected, wire.put_op(self._key(HOLDER), value), seconds=RENEW)
        if not answer.succeeded or (not expected and not await self._was_created(HOLDER, answer.revision)):
            self._held = 0
            return False
        self._held, self._until = answer.revision, asked + LAPSE
        return True

    async def _renew(self) -> None:
        while True:
            await self._sleep(RENEW)
            try:
                if not self._held:
                    await self._take()
                elif not await self._hold(self._held):
                    current = await self.get(HOLDER)
                    if current is not None and _name(current) == self._name:
                        self._held = current.revision  # a renewal whose answer was lost
                    else:
                        logger.error("another server has taken the store in kine over: this one writes nothing any more")
            except Unavailable as error:
                logger.warning("the hold on the store in kine could not be renewed: %s", error)

    def _left(self) -> float:
        """Seconds until the hold lapses."""
        return self._until - self._clock() if self._held else 0.0

    def _time_to_write(self) -> float:
        """Seconds that a write may take. Raises Unavailable if others may hold the store before it ends."""
        left = min(self._left(), WRITE)
        if left <= 0:
            raise Unavailable("nothing is written, since another server may use the store in kine")
        return left

    # Reading

    async def list(self, prefix: str, *, revision: int = 0, start: str = "", limit: int = 0, counted: bool = True) -> Page:
        if not revision:
            async with self._order.alone():
                revision = await self.revision()
        return await super().list(prefix, revision=revision, start=start, limit=limit, counted=counted)

    async def _open_watch(self, prefix: str, after: int, *, previous: bool = False) -> EtcdWatch:
        async with self._order.alone():
            return await super()._open_watch(prefix, after, previous=previous)

    async def _replaced(self, event: Event) -> KeyValue | None:
        # Kine leaves out what was last written before the compaction, although it keeps it.
        try:
            return await self._get(event.key, event.revision - 1)
        except OutOfRange:
            return None

    # Writing

    async def _transact(
        self, key: str, expected: int, operation: bytes, guard: Precondition | None
    ) -> tuple[int, KeyValue | None]:
        while True:
            is_guard = key in self._guards
            async with self._order.alone() if is_guard else self._order.together():
                # Both may have changed while this waited.
                if is_guard == (key in self._guards) and (guard is None or self._guards.get(guard.key) is not None):
                    return await self._commit(key, expected, operation, guard)
            if guard is not None:
                await self._learn(guard.key)

    async def _learn(self, guard: str) -> None:
        """Read the revision of a guard, and from now on let none of its writes run beside others."""
        async with self._order.alone():
            self._guards.setdefault(guard, None)
            if self._guards[guard] is None:
                current = await self.get(guard)
                self._guards[guard] = current.revision if current is not None else 0

    async def _commit(self, key: str, expected: int, operation: bytes, guard: Precondition | None) -> tuple[int, KeyValue | None]:
        seconds = self._time_to_write()
        if guard is not None and self._guards[guard.key] != guard.revision:
            raise PreconditionFailed(guard.key)
        if key in self._guards:
            self._guards[key] = None
        for _ in range(_TRIES):
            answer = await self._txn(key, expected, operation, seconds=seconds)
            if answer.succeeded:
                break
            found = found_in(answer)
            if (0 if found is None else found.revision) != expected:
                return 0, found
        else:
            raise Unavailable(f"kine's database did not take a write of {self.location(key)}")
        if answer.deleted == 0:
            return 0, None
        if not expected and not await self._was_created(key, answer.revision):
            raise Unavailable(f"kine's database did not take a new key, {self.location(key)}: is its disk full?")
        return answer.revision, None

    async def _was_created(self, key: str, revision: int) -> bool:
        found = await self.get(key)
        return found is not None and found.create_revision == revision

    async def _advance_by_one(self) -> None:
        async with self._order.together():
            self._time_to_write()
            await super()._advance_by_one()


def _name(record: KeyValue) -> str:
    try:
        return str(orjson.loads(record.value)["holder"])
    except (ValueError, KeyError, TypeError):
        return "unknown"


class _Order:
    """What runs together, and what runs alone, each in its turn."""

    def __init__(self) -> None:
        self._together = 0
        self._alone = False
        self._waiting: deque[tuple[asyncio.Future[None], bool]] = deque()

    @contextlib.asynccontextmanager
    async def together(self) -> AsyncIterator[None]:
        await self._turn(alone=False)
        try:
            yield
        finally:
            self._together -= 1
            self._next()

    @contextlib.asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        await self._turn(alone=True)
        try:
            yield
        finally:
            self._alone = False
            self._next()

    async def _turn(self, *, alone: bool) -> None:
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((mine, alone))
        self._next()
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():  # its turn had come
                if alone:
                    self._alone = False
                else:
                    self._together -= 1
            self._next()
            raise

    def _next(self) -> None:
        while self._waiting and not self._alone:
            mine, alone = self._waiting[0]
            if alone and self._together and not mine.cancelled():
                return
            self._waiting.popleft()
            if mine.cancelled():
                continue
            mine.set_result(None)
            if alone:
                self._alone = True
            else:
                self._together += 1
