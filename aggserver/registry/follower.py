"""Follower: keeps a function informed of every object of a Store, one key at a time.

The base of the server's own controllers (definitions, namespaces). It watches the store, remembers each object as it is, and
calls `sync` for whatever changed; a key that fails, or asks to be looked at again, waits its time and holds up no other. When the
watch is lost it starts again from the whole state.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from aggserver.authentication.user import PRIVILEGED_GROUP, UserInfo
from aggserver.meta.errors import StatusError
from aggserver.meta.json_types import JSONObject
from aggserver.meta.selectors import FieldSelector, LabelSelector
from aggserver.registry.rest import Context, ListOptions
from aggserver.registry.store import Store
from aggserver.registry.watch import Watch

__all__ = ["ALL", "CONTROLLER", "CallLater", "Follower", "Sync", "call_later"]

log = logging.getLogger("aggserver.controllers")

# (name, the object or None once it is gone) -> seconds after which to look again, or None.
Sync = Callable[[str, JSONObject | None], Awaitable[float | None]]
# (seconds, what to do then), as an event loop has it.
CallLater = Callable[[float, Callable[[], None]], object]

CONTROLLER = UserInfo("system:apiserver", groups=(PRIVILEGED_GROUP,))
# What can't be read is left alone, and keeps nobody from the rest.
ALL = ListOptions(labels=LabelSelector.parse(""), fields=FieldSelector.parse(""), readable_only=True)

# Seconds before a failed key is tried again: doubled each time, up to the last.
_FIRST_RETRY = 0.05
_LAST_RETRY = 30.0


def call_later(seconds: float, callback: Callable[[], None]) -> object:
    return asyncio.get_running_loop().call_later(seconds, callback)


class Follower:
    """For cluster-scoped resources: the key is the name. `objects` is what the store holds, as last heard.

    workers: how many keys are looked at at once. No key is by two of them.
    """

    def __init__(self, store: Store, sync: Sync, later: CallLater = call_later, *, workers: int = 1) -> None:
        self.objects: dict[str, JSONObject] = {}
        self._store = store
        self._sync = sync
        self._later = later
        self._workers = workers
        self._waiting: dict[str, None] = {}  # in order, each once
        self._running: set[str] = set()
        self._wake = asyncio.Event()
        self._failures: dict[str, int] = {}
        self._losses = 0  # in a row
        self._appointments: dict[str, object] = {}
        # Names that were there at the start and have not been looked at; None until they are known.
        self._first_look: set[str] | None = None
        self._caught_up = asyncio.Event()

    def enqueue(self, name: str) -> None:
        self._waiting[name] = None
        self._wake.set()

    def learn(self, obj: JSONObject) -> None:
        """What `sync` has just written, which the watch brings later: the next key's `sync` must see it already.

        It is forgotten where the watch has brought the end of the object before.
        """
        metadata = obj["metadata"]
        known = self.objects.get(metadata["name"])
        if known is not None and int(known["metadata"]["resourceVersion"]) < int(metadata["resourceVersion"]):
            self.objects[metadata["name"]] = obj

    async def caught_up(self) -> None:
        """Returns when `sync` was called for everything that was there at the start."""
        await self._caught_up.wait()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch())
            for _ in range(self._workers):
                group.create_task(self._work())

    async def _watch(self) -> None:
        while True:
            try:
                await self._follow(await self._store.watch(Context(CONTROLLER), ALL))
            except StatusError as error:
                log.info("following %s starts again: %s", self._store.strategy.info.resource, error.message)
                # What is too old is newly read at once; where nothing can be read, it takes a while.
                if error.reason != "Expired":
                    self._losses += 1
                    await self._pause(_delay(self._losses))

    async def _follow(self, stream: Watch) -> None:
        try:
            # A watch begins with everything there is; what is not among it has gone while nobody looked.
            present = {obj.decoded()["metadata"]["name"] for obj in (await self._store.list(Context(CONTROLLER), ALL)).items}
            self._losses = 0
            # Of what can't be read any more the last that was heard holds.
            unreadable = {error.key.rpartition("/")[2] for error in self._store.unreadable()}
            for name in self.objects.keys() - present - unreadable:
                self._gone(name)
            if self._first_look is None:
                self._first_look = present
                self._looked_at("")
            async for batch in stream:
                for event in batch:
                    if event.object is not None:
                        self._take(event.type, event.object.decoded())
        finally:
            stream.close()

    async def _pause(self, seconds: float) -> None:
        over = asyncio.Event()
        self._later(seconds, over.set)
        await over.wait()

    def _take(self, kind: str, tree: JSONObject) -> None:
        name = tree["metadata"]["name"]
        if kind == "DELETED":
            self._gone(name)
        else:
            self.objects.setdefault(name, tree)
            self.learn(tree)
            self.enqueue(name)

    def _gone(self, name: str) -> None:
        self.objects.pop(name, None)
        self.enqueue(name)

    async def _work(self) -> None:
        while True:
            name = next((name for name in self._waiting if name not in self._running), None)
            if name is None:
                self._wake.clear()
                await self._wake.wait()
                continue
            del self._waiting[name]
            self._running.add(name)
            try:
                await self._one(name)
            finally:
                self._running.discard(name)

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
            again = _delay(count)
            # A lost race is everyday; anything else is worth a line.
            if not isinstance(error, StatusError) or error.code not in (404, 409):
                log.warning("%s %s: %s; trying again in %.1f s", self._store.strategy.info.resource, name, error, again)
        else:
            self._failures.pop(name, None)
        self._looked_at(name)
        if again is not None:
            self._look_again(name, again)

    def _look_again(self, name: str, seconds: float) -> None:
        """Only the last appointment of a name counts; else every event of one that fails would begin a row of its own."""
        token = self._appointments[name] = object()

        def due() -> None:
            if self._appointments.get(name) is token:
                del self._appointments[name]
                self.enqueue(name)

        self._later(seconds, due)


def _delay(failures: int) -> float:
    # Never more doublings than it takes: a float has no room for a thousand.
    return min(_FIRST_RETRY * float(2 ** min(failures - 1, 16)), _LAST_RETRY)
