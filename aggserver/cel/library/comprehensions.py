"""Insertion into maps, for the macros of two variables.

Source: cel-go ext/comprehensions.go, v0.26.0.
"""

from __future__ import annotations

from typing import Any

from aggserver.cel.values import MISSING, EvaluationError, find, show, type_name

__all__ = ["insert", "insert_all"]


def insert(entries: dict[Any, Any], key: Any, value: Any) -> None:
    """Insert into a map that is being built. Raises EvaluationError if the key exists."""
    if find(entries, key) is not MISSING:
        raise EvaluationError(f"insert failed: key {show(key)} already exists")
    entries[key] = value


def insert_all(entries: dict[Any, Any], more: Any) -> None:
    if not isinstance(more, dict):
        raise EvaluationError(f"no such overload: cel.@mapInsert(map, {type_name(more)})")
    for key, value in more.items():
        insert(entries, key, value)
