"""The standard functions: conversions, `type`, `size`, string tests, and the parts of timestamps and durations.

Source: cel-go common/stdlib/standard.go, v0.26.0. Operators are in `operators.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from aggserver.cel import conversions, times
from aggserver.cel.values import Duration, EvaluationError, Timestamp, TypeValue, no_such_overload, size, type_name
from aggserver.meta import regexp

__all__ = ["IMPLEMENTATIONS"]


def _same(value: Any) -> Any:
    return value


def _type(value: Any) -> TypeValue:
    return TypeValue(type_name(value))


def _contains(text: str, part: str) -> bool:
    return part in text


def _matches(text: Any, pattern: Any) -> bool:
    if not isinstance(text, str) or not isinstance(pattern, str):
        raise no_such_overload()
    try:
        return regexp.matcher(pattern)(text)
    except regexp.PatternError as error:
        raise EvaluationError(str(error)) from None


_CONVERSIONS: Mapping[str, Callable[[Any], Any]] = {
    "bool": conversions.to_bool,
    "bytes": conversions.to_bytes,
    "double": conversions.to_double,
    "duration": conversions.to_duration,
    "int64": conversions.to_int,
    "string": conversions.to_string,
    "timestamp": conversions.to_timestamp,
    "uint64": conversions.to_uint,
}
_SOURCES = {
    "bool": ("bool", "string"),
    "bytes": ("bytes", "string"),
    "double": ("double", "int64", "string", "uint64"),
    "duration": ("duration", "int64", "string"),
    "int64": ("int64", "double", "duration", "string", "timestamp", "uint64"),
    "string": ("string", "bool", "bytes", "double", "duration", "int64", "timestamp", "uint64"),
    "timestamp": ("timestamp", "int64", "string"),
    "uint64": ("uint64", "double", "int64", "string"),
}
# Keyed by the part's name in the overload id.
_PARTS = {
    "year": "FullYear",
    "month": "Month",
    "day_of_year": "DayOfYear",
    "day_of_month": "DayOfMonth",
    "day_of_month_1_based": "Date",
    "day_of_week": "DayOfWeek",
    "hours": "Hours",
    "minutes": "Minutes",
    "seconds": "Seconds",
    "milliseconds": "Milliseconds",
}
_LENGTHS = {"hours": 3600 * 10**9, "minutes": 60 * 10**9, "seconds": 10**9, "milliseconds": 10**6}


def _part(name: str) -> Callable[[Timestamp], int]:
    return lambda moment: times.part(moment, name)


def _part_in_zone(name: str) -> Callable[[Timestamp, str], int]:
    return lambda moment, zone: times.part(moment, name, zone)


def _length(unit: int) -> Callable[[Duration], int]:
    def count(length: Duration) -> int:
        whole = abs(length.nanoseconds) // unit
        return -whole if length.nanoseconds < 0 else whole

    return count


IMPLEMENTATIONS: Mapping[str, Callable[..., Any]] = {
    **{f"{source}_to_{wanted}": _CONVERSIONS[wanted] for wanted, sources in _SOURCES.items() for source in sources},
    "to_dyn": _same,
    "type": _type,
    **dict.fromkeys(
        ("size_bytes", "bytes_size", "size_list", "list_size", "size_map", "map_size", "size_string", "string_size"), size
    ),
    "contains_string": _contains,
    "starts_with_string": str.startswith,
    "ends_with_string": str.endswith,
    "matches": _matches,
    "matches_string": _matches,
    **{f"timestamp_to_{name}": _part(part) for name, part in _PARTS.items()},
    # Upstream's overload id for seconds lacks the `with`.
    **{
        f"timestamp_to_{name}_tz" if name == "seconds" else f"timestamp_to_{name}_with_tz": _part_in_zone(part)
        for name, part in _PARTS.items()
    },
    **{f"duration_to_{name}": _length(unit) for name, unit in _LENGTHS.items()},
}
