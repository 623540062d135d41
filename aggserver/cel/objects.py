"""How the program of an expression gets at the members of objects: what who declares object types must say of their values.

CEL knows no objects of its own. Whoever checks expressions against types of objects (`types.TypeProvider`) says here how their
values are represented, and the generator writes programs that convert a value when it is accessed. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from aggserver.cel.types import DYN, Type

__all__ = ["Objects", "OnAccess", "PlainObjects"]


class OnAccess(NamedTuple):
    """How to convert a value of an object when an expression accesses it.

    kind: values of this Python type need no conversion; None if all do.
    convert: returns the CEL value for any other value, possibly the same one. Raises EvaluationError.
    is_sure: whether the converted value always has the type `kind`. may_be_null: whether it may be null instead.
    """

    kind: type | None
    convert: Callable[[Any], Any]
    is_sure: bool = True
    may_be_null: bool = False


class Objects(Protocol):
    """How objects of the TypeProvider's types are represented: as dicts, whose keys and values may differ from CEL's.

    A field that is null counts as absent.
    """

    def field(self, type_: Type, name: str) -> tuple[str, Type]:
        """The dict key of the CEL field `name`, and the field's type."""

    def on_access(self, type_: Type) -> OnAccess | None:
        """How to convert values of this type; None if they need no conversion."""

    def deep_conversion(self, type_: Type) -> Callable[[Any], Any] | None:
        """A function that converts a list, map or object with all its elements to CEL values; None if none is needed.

        It is called before the value is used for anything but access to its elements. It accepts converted values too, and
        raises nothing.
        """


class PlainObjects:
    """Objects whose dicts have the names and values of CEL."""

    def field(self, type_: Type, name: str) -> tuple[str, Type]:
        del type_
        return name, DYN

    def on_access(self, type_: Type) -> None:
        del type_

    def deep_conversion(self, type_: Type) -> None:
        del type_
