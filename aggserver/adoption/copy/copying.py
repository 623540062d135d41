"""Copying: brings the host's objects of one definition into our store, and keeps the copy up to date until the switch.

`Copier.copy` writes all objects, many at once, since the store commits what waits together; a page of them is in memory, and the
next one on its way. Then `Copier.follow` writes what changes. For each key the host's revision is remembered, by which `copied`
says what was moved. After the switch, `follow` goes on for writes that were still on their way in the host: such a write is
copied, too, unless somebody has written the object here since; then it is only reported. While the host deletes a definition, its
changes of that definition's objects are no writes of clients, and are not copied.

A copy has a greater revision than its object has in the host. Clients may compare the two, or send a resourceVersion that they
have from the host: it must never be the resourceVersion of another state here.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

from aggserver.adoption.records.record import (
    LATE_WRITE,
    CantCopy,
    Copied,
    HostChange,
    Moving,
    ReportMessage,
    Source,
    SourcePage,
    digest,
)
from aggserver.cluster.pacing import Sleep
from aggserver.storage.interface import Conflict, KeyExists, NotFound, Storage

__all__ = ["AHEAD", "Copier", "Copies", "Late", "drop", "needed", "stopped"]

log = logging.getLogger("aggserver.adoption")

# Writes of ours in flight. A store in this process commits all that wait in one transaction.
AT_ONCE = 128

# How far our store's revision goes ahead of the host's, so that it need not be advanced for each of the host's writes.
AHEAD = 1000

# If no change arrives for so long, `near` assumes that none is on its way.
QUIET_SECONDS = 0.25

# Bytes that a copy leaves free on the disk, for the objects of other families and for the store's log and history.
KEPT_FREE = 64 << 20
# The size of a store's file as a multiple of the values in it: the rest is keys, and pages that are not full.
OVERHEAD = 1.25

# A late write of the host: the change, and whether it was copied.
Late = Callable[[HostChange, bool], None]


def needed(page: SourcePage, copied: int, size: int) -> int:
    """About how many bytes the store needs for a page and all after it.

    copied, size: the objects and bytes read so far, those of the page included.
    """
    rest = size / copied * page.remaining if copied else 0.0
    return round((sum(len(value) for _, value, _ in page.items) + rest) * OVERHEAD)


async def drop(storage: Storage, prefix: str) -> None:
    """Delete all keys below a prefix. Nobody else must write there."""
    start = ""
    while True:
        page = await storage.list(prefix, start=start, limit=AT_ONCE)
        await _together(_delete(storage, item.key) for item in page.items)
        if not page.more:
            return
        start = page.items[-1].key


class Copier:
    """Copies the objects of one definition from the host to our store. prefix: of their keys, in both stores.

    on_progress: called after each page. on_late: called for each late write, with whether it was copied. is_kept: asks whether
    the host still has the definition, and is not deleting it. clock: in seconds.
    """

    def __init__(
        self,
        source: Source,
        storage: Storage,
        prefix: str,
        *,
        on_progress: Callable[[Moving], None],
        on_late: Late,
        is_kept: Callable[[], Awaitable[bool]],
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._source = source
        self._storage = storage
        self._prefix = prefix
        self._on_progress = on_progress
        self._on_late = on_late
        self._is_kept = is_kept
        self._is_deleted = False
        self._clock = clock
        self._sleep = sleep
        # The host revision of each key that was copied, and the bytes of all copied values.
        self._revisions: dict[str, int] = {}
        self._size = 0
        # The host revision up to which everything was received, and how many changes were received.
        self._received = 0
        self._changes = 0
        self._ahead = 0  # what our store's revision is at least
        self._writing: dict[str, asyncio.Task[None]] = {}
        self._moved = asyncio.Event()
        self._failure: BaseException | None = None
        # Once switched: our revision at that moment, and our revision of each late write that was copied since, by key.
        self._switched: int | None = None
        self._late: dict[str, int] = {}

    # --- before the switch ---

    async def copy(self) -> None:
        """Copy all objects, and delete what an earlier attempt left and the host has no more. Raises as `Source`."""
        began, copied, size = self._clock(), 0, 0
        found: dict[str, int] = {}
        async with aclosing(_ahead(self._source.pages())) as pages:
            async for page in pages:
                if page.first:
                    # The list was begun again: an object that the expired one had may be deleted by now.
                    found, copied, size = {}, 0, 0
                found |= {key: revision for key, _, revision in page.items}
                size += sum(len(value) for _, value, _ in page.items)
                copied += len(page.items)
                await self._check_room(needed(page, copied, size))
                await self._go_ahead(page.revision)
                await _together(self._put(*item) for item in page.items if self._revisions.get(item[0]) != item[2])
                self._received = page.revision
                took = self._clock() - began
                left = took / copied * page.remaining if copied else None
                self._on_progress(Moving(copied, size, page.remaining, left))
        await self._prune(found)

    async def _check_room(self, size: int) -> None:
        """Raises CantCopy rather than fill a disk that other families need."""
        room = await self._storage.room()
        if room is not None and room < size + KEPT_FREE:
            raise CantCopy(
                f"the store has room for {room >> 20} MiB, and the copy needs about {size >> 20} MiB more and "
                f"{KEPT_FREE >> 20} MiB that stay free: make room on its disk"
            )

    async def follow(self) -> None:
        """Copy what changes after `copy`, until cancelled or until the host's watch ends after `switched`. Raises as `Source`."""
        try:
            async with aclosing(self._source.changes(self._received)) as changes:
                async for change in changes:
                    await self._take(change)
            await self._settle()
        except BaseException as error:
            self._failure = error
            self._moved.set()
            raise
        finally:
            for task in self._writing.values():
                task.cancel()

    async def near(self) -> None:
        """Wait until the copy is at most a moment behind the host, so that little is left to do while its writes wait."""
        aim = await self._source.now()
        while self._received < aim:
            before = self._changes
            await self._sleep(QUIET_SECONDS)
            self._check()
            if self._changes == before:
                return

    async def caught_up(self) -> int:
        """Wait until every write is copied that the host acknowledged before the call.

        Returns a host revision that is not before any of these writes. Raises as `Source`, and what `follow` has raised.
        """
        mark = await self._source.mark(self._revisions)
        while not mark.seen and self._received < mark.revision:
            self._check()
            self._moved.clear()
            await self._moved.wait()
        self._check()
        await self._settle()
        return mark.revision

    async def copied(self, host_revision: int) -> Copied:
        """The summary of what was moved. All writes up to the host revision must have been copied. Hashes in a thread."""
        revisions = dict(self._revisions)
        total = await asyncio.to_thread(lambda: digest(sorted(revisions.items())))
        return Copied(host_revision, len(revisions), total, await self._storage.revision(), self._size)

    # --- after the switch ---

    def switched(self, copied: Copied) -> None:
        """From now on clients write here: what `follow` receives is late. copied: as recorded for the switch."""
        self._switched = copied.own_revision
        self._source.leave()

    async def with_late(self, copied: Copied) -> Copied:
        """The record of the switch, brought up to date with the host's late writes."""
        now = await self.copied(max(copied.host_revision, self._received))
        return Copied(now.host_revision, now.count, now.digest, copied.own_revision, copied.size)

    # --- writes ---

    async def _go_ahead(self, host_revision: int) -> None:
        """Make sure that all later writes to our store get greater revisions than this one of the host."""
        if host_revision >= self._ahead:
            self._ahead = await self._storage.advance(host_revision + AHEAD)

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    async def _take(self, change: HostChange) -> None:
        """Begin to write a change. Changes of one key stay in order, those of others are written at the same time."""
        if change.key:
            await self._go_ahead(change.revision)
            before = self._writing.get(change.key)
            if before is not None:
                await before
            while len(self._writing) >= AT_ONCE:
                await asyncio.wait(self._writing.values(), return_when=asyncio.FIRST_COMPLETED)
                await asyncio.sleep(0)
            task = asyncio.create_task(self._apply(change, change.key in self._revisions))
            self._writing[change.key] = task
            task.add_done_callback(lambda done, key=change.key: self._written(key, done))  # type: ignore[misc]
            # The revision counts as seen once the task is known, so that `caught_up` waits for it.
            self._revisions_after(change)
        self._check()
        self._received = max(self._received, change.revision)
        self._changes += 1
        self._moved.set()

    def _revisions_after(self, change: HostChange) -> None:
        if change.value is None:
            self._revisions.pop(change.key, None)
        else:
            self._revisions[change.key] = change.revision

    def _written(self, key: str, task: asyncio.Task[None]) -> None:
        if self._writing.get(key) is task:
            del self._writing[key]
        if not task.cancelled() and (error := task.exception()) is not None and self._failure is None:
            self._failure = error
        self._moved.set()

    async def _settle(self) -> None:
        """Wait for the writes in flight. Raises the first error."""
        while self._writing:
            await asyncio.wait(list(self._writing.values()))
            await asyncio.sleep(0)
        self._check()

    async def _apply(self, change: HostChange, was_there: bool) -> None:
        """Write one change to our store. was_there: whether the host had the object before the change."""
        if self._switched is not None:
            await self._apply_late(change, was_there, self._switched)
        elif change.value is None:
            before = await _delete(self._storage, change.key)
            self._size -= before
        else:
            before = await _replace(self._storage, change.key, change.value)
            self._size += len(change.value) - before

    async def _apply_late(self, change: HostChange, was_there: bool, switched: int) -> None:
        self._is_deleted = self._is_deleted or not await self._is_kept()
        if self._is_deleted:
            return
        current = await self._storage.get(change.key)
        known = max(switched, self._late.get(change.key, 0))
        copied = False
        if current is None:
            # A missing object was deleted here by a client, unless the host has just created it.
            copied = change.value is None or not was_there
        elif current.revision <= known:
            copied = True
        if copied:
            try:
                await self._write_late(change, current.revision if current is not None else 0)
            except (Conflict, KeyExists, NotFound):
                copied = False  # a client has just written it here
        self._on_late(change, copied)

    async def _write_late(self, change: HostChange, expected: int) -> None:
        if change.value is None:
            if expected:
                await self._storage.delete(change.key, expected)
        elif expected:
            self._late[change.key] = await self._storage.update(change.key, change.value, expected)
        else:
            self._late[change.key] = await self._storage.create(change.key, change.value)

    async def _put(self, key: str, value: bytes, revision: int) -> None:
        old = await _replace(self._storage, key, value)
        # What an earlier attempt left was not counted yet.
        self._size += len(value) - (old if key in self._revisions else 0)
        self._revisions[key] = revision

    async def _prune(self, found: Mapping[str, int]) -> None:
        start = ""
        while True:
            page = await self._storage.list(self._prefix, start=start, limit=AT_ONCE)
            gone = [item.key for item in page.items if item.key not in found]
            await _together(map(self._forget, gone))
            if not page.more:
                return
            start = page.items[-1].key + "\0"

    async def _forget(self, key: str) -> None:
        size = await _delete(self._storage, key)
        if self._revisions.pop(key, None) is not None:
            self._size -= size


