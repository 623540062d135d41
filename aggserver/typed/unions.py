"""Unions: several classes in one place, told apart by a tag, as one object.

A structural schema has no `oneOf` of different properties. So the object has the fields of all classes, the tag is an enum, and a
rule for each class says which fields its objects must and can't have; its message names the class's tag. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from aggserver.meta.json_types import JSONObject
from aggserver.schema.escaping import escape
from aggserver.schema.structural import INT_OR_STRING, VALIDATIONS
from aggserver.typed.objects import ObjectOf
from aggserver.typed.shape import Mismatch, MismatchError, Shape

__all__ = ["UntaggedError", "tagged", "tagged_schema"]


class UntaggedError(Exception):
    """The classes can't be told apart, or don't fit together. The text is for the user."""


@dataclass(slots=True)
class _Case:
    """One class. values: of the tag. tag, name: of the tag in JSON and in Python; '' if only JSON has it."""

    of: ObjectOf
    shape: Shape
    values: tuple[Any, ...]
    tag: str
    name: str = ""


def tagged(shapes: Sequence[Shape], tag_field: str = "") -> Shape:
    """The shape of a union of the shapes of classes. tag_field: the name of the tag in Python, if it is declared."""
    cases = [_case(shape, shapes, tag_field) for shape in shapes]
    names = list(dict.fromkeys(case.tag for case in cases))
    if len(names) > 1:
        raise UntaggedError(f"the tags of one union have one name in JSON, not {' and '.join(names)}")
    values = [value for case in cases for value in case.values]
    if len(set(values)) < len(values) or len({type(value) for value in values}) > 1:
        raise UntaggedError("each class of a union has its own values of the tag, all of one type")
    properties: dict[str, JSONObject] = {names[0]: {"type": _type(values[0]), "enum": values}}
    for case in cases:
        for member in case.of.members:
            if member.json == names[0]:
                continue
            # Without the default, which the objects of all classes would get.
            before = properties.setdefault(member.json, member.shape.schema)
            if _without_description(before) != _without_description(member.shape.schema):
                raise UntaggedError(
                    f"the classes of a union have {member.json} of different types: give it two names, or one type"
                )
    schema = tagged_schema(
        names[0],
        properties,
        [
            (case.values, [each.json for each in case.of.members if each.required], {each.json for each in case.of.members})
            for case in cases
        ],
    )
    by_value = {value: case for case in cases for value in case.values}
    by_class = {case.of.reading.cls: case for case in cases}

    def decode(value: Any) -> Any:
        case = by_value.get(value.get(names[0]))
        if case is None:
            raise MismatchError([Mismatch((names[0],), value.get(names[0]), f"must be one of {', '.join(map(str, by_value))}")])
        assert case.shape.decode is not None
        return case.shape.decode(value)

    def encode(value: Any) -> Any:
        case = by_class.get(type(value)) or next((by_class[cls] for cls in type(value).__mro__ if cls in by_class), None)
        if case is None and isinstance(value, dict):
            case = by_value.get(value.get(cases[0].name))
        if case is None:
            raise TypeError(f"must be one of {', '.join(cls.__name__ for cls in by_class)}, not {type(value).__name__}")
        assert case.shape.encode is not None
        return case.shape.encode(value)

    return Shape(schema, decode, encode)


def _case(shape: Shape, shapes: Sequence[Shape], tag_field: str) -> _Case:
    of: ObjectOf = shape.of_class
    if of.reading.tag is not None:
        return _Case(of, shape, (of.reading.tag.value,), of.reading.tag.json)
    name = tag_field or _common_tag(shapes)
    member = next((each for each in of.members if each.name == name), None)
    if member is None or not member.shape.schema.get("enum"):
        raise UntaggedError(
            "objects of several classes need a tag: give each a field such as kind: Literal[...], with its own value, "
            "or use a class with one optional field per case"
        )
    return _Case(of, shape, tuple(member.shape.schema["enum"]), member.json, name)


def _common_tag(shapes: Sequence[Shape]) -> str:
    """The first field that all classes have, with different constants in each; '' if there is none."""
    enums: list[dict[str, set[Any]]] = [
        {member.name: set(member.shape.schema["enum"]) for member in shape.of_class.members if member.shape.schema.get("enum")}
        for shape in shapes
    ]
    for name in enums[0]:
        if all(name in each for each in enums):
            total = sum(len(each[name]) for each in enums)
            if len(set.union(*(each[name] for each in enums))) == total:
                return name
    return ""


def tagged_schema(
    tag: str, properties: JSONObject, cases: Sequence[tuple[Sequence[Any], Sequence[str], Collection[str]]]
) -> JSONObject:
    """properties: of all cases. cases: of each the values of its tag, its required properties, and all its properties."""
    common = [name for name in cases[0][1] if name != tag and all(name in required for _, required, _ in cases)]
    found: JSONObject = {"type": "object", "properties": properties, "required": [tag, *common]}
    rules = [
        rule
        for values, required, own in cases
        if (rule := _rule(tag, values, properties, [name for name in required if name != tag and name not in common], own))
    ]
    return found | ({VALIDATIONS: rules} if rules else {})


def _rule(
    tag: str, values: Sequence[Any], properties: JSONObject, required: Sequence[str], own: Collection[str]
) -> JSONObject | None:
    """The rule of one case; None if there is nothing to check."""
    needed = [name for name in required if _is_visible(name, properties[name])]
    foreign = [name for name in properties if name != tag and name not in own and _is_visible(name, properties[name])]
    if not needed and not foreign:
        return None
    field = f"self.{escape(tag)}"
    literals = [json.dumps(value) for value in values]
    other = f"{field} != {literals[0]}" if len(literals) == 1 else f"!({field} in [{', '.join(literals)}])"
    checks = [f"has(self.{escape(name)})" for name in needed] + [f"!has(self.{escape(name)})" for name in foreign]
    said = [f"needs {', '.join(needed)}"] if needed else []
    said += [f"can't have {', '.join(foreign)}"] if foreign else []
    return {
        "rule": f"{other} || ({' && '.join(checks)})",
        "message": f"{tag} {' or '.join(map(str, values))} {' and '.join(said)}",
    }


def _is_visible(name: str, schema: JSONObject) -> bool:
    """Whether rules can name a property: it must have a type, and a name that can be written."""
    return escape(name) is not None and _has_type(schema)


def _has_type(schema: JSONObject) -> bool:
    """A list or a map of anything has no type in CEL, as its items have none."""
    inner = schema.get("items") if schema.get("type") == "array" else schema.get("additionalProperties")
    if isinstance(inner, dict):
        return _has_type(inner)
    return bool(schema.get("type") or schema.get(INT_OR_STRING))


def _type(value: Any) -> str:
    return "boolean" if isinstance(value, bool) else "string" if isinstance(value, str) else "integer"


def _without_description(schema: JSONObject) -> JSONObject:
    return {name: value for name, value in schema.items() if name != "description"}
