"""Which objects a list or watch is about: selectors as one predicate, resourceVersion as a number.

Pure; called by `registry/store.py`. Name and namespace are read from the key, so that selecting by them decodes nothing.
Source: k8s.io/apiserver pkg/storage/selection_predicate.go, pkg/storage/api_object_versioner.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from aggserver.meta import errors
from aggserver.registry.rest import JSONObject, ListOptions
from aggserver.registry.stored import StoredObject

__all__ = ["parse_resource_version", "predicate"]

_IN_KEY = frozenset({"metadata.name", "metadata.namespace"})


def parse_resource_version(text: str) -> int:
    """0 for unset. Raises BadRequest."""
    if not text:
        return 0
    if text.isascii() and text.isdigit() and int(text) < 1 << 64:
        return int(text)
    why = "value out of range" if text.isascii() and text.isdigit() else "invalid syntax"
    raise errors.bad_request(f'invalid resource version: strconv.ParseUint: parsing "{text}": {why}')


def predicate(
    options: ListOptions, read_fields: Callable[[JSONObject], Mapping[str, str]]
) -> Callable[[StoredObject], bool] | None:
    labels, fields = options.labels, options.fields
    if fields.empty:
        if labels.empty:
            return None
        return lambda obj: labels.matches(obj.labels)
    from_key_only = _IN_KEY.issuperset(fields.fields())

    def matches(obj: StoredObject) -> bool:
        parts = obj.key.rsplit("/", 2)
        values = {"metadata.name": parts[2], "metadata.namespace": parts[1]}
        if not from_key_only:
            values.update(obj.fields(read_fields))
        return fields.matches(values) and (labels.empty or labels.matches(obj.labels))

    return matches
