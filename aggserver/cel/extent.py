"""Extent: how large a value is once it stands alone, as JSON or as a text.

A list or map of CEL may have the same value in it many times, at the cost of one: `self.l.map(x, self.l)` has as many elements as
the square of those of `self.l`. Whoever writes such a value down asks here first. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from aggserver.cel.values import Optional

__all__ = ["Extent", "extent"]

# Bytes of a number, bool or null as JSON, at least, with the comma behind it; and the two quotes and the comma of a string.
_SCALAR = 2
_QUOTES = 3


class Extent(NamedTuple):
    """bytes: as JSON, at least. elements: values, with all that are in lists and maps."""

    bytes: int
    elements: int


def extent(value: Any, most: int, opened: Callable[[Any], Any] = lambda value: value) -> Extent:
    """The extent of a value. most: it stops when there are more bytes, and returns as many as it has found.

    opened: returns what is in a value that is neither of JSON nor of CEL, or the value itself.
    """
    found = elements = 0
    waiting = [value]
    while waiting and found <= most:
        each = waiting.pop()
        elements += 1
        if isinstance(each, Optional):
            each = each.value
        if isinstance(each, str):
            found += _QUOTES + (len(each) if each.isascii() else len(each.encode("utf-8", "surrogatepass")))
        elif isinstance(each, bytes):
            found += _QUOTES + len(each)
        elif isinstance(each, list | dict):
            # At once for all that are in it, so that no more of them wait here than there may be.
            found += _SCALAR * len(each)
            if found <= most:
                waiting += each.values() if isinstance(each, dict) else each
                found += sum(len(key) for key in each if isinstance(key, str)) if isinstance(each, dict) else 0
        elif (inner := opened(each)) is not each:
            waiting.append(inner)
        else:
            found += _SCALAR
    return Extent(found, elements)
