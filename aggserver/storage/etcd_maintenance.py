"""`aggserver storage check --storage etcd`: finds values that can't be read and, with --repair, deletes them.

It checks the objects that aggserver serves: custom resources and definitions, whose group has a dot, its own namespaces, and
its records. The record of an adoption is only reported and never deleted: without it, nobody could give the objects back. A
prefix that is shared with kube-apiserver holds other objects too, and values that kube-apiserver encrypted and only it can read;
those are neither checked nor deleted. Each value is deleted only at the revision that was read, so that no later write is lost.
"""

from __future__ import annotations

import base64
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from aggserver import disk
from aggserver.storage import keys
from aggserver.storage.interface import Conflict, Corrupt, KeyValue, NotFound, Storage, StorageError
from aggserver.storage.records import ADOPTIONS, PREFIX

__all__ = ["UnreadableError", "check", "repair"]

PAGE = 1000  # values in memory at once: a few MB
MOST_PROBLEMS = 10  # keys named in the last line; the lines before it name all

# The keys of aggserver's own namespaces and records, which no kube-apiserver has.
_OURS = (f"/{keys.CORE}/", PREFIX)
# kube-apiserver's prefixes of values in protobuf, and of encrypted values.
_BINARY, _ENCRYPTED = b"k8s\0", b"k8s:enc:"

Say = Callable[[str], None]
# Raises Corrupt if the value can't be served.
Decode = Callable[[KeyValue], object]


class UnreadableError(StorageError):
    """Some values can't be read; the text names them and says what to do."""


async def check(storage: Storage, decode: Decode, say: Say) -> str:
    """Check all values; returns the line that reports success. Raises UnreadableError, Unavailable."""
    found = _Contents()
    bad = [error async for _, error in found.unreadable(storage, decode, say)]
    if bad:
        named = "; ".join(_described(storage, error) for error in bad[:MOST_PROBLEMS])
        more = f"; and {len(bad) - MOST_PROBLEMS} more" if len(bad) > MOST_PROBLEMS else ""
        raise UnreadableError(f"{named}{more}. Restore a snapshot of etcd, or remove these: aggserver storage check --repair")
    return f"all values can be read: {found.describe()}"


async def repair(storage: Storage, decode: Decode, say: Say, folder: Path) -> str:
    """Delete the values that can't be read, after saving them to a file in `folder`. Raises Unavailable, FileError."""
    found = _Contents()
    bad = [(item, error) async for item, error in found.unreadable(storage, decode, say)]
    if not bad:
        return f"all values can be read: {found.describe()}; there is nothing to repair"
    copy = folder / f"removed-from-etcd-at-{await storage.revision()}.jsonl"
    _save(copy, [item for item, _ in bad], storage)
    removed = []
    for item, error in bad:
        if item.key.startswith(ADOPTIONS):
            say(f"not removed, put it right by `etcdctl put` or restore a snapshot: {_described(storage, error)}")
            continue
        try:
            await storage.delete(item.key, item.revision)
        except (Conflict, NotFound):
            say(f"not removed, because it was written meanwhile: {storage.location(item.key)}")
        else:
            say(f"removed: {_described(storage, error)}")
            removed.append(storage.location(item.key))
    named = ", ".join(removed[:MOST_PROBLEMS]) + (" and more" if len(removed) > MOST_PROBLEMS else "")
    return f"removed: {len(removed)} ({named}); a copy of each, with its key, is in {copy}; left: {found.describe()}"


class _Contents:
    """Reads all values, and counts them."""

    def __init__(self) -> None:
        self._resources: Counter[str] = Counter()
        self._others = 0
        self._encrypted = 0

    async def unreadable(self, storage: Storage, decode: Decode, say: Say) -> AsyncIterator[tuple[KeyValue, Corrupt]]:
        number = 0
        async for items in _pages(storage):
            for item in items:
                if (error := self._check(item, decode)) is not None:
                    yield item, error
            number += len(items)
            say(f"read {number} values")

    def _check(self, item: KeyValue, decode: Decode) -> Corrupt | None:
        try:
            group, resource, *_ = keys.split(item.key)
        except ValueError:
            group, resource = "", ""
        if not ("." in group or item.key.startswith(_OURS)) or item.value.startswith(_BINARY):
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
            text += f"; encrypted by kube-apiserver, not checked: {self._encrypted}"
        return text + (f"; of other servers, not checked: {self._others}" if self._others else "")


async def _pages(storage: Storage) -> AsyncIterator[Sequence[KeyValue]]:
    """All values, at one revision."""
    page = await storage.list("/", limit=PAGE, counted=False)
    while page.items:
        yield page.items
        if not page.more:
            return
        page = await storage.list("/", revision=page.revision, start=page.items[-1].key + "\0", limit=PAGE, counted=False)


def _described(storage: Storage, error: Corrupt) -> str:
    return f"{storage.location(error.key)} at revision {error.revision} can't be read: {error.why}"


@disk.file_errors()
def _save(file: Path, items: Sequence[KeyValue], storage: Storage) -> None:
    """Write one JSON object per line, and sync the file. Never overwrites a file."""
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as out:
        for item in items:
            value = base64.b64encode(item.value).decode()
            json.dump({"key": storage.location(item.key), "revision": item.revision, "value": value}, out)
            out.write("\n")
        out.flush()
        os.fsync(out.fileno())
