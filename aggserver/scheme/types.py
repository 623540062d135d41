"""Types: the Go types of Kubernetes' kinds, read from the tables beside this module.

A table has the types of one group and version, as tests/controlplane/types prints them from upstream's packages by reflection. A
test compares the two; to add a kind, add a root there. A line that does not start with a space declares a type:

    ResourceScope string                     a name for another type: string, []T, map[string]T
    JSONSchemaProps struct                   its members follow
    JSONSchemaPropsOrBool custom             a struct that reads and writes its JSON itself
    Verbs []string message                   a list that protobuf has as a message of its own

and an indented one a member: JSON name, type, protobuf field number (`-` for none), then `omitempty` and what else its tags say,
and Go's name where that is not the JSON name with a capital. `inline` embeds a struct: in JSON its members are those of the outer
struct, in protobuf it is a message of its own. Types of other packages have the package before them (meta/v1.Time).
Pure. Source: the struct tags of k8s.io/api, k8s.io/apimachinery and k8s.io/apiextensions-apiserver, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from aggserver.meta.golang import json_kind

__all__ = ["Member", "Type", "lookup"]

_TABLES = Path(__file__).with_name("tables")

# Types with their own JSON encoding: a time is RFC 3339, json is any value, unchanged. The JSON of a union is that of one of its
# members, chosen by its JSON type. A custom type that is not here can't be read: add it with its kind.
_CUSTOM = {
    "meta/v1.Time": "time",
    "meta/v1.FieldsV1": "json",
    "apiextensions/v1.JSON": "json",
    "pkg/runtime.RawExtension": "json",
    "apiextensions/v1.JSONSchemaPropsOrArray": "union",
    "apiextensions/v1.JSONSchemaPropsOrBool": "union",
    "apiextensions/v1.JSONSchemaPropsOrStringArray": "union",
}

_JSON_KINDS = {
    **dict.fromkeys(("string", "bytes", "time"), "string"),
    **dict.fromkeys(("int32", "int64", "float64"), "number"),
    "bool": "bool",
    "list": "array",
    **dict.fromkeys(("map", "struct"), "object"),
}


# The Python types that are valid for each kind; `is_plain` also checks the range of numbers.
_PLAIN = {
    "string": frozenset({str}),
    "bool": frozenset({bool}),
    **dict.fromkeys(("int32", "int64"), frozenset({int})),
    "float64": frozenset({int, float}),
}


@dataclass(slots=True, eq=False)
class Type:
    """One Go type. Shared, and never changed after it was read. Types contain each other, so they are compared by identity.

    name: as Go prints it (`v1.ResourceScope`, `[]string`).
    kind: string, bytes (base64 in JSON), bool, int32, int64, float64, list, map (from strings), struct, time, json or union.
    element: of a list or map, else None. members: of a struct, by JSON name in Go's order; of a union, by Go's names.
    is_message: of a list, whether protobuf has it as a message with the items as its field 1.
    embedded: of a struct, the structs in it whose members are among its own, by their protobuf numbers.
    """

    name: str
    kind: str = ""
    element: Type | None = None
    members: dict[str, Member] = field(default_factory=dict)
    is_message: bool = False
    embedded: dict[int, Type] = field(default_factory=dict)
    _plain: dict[str, frozenset[type]] | None = field(default=None, repr=False)

    @property
    def json_kind(self) -> str:
        """The result of `golang.json_kind` for values of this type; '' if they can have several JSON types."""
        return _JSON_KINDS.get(self.kind, "")

    @property
    def short_name(self) -> str:
        """The name without the package."""
        return self.name.rpartition(".")[2]

    def is_plain(self, value: Any) -> bool:
        """Whether `value` is an object of this struct with only scalar members, of the right types and not zero.

        Then decoding, checks and pruning need not visit it. The test is fast, which matters since the largest definitions have
        100,000 schemas, and nearly all of them are plain.
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
        """The member of a union that has the JSON type of `value`, which must not be None; None if no member has it."""
        kind = json_kind(value)
        return next((member for member in self.members.values() if member.type.json_kind == kind), None)


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One field of a struct.

    name: in JSON. number: in protobuf, 0 if it has no field there. pointer: Go distinguishes zero from missing. omitempty: zero
    is not written to JSON. embedded: the structs through which it is in this one, each with a dot, as Go's decoder names them.
    strategy, merge_key: for a strategic merge patch: `merge` for a list that is merged, and the member of its items by which.
    """

    name: str
    go_name: str
    type: Type
    number: int
    pointer: bool
    omitempty: bool
    embedded: str = ""
    strategy: str = ""
    merge_key: str = ""

    def is_omitted(self, value: Any) -> bool:
        """Whether Go omits this value, which has the member's type or is None."""
        return value is None or (self.omitempty and not self.pointer and self.type.kind != "struct" and not value)


@cache
def lookup(name: str) -> Type:
    """The type with this name and package, such as `apiextensions/v1.CustomResourceDefinition`. Raises KeyError."""
    package, _, short = name.rpartition(".")
    return _package(package)[short]


@cache
def _package(package: str) -> Mapping[str, Type]:
    """All types of one table. All are created before any member is read, since types contain themselves."""
    lines = (_TABLES / f"{package.replace('/', '_')}.txt").read_text().splitlines()
    prefix = package.rpartition("/")[2]
    heads = [line.split() for line in lines if not line.startswith(" ")]
    types = {name: Type(f"{prefix}.{name}", is_message="message" in more) for name, _, *more in heads}
    for name, what, *_ in heads:
        made = types[name]
        if what in ("struct", "custom"):
            made.kind = "struct" if what == "struct" else _CUSTOM[f"{package}.{name}"]
        else:
            base = _resolve(what, types)
            made.kind, made.element = base.kind, base.element
    bodies: dict[str, list[list[str]]] = {}
    for line in lines:
        if line.startswith(" "):
            bodies[next(reversed(bodies))].append(line.split())
        else:
            bodies[line.split()[0]] = []
    for name in types:
        _fill(name, types, bodies)
    return types


def _fill(name: str, types: Mapping[str, Type], bodies: dict[str, list[list[str]]]) -> None:
    """Read the members of a type, once, and before them those of the structs that it embeds."""
    into = types[name]
    for member_name, wanted, number, *rest in bodies.pop(name, ()):
        made = _resolve(wanted.removeprefix("*"), types)
        if "inline" not in rest:
            go_name = next((word for word in rest if word[0].isupper()), member_name[0].upper() + member_name[1:])
            strategy, _, key = next((word.removeprefix("patch=") for word in rest if word.startswith("patch=")), "").partition(
                ":"
            )
            into.members[member_name] = Member(
                member_name,
                go_name,
                made,
                _number(number),
                wanted.startswith("*"),
                "omitempty" in rest,
                strategy=strategy,
                merge_key=key,
            )
            continue
        if wanted in types:
            _fill(wanted, types, bodies)
        embedded = (replace(each, number=0, embedded=f"{member_name}.{each.embedded}") for each in made.members.values())
        into.members |= {each.name: each for each in embedded}
        if number != "-":
            into.embedded[_number(number)] = made


def _number(word: str) -> int:
    return 0 if word == "-" else int(word)


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
