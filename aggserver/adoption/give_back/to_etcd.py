"""Brings the objects of a definition back to the cluster's etcd, and removes the leftovers there.

The two stores have the same keys and values, so a release writes exactly our bytes: uid, generation and managedFields stay.
Only the differences are written: an object that is newer here than the copy that was made of it, and a leftover that is not here
any more. A first pass does that while clients go on writing here. What they write meanwhile is then read from the store's history
and written, too, so that little is left for the moment in which they must not write.

An object that is given back gets a greater revision in the host than it has here. Clients may compare the two, or send a
resourceVersion that they have from here: it must never be the resourceVersion of another state there. So the host's revision is
brought up to ours before each write.

Nobody but a release writes the leftovers: the APIServices are ours, and the guard refuses other writes. That is checked: a
leftover that is newer than the recorded revision must have been written by an interrupted release or cleanup. kube-apiserver ends
every value that it stores with a newline, and a release does not. A cleanup puts an annotation on what it changes.
Source: k8s.io/apimachinery pkg/runtime/serializer/json (Encode), k8s.io/apiserver pkg/storage/value (how encrypted values begin),
v0.36.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import orjson

from aggserver.adoption.leftovers.version import LEFTOVER
from aggserver.adoption.records.record import CantGiveBack, Copied, Given, Progress, being_removed, digest
from aggserver.storage.interface import (
    Compacted,
    Conflict,
    Event,
    KeyExists,
    KeyValue,
    NotFound,
    Storage,
    StorageError,
    TooLarge,
    Unavailable,
)
from aggserver.storage.keys import resource_prefix

__all__ = [
    "RAISED_AT_ONCE",
    "Fault",
    "GiveBackToStore",
    "HostWrite",
    "Leftovers",
    "all_of",
    "difference",
    "fault",
    "fault_text",
    "objects",
    "objects_prefix",
    "raising",
    "written_here",
]

PAGE = 500  # objects read at once
MOST_PENDING = 8 << 20  # bytes of writes that are collected
AT_ONCE = 64  # writes in flight
BEHIND = 200  # the first pass ends when fewer writes than this are left
MOST_ROUNDS = 20  # or after this many rounds, for clients that write faster than the host takes it
MOST_NAMED = 5  # objects that an error names
ATTEMPTS = 3  # of a write whose key has changed meanwhile
RAISED_AT_ONCE = 100_000  # revisions by which the cluster's etcd advances between two checks of what is wanted
_RAISED_A_SECOND = 3_500  # revisions, about

_ENCRYPTED = b"k8s:enc:"

T = TypeVar("T")


class HostWrite(NamedTuple):
    """A write to the host. value: None deletes. expected: the revision that the key has there, 0 if it must not exist."""

    key: str
    value: bytes | None
    expected: int


class Fault(NamedTuple):
    """Why an object of the host must not be written."""

    key: str
    why: str


def objects_prefix(definition: str) -> str:
    """The prefix of all objects of a definition, such as crontabs.stable.example.com, in either store."""
    plural, _, group = definition.partition(".")
    return resource_prefix(group, plural)


def difference(ours: KeyValue | None, theirs: KeyValue | None, copied: Copied) -> HostWrite | None:
    """The write that makes the host's state of a key equal to ours; None if it is equal. At least one of the two exists."""
    if ours is None:
        assert theirs is not None
        return HostWrite(theirs.key, None, theirs.revision)
    if theirs is None:
        return HostWrite(ours.key, _as_given(ours.value), 0)
    if ours.revision <= copied.own_revision and theirs.revision <= copied.host_revision:
        return None
    value = _as_given(ours.value)
    return None if theirs.value == value else HostWrite(ours.key, value, theirs.revision)


def fault(ours: KeyValue | None, theirs: KeyValue | None, copied: Copied) -> Fault | None:
    """Why the host's object must not be written: somebody else has changed it since the move, or it is encrypted; None if it may.

    At least one of the two exists.
    """
    if theirs is None:
        assert ours is not None
        return Fault(ours.key, "is missing") if ours.revision <= copied.own_revision else None
    if theirs.value.startswith(_ENCRYPTED):
        return Fault(theirs.key, "is encrypted, so that only kube-apiserver can read and write it")
    if theirs.revision <= copied.host_revision or _is_marked(theirs.value):
        return None
    if theirs.value.endswith(b"\n") or not theirs.value.startswith(b"{"):
        return Fault(theirs.key, f"was written by kube-apiserver at revision {theirs.revision}, after the move")
    if ours is not None and ours.revision <= copied.own_revision:
        return Fault(ours.key, f"was written at revision {theirs.revision}, although it has not changed here")
    return None


