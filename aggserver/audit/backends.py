"""Backends: where events go, and what happens while they can't.

A sink takes one event and tells whether it has taken it: at once, or later where it has to wait. `blocking` sinks write before
they answer. A `Buffer` answers at once, and hands events on in batches; it holds so many events and bytes, and drops those that
come while it is full, so that a backend that hangs costs neither requests nor memory. Every event that is lost is counted.
Source: k8s.io/apiserver plugin/pkg/audit/{buffered,truncate}, pkg/audit/{union,metrics}.go, pkg/server/options/audit.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from aggserver.audit.events import Event, truncated
from aggserver.cluster.pacing import TokenBucket

__all__ = [
    "MAX_PENDING_BYTES",
    "AuditObserver",
    "Batching",
    "Buffer",
    "Deliver",
    "LostEvents",
    "Sink",
    "all_of",
    "blocking",
    "truncating",
]

log = logging.getLogger("aggserver.audit")

# Bytes of the events that wait for one backend, together with those that are on their way to it. Upstream has no such limit, and
# ten thousand events may have gigabytes of bodies.
MAX_PENDING_BYTES = 64 * 2**20
# Batches on their way at the same time. Upstream starts as many as its rate allows, for minutes if a webhook hangs.
MAX_SENDING = 10
# Seconds for which the end of a server waits until the events that it holds are delivered.
END_SECONDS = 10.0
# Seconds between two lines of the log about the same backend.
_QUIET_SECONDS = 10.0

# Whether the event was taken. A sink that never waits returns no awaitable.
Sink = Callable[[Event], "bool | Awaitable[bool]"]
# Writes or sends events. Raises an exception if none or not all of them have arrived.
Deliver = Callable[[Sequence[Event]], Awaitable[None]]


class AuditObserver(Protocol):
    """Counts, for metrics; implemented in `monitoring/audit.py`."""

    def level(self, level: str) -> None:
        """A request, by the level that the policy has for it."""

    def event(self) -> None: ...

    def lost(self, plugin: str, count: int) -> None: ...

    def rejected(self) -> None:
        """A request that was refused since its event could not be stored."""


class LostEvents:
    """Counts and logs the events that a backend has lost. The log has no event, whose parts only the policy's readers may see."""

    def __init__(self, observer: AuditObserver, clock: Callable[[], float]) -> None:
        self._observer = observer
        self._clock = clock
        # By plugin: when the log told of it, and how many events it has lost since.
        self._told: dict[str, tuple[float, int]] = {}

    def lost(self, plugin: str, why: str, count: int = 1) -> None:
        self._observer.lost(plugin, count)
        now = self._clock()
        before, quiet = self._told.get(plugin, (-_QUIET_SECONDS, 0))
        if now - before < _QUIET_SECONDS:
            self._told[plugin] = (before, quiet + count)
            return
        self._told[plugin] = (now, 0)
        log.error("error in audit plugin '%s' affecting %d audit events: %s", plugin, quiet + count, why)


def all_of(sinks: Sequence[Sink]) -> Sink:
    """Every sink gets each event, whatever the others have done with it."""
    if len(sinks) == 1:
        return sinks[0]

    def sink(event: Event) -> bool | Awaitable[bool]:
        results = [each(event) for each in sinks]
        waiting = [result for result in results if not isinstance(result, bool)]
        done = all(result for result in results if isinstance(result, bool))
        return _all_done(waiting, done=done) if waiting else done

    return sink


async def _all_done(waiting: Sequence[Awaitable[bool]], *, done: bool) -> bool:
    return all(await asyncio.gather(*waiting)) and done


def truncating(sink: Sink, max_event_bytes: int, losses: LostEvents) -> Sink:
    """Long events lose the objects of request and response; those that are too long even so are lost."""

    def cut(event: Event) -> bool | Awaitable[bool]:
        short = truncated(event, max_event_bytes)
        if short is None:
            losses.lost("truncate", "event is too large even after truncating")
            return True
        return sink(short)

    return cut


def blocking(write: Callable[[Event], None], plugin: str, losses: LostEvents, *, strict: bool) -> Sink:
    """write: raises OSError. strict: tell that an event was lost, so that the request is refused."""

    def sink(event: Event) -> bool:
        try:
            write(event)
        except OSError as error:
            losses.lost(plugin, str(error))
            return not strict
        return True

    return sink


