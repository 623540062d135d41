"""Page: a part of a list that a source returns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Page"]

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True)
class Page(Generic[T_co]):
    """A part of a list. cursor: where the next page begins, in the source's own words; None or '' after the last page.

    filtered: whether the source has applied the selectors, so that they need not be applied to the page once more. revision: of
    the whole list, for resources with `revisions="source"`: a watch from there tells of all that the list does not have yet. The
    pages after the first one need none.
    """

    items: Iterable[T_co]
    cursor: str | None = None
    filtered: bool = False
    revision: str = ""
