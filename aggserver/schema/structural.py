"""Structural: an openAPIV3Schema as a tree of typed nodes, the form that everything compiled from a schema starts from.

`problems` says what keeps a schema from having that form: members of the wrong JSON type. What a schema may not say, though it
has the form, is for `invariants.py` and `constructs.py`. `compile` makes the tree, and relies on there being none. What only
judges values (patterns, limits, enums, junctors, rules) stays in the schema as written, for the validator to compile.
Called when a definition is read (`apiextensions/definition.py`) and when a version is first served. Pure.
Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/{structural,convert}.go,
pkg/apis/apiextensions/v1/{types_jsonschema,marshal}.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from aggserver.meta.field import FieldError, Path, invalid, type_invalid
from aggserver.meta.golang import INT64_MAX, INT64_MIN

__all__ = [
    "KNOWN",
    "KNOWN_IN_RULES",
    "MAX_DEPTH",
    "NAMED_SUBSCHEMAS",
    "SUBSCHEMAS",
    "TYPE_META",
    "Structural",
    "compile",
    "is_plain",
    "is_plain_validation",
    "problems",
]

# Steps of properties, items, additionalProperties and junctors from the root. Compilers recurse, and so does what they generate;
# the deepest schema in use has fewer than twenty.
MAX_DEPTH = 100

PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
INT_OR_STRING = "x-kubernetes-int-or-string"
LIST_TYPE = "x-kubernetes-list-type"
LIST_MAP_KEYS = "x-kubernetes-list-map-keys"
MAP_TYPE = "x-kubernetes-map-type"
VALIDATIONS = "x-kubernetes-validations"

# What a resource has whatever its schema says: at the root, and where a resource is embedded.
TYPE_META = ("apiVersion", "kind", "metadata")


@dataclass(slots=True)
class Structural:
    """One node. Shared freely once made, and never changed.

    type: '' where int-or-string or preserve-unknown-fields let it be missing.
    additional_properties: None where not given; a bool says of the values nothing but that they may be there, which is what both
        True and False come to here: pruning keeps the keys under either.
    default: a JSON value; None where there is none, since null is no default.
    list_type, map_type: '' where not given (atomic and granular, then).
    schema: the node as written, with what only judges values.
    """

    type: str = ""
    properties: Mapping[str, Structural] = field(default_factory=dict)
    items: Structural | None = None
    additional_properties: Structural | bool | None = None
    nullable: bool = False
    default: Any = None
    x_preserve_unknown_fields: bool = False
    x_embedded_resource: bool = False
    x_int_or_string: bool = False
    list_type: str = ""
    list_map_keys: tuple[str, ...] = ()
    map_type: str = ""
    schema: Mapping[str, Any] = field(default_factory=dict)

    @property
    def values(self) -> Structural | None:
        """Schema of the values under `additional_properties`; None where nothing is said of them."""
        extra = self.additional_properties
        return extra if isinstance(extra, Structural) else None


def compile(schema: Mapping[str, Any]) -> Structural:  # noqa: A001  -- as in re.compile
    """The tree of a schema for which `problems` finds nothing. An empty schema gives a node that knows no field."""
    get = schema.get
    items, extra = get("items"), get("additionalProperties")
    return Structural(
        type=get("type") or "",
        properties={name: compile(child or {}) for name, child in (get("properties") or {}).items()},
        items=compile(items) if isinstance(items, Mapping) else None,
        additional_properties=compile(extra) if isinstance(extra, Mapping) else extra,
        nullable=bool(get("nullable")),
        default=get("default"),
        x_preserve_unknown_fields=bool(get(PRESERVE)),
        x_embedded_resource=bool(get(EMBEDDED)),
        x_int_or_string=bool(get(INT_OR_STRING)),
        list_type=get(LIST_TYPE) or "",
        list_map_keys=tuple(get(LIST_MAP_KEYS) or ()),
        map_type=get(MAP_TYPE) or "",
        schema=schema,
    )


def is_plain(schema: Any) -> bool:
    """Whether a schema has nothing but what the simplest have, of the right types and not empty: there is nothing to look into.

    Each pass over a definition asks this of a schema before it makes a path for it: the largest have 100,000 of them.
    """
    return _has_only(_PLAIN, schema)


def is_plain_validation(schema: Any) -> bool:
    """As `is_plain`, of the fewer members that a value validation may have (`allOf` and the like)."""
    return _has_only(_PLAIN_VALIDATION, schema)


def _has_only(members: Mapping[str, frozenset[type]], schema: Any) -> bool:
    if schema.__class__ is not dict:
        return False
    for name, value in schema.items():
        if value.__class__ not in members.get(name, _NO_TYPES):
            return False
        if not INT64_MIN <= value <= INT64_MAX if value.__class__ is int else not value and value != 0.0:
            return False
    return True


_NO_TYPES: frozenset[type] = frozenset()
_NUMBERS = frozenset({int, float})
_PLAIN_VALIDATION: Mapping[str, frozenset[type]] = {
    **dict.fromkeys(("maximum", "minimum", "multipleOf"), _NUMBERS),
    **dict.fromkeys(("maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties"), frozenset({int})),
    **dict.fromkeys(("exclusiveMaximum", "exclusiveMinimum"), frozenset({bool})),
    "enum": frozenset({list}),
    "format": frozenset({str}),
}
_PLAIN: Mapping[str, frozenset[type]] = {
    **_PLAIN_VALIDATION,
    **dict.fromkeys(("description", "pattern", "title", "type"), frozenset({str})),
    "nullable": frozenset({bool}),
}


def problems(schema: Any, path: Path) -> list[FieldError]:
    """What keeps `schema`, of any JSON value, from being compiled; `path` is where it stands. Null members count as missing."""
    return list(_schema(schema, path, 0))


Check = Callable[[Any, Path, int], Iterator[FieldError]]


def _schema(value: Any, path: Path, depth: int) -> Iterator[FieldError]:
    if not isinstance(value, Mapping):
        yield type_invalid(path, value, "must be a schema (an object)")
        return
    if depth > MAX_DEPTH:
        yield invalid(path, "", f"must not nest deeper than {MAX_DEPTH} schemas")
        return
    for name, member in value.items():
        # Members without a check are unknown to the type: upstream drops them.
        check = _CHECKS.get(name)
        if check is not None and member is not None:
            yield from check(member, path.child(name), depth + 1)


def _is(types: type | tuple[type, ...], text: str) -> Check:
    def check(value: Any, path: Path, depth: int) -> Iterator[FieldError]:
        # JSON's true is no number, whatever Python says.
        if not isinstance(value, types) or (isinstance(value, bool) and types is not bool):
            yield type_invalid(path, value, f"must be {text}")

    return check


_STRING = _is(str, "a string")
_BOOLEAN = _is(bool, "a boolean")
_INTEGER = _is(int, "an integer")
_NUMBER = _is((int, float), "a number")
_OBJECT = _is(Mapping, "an object")
_LIST = _is(list, "a list")


def _list_of(check_item: Check) -> Check:
    def check(value: Any, path: Path, depth: int) -> Iterator[FieldError]:
        if not isinstance(value, list):
            yield type_invalid(path, value, "must be a list")
            return
        for index, item in enumerate(value):
            if not (check_item is _schema and depth <= MAX_DEPTH and is_plain(item)):
                yield from check_item(item, path.index(index), depth)

    return check


def _properties(value: Any, path: Path, depth: int) -> Iterator[FieldError]:
    if not isinstance(value, Mapping):
        yield type_invalid(path, value, "must be an object")
        return
    for name, child in value.items():
        if child is not None and not (is_plain(child) and depth <= MAX_DEPTH):
            yield from _schema(child, path.key(name), depth)


def _schema_or_boolean(value: Any, path: Path, depth: int) -> Iterator[FieldError]:
    if not isinstance(value, bool):
        yield from _schema(value, path, depth)


def _items(value: Any, path: Path, depth: int) -> Iterator[FieldError]:
    yield from (_LIST_OF_SCHEMAS if isinstance(value, list) else _schema)(value, path, depth)


def _dependencies(value: Any, path: Path, depth: int) -> Iterator[FieldError]:
    if not isinstance(value, Mapping):
        yield type_invalid(path, value, "must be an object")
        return
    for name, child in value.items():
        if child is not None:
            yield from (_list_of(_STRING) if isinstance(child, list) else _schema)(child, path.key(name), depth)


def _default(value: Any, path: Path, depth: int) -> Iterator[FieldError]:
    # Copying a default recurses.
    if _is_deeper_than(value, MAX_DEPTH):
        yield invalid(path, "", f"must not nest deeper than {MAX_DEPTH} objects and lists")


def _is_deeper_than(value: Any, depth: int) -> bool:
    level = [value]
    for _ in range(depth):
        level = [member for each in level if isinstance(each, dict | list) for member in _members(each)]
        if not level:
            return False
    return True


def _members(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


_LIST_OF_SCHEMAS = _list_of(_schema)

_RULE: Mapping[str, Check] = {
    **dict.fromkeys(("rule", "message", "messageExpression", "reason", "fieldPath"), _STRING),
    "optionalOldSelf": _BOOLEAN,
}


def _rule(value: Any, path: Path, depth: int) -> Iterator[FieldError]:
    if not isinstance(value, Mapping):
        yield type_invalid(path, value, "must be an object")
        return
    for name, check in _RULE.items():
        if value.get(name) is not None:
            yield from check(value[name], path.child(name), depth)


_CHECKS: Mapping[str, Check] = {
    **dict.fromkeys(("id", "$schema", "$ref", "description", "type", "format", "title", "pattern", LIST_TYPE, MAP_TYPE), _STRING),
    **dict.fromkeys(("maximum", "minimum", "multipleOf"), _NUMBER),
    **dict.fromkeys(("maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties"), _INTEGER),
    **dict.fromkeys(("exclusiveMaximum", "exclusiveMinimum", "uniqueItems", "nullable"), _BOOLEAN),
    **dict.fromkeys((EMBEDDED, INT_OR_STRING, PRESERVE), _BOOLEAN),
    **dict.fromkeys(("allOf", "anyOf", "oneOf"), _LIST_OF_SCHEMAS),
    **dict.fromkeys(("required", LIST_MAP_KEYS), _list_of(_STRING)),
    **dict.fromkeys(("additionalProperties", "additionalItems"), _schema_or_boolean),
    **dict.fromkeys(("properties", "patternProperties", "definitions"), _properties),
    "dependencies": _dependencies,
    "default": _default,
    "enum": _LIST,
    "externalDocs": _OBJECT,
    "items": _items,
    "not": _schema,
    VALIDATIONS: _list_of(_rule),
}

KNOWN = frozenset(_CHECKS) | {"example"}
"""Every member that a schema may have; upstream's type knows no other."""

KNOWN_IN_RULES = frozenset(_RULE)
"""Every member that a rule may have."""

NAMED_SUBSCHEMAS = frozenset({"definitions", "dependencies", "patternProperties", "properties"})
"""The members with a map of schemas in them."""

SUBSCHEMAS = NAMED_SUBSCHEMAS | {"additionalItems", "additionalProperties", "allOf", "anyOf", "items", "not", "oneOf"}
"""The members with schemas in them: one, a list of them, or a map."""
