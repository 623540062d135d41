"""Kinds: the types of objects that have no schema of a definition: the server's own kinds, and Scale.

Derived from the Go types in `scheme/`. Go's struct tags do not say which lists are maps or sets and which structs are atomic, so
that is said here.
Pure. Source: the `+listType`, `+listMapKey` and `+structType` markers of k8s.io/apiextensions-apiserver
pkg/apis/apiextensions/v1/types.go, k8s.io/apimachinery pkg/apis/meta/v1/types.go and k8s.io/api core/v1/types.go,
autoscaling/v1/types.go, admissionregistration/v1/types.go, v0.36.3.
"""

from __future__ import annotations

from functools import cache

from aggserver.merge.atom import DEDUCED, OBJECT_META, Atom, ListType, MapType
from aggserver.meta.json_types import JSONObject
from aggserver.scheme.types import Type, lookup

__all__ = ["of_type", "zero"]

# Type and member -> the keys that tell the items of the list apart; none for a set. All other lists are atomic.
_ASSOCIATIVE: dict[tuple[str, str], tuple[str, ...]] = {
    ("v1.CustomResourceDefinitionStatus", "conditions"): ("type",),
    ("v1.JSONSchemaProps", "x-kubernetes-validations"): ("rule",),
    ("v1.MutatingAdmissionPolicySpec", "matchConditions"): ("name",),
    ("v1.MutatingWebhook", "matchConditions"): ("name",),
    ("v1.MutatingWebhookConfiguration", "webhooks"): ("name",),
    ("v1.NamespaceStatus", "conditions"): ("type",),
    ("v1.ValidatingAdmissionPolicyBindingSpec", "validationActions"): (),
    ("v1.ValidatingAdmissionPolicySpec", "matchConditions"): ("name",),
    ("v1.ValidatingAdmissionPolicySpec", "variables"): ("name",),
    ("v1.ValidatingAdmissionPolicyStatus", "conditions"): ("type",),
    ("v1.ValidatingWebhook", "matchConditions"): ("name",),
    ("v1.ValidatingWebhookConfiguration", "webhooks"): ("name",),
}

# Structs that have one owner as a whole.
_ATOMIC = frozenset(
    {"v1.LabelSelector", "v1.MatchResources", "v1.NamedRuleWithOperations", "v1.ParamKind", "v1.ParamRef", "v1.Variable"}
)

_SCALARS = {
    **dict.fromkeys(("int32", "int64", "float64"), "numeric"),
    **dict.fromkeys(("string", "bytes"), "string"),
    "bool": "boolean",
    **dict.fromkeys(("time", "micro-time", "quantity", "int-or-string"), "untyped"),
}


# As Go writes them; of all other kinds the zero is null.
_ZEROS: dict[str, str | bool | int] = {"string": "", "bool": False, "int32": 0, "int64": 0, "float64": 0}


@cache
def of_type(name: str) -> Atom:
    """The type of the objects of a kind, by its name in the tables: `apiextensions/v1.CustomResourceDefinition`."""
    return _atom(lookup(name), {})


@cache
def zero(name: str) -> JSONObject:
    """What Go writes of a new object of a kind beside its metadata. To be shared, and not changed."""
    written = _zero(lookup(name))
    return {member: written[member] for member in written if member not in ("kind", "apiVersion", "metadata")}


def _zero(of: Type) -> JSONObject:
    written: JSONObject = {}
    for name, member in of.members.items():
        if member.type.kind == "struct" and not member.pointer:
            written[name] = _zero(member.type)
        elif not member.omitempty:
            written[name] = None if member.pointer else _ZEROS.get(member.type.kind)
    return written


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
        # Only keys of lists are ever looked for among the defaults.
        texts = {name: "" for name, member in of.members.items() if member.type.kind == "string" and not member.omitempty}
        fields = {name: _member(of, name, made) for name in of.members}
        atom.map = MapType(fields, texts, atomic=of.name in _ATOMIC)
    return atom


def _member(of: Type, name: str, made: dict[int, Atom]) -> Atom:
    atom = _atom(of.members[name].type, made)
    keys = _ASSOCIATIVE.get((of.name, name))
    if keys is None or atom.list is None:
        return atom
    return Atom(list=ListType(atom.list.element, associative=True, keys=keys))
