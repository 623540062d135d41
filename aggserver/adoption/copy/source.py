"""Source: reads the host's objects of one definition, all of them and then every write, for the copy that is made of them.

There are two ways: the host's API, or directly the cluster's etcd. Both give the values as this server stores them, and the keys
that both stores share. The API is asked for the storage version, if it is served, so that nothing is converted back and forth.

To know that every acknowledged write was delivered, this server makes a write of its own, which the watch delivers after all
earlier ones: it annotates one object, and removes the annotation again. Where a webhook of the cluster refuses that write, the
resourceVersions of all objects are listed, from etcd and not from kube-apiserver's cache, and compared with what was delivered.
Source: k8s.io/apiserver pkg/storage/cacher (a watch delivers in order), pkg/endpoints/handlers/get.go, v0.36.3.
"""

from __future__ import annotations

import asyncio
import random as randomness
import secrets
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from aggserver.adoption.records.record import CantCopy, HostChange, Mark, Source, SourcePage
from aggserver.apiextensions.definition import Definition, Version
from aggserver.cluster import Cluster, ClusterError, Unreachable
from aggserver.cluster.pacing import RECONNECT, Sleep
from aggserver.cluster.reflector import SHORT_WATCH_SECONDS, WATCH_SECONDS
from aggserver.meta import codec
from aggserver.meta.json_types import JSONObject
from aggserver.meta.versions import sort_key
from aggserver.registry import stored
from aggserver.storage.interface import Event, Storage, StorageError
from aggserver.storage.keys import resource_prefix

__all__ = ["CAUGHT_UP", "APISource", "Bounded", "StorageSource", "reading_version"]

# The annotation by which the end of the host's writes is found. It is removed from what is copied.
CAUGHT_UP = "aggserver.io/caught-up"

LARGEST_PAGE = 500
FIRST_PAGE = 50
# The bytes that a page should have, since objects may have more than a mebibyte each.
PAGE_BYTES = 4 * 1024 * 1024
PAGE_SECONDS = 60.0

# Writes that were delivered and are not copied yet. With more, clients write to the host faster than this server can follow.
MOST_WAITING = 50_000

MOST_NAMED = 5  # objects that an error names

# How often another object is annotated, when the one that was chosen has been deleted meanwhile.
MARK_ATTEMPTS = 10
# Between two checks whether the watch has delivered what a list showed.
COMPARE_SECONDS = 0.02

_ENCRYPTED = b"k8s:enc:"


def reading_version(definition: Definition, taken: Collection[str] = ()) -> Version | None:
    """The version to read the host's objects in; None if none is left. taken: versions whose APIServices lead here already."""
    readable = [each for each in definition.versions if each.served and each.name not in taken]
    if not readable:
        return None
    return min(readable, key=lambda each: (not each.storage, sort_key(each.name)))


