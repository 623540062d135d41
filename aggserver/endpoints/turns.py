"""Turns: schedules the generation of long responses on the event loop, so that other requests don't wait for them.

A long response is generated in pieces of about a millisecond's work. However many responses are being generated, there is one
piece per iteration of the event loop, so that anything else waits for one piece at most; while few responses wait, those whose
pieces are cheap make several in a turn. The first pieces of a response go before
the later pieces of others, so that shorter responses are not held up. After that the oldest response is finished first: if all
took turns evenly, all would end as late as the last. A response waits for no turn while its client has not taken the last piece.

Upstream has goroutines for this, limited only by the number of requests in flight.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import AsyncGenerator, Callable, Iterable

__all__ = ["Turns"]

# So many responses that wait for their turn are not few any more. With eight instead, one user's gets beside 200 connections of
# lists took nine times as long as alone, and not three times (python -m benchmarks.fairness).
_FEW = 2

# Up to this many bytes, the pieces of a response go before the later pieces of others.
_SHORT = 256 * 1024


class Turns:
    """The turns of all long responses of an event loop."""

    def __init__(self) -> None:
        # (whether more than _SHORT bytes of the response are made, its number, wakes it)
        self._waiting: list[tuple[bool, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()
        self._taken = False

    async def each(self, pieces: Iterable[bytes], given_up: Callable[[], bool], together: int = 1) -> AsyncGenerator[bytes, None]:
        """The pieces, each generated in its own turn, until `given_up()` is true because the client has disconnected.

        together: so many in one turn, while few wait for theirs.
        """
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
            for _ in range(together - 1 if len(self._waiting) < _FEW else 0):
                piece = None if given_up() else next(iterator, None)
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
                self._pass_on()  # the turn was given just before the cancellation
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
