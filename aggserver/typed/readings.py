"""Readings: a class of users with its fields, as the reader needs them, whatever library has made the class.

A plain class has camelCase names in JSON; pydantic models and msgspec Structs decide themselves. Pure.
"""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, NamedTuple, get_origin

from aggserver.typed.markers import JSONName
from aggserver.typed.shape import Loc

__all__ = [
    "NOTHING",
    "ClassReading",
    "ClassTag",
    "FieldReading",
    "UnresolvedError",
    "description_of",
    "json_name",
    "plain_field",
    "type_hints",
]


class _Nothing:
    def __repr__(self) -> str:
        return "NOTHING"


NOTHING: Any = _Nothing()
"""In place of a default or a value that is not there."""


@dataclasses.dataclass(frozen=True, slots=True)
class FieldReading:
    """name: the attribute. json: the JSON name. key: by which `build` takes the value.

    default, factory: at most one of them is given. required: False for a field that may be missing without any default.
    computed: has a value only when it is encoded. problem: why the field can't be in a schema, known to who read the class.
    """

    name: str
    json: str
    annotation: Any
    default: Any = NOTHING
    factory: Callable[[], Any] | None = None
    required: bool = True
    computed: bool = False
    key: str = ""
    problem: str = ""

    @property
    def has_default(self) -> bool:
        return self.default is not NOTHING or self.factory is not None


class ClassTag(NamedTuple):
    """A field that only JSON has: it says which class of a union an object is of."""

    json: str
    value: str | int


@dataclasses.dataclass(frozen=True, slots=True)
class ClassReading:
    """build: makes an instance of the values by their keys; may raise ValueError and TypeError. explain: what such an error says,
    as places and texts. get: reads a field of an instance; NOTHING if it has none. more: the unknown fields of an instance;
    None if the class keeps none. problem: why the class can't be in a schema.
    """

    cls: type
    fields: tuple[FieldReading, ...]
    build: Callable[[dict[str, Any]], Any]
    description: str = ""
    get: Callable[[Any, str], Any] = getattr
    more: Callable[[Any], Mapping[str, Any]] | None = None
    explain: Callable[[Exception], Iterable[tuple[Loc, str]]] | None = None
    tag: ClassTag | None = None
    problem: str = ""


class UnresolvedError(Exception):
    """An annotation of a class names something that does not exist. The text is for the user."""


def plain_field(
    name: str, annotation: Any, default: Any, factory: Callable[[], Any] | None, init: bool, key: str = ""
) -> FieldReading | None:
    """A field of a dataclass or attrs class; None for a private one, which is no part of the objects."""
    problem = ""
    if name.startswith("_"):
        if default is not NOTHING or factory is not None or not init:
            return None
        problem = "a private field is no part of an object: give it a default, or another name"
    elif not init:
        problem = "a field that the constructor does not take can't be read back: make it a property, or let it take it"
    return FieldReading(name, json_name(name, annotation), annotation, default, factory, key=key or name, problem=problem)


def json_name(name: str, annotation: Any) -> str:
    if get_origin(annotation) is Annotated:
        for extra in annotation.__metadata__:
            if isinstance(extra, JSONName):
                return extra.name
        return json_name(name, annotation.__origin__)
    return _camel_case(name)


def _camel_case(name: str) -> str:
    """`api_url` -> `apiUrl`, `class_` -> `class`."""
    first, *rest = [part for part in name.split("_") if part] or [name]
    return first + "".join(part[0].upper() + part[1:] for part in rest)


def type_hints(cls: Any) -> dict[str, Any]:
    """The evaluated annotations of a class with its bases. Raises UnresolvedError."""
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except NameError as error:
        raise UnresolvedError(
            f"{error.name} is not known in the module: define or import it there, not only in a function"
        ) from None
    except Exception as error:
        raise UnresolvedError(f"its annotations can't be evaluated: {error}") from None


def description_of(cls: type) -> str:
    """The docstring that was written for the class itself; '' if there is none."""
    text = cls.__dict__.get("__doc__")
    if not isinstance(text, str) or (dataclasses.is_dataclass(cls) and text.startswith(f"{cls.__name__}(")):
        return ""
    return inspect.cleandoc(text)
