"""What a server relies on in a watch: that it tells everything which came after a revision, once, in order, and as what it is.

A client lists, and watches from the revision of the list, whatever has happened between. So here the first write comes after the
list and before the watch. At the end another watch begins at the same revision, as that of a client whose connection was lost.
"""

from __future__ import annotations

import contextlib

from aggserver.resources.events import Bookmark
from aggserver.resources.source import ToldEvent
from aggserver.storage.changes import ADDED, DELETED
from aggserver.testing.source_contract.asked import Asked, shown
from aggserver.testing.source_contract.follower import Follower, State, state_of

__all__ = ["FollowedWatch"]


class FollowedWatch(Follower):
    """Follows a watch as a client does. first: one that has begun before, at whose revision this one begins, too."""

    verb = "watch"
    advice = (
        "It must tell of every change after request.revision, also of those by other programs and by functions of this resource"
    )
    start = "between the list and the watch"

    def __init__(self, asked: Asked, seconds: float, first: FollowedWatch | None) -> None:
        self._first = first
        self._began_with: State = {}
        self._revision = ""
        # Revisions of events.
        self._told: set[str] = set()
        super().__init__(asked, seconds)

    async def begin(self) -> None:
        if self._first is not None:
            self._began_with, self._revision = self._first._began_with, self._first._revision
        else:
            self._began_with, self._revision = state_of(await self.asked.all()), self.asked.revision
        self.state = dict(self._began_with)

    async def read(self) -> None:
        await self.goes_on.wait()
        async with contextlib.aclosing(self.asked.events(self._revision)) as told:
            async for each in told:
                if not isinstance(each, Bookmark):
                    self._take(each)
                    self.moved()

    def _take(self, event: ToldEvent) -> None:
        key, encoded, version = event.object
        before = self.state.get(key)
        if version in self._told:
            raise AssertionError(
                f"{self.what} told two changes with the revision {version}: a client that resumes would miss one"
            )
        self._told.add(version)
        if (event.type == ADDED) != (before is None):
            what = "is not there" if before is None else "is there already"
            raise AssertionError(f"{self.what} told {event.type} of {shown(key)}, which {what}")
        if event.old is not None and event.old[1:] != before:
            raise AssertionError(f"{self.what} told {event.type} of {shown(key)}, and its old object is not what it was before")
        if event.type == DELETED:
            del self.state[key]
        else:
            self.state[key] = encoded, version
