"""Classes that are refused, with all that is said of them: the lines are those of this file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import attrs
import msgspec
import pydantic
from pydantic import AliasChoices, Field

from aggserver.typed.markers import JSONName, MapKey
from aggserver.typed.metadata import Metadata

if TYPE_CHECKING:
    from decimal import Decimal

T = TypeVar("T")


@dataclass
class Tree:
    metadata: Metadata
    kids: list[Tree]  # here


@dataclass
class Many:
    metadata: Metadata
    a: int | str  # here
    spec: Inner
    kind: str  # here


@dataclass
class Inner:
    ports: list  # type: ignore[type-arg]  # here
    late: int = field(init=False)  # here


@dataclass
class Derived(Many):
    more: set  # type: ignore[type-arg]  # here


@dataclass
class NoMetadata:  # here
    name: str


@dataclass
class OtherMetadata:
    metadata: dict[str, Any]  # here


@dataclass
class Unresolved:  # here
    metadata: Metadata
    price: Decimal


class PydanticUnresolved(pydantic.BaseModel):  # here
    metadata: Metadata
    price: Decimal


class StructUnresolved(msgspec.Struct):  # here
    metadata: Metadata
    price: Decimal


@dataclass
class Initial:  # here
    metadata: Metadata
    seed: InitVar[int]


@dataclass
class Unbound:
    metadata: Metadata
    value: T  # type: ignore[valid-type]  # here


@dataclass
class Twice:
    metadata: Metadata
    api_url: str
    other: Annotated[str, JSONName("apiUrl")]  # here


@dataclass
class NeedsStatus:
    metadata: Metadata
    status: int  # here


@dataclass
class Keyed:
    name: str | None = None


@dataclass
class Listed:
    metadata: Metadata
    items: list[str]  # here


@dataclass
class OptionalKey:
    metadata: Metadata
    keyed: Annotated[list[Keyed], MapKey("name")]  # here


@dataclass
class One:
    kind: Literal["one"]
    size: int


@dataclass
class Two:
    kind: Literal["two"]
    size: str


@dataclass
class Same:
    kind: Literal["one"]


@dataclass
class BadUnions:
    metadata: Metadata
    a: One | Two  # here
    b: One | Same  # here


@attrs.define
class AttrsBad:
    metadata: Metadata = attrs.field()
    untyped = attrs.field()  # here
    made: list[int] = attrs.field(factory=lambda: [1])  # here


class PydanticBad(pydantic.BaseModel):
    metadata: Metadata
    secret: pydantic.SecretStr  # here
    split: int = Field(validation_alias="x", serialization_alias="y")  # here
    choices: int = Field(validation_alias=AliasChoices("x", "y"))  # here
    hidden: int = Field(exclude=True)  # here
    size: pydantic.ByteSize  # here
    shown: int  # here

    @pydantic.field_serializer("shown")
    def _show(self, value: int) -> str:
        return str(value)


class ArrayLike(msgspec.Struct, array_like=True):
    a: int


class StructBad(msgspec.Struct):
    metadata: Metadata
    array: ArrayLike  # here
    _private: int  # here


# Class -> what is said of it, in the order of the lines that are marked by `here`.
_SAID: dict[Any, list[str]] = {
    Tree: [
        "Tree.kids: a schema can't contain itself; use Any for this field (it is kept unchecked)",
    ],
    Many: [
        "Many.a: int | str is no type of a schema: use IntOrString",
        "Many.kind: every object has it, and the server knows it: leave the field out",
        "Many.spec.ports: list of what? Write list[str], or list[Any] for anything",
        "Many.spec.late: a field that the constructor does not take can't be read back: make it a property, or let it take it",
    ],
    Derived: [
        "Derived.more: set of what? Write set[str]",
    ],
    NoMetadata: [
        "NoMetadata: has no metadata: write metadata: Metadata as its first field",
    ],
    OtherMetadata: [
        "OtherMetadata.metadata: the metadata of an object is a Metadata",
    ],
    Unresolved: [
        "Unresolved: Decimal is not known in the module: define or import it there, not only in a function",
    ],
    PydanticUnresolved: [
        "PydanticUnresolved: Decimal is not known in the module: define or import it there, not only in a function",
    ],
    StructUnresolved: [
        "StructUnresolved: Decimal is not known in the module: define or import it there, not only in a function",
    ],
    Initial: [
        "Initial: the InitVar seed can't be read back: give it a default, or make it a field",
    ],
    Unbound: [
        "Unbound.value: T of what? Write the class with its types, such as Page[Item]",
    ],
    Twice: [
        "Twice.other: apiUrl is the JSON name of api_url, too: give one another name",
    ],
    NeedsStatus: [
        "NeedsStatus.status: an object is created without a status: give it a default, such as field(default_factory=...)",
    ],
    Listed: [
        "Listed.items: an object with items is taken for a list by clients: use another name, or put it below spec",
    ],
    OptionalKey: [
        "OptionalKey.keyed: MapKey('name'): a key must be required or have a default",
    ],
    BadUnions: [
        "BadUnions.a: the classes of a union have size of different types: give it two names, or one type",
        "BadUnions.b: objects of several classes need a tag: give each a field such as kind: Literal[...], with its own value, "
        "or use a class with one optional field per case",
    ],
    AttrsBad: [
        "AttrsBad.untyped: has no type: annotate it",
        "AttrsBad.made: a schema has only constants as defaults: write the constant, or `| None` and fill it in a default hook",
    ],
    PydanticBad: [
        "PydanticBad.secret: whoever may read an object sees all of it: keep secrets in a Secret, and refer to it",
        "PydanticBad.split: is read and written by different names: a field has one name, which `alias` sets for both",
        "PydanticBad.choices: is read and written by different names: a field has one name, which `alias` sets for both",
        "PydanticBad.hidden: an excluded field can't be read back: make it a private attribute, or leave out exclude",
        "PydanticBad.size: is read and written differently: use the type that is written",
        "PydanticBad.shown: a serializer can write another type than is read: leave it out, and use the type that is written",
    ],
    StructBad: [
        "StructBad.array: an array-like Struct is a tuple in JSON: leave out array_like",
        "StructBad._private: a private field is no part of an object: give it a default, or another name",
    ],
}
_MARKED = [number for number, line in enumerate(Path(__file__).read_text().splitlines(), 1) if line.endswith("  # here")]


def _placed() -> Iterator[tuple[Any, list[str]]]:
    """Each class with its problems, as they are printed."""
    numbers = iter(_MARKED)
    for cls, texts in _SAID.items():
        yield cls, [f"refused.py:{next(numbers)}: {text}" for text in texts]
    assert next(numbers, None) is None


CLASSES = list(_placed())
# What is wrong with its base class is wrong with Derived, too, and stands in the base class.
CLASSES[2][1].extend(text.replace(": Many.", ": Derived.") for text in CLASSES[1][1])
