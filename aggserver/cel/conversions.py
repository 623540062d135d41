"""`int()`, `uint()`, `double()`, `string()`, `bool()`, `bytes()`, `timestamp()` and `duration()`.

Run when the expression is evaluated, or while it is compiled if the argument is a constant. Pure.
Source: ConvertToType of cel-go common/types, v0.26.0; Go's strconv, 1.26.
"""

from __future__ import annotations

import math
import re
from typing import Any

from aggserver.cel import times
from aggserver.cel.values import Duration, EvaluationError, Opaque, Timestamp, Uint, type_name
from aggserver.meta.golang import INT64_MAX, format_float, parse_int, parse_uint

__all__ = ["to_bool", "to_bytes", "to_double", "to_duration", "to_int", "to_string", "to_timestamp", "to_uint"]

# The repeats are possessive: otherwise `re` would try every split of a long row of digits before it rejects a wrong end.
_DECIMAL = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_HEXADECIMAL = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]++(?:\.[0-9a-fA-F]*+)?|\.[0-9a-fA-F]++)[pP][+-]?[0-9]+", re.ASCII)
_NOT_FINITE = re.compile(r"[+-]?inf(?:inity)?|nan", re.ASCII | re.IGNORECASE)
_BOOLS = dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "FALSE", "false", "False"), False
)


def _impossible(value: object, wanted: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from '{type_name(value)}' to '{wanted}'")


def to_int(value: Any) -> int:
    """The value as an int. Raises EvaluationError, as all functions of this module do."""
    match value:
        case Uint():
            if value > INT64_MAX:
                raise EvaluationError("integer overflow")
            return int(value)
        case int():
            return value
        case float():
            if not -(2.0**63) < value < 2.0**63:
                raise EvaluationError("integer overflow")
            return math.trunc(value)
        case str():
            try:
                return parse_int(value)
            except ValueError:
                raise _impossible(value, "int") from None
        case Timestamp():
            return value.nanoseconds // 10**9
        case Duration():
            return value.nanoseconds
        case _:
            raise _impossible(value, "int")


def to_uint(value: Any) -> Uint:
    match value:
        case Uint():
            return value
        case float():
            if not 0 <= value < 2.0**64:
                raise EvaluationError("unsigned integer overflow")
            return Uint(math.trunc(value))
        case str():
            try:
                return Uint(parse_uint(value))
            except ValueError:
                raise _impossible(value, "uint") from None
        case int():
            if value < 0:
                raise EvaluationError("unsigned integer overflow")
            return Uint(value)
        case _:
            raise _impossible(value, "uint")


def to_double(value: Any) -> float:
    if not isinstance(value, str):
        return float(value)
    if _DECIMAL.fullmatch(value):
        number = float(value)
    elif _HEXADECIMAL.fullmatch(value):
        try:
            number = float.fromhex(value)
        except OverflowError:
            number = math.inf
    elif _NOT_FINITE.fullmatch(value):
        return float(value)
    else:
        raise _impossible(value, "double")
    if math.isinf(number):
        raise _impossible(value, "double")
    return number


def to_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value not in _BOOLS:
        raise _impossible(value, "bool")
    return _BOOLS[value]


def to_bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")


def to_timestamp(value: Any) -> Timestamp:
    if isinstance(value, Timestamp):
        return value
    if isinstance(value, int):
        return times.timestamp_of(value * 10**9)
    moment = times.parse_timestamp(value)
    if moment is None:
        raise _impossible(value, "google.protobuf.Timestamp")
    return moment


def to_duration(value: Any) -> Duration:
    length = value if isinstance(value, Duration) else times.parse_duration(value) if isinstance(value, str) else None
    if length is None:
        raise _impossible(value, "google.protobuf.Duration")
    return length


def to_string(value: Any) -> str:
    match value:
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case float():
            return format_float(value)
        case Timestamp():
            return times.print_timestamp(value)
        case Duration():
            return times.print_duration(value)
        case str() | Opaque():
            return str(value)
        case _:
            raise _impossible(value, "string")
