"""Turns: how long answers are made beside everything else that the event loop has to do.

A long answer is made in pieces, each about a millisecond's work. There is one piece in a turn of the loop, however many answers
are under way, so that what else is due waits for one piece and no more. The first pieces of an answer come before the rest of
others, so that short ones are not held up; of the rest those that came first are finished first: shared out evenly, all would end
as late as the last. An answer whose client is slow is passed over until it has taken what there is. Used by
`endpoints/filters.py`.

Upstream has goroutines for this, and bounds them by in-flight alone.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import AsyncGenerator, Callable, Iterable

__all__ = ["Turns"]

# Bytes of an answer up to which it goes before the rest of the others.
_SHORT = 256 * 1024


class Turns:
    """One for all the answers of a loop."""

    def __init__(self) -> None:
        # (whether the answer is a long one, its number, wakes it)
        self._waiting: list[tuple[bool, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()
        self._taken = False

    async def each(self, pieces: Iterable[bytes], given_up: Callable[[], bool]) -> AsyncGenerator[bytes, None]:
        """The pieces, each made in a turn of its own, until somebody has `given_up` on them."""
        number = next(self._numbers)
        made = 0
        iterator = iter(pieces)
        while True:
            await self._turn(number, long=made > _SHORT)
            try:
                piece = None if given_up() else next(iterator, None)
            finally:
                self._pass_on()
            if piece is None:
                return
            made += len(piece)
            yield piece

    async def _turn(self, number: int, *, long: bool) -> None:
        if not self._taken:
            self._taken = True
            return
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (long, number, mine))
        try:
            await mine
        except asyncio.CancelledError:
            if not mine.cancelled():
                self._pass_on()  # it had been given just then
            raise

    def _pass_on(self) -> None:
        asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        while self._waiting:
            _, _, theirs = heapq.heappop(self._waiting)
            if not theirs.done():
                theirs.set_result(None)
                return
        self._taken = False
