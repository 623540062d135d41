"""Types: the Go types of Kubernetes' kinds, read from the tables beside this module.

A table has the types of one group and version, which tests/controlplane/types prints from upstream's packages by reflection,
with markers from the OpenAPI of kube-apiserver; `python -m tests.scheme.tables` writes it. To add a kind, add a root there, and
add the kind to `kinds.py`. A line that does not start with a space declares a type:

    ResourceScope string                     a name for another type: string, []T, map[string]T
    JSONSchemaProps struct                   its members follow
    JSONSchemaPropsOrBool custom             a struct that reads and writes its JSON itself
    Verbs []string message                   a list that protobuf has as a message of its own

and an indented line a member: JSON name, type, protobuf field number (`-` for none), then `omitempty` and the other tags, and
Go's name if it is not the JSON name with a capital. `inline` embeds a struct: in JSON its members are those of the outer struct,
in protobuf it is a message of its own. Types of other packages have the package before them (meta/v1.Time). The markers:

    enum=A,B%20C                at a name for a string: its values, with %20 for a space
    map=atomic, map=granular    at a struct, or a member: whether it has one owner as a whole
    union=D:a,b                 at a struct: which member says which of the others is set, if any, and the others
    list=map:k,l  list=set  list=atomic    at a member: its x-kubernetes-list-type, with the keys
    required, optional          at a member whose omitempty says the opposite
    default="TCP"               at a member: JSON, if it is not the zero that a plain member without omitempty has
    bare                        at a member that refers to a model and has no description of its own

A type is read when it is first looked up, together with the types that it contains.
Pure. Source: the struct tags of k8s.io/{api,apimachinery,apiextensions-apiserver,kube-aggregator}, v0.36.3.
"""

from __future__ import annotations

import json
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
    "api/resource.Quantity": "quantity",
    "meta/v1.MicroTime": "micro-time",
    "meta/v1.Time": "time",
    "util/intstr.IntOrString": "int-or-string",
    "meta/v1.FieldsV1": "json",
    "apiextensions/v1.JSON": "json",
    "pkg/runtime.RawExtension": "json",
    "apiextensions/v1.JSONSchemaPropsOrArray": "union",
    "apiextensions/v1.JSONSchemaPropsOrBool": "union",
    "apiextensions/v1.JSONSchemaPropsOrStringArray": "union",
}

