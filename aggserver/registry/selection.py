"""Which objects a list or watch is about: selectors as one predicate, resourceVersion as a number.

Pure; called by `registry/store.py`. Name and namespace are read from the key, so that selecting by them decodes nothing.
Source: k8s.io/apiserver pkg/storage/selection_predicate.go, pkg/storage/api_object_versioner.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from aggserver.meta import errors, field
from aggserver.meta.field import Path
from aggserver.meta.json_types import JSONObject
from aggserver.registry.rest import ListOptions
from aggserver.registry.stored import StoredObject

__all__ = ["parse_resource_version", "parse_uint", "parse_uint_error", "predicate"]

_UINT64_DIGITS = 20
_IN_KEY = frozenset({"metadata.name", "metadata.namespace"})


def parse_resource_version(text: str, *, listing: bool = False) -> int:
    """0 for unset. Raises BadRequest for a list, else, as upstream, an error without a reason, as if it were the server's."""
    if not text:
        return 0
    number = parse_uint(text)
    if number is None:
        problem = field.invalid(Path("resourceVersion"), text, parse_uint_error(text))
        if listing:
            raise errors.bad_request(f"invalid resource version: {problem}")
        raise errors.StatusError(500, "", str(problem))
    return number


def parse_uint(text: str) -> int | None:
    """As Go's strconv.ParseUint reads decimals of 64 bits; None for what it refuses, with `parse_uint_error`."""
    if not (text.isascii() and text.isdigit()):
        return None
    # The length comes first: int() refuses thousands of digits.
    digits = text.lstrip("0")
    number = int(digits or "0") if len(digits) <= _UINT64_DIGITS else 1 << 64
    return number if number < 1 << 64 else None


def parse_uint_error(text: str) -> str:
    why = "value out of range" if text.isascii() and text.isdigit() else "invalid syntax"
    return f"strconv.ParseUint: parsing {field.quote(text)}: {why}"


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
        # `/<group>/<plural>/[<namespace>/]<name>`
        _, _, _, *place, name = obj.key.split("/")
        values = {"metadata.name": name, "metadata.namespace": place[0] if place else ""}
        if not from_key_only:
            values.update(obj.fields(read_fields))
        return fields.matches(values) and (labels.empty or labels.matches(obj.labels))

    return matches
