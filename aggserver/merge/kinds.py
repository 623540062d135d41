"""Kinds: the types of objects that have no schema of a definition: the server's own kinds, and Scale.

Derived from the Go types in `scheme/`. Go's struct tags do not say which lists are maps, so that is said here.
Pure. Source: the `+listType` and `+listMapKey` markers of k8s.io/apiextensions-apiserver pkg/apis/apiextensions/v1/types.go and
k8s.io/api core/v1/types.go, autoscaling/v1/types.go, v0.36.3.
"""

from __future__ import annotations

from functools import cache

from aggserver.merge.atom import DEDUCED, OBJECT_META, Atom, ListType, MapType
from aggserver.scheme.types import Type, lookup

__all__ = ["of_type"]

# Type and member -> the keys that tell the items of the list apart. All other lists are atomic.
_MAP_KEYS = {
    ("v1.CustomResourceDefinitionStatus", "conditions"): ("type",),
    ("v1.JSONSchemaProps", "x-kubernetes-validations"): ("rule",),
    ("v1.NamespaceStatus", "conditions"): ("type",),
}

_SCALARS = {
    **dict.fromkeys(("int32", "int64", "float64"), "numeric"),
    **dict.fromkeys(("string", "bytes"), "string"),
    "bool": "boolean",
    "time": "untyped",
}


@cache
def of_type(name: str) -> Atom:
    """The type of the objects of a kind, by its name in the tables: `apiextensions/v1.CustomResourceDefinition`."""
    return _atom(lookup(name), {})


def _atom(of: Type, made: dict[int, Atom]) -> Atom:
    if of.name == "v1.ObjectMeta":
        return OBJECT_META
    if of.kind in _SCALARS:
        return Atom(_SCALARS[of.kind])
    if of.kind not in ("list", "map", "struct"):
        return DEDUCED  # any JSON, and unions: their OpenAPI says nothing of them
    if id(of) in made:
        return made[id(of)]
    atom = made[id(of)] = Atom()  # before its members: types contain themselves
    if of.kind == "list":
        assert of.element is not None
        atom.list = ListType(_atom(of.element, made))
    elif of.kind == "map":
        assert of.element is not None
        atom.map = MapType(element=_atom(of.element, made))
    else:
        atom.map = MapType({name: _member(of, name, made) for name in of.members})
    return atom


def _member(of: Type, name: str, made: dict[int, Atom]) -> Atom:
    atom = _atom(of.members[name].type, made)
    keys = _MAP_KEYS.get((of.name, name))
    if keys is None or atom.list is None:
        return atom
    return Atom(list=ListType(atom.list.element, associative=True, keys=keys))
