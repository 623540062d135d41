"""Markers: what may stand in `Annotated[...]` beside a type, and the types that plain Python does not have.

Limits are recognized by their attributes (`gt`, `ge`, `lt`, `le`, `multiple_of`, `min_length`, `max_length`, `pattern`), so those
of annotated_types, msgspec.Meta and pydantic's work in every class, and these here in theirs. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

__all__ = [
    "Doc",
    "Extra",
    "Format",
    "Ge",
    "Gt",
    "Int32",
    "IntOrString",
    "JSONName",
    "Le",
    "Lt",
    "MapKey",
    "MaxLen",
    "MinLen",
    "MultipleOf",
    "Pattern",
    "Rule",
    "Tag",
]


@dataclass(frozen=True, slots=True)
class Gt:
    """The number must be greater."""

    gt: float


@dataclass(frozen=True, slots=True)
class Ge:
    """The number must be greater or equal."""

    ge: float


@dataclass(frozen=True, slots=True)
class Lt:
    """The number must be less."""

    lt: float


@dataclass(frozen=True, slots=True)
class Le:
    """The number must be less or equal."""

    le: float


@dataclass(frozen=True, slots=True)
class MultipleOf:
    """The number must be a multiple of this one."""

    multiple_of: float


@dataclass(frozen=True, slots=True)
class MinLen:
    """The least number of characters, items, or keys."""

    min_length: int


@dataclass(frozen=True, slots=True)
class MaxLen:
    """The largest number of characters, items, or keys."""

    max_length: int


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression in Go's syntax (RE2) that must match somewhere in the text: write `^` and `$` to match all of it."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Doc:
    """The description of a field, as `kubectl explain` shows it."""

    documentation: str


@dataclass(frozen=True, slots=True)
class JSONName:
    """The JSON name of a field of a plain class, if it is not the Python name in camelCase: `JSONName("apiURL")`."""

    name: str


@dataclass(frozen=True, slots=True, init=False)
class MapKey:
    """For a list of objects that are told apart by the values of these fields (their JSON names): applies and patches then merge
    single items. At most one item may have the same values.
    """

    keys: tuple[str, ...]

    def __init__(self, *keys: str) -> None:
        object.__setattr__(self, "keys", keys)


@dataclass(frozen=True, slots=True)
class Rule:
    """A CEL rule (x-kubernetes-validations) of which `self` is the value of the field. message: what a refusal says."""

    rule: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Format:
    """The `format` of a schema, such as `email`; of those that kube-apiserver does not check, it warns."""

    format: str


@dataclass(frozen=True, slots=True)
class Tag:
    """The field, by its name in Python, whose value says which class of a union an object is of."""

    field: str


@dataclass(frozen=True)
class Extra:
    """Members that are added to the schema as they are, such as `x-kubernetes-map-type`."""

    schema: Mapping[str, Any]


Int32 = Annotated[int, Format("int32")]
"""An integer of 32 bits."""


@dataclass(frozen=True, slots=True)
class _IntOrString:
    """Marks the union that is x-kubernetes-int-or-string."""


INT_OR_STRING_MARK = _IntOrString()

IntOrString = Annotated[int | str, INT_OR_STRING_MARK]
"""A number or a text, such as `80` and `"25%"`."""
