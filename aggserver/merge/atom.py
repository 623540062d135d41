"""Atom: the type of a value, with what merging needs of a structural schema.

A type may be a scalar, a list and a map at once; the value then decides which of them applies. Atomic lists and maps are owned
as a whole, lists of type set and map by their items, other maps by their members. Where a schema says nothing, the type is
deduced: maps are owned by their members, lists as a whole.
Pure. Source: k8s.io/kube-openapi pkg/schemaconv/{openapi,smd}.go, sigs.k8s.io/structured-merge-diff/v6 schema/elements.go and
typed/{helpers,parser}.go, v6.3.3. Upstream makes these types from the OpenAPI that it publishes for a definition, so what the
OpenAPI leaves out counts as unspecified.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aggserver.schema.structural import Structural

__all__ = ["DEDUCED", "OBJECT_META", "UNTYPED", "Atom", "ListType", "MapType", "of_resource", "of_schema"]


@dataclass(slots=True, eq=False)
class ListType:
    """A list. element: the type of the items.

    associative: each item has its own owners. Items are identified by the members named in `keys`, or by their value if there are
    no keys.
    """

    element: Atom
    associative: bool = False
    keys: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class MapType:
    """A map. fields: member name -> type, for declared members. defaults: member name -> default value.

    element: the type of all other members, None if there may be none. atomic: the map has one owner as a whole.
    """

    fields: Mapping[str, Atom] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    element: Atom | None = None
    atomic: bool = False

    def of(self, name: str) -> Atom | None:
        return self.fields.get(name, self.element)


@dataclass(slots=True, eq=False)
class Atom:
    """A type. Other types share it, so it is never changed once it is complete.

    scalar: numeric, string, boolean, untyped (any of them), or '' for none.
    walker: the type's `walker.Walker`, None until it is first needed.
    """

    scalar: str = ""
    list: ListType | None = None
    map: MapType | None = None
    walker: Any = field(default=None, init=False, repr=False)

    @property
    def is_textual(self) -> bool:
        """Whether all scalars are strings, at any depth. Then Python's `==` is exact; otherwise 1 and true would be equal."""
        return not _contains(self, lambda inner: inner.scalar not in ("", "string"))

    @property
    def fits_all(self) -> bool:
        """Whether every JSON value is of the type."""
        return not _contains(self, lambda inner: not inner._is_anything())

    @property
    def has_atomic(self) -> bool:
        """Whether the type contains an atomic list or map. Stored sets from before it was atomic may own its items."""
        return _contains(
            self,
            lambda inner: (inner.map is not None and inner.map.atomic) or (inner.list is not None and not inner.list.associative),
        )

    def _is_anything(self) -> bool:
        if self.scalar != "untyped" or self.list is None or self.map is None:
            return False
        return not self.list.associative and not self.map.fields and self.map.element is not None


def _contains(atom: Atom, wanted: Callable[[Atom], bool]) -> bool:
    """Whether `wanted` is true for the type or for any type in it."""
    waiting, seen = [atom], {id(atom)}
    while waiting:
        inner = waiting.pop()
        if wanted(inner):
            return True
        inside = [] if inner.list is None else [inner.list.element]
        if inner.map is not None:
            inside += [*inner.map.fields.values(), *([] if inner.map.element is None else [inner.map.element])]
        waiting += [each for each in inside if id(each) not in seen]
        seen |= {id(each) for each in inside}
    return False


# Both contain themselves.
UNTYPED = Atom("untyped")
UNTYPED.list = ListType(UNTYPED)
UNTYPED.map = MapType(element=UNTYPED, atomic=True)

DEDUCED = Atom("untyped")
DEDUCED.list = ListType(UNTYPED)
DEDUCED.map = MapType(element=DEDUCED)

_SCALARS = {"integer": "numeric", "number": "numeric", "boolean": "boolean"}
_STRING, _ANY_SCALAR = Atom("string"), Atom("untyped")
_STRINGS = Atom(map=MapType(element=_STRING))


