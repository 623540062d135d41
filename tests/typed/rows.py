"""The rows of docs/python-types.md as cases: one field of a type, in a class of each library, and what becomes of it.

test_rows.py checks schemas, refusals and values here, tests/integration/test_typed_schemas.py has kube-apiserver judge them.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NewType, TypedDict
from uuid import UUID

import annotated_types
import attrs
import msgspec
import pydantic
from typing_extensions import TypeAliasType

from aggserver.typed.markers import (
    Doc,
    Extra,
    Format,
    Ge,
    Gt,
    Int32,
    IntOrString,
    Le,
    Lt,
    MapKey,
    MaxLen,
    MinLen,
    MultipleOf,
    Pattern,
    Rule,
)
from aggserver.typed.metadata import Metadata
from aggserver.typed.quantity import QUANTITY_SCHEMA, Quantity

KEEP = {"x-kubernetes-preserve-unknown-fields": True}
NOTHING: Any = object()


@dataclass(frozen=True)
class Row:
    """A field `value` of a type. schema: of the field, or the refusal. values: JSON and its Python value. wrong: JSON that is
    refused by the schema.

    but: libraries that can't express it. shown: the JSON that is encoded, where it differs from what was decoded.
    """

    name: str
    type: Any
    schema: Mapping[str, Any] | str
    default: Any = NOTHING
    factory: Callable[[], Any] | None = None
    required: bool = True
    values: Sequence[tuple[Any, Any]] = ()
    wrong: Sequence[Any] = ()
    shown: Mapping[Any, Any] = field(default_factory=dict)
    but: tuple[str, ...] = ()

    @property
    def is_refused(self) -> bool:
        return isinstance(self.schema, str)


@dataclass
class Port:
    name: str
    number: int = 80


PORT = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "number": {"type": "integer", "default": 80}},
    "required": ["name"],
}


@dataclass
class Limits:
    """How much."""

    cpu: int = 1
    memory: int = 2


LIMITS = {
    "type": "object",
    "properties": {"cpu": {"type": "integer", "default": 1}, "memory": {"type": "integer", "default": 2}},
    "description": "How much.",
}


@dataclass
class Http:
    kind: Literal["http"]
    port: int
    path: str = "/"


@dataclass
class Command:
    kind: Literal["command"]
    words: list[str]


PROBE = {
    "type": "object",
    "properties": {
        "kind": {"type": "string", "enum": ["http", "command"]},
        "port": {"type": "integer"},
        "path": {"type": "string"},
        "words": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["kind"],
    "x-kubernetes-validations": [
        {
            "rule": 'self.kind != "http" || (has(self.port) && !has(self.words))',
            "message": "kind http needs port and can't have words",
        },
        {
            "rule": 'self.kind != "command" || (has(self.words) && !has(self.port) && !has(self.path))',
            "message": "kind command needs words and can't have port, path",
        },
    ],
}


@dataclass
class Free:
    kind: Literal["free"]
    things: list[Any]
    named: dict[str, list[Any]] | None = None


@dataclass
class Named:
    name: str
    kind: Literal["named"] = "named"


class Numbered(TypedDict):
    name: str
    kind: Literal["numbered"]
    number: int


NAMED_OR_NUMBERED = {
    "type": "object",
    "properties": {
        "kind": {"type": "string", "enum": ["named", "numbered"]},
        "name": {"type": "string"},
        "number": {"type": "integer"},
    },
    "required": ["kind", "name"],
    "x-kubernetes-validations": [
        {"rule": 'self.kind != "named" || (!has(self.number))', "message": "kind named can't have number"},
        {"rule": 'self.kind != "numbered" || (has(self.number))', "message": "kind numbered needs number"},
    ],
}


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Bits(enum.Flag):
    A = 1
    B = 2


class Pair(NamedTuple):
    one: int
    two: int


class Opaque:
    pass


class Options(TypedDict, total=False):
    max_size: int


Alias = TypeAliasType("Alias", list[int])
Name = NewType("Name", str)
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
FIXED = datetime(2026, 1, 2, 12, 30, 0, 500000, tzinfo=UTC)

SCALARS = [
    Row("str", str, {"type": "string"}, values=[("a", "a"), ("", "")], wrong=[1, True, []]),
    Row("int", int, {"type": "integer"}, values=[(1, 1), (-5, -5)], wrong=["1", 1.5]),
    Row("float", float, {"type": "number"}, values=[(1.5, 1.5)], wrong=["1"]),
    Row("bool", bool, {"type": "boolean"}, values=[(True, True)], wrong=["true", 1]),
    Row("int or float", int | float, {"type": "number"}, values=[(1.5, 1.5), (2, 2)], wrong=["1"]),
    Row("Int32", Int32, {"type": "integer", "format": "int32"}, values=[(7, 7)], wrong=[2**31]),
    Row("type alias", Alias, {"type": "array", "items": {"type": "integer"}}, values=[([1], [1])], wrong=[["a"]]),
    Row("NewType", Name, {"type": "string"}, values=[("a", "a")], wrong=[1]),
    Row(
        "datetime",
        datetime,
        {"type": "string", "format": "date-time"},
        values=[
            ("2026-01-02T12:00:00Z", NOON),
            ("2026-01-02T14:00:00+02:00", NOON),
            ("2026-01-02T12:30:00.5Z", FIXED),
            ("2026-01-02T12:30:00.500000000z", FIXED),
        ],
        shown={"2026-01-02T14:00:00+02:00": "2026-01-02T12:00:00Z", "2026-01-02T12:30:00.500000000z": "2026-01-02T12:30:00.5Z"},
        wrong=["2026-01-02T12:00:00", "noon", 1],
    ),
    Row("date", date, {"type": "string", "format": "date"}, values=[("2026-01-02", date(2026, 1, 2))], wrong=["2.1.2026"]),
    Row(
        "timedelta",
        timedelta,
        {"type": "string", "format": "duration"},
        values=[
            ("49h0m0s", timedelta(days=2, hours=1)),
            ("1m0.5s", timedelta(seconds=60.5)),
            ("250ms", timedelta(seconds=0.25)),
            ("0s", timedelta()),
            ("-1.5s", timedelta(seconds=-1.5)),
            ("90m", timedelta(minutes=90)),
            ("2 days", timedelta(days=2)),
        ],
        shown={"90m": "1h30m0s", "2 days": "48h0m0s"},
        wrong=["soon", 5],
    ),
    Row("bytes", bytes, {"type": "string", "format": "byte"}, values=[("YWI=", b"ab")], wrong=["%", 1]),
    Row(
        "uuid",
        UUID,
        {"type": "string", "format": "uuid"},
        values=[("00000000-0000-0000-0000-000000000007", UUID(int=7))],
        wrong=["7"],
    ),
    Row("ipv4", IPv4Address, {"type": "string", "format": "ipv4"}, values=[("10.0.0.1", IPv4Address("10.0.0.1"))], wrong=["::1"]),
    Row("ipv6", IPv6Address, {"type": "string", "format": "ipv6"}, values=[("::1", IPv6Address("::1"))], wrong=["10.0.0.1"]),
    Row(
        "Quantity",
        Quantity,
        QUANTITY_SCHEMA,
        values=[("1.5Gi", Quantity("1.5Gi")), (2, Quantity("2"))],
        shown={2: "2"},
        wrong=["much", 1.5],
    ),
    Row(
        "IntOrString",
        IntOrString,
        {"x-kubernetes-int-or-string": True},
        values=[(80, 80), ("25%", "25%")],
        wrong=[1.5, {}],
    ),
    Row("Any", Any, KEEP, values=[({"a": {"b": 1}}, {"a": {"b": 1}}), ([1], [1])]),
    Row("Literal", Literal["b", "a"], {"type": "string", "enum": ["b", "a"]}, values=[("a", "a")], wrong=["c", 1]),
    Row(
        "union of Literals",
        Literal["a"] | Literal["b"],
        {"type": "string", "enum": ["a", "b"]},
        values=[("a", "a"), ("b", "b")],
        wrong=["c"],
    ),
    Row("Literal of one", Literal["a"], {"type": "string", "enum": ["a"]}, values=[("a", "a")], wrong=["c"]),
    Row("Literal of ints", Literal[2, 1], {"type": "integer", "enum": [2, 1]}, values=[(1, 1)], wrong=[3]),
    Row("Literal of a boolean", Literal[True], {"type": "boolean", "enum": [True]}, values=[(True, True)], wrong=[False]),
    Row("Enum", Color, {"type": "string", "enum": ["red", "blue"]}, values=[("red", Color.RED)], wrong=["RED"]),
    Row("IntEnum", Level, {"type": "integer", "enum": [1, 2]}, values=[(2, Level.HIGH)], wrong=[3]),
    Row(
        "Literal of a member",
        Literal[Color.RED],
        {"type": "string", "enum": ["red"]},
        values=[("red", Color.RED)],
        wrong=["blue"],
    ),
]

COLLECTIONS = [
    Row("list", list[int], {"type": "array", "items": {"type": "integer"}}, values=[([1, 2], [1, 2])], wrong=[["a"], {}]),
    Row("Sequence", Sequence[int], {"type": "array", "items": {"type": "integer"}}, values=[([1], [1])], but=("pydantic",)),
    Row("tuple", tuple[int, ...], {"type": "array", "items": {"type": "integer"}}, values=[([1, 2], (1, 2))], wrong=[["a"]]),
    Row(
        "set",
        set[str],
        {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        values=[(["a", "b"], {"a", "b"})],
        wrong=[["a", "a"]],
    ),
    Row(
        "frozenset",
        frozenset[int],
        {"type": "array", "items": {"type": "integer"}, "x-kubernetes-list-type": "set"},
        values=[([1], frozenset({1}))],
        wrong=[[1, 1]],
    ),
    Row("list of Any", list[Any], {"type": "array", "items": KEEP}, values=[([1, {"a": 1}], [1, {"a": 1}])]),
    Row(
        "list of times",
        list[timedelta],
        {"type": "array", "items": {"type": "string", "format": "duration"}},
        values=[(["1s"], [timedelta(seconds=1)])],
        wrong=[["x"]],
    ),
    Row(
        "list with nulls",
        list[int | None],
        {"type": "array", "items": {"type": "integer", "nullable": True}},
        values=[([1, None], [1, None])],
        wrong=[["a"]],
    ),
    Row(
        "map",
        dict[str, int],
        {"type": "object", "additionalProperties": {"type": "integer"}},
        values=[({"a": 1}, {"a": 1})],
        wrong=[{"a": "b"}],
    ),
    Row(
        "map with nulls",
        dict[str, str | None],
        {"type": "object", "additionalProperties": {"type": "string", "nullable": True}},
        values=[({"a": None}, {"a": None})],
    ),
    Row(
        "map of bytes",
        dict[str, bytes],
        {"type": "object", "additionalProperties": {"type": "string", "format": "byte"}},
        values=[({"a": "YWI="}, {"a": b"ab"})],
        wrong=[{"a": "%"}],
    ),
    Row("map of Any", dict[str, Any], {"type": "object", **KEEP}, values=[({"x": {"y": 1}}, {"x": {"y": 1}})], wrong=[[]]),
    Row("dict", dict, {"type": "object", **KEEP}, values=[({"x": {"y": 1}}, {"x": {"y": 1}})]),
    Row(
        "map of dicts",
        dict[str, dict[str, Any]],
        {"type": "object", "additionalProperties": {"type": "object", **KEEP}},
        values=[({"x": {"y": 1}}, {"x": {"y": 1}})],
        wrong=[{"x": 1}],
    ),
    Row("class", Port, PORT, values=[({"name": "a", "number": 1}, Port("a", 1))], wrong=[{}, {"name": 1}]),
    Row(
        "list of a class",
        list[Port],
        {"type": "array", "items": PORT},
        values=[([{"name": "a", "number": 1}], [Port("a", 1)])],
        wrong=[[{}]],
    ),
    Row(
        "map of a class",
        dict[str, Port],
        {"type": "object", "additionalProperties": PORT},
        values=[({"x": {"name": "a", "number": 1}}, {"x": Port("a", 1)})],
    ),
    Row(
        "TypedDict",
        Options,
        {"type": "object", "properties": {"maxSize": {"type": "integer"}}},
        values=[({"maxSize": 1}, {"max_size": 1}), ({}, {})],
        wrong=[{"maxSize": "a"}],
        but=("pydantic",),  # which can't validate TypedDicts of typing before 3.12
    ),
    Row(
        "MapKey",
        Annotated[list[Port], MapKey("name")],
        {"type": "array", "items": PORT, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        values=[([{"name": "a", "number": 1}, {"name": "b", "number": 1}], [Port("a", 1), Port("b", 1)])],
        wrong=[[{"name": "a"}, {"name": "a"}]],
    ),
    Row(
        "MapKey with a default",
        Annotated[list[Port], MapKey("name", "number")],
        {"type": "array", "items": PORT, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "number"]},
        values=[([{"name": "a", "number": 1}, {"name": "a", "number": 2}], [Port("a", 1), Port("a", 2)])],
    ),
    Row(
        "tagged union",
        Http | Command,
        PROBE,
        values=[
            ({"kind": "http", "port": 1, "path": "/x"}, Http("http", 1, "/x")),
            ({"kind": "command", "words": ["a"]}, Command("command", ["a"])),
        ],
        wrong=[{"kind": "http"}, {"kind": "command", "words": [], "port": 1}, {"kind": "other"}, {"port": 1}],
    ),
    Row(
        "tagged union with fields that rules can't name",
        Free | Command,
        {
            "type": "object",
            "properties": {
                "kind": {"type": "string", "enum": ["free", "command"]},
                "things": {"type": "array", "items": KEEP},
                "named": {"type": "object", "additionalProperties": {"type": "array", "items": KEEP}},
                "words": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["kind"],
            "x-kubernetes-validations": [
                {"rule": 'self.kind != "free" || (!has(self.words))', "message": "kind free can't have words"},
                {"rule": 'self.kind != "command" || (has(self.words))', "message": "kind command needs words"},
            ],
        },
        values=[({"kind": "free", "things": [1, {"a": "b"}]}, Free("free", [1, {"a": "b"}]))],
        wrong=[{"kind": "free", "things": [], "words": []}, {"kind": "command"}],
    ),
    Row(
        "keyed list of a tagged union",
        Annotated[list[Named | Numbered], MapKey("name")],
        {"type": "array", "items": NAMED_OR_NUMBERED, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        values=[
            (
                [{"kind": "named", "name": "a"}, {"kind": "numbered", "name": "b", "number": 1}],
                [Named("a"), {"kind": "numbered", "name": "b", "number": 1}],
            )
        ],
        wrong=[[{"kind": "named", "name": "a", "number": 1}], [{"kind": "named"}], [{"kind": "numbered", "name": "a"}]],
        but=("pydantic",),
    ),
    Row(
        "list of a tagged union",
        list[Http | Command],
        {"type": "array", "items": PROBE},
        values=[([{"kind": "command", "words": ["a"]}], [Command("command", ["a"])])],
        wrong=[[{"kind": "http"}]],
    ),
]

OPTIONAL = [
    Row("Optional", int | None, {"type": "integer"}, default=None, required=False, values=[(1, 1)], wrong=["a"]),
    Row("Optional class", Port | None, PORT, default=None, required=False, values=[({"name": "a", "number": 1}, Port("a", 1))]),
    Row(
        "Optional Literal",
        Literal["a"] | None,
        {"type": "string", "enum": ["a"]},
        default=None,
        required=False,
        values=[("a", "a")],
    ),
    Row("Optional Quantity", Quantity | None, QUANTITY_SCHEMA, default=None, required=False, values=[("1", Quantity("1"))]),
    Row(
        "Optional union",
        Http | Command | None,
        PROBE,
        default=None,
        required=False,
        values=[({"kind": "http", "port": 1, "path": "/"}, Http("http", 1))],
    ),
    Row("Optional map", dict[str, Any] | None, {"type": "object", **KEEP}, default=None, required=False, values=[({}, {})]),
    Row(
        "Optional with a factory",
        datetime | None,
        {"type": "string", "format": "date-time"},
        factory=lambda: NOON,
        required=False,
    ),
    Row("Any that is None", Any, KEEP, default=None, required=False, values=[(1, 1)]),
    Row("null", int | None, {"type": "integer", "nullable": True}, values=[(None, None), (1, 1)], wrong=["a"]),
    Row("null Any", Any | None, {**KEEP, "nullable": True}, values=[(None, None), (1, 1)]),
    Row("null class", Port | None, {**PORT, "nullable": True}, values=[(None, None), ({"name": "a", "number": 1}, Port("a", 1))]),
    Row(
        "null time",
        timedelta | None,
        {"type": "string", "format": "duration", "nullable": True},
        values=[(None, None), ("1s", timedelta(seconds=1))],
    ),
]

DEFAULTS = [
    Row("default", int, {"type": "integer", "default": 1}, default=1, required=False, values=[(2, 2)]),
    Row(
        "default Enum", Color, {"type": "string", "enum": ["red", "blue"], "default": "blue"}, default=Color.BLUE, required=False
    ),
    Row(
        "default timedelta",
        timedelta,
        {"type": "string", "format": "duration", "default": "49h0m0s"},
        default=timedelta(hours=49),
        required=False,
    ),
    Row(
        "default datetime",
        datetime,
        {"type": "string", "format": "date-time", "default": "2026-01-02T12:00:00Z"},
        default=NOON,
        required=False,
    ),
    Row("default bytes", bytes, {"type": "string", "format": "byte", "default": "YQ=="}, default=b"a", required=False),
    Row(
        "default Quantity",
        Quantity,
        {**QUANTITY_SCHEMA, "default": "1"},
        default=Quantity("1"),
        required=False,
        but=("dataclass",)[:0],
    ),
    Row(
        "default tuple",
        tuple[str, ...],
        {"type": "array", "items": {"type": "string"}, "default": ["a"]},
        default=("a",),
        required=False,
    ),
    Row("default list", list[str], {"type": "array", "items": {"type": "string"}, "default": []}, factory=list, required=False),
    Row(
        "default dict",
        dict[str, int],
        {"type": "object", "additionalProperties": {"type": "integer"}, "default": {}},
        factory=dict,
        required=False,
    ),
    Row(
        "default class",
        Limits,
        {**LIMITS, "default": {}},
        factory=Limits,
        required=False,
        values=[({"cpu": 1, "memory": 5}, Limits(1, 5))],
    ),
]

CONSTRAINTS = [
    Row(
        "ge and le",
        Annotated[int, Ge(1), Le(5)],
        {"type": "integer", "minimum": 1, "maximum": 5},
        values=[(1, 1), (5, 5)],
        wrong=[0, 6],
    ),
    Row(
        "gt and lt",
        Annotated[int, Gt(0), Lt(5)],
        {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "maximum": 5, "exclusiveMaximum": True},
        values=[(1, 1)],
        wrong=[0, 5],
    ),
    Row(
        "annotated_types",
        Annotated[int, annotated_types.Gt(0)],
        {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
        values=[(1, 1)],
        wrong=[0],
    ),
    Row(
        "Interval",
        Annotated[float, annotated_types.Interval(ge=0, lt=1)],
        {"type": "number", "minimum": 0, "maximum": 1, "exclusiveMaximum": True},
        values=[(0.5, 0.5)],
        wrong=[1],
    ),
    Row(
        "msgspec.Meta",
        Annotated[int, msgspec.Meta(ge=1, description="how many")],
        {"type": "integer", "minimum": 1, "description": "how many"},
        values=[(1, 1)],
        wrong=[0],
    ),
    Row(
        "pydantic.Field",
        Annotated[str, pydantic.Field(min_length=2, description="what")],
        {"type": "string", "minLength": 2, "description": "what"},
        values=[("ab", "ab")],
        wrong=["a"],
    ),
    Row("multiple", Annotated[int, MultipleOf(5)], {"type": "integer", "multipleOf": 5}, values=[(10, 10)], wrong=[3]),
    Row(
        "lengths",
        Annotated[str, MinLen(1), MaxLen(3)],
        {"type": "string", "minLength": 1, "maxLength": 3},
        values=[("abc", "abc")],
        wrong=["", "abcd"],
    ),
    Row(
        "items",
        Annotated[list[int], MinLen(1), MaxLen(2)],
        {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
        values=[([1], [1])],
        wrong=[[], [1, 2, 3]],
    ),
    Row(
        "keys",
        Annotated[dict[str, int], annotated_types.Len(1, 2)],
        {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1, "maxProperties": 2},
        values=[({"a": 1}, {"a": 1})],
        wrong=[{}],
    ),
    Row(
        "pattern",
        Annotated[str, Pattern("^[a-z]+$")],
        {"type": "string", "pattern": "^[a-z]+$"},
        values=[("a", "a")],
        wrong=["A"],
    ),
    Row(
        "limited items",
        list[Annotated[int, Ge(1)]],
        {"type": "array", "items": {"type": "integer", "minimum": 1}},
        values=[([1], [1])],
        wrong=[[0]],
    ),
    Row(
        "limited Optional",
        Annotated[int | None, Ge(1)],
        {"type": "integer", "minimum": 1},
        default=None,
        required=False,
        values=[(1, 1)],
        wrong=[0],
    ),
    Row(
        "Format", Annotated[str, Format("email")], {"type": "string", "format": "email"}, values=[("a@b.c", "a@b.c")], wrong=["a"]
    ),
    Row(
        "Rule",
        Annotated[int, Rule("self % 2 == 0", "must be even")],
        {"type": "integer", "x-kubernetes-validations": [{"rule": "self % 2 == 0", "message": "must be even"}]},
        values=[(2, 2)],
        wrong=[3],
    ),
    Row("Doc", Annotated[int, Doc("How many.")], {"type": "integer", "description": "How many."}, values=[(1, 1)]),
    Row("long Doc", Annotated[int, Doc("é" * 5000)], {"type": "integer", "description": "é" * 2048}, values=[(1, 1)]),
    Row(
        "Doc of a class",
        Annotated[Limits, Doc("Other.")],
        {**LIMITS, "description": "Other."},
        values=[({"cpu": 1, "memory": 1}, Limits(1, 1))],
    ),
    Row(
        "Extra",
        Annotated[dict[str, int], Extra({"x-kubernetes-map-type": "atomic", "title": "dropped", "examples": [{}]})],
        {"type": "object", "additionalProperties": {"type": "integer"}, "x-kubernetes-map-type": "atomic"},
        values=[({"a": 1}, {"a": 1})],
    ),
]

REFUSED = [
    Row("int or str", int | str, "int | str is no type of a schema: use IntOrString"),
    Row("other unions", int | list[int], "a field has one type: use a class with one optional field per case"),
    Row(
        "untagged union",
        Port | Limits,
        "objects of several classes need a tag: give each a field such as kind: Literal[...], with its own value, "
        "or use a class with one optional field per case",
    ),
    Row(
        "mixed Literal",
        Literal["a", 1],
        "one type per Literal or Enum: a schema has one type for all values; use texts for all of them",
    ),
    Row("null Literal", Literal["a"] | None, "null never passes an enum: make None the default, so that it is left out"),
    Row(
        "items that are Literal or null",
        list[Literal["a"] | None],
        "null never passes an enum: leave out `| None`, or use an own value for it",
    ),
    Row("Flag", Bits, "a Flag has combinations: use set[...] of an Enum"),
    Row("bare list", list, "list of what? Write list[str], or list[Any] for anything"),
    Row("bare set", set, "set of what? Write set[str]"),
    Row("bare tuple", tuple, "tuple of what? Write tuple[str], or tuple[Any] for anything"),
    Row("set of objects", set[Any], "a set has texts, numbers or booleans: use a list, with MapKey if objects have a key"),
    Row("fixed tuple", tuple[int, str], "a tuple of fixed length is no type of a schema: use a class, or tuple[X, ...]"),
    Row("NamedTuple", Pair, "a named tuple is a list in JSON: use a dataclass"),
    Row("int keys", dict[int, str], "the keys of an object are texts: use dict[str, ...]"),
    Row(
        "keys with a pattern",
        dict[Annotated[str, Pattern("^a")], str],
        "a schema can't check keys: use dict[str, ...], and check them in a Rule or a validate hook",
    ),
    Row("keys of an Enum", dict[Color, str], "the keys of an object are texts: use dict[str, ...]"),
    Row("Decimal", Decimal, "a decimal is no JSON number: use Quantity, float, or str"),
    Row("time", time, "no format for the time of a day is checked: use str with a Pattern"),
    Row("Path", Path, "use str for a path"),
    Row("complex", complex, "JSON has no complex numbers: use a class with two fields", but=("msgspec",)[:0]),
    Row("None", None, "None alone is no type: leave the field out", but=("attrs",)),
    Row(
        "unknown class",
        Opaque,
        "Opaque is no type of a schema: use a dataclass, a type of the table, or Any (kept unchecked)",
        but=("pydantic",),
    ),
    Row("Metadata below", Metadata, "Metadata is the object's own: use a class with the fields that you need, or dict[str, Any]"),
    Row("bound beyond int64", Annotated[int, Le(2**70)], f"the bound {2**70} is outside of 64 bits: leave it out"),
    Row(
        "lookahead",
        Annotated[str, Pattern("(?=a)")],
        "the pattern must be in Go's syntax (RE2): error parsing regexp: invalid or unsupported Perl syntax: `(?=`; "
        "use a validate hook for what it lacks",
    ),
    Row(
        "Python's end",
        Annotated[str, Pattern(r"a\Z")],
        r"the pattern must be in Go's syntax (RE2): error parsing regexp: invalid escape sequence: `\Z`; "
        "use a validate hook for what it lacks",
    ),
    Row(
        "bound of a time",
        Annotated[datetime, Ge(NOON)],
        "a schema can't compare such values (ge): use a Rule, or a validate hook",
    ),  # type: ignore[arg-type]
    Row(
        "length of bytes",
        Annotated[bytes, MaxLen(5)],
        "a schema would count the characters of base64, not bytes (max_length): use a validate hook",
    ),
    Row(
        "Predicate",
        Annotated[int, annotated_types.Predicate(bool)],
        "a Python function can't be a part of a schema: use a Rule, or a validate hook",
    ),
    Row(
        "MapKey of scalars",
        Annotated[list[int], MapKey("name")],
        "MapKey is for a list of objects of a class, and names fields of it",
    ),
    Row(
        "MapKey that is not there",
        Annotated[list[Port], MapKey("no")],
        "MapKey('no'): the class has no such field in JSON; it has name, number",
    ),
    Row(
        "writeOnly",
        Annotated[str, Extra({"writeOnly": True})],
        "whoever may read an object sees all of it: keep secrets in a Secret, and refer to it",
    ),
    Row("default None", int, "the default None needs `| None` in the type", default=None),
    Row(
        "default beside None",
        int | None,
        "None is left out of an object, and the default would come back: make None the default, or leave out `| None`",
        default=5,
    ),
    Row("wrong default", int, 'the default "a" is no value of the type: must be of type integer: "string"', default="a"),
    Row(
        "default out of bounds",
        Annotated[int, Ge(5)],
        "the default 1 is no value of the type: should be greater than or equal to 5",
        default=1,
    ),
    Row(
        "factory",
        datetime,
        "a schema has only constants as defaults: write the constant, or `| None` and fill it in a default hook",
        factory=lambda: NOON,
    ),
    Row(
        "naive default",
        datetime,
        "the default datetime.datetime(2026, 1, 2, 12, 0) is no value of the type: must have a time zone: use datetime.now(UTC), "
        "or .replace(tzinfo=UTC)",
        default=NOON.replace(tzinfo=None),
    ),
]

ACCEPTED = [*SCALARS, *COLLECTIONS, *OPTIONAL, *DEFAULTS, *CONSTRAINTS]
LIBRARIES = ("dataclass", "attrs", "pydantic", "msgspec")


def made(row: Row, library: str, name: str = "Site") -> Any:
    """The class of objects with the row's field, by a library."""
    if library == "dataclass":
        options: dict[str, Any] = {} if row.default is NOTHING else {"default": row.default}
        options |= {} if row.factory is None else {"default_factory": row.factory}
        return dataclasses.make_dataclass(name, [("metadata", Metadata), ("value", row.type, field(**options))])
    if library == "attrs":
        default = attrs.NOTHING if row.default is NOTHING else row.default
        default = default if row.factory is None else attrs.Factory(row.factory)
        return attrs.make_class(
            name, {"metadata": attrs.field(type=Metadata), "value": attrs.field(type=row.type, default=default)}
        )
    if library == "pydantic":
        given: Any = ... if row.default is NOTHING else row.default
        given = given if row.factory is None else pydantic.Field(default_factory=row.factory)
        config = pydantic.ConfigDict(arbitrary_types_allowed=True)
        return pydantic.create_model(name, __config__=config, metadata=(Metadata, ...), value=(row.type, given))
    value: Any = ("value", row.type) if row.default is NOTHING else ("value", row.type, row.default)
    value = value if row.factory is None else ("value", row.type, msgspec.field(default_factory=row.factory))
    return msgspec.defstruct(name, [("metadata", Metadata), value])


def each_class(rows: Sequence[Row]) -> Iterator[tuple[str, Row, str]]:
    for row in rows:
        for library in LIBRARIES:
            if library not in row.but:
                yield f"{row.name}, {library}", row, library
