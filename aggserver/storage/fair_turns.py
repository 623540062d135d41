"""Fair turns: which of the scans with a selector may look at its next objects.

A list or the start of a watch with a selector looks at every object under its prefix, however few of them match. It does so in
slices of about a millisecond, and there is one slice per iteration of the event loop, however many scans there are, so that any
other request waits for one slice at most. Users take turns, and so do the scans of one user: many scans of one user make only
that user's scans slow.
Source: none. k8s.io/apiserver limits requests in flight by priority levels and flows (APF), v0.36.3.
"""

from __future__ import annotations

import asyncio
from collections import deque

__all__ = ["FairTurns"]


class FairTurns:
    """The turns of all scans of an event loop."""

    def __init__(self) -> None:
        # The scans that wait, by user. The first user is next, and then moves to the end.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._taken = False

    async def turn(self, user: str) -> None:
        """Wait for the turn. It ends when the caller next awaits anything, so nothing has to be given back."""
        loop = asyncio.get_running_loop()
        if not self._taken:
            self._taken = True
            loop.call_soon(self._next)
            return
        mine: asyncio.Future[None] = loop.create_future()
        self._waiting.setdefault(user, deque()).append(mine)
        await mine

    def _next(self) -> None:
        while self._waiting:
            user = next(iter(self._waiting))
            scans = self._waiting.pop(user)
            first = scans.popleft()
            if scans:
                self._waiting[user] = scans
            if not first.done():  # otherwise its request was cancelled
                first.set_result(None)
                asyncio.get_running_loop().call_soon(self._next)
                return
        self._taken = False
