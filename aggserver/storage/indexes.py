"""Indexes of a watch cache: which objects have a value of an attribute, so that a selector costs what matches it.

An index has the keys of all objects, those without the attribute too, sorted by the number of the value (`predicate.py`). So
the objects with one of some values are slices of it, those with any other value are the rest, and both are found without a look
at others. It is built when a selector first asks for its attribute, in slices of a millisecond between which writes go on, and it
follows the writes from then on. There are few at a time: those asked for last, and none that nobody has used in ten minutes.
Source: none. kube-apiserver's watch cache looks at every object (pkg/storage/cacher/cacher.go, GetList, v0.36.3).
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Generic, TypeVar

from aggserver.storage.changes import Cached
from aggserver.storage.fair_turns import FairTurns
from aggserver.storage.interface import Corrupt
from aggserver.storage.ordered import Ordered
from aggserver.storage.postings import Piece, Postings
from aggserver.storage.predicate import AttributeFamily, Lookup, Predicate

__all__ = ["AT_ONCE", "FEW", "SLICE_SECONDS", "Found", "Indexes"]

SMALLEST = 500  # objects for which an index is worth its memory; fewer are looked at in half a millisecond
MOST = 32  # indexes of a resource: each costs 20 bytes an object, and a fraction of a microsecond a write
FOR_ONE = 4  # indexes for one selector, of which the best is used
IDLE = 600.0  # seconds after which an index that nobody has used is dropped
# Values that are looked up for one condition. For more, every object is looked at, however many values there are.
MOST_VALUES = 1000
FEW = 20  # candidates that are looked up in any case, and in one go
AT_ONCE = 500  # candidates that are looked at without letting other requests run
LOOK_BUILDING = 1000  # objects read for an index before other requests run; fewer where a slice takes longer
SLICE_SECONDS = 0.001
CLOCK_EVERY = 200  # objects between two looks at the clock: a turn of the event loop costs as much as reading a hundred

T = TypeVar("T", bound=Cached)

# The attributes of an object; None if there is no object.
_Values = Mapping[str, str] | None
# Stands for the attributes of an object that can't be read. It is a candidate of every selector, since a read of it must fail.
_UNREADABLE: Mapping[str, str] = {}
_NONE: Mapping[str, Any] = {}


@dataclass(slots=True)
class Found:
    """The candidates of a selector at one moment. runs: lists of their keys; in order and sorted if `is_sorted`."""

    runs: Sequence[list[str]]
    count: int
    is_sorted: bool

    def at_once(self) -> list[str]:
        """The keys, sorted. For few of them."""
        keys = self.runs[0] if len(self.runs) == 1 else list(chain.from_iterable(self.runs))
        if not self.is_sorted:
            keys.sort()
        return keys

    async def in_order(self, turns: FairTurns, user: str) -> list[str]:
        """The keys, sorted. Lets other requests run while it sorts."""
        if self.is_sorted:
            return list(chain.from_iterable(self.runs))
        runs = []
        for run in _joined(self.runs):
            run.sort()
            runs.append(run)
            await turns.turn(user)
        merged = heapq.merge(*runs)
        keys: list[str] = []
        while part := list(islice(merged, AT_ONCE)):
            keys += part
            await turns.turn(user)
        return keys


def _joined(runs: Iterable[list[str]]) -> Iterator[list[str]]:
    """Short lists together, so that thousands of values become few lists."""
    joined: list[str] = []
    for run in runs:
        if joined and len(joined) + len(run) > 2 * AT_ONCE:
            yield joined
            joined = []
        joined += run
    yield joined


class _Index(Generic[T]):
    """The index of one attribute. until: the key up to which it is built, None if it is whole. building: its task."""

    __slots__ = ("building", "family", "name", "postings", "unreadable", "until", "used")

    def __init__(self, family: AttributeFamily[T], name: str, used: float) -> None:
        self.family = family
        self.name = name
        self.used = used
        self.postings = Postings()
        self.unreadable: set[str] = set()
        self.building: asyncio.Task[None] | None = None
        self.until: str | None = ""

    def pieces(self, lookup: Lookup[T], start: str, end: str) -> list[Piece]:
        """Where the keys are that meet a condition."""
        return [piece for span in lookup.spans for piece in self.postings.pieces(span, start, end)]

    def found(self, lookup: Lookup[T], pieces: Sequence[Piece], start: str, end: str) -> Found:
        runs = [self.postings.keys(piece) for piece in pieces]
        if not lookup.is_one_number:
            runs = [[key for key in run if start <= key < end] for run in runs]
        if self.unreadable:
            runs.append([key for key in self.unreadable if start <= key < end])
        return Found(runs, sum(map(len, runs)), is_sorted=lookup.is_one_number and not self.unreadable)

    def replace(self, key: str, old: _Values, new: _Values) -> bool:
        """Follow a write. False if the index can't be right: the object was read otherwise before."""
        both_readable = old is not _UNREADABLE and new is not _UNREADABLE
        if old is not None and new is not None and both_readable and old.get(self.name) == new.get(self.name):
            return True
        if old is _UNREADABLE or key in self.unreadable:
            if key not in self.unreadable:
                return False
            self.unreadable.remove(key)
        elif old is not None and not self.postings.remove(self.family.number_in(old, self.name), key):
            return False
        if new is _UNREADABLE:
            self.unreadable.add(key)
        elif new is not None:
            self.postings.add(self.family.number_in(new, self.name), [key])
        return True


