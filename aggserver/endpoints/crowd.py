"""Crowd: lets watches that are asked for together begin a few at a time, so that other requests don't wait for them all.

After a restart thousands of watches may come in a moment, and to begin one takes about half a millisecond. Without this, a turn
of the event loop would take as long as all requests that it finds.
Source: none. Upstream has goroutines, and priority and fairness count a watch while it begins (apf_filter.go, v0.36.3).
"""

from __future__ import annotations

import asyncio
from collections import deque

__all__ = ["Crowd"]

# Watches that begin in a turn of the event loop: a few milliseconds.
_AT_ONCE = 8


class Crowd:
    """The watches of an event loop that are about to begin."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._begun = 0  # in this turn of the loop

    async def wait(self) -> None:
        """Wait until it is this watch's turn."""
        loop = asyncio.get_running_loop()
        if not self._begun:
            loop.call_soon(self._next)
        if self._begun < _AT_ONCE and not self._waiting:
            self._begun += 1
            return
        mine: asyncio.Future[None] = loop.create_future()
        self._waiting.append(mine)
        await mine

    def _next(self) -> None:
        self._begun = 0
        while self._waiting and self._begun < _AT_ONCE:
            theirs = self._waiting.popleft()
            if not theirs.done():  # otherwise its request was cancelled
                theirs.set_result(None)
                self._begun += 1
        if self._begun:
            asyncio.get_running_loop().call_soon(self._next)
