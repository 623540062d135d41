"""Structural: an openAPIV3Schema as a tree of typed nodes, from which all other forms of a schema are compiled.

`problems` checks the JSON types of a schema's members; further checks are in `invariants.py` and `constructs.py`. `compile`
builds the tree, and relies on `problems` having found nothing. Parts that only validate values (patterns, limits, enums,
junctors, rules) stay in the schema as written, for the validator to compile. Pure.
Source: k8s.io/apiextensions-apiserver pkg/apiserver/schema/{structural,convert}.go,
pkg/apis/apiextensions/v1/{types_jsonschema,marshal}.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from aggserver.meta.field import FieldError, Path, invalid, type_invalid
from aggserver.meta.golang import INT64_MAX, INT64_MIN
from aggserver.scheme import form
from aggserver.scheme.types import Type, lookup

__all__ = [
    "MAX_DEPTH",
    "NAMED_SUBSCHEMAS",
    "SCHEMA",
    "SUBSCHEMAS",
    "TYPE_META",
    "Structural",
    "compile",
    "is_plain",
    "is_plain_validation",
    "problems",
]

# The most levels of properties, items, additionalProperties and junctors. Compilers recurse, and so does the code they generate;
# the deepest schema in use has less than twenty.
MAX_DEPTH = 100

PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
INT_OR_STRING = "x-kubernetes-int-or-string"
LIST_TYPE = "x-kubernetes-list-type"
LIST_MAP_KEYS = "x-kubernetes-list-map-keys"
MAP_TYPE = "x-kubernetes-map-type"
VALIDATIONS = "x-kubernetes-validations"

# The fields that a resource has whatever its schema says, at the root and in embedded resources.
TYPE_META = ("apiVersion", "kind", "metadata")


@dataclass(slots=True)
class Structural:
    """One node. It is never changed after it was built, and may be shared.

    type: '' if int-or-string or preserve-unknown-fields allow it to be missing.
    additional_properties: None if not given; a bool if it has no schema for the values, where False has the same effect as True:
        pruning keeps the keys.
    default: a JSON value; None if there is none, since null can't be a default.
    list_type, map_type: '' if not given (which means atomic and granular).
    schema: the node as written, including the parts that only validate values.
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
        """The schema of the values under `additional_properties`; None if there is none."""
        extra = self.additional_properties
        return extra if isinstance(extra, Structural) else None


def compile(schema: Mapping[str, Any]) -> Structural:  # noqa: A001  -- as in re.compile
    """The tree of a schema for which `problems` finds nothing. An empty schema becomes a node without fields."""
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
    """Whether a schema has only the most common scalar members, of the right types and not empty, so that it needs no checks.

    Each pass over a definition tests this before it builds the schema's path, since the largest have 100,000 schemas.
    """
    return _has_only(_PLAIN, schema)


def is_plain_validation(schema: Any) -> bool:
    """As `is_plain`, with the fewer members that a value validation (`allOf` and the like) may have."""
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
    """The errors because of which `schema`, any JSON value, can't be compiled. Null members count as missing."""
    if schema is None:
        return [type_invalid(path, schema, "must be a schema (an object)")]
    return list(_too_deep(schema, path)) or list(form.problems(schema, SCHEMA, path))


def _too_deep(schema: Any, path: Path) -> Iterator[FieldError]:
    """Errors for the schemas and defaults in a JSON value that are nested too deeply; nothing below these is visited."""
    level = [(schema, path)]
    for depth in range(MAX_DEPTH + 2):
        inner: list[tuple[Any, Path]] = []
        for node, at in level:
            if depth > MAX_DEPTH:
                yield invalid(at, "", f"must not nest deeper than {MAX_DEPTH} schemas")
            elif isinstance(node, dict):
                # Defaults are limited too, since copying them recurses.
                if _is_deeper_than(node.get("default"), MAX_DEPTH):
                    yield invalid(at.child("default"), "", f"must not nest deeper than {MAX_DEPTH} objects and lists")
                inner += _subschemas(node, at, is_last=depth == MAX_DEPTH)
        level = inner


def _subschemas(node: dict[str, Any], path: Path, *, is_last: bool) -> Iterator[tuple[Any, Path]]:
    """The direct subschemas of a node with their paths. Malformed ones are left out, and so are plain ones unless `is_last`."""

    def counts(each: Any) -> bool:
        return isinstance(each, dict) and (is_last or not is_plain(each))

    for name, value in node.items():
        if name not in SUBSCHEMAS:
            continue
        at = path.child(name)
        if isinstance(value, list):
            yield from ((each, at.index(index)) for index, each in enumerate(value) if counts(each))
        elif isinstance(value, dict) and name in NAMED_SUBSCHEMAS:
            yield from ((each, at.key(key)) for key, each in value.items() if counts(each))
        elif counts(value):
            yield value, at


def _is_deeper_than(value: Any, depth: int) -> bool:
    level = [value]
    for _ in range(depth):
        level = [member for each in level if isinstance(each, dict | list) for member in _members(each)]
        if not level:
            return False
    return True


def _members(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


SCHEMA = lookup("apiextensions/v1.JSONSchemaProps")


def _holds_schemas(of: Type) -> bool:
    inner = [member.type for member in of.members.values()] if of.kind == "union" else [of.element]
    return of is SCHEMA or any(each is not None and _holds_schemas(each) for each in inner)


SUBSCHEMAS = frozenset(name for name, member in SCHEMA.members.items() if _holds_schemas(member.type))
"""The members that contain schemas: one, a list of them, or a map."""

NAMED_SUBSCHEMAS = frozenset(name for name in SUBSCHEMAS if SCHEMA.members[name].type.kind == "map")
"""The members that contain a map of schemas."""
