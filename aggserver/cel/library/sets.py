"""`sets.contains`, `sets.intersects` and `sets.equivalent`: lists treated as sets.

Source: cel-go ext/sets.go, v0.26.0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from aggserver.cel.operators import contains
from aggserver.cel.values import EvaluationError

__all__ = ["IMPLEMENTATIONS"]


def _contains(items: list[Any], part: list[Any]) -> bool:
    return all(contains(item, items) for item in part)


def _intersects(left: list[Any], right: list[Any]) -> bool:
    return any(_has(right, item) for item in left)


def _has(items: list[Any], item: Any) -> bool:
    """Whether the item is in the list. Items that can't be compared are skipped; the other functions fail on them."""
    try:
        return contains(item, items)
    except EvaluationError:
        return False


def _equivalent(left: list[Any], right: list[Any]) -> bool:
    return _contains(left, right) and _contains(right, left)


IMPLEMENTATIONS: Mapping[str, Callable[..., Any]] = {
    "list_sets_contains_list": _contains,
    "list_sets_intersects_list": _intersects,
    "list_sets_equivalent_list": _equivalent,
}
