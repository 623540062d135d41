"""Operators: arithmetic within 64 bits, fields, indexes, `in`.

Generated code calls these where it has no inline form. Each raises EvaluationError with cel-go's message. Pure.
Source: cel-go common/types, common/stdlib/standard.go and interpreter/attributes.go, v0.26.0.
"""

from __future__ import annotations

import math
from collections.abc import Set
from typing import Any

from aggserver.cel import times
from aggserver.cel.values import (
    MISSING,
    NONE,
    CostExceeded,
    Duration,
    EvaluationError,
    Optional,
    Timestamp,
    TypeValue,
    Uint,
    equal,
    find,
    go_type,
    no_such_overload,
    show,
    type_name,
)
from aggserver.meta.golang import INT64_MAX, INT64_MIN

__all__ = [
    "LARGEST_RESULT",
    "add",
    "contains",
    "divide",
    "element",
    "entry",
    "field",
    "has",
    "index",
    "look_up",
    "map_key",
    "member",
    "modulo",
    "multiply",
    "negate",
    "not_",
    "not_equal",
    "opened",
    "refused",
    "subtract",
]

_KEYS = frozenset((str, bool, int, Uint, float))
LARGEST_RESULT = 1 << 22
"""Characters or elements, more than any object has. Upstream is limited by memory only; here a larger result counts as exceeding
the cost limit."""


def _int64(value: int) -> int:
    if not INT64_MIN <= value <= INT64_MAX:
        raise EvaluationError("integer overflow")
    return value


def _uint64(value: int) -> Uint:
    if not 0 <= value < 2**64:
        raise EvaluationError("unsigned integer overflow")
    return Uint(value)


def _duration(nanoseconds: int) -> Duration:
    return Duration(_int64(nanoseconds))


def refused(left: object, function: str) -> EvaluationError:
    """The error if the left operand or target has the wrong type; for these three types cel-go does not name the function."""
    return (
        no_such_overload() if isinstance(left, str | Timestamp | Duration) else EvaluationError(f"no such overload: {function}")
    )


def add(left: Any, right: Any) -> Any:
    kind, other = type(left), type(right)
    if kind is other:
        if kind is int:
            return _int64(left + right)
        if kind is str or kind is bytes:
            return _concatenated(left, right)
        if kind is float:
            return left + right
        if kind is Uint:
            return _uint64(int(left) + right)
        if kind is Duration:
            return _duration(left.nanoseconds + right.nanoseconds)
    if isinstance(left, list | dict) and hasattr(left, "added"):
        return left.added(right)
    if isinstance(left, list) and isinstance(right, list):
        return _concatenated(left, right)
    if kind is Timestamp and other is Duration:
        return times.later(left, right)
    if kind is Duration and other is Timestamp:
        return times.later(right, left)
    if kind in (int, str, bytes, float, Uint, Duration, Timestamp) or isinstance(left, list):
        raise no_such_overload()
    raise EvaluationError("no such overload: _+_")


def _concatenated(left: Any, right: Any) -> Any:
    if len(left) + len(right) > LARGEST_RESULT:
        raise CostExceeded
    return left + right


def subtract(left: Any, right: Any) -> Any:
    kind, other = type(left), type(right)
    if kind is Timestamp and other is Duration:
        return times.earlier(left, right)
    if kind is not other:
        raise no_such_overload() if kind in (int, float, Uint) else refused(left, "_-_")
    if kind is int:
        return _int64(left - right)
    if kind is float:
        return left - right
    if kind is Uint:
        return _uint64(int(left) - right)
    if kind is Duration:
        return _duration(left.nanoseconds - right.nanoseconds)
    if kind is Timestamp:
        return times.difference(left, right)
    raise refused(left, "_-_")


def multiply(left: Any, right: Any) -> Any:
    kind = _number(left, right, "_*_")
    product = left * right
    return product if kind is float else _int64(product) if kind is int else _uint64(product)


def divide(left: Any, right: Any) -> Any:
    kind = _number(left, right, "_/_")
    if kind is float:
        if right != 0:
            return left / right
        return math.nan if left == 0 or left != left else math.copysign(math.inf, left) * math.copysign(1.0, right)
    if right == 0:
        raise EvaluationError("division by zero")
    quotient = abs(left) // abs(right)
    return _uint64(quotient) if kind is Uint else _int64(quotient if (left < 0) is (right < 0) else -quotient)