@dataclass(frozen=True, slots=True)
class Batching:
    """buffer_size: events that may wait. max_events, max_bytes: of one batch; 0 bytes is no limit. max_wait_seconds: how long a
    batch that is not full is held back. rate, burst: of batches per second; a rate of 0 is no limit.
    """

    buffer_size: int
    max_events: int
    max_wait_seconds: float
    rate: float = 0.0
    burst: int = 0
    max_bytes: int = 0


class Buffer:
    """A queue before a backend that takes its time. Calling it is its sink. `run` delivers, until it is cancelled.

    plugin: the backend's name. sending: batches that may be on their way at the same time; 1 keeps the order of events.
    """

    def __init__(
        self,
        deliver: Deliver,
        plugin: str,
        batching: Batching,
        losses: LostEvents,
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        sending: int = MAX_SENDING,
    ) -> None:
        self._deliver = deliver
        self._plugin = plugin
        self._batching = batching
        self._losses = losses
        self._clock = clock
        self._sleep = sleep
        self._bucket = TokenBucket(batching.rate, batching.burst, clock=clock, sleep=sleep) if batching.rate else None
        self._waiting: deque[Event] = deque()
        self._bytes = 0
        self._some, self._enough = asyncio.Event(), asyncio.Event()
        self._places = asyncio.Semaphore(sending)
        self._sending: set[asyncio.Task[None]] = set()
        self._is_open = True

    def __call__(self, event: Event) -> bool:
        size = len(event.members)
        if not self._is_open:
            self._losses.lost("buffered", "audit backend shut down")
        elif len(self._waiting) >= self._batching.buffer_size or self._bytes + size > MAX_PENDING_BYTES:
            self._losses.lost("buffered", "audit buffer queue blocked")
        else:
            self._waiting.append(event)
            self._bytes += size
            self._some.set()
            if len(self._waiting) >= self._batching.max_events:
                self._enough.set()
        return True

    async def run(self) -> None:
        while True:
            await self._some.wait()
            if len(self._waiting) < self._batching.max_events and self._batching.max_wait_seconds > 0:
                await self._wait_for_more()
            await self._send_one()

    async def close(self) -> None:
        """Deliver what is held, for a while. What is left then is lost. After `run` was cancelled."""
        self._is_open = False
        try:
            async with asyncio.timeout(END_SECONDS):
                while self._waiting:
                    await self._send_one()
                while self._sending:
                    await asyncio.wait(self._sending)
        except TimeoutError:
            for task in self._sending:
                task.cancel()
            await asyncio.gather(*self._sending, return_exceptions=True)
        if self._waiting:
            self._losses.lost("buffered", "the server ended before they were delivered", len(self._waiting))

    async def _wait_for_more(self) -> None:
        """Until a batch is full, or its first event has waited for long enough."""
        self._enough.clear()
        full = asyncio.ensure_future(self._enough.wait())
        late = asyncio.ensure_future(self._sleep(self._batching.max_wait_seconds))
        try:
            await asyncio.wait((full, late), return_when=asyncio.FIRST_COMPLETED)
        finally:
            full.cancel()
            late.cancel()

    async def _send_one(self) -> None:
        await self._places.acquire()
        try:
            if self._bucket is not None:
                await self._bucket.take()
        except BaseException:
            self._places.release()
            raise
        task = asyncio.create_task(self._send(self._taken()))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    def _taken(self) -> Sequence[Event]:
        """The next batch: at least one event."""
        batch: list[Event] = []
        size = 0
        limit = self._batching.max_bytes
        while self._waiting and len(batch) < self._batching.max_events:
            size += len(self._waiting[0].members)
            if batch and limit and size > limit:
                break
            batch.append(self._waiting.popleft())
        if not self._waiting:
            self._some.clear()
        return batch

    async def _send(self, batch: Sequence[Event]) -> None:
        try:
            await self._deliver(batch)
        except asyncio.CancelledError:
            self._losses.lost(self._plugin, "the server ended before they were delivered", len(batch))
            raise
        except Exception as error:
            self._losses.lost(self._plugin, str(error) or type(error).__name__, len(batch))
        finally:
            self._bytes -= sum(len(event.members) for event in batch)
            self._places.release()
