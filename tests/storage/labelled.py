"""Objects with attributes for tests of selectors: a value `a=1,b=x` is an object with two; and selectors of them.

A value that begins with `!` can't be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from aggserver.storage.interface import Corrupt
from aggserver.storage.predicate import AttributeFamily, Lookup, Predicate, one_of, other_than
from tests.storage.caching import Thing

__all__ = ["COLLIDING", "FAMILY", "Condition", "having", "lacking", "of", "read", "selecting"]


def read(thing: Thing) -> Mapping[str, str]:
    if thing.value.startswith("!"):
        raise Corrupt(thing.key, thing.revision, "damaged")
    return dict(part.split("=") for part in thing.value.split(",") if "=" in part)


FAMILY = AttributeFamily(read, read)
# All values have one of three numbers, so that most candidates do not match. For conditions that ask for values only.
COLLIDING = AttributeFamily(read, read, lambda value: len(value) % 3)

Condition = tuple[str, bool, Sequence[str | None]]  # the name, whether the value must be one of these


def having(name: str, *values: str | None) -> Condition:
    return name, True, values


def lacking(name: str, *values: str | None) -> Condition:
    return name, False, values


def of(condition: Condition, family: AttributeFamily[Thing] = FAMILY) -> Lookup[Thing]:
    name, wanted, values = condition
    return (one_of if wanted else other_than)(family, name, values)


def selecting(
    *conditions: Condition, family: AttributeFamily[Thing] = FAMILY, tried: Callable[[Thing], None] = lambda thing: None
) -> Predicate[Thing]:
    """All conditions hold. tried: called with each object that is matched."""

    def matches(thing: Thing) -> bool:
        tried(thing)
        values = read(thing)
        return all((values.get(name) in wanted) == is_one for name, is_one, wanted in conditions)

    return Predicate(matches, (conditions, family.number), tuple(of(condition, family) for condition in conditions))
