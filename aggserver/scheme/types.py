"""Types: the Go types of Kubernetes' kinds, read from the tables beside this module.

A table has the types of one group and version, as tests/controlplane/types prints them from upstream's packages by reflection; a
test holds the two equal, and a new kind is a new root there. A line that does not begin with a blank declares a type:

    ResourceScope string                     a name for another type: string, []T, map[string]T
    JSONSchemaProps struct                   its members follow
    JSONSchemaPropsOrBool custom             a struct that reads and writes its JSON itself
    Verbs []string message                   a list that protobuf has as a message of its own

and an indented one a member: JSON name, type, protobuf field number (`-` for none), then `omitempty` and what else its tags say,
and Go's name where that is not the JSON name with a capital. Types of other packages have the package before them (meta/v1.Time).
Pure. Source: the struct tags of k8s.io/api, k8s.io/apimachinery and k8s.io/apiextensions-apiserver, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from aggserver.meta.golang import json_kind

__all__ = ["Member", "Type", "lookup"]

_TABLES = Path(__file__).with_name("tables")

# How a type that reads and writes its JSON itself does so: time is RFC 3339, json is any value, kept as it is. All other custom
# types are unions: their JSON is that of the member whose kind of JSON it has.
_CUSTOM = {"meta/v1.Time": "time", "meta/v1.FieldsV1": "json", "apiextensions/v1.JSON": "json"}

_JSON_KINDS = {
    **dict.fromkeys(("string", "bytes", "time"), "string"),
    **dict.fromkeys(("int32", "int64", "float64"), "number"),
    "bool": "bool",
    "list": "array",
    **dict.fromkeys(("map", "struct"), "object"),
}


# Of each kind the Python types that are right at once; numbers are looked at twice.
_PLAIN = {
    "string": frozenset({str}),
    "bool": frozenset({bool}),
    **dict.fromkeys(("int32", "int64"), frozenset({int})),
    "float64": frozenset({int, float}),
}


@dataclass(slots=True, eq=False)
class Type:
    """One Go type. Shared, and never changed once read; types contain each other, so two are equal only if they are one.

    name: as Go prints it (`v1.ResourceScope`, `[]string`).
    kind: string, bytes (base64 in JSON), bool, int32, int64, float64, list, map (from strings), struct, time, json or union.
    element: of a list or map, else None. members: of a struct, by JSON name in Go's order; of a union, by Go's names.
    is_message: of a list, whether protobuf has it as a message with the items as its field 1.
    """

    name: str
    kind: str = ""
    element: Type | None = None
    members: dict[str, Member] = field(default_factory=dict)
    is_message: bool = False
    _plain: dict[str, frozenset[type]] | None = field(default=None, repr=False)

    @property
    def json_kind(self) -> str:
        """What `golang.json_kind` calls the values of this type; '' where they can be of several kinds."""
        return _JSON_KINDS.get(self.kind, "")

    @property
    def short_name(self) -> str:
        """Without the package."""
        return self.name.rpartition(".")[2]

    def is_plain(self, value: Any) -> bool:
        """Whether `value` is of this struct and has nothing but plain members, of the right types and none of them zero.

        Then no decoder, checker or encoder finds anything in it, which is quick to see: the largest definitions have 100,000
        schemas, and nearly all of them are so.
        """
        if value.__class__ is not dict or self.kind != "struct":
            return False
        if self._plain is None:
            self._plain = {name: _PLAIN[member.type.kind] for name, member in self.members.items() if member.type.kind in _PLAIN}
        for name, inner in value.items():
            if inner.__class__ not in self._plain.get(name, ()) or not inner:
                return False
            if inner.__class__ is int and not -(2**31) <= inner < 2**31:
                return False
        return True

    def alternative(self, value: Any) -> Member | None:
        """The member of a union that `value`, which is not None, is of by its kind of JSON."""
        kind = json_kind(value)
        return next((member for member in self.members.values() if member.type.json_kind == kind), None)


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One field of a struct.

    name: in JSON. number: in protobuf, 0 where it is not there. pointer: Go tells a zero value from none. omitempty: a zero value
    is not written to JSON.
    """

    name: str
    go_name: str
    type: Type
    number: int
    pointer: bool
    omitempty: bool

    def is_omitted(self, value: Any) -> bool:
        """Whether Go does not write this value, which is of the member's type or None."""
        return value is None or (self.omitempty and not self.pointer and self.type.kind != "struct" and not value)


@cache
def lookup(name: str) -> Type:
    """The type of a name with its package, such as `apiextensions/v1.CustomResourceDefinition`. Raises KeyError."""
    package, _, short = name.rpartition(".")
    return _package(package)[short]


@cache
def _package(package: str) -> Mapping[str, Type]:
    """All types of one table. They are made before any member is read: types contain themselves."""
    lines = (_TABLES / f"{package.replace('/', '_')}.txt").read_text().splitlines()
    prefix = package.rpartition("/")[2]
    heads = [line.split() for line in lines if not line.startswith(" ")]
    types = {name: Type(f"{prefix}.{name}", is_message="message" in more) for name, _, *more in heads}
    for name, what, *_ in heads:
        made = types[name]
        if what in ("struct", "custom"):
            made.kind = "struct" if what == "struct" else _CUSTOM.get(f"{package}.{name}", "union")
        else:
            base = _resolve(what, types)
            made.kind, made.element = base.kind, base.element
    _fill(lines, types)
    return types


def _fill(lines: list[str], types: Mapping[str, Type]) -> None:
    into: dict[str, Member] = {}
    for line in lines:
        if not line.startswith(" "):
            into = types[line.split()[0]].members
            continue
        for member in _members(line.split(), types):
            into[member.name] = member


def _members(words: list[str], types: Mapping[str, Type]) -> Iterator[Member]:
    """The member of a line; those of the struct that it embeds."""
    name, wanted, number, *rest = words
    made = _resolve(wanted.removeprefix("*"), types)
    if "inline" in rest:
        for member in made.members.values():
            yield Member(member.name, member.go_name, member.type, 0, member.pointer, member.omitempty)
        return
    go_name = next((word for word in rest if word[0].isupper()), name[0].upper() + name[1:])
    yield Member(name, go_name, made, 0 if number == "-" else int(number), wanted.startswith("*"), "omitempty" in rest)


def _resolve(name: str, types: Mapping[str, Type]) -> Type:
    if name == "[]uint8":
        return Type(name, "bytes")
    for prefix, kind in (("[]", "list"), ("map[string]", "map")):
        if name.startswith(prefix):
            element = _resolve(name.removeprefix(prefix), types)
            return Type(prefix + element.name, kind, element)
    if name in types:
        return types[name]
    return lookup(name) if "/" in name else Type(name, name)
