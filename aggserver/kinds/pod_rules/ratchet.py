"""What an object had before an update is not refused, since it may have been accepted before there was a rule. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from aggserver.meta.field import FieldError
from aggserver.meta.json_types import JSONMapping

__all__ = ["Problems", "not_known"]

Problems = Callable[[JSONMapping], Iterator[FieldError]]
"""An object -> its errors."""


def not_known(problems: Problems, obj: JSONMapping, old: JSONMapping | None) -> Iterator[FieldError]:
    """The errors of an object that its old state does not have."""
    found = list(problems(obj))
    if found and old is not None:
        known = set(map(str, problems(old)))
        found = [problem for problem in found if str(problem) not in known]
    return iter(found)
