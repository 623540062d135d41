"""Scalars: the Python types whose values are one JSON string, number or boolean.

Formats are only those that kube-apiserver checks. Pure.
Source: k8s.io/apiextensions-apiserver pkg/apiserver/validation/formats.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network
from pathlib import Path, PurePath
from typing import Any
from uuid import UUID

from aggserver.meta.json_types import JSONObject
from aggserver.typed import texts
from aggserver.typed.quantity import QUANTITY_SCHEMA, Quantity
from aggserver.typed.shape import Convert, Shape, finite

__all__ = ["REFUSED", "choice_shape", "json_type", "scalar_shape"]


def _string(format_: str = "", decode: Convert | None = None, encode: Convert | None = None) -> Shape:
    return Shape({"type": "string"} | ({"format": format_} if format_ else {}), decode, encode)


def _number(value: Any) -> float:
    return finite(float(value))


_SCALARS: Mapping[Any, tuple[JSONObject, Convert | None, Convert | None]] = {
    str: ({"type": "string"}, None, None),
    bool: ({"type": "boolean"}, None, None),
    int: ({"type": "integer"}, int, None),
    float: ({"type": "number"}, float, _number),
    datetime: ({"type": "string", "format": "date-time"}, texts.time_of, texts.time_text),
    date: ({"type": "string", "format": "date"}, texts.date_of, texts.date_text),
    timedelta: ({"type": "string", "format": "duration"}, texts.duration_of, texts.duration_text),
    bytes: ({"type": "string", "format": "byte"}, texts.bytes_of, texts.bytes_text),
    UUID: ({"type": "string", "format": "uuid"}, UUID, str),
    IPv4Address: ({"type": "string", "format": "ipv4"}, IPv4Address, str),
    IPv6Address: ({"type": "string", "format": "ipv6"}, IPv6Address, str),
    Quantity: (QUANTITY_SCHEMA, Quantity, str),
}

REFUSED: Mapping[Any, str] = {
    type(None): "None alone is no type: leave the field out",
    complex: "JSON has no complex numbers: use a class with two fields",
    Decimal: "a decimal is no JSON number: use Quantity, float, or str",
    Fraction: "a fraction is no JSON number: use Quantity, float, or str",
    time: "no format for the time of a day is checked: use str with a Pattern",
    bytearray: "use bytes",
    memoryview: "use bytes",
    **dict.fromkeys((Path, PurePath), "use str for a path"),
    **dict.fromkeys((IPv4Network, IPv6Network, IPv4Interface, IPv6Interface), 'use Annotated[str, Format("cidr")]'),
}
"""Types that are easily confused with those above -> what to write instead."""


def scalar_shape(type_: Any) -> Shape | None:
    """The shape of a type in the table; None for any other type."""
    found = _SCALARS.get(type_)
    return None if found is None else Shape(dict(found[0]), found[1], found[2])


def choice_shape(choices: Sequence[tuple[Any, Any]]) -> Shape | str:
    """The shape of Literals and Enums, or why there is none. choices: (JSON value, Python value), in the written order."""
    types = {json_type(value) for value, _ in choices}
    if not choices:
        return "has no values"
    if "" in types:
        return "the values must be texts, integers, numbers or booleans"
    if len(types) > 1:
        return "one type per Literal or Enum: a schema has one type for all values; use texts for all of them"
    schema = {"type": types.pop(), "enum": list(dict.fromkeys(value for value, _ in choices))}
    if all(value is choice for value, choice in choices):
        return Shape(schema)
    by_value = dict(choices)
    by_choice = {choice: value for value, choice in choices}

    def encode(choice: Any) -> Any:
        try:
            return by_choice[choice]
        except KeyError:
            if choice in by_value:
                return choice
            raise ValueError(f"must be one of {', '.join(map(str, by_choice))}") from None

    return Shape(schema, by_value.__getitem__, encode)


def json_type(value: Any) -> str:
    """The schema's type of a constant; '' for one that is no scalar."""
    for type_, name in ((bool, "boolean"), (str, "string"), (int, "integer"), (float, "number")):
        if isinstance(value, type_):
            return name
    return ""