class Indexes(Generic[T]):
    """The indexes of the objects of a cache. clock: monotonic, in seconds. `turns` are taken while one is built."""

    def __init__(self, objects: Ordered[T], turns: FairTurns, clock: Callable[[], float]) -> None:
        self._objects = objects
        self._turns = turns
        self._clock = clock
        self._families: dict[AttributeFamily[T], dict[str, _Index[T]]] = {}
        self._next_look = 0.0  # the time to look for unused ones

    def all(self) -> list[_Index[T]]:
        return [index for indexes in self._families.values() for index in indexes.values()]

    # Building

    async def prepare(self, predicate: Predicate[T], user: str) -> None:
        """Build the indexes that a predicate can use, if they are not there and the objects are many.

        Concurrent callers share the work. user: whose turns are taken for it.
        """
        now = self._clock()
        for lookup in predicate.lookups[:FOR_ONE]:
            index = self._families.get(lookup.family, _NONE).get(lookup.name)
            if index is None or index.until is not None:
                await self._build_for(predicate, user, now)
                return
            index.used = now

    async def _build_for(self, predicate: Predicate[T], user: str, now: float) -> None:
        lookups = [one for one in predicate.lookups if len(one.spans) <= MOST_VALUES][:FOR_ONE]
        if not lookups or len(self._objects) < SMALLEST:
            return
        wanted = [self._index(one, now) for one in lookups]
        missing = [index for index in wanted if index.until is not None and index.building is None]
        if missing:
            task = asyncio.create_task(self._build(missing, user))
            task.add_done_callback(lambda done: self._built(missing, done))
            for index in missing:
                index.building = task
            self._drop_excess()
        building = {index.building for index in wanted if index.building is not None}
        if building:
            # Not cancelled with the caller, because others may be waiting.
            await asyncio.wait(building)
            await self._turns.turn(user)  # all who waited go on now

    def _index(self, lookup: Lookup[T], now: float) -> _Index[T]:
        family = self._families.setdefault(lookup.family, {})
        if lookup.name not in family:
            family[lookup.name] = _Index(lookup.family, lookup.name, now)
        index = family[lookup.name]
        index.used = now
        return index

    async def _build(self, building: Sequence[_Index[T]], user: str) -> None:
        start: str | None = ""
        while start is not None:
            await self._turns.turn(user)
            start = self._build_on(building, start)
        for index in building:
            index.until = None

    def _build_on(self, building: Sequence[_Index[T]], start: str) -> str | None:
        """Add objects from the key `start` on, for a millisecond. Returns where to go on, None at the end."""
        families: dict[AttributeFamily[T], list[_Index[T]]] = {}
        for index in building:
            families.setdefault(index.family, []).append(index)
        found: dict[_Index[T], dict[int, list[str]]] = {index: {} for index in building}
        clock, last = self._clock, ""
        over = clock() + SLICE_SECONDS
        begin = self._objects.position(start)
        items = self._objects.items(begin, begin + LOOK_BUILDING)
        for examined, (last, item) in enumerate(items, 1):
            for family, indexes in families.items():
                try:
                    values = family.once(item)
                except Corrupt:
                    for index in indexes:
                        index.unreadable.add(last)
                    continue
                for index in indexes:
                    found[index].setdefault(family.number_in(values, index.name), []).append(last)
            if not examined % CLOCK_EVERY and clock() >= over:
                break
        for index, numbers in found.items():
            index.until = last or index.until
            for number, keys in numbers.items():
                index.postings.add(number, keys)
        return last + "\0" if last else None

    def _built(self, building: Sequence[_Index[T]], task: asyncio.Task[None]) -> None:
        failed = task.cancelled() or task.exception() is not None
        for index in building:
            index.building = None
            if failed:
                self._drop(index)

    # Following

    def apply(self, key: str, old: T | None, new: T | None, now: float) -> None:
        """Follow a write. old, new: the object before and after it, None if there is none. now: the time by the clock."""
        for family, indexes in list(self._families.items()):
            before, after = _read(family, old), _read(family, new)
            for index in list(indexes.values()):
                # Those that are being built will come to the later keys.
                is_there = index.until is None or key <= index.until
                if is_there and not index.replace(key, before, after):
                    self._drop(index)
        if now >= self._next_look:
            self._next_look = now + IDLE / 10
            for index in self.all():
                if index.until is None and index.used < now - IDLE:
                    self._drop(index)

    def _drop_excess(self) -> None:
        """Drop those used longest ago, if they are too many."""
        indexes = self.all()
        whole = sorted((index for index in indexes if index.until is None), key=_used)
        for index in whole[: max(len(indexes) - MOST, 0)]:
            self._drop(index)

    def _drop(self, index: _Index[T]) -> None:
        indexes = self._families.get(index.family, {})
        if indexes.get(index.name) is index:
            del indexes[index.name]
            if not indexes:
                del self._families[index.family]

    def clear(self) -> None:
        """Drop all, because objects are read in another way from now on, or are others."""
        for index in self.all():
            if index.building is not None:
                index.building.cancel()
        self._families.clear()

    # Finding

    def find(self, predicate: Predicate[T], start: str, end: str) -> Found | None:
        """The keys with start <= key < end whose objects may match; None if every object there must be looked at."""
        best: tuple[int, _Index[T], Lookup[T], Sequence[Piece]] | None = None
        for lookup in predicate.lookups:
            index = self._families.get(lookup.family, _NONE).get(lookup.name)
            if index is None or index.until is not None or len(lookup.spans) > MOST_VALUES:
                continue
            pieces = index.pieces(lookup, start, end)
            count = sum([last - first for _, first, last in pieces]) + len(index.unreadable)
            if best is None or count < best[0]:
                best = count, index, lookup, pieces
        if best is None:
            return None
        count, index, lookup, pieces = best
        if count > FEW:
            first, last = self._objects.span(start, end)
            # To look at all of them is faster than to look up half of them.
            if 2 * count > last - first:
                return None
        return index.found(lookup, pieces, start, end)


def _used(index: _Index[T]) -> float:
    return index.used


def _read(family: AttributeFamily[T], obj: T | None) -> _Values:
    if obj is None:
        return None
    try:
        return family.read(obj)
    except Corrupt:
        return _UNREADABLE
