"""Predicates: which objects a list or a watch selects, and what about it can be looked up instead of tried on each object. Pure.

An object has attributes, in families: each has a name and a text as its value. The storage does not know what they mean. An index
(`indexes.py`) has the value of an attribute as a number of 64 bits, so that it takes the same few bytes of memory for any value.
What it finds is a candidate only, and `Predicate.matches` decides. So a number that two values share does no harm where one of
them is asked for. Where one is excluded, the other would be missing: that happens once in 2^64 times, as the numbers of texts are
hashes, which Python keys by chance in each process.
Source: k8s.io/apiserver pkg/storage/selection_predicate.go, v0.36.3, whose indexes know single values only.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

__all__ = ["ABSENT", "AttributeFamily", "Lookup", "Predicate", "Span", "one_of", "other_than"]

T = TypeVar("T")

# The numbers from the first to before the second. All numbers have 64 bits, and a sign.
Span = tuple[int, int]
_LEAST, _END = -(1 << 63), 1 << 63
# The number of an attribute that an object does not have. No text has it: Python's `hash` returns -1 for none.
ABSENT = -1


class AttributeFamily(NamedTuple, Generic[T]):
    """A family of attributes. Two families are the same if their functions are equal.

    read: the attributes of an object, by name; may cache them with the object. Raises Corrupt if the object can't be read.
    once: as `read`, but caches nothing; for a walk over all objects.
    number: the number of a value, the same in all of this process.
    """

    read: Callable[[T], Mapping[str, str]]
    once: Callable[[T], Mapping[str, str]]
    number: Callable[[str], int] = hash

    def number_in(self, values: Mapping[str, str], name: str) -> int:
        value = values.get(name)
        return ABSENT if value is None else self.number(value)


class Lookup(NamedTuple, Generic[T]):
    """A condition that every object of a selection meets: the number of an attribute is in one of `spans`.

    These are sorted, and have gaps between them.
    """

    family: AttributeFamily[T]
    name: str
    spans: tuple[Span, ...]

    @property
    def is_one_number(self) -> bool:
        return len(self.spans) == 1 and self.spans[0][1] - self.spans[0][0] == 1

    @property
    def numbers(self) -> Sequence[int] | None:
        """The only numbers that meet it, None if they are too many to name."""
        if any(end - first != 1 for first, end in self.spans):
            return None
        return [first for first, _ in self.spans]

    def met_by(self, number: int) -> bool:
        at = bisect_right(self.spans, number, key=_first) - 1
        return at >= 0 and number < self.spans[at][1]


def _first(span: Span) -> int:
    return span[0]


def one_of(family: AttributeFamily[T], name: str, values: Sequence[str | None]) -> Lookup[T]:
    """The value is one of these; None stands for none."""
    if len(values) == 1 and (value := values[0]) is not None:  # nearly always
        number = family.number(value)
        return Lookup(family, name, ((number, number + 1),))
    numbers = sorted({ABSENT if value is None else family.number(value) for value in values})
    return Lookup(family, name, tuple((number, number + 1) for number in numbers))


def other_than(family: AttributeFamily[T], name: str, values: Sequence[str | None]) -> Lookup[T]:
    """The value is none of these; None stands for none."""
    spans = []
    begin = _LEAST
    for number, end in one_of(family, name, values).spans:
        if begin < number:
            spans.append((begin, number))
        begin = end
    if begin < _END:
        spans.append((begin, _END))
    return Lookup(family, name, tuple(spans))


class Predicate(NamedTuple, Generic[T]):
    """Which objects are selected. `matches` may raise Corrupt.

    identity: predicates with equal ones match the same objects. lookups: conditions that all these objects meet; there may
    be more conditions, which only `matches` knows.
    """

    matches: Callable[[T], bool]
    identity: Hashable
    lookups: tuple[Lookup[T], ...] = ()
