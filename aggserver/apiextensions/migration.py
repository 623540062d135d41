"""Migrator: rewrites the objects of definitions whose storage version has changed, in the background.

It reads all objects of a definition, in pages, and rewrites those that are stored in another version (`registry/migration.py`).
An interrupted migration starts again from the beginning, and skips the objects that are done. It leaves time for requests: it
pauses at least as long as it has worked, and never rewrites more objects or bytes per second than the limits below.
Objects that fail are tried again, with longer and longer pauses; other objects and other definitions are migrated meanwhile.

The migration is finished (`Ledger.finish`) only when every object was seen in the storage version at a time when no server could
write other versions any more (`Ledger.begin`). What is recorded then depends on the mode, see `stored_versions.py`.
Source: k8s.io/kubernetes pkg/controller/storageversionmigrator, v1.36.3, for what it is compatible with; the rest is our own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from aggserver.apiextensions.definitions import Definitions
from aggserver.meta.backoff import Backoff
from aggserver.meta.errors import StatusError
from aggserver.registry.migration import Rewriter
from aggserver.registry.storage_version import SpecState, Superseded
from aggserver.storage.interface import KeyValue, Storage, StorageError

__all__ = ["Ledger", "Limits", "Migration", "Migrator", "Observe"]

log = logging.getLogger("aggserver.migration")

# Seconds between a change of the storage version and the migration: as long as kube-apiserver gives servers to see a new
# definition. Meanwhile other servers see the change, and most requests that began before it end; the others get a 503.
GRACE_SECONDS = 5.0
RETRY = Backoff(initial=1.0, longest=300.0)
# Seconds between two lines of the log, and between two writes of the condition.
_LOG_SECONDS, _REPORT_SECONDS = 10.0, 30.0
# The objects that are converted together, in one call of a webhook, and their bytes.
_BATCH, _BATCH_BYTES = 50, 1024 * 1024
# Objects in the first page, the most in a page, and the bytes that a page should have.
_FIRST_PAGE, _LARGEST_PAGE, _PAGE_BYTES = 10, 500, 4 * 1024 * 1024
# Failed objects that are remembered, and tried again by key. If more failed, all objects are read again.
_REMEMBERED = 1000
# Seconds that a server waits when another one rewrites the same objects, so that not every object is converted twice.
_OVERTAKEN_SECONDS = 10.0
_NAMED = 5  # failed objects that a message names
_SHOWN = 200  # characters of a reason, which may quote parts of the object
_AT_ONCE = 8  # calls of the storage, or of converters, at once


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits per second, for all definitions together. read_bytes: of all objects, also those that are not rewritten."""

    objects: float = 500.0
    written_bytes: float = 8.0 * 1024 * 1024
    read_bytes: float = 64.0 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Migration:
    """A migration to do. version: to store objects in. leaving: other versions they may be stored in; empty if not known.

    identity: of the definition's state in which `version` is the storage version.
    """

    name: str
    version: str
    leaving: tuple[str, ...]
    identity: SpecState


class Ledger(Protocol):
    """Records the state of migrations. All methods raise Superseded if the definition has changed, and StorageError."""

    async def begin(self, migration: Migration) -> bool:
        """Called before the first object is read. Returns whether there is anything to do."""

    async def report(self, migration: Migration, message: str, *, failing: bool) -> None:
        """Report the progress of the migration. failing: whether some objects could not be rewritten."""

    async def finish(self, migration: Migration) -> None:
        """Called when all objects are stored in the storage version."""


# (group, storage version, resource, objects rewritten since the last call, objects not read yet, objects that failed)
Observe = Callable[[str, str, str, int, int, int], None]


@dataclass(slots=True)
class _Progress:
    """The state of one migration. found: whether any object had to be rewritten.

    remaining: about how many objects this round has not read yet. failures: of this round. failed: key -> reason, for the
    first _REMEMBERED of them.
    """

    started: float
    pauses: Iterator[float]
    found: bool = False
    remaining: int = 0
    rewritten: int = 0
    failures: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    logged: float = 0.0
    reported: float = 0.0

    def named(self) -> str:
        shown = [f"{_short(key)}: {why[:_SHOWN]}" for key, why in list(self.failed.items())[:_NAMED]]
        more = self.failures - len(shown)
        return "; ".join(shown) + (f"; and {more} more" if more > 0 else "")


