"""Removing: values without some fields; and adaptation of field sets to a schema.

Pure. Source: sigs.k8s.io/structured-merge-diff/v6 typed/{remove,reconcile_schema}.go and
fieldpath/set.go (EnsureNamedFieldsAreMembers), v6.3.3.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from aggserver.merge import fieldset
from aggserver.merge.atom import DEDUCED, UNTYPED, Atom, MapType
from aggserver.merge.fieldset import FieldSet
from aggserver.merge.typed import kind_of, lenient_element_of
from aggserver.merge.walker import ListWalker, Misfit, walker_of

__all__ = ["named_within", "part", "reconcile", "remove", "with_named_fields"]

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
                return _without_items(value, items, atom) or None
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


def part(value: Any, items: FieldSet, atom: Atom) -> Any:
    """What the elements of the set are in: these as a whole, and what contains them, with the keys of items of lists.

    Raises Misfit if an item would lose a key, or has it by default; and if a map beside the elements has an empty list, which has
    no fields: then it depends on all that the map contains whether it has fields once they are removed.
    """
    if isinstance(value, dict) and atom.map is not None and not atom.map.atomic:
        return _members_of(value, items, atom.map)
    if isinstance(value, list) and atom.list is not None and atom.list.associative:
        return _items_of(value, items, atom)
    return value


def _members_of(value: dict[str, Any], items: FieldSet, of: MapType) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, member in value.items():
        if f"f:{name}" not in items and _has_empty_list(member):
            raise Misfit
    for element, node in items.items():
        name = element[2:]
        if element[:2] == "f:" and name in value:
            member = value[name]
            out[name] = member if fieldset.is_member(node) else part(member, node, of.of(name) or _NOTHING)
    return out


def _has_empty_list(value: Any) -> bool:
    """Whether there is one in a value, or in maps of it. A list that has items has fields, whatever is in them."""
    if value.__class__ is dict:
        return any(map(_has_empty_list, value.values()))
    return value.__class__ is list and not value


def _items_of(value: list[Any], items: FieldSet, atom: Atom) -> list[Any]:
    assert atom.list is not None
    of = atom.list
    out: list[Any] = []
    for element, item in zip(_elements(value, atom), value, strict=True):
        node = items.get(element)
        if node is None:
            continue
        if fieldset.is_member(node) or not isinstance(item, dict):
            out.append(item)
        else:
            if not all(name in item and f"f:{name}" not in node for name in of.keys):
                raise Misfit
            keys = {name: item[name] for name in of.keys}
            out.append(keys | part(item, node, of.element))
    return out


def _elements(value: list[Any], atom: Atom) -> list[str]:
    """The path element of each item of an associative list, NO_ELEMENT for those that can't be identified."""
    assert atom.list is not None
    walker = walker_of(atom)
    if isinstance(walker, ListWalker):
        with suppress(Misfit):
            return walker.elements(value)
    return [lenient_element_of(atom.list, item) for item in value]


def _without_items(value: list[Any], items: FieldSet, atom: Atom) -> list[Any]:
    if not items:
        return value
    assert atom.list is not None
    of = atom.list
    out: list[Any] = []
    for element, item in zip(_elements(value, atom), value, strict=True):
        node = items.get(element)
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


def named_within(items: FieldSet, atom: Atom | None, within: FieldSet) -> FieldSet:
    """The elements of `with_named_fields` that are also on the way to an element of `within`, without a look at others."""
    out: dict[str, Any] = {}
    for element, inside in within.items():
        node = items.get(element)
        if not node:
            if node is not None:
                out[element] = node
            continue
        inner, is_named = None, False
        if atom is not None and element[:2] == "f:" and atom.map is not None:
            inner, is_named = atom.map.of(element[2:]), element[2:] in atom.map.fields
        elif atom is not None and element[:2] == "k:" and atom.list is not None:
            inner = atom.list.element
        named = named_within(node, inner, inside)
        if is_named or "." in node:
            out[element] = fieldset.with_member(named)
        elif named:
            out[element] = named
    return out


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
