"""Watches on etcd: complete revisions from a stream of responses, and progress requests.

Each watch has a gRPC stream of its own, because etcd answers a progress request for all watches of a stream together, and only
when all of them have got all events. While a watch is behind, etcd does not answer at all, so the request is repeated. An
`EtcdWatch` is read either by an `EtcdSubscription`, which feeds a sink, or by `EtcdStorage` until a part of history is complete.
Source: go.etcd.io/etcd/server/v3 etcdserver/api/v3rpc/watch.go, v3.6.8; k8s.io/apiserver pkg/storage/etcd3/watcher.go,
pkg/storage/cacher/progress/watch_progress.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from aggserver.storage.etcd_client import GRPCStream
from aggserver.storage.etcd_wire import PROGRESS, watch_answer, watch_request
from aggserver.storage.interface import Compacted, Event, Sink, StorageError, Unavailable
from aggserver.storage.losses import as_lost, is_own

__all__ = ["EtcdSubscription", "EtcdWatch"]

ASK_AGAIN = 0.1  # seconds until an unanswered progress request is repeated, as upstream

logger = logging.getLogger(__name__)


class EtcdWatch:
    """The writes to a range of keys after the revision `after`.

    skip: length in bytes of the prefix of all keys. present: returns the newest revision known in this process.
    """

    def __init__(self, stream: GRPCStream, after: int, skip: int, present: Callable[[], int]) -> None:
        self.revision = after
        self._after = after
        self._stream = stream
        self._skip = skip
        self._present = present
        self._target = 0
        self._asked = False  # whether `progress` was called since the last request was sent
        self._again: asyncio.TimerHandle | None = None
        self._sending: asyncio.Task[None] | None = None

    async def begin(self, key: bytes, end: bytes, *, previous: bool) -> None:
        """Create the watch. previous: whether events have the state that they replaced. Raises Compacted, Unavailable."""
        try:
            await self._stream.send(watch_request(key, end, self.revision + 1, previous=previous))
            # The first response has no events; it shows whether etcd accepts the watch.
            await self.next()
        except BaseException:
            self.close()
            raise

    async def next(self) -> Sequence[Event]:
        """The next events, of complete revisions. Then `revision` is the one up to which all events were returned.

        Raises Compacted, Unavailable.
        """
        events: list[Event] = []
        while True:
            answer = watch_answer(await self._stream.receive(), self._skip)
            if answer.compact_revision:
                raise Compacted(self.revision, answer.compact_revision)
            if answer.canceled:
                raise Unavailable(f"etcd ended the watch: {answer.cancel_reason}")
            events += answer.events
            if answer.fragment:
                continue
            if events:
                # The header's revision may be ahead of the events sent so far.
                self.revision = events[-1].revision
            elif not answer.created:
                self.revision = max(self.revision, answer.revision)
                self._answered()
            return events

    def progress(self) -> None:
        """Request a response that reports the watch's progress; repeated until one is not older than this call.

        There is one request at a time. A call during a request needs the response to the next one.
        """
        self._target = max(self._target, self._present())
        self._asked = True
        if self._again is None:
            self._ask()

    def _ask(self) -> None:
        self._asked = False
        self._again = asyncio.get_running_loop().call_later(ASK_AGAIN, self._repeat)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._stream.send(PROGRESS))

    def _repeat(self) -> None:
        self._again = None
        if not self.at_start:
            self._ask()

    @property
    def at_start(self) -> bool:
        """Whether no write after `after` is known: until there is one, etcd does not answer progress requests."""
        return max(self.revision, self._present()) <= self._after

    def _answered(self) -> None:
        if self._asked:
            self._stop_asking()
            self._ask()
        elif self.revision >= self._target:
            self._stop_asking()
        # Otherwise this answers an earlier request, or the member is behind the others: wait for the next response.

    def _stop_asking(self) -> None:
        if self._again is not None:
            self._again.cancel()
            self._again = None

    def close(self) -> None:
        """May be called twice."""
        self._stop_asking()
        if self._sending is not None:
            self._sending.cancel()
        self._stream.cancel()


class EtcdSubscription:
    """A `Subscription` that reads a watch and feeds a sink until either ends."""

    def __init__(self, watch: EtcdWatch, sink: Sink) -> None:
        self._watch = watch
        self._sink = sink
        self._task: asyncio.Task[None] | None = None

    async def start(self, present: int) -> None:
        """Returns when the sink has all events up to `present`. Raises Compacted, Unavailable."""
        try:
            self._watch.progress()
            while self._watch.revision < present:
                await self._deliver()
        except BaseException:
            self.close()
            raise
        self._task = asyncio.create_task(self._run())

    async def _deliver(self) -> None:
        events = await self._watch.next()
        try:
            self._sink.events(events, self._watch.revision)
        except StorageError:
            raise  # an error of the sink, which already says what has failed
        except Exception as error:
            logger.exception("a subscription failed on an event and is ended")
            raise Unavailable("a subscription failed on an event") from error

    async def _run(self) -> None:
        """Deliver events until something fails. The sink gets every error, since otherwise it would wait for events for ever."""
        try:
            while True:
                await self._deliver()
        except BaseException as error:
            self.close()
            if is_own(error):
                raise
            self._sink.lost(as_lost(error))

    def progress(self) -> None:
        self._watch.progress()
        if self._watch.at_start:
            self._sink.events((), self._watch.revision)

    def close(self) -> None:
        self._watch.close()
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
