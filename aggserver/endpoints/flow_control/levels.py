"""Levels: the requests of each priority level, which run or wait in fair queues.

Fair queuing gives each queue with requests the same share of its level's seats over time. Every queue has a virtual time: what it
has used, in seat-seconds, since it was last empty. The queue whose first request would end earliest by it is served next. A
request is charged an estimate when it begins, and the difference to what it took when it has ended.

Two things differ from upstream, since one event loop does all the work, and only lists hold it for long:
- A request of one seat of a queue that has nothing else runs at once, as long as fewer requests than seats run in its level. So
  the seats that a list takes beyond its first keep other lists out, and not the gets of others.
- Seats are lent at once (`limits.py`), and to requests of one seat only: more lists at the same time would not end earlier.

No clock and no event loop: `now` is an argument, in seconds of any clock, and what waits is told by a function.
Pure. Source: k8s.io/apiserver pkg/util/flowcontrol/fairqueuing/queueset/{doc,queueset}.go, v0.36.3.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from aggserver.endpoints.flow_control.limits import LevelLimits, Queuing
from aggserver.endpoints.flow_control.retry_after import RetryAfter

__all__ = ["Counts", "Flow", "Level", "Queue", "Seats", "Ticket"]

# What a request is charged per seat until it has ended, in seconds.
_ESTIMATE = 0.003


@dataclass(slots=True)
class Counts:
    """What happened to the requests of one FlowSchema in one level. at_once: ended in the call that has read them.

    running, waiting: requests and seats now. dispatched: without those at once. rejected: by reason. waited: called with the
    seconds that a request has waited, and whether it was then served.
    """

    at_once: int = 0
    dispatched: int = 0
    running: int = 0
    running_seats: int = 0
    waiting: int = 0
    waiting_seats: int = 0
    rejected: dict[str, int] = field(default_factory=dict)

    def reject(self, reason: str) -> None:
        self.rejected[reason] = self.rejected.get(reason, 0) + 1


class Ticket:
    """A request that runs or waits. run: called when a request that waits may run, from when it is set."""

    __slots__ = ("_began", "arrival_r", "arrived", "counts", "flow", "level", "queue", "run", "schema", "seats", "waits")

    def __init__(self, level: Level, schema: str, counts: Counts, flow: str, seats: int, now: float) -> None:
        self.level = level
        self.schema = schema
        self.counts = counts
        self.flow = flow
        self.seats = seats
        self.arrived = now
        self.arrival_r = 0.0
        self.queue: Queue | None = None
        self.waits = False
        self.run: Callable[[], None] = _nothing
        self._began = now

    @property
    def work(self) -> float:
        """The estimate, in seat-seconds."""
        return self.seats * _ESTIMATE

    def begin(self, now: float) -> None:
        self._began = now

    def seconds(self, now: float) -> float:
        """Since it began to run."""
        return now - self._began


def _nothing() -> None:
    return None


class Queue:
    """The requests of some flows. next_r: the virtual time when its next request begins. entry: the current one in the heap."""

    __slots__ = ("entry", "index", "next_r", "running", "seats", "waiting", "work")

    def __init__(self, index: int) -> None:
        self.index = index
        self.next_r = 0.0
        self.entry = 0
        self.running = 0
        self.seats = 0  # of those that run
        self.work = 0.0  # of those that wait
        self.waiting: deque[Ticket] = deque()

    @property
    def is_empty(self) -> bool:
        return not self.waiting and not self.running


class Seats:
    """The seats of the server. Each level has reserved what it uses, and at least what it does not lend."""

    def __init__(self, random: Callable[[int], int]) -> None:
        self.random = random
        self.total = 0
        self.reserved = 0
        # The levels in which requests wait, from the one that waits longest.
        self.waiting: dict[Level, None] = {}

    def dispatch(self, now: float) -> None:
        """Run what may run now that seats are free: those of the levels' own first, then those that they lend."""
        for borrowing in (False, True):
            for level in list(self.waiting):
                level.dispatch(now, borrowing=borrowing)


