"""The types of conversion rules: which field a path names in a schema, and which values fit it.

Types are those of the structural schemas of two versions. Every value fits a field that is preserved without a schema. Only types
are compared: limits, patterns and required fields are checked by validation, which does not run on reads. Pure.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from aggserver.cel.conversions import to_string
from aggserver.cel.types import Kind, Type
from aggserver.cel.values import Duration, Optional, Timestamp, show
from aggserver.conversion.field_path import FieldPath
from aggserver.schema.decl_type import DeclType
from aggserver.schema.rule_values import unwrapped
from aggserver.schema.structural import TYPE_META, Structural

__all__ = [
    "STRING",
    "Difference",
    "UnfitError",
    "accepts",
    "describe",
    "differences",
    "find",
    "fits",
    "json_value",
    "kept_parents",
    "surplus",
]

STRING = Structural(type="string")
_UNTYPED = Structural(x_preserve_unknown_fields=True)
_MAPS = ("labels", "annotations")


class UnfitError(Exception):
    """A value has no JSON form. `str()` says why."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A field whose values in one version do not fit the other. where: `.a.b`, `.list[].b`; '' for the whole value."""

    where: str
    source: Structural
    target: Structural

    @property
    def is_in_list(self) -> bool:
        return "[]" in self.where


def find(path: FieldPath, root: Structural, *, is_resource: bool) -> Structural:
    """The schema of a field. is_resource: whether the root has metadata. Raises ValueError, which says why there is none."""
    if is_resource and path.parts[0] in TYPE_META:
        if path.parts[0] != "metadata" or len(path.parts) != 3 or path.parts[1] not in _MAPS:
            raise ValueError("of apiVersion, kind and metadata, only single labels and annotations may change")
        return STRING
    node = root
    for depth, part in enumerate(path.parts):
        if node.type == "array":
            raise ValueError(f"{_above(path, depth)} is a list: change its items by `each`")
        child = node.properties.get(part)
        if child is None and (node.values is not None):
            child = node.values
        if child is None and (_is_open(node) or (node.x_embedded_resource and part in TYPE_META)):
            child = _UNTYPED
        if child is None:
            raise ValueError(f"{_above(path, depth + 1)} is not in the schema")
        node = child
    return node


def _above(path: FieldPath, depth: int) -> str:
    return str(FieldPath(path.parts[:depth])) if depth else "the object"


def _is_open(node: Structural) -> bool:
    """Whether it may have members of any name, without a schema."""
    return node.x_preserve_unknown_fields or node.additional_properties is True


def kept_parents(path: FieldPath, root: Structural) -> int:
    """The length of the longest prefix of the path that names a required field, which must not be removed when it is empty."""
    node: Structural | None = root
    kept = 0
    for depth, part in enumerate(path.parts[:-1], 1):
        if node is None:
            break
        if part in (node.schema.get("required") or ()):
            kept = depth
        node = node.properties.get(part)
    return kept


def describe(node: Structural) -> str:
    if node.x_int_or_string:
        return "an integer or string"
    return {"integer": "an integer", "array": "a list", "object": "an object"}.get(node.type) or f"a {node.type}"


# --- a field of one version in the other ---


def differences(
    source: Structural, target: Structural, path: FieldPath, *, except_: Collection[FieldPath] = ()
) -> Iterator[Difference]:
    """The fields whose values in `source` do not fit `target`. path: of both. except_: fields that are not compared."""
    if path in except_ or not _is_typed(source) or not _is_typed(target):
        return
    if not _same_kind(source, target):
        yield Difference(str(path), source, target)
    elif source.type == "array" and source.items is not None and target.items is not None:
        yield from _in_list(path, source.items, target.items)
    elif source.type == "object":
        if source.values is not None and target.values is not None:
            yield from _in_list(path, source.values, target.values)
        for name, child in source.properties.items():
            other = target.properties.get(name) or target.values
            if other is not None:
                yield from differences(child, other, path / name, except_=except_)
        if source.values is not None:
            for name, other in target.properties.items():
                yield from differences(source.values, other, path / name, except_=except_)


def surplus(source: Structural, target: Structural, path: FieldPath) -> Iterator[FieldPath]:
    """The fields of `source` that pruning by `target` removes, except in lists and maps. path: of both."""
    if source.type != "object" or target.type != "object" or target.values is not None or _is_open(target):
        return
    for name, child in source.properties.items():
        other = target.properties.get(name)
        if other is None:
            yield path / name
        else:
            yield from surplus(child, other, path / name)


