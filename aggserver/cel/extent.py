"""Extent: how large a value is once it stands alone, as JSON or as a text.

A list or map of CEL may have the same value in it many times, at the cost of one: `self.l.map(x, self.l)` has as many elements as
the square of those of `self.l`. Whoever writes such a value down asks here first. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from aggserver.cel.values import Optional

__all__ = ["Extent", "extent"]

# Bytes of a value in a list or map, at least: a digit, a bracket or a quote, and the comma behind it. A text has one quote more.
_VALUE = 2
_QUOTE = 1
# Elements of lists that are remembered; for shorter ones that would cost more than it saves.
_LONG = 64
# Types of values that have nothing in them.
_PLAIN = frozenset((int, float, bool, type(None)))


class Extent(NamedTuple):
    """bytes: as JSON, at least. elements: values, with all that are in lists and maps."""

    bytes: int
    elements: int


def extent(value: Any, most: int, most_elements: int | None = None, opened: Callable[[Any], Any] = lambda value: value) -> Extent:
    """The extent of a value. most, most_elements: it stops when there are more bytes or elements, and returns what it has found.

    opened: returns what is in a value that is neither of JSON nor of CEL, or the value itself.
    """
    found, elements = _VALUE, 1
    waiting = [value]
    known: dict[int, list[Any]] = {}  # what long lists have in them, by their identity: each is gone through once
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
            # An element has a byte at least, so that there are never many more of them waiting than there may be bytes.
            if (inside := known.get(id(each))) is None:
                inside = [inner for inner in each if type(inner) not in _PLAIN]
                if isinstance(each, list) and len(each) >= _LONG:
                    known[id(each)] = inside
            waiting += inside
        elif type(each) not in _PLAIN and (inner := opened(each)) is not each:
            waiting.append(inner)
    return Extent(found, elements)
