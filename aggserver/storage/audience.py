"""Audience: the watches of one prefix, arranged so that an event finds those that may get it. Pure.

Watches with equal selectors are a group, for which an event is matched once. A group is filed under one condition of its selector
that can be looked up (`predicate.py`): under the numbers that the condition names, or, if they are too many, under the condition
itself, which is tried once for all groups that have it. So a write costs nothing for watches that it can't match.
Source: k8s.io/apiserver pkg/storage/cacher/cacher.go (indexedWatchers), v0.36.3, which files watches by namespace and name only.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar

from aggserver.storage.changes import Cached
from aggserver.storage.interface import Corrupt
from aggserver.storage.predicate import ABSENT, AttributeFamily, Lookup, Predicate

__all__ = ["Audience", "Group", "HasPredicate"]

T = TypeVar("T", bound=Cached)


class HasPredicate(Protocol[T]):
    """What is known of a watch here."""

    @property
    def predicate(self) -> Predicate[T] | None: ...


W = TypeVar("W", bound=HasPredicate)  # type: ignore[type-arg]


class Group(Generic[T, W]):
    """The watches with one selector; `predicate` is None for those without one."""

    __slots__ = ("predicate", "watches")

    def __init__(self, predicate: Predicate[T] | None) -> None:
        self.predicate = predicate
        self.watches: dict[W, None] = {}


class _Filed(Generic[T, W]):
    """The groups that are filed by the attributes of one family. None of the mappings has an empty one."""

    __slots__ = ("by_absence", "by_lookup", "by_number", "groups")

    def __init__(self) -> None:
        self.groups: dict[Group[T, W], None] = {}
        # By the name of the attribute, and its number. by_absence: those that want none, by name.
        self.by_number: dict[str, dict[int, dict[Group[T, W], None]]] = {}
        self.by_absence: dict[str, dict[Group[T, W], None]] = {}
        self.by_lookup: dict[Lookup[T], dict[Group[T, W], None]] = {}


class Audience(Generic[T, W]):
    """The watches of one prefix."""

    __slots__ = ("_anywhere", "_families", "_groups")

    def __init__(self) -> None:
        self._groups: dict[Hashable, Group[T, W]] = {}
        self._anywhere: dict[Group[T, W], None] = {}  # those that have nothing to look up
        self._families: dict[AttributeFamily[T], _Filed[T, W]] = {}

    def __len__(self) -> int:
        return sum(len(group.watches) for group in self._groups.values())

    def __iter__(self) -> Iterator[W]:
        for group in self._groups.values():
            yield from group.watches

    def add(self, watch: W) -> None:
        predicate: Predicate[T] | None = watch.predicate
        identity = None if predicate is None else predicate.identity
        group = self._groups.get(identity)
        if group is None:
            group = self._groups[identity] = Group(predicate)
            self._file(group)
        group.watches[watch] = None

    def discard(self, watch: W) -> None:
        predicate: Predicate[T] | None = watch.predicate
        identity = None if predicate is None else predicate.identity
        group = self._groups.get(identity)
        if group is None:
            return
        group.watches.pop(watch, None)
        if not group.watches:
            del self._groups[identity]
            self._unfile(group)

    def _file(self, group: Group[T, W]) -> None:
        lookup = _filed_under(group.predicate)
        if lookup is None:
            self._anywhere[group] = None
            return
        family = self._families.setdefault(lookup.family, _Filed())
        family.groups[group] = None
        numbers = lookup.numbers
        if numbers is None:
            family.by_lookup.setdefault(lookup, {})[group] = None
            return
        for number in numbers:
            if number == ABSENT:
                family.by_absence.setdefault(lookup.name, {})[group] = None
            family.by_number.setdefault(lookup.name, {}).setdefault(number, {})[group] = None

    def _unfile(self, group: Group[T, W]) -> None:
        lookup = _filed_under(group.predicate)
        if lookup is None:
            del self._anywhere[group]
            return
        family = self._families[lookup.family]
        del family.groups[group]
        if not family.groups:
            del self._families[lookup.family]
            return
        numbers = lookup.numbers
        if numbers is None:
            _remove(family.by_lookup, lookup, group)
            return
        for number in numbers:
            if number == ABSENT:
                _remove(family.by_absence, lookup.name, group)
            values = family.by_number[lookup.name]
            _remove(values, number, group)
            if not values:
                del family.by_number[lookup.name]

    def groups_for(self, objects: Iterable[T]) -> Iterable[Group[T, W]]:
        """The groups that may get an event. objects: the event's object before and after the change."""
        if not self._families:
            return list(self._anywhere)
        found = dict(self._anywhere)
        for key, family in self._families.items():
            for obj in objects:
                try:
                    values = key.read(obj)
                except Corrupt:
                    found |= family.groups  # each ends with that error when it matches the object
                    continue
                _look_up(key, family, values, found)
        return list(found)


def _look_up(key: AttributeFamily[T], family: _Filed[T, W], values: Mapping[str, str], found: dict[Group[T, W], None]) -> None:
    """Add the groups that may match an object with these attributes."""
    by_number = family.by_number
    # The fewer of both are gone through: a selector may name many attributes, and an object may have many.
    for name in values.keys() & by_number.keys():
        found |= by_number[name].get(key.number(values[name]), _NONE)
    for name, groups in family.by_absence.items():
        if name not in values:
            found |= groups
    for lookup, groups in family.by_lookup.items():
        if lookup.met_by(key.number_in(values, lookup.name)):
            found |= groups


_NONE: Mapping[Group, None] = {}  # type: ignore[type-arg]


def _filed_under(predicate: Predicate[T] | None) -> Lookup[T] | None:
    """The condition that the fewest numbers meet; None if there is none."""
    if predicate is None or not predicate.lookups:
        return None
    return min(predicate.lookups, key=_breadth)


def _breadth(lookup: Lookup[T]) -> int:
    """How many numbers meet a condition."""
    return sum(end - first for first, end in lookup.spans)


K = TypeVar("K", bound=Hashable)


def _remove(filed: dict[K, dict[Group[T, W], None]], key: K, group: Group[T, W]) -> None:
    del filed[key][group]
    if not filed[key]:
        del filed[key]
