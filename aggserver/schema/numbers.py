"""Validation of numbers: bounds, multiples and the ranges of formats.

Upstream's bounds are float64, converted to int64 to be compared with integers. Half of the rules here follow from that, and
some are surprising (an integer is not a multiple of 0.5, since that becomes 0). Pure.
Source: k8s.io/kube-openapi pkg/validation/validate/{validator,values}.go; github.com/go-openapi/swag convert.go.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from aggserver.meta.field import Path
from aggserver.meta.golang import INT64_MAX, INT64_MIN, format_float, from_float

__all__ = ["UNPLACED", "as_int64", "is_integral", "problems"]

_INT32_MAX = 2**31 - 1
# The least float64 that is too large for a float32.
_FLOAT32_END = float.fromhex("0x1.ffffffp+127")
_EXACT = 2**53 - 1
_TOLERANCE = 1e-9

UNPLACED = object()
"""In place of the value to show: upstream reports the error without a field path."""


def is_integral(value: float) -> bool:
    """Whether a float counts as an integer: it is one, or within upstream's tolerance of one."""
    if not -_EXACT <= value <= _EXACT:
        return False
    if value.is_integer():
        return True
    # Upstream compares with the float converted to uint64, which is far from any negative number.
    return value >= 1 and (value - math.floor(value)) / (value + math.floor(value)) < _TOLERANCE


def problems(value: int | float, schema: Mapping[str, Any], type_: str, format_: str, path: Path) -> Iterator[tuple[str, Any]]:
    """The error texts, each with the value to show, or UNPLACED. type_: the allowed type, '' if there are none or several."""
    if unfit := _range_error(value, type_, format_, "Checked", path):
        yield unfit, UNPLACED
    for keyword, word, check in (
        ("multipleOf", "MultipleOf", _multiple),
        ("minimum", "Minimum boundary", _minimum),
        ("maximum", "Maximum boundary", _maximum),
    ):
        if schema.get(keyword) is None:
            continue
        bound: int | float = float(schema[keyword])
        compared = value
        if unfit := _range_error(bound, type_, format_, word, path):
            yield unfit, UNPLACED
            compared = float(value)
        elif isinstance(value, int):
            bound = as_int64(bound)
        problem = check(compared, bound, schema)
        if problem == _NOT_POSITIVE:
            yield f"factor MultipleOf declared for {path.text} must be positive: {_show(bound)}", bound
        elif problem:
            yield f"{path.text} in body should be {problem} {_show(bound)}", compared


_NOT_POSITIVE = "not positive"


def _multiple(value: int | float, factor: int | float, schema: Mapping[str, Any]) -> str:
    if factor <= 0:
        return _NOT_POSITIVE
    if isinstance(value, int) and isinstance(factor, int):
        fits = value % factor == 0
    else:
        quotient = 1 / factor * value if factor < 1 else value / factor
        fits = is_integral(quotient)
    return "" if fits else "a multiple of"


def _minimum(value: int | float, bound: int | float, schema: Mapping[str, Any]) -> str:
    if schema.get("exclusiveMinimum"):
        return "" if value > bound else "greater than"
    return "" if value >= bound else "greater than or equal to"


def _maximum(value: int | float, bound: int | float, schema: Mapping[str, Any]) -> str:
    if schema.get("exclusiveMaximum"):
        return "" if value < bound else "less than"
    return "" if value <= bound else "less than or equal to"


def _range_error(value: int | float, type_: str, format_: str, word: str, path: Path) -> str:
    """Upstream's error, with its number format, for a number out of the type's range; '' if it is within."""
    if type_ == "integer":
        whole = from_float(value) if isinstance(value, float) else value
        fits = isinstance(whole, int) and (format_ != "int32" or -_INT32_MAX - 1 <= whole <= _INT32_MAX)
    else:
        fits = format_ != "float" or abs(value) < _FLOAT32_END
    if fits:
        return ""
    what = f"with format {format_}" if format_ else "(default format)"
    return f"{word} value must be of type {type_} {what} in {path.text}"


def as_int64(value: float) -> int:
    """Go's conversion, as on amd64: the fraction is cut off, and a value out of range becomes the smallest int64."""
    return int(value) if INT64_MIN <= value < INT64_MAX else INT64_MIN


def _show(number: int | float) -> str:
    return format_float(number) if isinstance(number, float) else str(number)
