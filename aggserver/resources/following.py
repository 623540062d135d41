"""Following: keeps a mirror as its source is, by polls or by a feed.

A source that fails keeps its last state: clients are warned for some time, and then get 503. No object is ever reported as
deleted because its source could not be asked, or because one of its rows can't be read. Failures are retried, each time after a
longer pause. Two calls of `list` never overlap, also if the first one hangs in a thread.

What is kept beside the source (`sidecar.py`) is known before the source is read, and removed when an object is gone. For that the
source of a resource without a mirror is read now and then, too (`Sweeping`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from aggserver.informers.informer import CONTROLLER
from aggserver.meta import errors
from aggserver.meta.backoff import Backoff
from aggserver.meta.warnings import Warnings
from aggserver.registry.stored import StoredObject
from aggserver.resources.calls import Calls, name_of
from aggserver.resources.errors import AnswerError
from aggserver.resources.events import Changed, Gone, Relist
from aggserver.resources.mirror import Mirror
from aggserver.resources.requests import Request
from aggserver.resources.sidecar import Sidecar
from aggserver.resources.source import ObjectSource
from aggserver.storage import keys
from aggserver.storage.cacher import Cacher

__all__ = ["Following", "Sleep", "Sweeping"]

log = logging.getLogger("aggserver.resources")

# Seconds that a request waits for the first state of a source.
_FIRST_SECONDS = 5.0
# Seconds after which a source that fails is not served from its last state any more; at least three polls.
_STALE_SECONDS = 60.0
# Seconds for which changes of a feed are taken in one go before other requests run, and the number of changes.
_BATCH_SECONDS = 0.001
_BATCH_CHANGES = 200
# Seconds that a feed may take to its first change before everything is read without it.
_FIRST_CHANGE_SECONDS = 1.0
# Objects of a first state after which the cache forgets that they are new: nobody has a revision to resume from.
_FORGET = 1000
# Seconds between two readings of a source that is read for nothing but to find what is gone.
_SWEEP_SECONDS = 3600.0

Sleep = Callable[[float], Awaitable[None]]


class Following:
    """poll: seconds between two calls of `list`; None for a resource with a feed. `run` is its task.

    cache: the watch cache over the mirror. It is begun before the source is read for the first time, and gets one object after
    the other, so that none is in memory twice. sidecar: what is kept beside the source. clock: monotonic seconds.
    """

    def __init__(
        self,
        source: ObjectSource,
        mirror: Mirror,
        calls: Calls,
        state: Callable[[], Any],
        poll: float | None,
        *,
        cache: Callable[[], Cacher[StoredObject]],
        sidecar: Sidecar | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._source = source
        self._mirror = mirror
        self._calls = calls
        self._state = state
        self._poll = poll
        self._cache = cache
        self._sidecar = sidecar
        self._clock = clock
        self._sleep = sleep
        self._loaded = asyncio.Event()
        self._failing_since: float | None = None
        self._stale_seconds = max(_STALE_SECONDS, 3 * (poll or 0))
        self._backoff = Backoff(initial=1.0, longest=min(30.0, max(1.0, poll or 30.0)))
        self._lock = asyncio.Lock()
        self._refreshing: asyncio.Task[None] | None = None
        # Readings after which something may have to be removed from the sidecar; and the task that does it.
        self._to_sweep: deque[tuple[int, Callable[[str], bool]]] = deque()
        self._sweeping: asyncio.Task[None] | None = None
        mirror.wanted = self.refresh_soon

    def trouble(self) -> str | None:
        """For readiness: why the state is not a current one."""
        resource = errors.qualified(self._source.info.resource, self._source.info.group)
        if self._failing_since is not None:
            return f"the source of {resource} has failed for {self._clock() - self._failing_since:.0f} s"
        return None if self._loaded.is_set() else f"the source of {resource} has not been read yet"

    async def current(self) -> None:
        """Return if there is a state that may be shown, perhaps after some seconds. Raises 503."""
        if not self._loaded.is_set() and self._failing_since is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FIRST_SECONDS):
                    await self._loaded.wait()
        if not self._loaded.is_set() or self.is_stale:
            raise errors.service_unavailable(self.trouble() or "", retry_after=1)

    def warn(self, warnings: Warnings) -> None:
        """Tell a client that it gets an old state."""
        if self._failing_since is not None:
            warnings.append(f"{self.trouble()}; this is the state from before that")

    @property
    def is_stale(self) -> bool:
        """Whether there is a state that is too old to be shown."""
        since = self._failing_since
        return self._loaded.is_set() and since is not None and self._clock() - since > self._stale_seconds

    def failed(self) -> None:
        """The App could not be started, so that the source can't be asked."""
        if self._failing_since is None:
            self._failing_since = self._clock()

    def refresh_soon(self) -> None:
        """Read everything once more, beside the polls or the feed."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._refresh())

    async def _refresh(self) -> None:
        try:
            await self._relist()
        except Exception as error:
            self._failed(error)

    async def run(self) -> None:
        """For ever."""
        pauses = self._backoff.pauses()
        try:
            while True:
                began = self._clock()
                try:
                    if self._source.feed is None:
                        await self._relist()
                    else:
                        await self._feed(self._source.feed)
                        raise EOFError("it has ended")
                except Exception as error:
                    if self._clock() - began > self._backoff.longest:  # a feed that was well for some time
                        pauses = self._backoff.pauses()
                    self._failed(error)
                    await self._sleep(next(pauses))
                else:
                    pauses = self._backoff.pauses()
                    assert self._poll is not None
                    await self._sleep(self._poll)
        finally:
            for task in (self._refreshing, self._sweeping):
                if task is not None:
                    task.cancel()

    async def _relist(self) -> None:
        function = self._source.lists
        assert function is not None
        async with self._lock:
            if self._calls.is_running(function):
                raise errors.timeout("the call before has not returned yet", retry_after=1)
            since = 0
            if self._sidecar is not None:
                await self._sidecar.ready()
                since = self._sidecar.revision
            if not self._loaded.is_set():
                await self._cache().ready()
            with self._mirror.reading() as reading:
                present: set[str] = set()
                async with contextlib.aclosing(self._source.everything(present)) as objects:
                    async for key, encoded in objects:
                        present.add(self._mirror.found(reading, key, encoded))
                        if not self._loaded.is_set() and not len(present) % _FORGET:
                            # All are new. As many changes as objects would leave gaps between the objects.
                            self._cache().forget_changes()
                await self._mirror.replace(reading, present)
            if not self._loaded.is_set():
                self._cache().forget_changes()
        self._succeeded()
        if not self._to_sweep:  # else the source is slow to tell, and the next reading does it
            self._sweep_soon(since, lambda key: key not in present)

    def _sweep_soon(self, since: int, is_absent: Callable[[str], bool]) -> None:
        """Remove what is kept of objects that are gone, beside the polls or the feed: the source is asked for each of them."""
        if self._sidecar is not None:
            self._to_sweep.append((since, is_absent))
            if self._sweeping is None or self._sweeping.done():
                self._sweeping = asyncio.create_task(self._sweep(self._sidecar))

    async def _sweep(self, sidecar: Sidecar) -> None:
        while self._to_sweep:
            await _sweep(self._source, sidecar, *self._to_sweep.popleft())

    async def _feed(self, feed: Callable[..., Any]) -> None:
        began = self._clock()
        taken = 0
        if self._calls.is_running(feed):
            raise errors.timeout("the call before has not returned yet", retry_after=1)
        async with contextlib.aclosing(self._calls.stream(feed, self._state())) as changes:
            change = await self._first(changes)
            if not isinstance(change, Relist):
                await self._relist()  # what was there before the feed began
            while True:
                await self._take(change)
                taken += 1
                if taken >= _BATCH_CHANGES or self._clock() - began > _BATCH_SECONDS:
                    await asyncio.sleep(0)
                    began, taken = self._clock(), 0
                try:
                    change = await anext(changes)
                except StopAsyncIteration:
                    return

    async def _first(self, changes: AsyncIterator[Any]) -> Any:
        """The first change of a feed. One that has nothing to tell for some time does not keep what is there from being shown."""
        first = asyncio.ensure_future(_next(changes))
        pause = asyncio.ensure_future(self._sleep(_FIRST_CHANGE_SECONDS))
        try:
            await asyncio.wait((first, pause), return_when=asyncio.FIRST_COMPLETED)
            if not first.done():
                await self._relist()
            return await first
        finally:
            for task in (first, pause):
                task.cancel()
            await asyncio.gather(first, pause, return_exceptions=True)

    async def _take(self, change: Changed[Any] | Gone | Relist) -> None:
        if isinstance(change, Relist):
            await self._relist()
        elif isinstance(change, Gone):
            if (key := self._source.gone(change.namespace, change.name)) is not None:
                self._mirror.remove(key)
                if self._sidecar is not None and self._sidecar.record(key) is not None and self._source.functions.get is not None:
                    # What the feed tells may be old, and the object made anew: `get` knows.
                    self._sweep_soon(self._sidecar.revision, lambda each: each == key)
        elif isinstance(change, Changed):
            made = self._source.changed(change.object)
            if made is not None:
                self._mirror.put(*made)
        else:
            raise AnswerError(f"a feed yields Changed, Gone or Relist, not {type(change).__name__}")

    def _succeeded(self) -> None:
        if self._failing_since is not None:
            log.info("the source of %s answers again", self._source.info.resource)
        self._failing_since = None
        self._loaded.set()

    def _failed(self, error: Exception) -> None:
        function = self._source.functions.feed or self._source.functions.list
        assert function is not None
        if isinstance(error, errors.StatusError) and error.__cause__ is not None:
            error = error.__cause__  # type: ignore[assignment]  # of what functions raise, the text is for the log alone
        if self._failing_since is None:
            self._failing_since = self._clock()
            log.warning(
                "%s failed; %s keep their last state: %s", name_of(function), self._source.info.resource, error, exc_info=error
            )
        else:
            log.warning("%s failed again: %s", name_of(function), error)


class Sweeping:
    """Removes what is kept of objects that are gone, of a resource without a mirror. `run` is its task."""

    def __init__(self, source: ObjectSource, sidecar: Sidecar, *, sleep: Sleep = asyncio.sleep) -> None:
        self._source = source
        self._sidecar = sidecar
        self._sleep = sleep

    async def run(self) -> None:
        """For ever."""
        while True:
            await self._sleep(_SWEEP_SECONDS)
            if len(self._sidecar):
                await self._sweep()

    async def _sweep(self) -> None:
        since = self._sidecar.revision
        present: set[str] = set()
        if self._source.lists is not None:
            try:
                async with contextlib.aclosing(self._source.everything(present)) as objects:
                    async for key, encoded in objects:
                        present.add(key)
                        self._sidecar.shown(key, encoded)  # which finds objects of the same name that are others
            except Exception as error:
                log.warning("%s failed: what is kept of objects that are gone stays: %s", name_of(self._source.lists), error)
                return
        await _sweep(self._source, self._sidecar, since, lambda key: key not in present)


async def _sweep(source: ObjectSource, sidecar: Sidecar, since: int, is_absent: Callable[[str], bool]) -> None:
    """As `Sidecar.sweep`, with the server's own rights. A source that fails is not in the way: the next reading does the rest."""

    async def is_gone(key: str) -> bool:
        at = keys.split(key)
        return source.functions.get is None or await source.one(Request(CONTROLLER, None, at.namespace), at.name) is None

    try:
        await sidecar.sweep(since, is_absent, is_gone)
    except Exception as error:
        log.warning("what is kept of %s that are gone stays for now: %s", source.info.resource, error)


async def _next(changes: AsyncIterator[Any]) -> Any:
    try:
        return await anext(changes)
    except StopAsyncIteration:
        raise EOFError("it has ended without a change") from None
