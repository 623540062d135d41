"""Kinds: the types of objects that no definition has a schema for: the server's own kinds, and Scale.

Derived from the tables in `scheme/`, which say which lists are maps or sets and which structs are atomic.
Pure. Source: k8s.io/kube-openapi pkg/schemaconv/{openapi,smd}.go, by which upstream makes the types of all kinds.
"""

from __future__ import annotations

from functools import cache

from aggserver.merge.atom import DEDUCED, OBJECT_META, UNTYPED, Atom, ListType, MapType
from aggserver.meta.json_types import JSONObject
from aggserver.scheme.types import Member, Type, lookup

__all__ = ["of_type", "zero"]

_SCALARS = {
    **dict.fromkeys(("int32", "int64", "float64"), "numeric"),
    **dict.fromkeys(("string", "bytes"), "string"),
    "bool": "boolean",
    **dict.fromkeys(("time", "micro-time", "quantity"), "untyped"),
}


# Go's zero values by kind, as JSON; for all other kinds it is null.
_ZEROS: dict[str, str | bool | int] = {"string": "", "bool": False, "int32": 0, "int64": 0, "float64": 0}


# Kinds that are structs in Go, so that omitempty does not omit them.
_TIMES = frozenset({"time", "micro-time"})


@cache
def of_type(name: str) -> Atom:
    """The type of the objects of a kind, by its name in the tables: `apiextensions/v1.CustomResourceDefinition`."""
    return _atom(lookup(name), {})


@cache
def zero(name: str) -> JSONObject:
    """The members that Go writes for a new object of a kind, without kind, apiVersion and metadata. Must not be changed."""
    written = _zero(lookup(name))
    return {member: written[member] for member in written if member not in ("kind", "apiVersion", "metadata")}


def _zero(of: Type) -> JSONObject:
    written: JSONObject = {}
    for name, member in of.members.items():
        if member.type.kind == "struct" and not member.pointer:
            written[name] = _zero(member.type)
        elif not member.omitempty:
            written[name] = None if member.pointer else _ZEROS.get(member.type.kind)
        elif member.type.kind in _TIMES and not member.pointer:
            written[name] = None
    return written


def _atom(of: Type, made: dict[int, Atom]) -> Atom:
    if of.name == "v1.ObjectMeta":
        return OBJECT_META
    if of.kind in _SCALARS:
        return Atom(_SCALARS[of.kind])
    if of.kind not in ("list", "map", "struct"):
        # OpenAPI has no type for any JSON value, for unions and for int-or-string.
        return UNTYPED if of.name == "runtime.RawExtension" else DEDUCED
    if id(of) in made:
        return made[id(of)]
    atom = made[id(of)] = Atom()  # recorded before its members are made, since a type may contain itself
    if of.kind == "list":
        assert of.element is not None
        atom.list = ListType(_atom(of.element, made))
    elif of.kind == "map":
        assert of.element is not None
        atom.map = MapType(element=_atom(of.element, made))
    else:
        fields = {name: _member(member, made) for name, member in of.members.items()}
        # Defaults are used only for the keys of list maps, which are scalars.
        defaults = {
            name: each.default for name, each in of.members.items() if each.type.kind in _ZEROS and each.default is not None
        }
        atom.map = MapType(fields, defaults, None if fields else DEDUCED, atomic=of.map_type == "atomic")
    return atom


def _member(member: Member, made: dict[int, Atom]) -> Atom:
    atom = _atom(member.type, made)
    if atom.list is not None and member.list_type in ("map", "set"):
        return Atom(list=ListType(atom.list.element, associative=True, keys=member.list_keys))
    if atom.map is not None and member.map_type:
        inner = atom.map
        return Atom(map=MapType(inner.fields, inner.defaults, inner.element, atomic=member.map_type == "atomic"))
    return atom