class APISource:
    """A `record.Source` that reads the host's API. version: a served one, as `reading_version` chooses it.

    nonce: gives another text each time.
    """

    def __init__(
        self,
        cluster: Cluster,
        definition: Definition,
        version: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        random: Callable[[], float] = randomness.random,
        nonce: Callable[[], str] = lambda: secrets.token_hex(8),
    ) -> None:
        self._cluster = cluster
        self._api_version = f"{definition.group}/{version}"
        self._plural = definition.names.plural
        self._kind = definition.names.kind
        self._path = f"/apis/{definition.group}/{version}/{definition.names.plural}"
        self._prefix = resource_prefix(definition.group, definition.names.plural)
        self._clock = clock
        self._sleep = sleep
        self._random = random
        self._nonce = nonce
        self._left = asyncio.Event()

    def leave(self) -> None:
        self._left.set()

    async def pages(self) -> AsyncGenerator[SourcePage]:
        query, first, limit, last = {"limit": str(FIRST_PAGE)}, True, FIRST_PAGE, ""
        while True:
            try:
                answer = await self._cluster.request("GET", self._path, query=query, timeout=PAGE_SECONDS)
            except ClusterError as error:
                if error.code == 500 and query["limit"] != "1":
                    # The host can't read an object of the page, and does not say which: read one by one to find it.
                    query, limit = {**query, "limit": "1"}, 1
                    continue
                if error.code == 500:
                    where = f"after {last}" if last else f"first of {self._prefix}"
                    raise CantCopy(f"the host can't read the object that comes {where}: {error}") from error
                if error.code != 410 or first:
                    raise
                query, first = {"limit": str(limit)}, True
                continue
            items = []
            for each in answer.get("items") or ():
                items.append(self._item(each))
                await asyncio.sleep(0)
            metadata = answer["metadata"]
            token = metadata.get("continue") or ""
            remaining = int(metadata.get("remainingItemCount") or 0)
            yield SourcePage(items, int(metadata["resourceVersion"]), remaining, first)
            if not token:
                return
            limit, last = _next_limit(items, limit), items[-1][0] if items else last
            query, first = {"limit": str(limit), "continue": token}, False

    async def changes(self, after: int) -> AsyncGenerator[HostChange]:
        pauses = RECONNECT.pauses(self._random)
        while not self._left.is_set():
            started, seen = self._clock(), after
            try:
                async with aclosing(self._cluster.watch(self._path, self._watch_query(after))) as events:
                    async for event in events:
                        change = self._change(event)
                        after = change.revision
                        yield change
            except (ClusterError, Unreachable) as error:
                # Other errors of the host are lasting, and a new watch would get them again.
                if isinstance(error, ClusterError) and error.code < 500 and error.code != 429:
                    raise
            if self._left.is_set():
                return
            if after > seen or self._clock() - started >= SHORT_WATCH_SECONDS:
                pauses = RECONNECT.pauses(self._random)
            else:
                await self._sleep(next(pauses))

    async def now(self) -> int:
        return int((await self._first_object())["metadata"]["resourceVersion"])

    async def mark(self, seen: Mapping[str, int]) -> Mark:
        for _ in range(MARK_ATTEMPTS):
            found = (await self._first_object()).get("items") or ()
            if not found:
                break
            try:
                return Mark(await self._annotate(found[0]["metadata"]), seen=False)
            except ClusterError as error:
                if error.code != 404:
                    break  # a webhook or the schema of the cluster does not let it pass
        return await self._compare(seen)

    # --- requests ---

    async def _first_object(self) -> JSONObject:
        """A list with at most one object, read from etcd. Its resourceVersion is the newest."""
        return await self._cluster.request("GET", self._path, query={"limit": "1"})

    async def _annotate(self, metadata: JSONObject) -> int:
        """Set the annotation of an object and remove it. Returns the revision of the last write."""
        path = self._object_path(metadata)
        await self._cluster.request("PATCH", path, body=_annotation(self._nonce()))
        try:
            done = await self._cluster.request("PATCH", path, body=_annotation(None))
        except ClusterError as error:
            if error.code != 404:
                raise
            # A client has just deleted the object. That deletion came after our first write, so it serves as the mark as well.
            return await self.now()
        return int(done["metadata"]["resourceVersion"])

    def _object_path(self, metadata: JSONObject) -> str:
        namespace = metadata.get("namespace", "")
        if not namespace:
            return f"{self._path}/{metadata['name']}"
        base = self._path.rpartition("/")[0]
        return f"{base}/namespaces/{namespace}/{self._plural}/{metadata['name']}"

    async def _compare(self, seen: Mapping[str, int]) -> Mark:
        """List the resourceVersions of all objects, and wait until the watch has delivered exactly these."""
        listed: dict[str, int] = {}
        query, revision = {"limit": str(LARGEST_PAGE)}, 0
        while True:
            answer = await self._cluster.request("GET", self._path, query=query, timeout=PAGE_SECONDS)
            revision = int(answer["metadata"]["resourceVersion"])
            for each in answer.get("items") or ():
                listed[self._key(each["metadata"])] = int(each["metadata"]["resourceVersion"])
            if not (token := answer["metadata"].get("continue")):
                break
            query["continue"] = token
        while seen != listed:
            await self._sleep(COMPARE_SECONDS)
        return Mark(revision, seen=True)

    def _watch_query(self, after: int) -> Mapping[str, str]:
        return {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": str(after),
            "timeoutSeconds": str(round(WATCH_SECONDS * (1 + self._random()))),
        }

    # --- values ---

    def _key(self, metadata: Mapping[str, Any]) -> str:
        namespace = metadata.get("namespace", "")
        return f"{self._prefix}{namespace}/{metadata['name']}" if namespace else f"{self._prefix}{metadata['name']}"

    def _item(self, obj: JSONObject) -> tuple[str, bytes, int]:
        metadata = obj["metadata"]
        revision = int(metadata["resourceVersion"])
        return self._key(metadata), _encoded(obj, self._api_version, self._kind), revision

    def _change(self, event: JSONObject) -> HostChange:
        kind, obj = event["type"], event["object"]
        if kind == "ERROR":
            raise ClusterError(int(obj.get("code", 500)), obj.get("reason", ""), obj.get("message", "the watch failed"))
        revision = int(obj["metadata"]["resourceVersion"])
        if kind == "BOOKMARK":
            return HostChange("", None, revision)
        if kind == "DELETED":
            return HostChange(self._key(obj["metadata"]), None, revision)
        return HostChange(*self._item(obj))