def _is_marked(value: bytes) -> bool:
    """Whether an interrupted removal through the API has taken the finalizers off and left its annotation."""
    if LEFTOVER.encode() not in value:
        return False
    try:
        return LEFTOVER in orjson.loads(value)["metadata"]["annotations"]
    except (ValueError, KeyError, TypeError):
        return False


def _as_given(value: bytes) -> bytes:
    """The value as a release writes it: without the newline that it has if a kube-apiserver wrote it to what is our etcd now."""
    return value.rstrip()


async def written_here(own: Storage, prefix: str, copied: Copied) -> bool:
    """Whether an object was written here since the move. The caller has checked that their number is that of the move."""
    try:
        return bool(await own.history(prefix, copied.own_revision, await own.revision(), 1))
    except Compacted:
        # Since the number is that of the move, none was deleted if none is newer.
        async for item in objects(own, prefix):
            if item.revision > copied.own_revision:
                return True
        return False


class GiveBackToStore:
    """A `record.GiveBack` into the cluster's etcd.

    own, host: the two stores, both started. definition: such as crontabs.stable.example.com; uid: its uid in the cluster.
    """

    through_api = False

    def __init__(self, own: Storage, host: Storage, definition: str, uid: str) -> None:
        self._own = own
        self._host = host
        self._definition = definition
        self._prefix = objects_prefix(definition)
        self._leftovers = Leftovers(host, definition, uid)
        self._followed = 0  # our revision that the host has; 0: not known, so that everything has to be compared
        self._recorded: Copied | None = None  # what the host was seen to have, before this wrote to it

    async def unchanged(self, copied: Copied) -> bool:
        now = await self._own.revision()
        if await self._own.count(self._prefix) != copied.count or await written_here(self._own, self._prefix, copied):
            return False
        if self._recorded != copied and not await self._leftovers.as_recorded(copied):
            return False
        # Remember it, so that asking again in the freeze, and writes in between, need no second read of all objects.
        self._recorded = copied
        self._followed = max(now, self._followed)
        return True

    async def check(self, copied: Copied) -> None:
        await self._leftovers.check_place()
        if await self._leftovers.as_recorded(copied):
            return
        faults: list[Fault] = []
        async for ours, theirs in _pairs(self._own, self._host, self._prefix):
            found = fault(ours, theirs, copied)
            if found is not None:
                faults.append(found)
                if len(faults) > MOST_NAMED:
                    break
        if faults:
            raise CantGiveBack(fault_text("what the move left in the cluster's etcd has changed", faults))

    async def first(self, copied: Copied, progress: Progress) -> Given:
        given = await self._compare(copied, progress)
        for _ in range(MOST_ROUNDS):
            done, seen = await self._follow(copied, progress)
            given = _sum(given, done)
            if seen < BEHIND:
                break
        return given

    async def rest(self, copied: Copied, progress: Progress) -> Given:
        given = Given()
        if not self._followed:
            given = await self._compare(copied, progress)
        seen = 1
        while seen:
            done, seen = await self._follow(copied, progress)
            given = _sum(given, done)
        if await self._own.count(self._prefix) != await self._host.count(self._prefix):
            given = _sum(given, await self._compare(copied, progress))
            ours, theirs = await self._own.count(self._prefix), await self._host.count(self._prefix)
            if ours != theirs:
                raise CantGiveBack(
                    f"{self._definition}: the cluster's etcd has {theirs} objects, and {ours} are here: something else writes"
                )
        return given

    async def _compare(self, copied: Copied, progress: Progress) -> Given:
        """Write all differences. What clients write meanwhile is left to `_follow`."""
        self._followed, self._recorded = 0, None
        began = await self._own.revision()
        total = max(await self._own.count(self._prefix), await self._host.count(self._prefix))
        given, seen, pending = Given(), 0, 0
        writes: list[HostWrite] = []
        async for ours, theirs in _pairs(self._own, self._host, self._prefix):
            seen += 1
            write = difference(ours, theirs, copied)
            if write is not None:
                if ours is not None and ours.fault:
                    raise CantGiveBack(f"{ours.key} is damaged here: {ours.fault}")
                writes.append(write)
                pending += len(write.value or b"")
            if len(writes) == PAGE or pending > MOST_PENDING:
                given = _sum(given, await self._write(writes, copied))
                writes.clear()
                pending = 0
            if seen % PAGE == 0:
                progress(seen, max(seen, total), given.size)
        given = _sum(given, await self._write(writes, copied))
        progress(seen, max(seen, total), given.size)
        self._followed = began
        return given

    async def _follow(self, copied: Copied, progress: Progress) -> tuple[Given, int]:
        """Write to the host what was written here since the last call. Also returns how many writes to our store were seen."""
        now = await self._own.revision()
        given, seen = Given(), 0
        while self._followed < now:
            try:
                events = await self._own.history(self._prefix, self._followed, now, PAGE)
            except Compacted:
                return _sum(given, await self._compare(copied, progress)), BEHIND
            newest = {event.key: event for event in events}
            given = _sum(given, await self._write(await self._planned(list(newest.values())), copied))
            self._followed = events[-1].revision if len(events) == PAGE else now
            seen += len(events)
        return given, seen

    async def _planned(self, events: Sequence[Event]) -> list[HostWrite]:
        writes: list[HostWrite] = []
        for group in _groups(events):
            present = await asyncio.gather(*(self._host.get(event.key) for event in group))
            for event, theirs in zip(group, present, strict=True):
                if event.fault:
                    raise CantGiveBack(f"{event.key} is damaged here: {event.fault}")
                expected = theirs.revision if theirs is not None else 0
                if event.value is not None:
                    value = _as_given(event.value)
                    if theirs is None or theirs.value != value:
                        writes.append(HostWrite(event.key, value, expected))
                elif theirs is not None:
                    writes.append(HostWrite(event.key, None, expected))
        return writes

    async def _write(self, writes: Sequence[HostWrite], copied: Copied) -> Given:
        refused: list[Fault] = []
        if writes:
            self._recorded = None
            await self._raise_host()
        for group in _groups(writes):
            results = await all_of(self._write_one(each, copied) for each in group)
            for write, error in zip(group, results, strict=True):
                if isinstance(error, TooLarge):
                    refused.append(Fault(write.key, f"has {len(write.value or b'')} bytes, too many for that etcd: {error}"))
                elif error is not None:
                    raise error
        if refused:
            raise CantGiveBack(fault_text("the cluster's etcd does not take all objects", refused))
        deleted = sum(write.value is None for write in writes)
        return Given(len(writes) - deleted, deleted, _size(writes))

    async def _raise_host(self) -> None:
        """Bring the host's revision up to ours, and so past those of all objects read, unless it is too far behind."""
        try:
            await self._host.advance(await self._own.revision())
        except Unavailable:
            raise
        except StorageError:
            return  # the caller of `rest` asks for the same, and decides what follows from the error

    async def _write_one(self, write: HostWrite, copied: Copied) -> None:
        for _ in range(ATTEMPTS):
            try:
                if write.value is None:
                    await self._host.delete(write.key, write.expected)
                elif write.expected:
                    await self._host.update(write.key, write.value, write.expected)
                else:
                    await self._host.create(write.key, write.value)
            except NotFound:
                if write.value is None:
                    return
                write = write._replace(expected=0)
            except (Conflict, KeyExists) as error:
                # Written by an earlier attempt whose answer was lost, or by a release that goes on in another server.
                if error.current.value == write.value:
                    return
                found = fault(None, error.current, copied)
                if found is not None:
                    raise CantGiveBack(fault_text("what the move left in the cluster's etcd has changed", [found])) from None
                write = write._replace(expected=error.current.revision)
            else:
                return
        raise CantGiveBack(f"{write.key}: something else goes on writing it in the cluster's etcd")


