"""Kept metadata: which metadata of an object its source tells, and which the server keeps beside it.

The source always wins: a label that it tells is its own, and clients can't change it. All else that clients set is kept. Three
values meet here, each a part of `metadata` with only the members of `MEMBERS`: the source's own, what is kept, and both merged,
which is what clients see. Pure.
Source: the members are those of ObjectMeta that clients and the write loop set, k8s.io/apimachinery pkg/apis/meta/v1/types.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aggserver.meta.field import FieldError, Path, forbidden
from aggserver.meta.json_types import JSONMapping, JSONObject

__all__ = ["MEMBERS", "changed_own", "kept_of", "merged", "part", "rebased", "replaced", "returning"]

_MAPS = ("labels", "annotations")
# How the items of a list are told from each other.
_LISTS: dict[str, Callable[[Any], Any]] = {"finalizers": str, "ownerReferences": lambda item: item.get("uid")}
_DELETION = ("deletionTimestamp", "deletionGracePeriodSeconds")
_MANAGED = "managedFields"
MEMBERS = (*_MAPS, *_LISTS, *_DELETION, _MANAGED)

_METADATA = Path("metadata")


def part(metadata: JSONMapping) -> JSONObject:
    """What of an object's metadata is one of `MEMBERS` and not empty."""
    return {name: metadata[name] for name in MEMBERS if metadata.get(name) not in (None, {}, [])}


def replaced(metadata: JSONMapping, members: JSONMapping) -> JSONObject:
    """`metadata` with these members in place of all that it has of `MEMBERS`."""
    return {**{name: value for name, value in metadata.items() if name not in MEMBERS}, **members}


def merged(own: JSONMapping, kept: JSONMapping) -> JSONObject:
    """What clients see."""
    found: JSONObject = dict(own)
    for name in _MAPS:
        if name in kept:
            found[name] = dict(sorted({**kept[name], **own.get(name, {})}.items()))
    for name, identity in _LISTS.items():
        if name in kept:
            there = {identity(item) for item in own.get(name, ())}
            found[name] = [*own.get(name, ()), *(item for item in kept[name] if identity(item) not in there)]
    if "deletionTimestamp" not in own:
        found.update((name, kept[name]) for name in _DELETION if name in kept)
    if _MANAGED in kept:
        found[_MANAGED] = kept[_MANAGED]
    return found


def kept_of(wanted: JSONMapping, own: JSONMapping) -> JSONObject:
    """What has to be kept, so that together with the source's own it is what is wanted, as far as the source allows that."""
    found: JSONObject = {}
    for name in _MAPS:
        found[name] = {key: value for key, value in wanted.get(name, {}).items() if key not in own.get(name, {})}
    for name, identity in _LISTS.items():
        there = {identity(item) for item in own.get(name, ())}
        found[name] = [item for item in wanted.get(name, ()) if identity(item) not in there]
    if "deletionTimestamp" not in own:
        found.update((name, wanted[name]) for name in _DELETION if name in wanted)
    found[_MANAGED] = wanted.get(_MANAGED)
    return part(found)


def changed_own(wanted: JSONMapping, own: JSONMapping) -> list[FieldError]:
    """Errors for labels and annotations of the source that a client wants otherwise: they would be lost."""
    found = []
    for name in _MAPS:
        for key, value in own.get(name, {}).items():
            if wanted.get(name, {}).get(key, value) != value:
                found.append(forbidden(_METADATA.child(name).key(key), "comes from the source of this resource"))
    return found


def returning(wanted: JSONMapping, own: JSONMapping) -> list[str]:
    """Warnings for what of the source's own a client has taken away, or has set otherwise: it stays as the source has it."""
    found = []
    for name in _MAPS:
        given = wanted.get(name, {})
        found += [f"metadata.{name}[{key}]" for key, value in own.get(name, {}).items() if given.get(key) != value]
    for name, identity in _LISTS.items():
        left = {identity(item) for item in wanted.get(name, ())}
        found += [f"metadata.{name}: {identity(item)}" for item in own.get(name, ()) if identity(item) not in left]
    return [f"{each} comes from the source of this resource, and stays as it is there" for each in found]


def rebased(before: JSONMapping, after: JSONMapping, now: JSONMapping) -> JSONObject:
    """The change from `before` to `after`, made to `now`, which somebody else has written meanwhile."""
    found: JSONObject = {}
    for name in _MAPS:
        found[name] = _rebased_map(before.get(name, {}), after.get(name, {}), now.get(name, {}))
    for name, identity in (*_LISTS.items(), (_MANAGED, _manager)):
        maps = ({identity(item): item for item in each.get(name, ())} for each in (before, after, now))
        found[name] = [*_rebased_map(*maps).values()]
    for name in _DELETION:  # a deletion that has begun goes on
        found[name] = after.get(name, now.get(name))
    return part(found)


def _rebased_map(before: JSONMapping, after: JSONMapping, now: JSONMapping) -> JSONObject:
    kept = {key: value for key, value in now.items() if key in after or key not in before}
    return {**kept, **{key: value for key, value in after.items() if key not in before or before[key] != value}}


def _manager(entry: JSONMapping) -> tuple[Any, ...]:
    return tuple(entry.get(name) for name in ("manager", "operation", "apiVersion", "subresource"))
