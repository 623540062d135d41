"""Follower: how `check_source` reads a function that tells of changes, and compares it with what `list` returns."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from aggserver.testing.source_contract.asked import Asked, Item, raised_by, shown, told

__all__ = ["Follower", "State"]

# (encoded object, its own revision or '') by key
State = dict[str, tuple[bytes, str]]


class Follower:
    """Follows a feed or a watch. seconds: the longest that a change may take to be told.

    verb: `feed` or `watch`. advice: what to do about a change that was not told. start: when it begins, for messages.
    """

    verb: str
    advice: str
    start: str

    def __init__(self, asked: Asked, seconds: float) -> None:
        self.asked = asked
        self.seconds = seconds
        self.what = asked.function(self.verb)
        self.state: State = {}
        self.goes_on = asyncio.Event()
        self._moved = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    async def begin(self) -> None:
        """Return when everything was listed. What is told afterwards is not taken before `settled`."""
        raise NotImplementedError

    async def settled(self, what: str) -> None:
        """Return when what was told is what `list` returns."""
        wanted = state_of(await self.asked.all())
        self.goes_on.set()
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(self.seconds):
                while self.state != wanted:
                    self._moved.clear()
                    await self.until(self._moved)
        except TimeoutError:
            missing = self._difference(wanted)
            raise AssertionError(
                f"{self.what} has not told of the {what} within {self.seconds:g} s: {missing}. {self.advice}"
            ) from None

    async def end(self) -> None:
        """As a server that stops. Raises AssertionError for a function that does not end."""
        self._task.cancel()
        done, _ = await asyncio.wait({self._task}, timeout=self.seconds)
        if not done:
            raise AssertionError(f"{self.what} did not end when it was cancelled: the server could not stop")
        if not self._task.cancelled() and (error := self._task.exception()) is not None:
            raise error

    def abandon(self) -> None:
        """As `end`, where there is an error already."""
        self._task.cancel()

    async def until(self, event: asyncio.Event) -> bool:
        """Wait for an event. Raises what the function has raised."""
        waiting = asyncio.create_task(event.wait())
        try:
            await asyncio.wait({self._task, waiting}, timeout=self.seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if self._task.done():
            self._task.result()
        return event.is_set()

    async def read(self) -> None:
        """Call the function, and take what it tells."""
        raise NotImplementedError

    def moved(self) -> None:
        """`state` may have changed."""
        self._moved.set()

    async def _run(self) -> None:
        """In one task from its beginning to its end, since what a function has entered must be left in the same one."""
        try:
            await self.read()
        except Exception as error:
            raised = raised_by(error)
            if isinstance(raised, AssertionError):
                raise raised from None
            raise AssertionError(f"{self.what} raised {told(raised)}") from raised
        raise AssertionError(f"{self.what} has ended: it must go on as long as the server runs")

    def _difference(self, listed: State) -> str:
        for key in (*listed, *self.state):
            if key not in self.state:
                return f"list has {shown(key)}, and the {self.verb} has not told of it"
            if key not in listed:
                return f"list has no {shown(key)} any more, and the {self.verb} has not told that it is gone"
            if self.state[key] != listed[key]:
                return f"list has another {shown(key)} than the {self.verb} has told of"
        return ""


def state_of(listed: Mapping[str, Item]) -> State:
    return {key: (item.encoded, item.version) for key, item in listed.items()}
