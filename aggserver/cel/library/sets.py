"""`sets.contains`, `sets.intersects` and `sets.equivalent`: lists taken for sets.

Source: cel-go ext/sets.go, v0.26.0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from aggserver.cel.operators import contains

__all__ = ["IMPLEMENTATIONS"]


def _contains(items: list[Any], part: list[Any]) -> bool:
    return all(contains(item, items) for item in part)


def _intersects(left: list[Any], right: list[Any]) -> bool:
    return any(contains(item, right) for item in left)


def _equivalent(left: list[Any], right: list[Any]) -> bool:
    return _contains(left, right) and _contains(right, left)


IMPLEMENTATIONS: Mapping[str, Callable[..., Any]] = {
    "list_sets_contains_list": _contains,
    "list_sets_intersects_list": _intersects,
    "list_sets_equivalent_list": _equivalent,
}