class Leftovers:
    """The objects of one definition that stayed in the cluster's etcd. uid: the definition's in the cluster."""

    def __init__(self, host: Storage, definition: str, uid: str) -> None:
        self._host = host
        self._definition = definition
        self._uid = uid
        self._prefix = objects_prefix(definition)

    async def check_place(self) -> None:
        """Check that this is the etcd and the prefix in which the cluster keeps its definitions. Raises CantGiveBack."""
        key = f"/apiextensions.k8s.io/customresourcedefinitions/{self._definition}"
        at = self._host.location(key)
        found = await self._host.get(key)
        if found is None:
            raise CantGiveBack(f"{at} is not there: --host-etcd-servers and --host-etcd-prefix must be the cluster's own")
        if found.value.startswith(_ENCRYPTED):
            raise CantGiveBack(f"{at} is encrypted: where custom resources are, only kube-apiserver can write them")
        try:
            uid = orjson.loads(found.value)["metadata"]["uid"]
        except (ValueError, KeyError, TypeError):
            raise CantGiveBack(f"{at} can't be read: it is not stored as JSON") from None
        if uid != self._uid:
            raise CantGiveBack(
                f"{at} has the uid {uid}, and the cluster's {self._definition} has {self._uid}: --host-etcd-servers and "
                "--host-etcd-prefix must be the cluster's own"
            )

    async def as_recorded(self, copied: Copied) -> bool:
        """Whether the number, keys and revisions of the objects are those at the moment of the move.

        Raises CantGiveBack if one is encrypted.
        """
        if await self._host.count(self._prefix) != copied.count:
            return False
        pairs: list[tuple[str, int]] = []
        async for item in objects(self._host, self._prefix):
            if item.value.startswith(_ENCRYPTED):
                encrypted = Fault(item.key, "is encrypted, so that only kube-apiserver can read and write it")
                raise CantGiveBack(fault_text("the cluster encrypts these objects", [encrypted]))
            pairs.append((item.key, item.revision))
        return await asyncio.to_thread(digest, pairs) == copied.digest

    async def check_removable(self, copied: Copied) -> Copied:
        """What to record before `remove`. Raises CantGiveBack if the leftovers are not those that were copied.

        From then on every object here counts as newer than what the cluster's etcd has, so that no release relies on what an
        interrupted removal leaves.
        """
        await self.check_place()
        if copied.is_being_removed:
            return copied
        if not await self.as_recorded(copied):
            raise CantGiveBack(
                f"{self._definition}: the cluster's etcd has {await self._host.count(self._prefix)} objects, and {copied.count} "
                "were copied, or some have changed since: nothing is removed"
            )
        return being_removed(copied)

    async def remove(self, copied: Copied, progress: Progress) -> int:
        """Remove all leftovers. What `check_removable` returned must be recorded before. Returns how many were removed.

        Raises CantGiveBack at an object that was written after the move, which is not removed.
        """
        total, removed, size = await self._host.count(self._prefix), 0, 0
        while True:
            items = (await self._host.list(self._prefix, limit=PAGE)).items
            if not items:
                return removed
            faults = [found for item in items if (found := fault(None, item, copied)) is not None]
            if faults:
                raise CantGiveBack(fault_text("not all that is left in the cluster's etcd was copied", faults))
            for group in _groups(items):
                for error in await all_of(map(self._delete, group)):
                    if error is not None:
                        raise error
            removed += len(items)
            size += sum(len(item.value) for item in items)
            progress(removed, max(total, removed), size)

    async def _delete(self, item: KeyValue) -> None:
        try:
            await self._host.delete(item.key, item.revision)
        except NotFound:
            return
        except Conflict:
            return  # the next page shows by whom


