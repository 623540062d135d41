"""An openAPIV3Schema as upstream's internal Go type: the order of its members, which of them are set, and its JSON text.

Upstream validates definitions in that form: an error names the first forbidden member in its order, or shows a whole schema in
its text. Pure.
Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/types_jsonschema.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aggserver.meta.golang import to_json
from aggserver.meta.json_types import JSONMapping
from aggserver.schema.structural import NAMED_SUBSCHEMAS, SCHEMA, SUBSCHEMAS
from aggserver.scheme.types import Member, Type, lookup

__all__ = ["go_name", "items_text", "nodes", "rule_text", "set_members", "text", "text_of"]

# The internal type has `nullable` after `type`; all other members are in the order of v1.
_V1 = SCHEMA.members
_ORDER = [name for name in _V1 if name != "nullable"]
_ORDER.insert(_ORDER.index("type") + 1, "nullable")
_RULE = lookup("apiextensions/v1.ValidationRule")

# Go's zero values of scalar types. Those of pointers, lists and maps are null.
_ZEROS = {"string": '""', "bool": "false", "int32": "0", "int64": "0", "float64": "0"}


def text(schema: JSONMapping) -> str:
    """The JSON text of the internal type: every member, in Go's order."""
    return text_of(schema, SCHEMA)


def rule_text(rule: JSONMapping) -> str:
    """The JSON text of one of x-kubernetes-validations."""
    return text_of(rule, _RULE)


def items_text(value: Any) -> str:
    """The JSON text of a value of `items`: one schema, or a list of them (which validation refuses)."""
    return text_of(value, _V1["items"].type)


def text_of(value: Any, of: Type) -> str:
    """The JSON text of a value of type `of` with the names of Go's fields, since the internal type has no JSON names.

    A value of None is the type's zero value.
    """
    if of.kind == "struct":
        names = _ORDER if of is SCHEMA else of.members
        return _struct({of.members[name]: (value or {}).get(name) for name in names})
    if value is None:
        return _ZEROS.get(of.kind, "null")
    if of.kind == "union":
        return _union(value, of)
    if of.kind == "float64":
        return to_json(float(value))
    if of.element is None or of.element.kind == "json":
        return to_json(value)
    if of.kind == "list":
        return f"[{','.join(text_of(each, of.element) for each in value)}]"
    return "{" + ",".join(f"{to_json(name)}:{text_of(value[name], of.element)}" for name in sorted(value)) + "}"


def _union(value: Any, of: Type) -> str:
    # `Allows` is true if a schema is given.
    values: dict[Member, Any] = {member: True if member.name == "Allows" else None for member in of.members.values()}
    if (chosen := of.alternative(value)) is not None:
        values[chosen] = value
    return _struct(values)


def _struct(values: Mapping[Member, Any]) -> str:
    parts = (
        f'"{member.go_name}":{"null" if value is None and member.pointer else text_of(value, member.type)}'
        for member, value in values.items()
    )
    return "{" + ",".join(parts) + "}"


def go_name(member: str) -> str:
    return _V1[member].go_name


def set_members(schema: JSONMapping) -> list[str]:
    """The members of a schema that are set in Go's type, in its order. Empty strings and false count as unset, 0 as set."""
    return [name for name in _ORDER if _is_set(_V1[name], schema.get(name))]


def _is_set(member: Member, value: Any) -> bool:
    return value is not None and (member.pointer or value not in ("", False))


def nodes(schema: Any) -> Iterator[JSONMapping]:
    """The schema and all its subschemas, in any order."""
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict):
            continue
        yield node
        if SUBSCHEMAS.isdisjoint(node):
            continue
        for name, inner in node.items():
            if name not in SUBSCHEMAS or inner is None:
                continue
            if name in NAMED_SUBSCHEMAS:
                waiting.extend(inner.values())
            elif isinstance(inner, list):
                waiting.extend(inner)
            else:
                waiting.append(inner)
