"""Selectors of a list or watch as one predicate, and resourceVersion as a number.

Pure. Name and namespace are read from the key, so that selectors of them decode no objects.
Source: k8s.io/apiserver pkg/storage/selection_predicate.go, pkg/storage/api_object_versioner.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from aggserver.meta import errors, field
from aggserver.meta.field import Path
from aggserver.meta.golang import parse_uint
from aggserver.meta.json_types import JSONObject
from aggserver.registry.rest import ListOptions
from aggserver.registry.stored import StoredObject

__all__ = ["is_in_key", "parse_resource_version", "predicate"]

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


def predicate(
    options: ListOptions, read_fields: Callable[[JSONObject], Mapping[str, str]]
) -> Callable[[StoredObject], bool] | None:
    """Whether an object matches the label and the field selector; None if all do. read_fields: the selectable fields."""
    labels, fields = options.labels, options.fields
    if fields.empty:
        if labels.empty:
            return None
        return _by_labels(labels.matches)
    from_key_only = is_in_key(options)

    def matches(obj: StoredObject) -> bool:
        # `/<group>/<plural>/[<namespace>/]<name>`
        _, _, _, *place, name = obj.key.split("/")
        values = {"metadata.name": name, "metadata.namespace": place[0] if place else ""}
        if not from_key_only:
            values.update(obj.fields(read_fields))
        return fields.matches(values) and (labels.empty or labels.matches(obj.labels))

    return matches


def _by_labels(matches: Callable[[Mapping[str, str]], bool]) -> Callable[[StoredObject], bool]:
    """The predicate of a label selector. Fast, since each list and each new watch calls it for each object of the resource."""

    def by_labels(obj: StoredObject) -> bool:
        known = obj.known_labels
        return matches(obj.labels if known is None else known)

    return by_labels
