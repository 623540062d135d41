"""`find` and `findAll`, with Go's regular expressions.

Source: k8s.io/apiserver pkg/cel/library/regex.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from aggserver.cel.values import EvaluationError
from aggserver.meta import regexp

__all__ = ["IMPLEMENTATIONS"]


def _find_all(text: str, pattern: str, count: int = -1) -> list[str]:
    try:
        return regexp.finder(pattern)(text, count)
    except regexp.PatternError as error:
        raise EvaluationError(f"Illegal regex: {error}") from None


def _find(text: str, pattern: str) -> str:
    return next(iter(_find_all(text, pattern, 1)), "")


IMPLEMENTATIONS: Mapping[str, Callable[..., Any]] = {
    "string_find_string": _find,
    "string_find_all_string": _find_all,
    "string_find_all_string_int": _find_all,
}