class StorageSource:
    """A `record.Source` that reads the cluster's etcd itself. prefix: of the definition's objects, the same in both stores.

    Objects that are encrypted at rest can't be read this way.
    """

    def __init__(self, host: Storage, prefix: str) -> None:
        self._host = host
        self._prefix = prefix
        self._following: _Following | None = None

    def leave(self) -> None:
        """Does nothing: etcd is not reached through the APIServices, so the switch ends no watch of it."""

    async def pages(self) -> AsyncGenerator[SourcePage]:
        start, revision, first, limit = "", 0, True, FIRST_PAGE
        while True:
            page = await self._host.list(self._prefix, revision=revision, start=start, limit=limit)
            items = []
            for each in page.items:
                if each.fault:
                    raise CantCopy(f"{self._host.location(each.key)} can't be read: {each.fault}")
                items.append((each.key, self._value(each.key, each.value), each.revision))
                await asyncio.sleep(0)
            yield SourcePage(items, page.revision, page.remaining, first)
            if not page.more:
                return
            limit = _next_limit(items, limit)
            start, revision, first = page.items[-1].key + "\0", page.revision, False

    async def changes(self, after: int) -> AsyncGenerator[HostChange]:
        following = self._following = _Following()
        subscription = await self._host.watch(self._prefix, after, following)
        following.ask = subscription.progress
        try:
            subscription.progress()
            while True:
                batch, revision = await following.take()
                for event in batch:
                    value = None if event.value is None else self._value(event.key, event.value)
                    yield HostChange(event.key, value, event.revision)
                yield HostChange("", None, revision)
        finally:
            self._following = None
            subscription.close()

    async def now(self) -> int:
        return await self._host.revision()

    async def mark(self, seen: Mapping[str, int]) -> Mark:
        revision = await self._host.revision()
        # By itself etcd reports a revision to subscribers only when something was written below the prefix.
        if self._following is not None:
            self._following.ask()
        return Mark(revision, seen=False)

    def _value(self, key: str, value: bytes) -> bytes:
        if value.startswith(_ENCRYPTED):
            raise CantCopy(
                f"{self._host.location(key)} is encrypted at rest, so only kube-apiserver can read it: "
                "leave out --host-etcd-servers, and the objects are read through the API"
            )
        try:
            obj = codec.decode_stored(value)
            return _encoded(obj, obj["apiVersion"], obj["kind"])
        except (ValueError, KeyError, TypeError, AttributeError):
            raise CantCopy(f"{self._host.location(key)} can't be read: it is not a custom resource in JSON") from None


