"""JSON Schema, as tools print it, -> a structural schema, or all that has none.

For schemas that users give as dicts, and for types that only pydantic knows. What is structural already stays as it is;
references are inlined, since a structural schema has none. Pure.
Source: JSON Schema 2020-12; k8s.io/apiextensions-apiserver pkg/apiserver/schema/validation.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from aggserver.meta.json_types import JSONMapping, JSONObject, json_copy
from aggserver.schema.formats import is_known
from aggserver.schema.structural import INT_OR_STRING, LIST_TYPE, PRESERVE
from aggserver.typed.constraints import described, number_problem, pattern_problem
from aggserver.typed.scalars import json_type
from aggserver.typed.unions import tagged_schema

__all__ = ["SchemaProblem", "lower"]

# The most nodes of a schema with its references inlined, which grows exponentially if each definition refers twice to the next.
_MAX_NODES = 50_000

_DROPPED = frozenset(
    {"title", "examples", "example", "readOnly", "contentMediaType", "$schema", "$id", "$comment", "$defs", "definitions"}
)
_REFUSED = {
    "patternProperties": "a schema can't check keys: use additionalProperties, and a rule for the keys",
    "propertyNames": "a schema can't check keys: use additionalProperties, and a rule for the keys",
    "prefixItems": "a tuple of fixed length is no type of a schema: use an object",
    "additionalItems": "a tuple of fixed length is no type of a schema: use an object",
    "if": "use an x-kubernetes-validations rule for conditions",
    "dependentRequired": "use an x-kubernetes-validations rule for conditions",
    "dependentSchemas": "use an x-kubernetes-validations rule for conditions",
    "dependencies": "use an x-kubernetes-validations rule for conditions",
    "contains": "use an x-kubernetes-validations rule",
    "unevaluatedProperties": "leave it out: unknown fields are dropped, or refused by fieldValidation=Strict",
    "unevaluatedItems": "leave it out",
    "$dynamicRef": "use $ref to a definition of the same document",
}
_COPIED = frozenset(
    {
        *("multipleOf", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "nullable", "not"),
        *("minimum", "maximum", "allOf", "anyOf", "oneOf", "externalDocs", "default", "format", "type", "enum", "required"),
    }
)
_HANDLED = frozenset(
    {
        *(
            "description",
            "properties",
            "items",
            "additionalProperties",
            "pattern",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "const",
        ),
        *("deprecated", "writeOnly", "contentEncoding", "uniqueItems", "$ref", "discriminator", "then", "else"),
    }
)
_BOUNDS = (("minimum", "exclusiveMinimum", max), ("maximum", "exclusiveMaximum", min))
_NULL = {"type": "null"}


class SchemaProblem(NamedTuple):
    """path: the properties down to the schema, with `[]` for items and `{}` for values. text: what to do."""

    path: tuple[str, ...]
    text: str


def lower(schema: JSONMapping) -> tuple[JSONObject, list[SchemaProblem]]:
    """The structural schema of a JSON Schema, and what is wrong. With problems, the schema has gaps that take anything."""
    walk = _Walk(schema)
    found = walk.node(schema, (), ())
    return found, walk.problems


class _Walk:
    def __init__(self, root: JSONMapping) -> None:
        self._root = root
        self._left = _MAX_NODES
        self.problems: list[SchemaProblem] = []

    def _refuse(self, path: tuple[str, ...], text: str) -> JSONObject:
        problem = SchemaProblem(path, text)
        if problem not in self.problems:
            self.problems.append(problem)
        return {PRESERVE: True}

    def node(self, schema: Any, path: tuple[str, ...], refs: tuple[str, ...]) -> JSONObject:
        """The schema of one value. It has `nullable` if null is a value."""
        self._left -= 1
        if self._left < 0:
            return self._refuse((), "is too large with all references inlined")
        if schema is True:
            return {PRESERVE: True}
        if not isinstance(schema, Mapping):
            return self._refuse(path, "must be a schema (an object)")
        schema, refs, problem = self._resolved(schema, refs)
        if problem:
            return self._refuse(path, problem)
        schema, null = _without_null(schema)
        if "$ref" in schema or ("allOf" in schema and _is_wrapper(schema)):
            found = self.node(schema, path, refs)
        elif (found_union := self._union(schema, path, refs)) is not None:
            found = found_union
        else:
            found = self._plain(schema, path, refs)
        if null:
            found["nullable"] = True
        return found

    def _value(self, schema: Any, path: tuple[str, ...], refs: tuple[str, ...], *, is_optional: bool = False) -> JSONObject:
        """The schema of a property, an item or a value of a map. What is optional is left out, and null is no value of it."""
        found = self.node(schema, path, refs)
        was_written = isinstance(schema, Mapping) and schema.get("nullable")
        if found.get("nullable") and not was_written:
            if is_optional:
                del found["nullable"]
            elif "enum" in found:
                self._refuse(path, "null never passes an enum: make the field optional instead")
        return found

    def _resolved(self, schema: JSONMapping, refs: tuple[str, ...]) -> tuple[JSONMapping, tuple[str, ...], str]:
        """The schema with its reference replaced by the target. Siblings win over the target."""
        if _is_wrapper(schema):
            inner = schema["allOf"][0]
            schema = {**inner, **{name: value for name, value in schema.items() if name != "allOf"}}
        while isinstance(ref := schema.get("$ref"), str):
            if ref in refs:
                return (
                    schema,
                    refs,
                    "a schema can't contain itself: leave the type out and set x-kubernetes-preserve-unknown-fields",
                )
            target = _target(self._root, ref)
            if not isinstance(target, Mapping):
                return schema, refs, f"$ref {ref} names nothing in this document"
            schema = {**target, **{name: value for name, value in schema.items() if name != "$ref"}}
            refs = (*refs, ref)
        return schema, refs, ""

    # --- unions ---

    def _union(self, schema: JSONMapping, path: tuple[str, ...], refs: tuple[str, ...]) -> JSONObject | None:
        """The schema of anyOf and oneOf if they are alternatives of types; None if they only restrict values."""
        if schema.get(INT_OR_STRING):
            return None
        name = next((each for each in ("anyOf", "oneOf") if each in schema), "")
        branches = schema.get(name)
        if not isinstance(branches, Sequence) or not any(_has_type(each) for each in branches):
            return None
        rest = {key: value for key, value in schema.items() if key not in (name, "discriminator")}
        types = [each.get("type") for each in branches if isinstance(each, Mapping) and len(each) == 1]
        if len(types) == len(branches) and set(types) == {"integer", "number"}:
            return self.node({**rest, "type": "number"}, path, refs)
        if len(types) == len(branches) and set(types) == {"integer", "string"}:
            return self._refuse(path, "use x-kubernetes-int-or-string: true for integers or texts")
        if len(branches) == 1:
            return self.node({**branches[0], **rest}, path, refs)
        tag = schema.get("discriminator")
        property_name = tag.get("propertyName") if isinstance(tag, Mapping) else None
        if isinstance(property_name, str):
            return self._tagged(property_name, branches, rest, path, refs)
        return self._refuse(path, "a field has one type: use an object with one optional field per case")

    def _tagged(
        self, tag: str, branches: Sequence[Any], rest: JSONMapping, path: tuple[str, ...], refs: tuple[str, ...]
    ) -> JSONObject:
        cases = [self.node(branch, path, refs) for branch in branches]
        values: list[Any] = []
        properties: JSONObject = {tag: {}}
        for case in cases:
            own = case.get("properties", {}).get(tag, {}).get("enum")
            if not own or set(own) & set(values):
                return self._refuse(path, f"each case of the union needs its own constants of {tag}")
            values += own
            for name, each in case["properties"].items():
                each = {key: value for key, value in each.items() if key != "default"}
                if name != tag and _same(properties.setdefault(name, each)) != _same(each):
                    return self._refuse(path, f"the cases of the union have {name} of different types: give it two names")
        properties[tag] = {"type": json_type(values[0]), "enum": values}
        found = tagged_schema(
            tag,
            properties,
            [(case["properties"][tag]["enum"], case.get("required", ()), case["properties"].keys()) for case in cases],
        )
        if isinstance(rest.get("description"), str):
            found["description"] = described(rest["description"])
        return found

    # --- other schemas ---

    def _plain(self, schema: JSONMapping, path: tuple[str, ...], refs: tuple[str, ...]) -> JSONObject:
        found: JSONObject = {}
        for name, value in schema.items():
            if name in _REFUSED:
                self._refuse(path, _REFUSED[name])
            elif name in _COPIED or name.startswith("x-kubernetes-"):
                found[name] = json_copy(value)
            elif name not in _HANDLED and name not in _DROPPED and not name.startswith("x-"):
                self._refuse(path, f"{name} is no keyword of a structural schema: leave it out")
        if schema.get("writeOnly"):
            self._refuse(path, "whoever may read an object sees all of it: keep secrets in a Secret, and refer to it")
        self._description(schema, found)
        self._constants(schema, found, path)
        self._numbers(schema, found, path)
        if isinstance(pattern := schema.get("pattern"), str):
            found["pattern"] = pattern
            if problem := pattern_problem(pattern):
                self._refuse(path, problem)
        self._objects(schema, found, path, refs)
        self._lists(schema, found, path, refs)
        if schema.get("contentEncoding") == "base64":
            found["format"] = "byte"
        if isinstance(format_ := found.get("format"), str) and not is_known(format_, (found["type"],) if "type" in found else ()):
            del found["format"]
        if found.get("default", "") is None:
            del found["default"]
        if not found.get("type") and not found.get(PRESERVE) and not found.get(INT_OR_STRING):
            if found.keys() <= {"description", "default", "nullable"}:
                found[PRESERVE] = True
            else:
                self._refuse(path, "has no type: give it one")
        return found

    def _description(self, schema: JSONMapping, found: JSONObject) -> None:
        text = schema.get("description")
        text = text if isinstance(text, str) else ""
        if deprecated := schema.get("deprecated"):
            text = f"{text}\nDeprecated{': ' + deprecated if isinstance(deprecated, str) else ''}."
        if text:
            found["description"] = described(text)

    def _constants(self, schema: JSONMapping, found: JSONObject, path: tuple[str, ...]) -> None:
        if "const" in schema:
            found["enum"] = [schema["const"]]
        values = found.get("enum")
        if values is None or found.get(INT_OR_STRING):
            return
        types = {json_type(value) for value in values}
        if len(types) != 1 or "" in types:
            found |= self._refuse(path, "an enum has texts, integers, numbers or booleans of one type")
            return
        found.setdefault("type", types.pop())

    def _numbers(self, schema: JSONMapping, found: JSONObject, path: tuple[str, ...]) -> None:
        for inclusive, exclusive, tighter in _BOUNDS:
            limit = schema.get(exclusive)
            if isinstance(limit, bool):
                found[exclusive] = limit
            elif limit is not None:
                other = found.get(inclusive)
                if other is None or tighter(limit, other) == limit:
                    found |= {inclusive: limit, exclusive: True}
            if inclusive in found and (problem := number_problem(found[inclusive])):
                self._refuse(path, problem)

    def _objects(self, schema: JSONMapping, found: JSONObject, path: tuple[str, ...], refs: tuple[str, ...]) -> None:
        properties, extra = schema.get("properties"), schema.get("additionalProperties")
        if isinstance(properties, Mapping) and properties:
            found.setdefault("type", "object")
            found["properties"] = {}
            required = list(found.get("required") or ())
            for name, child in properties.items():
                found["properties"][name] = self._value(child, (*path, name), refs, is_optional=name not in required)
            if extra is True:
                found[PRESERVE] = True
            elif isinstance(extra, Mapping):
                self._refuse((*path, "{}"), "an object has either properties or additionalProperties")
        elif isinstance(extra, Mapping) and extra:
            found.setdefault("type", "object")
            values = self._value(extra, (*path, "{}"), refs)
            if values == {PRESERVE: True}:
                found[PRESERVE] = True
            else:
                found["additionalProperties"] = values
        elif found.get("type") == "object" and extra is not False:
            found[PRESERVE] = True
        if not found.get("required", True):
            del found["required"]

    def _lists(self, schema: JSONMapping, found: JSONObject, path: tuple[str, ...], refs: tuple[str, ...]) -> None:
        if found.get("type") != "array" and "items" not in schema:
            return
        if "prefixItems" in schema:
            return
        items = schema.get("items")
        if not isinstance(items, Mapping):
            text = "list of what? Give it items" if items is None else "items must be a schema"
            found["items"] = self._refuse(path, text)
        else:
            found["items"] = self._value(items, (*path, "[]"), refs)
        if schema.get("uniqueItems"):
            if found["items"].get("type") in ("string", "integer", "number", "boolean"):
                found[LIST_TYPE] = "set"
            else:
                self._refuse(
                    path,
                    "a set has texts, numbers or booleans: use a list, with x-kubernetes-list-type map if objects have a key",
                )


def _target(root: JSONMapping, ref: str) -> Any:
    """What a reference of the same document names; None if it names nothing."""
    if ref == "#":
        return root
    if not ref.startswith("#/"):
        return None
    found: Any = root
    for part in ref[2:].split("/"):
        if not isinstance(found, Mapping):
            return None
        found = found.get(part.replace("~1", "/").replace("~0", "~"))
    return found


def _is_wrapper(schema: JSONMapping) -> bool:
    """Whether allOf only adds members to one reference, as tools wrote it when `$ref` had no siblings."""
    all_of = schema.get("allOf")
    return isinstance(all_of, list) and len(all_of) == 1 and isinstance(all_of[0], Mapping) and "$ref" in all_of[0]


def _without_null(schema: JSONMapping) -> tuple[JSONMapping, bool]:
    """The schema of the values but null, and whether null is one."""
    for name in ("anyOf", "oneOf"):
        branches = schema.get(name)
        if isinstance(branches, list) and _NULL in branches:
            rest = [each for each in branches if each != _NULL]
            others = {key: value for key, value in schema.items() if key != name}
            if len(rest) == 1 and isinstance(rest[0], Mapping):
                return {**rest[0], **others}, True
            return {**others, name: rest}, True
    types = schema.get("type")
    if isinstance(types, list):
        rest_types = [each for each in types if each != "null"]
        if len(rest_types) == 1:
            return {**schema, "type": rest_types[0]}, len(rest_types) < len(types)
        others = {key: value for key, value in schema.items() if key != "type"}
        return {**others, "anyOf": [{"type": each} for each in rest_types]}, len(rest_types) < len(types)
    enum = schema.get("enum")
    if isinstance(enum, list) and None in enum and not schema.get("nullable"):
        return {**schema, "enum": [each for each in enum if each is not None]}, True
    return schema, False


def _has_type(branch: Any) -> bool:
    return isinstance(branch, Mapping) and bool({"type", "$ref", "const", "properties"} & branch.keys())


def _same(schema: JSONMapping) -> JSONObject:
    return {name: value for name, value in schema.items() if name not in ("description", "default")}
