"""Internal: an openAPIV3Schema as upstream's internal Go type has it: the order of its members, which are unset, and its text.

Rules of definitions go by that type (the first member that may not be there is named, a schema is shown whole), so errors that
quote it need it. Pure. Called by `schema/invariants.py`, `schema/constructs.py`, `schema/rule_costs.py`, `apiextensions/`.
Source: k8s.io/apiextensions-apiserver pkg/apis/apiextensions/types_jsonschema.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from aggserver.meta.golang import to_json
from aggserver.schema.structural import NAMED_SUBSCHEMAS, SUBSCHEMAS

__all__ = ["go_name", "is_omitted", "items_text", "members_in_order", "nodes", "rule_text", "set_members", "text"]

JSONObject = Mapping[str, Any]
Printer = Callable[[Any], str]


def _float(value: Any) -> str:
    return to_json(float(value))


def _schema(value: Any) -> str:
    return text(value)


def _schemas(value: Any) -> str:
    return f"[{','.join(text(each or {}) for each in value)}]"


def _map(value: Any) -> str:
    return "{" + ",".join(f"{to_json(name)}:{text(value[name] or {})}" for name in sorted(value)) + "}"


def items_text(value: Any) -> str:
    """The value of `items`: one schema, or (which is refused) a list of them."""
    one, many = ("null", _schemas(value)) if isinstance(value, list) else (text(value), "null")
    return f'{{"Schema":{one},"JSONSchemas":{many}}}'


def _schema_or_bool(value: Any) -> str:
    schema = "null" if isinstance(value, bool) else text(value)
    return f'{{"Allows":{to_json(value is not False)},"Schema":{schema}}}'


def _dependencies(value: Any) -> str:
    def one(each: Any) -> str:
        schema, names = ("null", to_json(each)) if isinstance(each, list) else (text(each), "null")
        return f'{{"Schema":{schema},"Property":{names}}}'

    return "{" + ",".join(f"{to_json(name)}:{one(value[name] or {})}" for name in sorted(value)) + "}"


def _documentation(value: Any) -> str:
    return f'{{"Description":{to_json(value.get("description") or "")},"URL":{to_json(value.get("url") or "")}}}'


def rule_text(rule: JSONObject) -> str:
    """The JSON text of one of x-kubernetes-validations."""
    members = [f'"{name[0].upper()}{name[1:]}":{to_json(rule.get(name) or "")}' for name in _RULE]
    members.insert(3, f'"Reason":{to_json(rule.get("reason"))}')
    return "{" + ",".join(members) + f',"OptionalOldSelf":{to_json(rule.get("optionalOldSelf"))}}}'


def _rules(value: Any) -> str:
    return f"[{','.join(map(rule_text, value))}]"


_RULE = ("rule", "message", "messageExpression", "fieldPath")

# JSON name -> (Go's name, text where unset, how a value is printed), in Go's order.
_STRING, _BOOL, _POINTER = '""', "false", "null"
_UNSET: Mapping[str, Any] = {_STRING: "", _BOOL: False}
_MEMBERS: Mapping[str, tuple[str, str, Printer]] = {
    "id": ("ID", _STRING, to_json),
    "$schema": ("Schema", _STRING, to_json),
    "$ref": ("Ref", _POINTER, to_json),
    "description": ("Description", _STRING, to_json),
    "type": ("Type", _STRING, to_json),
    "nullable": ("Nullable", _BOOL, to_json),
    "format": ("Format", _STRING, to_json),
    "title": ("Title", _STRING, to_json),
    "default": ("Default", _POINTER, to_json),
    "maximum": ("Maximum", _POINTER, _float),
    "exclusiveMaximum": ("ExclusiveMaximum", _BOOL, to_json),
    "minimum": ("Minimum", _POINTER, _float),
    "exclusiveMinimum": ("ExclusiveMinimum", _BOOL, to_json),
    "maxLength": ("MaxLength", _POINTER, to_json),
    "minLength": ("MinLength", _POINTER, to_json),
    "pattern": ("Pattern", _STRING, to_json),
    "maxItems": ("MaxItems", _POINTER, to_json),
    "minItems": ("MinItems", _POINTER, to_json),
    "uniqueItems": ("UniqueItems", _BOOL, to_json),
    "multipleOf": ("MultipleOf", _POINTER, _float),
    "enum": ("Enum", _POINTER, to_json),
    "maxProperties": ("MaxProperties", _POINTER, to_json),
    "minProperties": ("MinProperties", _POINTER, to_json),
    "required": ("Required", _POINTER, to_json),
    "items": ("Items", _POINTER, items_text),
    "allOf": ("AllOf", _POINTER, _schemas),
    "oneOf": ("OneOf", _POINTER, _schemas),
    "anyOf": ("AnyOf", _POINTER, _schemas),
    "not": ("Not", _POINTER, _schema),
    "properties": ("Properties", _POINTER, _map),
    "additionalProperties": ("AdditionalProperties", _POINTER, _schema_or_bool),
    "patternProperties": ("PatternProperties", _POINTER, _map),
    "dependencies": ("Dependencies", _POINTER, _dependencies),
    "additionalItems": ("AdditionalItems", _POINTER, _schema_or_bool),
    "definitions": ("Definitions", _POINTER, _map),
    "externalDocs": ("ExternalDocs", _POINTER, _documentation),
    "example": ("Example", _POINTER, to_json),
    "x-kubernetes-preserve-unknown-fields": ("XPreserveUnknownFields", _POINTER, to_json),
    "x-kubernetes-embedded-resource": ("XEmbeddedResource", _BOOL, to_json),
    "x-kubernetes-int-or-string": ("XIntOrString", _BOOL, to_json),
    "x-kubernetes-list-map-keys": ("XListMapKeys", _POINTER, to_json),
    "x-kubernetes-list-type": ("XListType", _POINTER, to_json),
    "x-kubernetes-map-type": ("XMapType", _POINTER, to_json),
    "x-kubernetes-validations": ("XValidations", _POINTER, _rules),
}

_COLLECTIONS = frozenset(
    {
        *("enum", "required", "allOf", "oneOf", "anyOf", "properties", "patternProperties", "dependencies", "definitions"),
        *("x-kubernetes-list-map-keys", "x-kubernetes-validations"),
    }
)


def members_in_order() -> tuple[str, ...]:
    """JSON names of all members, in Go's order."""
    return tuple(_MEMBERS)


def go_name(member: str) -> str:
    return _MEMBERS[member][0]


def is_omitted(name: str, value: Any) -> bool:
    """Whether Go leaves a member out when it writes a schema: unset, or an empty list or map."""
    return value is None or value == _UNSET.get(_MEMBERS[name][1]) or (name in _COLLECTIONS and not value)


def set_members(schema: JSONObject) -> list[str]:
    """The members of a schema that Go does not take for unset, in its order: an empty text and false are nothing, 0 is."""
    return [
        name for name, (_, unset, _) in _MEMBERS.items() if schema.get(name) is not None and schema[name] != _UNSET.get(unset)
    ]


def text(schema: JSONObject) -> str:
    """The JSON text of the internal type: every member, in Go's order."""
    parts = []
    for name, (go, unset, show) in _MEMBERS.items():
        value = schema.get(name)
        parts.append(f'"{go}":{unset if value is None else show(value)}')
    return "{" + ",".join(parts) + "}"


def nodes(schema: Any) -> Iterator[JSONObject]:
    """The schema and every one in it, in whatever order."""
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