class Bounded:
    """A `record.Source` that refuses objects larger than this server takes from clients: nobody could update them here.

    most_bytes: of an object as it is stored. Late writes, after `leave`, are not checked. `pages` and `changes` raise CantCopy.
    """

    def __init__(self, source: Source, most_bytes: int) -> None:
        self._source = source
        self._most_bytes = most_bytes
        self._is_left = False

    def leave(self) -> None:
        self._is_left = True
        self._source.leave()

    async def pages(self) -> AsyncGenerator[SourcePage]:
        async with aclosing(self._source.pages()) as pages:
            async for page in pages:
                self._check([(key, len(value)) for key, value, _ in page.items])
                yield page

    async def changes(self, after: int) -> AsyncGenerator[HostChange]:
        async with aclosing(self._source.changes(after)) as changes:
            async for change in changes:
                if not self._is_left:
                    self._check([(change.key, len(change.value or b""))])
                yield change

    async def now(self) -> int:
        return await self._source.now()

    async def mark(self, seen: Mapping[str, int]) -> Mark:
        return await self._source.mark(seen)

    def _check(self, sizes: Sequence[tuple[str, int]]) -> None:
        large = [f"{key} has {size} bytes" for key, size in sizes if size > self._most_bytes]
        if large:
            more = "; and more" if len(large) > MOST_NAMED else ""
            raise CantCopy(f"{'; '.join(large[:MOST_NAMED])}{more}: --max-object-bytes is {self._most_bytes}")


class _Following:
    """The sink of a subscription: events wait here until they are copied."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Sequence[Event], int]] = deque()
        self._count = 0
        self._error: StorageError | CantCopy | None = None
        self._changed = asyncio.Event()
        self.ask: Callable[[], None] = lambda: None

    def events(self, batch: Sequence[Event], revision: int) -> None:
        self._count += len(batch)
        if self._count > MOST_WAITING:
            self._waiting.clear()
            self._error = CantCopy(f"objects are written faster than they are copied: {self._count} writes are waiting")
        elif self._error is None:
            self._waiting.append((batch, revision))
        self._changed.set()

    def lost(self, error: StorageError) -> None:
        self._error = error
        self._changed.set()

    async def take(self) -> tuple[Sequence[Event], int]:
        """The oldest waiting batch, with its revision. Raises the error that ended the subscription."""
        while not self._waiting:
            if self._error is not None:
                raise self._error
            self._changed.clear()
            await self._changed.wait()
        batch, revision = self._waiting.popleft()
        self._count -= len(batch)
        return batch, revision


def _next_limit(items: Sequence[tuple[str, bytes, int]], limit: int) -> int:
    """How many objects the next page should have, by the sizes of the last one."""
    size = sum(len(value) for _, value, _ in items)
    fitting = PAGE_BYTES * len(items) // max(size, 1)
    return max(1, min(LARGEST_PAGE, fitting, limit * 4))


def _encoded(obj: JSONObject, api_version: str, kind: str) -> bytes:
    """The bytes that are stored here, without our annotation."""
    metadata = obj["metadata"]
    annotations = metadata.get("annotations")
    if annotations and CAUGHT_UP in annotations:
        rest = {key: value for key, value in annotations.items() if key != CAUGHT_UP}
        metadata = {key: value for key, value in metadata.items() if key != "annotations"}
        if rest:
            metadata["annotations"] = rest
        obj = {**obj, "metadata": metadata}
    return stored.encode(obj, api_version, kind)


def _annotation(value: str | None) -> JSONObject:
    return {"metadata": {"annotations": {CAUGHT_UP: value}}}