def of_schema(node: Structural, *, preserve: bool = False) -> Atom:
    """The type of the values of a schema. preserve: a schema around it preserves unknown fields, and so this one does too."""
    preserve = preserve or node.x_preserve_unknown_fields
    if node.type in _SCALARS:
        return Atom(_SCALARS[node.type])
    if node.type == "string":
        return _STRING if (node.schema.get("format") or "") in ("", "byte") else _ANY_SCALAR
    if node.type == "object":
        return Atom(map=_map(node, preserve))
    if node.type == "array":
        return Atom(list=_list(node, preserve))
    return Atom("untyped", _list(node, preserve), _map(node, preserve))


def _map(node: Structural, preserve: bool) -> MapType:
    fields = {name: of_schema(child, preserve=preserve) for name, child in node.properties.items()}
    if node.x_embedded_resource:
        fields = {"apiVersion": _STRING, "kind": _STRING, "metadata": OBJECT_META} | fields
    defaults = {name: child.default for name, child in node.properties.items() if child.default is not None}
    return MapType(fields, defaults, _element(node, preserve, bool(fields)), node.map_type == "atomic")


def _element(node: Structural, preserve: bool, has_fields: bool) -> Atom | None:
    if isinstance(node.additional_properties, Structural):
        return of_schema(node.additional_properties, preserve=preserve)
    if node.additional_properties is not None:
        return DEDUCED if node.additional_properties else None
    return DEDUCED if preserve or not has_fields else None


def _list(node: Structural, preserve: bool) -> ListType:
    element = UNTYPED if node.items is None else of_schema(node.items, preserve=preserve)
    return ListType(element, node.list_type in ("set", "map"), node.list_map_keys if node.list_type == "map" else ())


def _struct(**fields: Atom) -> Atom:
    return Atom(map=MapType(fields))


_NUMERIC, _BOOLEAN = Atom("numeric"), Atom("boolean")
_OWNER_REFERENCE = Atom(
    map=MapType(
        {
            "apiVersion": _STRING,
            "blockOwnerDeletion": _BOOLEAN,
            "controller": _BOOLEAN,
            "kind": _STRING,
            "name": _STRING,
            "uid": _STRING,
        },
        {"uid": ""},
        atomic=True,
    )
)
_MANAGED_FIELDS = _struct(
    apiVersion=_STRING,
    fieldsType=_STRING,
    fieldsV1=Atom(map=MapType(element=DEDUCED)),
    manager=_STRING,
    operation=_STRING,
    subresource=_STRING,
    time=_ANY_SCALAR,
)
OBJECT_META = _struct(
    annotations=_STRINGS,
    creationTimestamp=_ANY_SCALAR,
    deletionGracePeriodSeconds=_NUMERIC,
    deletionTimestamp=_ANY_SCALAR,
    finalizers=Atom(list=ListType(_STRING, associative=True)),
    generateName=_STRING,
    generation=_NUMERIC,
    labels=_STRINGS,
    managedFields=Atom(list=ListType(_MANAGED_FIELDS)),
    name=_STRING,
    namespace=_STRING,
    ownerReferences=Atom(list=ListType(_OWNER_REFERENCE, associative=True, keys=("uid",))),
    resourceVersion=_STRING,
    selfLink=_STRING,
    uid=_STRING,
)


def of_resource(schema: Structural | None, *, preserve_unknown_fields: bool = False) -> Atom:
    """The type of a whole object of a version. If `schema` is None, the whole type is deduced.

    preserve_unknown_fields: the definition's `preserveUnknownFields`, which can be true only in definitions from before v1.
    """
    if schema is None:
        return DEDUCED
    made = of_schema(schema, preserve=preserve_unknown_fields)
    assert made.map is not None
    fields = {**made.map.fields, "apiVersion": _STRING, "kind": _STRING, "metadata": OBJECT_META}
    return Atom(map=MapType(fields, made.map.defaults, made.map.element, made.map.atomic))
