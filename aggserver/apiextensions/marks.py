"""Marks: since which revision the objects of a definition look as they do now, kept in the store.

A watch that comes back with an older revision is told to list anew, or its client would keep objects without the new defaults
until somebody writes them. The revision can't be that of the definition: labels and status are written to it too, definitions
from files have none, and clients were told newer revisions of old objects until the change had reached the server that they
watched. So a server writes a mark when it has changed over, and the revision of that write is what counts: beyond all that was
told before, and not beyond what is told from then on. A restart without a change writes nothing and refuses nobody.

All servers of a store read each other's marks: a client may come back to a server that changed over before its last one did.
Keys are `/aggserver/definitions/<name>`; no custom resource's group is `aggserver`, since those have a dot.
Source: none. kube-apiserver's watch cache begins anew with the change, and knows nothing older.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace

from aggserver.meta import codec
from aggserver.storage.cacher import Cacher
from aggserver.storage.interface import Conflict, KeyExists, KeyValue, NotFound, Storage, StorageError
from aggserver.storage.keys import resource_prefix

__all__ = ["Marks"]

log = logging.getLogger("aggserver.definitions")

_PREFIX = resource_prefix("aggserver", "definitions")
# Seconds between attempts to write a mark, while the store takes none.
_RETRY = 1.0


@dataclass(frozen=True, slots=True)
class _Mark:
    """content: the digest. changed: whether there was other content before, so that what is older must not be resumed."""

    key: str
    revision: int
    size: int
    content: str
    changed: bool


class Marks:
    def __init__(self, storage: Storage, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._storage = storage
        self._sleep = sleep
        self._cacher: Cacher[_Mark] = Cacher(storage, _PREFIX, make=_make, at=_at)
        self._written: dict[str, int] = {}  # by this server; from etcd the event comes in its own time
        self._locks: dict[str, asyncio.Lock] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def since(self, name: str) -> int:
        """The revision from which on what clients hold of a definition's objects is good; 0 where all is."""
        mark = self._cacher.get(_PREFIX + name)
        return max(self._written.get(name, 0), mark.revision if mark is not None and mark.changed else 0)

    async def compare(self, name: str, content: Callable[[], str], *, remember: bool) -> None:
        """Before objects are read for the first time: was the definition changed while no server ran?

        remember: keep what it is now, for the next start. A store that takes no write keeps nobody from reading.
        """
        await self._cacher.ready()
        mark = self._cacher.get(_PREFIX + name)
        if mark is None and not remember:
            return
        digest = content()
        if mark is None or mark.content != digest:
            try:
                await self._write(name, digest, changed=mark is not None)
            except StorageError as error:
                log.warning("can't note how %s is defined; clients may keep objects as they were: %s", name, error)

    def changed(self, name: str, content: str) -> None:
        """Called when this server has changed over; the mark follows in a task."""
        self._start(self._until_written(name, content))

    async def _until_written(self, name: str, content: str) -> None:
        while True:
            try:
                await self._write(name, content, changed=True)
            except StorageError as error:
                log.warning("can't note that %s has changed, trying again: %s", name, error)
                await self._sleep(_RETRY)
            else:
                return

    async def _write(self, name: str, content: str, *, changed: bool) -> None:
        key, value = _PREFIX + name, codec.encode_json({"content": content, "changed": changed})
        async with self._locks.setdefault(name, asyncio.Lock()):
            while True:
                current = await self._storage.get(key)
                try:
                    if current is None:
                        revision = await self._storage.create(key, value)
                    else:
                        revision = await self._storage.update(key, value, current.revision)
                except (Conflict, KeyExists, NotFound):
                    continue  # another server was quicker
                if changed:
                    self._written[name] = revision
                return

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _make(item: KeyValue) -> _Mark:
    value = codec.decode_stored(item.value)
    return _Mark(item.key, item.revision, len(item.value), value["content"], value["changed"])


def _at(mark: _Mark, revision: int) -> _Mark:
    return replace(mark, revision=revision)
