"""Selectors of a list or watch as one predicate, with what an index can look up for them, and resourceVersion as a number.

Pure. Name and namespace are read from the key, so that selectors of them decode no objects.
Source: k8s.io/apiserver pkg/storage/selection_predicate.go, pkg/storage/api_object_versioner.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from aggserver.meta import errors, field
from aggserver.meta.field import Path
from aggserver.meta.golang import parse_uint
from aggserver.meta.selectors import FieldSelector, LabelSelector, Requirement
from aggserver.registry.rest import ListOptions
from aggserver.registry.stored import FieldReader, StoredObject
from aggserver.storage.predicate import AttributeFamily, Lookup, Predicate, one_of, other_than

if TYPE_CHECKING:
    from aggserver.registry.sharding import ShardSelector

__all__ = ["is_in_key", "parse_resource_version", "predicate", "shard_of"]

_IN_KEY = frozenset({"metadata.name", "metadata.namespace"})


def parse_resource_version(text: str, *, listing: bool = False) -> int:
    """0 if unset. For invalid text it raises 400 for a list, and otherwise 500 without a reason, as upstream."""
    if not text:
        return 0
    try:
        return parse_uint(text)
    except ValueError as error:
        problem = field.invalid(Path("resourceVersion"), text, str(error))
    if listing:
        raise errors.bad_request(f"invalid resource version: {problem}")
    raise errors.StatusError(500, "", str(problem))


def is_in_key(options: ListOptions) -> bool:
    """Whether the field selector can be decided by the key of an object."""
    return _IN_KEY.issuperset(options.fields.fields())


View = Callable[[StoredObject], StoredObject]


@dataclass(frozen=True, slots=True)
class _Fields:
    """Reads the selectable fields of an object. keeps: whether they are cached with it."""

    read: FieldReader
    keeps: bool

    def __call__(self, obj: StoredObject) -> Mapping[str, str]:
        return obj.fields(self.read, keep=self.keeps)


@dataclass(frozen=True, slots=True)
class _Seen:
    """Reads attributes of the view of an object."""

    view: View
    read: Callable[[StoredObject], Mapping[str, str]]

    def __call__(self, obj: StoredObject) -> Mapping[str, str]:
        return self.read(self.view(obj))


def _in_key(obj: StoredObject) -> Mapping[str, str]:
    # `/<group>/<plural>/[<namespace>/]<name>`
    _, _, _, *place, name = obj.key.split("/")
    return {"metadata.name": name, "metadata.namespace": place[0] if place else ""}


# Labels are read in a microsecond, so they are not cached with the objects that an index or an event only looks at.
_LABELS = AttributeFamily(StoredObject.read_labels, StoredObject.read_labels)
_KEY = AttributeFamily(_in_key, _in_key)


def shard_of(options: ListOptions) -> ShardSelector | None:
    """The shard that is asked for, None for all. Raises StatusError: upstream answers 500, without a reason."""
    if not options.shard_selector:
        return None
    # Imported at the first shard, since it imports CEL, which a server may never need.
    from aggserver.registry.sharding import ShardSelector, ShardSelectorError

    try:
        return ShardSelector.parse(options.shard_selector)
    except ShardSelectorError as error:
        raise errors.StatusError(500, "", f"invalid shard selector: {error}") from None


def predicate(options: ListOptions, read_fields: FieldReader, view: View | None = None) -> Predicate[StoredObject] | None:
    """Which objects the label, the field and the shard selector match; None if they match all. Raises as `shard_of`.

    read_fields: the selectable fields. view: makes the object whose labels and fields count, and raises Corrupt; None if they are
    those of the stored object. Equal ones must be the same.
    """
    labels, fields, shard = options.labels, options.fields, shard_of(options)
    if labels.empty and fields.empty:
        return None if shard is None else Predicate(shard.matches, shard, (shard.lookup,))
    # A view refers to all objects of its resource, so what is made for one is not kept.
    selected = _known(labels, fields, read_fields) if view is None else _selected(labels, fields, read_fields, view)
    if shard is None:
        return selected
    matches, in_shard = selected.matches, shard.matches
    return Predicate(
        lambda obj: matches(obj) and in_shard(obj),
        (selected.identity, shard),
        (*selected.lookups, shard.lookup),
    )


def _selected(
    labels: LabelSelector, fields: FieldSelector, read_fields: FieldReader, view: View | None = None
) -> Predicate[StoredObject]:
    """The label and the field selector, of which at least one is not empty."""
    matches = _matcher(labels, fields, read_fields, from_key_only=_IN_KEY.issuperset(fields.fields()))
    lookups: list[Lookup[StoredObject]] = []
    if not labels.empty:
        family = _LABELS if view is None else _viewed(_LABELS, view)
        lookups += [_of_label(family, one) for one in labels.requirements()]
    if not fields.empty:
        family = AttributeFamily(_Fields(read_fields, True), _Fields(read_fields, False))
        family = family if view is None else _viewed(family, view)
        lookups += [_of_field(_KEY if one.key in _IN_KEY else family, one) for one in fields.requirements()]
    return Predicate(
        matches if view is None else lambda obj: matches(view(obj)),
        (labels, fields, read_fields, view),
        tuple(lookups),
    )


# Predicates that are kept: clients ask for the same selectors again and again.
_known = lru_cache(1000)(_selected)


def _viewed(family: AttributeFamily[StoredObject], view: View) -> AttributeFamily[StoredObject]:
    return AttributeFamily(_Seen(view, family.read), _Seen(view, family.once))


def _of_label(family: AttributeFamily[StoredObject], wanted: Requirement) -> Lookup[StoredObject]:
    if wanted.operator == "In":
        return one_of(family, wanted.key, wanted.values)
    if wanted.operator == "NotIn":
        return other_than(family, wanted.key, wanted.values)
    # Gt and Lt need a label too; which numbers are greater is for `matches`.
    return one_of(family, wanted.key, [None]) if wanted.operator == "DoesNotExist" else other_than(family, wanted.key, [None])


def _of_field(family: AttributeFamily[StoredObject], wanted: Requirement) -> Lookup[StoredObject]:
    # A missing field counts as the empty string.
    values = [*wanted.values, None] if "" in wanted.values else wanted.values
    return (one_of if wanted.operator == "In" else other_than)(family, wanted.key, values)


def _matcher(
    labels: LabelSelector, fields: FieldSelector, read_fields: FieldReader, *, from_key_only: bool
) -> Callable[[StoredObject], bool]:
    if fields.empty:
        return _by_labels(labels.matches)

    def matches(obj: StoredObject) -> bool:
        values = _in_key(obj)
        if not from_key_only:
            values = {**values, **obj.fields(read_fields)}
        return fields.matches(values) and (labels.empty or labels.matches(obj.labels))

    return matches


def _by_labels(matches: Callable[[Mapping[str, str]], bool]) -> Callable[[StoredObject], bool]:
    """The predicate of a label selector. Fast, since a list or a new watch may call it for each object of the resource."""

    def by_labels(obj: StoredObject) -> bool:
        known = obj.known_labels
        return matches(obj.labels if known is None else known)

    return by_labels
