"""Attrs: the fields of attrs classes. The only module that imports attrs, and is imported itself only for such a class. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import attr

from aggserver.typed.markers import Ge, Gt, Le, Lt
from aggserver.typed.readings import NOTHING, ClassReading, FieldReading, description_of, plain_field, type_hints

__all__ = ["read"]

_COMPARISONS = {">": Gt, ">=": Ge, "<": Lt, "<=": Le}


def read(cls: type) -> ClassReading:
    """Raises UnresolvedError."""
    hints = type_hints(cls)
    found = (_field(each, hints) for each in attr.fields(cls))
    return ClassReading(cls, tuple(each for each in found if each), lambda values: cls(**values), description_of(cls))


def _field(each: Any, hints: dict[str, Any]) -> FieldReading | None:
    annotation = hints.get(each.name, each.type)
    if annotation is None:
        return FieldReading(each.name, each.name, Any, problem="has no type: annotate it")
    if limits := tuple(_limits(each.validator)):
        annotation = Annotated[(annotation, *limits)]
    default, factory = each.default, None
    if isinstance(default, attr.Factory):  # type: ignore[arg-type]  # a class, which its stub calls a function
        default, factory = NOTHING, default.factory
    return plain_field(
        each.name, annotation, NOTHING if default is attr.NOTHING else default, factory, init=each.init, key=each.alias
    )


def _limits(validator: Any) -> Iterator[Any]:
    """The validators that a schema can check too: bounds and lengths."""
    if validator is None:
        return
    name = type(validator).__name__
    if name == "_AndValidator":
        for each in validator._validators:
            yield from _limits(each)
    elif name == "_NumberValidator" and validator.compare_op in _COMPARISONS:
        yield _COMPARISONS[validator.compare_op](validator.bound)
    elif name in ("_MinLengthValidator", "_MaxLengthValidator"):
        yield validator
