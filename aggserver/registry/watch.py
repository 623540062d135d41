"""Watch: a running watch of one version of a resource, the `WatchStream` of `registry/rest.py`.

Events whose objects are stored in this version are passed on unchanged.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Self

from aggserver.registry.storage_errors import reading, too_old
from aggserver.registry.stored import StoredObject
from aggserver.registry.unreadable import Unreadable, unreadable_event
from aggserver.storage.cacher import CacheWatcher, WatchEvent

__all__ = ["Watch"]


class Watch:
    """The watch cache's events. view: converts, prunes and defaults objects that are not in this form."""

    def __init__(
        self,
        watcher: CacheWatcher[StoredObject],
        form: object,
        view: Callable[[StoredObject], Awaitable[StoredObject]],
    ) -> None:
        self._watcher = watcher
        self._form = form
        self._view = view

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Sequence[WatchEvent[StoredObject]]:
        try:
            with reading(too_old):
                batch = await anext(self._watcher)
                return [event if self._as_stored(event) else await self._converted(event) for event in batch]
        except Unreadable as unreadable:
            raise unreadable_event(unreadable.error) from None

    def _as_stored(self, event: WatchEvent[StoredObject]) -> bool:
        return event.object is None or event.object.form is self._form

    async def _converted(self, event: WatchEvent[StoredObject]) -> WatchEvent[StoredObject]:
        memo: dict[Any, Any] = event.encodings
        converted: WatchEvent[StoredObject] | None = memo.get(self._form)
        if converted is None:
            assert event.object is not None
            view = await self._view(event.object)
            if view is event.object:  # nothing to change, and its form is known now
                return event
            # Kept with the event, so that it is converted once for all watchers of this version.
            converted = memo[self._form] = WatchEvent(event.type, view, event.revision, view.size)
        return converted

    def bookmark(self) -> None:
        """Ask for a bookmark. It comes after all events that are waiting."""
        self._watcher.bookmark()

    def close(self) -> None:
        self._watcher.close()