class Copies:
    """The copiers of the families that are moving, and the tasks in which they follow the host.

    report: called for late writes that were not copied.
    """

    def __init__(self, storage: Storage, report: ReportMessage, *, clock: Callable[[], float], sleep: Sleep) -> None:
        self._storage = storage
        self._report = report
        self._clock = clock
        self._sleep = sleep
        self._copiers: dict[str, dict[str, Copier]] = {}
        self._tasks: dict[str, list[asyncio.Task[None]]] = {}

    def get(self, family: str) -> Mapping[str, Copier]:
        """The copiers of a family, by definition; empty if this process has not copied the family."""
        return self._copiers.get(family, {})

    async def begin(
        self,
        family: str,
        prefixes: Mapping[str, str],
        source: Callable[[str], Source],
        on_progress: Callable[[Moving], None],
        is_kept: Callable[[str], Awaitable[bool]],
    ) -> Mapping[str, Copier]:
        """Copy the definitions one after the other, and follow each from then on. prefixes: by definition. Raises as `Source`.

        is_kept: see `Copier`, by definition.
        """
        copiers = self._copiers[family] = {}
        tasks = self._tasks[family] = []
        for name, prefix in prefixes.items():
            copiers[name] = Copier(
                source(name),
                self._storage,
                prefix,
                on_progress=on_progress,
                on_late=lambda change, copied: self._on_late(family, change, copied=copied),
                is_kept=partial(is_kept, name),
                clock=self._clock,
                sleep=self._sleep,
            )
            await copiers[name].copy()
            task = asyncio.create_task(copiers[name].follow())
            # Whoever waits for the copier gets its error; after the switch there is nobody any more.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            tasks.append(task)
        return copiers

    async def end(self, family: str) -> Mapping[str, Copier]:
        """Stop following the host. Returns the copiers."""
        await stopped(self._tasks.pop(family, []))
        return self._copiers.pop(family, {})

    async def close(self) -> None:
        for family in list(self._tasks):
            await self.end(family)

    def _on_late(self, family: str, change: HostChange, *, copied: bool) -> None:
        what = "a write" if change.value is not None else "a deletion"
        if copied:
            log.info("%s: %s of %s came late from the host, and was copied", family, what, change.key)
        else:
            why = f"{what} of {change.key} at the host's revision {change.revision} came late: what was written here since stays"
            log.warning("%s: %s", family, why)
            self._report(family, why, LATE_WRITE)


