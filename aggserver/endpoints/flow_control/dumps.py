"""Dumps of priority levels, queues and requests, as tables for people: `/debug/api_priority_and_fairness/dump_*`.

The columns are upstream's, but for the times, which are seconds since a request came. Only queues with requests are listed, since
a level may have millions.
Pure. Source: k8s.io/apiserver pkg/util/flowcontrol/apf_controller_debug.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from aggserver.endpoints.flow_control.levels import Level, Ticket

__all__ = ["levels_dump", "queues_dump", "requests_dump"]

_LEVELS = (
    *("PriorityLevelName", "ActiveQueues", "IsIdle", "IsQuiescing", "WaitingRequests", "ExecutingRequests"),
    *("DispatchedRequests", "RejectedRequests", "TimedoutRequests", "CancelledRequests"),
)
_QUEUES = (
    *("PriorityLevelName", "Index", "PendingRequests", "ExecutingRequests", "SeatsInUse", "NextDispatchR"),
    *("InitialSeatsSum", "MaxSeatsSum", "TotalWorkSum"),
)
_REQUESTS = (
    *("PriorityLevelName", "FlowSchemaName", "QueueIndex", "RequestIndexInQueue", "FlowDistingsher", "ArrivedBefore"),
    *("InitialSeats", "FinalSeats"),
)
# The least width of a column.
_WIDTH = 8


def levels_dump(levels: Iterable[Level]) -> str:
    """A line for each level."""
    return _table(_LEVELS, sorted(map(_level, levels)))


def _level(level: Level) -> tuple[str, ...]:
    counts = list(level.counts.values())
    return (
        level.name,
        str(sum(1 for queue in level.queues() if queue.waiting)),
        _boolean(level.is_idle),
        _boolean(level.is_over),
        str(level.waiting),
        str(level.running),
        str(sum(each.dispatched + each.at_once for each in counts)),
        str(sum(sum(each.rejected.values()) for each in counts)),
        str(sum(each.rejected.get("time-out", 0) for each in counts)),
        str(sum(each.rejected.get("cancelled", 0) for each in counts)),
    )


def queues_dump(levels: Iterable[Level]) -> str:
    """A line for each queue that has requests."""
    rows = []
    for level in levels:
        for queue in level.queues():
            seats = str(sum(ticket.seats for ticket in queue.waiting))
            numbers = (queue.index, len(queue.waiting), queue.running, queue.seats)
            rows.append([level.name, *map(str, numbers), f"{queue.next_r:.8f}ss", seats, seats, f"{queue.work:.8f}ss"])
    return _table(_QUEUES, rows)


def requests_dump(levels: Iterable[Level], now: float) -> str:
    """A line for each request: those that wait by their place in the queue, those that run with -1."""
    return _table(_REQUESTS, [row for level in levels for row in _requests(level, now)])


def _requests(level: Level, now: float) -> Iterator[Sequence[str]]:
    for queue in level.queues():
        for place, ticket in enumerate(queue.waiting):
            yield _request(level, ticket, place, now)
    for ticket in level.executing():
        yield _request(level, ticket, -1, now)


def _request(level: Level, ticket: Ticket, place: int, now: float) -> Sequence[str]:
    index = -1 if ticket.queue is None else ticket.queue.index
    before = f"{now - ticket.arrived:.3f}s"
    return level.name, ticket.schema, str(index), str(place), ticket.flow, before, str(ticket.seats), "0"


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as Go's tabwriter aligns them: the comma belongs to the cell, the last one is not filled up."""
    lines = [head, *rows]
    widths = [max(_WIDTH, *(len(line[column]) + 2 for line in lines)) for column in range(len(head) - 1)]
    made = (
        "".join(f"{cell},".ljust(width) for cell, width in zip(line[:-1], widths, strict=True)) + line[-1] + "\n"
        for line in lines
    )
    return "".join(made)
