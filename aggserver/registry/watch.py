"""Watch: a running watch of one version of a resource, the `WatchStream` of `registry/rest.py`.

Events whose objects are stored in this version are passed on unchanged; the others are converted once for all watches of the
version. Usually the watch cache selects the events. If a selector needs the objects in this version, and only a webhook can
convert them, the events are selected here, after conversion, by the same rules.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Self

from aggserver.registry.storage_errors import reading, too_old
from aggserver.registry.stored import StoredObject, at
from aggserver.registry.unreadable import Unreadable, unreadable_event
from aggserver.storage.cacher import CacheWatcher, WatchEvent
from aggserver.storage.changes import ADDED, DELETED, MODIFIED

__all__ = ["Selection", "Show", "Watch"]

_Event = WatchEvent[StoredObject]
Show = Callable[[Sequence[StoredObject]], Awaitable[Sequence[StoredObject]]]


class Watch:
    """One watch over the events of the watch cache.

    show: makes the objects for the client. form: the `StoredObject.form` of objects that are sent unchanged. selection: selects
    the events by the objects for the client; None if the watch cache has selected them.
    """

    def __init__(
        self,
        watcher: CacheWatcher[StoredObject],
        form: object,
        show: Show,
        selection: Selection | None = None,
    ) -> None:
        self._watcher = watcher
        self._form = form
        self._show = show
        self._selection = selection

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Sequence[_Event]:
        try:
            with reading(too_old):
                while True:
                    batch = await self._shown(await anext(self._watcher))
                    if self._selection is not None:
                        batch = await self._selection.of(batch)
                    if batch:
                        return batch
        except Unreadable as unreadable:
            raise unreadable_event(unreadable.error) from None

    async def _shown(self, batch: Sequence[_Event]) -> Sequence[_Event]:
        shown = [self._known(event) for event in batch]
        unknown = [index for index, event in enumerate(shown) if event is None]
        if unknown:
            objects = [event.object for index in unknown if (event := batch[index]).object is not None]
            for index, view in zip(unknown, await self._show(objects), strict=True):
                shown[index] = self._event(batch[index], view)
        return [event for event in shown if event is not None]

    def _known(self, event: _Event) -> _Event | None:
        """The event for the client, if its object needs no conversion or was converted for another watch; else None."""
        if event.object is None or event.object.form is self._form:
            return event
        return None if event.views is None else event.views.get(self._form)

    def _event(self, event: _Event, view: StoredObject) -> _Event:
        if view is event.object:  # nothing was changed, and its form is set now
            return event
        # Kept with the event, so that it is converted once for all watches of this version.
        converted = WatchEvent(event.type, view, event.revision, view.size)
        converted.before = event.before
        if event.views is None:
            event.views = {}
        event.views[self._form] = converted
        return converted

    def bookmark(self) -> None:
        """Ask for a bookmark. It comes after all events that are waiting."""
        self._watcher.bookmark()

    def close(self) -> None:
        self._watcher.close()


class Selection:
    """Selects the events of one watch. view: makes the object that the selector reads. show: makes the objects for the client."""

    def __init__(
        self,
        matches: Callable[[StoredObject], bool],
        view: Callable[[StoredObject], Awaitable[StoredObject]],
        show: Show,
    ) -> None:
        self._matches = matches
        self._view = view
        self._show = show
        self._selected: dict[str, bool] = {}  # the objects that this watch has had events of, by key: whether they match

    async def of(self, batch: Sequence[_Event]) -> Sequence[_Event]:
        selected = [event if event.object is None else await self._of(event, event.object) for event in batch]
        return [event for event in selected if event is not None]

    async def _of(self, event: _Event, obj: StoredObject) -> _Event | None:
        """The event that the client gets, None if it gets none."""
        before = self._selected.pop(obj.key, None)
        if event.type == DELETED:
            return event if (await self._match(obj) if before is None else before) else None
        if before is None:
            before = event.before is not None and await self._match(event.before)
        after = self._selected[obj.key] = await self._match(obj)
        if after:
            kind = MODIFIED if before else ADDED
            return event if event.type == kind else WatchEvent(kind, obj, event.revision, event.size)
        if not before or event.before is None:
            return None
        # It no longer matches: DELETED, with the last content that did, at the revision of the change.
        (last,) = await self._show([event.before])
        return WatchEvent(DELETED, at(last, event.revision), event.revision, last.size)

    async def _match(self, obj: StoredObject) -> bool:
        return self._matches(await self._view(obj))
