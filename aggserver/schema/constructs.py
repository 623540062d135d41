"""Constructs: checks of each node of a schema, whether the schema is structural or not.

They find parts of OpenAPI that custom resources don't support, and check list and map types with their keys and the form of
x-kubernetes-validations; the expressions in these are checked by `rule_costs.py`. Some checks were added after definitions had
been stored: `Strictness` says which apply. Relies on the form that `structural.problems` checks. Pure.
Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go (specStandardValidatorV3,
ValidateCustomResourceDefinitionOpenAPISchema, validationOptions), pkg/apiserver/schema/cel/validation.go (ValidFieldPath),
v0.36.3.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from aggserver.meta.field import FieldError, Path, RawJSON, forbidden, invalid, not_supported, required
from aggserver.meta.json_types import JSONMapping
from aggserver.schema import internal, invariants
from aggserver.schema.structural import (
    EMBEDDED,
    LIST_MAP_KEYS,
    LIST_TYPE,
    MAP_TYPE,
    PRESERVE,
    TYPE_META,
    VALIDATIONS,
    is_plain,
)

__all__ = ["Strictness", "find_field", "violations"]

Errors = Iterator[FieldError]

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_LINE_BREAK = re.compile(r"[\n\r]")
# The tokens of a field path: quoted strings, delimiters, and the text between these.
_PARTS = re.compile(r"'(?:[^'\\]|\\.)*'|[.\[\]]|[^.\[\]]+", re.DOTALL)
_ESCAPES = {"n": "\n", "'": "'", '"': '"', "\\": "\\", "a": "\a", "b": "\b", "f": "\f", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True, slots=True)
class Strictness:
    """Which of the newer checks apply. Stored definitions may violate them, if they were accepted before the checks existed.

    types: only OpenAPI's types are allowed. atomic_sets: items of a set are scalar or atomic. keys: the keys of a list map are
    required or have a default, and neither they nor the items of sets and maps are nullable.
    """

    types: bool = True
    atomic_sets: bool = True
    keys: bool = True

    @classmethod
    def of(cls, schemas: Iterable[JSONMapping]) -> Strictness:
        """The checks for an update of these schemas. Ratcheting: a check that one of them violates does not apply."""
        found = [node for schema in schemas for node in internal.nodes(schema)]
        return cls(
            types=all(_get(node, "type", "") in ("", *_TYPES) for node in found),
            atomic_sets=not any(list(_atomic_set(node, Path())) for node in found),
            keys=not any(list(_keys(node, Path())) for node in found),
        )


@dataclass(frozen=True, slots=True)
class _Place:
    """The context of a node. no_default: why it must not have a default; None if it may."""

    strict: Strictness
    faulty: set[Path]
    is_root: bool = False
    in_metadata: bool = False
    no_default: str | None = None


def violations(schema: JSONMapping, path: Path, strict: Strictness) -> tuple[list[FieldError], Collection[Path]]:
    """All errors, and the paths of all schemas that have an error in them or below.

    Errors are in upstream's order, with properties sorted by name where upstream's order is random. An error counts for the
    schema that was checked, even if the error's own path is elsewhere.
    """
    place = _Place(strict, faulty=set(), is_root=True)
    return list(_schema(schema, path, place)), place.faulty


def _is_valid(schema: JSONMapping) -> bool:
    """Whether a schema has no errors in any context, so that it can be skipped."""
    return is_plain(schema) and schema.get("type", "string") in _TYPES


def _schema(schema: JSONMapping, path: Path, place: _Place) -> Errors:
    for error in _node(schema, path, place):
        place.faulty.add(path)
        yield error


def _node(schema: JSONMapping, path: Path, place: _Place) -> Errors:
    yield from _constructs(schema, path, place)
    if schema.get("uniqueItems"):
        why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(path.child("uniqueItems"), why)
    inner = replace(place, is_root=False) if place.is_root else place
    properties, extra = _get(schema, "properties", {}), schema.get("additionalProperties")
    if extra is not None and extra is not True and properties:
        yield forbidden(path.child("additionalProperties"), "additionalProperties and properties are mutual exclusive")
    if isinstance(extra, Mapping):
        why = "inside additionalProperties applying to object metadata"
        below = replace(inner, no_default=why) if place.in_metadata else inner
        yield from _schema(extra, path.child("additionalProperties"), below)
    for name in sorted(properties):
        if _is_valid(properties[name]):
            continue
        below = inner
        if (place.is_root or schema.get(EMBEDDED)) and name in TYPE_META:
            below = replace(inner, in_metadata=True)
            if place.is_root:
                below = replace(below, no_default=f"in top-level {name}")
        yield from _schema(properties[name] or {}, path.child("properties").key(name), below)
    if schema.get("not") is not None:
        yield from _schema(schema["not"], path.child("not"), inner)
    for name in ("allOf", "oneOf", "anyOf"):
        for index, each in enumerate(_get(schema, name, [])):
            if not _is_valid(each):
                yield from _schema(each, path.child(name).index(index), inner)
    for name, each in sorted(_get(schema, "definitions", {}).items()):
        yield from _schema(each or {}, path.child("definitions").key(name), inner)
    items = schema.get("items")
    if isinstance(items, list):
        for index, each in enumerate(items):
            yield from _schema(each, path.child("items").index(index), inner)
    elif items is not None:
        yield from _schema(items, path.child("items"), inner)
    for name, each in sorted(_get(schema, "dependencies", {}).items()):
        if isinstance(each, Mapping):
            yield from _schema(each, path.child("dependencies").key(name), inner)
    yield from _types(schema, path, place.strict)
    for index, rule in enumerate(_get(schema, VALIDATIONS, [])):
        yield from _rule(rule, schema, path.child(VALIDATIONS).index(index))


def _constructs(schema: JSONMapping, path: Path, place: _Place) -> Errors:
    type_ = _get(schema, "type", "")
    if type_ and type_ not in _TYPES and place.strict.types:
        yield not_supported(path.child("type"), type_, _TYPES)
    if schema.get("default") is not None and place.no_default is not None:
        yield forbidden(path.child("default"), f"must not be set {place.no_default}")
    for name in _UNSUPPORTED:
        value = schema.get(name)
        # These are pointers in Go, so that an empty value counts as set.
        if value or (value is not None and name in ("additionalItems", "dependencies", "$ref")):
            yield forbidden(path.child(name), f"{name} is not supported")
    if type_ == "null":
        yield forbidden(path.child("type"), "type cannot be set to null, use nullable as an alternative")
    if isinstance(schema.get("items"), list) and schema["items"]:
        yield forbidden(path.child("items"), "items must be a schema object and not an array")
    if place.in_metadata and schema.get(EMBEDDED):
        yield forbidden(path.child(EMBEDDED), "must not be used inside of resource meta")


# --- lists and maps ---


def _types(schema: JSONMapping, path: Path, strict: Strictness) -> Errors:
    if schema.get(PRESERVE) is False:
        yield invalid(path.child(PRESERVE), False, "must be true or undefined")
    map_type, list_type = schema.get(MAP_TYPE), schema.get(LIST_TYPE)
    if map_type is not None:
        yield from _must_be("object", MAP_TYPE, schema, path)
        if map_type not in ("atomic", "granular"):
            yield not_supported(path.child(MAP_TYPE), map_type, ("atomic", "granular"))
    if list_type is not None:
        yield from _must_be("array", LIST_TYPE, schema, path)
        if strict.atomic_sets and schema.get("type") == "array":
            yield from _atomic_set(schema, path)
        if list_type not in ("atomic", "set", "map"):
            yield not_supported(path.child(LIST_TYPE), list_type, ("atomic", "set", "map"))
    if schema.get(LIST_MAP_KEYS) and list_type != "map":
        at, why = path.child(LIST_TYPE), f"must be map if {LIST_MAP_KEYS} is non-empty"
        yield required(at, why) if list_type is None else invalid(at, list_type, why)
    if list_type == "map":
        yield from _list_map(schema, path)
    if strict.keys:
        yield from _keys(schema, path)


def _must_be(wanted: str, why: str, schema: JSONMapping, path: Path) -> Errors:
    type_, text = _get(schema, "type", ""), f"must be {wanted} if {why} is specified"
    if type_ != wanted:
        yield invalid(path.child("type"), type_, text) if type_ else required(path.child("type"), text)


def _atomic_set(schema: JSONMapping, path: Path) -> Errors:
    items = schema.get("items")
    if schema.get(LIST_TYPE) != "set" or not isinstance(items, Mapping):
        return
    why = "must be atomic as item of a list with x-kubernetes-list-type=set"
    wrong = {
        "array": (LIST_TYPE, items.get(LIST_TYPE) not in (None, "atomic")),
        "object": (MAP_TYPE, items.get(MAP_TYPE) != "atomic"),
    }
    name, is_wrong = wrong.get(_get(items, "type", ""), ("", False))
    if is_wrong:
        # Upstream shows the list type here even for a map.
        yield invalid(path.child("items", name), items.get(LIST_TYPE), why)


def _list_map(schema: JSONMapping, path: Path) -> Errors:
    keys, items = _get(schema, LIST_MAP_KEYS, []), schema.get("items")
    if not keys:
        yield required(path.child(LIST_MAP_KEYS), "must not be empty if x-kubernetes-list-type is map")
    if items is None:
        yield required(path.child("items"), "must have a schema if x-kubernetes-list-type is map")
        return
    if isinstance(items, list):
        why = "must only have a single schema if x-kubernetes-list-type is map"
        yield invalid(path.child("items"), RawJSON(internal.items_text(items)), why)
        return
    type_ = _get(items, "type", "")
    if type_ != "object":
        why = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(path.child("items", "type"), type_, why)
        return
    properties = _get(items, "properties", {})
    seen: set[str] = set()
    for key in keys:
        if key not in properties:
            yield invalid(path.child(LIST_MAP_KEYS), keys, "entries must all be names of item properties")
        elif _get(properties[key] or {}, "type", "") in ("array", "object"):
            why = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            # Upstream shows the type of the items here, not that of the key.
            yield invalid(path.child("items", "properties").key(key).child("type"), type_, why)
        if key in seen:
            yield invalid(path.child(LIST_MAP_KEYS), keys, "must not contain duplicate entries")
        seen.add(key)


def _keys(schema: JSONMapping, path: Path) -> Errors:
    list_type, items = schema.get(LIST_TYPE), schema.get("items")
    if list_type not in ("set", "map") or not isinstance(items, Mapping):
        return
    if items.get("nullable"):
        yield forbidden(path.child("items", "nullable"), f"cannot be nullable when x-kubernetes-list-type is {list_type}")
    if list_type == "set":
        return
    properties, always = _get(items, "properties", {}), frozenset(_get(items, "required", []))
    why = f"this property is in {LIST_MAP_KEYS}, so it"
    for key in _get(schema, LIST_MAP_KEYS, []):
        if key not in properties:
            continue
        node, at = properties[key] or {}, path.child("items", "properties").key(key)
        if key not in always and node.get("default") is None:
            yield required(at.child("default"), f"{why} must have a default or be a required property")
        if node.get("nullable"):
            yield forbidden(at.child("nullable"), f"{why} cannot be nullable")


# --- x-kubernetes-validations ---


def _rule(rule: JSONMapping, schema: JSONMapping, path: Path) -> Errors:
    text, message = _get(rule, "rule", "").strip(), _get(rule, "message", "")
    at = path.child("message")
    if not text:
        yield required(path.child("rule"), "rule is not specified")
    elif message and not message.strip():
        yield invalid(at, message, "must be non-empty if specified")
    elif _LINE_BREAK.search(message.strip()):
        yield invalid(at, message, "must not contain line breaks")
    elif _LINE_BREAK.search(text) and not message:
        yield required(at, "message must be specified if rule contains line breaks")
    expression = _get(rule, "messageExpression", "")
    if expression and not expression.strip():
        yield required(path.child("messageExpression"), "messageExpression must be non-empty if specified")
    reason = rule.get("reason")
    if reason is not None and reason not in _REASONS:
        yield not_supported(path.child("reason"), reason, _REASONS)
    field, at = _get(rule, "fieldPath", ""), path.child("fieldPath")
    if field and not field.strip():
        yield invalid(at, field, "must be non-empty if specified")
    if _LINE_BREAK.search(field):
        yield invalid(at, field, "must not contain line breaks")
    if field and not invariants.unsupported(schema):
        try:
            find_field(field, schema)
        except ValueError:
            yield invalid(at, field, "must be a valid path")


def find_field(text: str, schema: JSONMapping, *, brackets: bool = True) -> tuple[Path, JSONMapping | None]:
    """Parse a field path like `.spec.map['key']`; return it with the schema of the field, None if there is no schema for it.

    brackets: whether the notation with brackets is allowed. Raises ValueError with upstream's message.
    """
    parts = iter(_PARTS.findall(text))
    path = Path()
    node: JSONMapping | None = schema
    for part in parts:
        if part == "[":
            if not brackets:
                raise ValueError("array notation is not allowed")
            path, node = _below(path, node, _unquoted(_next(parts)))
            closing = _next(parts)
            if closing != "]":
                raise ValueError(f"expected ] but got {closing}")
        elif part == ".":
            path, node = _below(path, node, _next(parts))
        else:
            raise ValueError(f"expected [ or . but got: {part}")
    return path, node


def _next(parts: Iterator[str]) -> str:
    part = next(parts, None)
    if part is None:
        raise ValueError("unexpected end of JSON path")
    return part


def _unquoted(token: str) -> str:
    if len(token) < 2 or token[0] != "'" or token[-1] != "'":
        raise ValueError(f"expected single quoted string but got {token}")
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), token[1:-1], flags=re.DOTALL)


def _below(path: Path, node: JSONMapping | None, name: str) -> tuple[Path, JSONMapping | None]:
    properties = (node or {}).get("properties")
    if properties:
        if name in properties:
            return path.child(name), properties[name] or {}
    elif node is not None and (extra := node.get("additionalProperties")) is not None:
        return path.key(name), extra if isinstance(extra, Mapping) else None
    raise ValueError("does not refer to a valid field")


def _get(schema: JSONMapping, name: str, default: Any) -> Any:
    value = schema.get(name)
    return default if value is None else value
