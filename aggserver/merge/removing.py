"""Removing: values without some fields; and adaptation of field sets to a schema.

Pure. Source: sigs.k8s.io/structured-merge-diff/v6 typed/{remove,reconcile_schema}.go and
fieldpath/set.go (EnsureNamedFieldsAreMembers), v6.3.3.
"""

from __future__ import annotations

from typing import Any

from aggserver.merge import fieldset
from aggserver.merge.atom import DEDUCED, UNTYPED, Atom, ListType, MapType
from aggserver.merge.fieldset import FieldSet
from aggserver.merge.typed import kind_of, lenient_element_of
from aggserver.merge.walker import walker_of

__all__ = ["reconcile", "remove", "with_named_fields"]

# A type that no value fits.
_NOTHING = Atom()


def remove(value: Any, items: FieldSet, atom: Atom) -> Any:
    """`value` without the fields and items of the set; `value` itself if it has none of them, None if nothing is left."""
    match kind_of(atom, value):
        case "map":
            assert atom.map is not None
            if isinstance(value, dict) and value and not atom.map.atomic:
                return _without_members(value, items, atom.map) or None
            return None
        case "list":
            assert atom.list is not None
            if isinstance(value, list) and value and atom.list.associative:
                return _without_items(value, items, atom.list) or None
            return None
        case "scalar":
            return value
        case _:
            return None


def _without_members(value: dict[str, Any], items: FieldSet, of: MapType) -> dict[str, Any]:
    out = value
    for element, node in items.items():
        name = element[2:]
        if element[:2] != "f:" or name not in value:
            continue
        if out is value:
            out = dict(value)
        if fieldset.is_member(node):
            del out[name]
        else:
            out[name] = remove(value[name], node, of.of(name) or _NOTHING)
    return out


def _without_items(value: list[Any], items: FieldSet, of: ListType) -> list[Any]:
    if not items:
        return value
    out: list[Any] = []
    for item in value:
        node = items.get(lenient_element_of(of, item))
        if node is None:
            out.append(item)
        elif not fieldset.is_member(node):
            out.append(remove(item, node, of.element))
    return out


def with_named_fields(items: FieldSet, atom: Atom | None) -> FieldSet:
    """The set, with the declared fields on the way to its members as additional members: for `a.b.c` also `a` and `a.b`."""
    out: dict[str, Any] | None = None
    for element, node in items.items():
        if not node:
            continue
        inner, is_named = None, False
        if atom is not None and element[:2] == "f:" and atom.map is not None:
            inner, is_named = atom.map.of(element[2:]), element[2:] in atom.map.fields
        elif atom is not None and element[:2] == "k:" and atom.list is not None:
            inner = atom.list.element
        named = with_named_fields(node, inner)
        if is_named:
            named = fieldset.with_member(named)
        if named is not node:
            if out is None:
                out = dict(items)
            out[element] = named
    return items if out is None else out


def reconcile(items: FieldSet, atom: Atom) -> FieldSet:
    """Adapt a set to lists and maps that became atomic since it was written: the owner of an item now owns the whole.

    `items` itself if nothing became atomic, which is the usual case.
    """
    # The root is never owned as a whole, not even if its type is atomic.
    is_granular = atom.map is None or not atom.map.atomic
    return _reconciled(items, atom) if is_granular and walker_of(atom).has_atomic else items


def _reconciled(node: FieldSet, atom: Atom) -> FieldSet:
    """As `reconcile`, for a node that is not empty; a leaf is returned unchanged."""
    if atom.map is not None:
        if _is_deduced(atom.map):
            return node
        if atom.map.atomic:
            return node if len(node) == 1 and "." in node else fieldset.EMPTY
        return _descended(node, atom.map, None)
    if atom.scalar or atom.list is None:
        return node
    return _descended(node, None, atom.list.element) if atom.list.associative else fieldset.EMPTY


def _descended(node: FieldSet, fields: MapType | None, items: Atom | None) -> FieldSet:
    out: dict[str, Any] | None = None
    for element, child in node.items():
        if not child:
            continue
        atom = items if fields is None else fields.of(element[2:])
        if atom is None or not walker_of(atom).has_atomic:
            continue
        reconciled = _reconciled(child, atom)
        if reconciled is not child:
            if out is None:
                out = dict(node)
            out[element] = reconciled
    return node if out is None else out


def _is_deduced(of: MapType) -> bool:
    """Whether the schema does not specify the members: a deduced type does not change with the schema."""
    if of.fields or of.element is None or of.element is UNTYPED:
        return False
    return of.element is DEDUCED or of.element.scalar == "untyped"
