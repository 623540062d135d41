"""Optional values. `or`, `orValue`, `.?` and `[?]` are in the generated code, since they may skip their right side.

Source: cel-go cel/library.go and common/types/optional.go, version 2 of the library, v0.26.0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from aggserver.cel.values import NONE, Duration, EvaluationError, Optional, Timestamp, show

__all__ = ["IMPLEMENTATIONS"]

# The start of year 1, Go's zero time.
_ZERO_TIME = -62135596800 * 10**9


def _of_non_zero_value(value: Any) -> Optional:
    match value:
        case Timestamp():
            zero = value.nanoseconds == _ZERO_TIME
        case Duration():
            zero = value.nanoseconds == 0
        case None | bool() | int() | float() | str() | bytes() | list() | dict():
            zero = not value
        case _:
            zero = False
    return NONE if zero else Optional(value)


def _value(optional: Optional) -> Any:
    if not optional.present:
        raise EvaluationError("optional.none() dereference")
    return optional.value


def _unwrap(optionals: list[Any]) -> list[Any]:
    for each in optionals:
        if not isinstance(each, Optional):
            raise EvaluationError(f"value {show(each)} is not optional")
    return [each.value for each in optionals if each.present]


IMPLEMENTATIONS: Mapping[str, Callable[..., Any]] = {
    "optional_of": Optional,
    "optional_ofNonZeroValue": _of_non_zero_value,
    "optional_none": lambda: NONE,
    "optional_value": _value,
    "optional_hasValue": lambda optional: optional.present,
    "optional_unwrap": _unwrap,
    "optional_unwrapOpt": _unwrap,
    "list_first": lambda items: Optional(items[0]) if items else NONE,
    "list_last": lambda items: Optional(items[-1]) if items else NONE,
}
