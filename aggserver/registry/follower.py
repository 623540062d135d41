"""Follower: keeps a function informed of every object of a Store, one key at a time.

The base of the server's own controllers (definitions, namespaces). It watches the store, remembers each object as it is, and calls
`sync` for whatever changed; a key that fails, or asks to be looked at again, waits its time and holds up no other. When the watch is
lost it starts again from the whole state.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from aggserver.authentication.user import PRIVILEGED_GROUP, UserInfo
from aggserver.meta.errors import StatusError
from aggserver.meta.selectors import FieldSelector, LabelSelector
from aggserver.registry.rest import Context, JSONObject, ListOptions
from aggserver.registry.store import Store

__all__ = ["ALL", "CONTROLLER", "Follower", "Sync"]

log = logging.getLogger("aggserver.controllers")

# (name, the object or None once it is gone) -> seconds after which to look again, or None.
Sync = Callable[[str, JSONObject | None], Awaitable[float | None]]

CONTROLLER = UserInfo("system:apiserver", groups=(PRIVILEGED_GROUP,))
ALL = ListOptions(labels=LabelSelector.parse(""), fields=FieldSelector.parse(""))

# Seconds before a failed key is tried again: doubled each time, up to the last.
_FIRST_RETRY = 0.05
_LAST_RETRY = 30.0


class Follower:
    """For cluster-scoped resources: the key is the name. `objects` is what the store holds, as last heard."""

    def __init__(self, store: Store, sync: Sync) -> None:
        self.objects: dict[str, JSONObject] = {}
        self._store = store
        self._sync = sync
        self._waiting: dict[str, None] = {}  # in order, each once
        self._wake = asyncio.Event()
        self._failures: dict[str, int] = {}
        self._first_look: set[str] | None = None  # names that were there at the start and have not been looked at; None: not known
        self._caught_up = asyncio.Event()

    def enqueue(self, name: str) -> None:
        self._waiting[name] = None
        self._wake.set()

    async def caught_up(self) -> None:
        """Returns when `sync` was called for everything that was there at the start."""
        await self._caught_up.wait()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch())
            group.create_task(self._work())

    async def _watch(self) -> None:
        while True:
            stream = await self._store.watch(Context(CONTROLLER), ALL)
            # A watch begins with everything there is; what is not among it has gone while nobody looked.
            present = {obj.decoded()["metadata"]["name"] for obj in (await self._store.list(Context(CONTROLLER), ALL)).items}
            for name in self.objects.keys() - present:
                self._gone(name)
            if self._first_look is None:
                self._first_look = present
                self._looked_at("")
            try:
                async for batch in stream:
                    for event in batch:
                        self._take(event.type, event.object)
            except StatusError as error:
                log.info("following %s starts again: %s", self._store.strategy.info.resource, error.message)
            finally:
                stream.close()

    def _take(self, kind: str, obj: object) -> None:
        tree: JSONObject = obj.decoded()  # type: ignore[attr-defined]
        name = tree["metadata"]["name"]
        if kind == "DELETED":
            self._gone(name)
        else:
            self.objects[name] = tree
            self.enqueue(name)

    def _gone(self, name: str) -> None:
        self.objects.pop(name, None)
        self.enqueue(name)

    async def _work(self) -> None:
        while True:
            while self._waiting:
                name = next(iter(self._waiting))
                del self._waiting[name]
                await self._one(name)
            self._wake.clear()
            await self._wake.wait()

    def _looked_at(self, name: str) -> None:
        if self._first_look is not None and not self._caught_up.is_set():
            self._first_look.discard(name)
            if not self._first_look:
                self._caught_up.set()

    async def _one(self, name: str) -> None:
        try:
            again = await self._sync(name, self.objects.get(name))
        except Exception as error:
            count = self._failures[name] = self._failures.get(name, 0) + 1
            again = min(_FIRST_RETRY * 2**count, _LAST_RETRY)
            # A lost race is everyday; anything else is worth a line.
            if not isinstance(error, StatusError) or error.code not in (404, 409):
                log.warning("%s %s: %s; trying again in %.1f s", self._store.strategy.info.resource, name, error, again)
        else:
            self._failures.pop(name, None)
        self._looked_at(name)
        if again is not None:
            asyncio.get_running_loop().call_later(again, self.enqueue, name)