class Level:
    """One priority level. exempt: its requests never wait.

    is_over: its object was deleted; it is kept as long as it has requests.
    """

    def __init__(self, name: str, seats: Seats, *, exempt: bool = False) -> None:
        self.name = name
        self.uid = ""
        self.exempt = exempt
        self.limits = LevelLimits(0, 0, 0, 1)
        self.queuing = Queuing(0, 0, 0)
        self.running = 0
        self.in_use = 0  # seats
        self.waiting = 0
        self.retry_after = RetryAfter(seats.random)
        self.counts: dict[str, Counts] = {}  # by FlowSchema
        self.is_over = False
        self._seats = seats
        self._reserved = 0
        self._queues: dict[int, Queue] = {}  # those that are not empty
        self._running_in: dict[Ticket, None] = {}
        self._heap: list[tuple[float, int, Queue]] = []
        self._entries = itertools.count(1)
        self._offset = 0
        self._r = 0.0
        self._synced = 0.0
        self._demand = 0  # seats that run or wait

    def configure(self, uid: str, limits: LevelLimits, queuing: Queuing) -> None:
        """Take over an object. Requests that wait stay in their queues."""
        self.uid, self.limits, self.queuing = uid, limits, queuing
        self.is_over = False
        self._reserve()

    def end(self) -> None:
        """The level's object is gone: nothing is reserved for it any more but what it uses."""
        self.is_over = True
        self.limits = self.limits._replace(lower=0)
        self._reserve()

    @property
    def is_idle(self) -> bool:
        return not self.running and not self.waiting

    def counts_of(self, schema: str) -> Counts:
        if schema not in self.counts:
            self.counts[schema] = Counts()
        return self.counts[schema]

    @property
    def has_room(self) -> bool:
        """Whether a request of one seat runs without waiting, since nobody waits and there are seats of the level's own."""
        return self.exempt or (not self.waiting and self.in_use < self.limits.lower)

    # --- the life of a request ---

    def arrive(self, schema: str, flow: str, hand: tuple[int, ...], seats: int, now: float) -> Ticket | None:
        """A request has arrived: None if it is rejected, else its ticket, which tells whether it waits.

        flow: for people. hand: the queues of its flow.
        """
        counts = self.counts_of(schema)
        ticket = Ticket(self, schema, counts, flow, min(seats, self.limits.widest), now)
        if seats == 1 and self.has_room:
            # Most requests: while nobody waits, nothing has to be shared.
            self._begin(ticket, now)
            return ticket
        if self.exempt or not self.queuing.queues:
            if not self.exempt and not self._fits(ticket.seats, borrowing=True):
                counts.reject("concurrency-limit")
                return None
            self._begin(ticket, now)
            return ticket
        self._sync(now)
        queue = self._choose(hand)
        is_next = not self.waiting and self._fits(ticket.seats, borrowing=not self._seats.waiting)
        at_once = is_next or self._passes(ticket, queue)
        if not at_once and len(queue.waiting) >= self.queuing.length:
            counts.reject("queue-full")
            return None
        if queue.is_empty:
            self._queues[queue.index] = queue
            queue.next_r = self._r
        ticket.queue, ticket.arrival_r = queue, self._r
        self._demand += ticket.seats
        if at_once:
            self._begin(ticket, now)
            return ticket
        self._wait(ticket, queue, counts)
        self._seats.dispatch(now)
        return ticket

    def _wait(self, ticket: Ticket, queue: Queue, counts: Counts) -> None:
        ticket.waits = True
        queue.waiting.append(ticket)
        queue.work += ticket.work
        counts.waiting += 1
        counts.waiting_seats += ticket.seats
        self.waiting += 1
        self._seats.waiting[self] = None
        if len(queue.waiting) == 1:
            self._place(queue)

    def passes_at_once(self, hand: tuple[int, ...]) -> bool:
        """Whether a request of one seat, which will have ended before any other can begin, may run though others wait."""
        if not self.queuing.queues:
            return self._fits(1, borrowing=True)
        return self.running < self.limits.nominal and self._choose(hand).is_empty

    def finish(self, ticket: Ticket, now: float) -> None:
        """A request that ran has ended."""
        counts, queue = ticket.counts, ticket.queue
        counts.running -= 1
        counts.running_seats -= ticket.seats
        self.running -= 1
        self.in_use -= ticket.seats
        self._running_in.pop(ticket)
        if queue is not None:
            self._sync(now)
            self._demand -= ticket.seats
            queue.running -= 1
            queue.seats -= ticket.seats
            queue.next_r -= ticket.seats * (_ESTIMATE - ticket.seconds(now))
            self._settle(queue)
        self._reserve()
        if self._seats.waiting:
            self._seats.dispatch(now)

    def abandon(self, ticket: Ticket, now: float, reason: str) -> None:
        """A request that waits waits no more: its time is over, or its client is gone."""
        queue = ticket.queue
        assert queue is not None
        self._sync(now)
        queue.waiting.remove(ticket)
        self._left(ticket, queue)
        self._demand -= ticket.seats
        ticket.counts.reject(reason)
        self._settle(queue)
        self._seats.dispatch(now)

    def dispatch(self, now: float, *, borrowing: bool) -> None:
        """Run the requests that are next, as long as there are seats for them. borrowing: also of other levels."""
        self._sync(now)
        while (queue := self._next()) is not None:
            ticket = queue.waiting[0]
            if not self._fits(ticket.seats, borrowing=borrowing):
                return
            queue.waiting.popleft()
            self._left(ticket, queue)
            ticket.waits = False
            self._begin(ticket, now)
            self._settle(queue)
            ticket.run()

    # --- dumps ---

    def queues(self) -> Iterator[Queue]:
        """Those that are not empty, by index."""
        yield from (self._queues[index] for index in sorted(self._queues))

    def executing(self) -> list[Ticket]:
        return list(self._running_in)

    # --- seats ---

    def _fits(self, seats: int, *, borrowing: bool) -> bool:
        limits = self.limits
        wanted = self.in_use + seats
        if wanted <= limits.lower:
            return True
        if wanted > limits.nominal and (seats > 1 or not borrowing):
            return not self.running
        if wanted > limits.upper:
            # A level of no seats serves one request at a time.
            return not self.running
        all_seats = self._seats
        return all_seats.reserved - self._reserved + wanted <= all_seats.total or not self.running

    def _passes(self, ticket: Ticket, queue: Queue) -> bool:
        return ticket.seats == 1 and queue.is_empty and self.running < self.limits.nominal

    def _reserve(self) -> None:
        lower = self.limits.lower
        reserved = 0 if self.exempt else self.in_use if self.in_use > lower else lower
        if reserved != self._reserved:
            self._seats.reserved += reserved - self._reserved
            self._reserved = reserved

    def _begin(self, ticket: Ticket, now: float) -> None:
        counts, queue = ticket.counts, ticket.queue
        ticket.begin(now)
        counts.dispatched += 1
        counts.running += 1
        counts.running_seats += ticket.seats
        self.running += 1
        self.in_use += ticket.seats
        self._running_in[ticket] = None
        if queue is not None:
            queue.running += 1
            queue.seats += ticket.seats
            queue.next_r += ticket.work
        self._reserve()

    def _left(self, ticket: Ticket, queue: Queue) -> None:
        """A ticket has left the requests that wait."""
        queue.work -= ticket.work
        ticket.counts.waiting -= 1
        ticket.counts.waiting_seats -= ticket.seats
        self.waiting -= 1
        if not self.waiting:
            self._seats.waiting.pop(self, None)

    # --- queues ---

    def _choose(self, hand: tuple[int, ...]) -> Queue:
        """The queue of the hand with the least work before it. Equal ones are chosen in turn."""
        self._offset += 1
        best: Queue | None = None
        for place in range(len(hand)):
            index = hand[(self._offset + place) % len(hand)]
            queue = self._queues.get(index)
            if queue is None:
                return Queue(index)
            if best is None or (queue.work, queue.seats) < (best.work, best.seats):
                best = queue
        assert best is not None
        return best

    def _settle(self, queue: Queue) -> None:
        """After a change of a queue: place it anew, or forget it if it is empty."""
        if queue.waiting:
            # It never begins before its first request has come, however little it has used so far.
            queue.next_r = max(queue.next_r, queue.waiting[0].arrival_r)
            self._place(queue)
        elif not queue.running:
            queue.entry = 0
            self._queues.pop(queue.index, None)

    def _place(self, queue: Queue) -> None:
        queue.entry = next(self._entries)
        heapq.heappush(self._heap, (queue.next_r + queue.waiting[0].work, queue.entry, queue))
        if len(self._heap) > 64 + 4 * len(self._queues):
            self._heap = [each for each in self._heap if each[2].entry == each[1]]
            heapq.heapify(self._heap)

    def _next(self) -> Queue | None:
        """The queue whose first request would end first."""
        while self._heap:
            _, entry, queue = self._heap[0]
            if queue.entry == entry and queue.waiting:
                return queue
            heapq.heappop(self._heap)
        return None

    def _sync(self, now: float) -> None:
        """Let virtual time pass: as fast as each queue gets seats."""
        active = len(self._queues)
        if active:
            self._r += min(self._demand, self.limits.nominal) / active * (now - self._synced)
        self._synced = now


class Flow(NamedTuple):
    """Where the requests of a flow go. counts: of its FlowSchema. hand: its queues. distinguisher: for people.

    headers: of all responses to its requests.
    """

    schema: str
    level: Level
    counts: Counts
    distinguisher: str
    hand: tuple[int, ...]
    headers: tuple[tuple[bytes, bytes], ...]
