"""Deadlines: ends requests whose time is over, with one timer for all that have the server's own limit.

A timer for each request takes longer to set and to cancel than all the rest of its time limit. These requests all have the same
time, so they end in the order in which they began, and one timer for the oldest is enough. A request whose client allows it less
has a timer of its own, since few do.
"""

from __future__ import annotations

import asyncio

from aggserver.endpoints.request import Request

__all__ = ["Deadlines"]


class Deadlines:
    """The requests in progress that have `seconds`, counted by the event loop's clock from their `begin`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        # From the oldest to the newest; a dict, since requests end in any order.
        self._running: dict[Request, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, request: Request, seconds: float) -> None:
        """Limit a request's time to so many seconds from now on, until `on_end`. seconds: at most those of all requests."""
        loop = asyncio.get_running_loop()
        request.deadline = loop.time() + seconds
        if seconds < self._seconds:
            request.allotted.reschedule(request.deadline)
            return
        self._running[request] = request.deadline
        request.on_end.append(lambda: self._running.pop(request, None))
        if self._timer is None:
            self._timer = loop.call_at(request.deadline, self._expire)

    def _expire(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        while self._running:
            request, deadline = next(iter(self._running.items()))
            if deadline > loop.time():
                self._timer = loop.call_at(deadline, self._expire)
                return
            del self._running[request]
            request.allotted.reschedule(deadline)