class Migrator:
    """Migrates definitions. clock: monotonic, in seconds. wait: seconds before each migration. limits: None for no pauses."""

    def __init__(
        self,
        definitions: Definitions,
        storage: Storage,
        ledger: Ledger,
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        observe: Observe | None = None,
        wait: float = GRACE_SECONDS,
        limits: Limits | None = Limits(),
    ) -> None:
        self._definitions = definitions
        self._storage = storage
        self._ledger = ledger
        self._clock = clock
        self._sleep = sleep
        self._observe = observe
        self._wait = wait
        self._limits = limits
        self._free_at = 0.0  # when the limits allow the next object
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._wanted: dict[str, Migration] = {}
        self._changed = asyncio.Event()

    def want(self, migration: Migration) -> None:
        """Migrate a definition; wanting the same again changes nothing."""
        if self._wanted.get(migration.name) != migration:
            self._wanted[migration.name] = migration
            self._changed.set()

    def forget(self, name: str) -> None:
        if self._wanted.pop(name, None) is not None:
            self._changed.set()

    async def run(self) -> None:
        """Migrate what is wanted, until cancelled."""
        running: dict[str, tuple[Migration, asyncio.Task[None]]] = {}
        try:
            while True:
                self._changed.clear()
                for name, (migration, task) in list(running.items()):
                    if self._wanted.get(name) != migration:
                        task.cancel()
                        del running[name]
                for name, migration in self._wanted.items():
                    if name not in running:
                        running[name] = migration, asyncio.create_task(self._until_done(migration))
                await self._changed.wait()
        finally:
            for _, task in running.values():
                task.cancel()
            await asyncio.gather(*(task for _, task in running.values()), return_exceptions=True)

    async def _until_done(self, migration: Migration) -> None:
        await self._try(migration)
        # Also if it was superseded: `want` is called again for a later state of the definition, or when it is served.
        if self._wanted.get(migration.name) == migration:
            self.forget(migration.name)

    async def _try(self, migration: Migration) -> None:
        for pause in RETRY.pauses():
            try:
                await self._sleep(self._wait)
                await self.migrate(migration)
            except Superseded as error:
                log.info("%s: the migration is given up: %s", migration.name, error)
                return
            except (StatusError, StorageError) as error:
                if isinstance(error, StatusError) and error.code == 404:
                    return  # the definition is gone
                log.warning("%s: the migration failed, trying again in %g s: %s", migration.name, pause, error)
                await self._sleep(pause)
            except Exception:
                # Retried too, since an error in this server must not leave the condition True for ever.
                log.exception("%s: the migration failed, trying again in %g s", migration.name, pause)
                await self._sleep(pause)
            else:
                return

    async def migrate(self, migration: Migration, *, retry: bool = True) -> str:
        """Rewrite all objects. Returns ''; with `retry` False also which objects failed, and why.

        Raises Superseded, StatusError and StorageError.
        """
        if not await self._ledger.begin(migration):
            return ""
        progress = _Progress(self._clock(), RETRY.pauses(), logged=self._clock(), reported=self._clock())
        keys: list[str] | None = None
        while True:
            await self._round(migration, progress, keys, retry=retry)
            if not progress.failures:
                break
            if not retry:
                return progress.named()
            await self._pause_after_failure(migration, progress)
            # In another order than before: a webhook that fails for many objects at once may then convert the later ones.
            failed = list(progress.failed)
            turn = min(_BATCH, len(failed) // 2)
            keys = failed[turn:] + failed[:turn] if progress.failures <= len(failed) else None
        await self._ledger.finish(migration)
        if progress.rewritten or migration.leaving:
            text = "%s: all objects are stored as %s, %d rewritten in %.1f s"
            log.info(text, migration.name, migration.version, progress.rewritten, self._clock() - progress.started)
        return ""

    async def _round(self, migration: Migration, progress: _Progress, keys: list[str] | None, *, retry: bool) -> None:
        """Go through the objects once: all of them, or those with these keys."""
        progress.failures = 0
        progress.failed = {}
        if keys is not None:
            for first in range(0, len(keys), _BATCH):
                part = keys[first : first + _BATCH]
                progress.remaining = len(keys) - first - len(part)
                await self._step(
                    migration, progress, [item for key in part if (item := await self._storage.get(key))], retry=retry
                )
            return
        start, limit, more = "", _FIRST_PAGE, True
        prefix = self._rewriter(migration).prefix
        while more:
            async with self._slots:
                page = await self._storage.list(prefix, start=start, limit=limit)
            progress.remaining, more = page.remaining, page.more
            if not page.items:
                break
            size = sum(len(item.value) for item in page.items)
            start = page.items[-1].key + "\0"
            limit = max(1, min(_LARGEST_PAGE, _PAGE_BYTES * len(page.items) // max(size, 1)))
            await self._step(migration, progress, page.items, retry=retry)
            if more and self._limits is not None:
                await self._sleep(size / self._limits.read_bytes)

    def _rewriter(self, migration: Migration) -> Rewriter:
        resource = self._definitions.get(migration.name)
        if resource is None or resource.definition.storage_version.name != migration.version:
            raise Superseded(migration.name, migration.version)
        return resource.rewriter()

    async def _step(self, migration: Migration, progress: _Progress, items: Sequence[KeyValue], *, retry: bool) -> None:
        rewriter = self._rewriter(migration)
        old = [item for item in items if not rewriter.is_current(item)]
        if old and not progress.found:
            progress.found = True
            log.info("%s: rewriting stored objects as %s", migration.name, migration.version)
        left = len(old)
        for batch in _batches(old):
            began = self._clock()
            async with self._slots:
                result = await rewriter.rewrite(batch)
            left -= len(batch)
            progress.rewritten += result.done - result.overtaken
            progress.failures += len(result.failed)
            for key, why in result.failed.items():
                if len(progress.failed) < _REMEMBERED:
                    progress.failed[key] = why
            self._observe_progress(migration, progress, result.done - result.overtaken)
            if result.done:
                progress.pauses = RETRY.pauses()
            if 2 * result.overtaken > len(batch):
                await self._sleep(_OVERTAKEN_SECONDS)
            if result.failed and not result.done and retry and left + progress.remaining:
                # If a whole batch failed, the converter is most likely down.
                await self._pause_after_failure(migration, progress)
            await self._make_way(result.done, sum(len(item.value) for item in batch), self._clock() - began)
            await self._report(migration, progress)
        self._observe_progress(migration, progress, 0)

    async def _make_way(self, objects: int, size: int, took: float) -> None:
        if self._limits is None:
            return
        now = self._clock()
        begin = max(now, self._free_at)
        self._free_at = begin + max(objects / self._limits.objects, size / self._limits.written_bytes)
        await self._sleep(max(self._free_at - now, took))

    async def _pause_after_failure(self, migration: Migration, progress: _Progress) -> None:
        pause = next(progress.pauses)
        named = progress.named()
        count = "1 object" if progress.failures == 1 else f"{progress.failures} objects"
        log.warning(
            "%s: can't rewrite %s as %s, trying again in %g s: %s", migration.name, count, migration.version, pause, named
        )
        await self._ledger.report(migration, f"{count} can't be rewritten yet: {named}", failing=True)
        progress.reported = self._clock()
        await self._sleep(pause)

    async def _report(self, migration: Migration, progress: _Progress) -> None:
        """Log and report the progress, if the last report is long enough ago."""
        now = self._clock()
        if now - progress.logged >= _LOG_SECONDS:
            progress.logged = now
            log.info(
                "%s: migrating to %s, %d objects rewritten, about %d to look at",
                migration.name,
                migration.version,
                progress.rewritten,
                progress.remaining,
            )
        if now - progress.reported >= _REPORT_SECONDS and not progress.failures:
            progress.reported = now
            text = f"{progress.rewritten} objects are rewritten, about {progress.remaining} are to be looked at"
            await self._ledger.report(migration, text, failing=False)

    def _observe_progress(self, migration: Migration, progress: _Progress, done: int) -> None:
        if self._observe is not None:
            resource, _, group = migration.name.partition(".")
            self._observe(group, migration.version, resource, done, progress.remaining, progress.failures)


def _batches(items: Sequence[KeyValue]) -> Iterator[list[KeyValue]]:
    batch: list[KeyValue] = []
    size = 0
    for item in items:
        if batch and (len(batch) == _BATCH or size + len(item.value) > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += len(item.value)
    if batch:
        yield batch


def _short(key: str) -> str:
    """`namespace/name` of a key, or the name of a cluster-scoped object."""
    return key.split("/", 3)[-1]