async def objects(store: Storage, prefix: str) -> AsyncIterator[KeyValue]:
    """All objects, sorted by key. Pages are read one after the other, not at one revision."""
    start = ""
    while True:
        page = await store.list(prefix, start=start, limit=PAGE)
        for item in page.items:
            yield item
        if not page.more:
            return
        start = page.items[-1].key + "\0"
        await asyncio.sleep(0)


async def _pairs(own: Storage, host: Storage, prefix: str) -> AsyncIterator[tuple[KeyValue | None, KeyValue | None]]:
    """The objects of both stores by key: ours, and the host's."""
    mine, other = objects(own, prefix), objects(host, prefix)
    ours, theirs = await anext(mine, None), await anext(other, None)
    while ours is not None or theirs is not None:
        if theirs is None or (ours is not None and ours.key.encode() < theirs.key.encode()):
            yield ours, None
            ours = await anext(mine, None)
        elif ours is None or ours.key != theirs.key:
            yield None, theirs
            theirs = await anext(other, None)
        else:
            yield ours, theirs
            ours, theirs = await anext(mine, None), await anext(other, None)


def _groups(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[at : at + AT_ONCE] for at in range(0, len(items), AT_ONCE))


async def all_of(calls: Iterable[Awaitable[T]]) -> list[T | BaseException]:
    """The result or error of each call. Waits for all, so that none is under way when the caller goes on after an error."""
    return await asyncio.gather(*calls, return_exceptions=True)


def _size(writes: Iterable[HostWrite]) -> int:
    return sum(len(write.value) for write in writes if write.value is not None)


def _sum(a: Given, b: Given) -> Given:
    return Given(a.written + b.written, a.deleted + b.deleted, a.size + b.size, (*a.messages, *b.messages))


def fault_text(what: str, faults: Sequence[Fault]) -> str:
    """The text of an error that names the first of the objects."""
    named = "; ".join(f"{each.key} {each.why}" for each in faults[:MOST_NAMED])
    return f"{what}: {named}{'; and more' if len(faults) > MOST_NAMED else ''}"


def raising(lacking: int) -> str:
    """By how much the cluster's etcd has to advance and how long that takes, as text for people."""
    return f"{lacking} revisions, about {lacking / _RAISED_A_SECOND / 60:.0f} minutes"
