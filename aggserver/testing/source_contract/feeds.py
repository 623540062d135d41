"""What a server relies on in a feed: that everything which changes after the list is told, however soon after it.

A feed first subscribes to changes, and only then yields Relist, upon which the server calls `list`. One that subscribes
afterwards loses what changes between. So here the first write comes after the list and before the feed is asked to go on.
"""

from __future__ import annotations

import asyncio
import contextlib

from aggserver.resources.events import Changed, Gone, Relist
from aggserver.testing.source_contract.asked import Asked
from aggserver.testing.source_contract.follower import Follower, state_of

__all__ = ["FollowedFeed"]


class FollowedFeed(Follower):
    """Follows a feed as a server does. A server makes the revisions, so those of the source are left out."""

    verb = "feed"
    advice = (
        "It must subscribe before it yields Relist(), and tell of every change, also of those by other programs and by functions "
        "of this resource"
    )
    start = "right after the first Relist()"

    def __init__(self, asked: Asked, seconds: float) -> None:
        self._begun = asyncio.Event()
        super().__init__(asked, seconds)

    async def begin(self) -> None:
        """Return when the feed has yielded Relist and everything was listed."""
        if not await self.until(self._begun):
            raise AssertionError(
                f"{self.what} has yielded nothing for {self.seconds:g} s: it must begin with Relist(), by which the server "
                "knows that it has subscribed"
            )

    async def read(self) -> None:
        async with contextlib.aclosing(self.asked.changes()) as changes:  # type: ignore[type-var]
            async for change in changes:
                await self._take(change)
                self.moved()

    async def _take(self, change: object) -> None:
        if isinstance(change, Relist):
            self.state = state_of(await self.asked.all())
            if not self._begun.is_set():
                self._begun.set()
                await self.goes_on.wait()
            return
        if not self._begun.is_set():
            raise AssertionError(f"{self.what} began with {type(change).__name__}: subscribe, and then yield Relist() first")
        if isinstance(change, Changed):
            key, encoded = self.asked.changed(change.object)
            self.state[key] = encoded, ""
        elif isinstance(change, Gone):
            self.state.pop(self.asked.gone(change.namespace, change.name), None)
        else:
            raise AssertionError(f"{self.what} yielded {type(change).__name__}: it may yield Changed, Gone and Relist")
