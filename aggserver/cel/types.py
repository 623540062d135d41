"""The types of CEL, used by the checker, the cost estimate and the code generator.

Types are values: two types with the same name and parameters are equal. An object type has only a name; its fields come from
a TypeProvider, so that this package needs no schemas.
Source: cel-go common/types/types.go and checker/format.go, v0.26.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol

__all__ = [
    "BOOL",
    "BYTES",
    "DOUBLE",
    "DURATION",
    "DYN",
    "ERROR",
    "INT",
    "NULL",
    "STRING",
    "TIMESTAMP",
    "TYPE",
    "UINT",
    "Kind",
    "NoTypes",
    "Type",
    "TypeProvider",
    "list_of",
    "map_of",
    "object_type",
    "opaque",
    "optional_of",
    "type_of",
    "type_param",
]


class Kind(Enum):
    NULL = auto()
    BOOL = auto()
    INT = auto()
    UINT = auto()
    DOUBLE = auto()
    STRING = auto()
    BYTES = auto()
    TIMESTAMP = auto()
    DURATION = auto()
    DYN = auto()
    ERROR = auto()
    TYPE = auto()
    LIST = auto()
    MAP = auto()
    OBJECT = auto()
    OPAQUE = auto()
    PARAM = auto()


@dataclass(frozen=True, slots=True)
class Type:
    kind: Kind
    name: str
    """As error messages print it, without parameters; it identifies an object or opaque type."""
    parameters: tuple[Type, ...] = ()
    runtime_name: str = ""
    """The name that `type(x)` has in CEL, where it differs from `name`: null_type, google.protobuf.Timestamp, ..."""
    origin: object = field(default=None, compare=False, repr=False)
    """Data of the TypeProvider about values of this type. It is carried along; equality ignores it."""

    def __str__(self) -> str:
        """As cel-go's checker prints it in errors: `map(string, list(int))`."""
        if not self.parameters:
            return self.name
        return f"{self.name}({', '.join(map(str, self.parameters))})"

    @property
    def is_dyn(self) -> bool:
        return self.kind is Kind.DYN

    @property
    def is_error(self) -> bool:
        return self.kind is Kind.ERROR

    @property
    def is_optional(self) -> bool:
        return self.kind is Kind.OPAQUE and self.name == "optional_type"

    @property
    def element(self) -> Type:
        """The type of a list's elements, of a map's values or within an optional: the last parameter."""
        return self.parameters[-1]


NULL = Type(Kind.NULL, "null", runtime_name="null_type")
BOOL = Type(Kind.BOOL, "bool")
INT = Type(Kind.INT, "int")
UINT = Type(Kind.UINT, "uint")
DOUBLE = Type(Kind.DOUBLE, "double")
STRING = Type(Kind.STRING, "string")
BYTES = Type(Kind.BYTES, "bytes")
TIMESTAMP = Type(Kind.TIMESTAMP, "timestamp", runtime_name="google.protobuf.Timestamp")
DURATION = Type(Kind.DURATION, "duration", runtime_name="google.protobuf.Duration")
DYN = Type(Kind.DYN, "dyn")
ERROR = Type(Kind.ERROR, "!error!")
TYPE = Type(Kind.TYPE, "type")
"""The type of types, without saying of which type. See `type_of`."""


def type_of(parameter: Type) -> Type:
    """The type of an identifier that denotes the type `parameter`, e.g. of `int`."""
    return Type(Kind.TYPE, "type", (parameter,))


def list_of(element: Type) -> Type:
    return Type(Kind.LIST, "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    return Type(Kind.MAP, "map", (key, value))


def optional_of(parameter: Type) -> Type:
    return Type(Kind.OPAQUE, "optional_type", (parameter,))


def opaque(name: str, *parameters: Type) -> Type:
    """A type whose values only functions can inspect: net.IP, kubernetes.Quantity."""
    return Type(Kind.OPAQUE, name, parameters)


def object_type(name: str) -> Type:
    """A type with declared fields, which a TypeProvider looks up by its name."""
    return Type(Kind.OBJECT, name)


def type_param(name: str) -> Type:
    """A type parameter in the signature of a function: the T of list(T)."""
    return Type(Kind.PARAM, name)


class TypeProvider(Protocol):
    def fields(self, type_name: str) -> Mapping[str, Type] | None:
        """The fields of an object type by their CEL names; None if there is no such type."""


class NoTypes:
    """A provider without object types."""

    def fields(self, type_name: str) -> Mapping[str, Type] | None:
        del type_name
        return None
