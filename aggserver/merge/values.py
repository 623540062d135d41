"""Values: equality of JSON values, and ABSENT for a missing value.

Pure. Source: sigs.k8s.io/structured-merge-diff/v6 value/value.go, v6.3.3.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

import orjson

__all__ = ["ABSENT", "Absent", "are_identical", "equal"]


class Absent(Enum):
    """A field that is not there, unlike one that is null."""

    ABSENT = 0


ABSENT: Final = Absent.ABSENT


def equal(left: Any, right: Any) -> bool:
    """Equality of JSON values: 1 equals 1.0 but not true. Fast, unless equal values are written differently."""
    if left != right:
        return False
    if isinstance(left, dict | list):
        return _are_written_alike(left, right) or _equal(left, right)
    return isinstance(left, bool) is isinstance(right, bool)


def are_identical(left: Any, right: Any) -> bool:
    """Whether both would be written as the same JSON, apart from the order of members: 1 and 1.0 differ."""
    return bool(left == right) and _are_written_alike(left, right)


def _are_written_alike(left: Any, right: Any) -> bool:
    return orjson.dumps(left, option=orjson.OPT_SORT_KEYS) == orjson.dumps(right, option=orjson.OPT_SORT_KEYS)


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(member, right[name]) for name, member in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return bool(left == right) and isinstance(left, bool) is isinstance(right, bool)
