"""Decoding: what Go's decoder says of an object of a built-in kind with a member of a wrong JSON type.

`json: cannot unmarshal string into Go struct field CustomResourceValidation.spec.versions.schema.openAPIV3Schema of type
v1.JSONSchemaProps`: the struct that has the member, the path without indexes and keys, the type it should have; of several the
first as written. What Go takes may still lack the form that others rely on (a null in a list, for one): `form.problems` says
that, and says it of files, where all is told at once.
Pure. Source: encoding/json.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aggserver.meta.golang import INT64_MAX, INT64_MIN, json_kind, to_json
from aggserver.scheme.types import Type, lookup

__all__ = ["decode_error"]

_LIMITS = {"int32": (-(2**31), 2**31 - 1), "int64": (INT64_MIN, INT64_MAX)}

# Of the unions only this one complains of a value that is neither (pkg/apis/apiextensions/v1/marshal.go).
_NEITHER = {"v1.JSONSchemaPropsOrBool": "boolean or JSON schema expected"}


def decode_error(obj: Mapping[str, Any], of: Type) -> str:
    """Go's text for the first misfit in an object, '' if there is none.

    Metadata is not looked at: it is the same for every kind, and `meta/object_meta.py` has its texts.
    """
    return next(_misfits(obj, of, ""), "")


def _misfits(value: Any, wanted: Type, where: str) -> Iterator[str]:
    """where: the struct and the path, as `JSONSchemaProps.spec.versions.schema.openAPIV3Schema.type`; '' at the root."""
    if value is None or wanted.kind == "json" or wanted is lookup("meta/v1.ObjectMeta"):
        return
    if wanted.kind == "union":
        yield from _of_a_union(value, wanted, where)
        return
    kind = json_kind(value)
    if kind != wanted.json_kind:
        # A time decodes itself, and does not know where it is.
        into = "value of type string" if wanted.kind == "time" else f"struct field {where} of type {wanted.name}"
        yield f"json: cannot unmarshal {kind} into Go {into}"
    elif wanted.kind == "struct":
        path = where.partition(".")[2]
        for name, inner in value.items():
            if (member := wanted.members.get(name)) is not None:
                yield from _misfits(inner, member.type, ".".join(filter(None, (wanted.short_name, path, name))))
    elif wanted.element is not None:
        for inner in value if kind == "array" else value.values():
            if not wanted.element.is_plain(inner):
                yield from _misfits(inner, wanted.element, where)
    elif wanted.kind in _LIMITS:
        low, high = _LIMITS[wanted.kind]
        if not (isinstance(value, int) and low <= value <= high):
            yield f"json: cannot unmarshal number {to_json(value)} into Go struct field {where} of type {wanted.name}"


def _of_a_union(value: Any, wanted: Type, where: str) -> Iterator[str]:
    member = wanted.alternative(value)
    if member is not None:
        yield from _misfits(value, member.type, where)
    elif wanted.name in _NEITHER:
        yield _NEITHER[wanted.name]
