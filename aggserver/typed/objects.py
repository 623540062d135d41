"""Objects: the shape of a class of the members that the reader has found, with its decoder and encoder.

A decoder makes an instance by the class's own constructor, so that `__post_init__`, attrs' and pydantic's validators run; all
members are decoded before, and what is wrong in any of them is reported together. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aggserver.meta.json_types import JSONObject
from aggserver.schema.structural import PRESERVE
from aggserver.typed.readings import NOTHING, ClassReading
from aggserver.typed.shape import WRONG, Convert, Mismatch, MismatchError, Shape, caught

__all__ = ["ObjectOf", "Property", "is_null_kept", "object_shape"]


_TYPE = {"apiVersion", "kind"}


@dataclass(slots=True)
class Property:
    """A field as a property. name: in Python. key: by which the class takes the value. default: its JSON value, or NOTHING.

    leaves_none: None is left out when encoded.
    """

    name: str
    json: str
    key: str
    shape: Shape
    required: bool
    default: Any = NOTHING
    leaves_none: bool = False
    computed: bool = False


@dataclass(slots=True)
class ObjectOf:
    """What a shape of a class is made of."""

    reading: ClassReading
    members: Sequence[Property]

    @property
    def has_only_defaults(self) -> bool:
        return not any(member.required for member in self.members)


def object_shape(reading: ClassReading, members: Sequence[Property], *, is_root: bool = False) -> Shape:
    """is_root: whether it is a whole object, which has apiVersion and kind, too; they are not the class's."""
    schema: JSONObject = {"type": "object"}
    if members:
        schema["properties"] = {member.json: _property(member) for member in members}
    if required := [member.json for member in members if member.required]:
        schema["required"] = required
    if reading.more is not None:
        schema[PRESERVE] = True
    return Shape(
        schema, _decoder(reading, members, is_root=is_root), _encoder(reading, members), of_class=ObjectOf(reading, members)
    )


def _property(member: Property) -> JSONObject:
    return member.shape.schema if member.default is NOTHING else member.shape.schema | {"default": member.default}


def is_null_kept(schema: JSONObject) -> bool:
    """Whether null is a value of a property: elsewhere kube-apiserver drops it, so it counts as missing."""
    return bool(schema.get("nullable"))


def _decoder(reading: ClassReading, members: Sequence[Property], *, is_root: bool) -> Convert:
    steps = [
        (member.json, member.key, member.shape.decode, is_null_kept(member.shape.schema))
        for member in members
        if not member.computed
    ]
    known = {member.json for member in members} | (_TYPE if is_root else set())
    if reading.tag is not None:
        known.add(reading.tag.json)
    build, keeps_more, explain = reading.build, reading.more is not None, reading.explain

    def decode(obj: Any) -> Any:
        values: dict[str, Any] = {}
        mismatches: list[Mismatch] = []
        for json, key, convert, keeps_null in steps:
            value = obj.get(json, NOTHING)
            if value is NOTHING or (value is None and not keeps_null):
                continue
            if convert is not None:
                try:
                    value = convert(value)
                except WRONG as error:
                    mismatches += caught(error, value).below(json)
                    continue
            values[key] = value
        if mismatches:
            raise MismatchError(mismatches)
        if keeps_more:
            values.update({json: value for json, value in obj.items() if json not in known})
        try:
            return build(values)
        except (TypeError, ValueError) as error:
            if explain is None:
                raise caught(error, obj) from error
            raise MismatchError([Mismatch(loc, _at(obj, loc), text) for loc, text in explain(error)]) from error

    return decode


def _at(value: Any, loc: Sequence[str | int]) -> Any:
    for part in loc:
        try:
            value = value[part]
        except (LookupError, TypeError):
            return None
    return value


def _encoder(reading: ClassReading, members: Sequence[Property]) -> Convert:
    steps = [(member.json, member.name, member.shape.encode, member.leaves_none) for member in members]
    get, more, tag = reading.get, reading.more, reading.tag

    def encode(value: Any) -> JSONObject:
        out: JSONObject = {} if tag is None else {tag.json: tag.value}
        mismatches: list[Mismatch] = []
        for json, name, convert, leaves_none in steps:
            given: Any = None
            try:
                given = get(value, name)
                if given is NOTHING or (given is None and leaves_none):
                    continue
                out[json] = given if convert is None else convert(given)
            except WRONG as error:
                mismatches += caught(error, given).below(json)
        if mismatches:
            raise MismatchError(mismatches)
        if more is not None:
            out = {**more(value), **out}
        return out

    return encode
