"""Marks: records in the store of the revision since which the objects of a definition have their current content.

A client whose watch resumes from an older revision must list again, or it would keep objects without the new defaults until
somebody writes them. The definition's own revision can't be used for that: it also changes with labels and status, definitions
from files have none, and until a server has applied the change, its clients get newer revisions of objects with the old content.
So a server writes a mark after it has applied the change. The revision of that write is newer than that of every object sent with
the old content. Objects read between the change and its mark are older than the mark, although they have the new content; clients
that hold them list once more. A restart without a change writes nothing and refuses no watch.

A second mark, beside the first, says since when the store has the objects at all: they may have been moved here from another
server. Watches and lists that began there can't be continued here.

All servers of a store read each other's marks, since a client may reconnect to a server that applied the change earlier.
Keys are `/aggserver/definitions/<name>`, and `/aggserver/definitions/<name>/objects` for the second mark; no custom resource has
the group `aggserver`, since their groups have a dot.
Source: none. kube-apiserver's watch cache starts empty after a change, so it can't resume from older revisions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace

from aggserver.meta import codec
from aggserver.meta.json_types import JSONObject
from aggserver.storage import records
from aggserver.storage.cacher import Cacher
from aggserver.storage.compare_and_swap import OVERTAKEN, swap
from aggserver.storage.interface import Corrupt, KeyValue, Storage, StorageError
from aggserver.storage.keys import resource_prefix

__all__ = ["PREFIX", "Marks", "read_mark"]

log = logging.getLogger("aggserver.definitions")

PREFIX = resource_prefix("aggserver", "definitions")
_OBJECTS = "/objects"  # after the name of a definition
_DAMAGED = "damaged"  # the content of a mark that can't be read; no digest is equal to it
# Seconds between attempts to write a mark, while the store refuses writes.
_RETRY = 1.0


@dataclass(frozen=True, slots=True)
class _Mark:
    """content: digest of the content. changed: whether there was other content before, so that older watches must not resume."""

    key: str
    revision: int
    size: int
    content: str
    changed: bool


class Marks:
    """Reads and writes the marks. corrupt, behind: see `Cacher`; marks that are either are added."""

    def __init__(
        self,
        storage: Storage,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        *,
        corrupt: dict[str, Corrupt] | None = None,
        behind: dict[str, str] | None = None,
    ) -> None:
        self._storage = storage
        self._sleep = sleep
        self._cacher: Cacher[_Mark] = Cacher(storage, PREFIX, make=read_mark, at=_at, corrupt=corrupt, behind=behind)
        self._written: dict[str, int] = {}  # by this server, since etcd's event arrives later
        self._locks: dict[str, asyncio.Lock] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def since(self, name: str) -> int:
        """The revision since which objects have the current content; 0 if all objects that clients hold have it."""
        return max(self._since(name), self.objects_since(name))

    def objects_since(self, name: str) -> int:
        """The revision since which the store has the objects of a definition; 0 if it always had."""
        return self._since(name + _OBJECTS)

    def _since(self, name: str) -> int:
        mark = self._get(name)
        return max(self._written.get(name, 0), mark.revision if mark is not None and mark.changed else 0)

    def _get(self, name: str) -> _Mark | None:
        """The mark in the watch cache. A damaged mark counts as a change, so that clients list once more."""
        try:
            return self._cacher.get(PREFIX + name)
        except Corrupt as error:
            return _Mark(error.key, error.revision, 0, _DAMAGED, changed=True)

    async def compare(self, name: str, content: Callable[[], str], *, remember: bool) -> None:
        """Called before objects are read for the first time: write a mark if the definition changed while no server ran.

        remember: whether to write a first mark, for the next start. If the store refuses the write, that is only logged.
        """
        await self._cacher.sync()  # another server may just have moved the objects here
        mark, moved = self._get(name), self._get(name + _OBJECTS)
        try:
            if moved is not None and moved.content == _DAMAGED:
                await self._write(name + _OBJECTS, "", changed=True)
            if mark is None and not remember:
                return
            digest = content()
            if mark is None or mark.content != digest:
                await self._write(name, digest, changed=mark is not None)
        except StorageError as error:
            log.warning("could not record the content of definition %s; clients may keep outdated objects: %s", name, error)

    def changed(self, name: str, content: str) -> None:
        """Called after this server has applied a change; the mark is written in a task."""
        self._start(self._write_with_retries(name, content))

    async def imported(self, name: str) -> int:
        """Called after objects of a definition were moved here, before clients see them. Returns the revision of the mark.

        Raises StorageError.
        """
        return await self._write(name + _OBJECTS, "", changed=True)

    async def _write_with_retries(self, name: str, content: str) -> None:
        while True:
            try:
                await self._write(name, content, changed=True)
            except StorageError as error:
                log.warning("could not record the change of definition %s, retrying: %s", name, error)
                await self._sleep(_RETRY)
            else:
                return

    async def _write(self, name: str, content: str, *, changed: bool) -> int:
        key, value = PREFIX + name, codec.encode_json({"content": content, "changed": changed})
        async with self._locks.setdefault(name, asyncio.Lock()):
            while True:
                current = await self._storage.get(key)
                try:
                    revision = await swap(self._storage, key, current, value)
                except OVERTAKEN:
                    continue  # another server wrote it first
                if changed:
                    self._written[name] = revision
                return revision

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def read_mark(item: KeyValue) -> _Mark:
    """Decode a mark. Raises DamagedRecord."""

    def read(value: JSONObject) -> _Mark:
        return _Mark(item.key, item.revision, len(item.value), value["content"], value["changed"])

    return records.decode(item, read)


def _at(mark: _Mark, revision: int) -> _Mark:
    return replace(mark, revision=revision)