def modulo(left: Any, right: Any) -> Any:
    kind = _number(left, right, "_%_", numbers=(int, Uint))
    if right == 0:
        raise EvaluationError("modulus by zero")
    if left == INT64_MIN and right == -1:
        raise EvaluationError("integer overflow")
    rest = abs(left) % abs(right)
    return _uint64(rest) if kind is Uint else -rest if left < 0 else rest


def _number(left: Any, right: Any, function: str, numbers: tuple[type, ...] = (int, float, Uint)) -> type:
    """The type of both. Raises EvaluationError."""
    if type(left) not in numbers:
        raise refused(left, function)
    if type(right) is not type(left):
        raise no_such_overload()
    return type(left)


def negate(value: Any) -> Any:
    match value:
        case bool():
            raise no_such_overload()
        case Uint():
            raise EvaluationError("no such overload: -_")
        case int():
            return _int64(-value)
        case float():
            return -value
        case Duration():
            return _duration(-value.nanoseconds)
        case _:
            raise refused(value, "-_")


def not_(value: Any) -> bool:
    if value is True or value is False:
        return not value
    raise no_such_overload()


def index(operand: Any, key: Any) -> Any:
    """`operand[key]`; for an optional operand, an optional of the entry of its value."""
    if isinstance(operand, Optional):
        inner = look_up(operand.value, key)
        return NONE if inner is MISSING else Optional(inner)
    value = look_up(operand, key)
    if value is not MISSING:
        return value
    raise EvaluationError(f"index out of bounds: {show(key)}" if isinstance(operand, list) else f"no such key: {show(key)}")


def look_up(operand: Any, key: Any) -> Any:
    """The field, element or entry, or MISSING. Raises EvaluationError if the key can't be an index."""
    kind = type(key)
    if kind not in _KEYS:
        raise EvaluationError(f"invalid qualifier type: {go_type(key)}")
    if isinstance(operand, dict):
        return find(operand, key)
    if not isinstance(operand, list):
        return MISSING
    if kind is float or kind is Uint:
        if not float(key).is_integer() or not INT64_MIN <= key <= INT64_MAX:
            raise EvaluationError(f"unsupported index value {show(key)} in list")
        key = int(key)
    elif kind is not int:
        raise EvaluationError(f"unsupported index type '{type_name(key)}' in list")
    return operand[key] if 0 <= key < len(operand) else MISSING


def contains(item: Any, container: Any) -> bool:
    """`item in container`."""
    if isinstance(container, dict):
        return find(container, item) is not MISSING
    if hasattr(container, "holds"):
        return bool(container.holds(item))
    if isinstance(container, list):
        for element in container:
            try:
                if equal(item, element):
                    return True
            except EvaluationError:
                continue
        return False
    raise no_such_overload()


def member(item: Any, constants: Set[Any], bools: Set[bool]) -> bool:
    """`item in` a list of constants, split into bools and others since Python's True equals 1."""
    if type(item) is bool:
        return item in bools
    try:
        return item in constants
    except TypeError:
        return False


def has(operand: Any, key: Any) -> bool:
    if isinstance(operand, Optional):
        operand = operand.value
    return look_up(operand, key) is not MISSING


def field(operand: Any, key: str) -> Any:
    value = operand[key] if isinstance(operand, dict) and key in operand else None
    return MISSING if value is None else value


def opened(operand: Any) -> Any:
    """The value of an optional, MISSING if it has none; any other value itself."""
    return operand.value if isinstance(operand, Optional) else operand


def element(value: Any) -> Any:
    """The value of an optional element `[?value]`, MISSING if it has none."""
    if isinstance(value, Optional):
        return value.value
    raise EvaluationError(f"cannot initialize optional list element from non-optional value {show(value)}")


def entry(key: Any, value: Any) -> Any:
    if isinstance(value, Optional):
        return value.value
    raise EvaluationError(f"cannot initialize optional entry '{show(key)}' from non-optional value {show(value)}")


def map_key(key: Any) -> Any:
    if key is None or isinstance(key, str | int | float | Timestamp | Duration | TypeValue):
        return key
    raise EvaluationError(f"unsupported key type: {show(key)}")


def not_equal(left: Any, right: Any) -> bool:
    """`!=`, which is true for values that can't be compared."""
    try:
        return not equal(left, right)
    except EvaluationError:
        return True
