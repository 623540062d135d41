"""Invariants: the conditions for a schema to be structural.

A structural schema specifies every field outside of value validations (`allOf`, `anyOf`, `oneOf`, `not`), which may only restrict
it further; pruning and defaulting rely on that. `violations` returns upstream's errors in upstream's order.
Relies on the form that `structural.problems` checks. Pure.
Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/{validation,complete,convert}.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aggserver.meta.field import FieldError, Path, forbidden, invalid, required
from aggserver.meta.json_types import JSONMapping
from aggserver.meta.regexp import PatternError, matcher
from aggserver.schema import internal
from aggserver.schema.structural import (
    EMBEDDED,
    INT_OR_STRING,
    LIST_MAP_KEYS,
    LIST_TYPE,
    MAP_TYPE,
    PRESERVE,
    VALIDATIONS,
    is_plain,
    is_plain_validation,
)

__all__ = ["unsupported", "violations"]

Errors = Iterator[FieldError]

# The place of a node, as the error for a missing type names it.
_ROOT, _ITEM, _FIELD = "at the root", "for specified array items", "for specified object fields"

_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]

# Members that a value validation must not have, with upstream's error.
_NOT_NESTED = {
    "title": "must be empty",
    "description": "must be empty",
    "nullable": "must be false",
    PRESERVE: "must be false",
    EMBEDDED: "must be false",
    INT_OR_STRING: "must be false",
    LIST_MAP_KEYS: "must be empty",
    LIST_TYPE: "must be undefined",
    MAP_TYPE: "must be undefined",
    VALIDATIONS: "must be empty",
}


# The members that `unsupported` checks.
_UNSUPPORTED = frozenset({"id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions"})
_UNSUPPORTED |= {PRESERVE, "items"}


def unsupported(schema: JSONMapping) -> str:
    """Upstream's error for the first construct that a structural schema can't have; '' if there is none.

    Upstream reports it only if there are no other errors, since most of these are also forbidden one by one.
    """
    for node in internal.nodes(schema):
        if _UNSUPPORTED.isdisjoint(node):
            continue
        for name in ("id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions"):
            value = node.get(name)
            if value not in (None, "", {}) or (name == "additionalItems" and value is not None):
                return f"OpenAPIV3Schema '{name.replace('$schema', 'schema')}' is not supported"
        if node.get(PRESERVE) is False:
            return f"internal error: '{PRESERVE}' must be true or undefined"
        if isinstance(node.get("items"), list):
            return "OpenAPIV3Schema 'items' must be a schema, but is an array"
    return ""


def violations(schema: JSONMapping, path: Path) -> list[FieldError]:
    """All errors that make a schema non-structural; `unsupported` must have found nothing."""
    return sorted([*_node(schema, _ROOT, path), *_completeness(schema, schema, path, path)], key=str)


# --- outside of value validations ---


def _node(schema: JSONMapping, level: str, path: Path) -> Errors:
    type_, items, extra = _get(schema, "type", ""), schema.get("items"), schema.get("additionalProperties")
    properties = _get(schema, "properties", {})
    embedded, preserves = bool(schema.get(EMBEDDED)), bool(schema.get(PRESERVE))
    if items is not None:
        yield from _node(items, _ITEM, path.child("items"))
    elif type_ == "array":
        yield required(path.child("items"), "must be specified")
    for name, child in properties.items():
        if not _is_simple_field(child):
            yield from _node(child or {}, _FIELD, path.child("properties").key(name))
    if extra is not None:
        if level is _ROOT:
            yield forbidden(path.child("additionalProperties"), "must not be used at the root")
        if embedded:
            yield forbidden(path.child("additionalProperties"), f"must not be used if {EMBEDDED} is set")
        if not isinstance(extra, bool):
            yield from _node(extra, _FIELD, path.child("additionalProperties"))
    if schema.get(INT_OR_STRING):
        for name, given in ((PRESERVE, preserves), (EMBEDDED, embedded)):
            if given:
                yield invalid(path.child(name), True, f"must be false if {INT_OR_STRING} is true")
    all_of = _get(schema, "allOf", [])
    yield from _value_validation(
        schema,
        path,
        skip_any_of=_is_int_or_string(_get(schema, "anyOf", [])),
        skip_first=bool(all_of) and _is_int_or_string(_get(all_of[0], "anyOf", [])),
    )
    yield from _type(schema, type_, level, path)
    yield from _metadata(properties, level, path.child("properties"), checked=embedded or level is _ROOT)
    if embedded and not preserves and not properties:
        yield required(path.child("properties"), f"must not be empty if {EMBEDDED} is true without {PRESERVE}")


def _is_simple_field(schema: JSONMapping | None) -> bool:
    """Whether `_node` would find no error in a property. Skipping such properties, which most are, saves time."""
    return is_plain(schema) and schema is not None and schema.get("type", "array") != "array" and "pattern" not in schema


def _type(schema: JSONMapping, type_: str, level: str, path: Path) -> Errors:
    at = path.child("type")
    if schema.get(EMBEDDED) and type_ != "object":
        why = f"must be object if {EMBEDDED} is true"
        yield invalid(at, type_, why) if type_ else required(at, why)
    elif not type_ and not schema.get(INT_OR_STRING) and not schema.get(PRESERVE):
        yield required(at, f"must not be empty {level}")
    if level is _ROOT and type_ not in ("", "object"):
        yield invalid(at, type_, "must be object at the root")


def _metadata(properties: JSONMapping, level: str, path: Path, *, checked: bool) -> Errors:
    """Check the metadata that the schema specifies at the root. checked: the properties are those of a resource, so check the
    types of kind, apiVersion and metadata too.
    """
    for name, wanted in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
        if checked and name in properties:
            type_ = _get(properties[name] or {}, "type", "")
            if type_ != wanted:
                yield invalid(path.key(name).child("type"), type_, f"must be {wanted}")
    metadata = properties.get("metadata")
    if level is not _ROOT or metadata is None:
        return
    # A default is forbidden elsewhere; only these two properties may have validations.
    keywords = {name for name in internal.set_members(metadata) if name not in ("type", "default")}
    keywords -= {name for name in ("enum", "allOf", "anyOf", "oneOf") if not metadata.get(name)}
    if _get(metadata, "properties", {}).keys() <= {"name", "generateName"}:
        keywords.discard("properties")
    if keywords:
        why = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield forbidden(path.key("metadata"), why)


def _is_int_or_string(any_of: list[JSONMapping]) -> bool:
    return [{name: each[name] for name in internal.set_members(each)} for each in any_of] == _INT_OR_STRING


# --- value validations ---


def _value_validation(schema: JSONMapping, path: Path, *, skip_any_of: bool = False, skip_first: bool = False) -> Errors:
    """Check a value validation. skip_any_of, skip_first: skip the `anyOf`, or the one in the first `allOf`, since it is the form
    that int-or-string may have.
    """
    if not skip_any_of:
        yield from _alternatives(schema, "anyOf", path)
    yield from _alternatives(schema, "allOf", path, skip_first=skip_first)
    yield from _alternatives(schema, "oneOf", path)
    if schema.get("not") is not None:
        yield from _nested(schema["not"], path.child("not"))
    text = _get(schema, "pattern", "")
    if not text:
        return
    try:
        matcher(text)
    except PatternError as why:
        yield invalid(path.child("pattern"), text, f"must be a valid regular expression, but isn't: {why}")


def _alternatives(schema: JSONMapping, name: str, path: Path, *, skip_first: bool = False) -> Errors:
    for index, each in enumerate(_get(schema, name, [])):
        if not is_plain_validation(each):
            yield from _nested(each, path.child(name).index(index), skip_any_of=skip_first and index == 0)


def _nested(schema: JSONMapping, path: Path, *, skip_any_of: bool = False) -> Errors:
    yield from _value_validation(schema, path, skip_any_of=skip_any_of)
    if schema.get("items") is not None:
        yield from _nested(schema["items"], path.child("items"))
    properties = _get(schema, "properties", {})
    for name, child in properties.items():
        if not is_plain_validation(child):
            yield from _nested(child or {}, path.child("properties").key(name))
    if schema.get("type"):
        yield forbidden(path.child("type"), "must be empty to be structural")
    if _get(schema, "additionalProperties", False) is not False:
        yield forbidden(path.child("additionalProperties"), "must be undefined to be structural")
    if schema.get("default") is not None:
        yield forbidden(path.child("default"), "must be undefined to be structural")
    for name, why in _NOT_NESTED.items():
        value = schema.get(name)
        if value or (value == "" and name in (LIST_TYPE, MAP_TYPE)):
            yield forbidden(path.child(name), f"{why} to be structural")
    if "metadata" in properties:
        yield forbidden(path.child("properties").key("metadata"), "must not be specified in a nested context")


def _completeness(validation: JSONMapping, schema: JSONMapping | None, at: Path, path: Path) -> Errors:
    """Check that fields in value validations are specified outside of them too.

    validation: the schema at `path` whose junctors are visited. schema: the structural node at `at` that it restricts.
    """
    if validation.get("not") is not None:
        yield from _covered(validation["not"], schema, at, path.child("not"))
    for name in ("allOf", "anyOf", "oneOf"):
        for index, each in enumerate(_get(validation, name, [])):
            if schema is None or not is_plain(each):
                yield from _covered(each, schema, at, path.child(name).index(index))


def _covered(validation: JSONMapping, schema: JSONMapping | None, at: Path, path: Path) -> Errors:
    if schema is None:
        yield required(at, f"because it is defined in {path}")
        return
    yield from _completeness(validation, schema, at, path)
    if validation.get("items") is not None:
        yield from _covered(validation["items"], schema.get("items"), at.child("items"), path.child("items"))
    properties = _get(schema, "properties", {})
    for name, child in _get(validation, "properties", {}).items():
        inner = properties[name] or {} if name in properties else None
        if inner is not None and is_plain(child):
            continue
        yield from _covered(child or {}, inner, at.child("properties").key(name), path.child("properties").key(name))


def _get(schema: JSONMapping, name: str, default: Any) -> Any:
    value = schema.get(name)
    return default if value is None else value
