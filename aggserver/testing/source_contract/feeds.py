"""What a server relies on in a feed: that everything which changes after the list is told, however soon after it.

A feed first subscribes to changes, and only then yields Relist, upon which the server calls `list`. One that subscribes
afterwards loses what changes between. So here the first write comes after the list and before the feed is asked to go on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping

from aggserver.resources.events import Changed, Gone, Relist
from aggserver.testing.source_contract.asked import Asked, shown

__all__ = ["FollowedFeed"]


class FollowedFeed:
    """Follows a feed as a server does. seconds: the longest that a change may take to be told."""

    def __init__(self, asked: Asked, seconds: float) -> None:
        self._asked = asked
        self._seconds = seconds
        self._what = asked.function("feed")
        self._state: dict[str, bytes] = {}
        self._begun = asyncio.Event()
        self._goes_on = asyncio.Event()
        self._moved = asyncio.Event()
        self._task = asyncio.create_task(self._read())

    async def begin(self) -> None:
        """Return when the feed has yielded Relist and everything was listed. It is not asked to go on before `settled`."""
        if not await self._until(self._begun):
            raise AssertionError(
                f"{self._what} has yielded nothing for {self._seconds:g} s: it must begin with Relist(), by which the server "
                "knows that it has subscribed"
            )

    async def settled(self, what: str) -> None:
        """Return when what the feed has told is what `list` returns."""
        wanted = {key: item.encoded for key, item in (await self._asked.all()).items()}
        self._goes_on.set()
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(self._seconds):
                while self._state != wanted:
                    self._moved.clear()
                    await self._until(self._moved)
        except TimeoutError:
            missing = _difference(self._state, wanted)
            raise AssertionError(
                f"{self._what} has not told of the {what} within {self._seconds:g} s: {missing}. It must subscribe before it "
                "yields Relist(), and tell of every change, also of those by other programs and by functions of this resource"
            ) from None

    async def end(self) -> None:
        """As a server that stops. Raises AssertionError for a feed that does not end."""
        self._task.cancel()
        done, _ = await asyncio.wait({self._task}, timeout=self._seconds)
        if not done:
            raise AssertionError(f"{self._what} did not end when it was cancelled: the server could not stop")
        if not self._task.cancelled() and (error := self._task.exception()) is not None:
            raise error

    def abandon(self) -> None:
        """As `end`, where there is an error already."""
        self._task.cancel()

    async def _until(self, event: asyncio.Event) -> bool:
        """Wait for an event. Raises what the feed has raised."""
        waiting = asyncio.create_task(event.wait())
        try:
            await asyncio.wait({self._task, waiting}, timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if self._task.done():
            self._task.result()
        return event.is_set()

    async def _read(self) -> None:
        """In one task from its beginning to its end, since what a feed has entered must be left in the same one."""
        try:
            async with contextlib.aclosing(self._asked.changes()) as changes:  # type: ignore[type-var]
                async for change in changes:
                    await self._take(change)
                    self._moved.set()
        except (AssertionError, asyncio.CancelledError):
            raise
        except Exception as error:
            raise AssertionError(f"{self._what} raised {type(error).__name__}: {error}") from error
        raise AssertionError(f"{self._what} has ended: it must go on as long as the server runs")

    async def _take(self, change: object) -> None:
        if isinstance(change, Relist):
            self._state = {key: item.encoded for key, item in (await self._asked.all()).items()}
            if not self._begun.is_set():
                self._begun.set()
                await self._goes_on.wait()
            return
        if not self._begun.is_set():
            raise AssertionError(f"{self._what} began with {type(change).__name__}: subscribe, and then yield Relist() first")
        if isinstance(change, Changed):
            key, encoded = self._asked.changed(change.object)
            self._state[key] = encoded
        elif isinstance(change, Gone):
            self._state.pop(self._asked.gone(change.namespace, change.name), None)
        else:
            raise AssertionError(f"{self._what} yielded {type(change).__name__}: it may yield Changed, Gone and Relist")


def _difference(told: Mapping[str, bytes], listed: Mapping[str, bytes]) -> str:
    for key in (*listed, *told):
        if key not in told:
            return f"list has {shown(key)}, and the feed has not told of it"
        if key not in listed:
            return f"list has no {shown(key)} any more, and the feed has not told that it is gone"
        if told[key] != listed[key]:
            return f"list has another {shown(key)} than the feed has told of"
    return ""
