"""`aggserver storage check --storage etcd`: whether every value can be read, and the removal of those that can't.

Only of what aggserver serves: custom resources and definitions, whose group has a dot, and its own namespaces. Below a prefix
that is kube-apiserver's too there is more; and what kube-apiserver has encrypted it alone can read. Neither is looked into or
removed.
Called by `cli.py`. Each value is removed for the revision that was read, so that nobody's write is lost.
"""

from __future__ import annotations

import base64
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from aggserver.storage import keys
from aggserver.storage.interface import Conflict, Corrupt, KeyValue, NotFound, Storage, StorageError

__all__ = ["UnreadableError", "check", "repair"]

PAGE = 1000  # values in memory at once: some MB
MOST_PROBLEMS = 10  # told in the last line; the lines before it have all

# What kube-apiserver puts before protobuf, and before what it has encrypted.
_BINARY, _ENCRYPTED = b"k8s\0", b"k8s:enc:"

Say = Callable[[str], None]
# Returns if the value is one that can be served; raises Corrupt.
Decode = Callable[[KeyValue], object]


class UnreadableError(StorageError):
    """There are values that can't be read; the text names them and says what to do."""


async def check(storage: Storage, decode: Decode, say: Say) -> str:
    """Raises UnreadableError, Unavailable."""
    found = _Contents()
    bad = [error async for _, error in found.unreadable(storage, decode, say)]
    if bad:
        told = "; ".join(_told(storage, error) for error in bad[:MOST_PROBLEMS])
        more = f"; and {len(bad) - MOST_PROBLEMS} more" if len(bad) > MOST_PROBLEMS else ""
        raise UnreadableError(f"{told}{more}. Restore a snapshot of etcd, or remove these: aggserver storage check --repair")
    return f"all that is stored can be read: {found.describe()}"


async def repair(storage: Storage, decode: Decode, say: Say, folder: Path) -> str:
    """Removes what can't be read, after a copy of it is on the disk in a file of `folder`. Raises Unavailable, OSError."""
    found = _Contents()
    bad = [(item, error) async for item, error in found.unreadable(storage, decode, say)]
    if not bad:
        return f"all that is stored can be read: {found.describe()}; there is nothing to repair"
    copy = folder / f"removed-from-etcd-at-{await storage.revision()}.jsonl"
    _keep(copy, [item for item, _ in bad], storage)
    removed = []
    for item, error in bad:
        try:
            await storage.delete(item.key, item.revision)
        except (Conflict, NotFound):
            say(f"left alone, since somebody has written it meanwhile: {storage.location(item.key)}")
        else:
            say(f"removed: {_told(storage, error)}")
            removed.append(storage.location(item.key))
    named = ", ".join(removed[:MOST_PROBLEMS]) + (" and more" if len(removed) > MOST_PROBLEMS else "")
    return f"removed: {len(removed)} ({named}); a copy of each, with its key, is in {copy}; left: {found.describe()}"


class _Contents:
    """What there is, counted on the way."""

    def __init__(self) -> None:
        self._resources: Counter[str] = Counter()
        self._others = 0
        self._encrypted = 0

    async def unreadable(self, storage: Storage, decode: Decode, say: Say) -> AsyncIterator[tuple[KeyValue, Corrupt]]:
        number = 0
        async for items in _pages(storage):
            for item in items:
                if (error := self._look(item, decode)) is not None:
                    yield item, error
            number += len(items)
            say(f"read {number} values")

    def _look(self, item: KeyValue, decode: Decode) -> Corrupt | None:
        try:
            group, resource, *_ = keys.split(item.key)
        except ValueError:
            group, resource = "", ""
        if not ("." in group or item.key.startswith(f"/{keys.CORE}/")) or item.value.startswith(_BINARY):
            self._others += 1
            return None
        if item.value.startswith(_ENCRYPTED):
            self._encrypted += 1
            return None
        try:
            decode(item)
        except Corrupt as error:
            return error
        self._resources[f"{resource}.{group}" if group else resource] += 1
        return None

    def describe(self) -> str:
        total = sum(self._resources.values())
        resources = ", ".join(f"{name} {count}" for name, count in sorted(self._resources.items()))
        text = f"objects: {total}{f' ({resources})' if resources else ''}"
        if self._encrypted:
            text += f"; encrypted by kube-apiserver, and for it alone: {self._encrypted}"
        return text + (f"; of others, not looked into: {self._others}" if self._others else "")


async def _pages(storage: Storage) -> AsyncIterator[Sequence[KeyValue]]:
    """Everything, as of one revision."""
    page = await storage.list("/", limit=PAGE)
    while page.items:
        yield page.items
        if not page.more:
            return
        page = await storage.list("/", revision=page.revision, start=page.items[-1].key + "\0", limit=PAGE)


def _told(storage: Storage, error: Corrupt) -> str:
    return f"{storage.location(error.key)} at revision {error.revision} can't be read: {error.why}"


def _keep(file: Path, items: Sequence[KeyValue], storage: Storage) -> None:
    """One JSON object a line, on the disk when this returns. Never over another file."""
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as out:
        for item in items:
            value = base64.b64encode(item.value).decode()
            json.dump({"key": storage.location(item.key), "revision": item.revision, "value": value}, out)
            out.write("\n")
        out.flush()
        os.fsync(out.fileno())
