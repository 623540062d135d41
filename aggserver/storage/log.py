"""The parts that the backends in this process share: the compare-and-swap rule, and delivery to subscriptions.

`plan` decides whether a write is allowed. `Publisher` delivers committed events to subscriptions. Neither stores values.
Source: `interface.py`; etcd's txn(compare mod_revision) and watch, as k8s.io/apiserver pkg/storage/etcd3 uses
them.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from aggserver.storage.interface import (
    Event,
    FutureRevision,
    NotFound,
    Precondition,
    PreconditionFailed,
    Sink,
    StorageError,
    Unavailable,
)
from aggserver.storage.keys import ancestors

__all__ = ["CATCH_UP", "Head", "PendingWrite", "Publisher", "Stale", "plan"]

CATCH_UP = 1000  # past events read at once for a new subscription: a few MB, so that it never holds all history

logger = logging.getLogger(__name__)

# Storage.history: (prefix, after, upto, limit) -> events, each with the state it replaced.
History = Callable[[str, int, int, int], Awaitable[Sequence[Event]]]


class Head(NamedTuple):
    """The newest write of a key that exists."""

    revision: int
    create_revision: int


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """A write request: `value` None deletes; `expected` is the key's required revision, 0 to create it."""

    key: str
    value: bytes | None
    expected: int
    guard: Precondition | None = None


class Stale(Exception):
    """The key is not at the expected revision but at `head`. The backend, which has its value, raises KeyExists or Conflict."""

    def __init__(self, head: Head) -> None:
        super().__init__()
        self.head = head


def plan(write: PendingWrite, head: Head | None, revision: int, guarding: Head | None = None) -> Event:
    """The event of `write` at `revision`, for a key whose newest write is `head` (None: the key does not exist).

    guarding: the head of the guard's key. Raises PreconditionFailed, NotFound or Stale.
    """
    if write.guard is not None and write.guard.revision != (0 if guarding is None else guarding.revision):
        raise PreconditionFailed(write.guard.key)
    if head is None:
        if write.expected:
            raise NotFound(write.key)
        return Event(revision, write.key, write.value, revision, None)
    if head.revision != write.expected:
        raise Stale(head)
    return Event(revision, write.key, write.value, head.create_revision, None)


class Publisher:
    """Subscriptions by prefix, and the revision up to which events were delivered. On the event loop's thread only.

    Subscriptions are found by the prefixes of a key, so a write costs nothing for subscriptions with other prefixes.
    """

    def __init__(self, revision: int) -> None:
        self.revision = revision
        self._by_prefix: dict[str, list[_Subscription]] = {}
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    def publish(self, events: Sequence[Event], revision: int) -> None:
        """Deliver committed events, in order, and advance to `revision`.

        A subscription without events in the batch gets the new revision only when it asks for progress. After a jump it is
        delivered to all: otherwise they would report revisions that are older than those their clients have seen elsewhere.
        """
        jumped = revision - self.revision > len(events)
        self.revision = revision
        found: dict[str, list[_Subscription]] = {}
        batches: dict[_Subscription, list[Event]] = {}
        for event in events:
            folder = event.key[: event.key.rindex("/") + 1]
            subscriptions = found.get(folder)
            if subscriptions is None:
                subscriptions = found[folder] = self._covering(folder)
            for subscription in subscriptions:
                batches.setdefault(subscription, []).append(event)
        for subscription, batch in batches.items():
            subscription.deliver(batch, revision)
        if jumped:
            for subscription in [each for group in self._by_prefix.values() for each in group if each not in batches]:
                subscription.deliver((), revision)
        while self._waiting and self._waiting[0][0] <= revision:
            future = heapq.heappop(self._waiting)[2]
            if not future.done():
                future.set_result(None)

    def _covering(self, folder: str) -> list[_Subscription]:
        return [subscription for prefix in ancestors(folder) for subscription in self._by_prefix.get(prefix, ())]

    async def reached(self, revision: int) -> None:
        """Wait until all events up to the committed `revision` were delivered."""
        if revision > self.revision:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiting, (revision, id(future), future))
            await future

    async def subscribe(self, prefix: str, after: int, sink: Sink, history: History) -> _Subscription:
        """`Storage.watch`: deliver past events from `history`, then published ones, each exactly once."""
        now = self.revision
        if after > now:
            raise FutureRevision(after, now)
        subscription = _Subscription(self, prefix, sink, held=after < now)
        self._by_prefix.setdefault(prefix, []).append(subscription)
        try:
            while after < now:
                events = await history(prefix, after, now, CATCH_UP)
                after = events[-1].revision if len(events) == CATCH_UP else now
                subscription.catch_up(events, after)
        except BaseException:
            subscription.close()
            raise
        subscription.release()
        return subscription

    def forget(self, subscription: _Subscription) -> None:
        """Remove a subscription, if it is still there."""
        remaining = [other for other in self._by_prefix.get(subscription.prefix, ()) if other is not subscription]
        if remaining:
            self._by_prefix[subscription.prefix] = remaining
        else:
            self._by_prefix.pop(subscription.prefix, None)


class _Subscription:
    """One sink. While `held`, published events are queued, because past ones are still being delivered."""

    __slots__ = ("_held", "_open", "_publisher", "_sink", "prefix")

    def __init__(self, publisher: Publisher, prefix: str, sink: Sink, *, held: bool) -> None:
        self.prefix = prefix
        self._publisher = publisher
        self._sink = sink
        self._held: deque[tuple[Sequence[Event], int]] | None = deque() if held else None
        self._open = True

    def deliver(self, events: Sequence[Event], revision: int) -> None:
        if self._held is None:
            self.catch_up(events, revision)
        else:
            self._held.append((events, revision))

    def catch_up(self, events: Sequence[Event], revision: int) -> None:
        """Deliver events without queueing. A sink that raises loses its subscription, so that other sinks are not affected."""
        if not self._open:
            return
        try:
            self._sink.events(events, revision)
        except StorageError as error:  # the sink's error already says what has failed
            self.close()
            self._sink.lost(error)
        except Exception:
            logger.exception("a subscription to %s failed on an event and is ended", self.prefix)
            self.close()
            self._sink.lost(Unavailable(f"the subscription to {self.prefix} failed on an event"))

    def release(self) -> None:
        held, self._held = self._held, None
        for events, revision in held or ():
            self.catch_up(events, revision)

    def progress(self) -> None:
        self.deliver((), self._publisher.revision)

    def close(self) -> None:
        self._open = False
        self._publisher.forget(self)