async def stopped(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel tasks, and wait until they have ended."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


async def _ahead(pages: AsyncGenerator[SourcePage]) -> AsyncGenerator[SourcePage]:
    """The pages, each of which is read while the one before it is written."""

    async def read() -> SourcePage | None:
        return await anext(pages, None)

    reading = asyncio.create_task(read())
    try:
        while (page := await reading) is not None:
            reading = asyncio.create_task(read())
            yield page
    finally:
        reading.cancel()
        await asyncio.wait([reading])
        await pages.aclose()


async def _together(work: Iterable[Coroutine[Any, Any, object]]) -> None:
    """Run all coroutines at the same time. Raises the first error, after the others were cancelled and have ended.

    No task group does this: if it is cancelled while one of its tasks fails, it forgets the cancellation.
    """
    tasks = [asyncio.create_task(each) for each in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        await stopped(tasks)


async def _replace(storage: Storage, key: str, value: bytes) -> int:
    """Set the value of a key. Returns the size of its former value in bytes, 0 if the key did not exist."""
    try:
        await storage.create(key, value)
    except KeyExists as error:
        current = error.current
    else:
        return 0
    if current.value != value:
        await storage.update(key, value, current.revision)
    return len(current.value)


async def _delete(storage: Storage, key: str) -> int:
    """Delete the key if it exists. Returns the size of its value in bytes."""
    current = await storage.get(key)
    if current is None:
        return 0
    await storage.delete(key, current.revision)
    return len(current.value)