def _in_list(path: FieldPath, source: Structural, target: Structural) -> Iterator[Difference]:
    for found in differences(source, target, FieldPath(())):
        yield Difference(f"{path}[]{found.where}", found.source, found.target)


def _is_typed(node: Structural) -> bool:
    return bool(node.type) or node.x_int_or_string


def _same_kind(source: Structural, target: Structural) -> bool:
    if source.x_int_or_string:
        return target.x_int_or_string
    if target.x_int_or_string:
        return source.type in ("integer", "string")
    return source.type == target.type or (source.type, target.type) == ("integer", "number")


# --- the result of an expression ---


# CEL type -> the types of fields that its values fit.
_FITTING = {
    Kind.BOOL: ("boolean",),
    Kind.INT: ("integer", "number"),
    Kind.UINT: ("integer", "number"),
    Kind.DOUBLE: ("number",),
    Kind.STRING: ("string",),
    Kind.BYTES: ("string",),
    Kind.TIMESTAMP: ("string",),
    Kind.DURATION: ("string",),
}


def accepts(node: Structural, type_: Type) -> bool:
    """Whether values of a CEL type may fit a field. Values of type dyn may; they are checked when they are computed."""
    if type_.is_optional:
        return accepts(node, type_.element)
    if type_.is_dyn or not _is_typed(node):
        return type_.kind is not Kind.TYPE
    if node.x_int_or_string:
        return type_.kind in (Kind.INT, Kind.UINT, Kind.STRING)
    match type_.kind:
        case Kind.NULL:
            return node.nullable
        case Kind.LIST:
            return node.type == "array" and (node.items is None or accepts(node.items, type_.element))
        case Kind.MAP:
            if node.type != "object" or type_.parameters[0].kind not in (Kind.STRING, Kind.DYN):
                return False
            values = [node.values] if node.values is not None else list(node.properties.values())
            # All values of a map have one type; it is enough that one of the properties can have it.
            return not values or any(accepts(value, type_.element) for value in values)
        case Kind.OBJECT:
            origin = type_.origin
            return isinstance(origin, DeclType) and not any(differences(origin.node, node, FieldPath(())))
        case kind:
            return node.type in _FITTING.get(kind, ())


def json_value(value: Any) -> Any:
    """A CEL value as JSON, sharing nothing with it; None for null. Members and items that are optional.none() are left out.

    Raises UnfitError, and EvaluationError for a value that does not fit its own schema.
    """
    match value:
        case float() if not math.isfinite(value):
            raise UnfitError(f"there is no JSON for {show(value)}")
        case None | bool() | str() | float():
            return value
        case int():
            return int(value)
        case bytes():
            return base64.b64encode(value).decode()
        case Timestamp() | Duration():
            return to_string(value)
        case Optional():
            return json_value(value.value) if value.present else None
    plain = unwrapped(value)
    if isinstance(plain, list):
        return [json_value(item) for item in plain if not _is_none(item)]
    if isinstance(plain, dict):
        if not all(isinstance(key, str) for key in plain):
            raise UnfitError("the keys of an object must be strings")
        return {key: json_value(member) for key, member in plain.items() if not _is_none(member)}
    if plain is not value:
        return json_value(plain)
    raise UnfitError(f"there is no JSON for {show(value)}")


def _is_none(value: Any) -> bool:
    return isinstance(value, Optional) and not value.present


def fits(value: Any, node: Structural) -> bool:
    """Whether a JSON value and all its parts have the types of the schema. Members that the schema does not name fit."""
    if value is None:
        return node.nullable or not _is_typed(node)
    if node.x_int_or_string:
        return type(value) in (int, str)
    match node.type:
        case "array":
            return type(value) is list and all(node.items is None or fits(item, node.items) for item in value)
        case "object":
            return type(value) is dict and all(_fits_member(name, member, node) for name, member in value.items())
        case "string":
            return type(value) is str
        case "boolean":
            return type(value) is bool
        case "integer":
            return type(value) is int
        case "number":
            return type(value) in (int, float)
        case _:
            return True


def _fits_member(name: str, value: Any, node: Structural) -> bool:
    child = node.properties.get(name) or node.values
    return child is None or fits(value, child)
