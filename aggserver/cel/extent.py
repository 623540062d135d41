"""Extent: how large a value becomes when it is written out as JSON or text.

A list or map of CEL may contain the same value many times and take the memory of one: if `self.l` has n elements,
`self.l.map(x, self.l)` has n * n. So code that copies or prints a value checks its extent first. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from aggserver.cel.values import Optional

__all__ = ["Extent", "extent"]

# The least bytes of a value in a list or map: a digit, bracket or quote, and a comma. A string has a second quote.
_VALUE = 2
_QUOTE = 1
# Lists with at least this many elements are remembered; for shorter ones that would cost more than it saves.
_LONG = 64
# Types of values that contain no other values.
_PLAIN = frozenset((int, float, bool, type(None)))


class Extent(NamedTuple):
    """bytes: a lower bound of the size as JSON. elements: the number of values, including those within lists and maps."""

    bytes: int
    elements: int


def extent(value: Any, most: int, most_elements: int | None = None, opened: Callable[[Any], Any] = lambda value: value) -> Extent:
    """The extent of a value, or what was counted of it when there were more than `most` bytes or `most_elements` elements.

    opened: returns the content of a value whose type is neither JSON's nor CEL's; the value itself if it has none.
    """
    found, elements = _VALUE, 1
    waiting = [value]
    known: dict[int, list[Any]] = {}  # the content of long lists, by the list's id(), so that each list is read once
    while waiting and found <= most and (most_elements is None or elements <= most_elements):
        each = waiting.pop()
        if isinstance(each, Optional):
            each = each.value
        if isinstance(each, str):
            found += _QUOTE + (len(each) if each.isascii() else len(each.encode("utf-8", "surrogatepass")))
        elif isinstance(each, bytes):
            found += _QUOTE + len(each)
        elif isinstance(each, list | dict):
            found += _VALUE * len(each)
            elements += len(each)
            if found > most:
                break
            if isinstance(each, dict):
                found += sum(_QUOTE + len(key) for key in each if isinstance(key, str))
                each = each.values()
            # Each element counts at least a byte, so `most` also bounds how many wait here.
            if (inside := known.get(id(each))) is None:
                inside = [inner for inner in each if type(inner) not in _PLAIN]
                if isinstance(each, list) and len(each) >= _LONG:
                    known[id(each)] = inside
            waiting += inside
        elif type(each) not in _PLAIN and (inner := opened(each)) is not each:
            waiting.append(inner)
    return Extent(found, elements)
