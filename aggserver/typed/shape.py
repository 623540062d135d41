"""Shape: what a Python type is as JSON: its structural schema, and how one value of it is decoded and encoded.

Decoders get values that have passed the schema, so they check only what the schema can't say. Whatever does not fit is collected
as `Mismatch`es, each with its place below the value. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from aggserver.meta.json_types import JSONObject

__all__ = [
    "WRONG",
    "Convert",
    "Loc",
    "Mismatch",
    "MismatchError",
    "Shape",
    "caught",
    "finite",
    "list_shape",
    "map_shape",
    "nullable",
]

Loc: TypeAlias = tuple[str | int, ...]
"""A place below a value: JSON names of fields, keys, and indices."""

Convert: TypeAlias = Callable[[Any], Any]


class Mismatch(NamedTuple):
    """One value that does not fit. text: why, for the user."""

    loc: Loc
    value: Any
    text: str


class MismatchError(Exception):
    """Raised by decoders and encoders, and turned into field errors by `codec.py`."""

    def __init__(self, found: list[Mismatch]) -> None:
        super().__init__("; ".join(each.text for each in found))
        self.found = found

    def below(self, part: str | int) -> list[Mismatch]:
        return [Mismatch((part, *each.loc), each.value, each.text) for each in self.found]


WRONG = (MismatchError, AttributeError, LookupError, TypeError, ValueError)
"""What the conversion of a value that does not fit may raise."""


def caught(error: Exception, value: Any) -> MismatchError:
    """An error that the conversion of a value has raised. The first argument is the text: attrs' validators add more to it."""
    if isinstance(error, MismatchError):
        return error
    text = str(error.args[0] if error.args else error) or type(error).__name__
    return MismatchError([Mismatch((), value, text)])


@dataclass(slots=True)
class Shape:
    """schema: of the value, which may be changed by its owner. decode, encode: None if the JSON value is the Python value.

    null: whether None is a value, about which the place where the type stands decides. of_class: whether it is an object with
    the fields of a class.
    """

    schema: JSONObject
    decode: Convert | None = None
    encode: Convert | None = None
    null: bool = False
    of_class: Any = field(default=None)

    @property
    def type(self) -> str:
        found: str = self.schema.get("type", "")
        return found


def nullable(shape: Shape) -> Shape:
    """The shape of values that may be null: of items, and of required fields."""

    def unless_none(convert: Convert | None) -> Convert | None:
        return None if convert is None else lambda value: None if value is None else convert(value)

    return Shape(shape.schema | {"nullable": True}, unless_none(shape.decode), unless_none(shape.encode))


def list_shape(items: Shape, make: Convert | None = None, order: Convert | None = None) -> Shape:
    """make: the Python collection from the list of items; None for a list. order: of a collection that has none."""

    def decode(value: Any) -> Any:
        found = value if items.decode is None else _converted(items.decode, value)
        return list(found) if make is None else make(found)

    def encode(value: Any) -> Any:
        if isinstance(value, str | bytes | dict):
            raise TypeError(f"must be a list, not {type(value).__name__}")
        found = list(value) if items.encode is None else _converted(items.encode, list(value))
        return found if order is None else order(found)

    return Shape({"type": "array", "items": items.schema}, decode, encode)


def map_shape(values: Shape) -> Shape:
    def convert(each: Convert | None) -> Convert:
        if each is None:
            return dict
        return lambda value: _converted_values(each, value)

    return Shape({"type": "object", "additionalProperties": values.schema}, convert(values.decode), convert(values.encode))


def _converted(convert: Convert, items: list[Any]) -> list[Any]:
    try:
        return [convert(item) for item in items]
    except WRONG:
        raise _mismatches(convert, enumerate(items)) from None


def _converted_values(convert: Convert, values: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return {key: convert(value) for key, value in values.items()}
    except WRONG:
        raise _mismatches(convert, values.items()) from None


def _mismatches(convert: Convert, parts: Iterable[tuple[str | int, Any]]) -> MismatchError:
    """What is wrong in any of the parts, of which one could not be converted."""
    mismatches: list[Mismatch] = []
    for part, value in parts:
        try:
            convert(value)
        except WRONG as error:
            mismatches += caught(error, value).below(part)
    return MismatchError(mismatches)


def finite(value: float) -> float:
    """JSON has no NaN and no infinity."""
    if not math.isfinite(value):
        raise ValueError(f"must be a finite number, not {value}")
    return value