_JSON_KINDS = {
    **dict.fromkeys(("string", "bytes", "time", "micro-time"), "string"),
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


# The defaults of OpenAPI for members that are always written.
_ZEROS: Mapping[str, str | bool | int] = {"string": "", "bool": False, "int32": 0, "int64": 0, "float64": 0}


@dataclass(slots=True, eq=False)
class Type:
    """One Go type. Shared, and not changed once it is read. Types contain each other, so they are compared by identity.

    name: as Go prints it (`v1.ResourceScope`, `[]string`).
    kind: string, bytes (base64 in JSON), bool, int32, int64, float64, list, map (from strings), struct, time, micro-time (with
    six digits of a second), quantity (a string or a number), int-or-string, json or union.
    element: of a list or map, else None. members: of a struct, by JSON name in Go's order; of a union, by Go's names.
    is_message: of a list, whether protobuf has it as a message with the items as its field 1.
    embedded: of a struct, the structs that it embeds, by their protobuf numbers. package: of a named type, the table that
    declares it. enum: the values that a string may have; empty for any. map_type: of a struct, `atomic`, `granular` or ''.
    unions: of a struct, each as (the member that says which of the others is set, or ''; the others).
    """

    name: str
    kind: str = ""
    element: Type | None = None
    members: dict[str, Member] = field(default_factory=dict)
    is_message: bool = False
    embedded: dict[int, Type] = field(default_factory=dict)
    package: str = ""
    enum: tuple[str, ...] = ()
    map_type: str = ""
    unions: tuple[tuple[str, tuple[str, ...]], ...] = ()
    _plain: dict[str, frozenset[type]] | None = field(default=None, repr=False)

    @property
    def json_kind(self) -> str:
        """The result of `golang.json_kind` for values of this type; '' if they can have several JSON types."""
        return _JSON_KINDS.get(self.kind, "")

    @property
    def short_name(self) -> str:
        """The name without the package."""
        return self.name.rpartition(".")[2]

    @property
    def full_name(self) -> str:
        """The argument of `lookup` for a named type: `core/v1.Pod`."""
        return f"{self.package}.{self.short_name}"

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

    name: in JSON. number: in protobuf, 0 if it has no field there. pointer: whether Go distinguishes zero from missing.
    omitempty: whether zero is not written to JSON. omitzero: the same, also for a struct. embedded: the embedded structs that
    contain it, each followed by a dot, as Go's decoder names them. strategy, merge_key: for a strategic merge patch: `merge` for
    a list that is merged, and the member that identifies its items. required: in OpenAPI. default: in OpenAPI, None if it has
    none; shared, so it must not be changed. list_type: `map`, `set`, `atomic` or ''. list_keys: of list_type `map`. map_type:
    overrides the type's. bare: see above.
    """

    name: str
    go_name: str
    type: Type
    number: int
    pointer: bool
    omitempty: bool
    omitzero: bool = False
    embedded: str = ""
    strategy: str = ""
    merge_key: str = ""
    required: bool = False
    default: Any = None
    list_type: str = ""
    list_keys: tuple[str, ...] = ()
    map_type: str = ""
    bare: bool = False

    @property
    def merge_strategy(self) -> str:
        """`merge`, `replace` or '': the strategy without `retainKeys`, which only matters to clients that make patches."""
        return ",".join(each for each in self.strategy.split(",") if each != "retainKeys")

    def is_omitted(self, value: Any) -> bool:
        """Whether Go omits this value, which has the member's type or is None."""
        return value is None or (self.omitempty and not self.pointer and self.type.kind != "struct" and not value)


def lookup(name: str) -> Type:
    """The type with this name and package, such as `apiextensions/v1.CustomResourceDefinition`. Raises KeyError."""
    if name not in _READ:
        being_read: set[str] = set()
        _read(name, being_read)
        _READ.update(being_read)
    return _TYPES[name]


# Two threads may read a type at once: both use one Type, and give it the same members. Only types that are complete are in _READ.
_TYPES: dict[str, Type] = {}
_READ: set[str] = set()


@cache
def _declarations(package: str) -> Mapping[str, tuple[list[str], list[list[str]]]]:
    """The lines of a table, split into words, by type: its own line, and those of its members."""
    declared: dict[str, tuple[list[str], list[list[str]]]] = {}
    members: list[list[str]] = []
    for line in (_TABLES / f"{package.replace('/', '_')}.txt").read_text().splitlines():
        words = line.split()
        if line.startswith(" "):
            members.append(words)
        else:
            members = []
            declared[words[0]] = (words, members)
    return declared


def _read(name: str, being_read: set[str]) -> Type:
    """Read a type and all that it contains. The Type is stored before its members are read, since types contain themselves."""
    if name in being_read or name in _READ:
        return _TYPES[name]
    package, _, short = name.rpartition(".")
    try:
        (_, what, *more), lines = _declarations(package)[short]
    except OSError:
        raise KeyError(name) from None
    marks = _marks(more)
    new = Type(
        f"{package.rpartition('/')[2]}.{short}",
        is_message="message" in more,
        package=package,
        enum=tuple(marks["enum"].replace("%20", " ").split(",")) if "enum" in marks else (),
        map_type=marks.get("map", ""),
        unions=tuple(_union(word) for word in more if word.startswith("union=")),
    )
    made = _TYPES.setdefault(name, new)
    being_read.add(name)
    if what in ("struct", "custom"):
        made.kind = "struct" if what == "struct" else _CUSTOM[name]
    else:
        base = _resolve(what, package, being_read)
        made.kind, made.element = base.kind, base.element
    if made.kind in ("struct", "union"):
        made.members, made.embedded = _members(lines, package, being_read)
    return made


def _members(lines: list[list[str]], package: str, being_read: set[str]) -> tuple[dict[str, Member], dict[int, Type]]:
    """The members of a struct, including those of embedded structs; and the embedded structs by their protobuf numbers."""
    members: dict[str, Member] = {}
    embedded: dict[int, Type] = {}
    for name, wanted, number, *rest in lines:
        made = _resolve(wanted.removeprefix("*"), package, being_read)
        if "inline" in rest:
            inner = (replace(each, number=0, embedded=f"{name}.{each.embedded}") for each in made.members.values())
            members |= {each.name: each for each in inner}
            if number != "-":
                embedded[int(number)] = made
            continue
        marks = _marks(rest)
        strategy, _, key = marks.get("patch", "").partition(":")
        list_type, _, list_keys = marks.get("list", "").partition(":")
        omits = "omitempty" in rest or "omitzero" in rest
        members[name] = Member(
            name,
            next((word for word in rest if word[0].isupper()), name[0].upper() + name[1:]),
            made,
            0 if number == "-" else int(number),
            wanted.startswith("*"),
            "omitempty" in rest,
            "omitzero" in rest,
            strategy=strategy,
            merge_key=key,
            required="required" in rest or not (omits or "optional" in rest),
            default=json.loads(marks["default"]) if "default" in marks else _zero(made, wanted, omits=omits),
            list_type=list_type,
            list_keys=tuple(list_keys.split(",")) if list_keys else (),
            map_type=marks.get("map", ""),
            bare="bare" in rest,
        )
    return members, embedded


def _zero(of: Type, wanted: str, *, omits: bool) -> Any:
    """The default in OpenAPI of a member whose marker has none."""
    if wanted.startswith("*") or (omits and of.kind != "struct"):
        return None
    return {} if of.kind == "struct" else _ZEROS.get(of.kind)


def _marks(words: list[str]) -> dict[str, str]:
    return dict(word.split("=", 1) for word in words if "=" in word)


def _union(word: str) -> tuple[str, tuple[str, ...]]:
    discriminator, _, others = word.removeprefix("union=").partition(":")
    return discriminator, tuple(others.split(","))


def _resolve(name: str, package: str, being_read: set[str]) -> Type:
    if name == "[]uint8":
        return Type(name, "bytes")
    for prefix, kind in (("[]", "list"), ("map[string]", "map")):
        if name.startswith(prefix):
            element = _resolve(name.removeprefix(prefix), package, being_read)
            return Type(prefix + element.name, kind, element)
    if "/" in name:
        return _read(name, being_read)
    return _read(f"{package}.{name}", being_read) if name in _declarations(package) else Type(name, name)
