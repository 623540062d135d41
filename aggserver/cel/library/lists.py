"""Functions of lists: Kubernetes' own (isSorted, sum, min, max, indexOf, lastIndexOf) and cel-go's (slice, flatten, sort, ...).

Source: k8s.io/apiserver pkg/cel/library/lists.go, v0.36.3; cel-go ext/lists.go, version 3 of the library, v0.26.0.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping
from typing import Any

from aggserver.cel.operators import LARGEST_RESULT, add, refused
from aggserver.cel.values import (
    CostExceeded,
    Duration,
    EvaluationError,
    Invalid,
    Timestamp,
    Uint,
    compare,
    equal,
    no_such_overload,
    type_name,
)

__all__ = ["IMPLEMENTATIONS"]

_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
# cel-go's library uses the full names of these two types in overload ids.
_NAMES = {"duration": "google.protobuf.Duration", "timestamp": "google.protobuf.Timestamp"}
_ZEROS: Mapping[str, Any] = {"int": 0, "uint": Uint(0), "double": 0.0, "duration": Duration(0)}
_ORDERED = (bool, int, Uint, float, str, bytes, Timestamp, Duration)
# Types that Python orders as CEL does. Doubles are not among them, since NaN has no order.
_PYTHON_ORDER = ({str}, {int}, {bytes}, {bool}, {Uint})


def _comparable(items: list[Any]) -> list[Any]:
    """The items, if all of their types have an order; raises EvaluationError otherwise."""
    for item in items:
        if not isinstance(item, _ORDERED):
            raise EvaluationError(item.message) if isinstance(item, Invalid) else no_such_overload()
    return items


def _order(left: Any, right: Any) -> int | None:
    """-1, 0 or 1; None if there is no order, e.g. for NaN, which is no error in these functions, as in upstream."""
    try:
        return compare(left, right, "")
    except EvaluationError:
        return None


def _is_sorted(items: list[Any]) -> bool:
    return all(_order(left, right) != 1 for left, right in itertools.pairwise(_comparable(items)))


def _sum(zero: Any) -> Callable[[list[Any]], Any]:
    return lambda items: functools.reduce(add, items, zero)


def _extreme(name: str, gives_way: int) -> Callable[[list[Any]], Any]:
    def find(items: list[Any]) -> Any:
        if not items:
            raise EvaluationError(f"{name} called on empty list")
        return functools.reduce(lambda best, item: item if _order(best, item) == gives_way else best, _comparable(items))

    return find


def _equals(left: Any, right: Any) -> bool:
    try:
        return equal(left, right)
    except EvaluationError:
        return False


def _index_of(items: list[Any], item: Any) -> int:
    return next((position for position, each in enumerate(items) if _equals(each, item)), -1)


def _last_index_of(items: list[Any], item: Any) -> int:
    return next((position for position in reversed(range(len(items))) if _equals(items[position], item)), -1)


def _slice(items: list[Any], start: int, end: int) -> list[Any]:
    asked = f"cannot slice({start}, {end})"
    if start < 0 or end < 0:
        raise EvaluationError(f"{asked}, negative indexes not supported")
    if start > end:
        raise EvaluationError(f"{asked}, start index must be less than or equal to end index")
    if len(items) < end:
        raise EvaluationError(f"{asked}, list is length {len(items)}")
    return items[start:end]


def _flatten(items: Any, *depths: Any) -> list[Any]:
    depth = depths[0] if depths else 1
    if not isinstance(items, list) or type(depth) is not int:
        names = ("map(dyn, dyn)" if isinstance(value, dict) else type_name(value) for value in (items, *depths))
        raise EvaluationError(f"no such overload: {next(names)}.flatten({', '.join(names)})")
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    flat = items
    while depth and any(isinstance(item, list) for item in flat):
        if sum(len(item) if isinstance(item, list) else 1 for item in flat) > LARGEST_RESULT:
            raise CostExceeded
        flat = [inner for item in flat for inner in (item if isinstance(item, list) else (item,))]
        depth -= 1
    return list(flat)


def _sort(items: Any) -> list[Any]:
    if not isinstance(items, list):
        raise refused(items, "sort")
    return _sort_by(items, items)


def _sort_by(items: Any, keys: list[Any]) -> list[Any]:
    if not isinstance(items, list):
        raise refused(items, "@sortByAssociatedKeys")
    if len(items) != len(keys):
        raise EvaluationError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, "
            f"but got {len(items)} and {len(keys)} elements respectively"
        )
    if not items:
        return items
    kinds = set(map(type, keys))
    if type(keys[0]) not in _ORDERED:
        raise EvaluationError("list elements must be comparable")
    if len(kinds) > 1:
        raise EvaluationError("list elements must have the same type")
    sort_key = _identity if kinds in _PYTHON_ORDER else functools.cmp_to_key(lambda left, right: _order(left, right) or 0)
    keyed = sorted(zip(keys, items, strict=True), key=lambda pair: sort_key(pair[0]))
    return [item for _, item in keyed]


def _identity(value: Any) -> Any:
    return value


def _range(end: int) -> list[int]:
    if end > LARGEST_RESULT:
        raise CostExceeded
    return list(range(end))


def _distinct(items: list[Any]) -> list[Any]:
    if set(map(type, items)) in ({str}, {int}):
        return list(dict.fromkeys(items))
    found: list[Any] = []
    for item in items:
        if not any(_equals(item, other) for other in found):
            found.append(item)
    return found


IMPLEMENTATIONS: Mapping[str, Callable[..., Any]] = {
    **{f"list_{name}_is_sorted_bool": _is_sorted for name in _COMPARABLE},
    **{f"list_{name}_sum_{name}": _sum(zero) for name, zero in _ZEROS.items()},
    **{f"list_{name}_max_{name}": _extreme("max", -1) for name in _COMPARABLE},
    **{f"list_{name}_min_{name}": _extreme("min", 1) for name in _COMPARABLE},
    "list_a_index_of_int": _index_of,
    "list_a_last_index_of_int": _last_index_of,
    "list_slice": _slice,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    **{f"list_{_NAMES.get(name, name)}_sort": _sort for name in _COMPARABLE},
    **{f"list_{_NAMES.get(name, name)}_sortByAssociatedKeys": _sort_by for name in _COMPARABLE},
    "lists_range": _range,
    "list_reverse": lambda items: items[::-1],
    "list_distinct": _distinct,
}
