"""Removing: values without some of their fields, or with nothing else; and sets that follow a schema.

Pure. Called by `managers.py`. Source: sigs.k8s.io/structured-merge-diff/v6 typed/{remove,reconcile_schema}.go and
fieldpath/set.go (EnsureNamedFieldsAreMembers), v6.3.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aggserver.merge import fieldset
from aggserver.merge.atom import DEDUCED, UNTYPED, Atom, ListType, MapType
from aggserver.merge.fieldset import FieldSet
from aggserver.merge.typed import kind_of, lenient_element_of

__all__ = ["extract", "reconcile", "remove", "with_named_fields"]


def remove(value: Any, items: FieldSet, atom: Atom) -> Any:
    """`value` without the fields and items of the set; None where nothing is left."""
    return _cut(value, items, atom, extracting=False)


def extract(value: Any, items: FieldSet, atom: Atom) -> Any:
    """`value` with nothing but the fields and items of the set; None where there are none."""
    return _cut(value, items, atom, extracting=True)


def _cut(value: Any, items: FieldSet, atom: Atom, *, extracting: bool) -> Any:
    """None where nothing is left."""
    match kind_of(atom, value):
        case "map":
            assert atom.map is not None
            if isinstance(value, dict) and value and not atom.map.atomic:
                return _cut_map(value, items, atom.map, extracting)
            return value if extracting and isinstance(value, dict) else None
        case "list":
            assert atom.list is not None
            if isinstance(value, list) and value and atom.list.associative:
                return _cut_list(value, items, atom.list, extracting)
            return value if extracting and isinstance(value, list) else None
        case "scalar":
            return value
        case _:
            return None


def _cut_map(value: dict[str, Any], items: FieldSet, of: MapType, extracting: bool) -> Any:
    out: dict[str, Any] = {}
    for name, member in value.items():
        element = fieldset.field(name)
        node, atom = items.get(element), of.of(name) or Atom()
        if node is not None and fieldset.is_member(node):
            if extracting:
                out[name] = _cut(member, items, atom, extracting=True)
            continue
        inner = fieldset.below(items, element)
        if inner:
            member = _cut(member, inner, atom, extracting=extracting)
        elif extracting:
            continue
        out[name] = member
    return out or None


def _cut_list(value: list[Any], items: FieldSet, of: ListType, extracting: bool) -> Any:
    out: list[Any] = []
    for item in value:
        element = lenient_element_of(of, item)
        node, inner = items.get(element), fieldset.below(items, element)
        is_member = node is not None and fieldset.is_member(node)
        if extracting:
            if is_member or inner:
                out.append(_cut(item, inner, of.element, extracting=True) if inner else item)
        elif not is_member:
            out.append(_cut(item, inner, of.element, extracting=False) if inner else item)
    return out or None


def with_named_fields(items: FieldSet, atom: Atom | None) -> FieldSet:
    """The set with those of its inner elements that are fields of the schema: with `a.b.c`, `a` and `a.b` too."""
    out: dict[str, Any] = {}
    for element, node in items.items():
        if element == "." or not node:
            out[element] = node
            continue
        inner, is_named = None, False
        if atom is not None and element[:2] == "f:" and atom.map is not None:
            inner, is_named = atom.map.of(element[2:]), element[2:] in atom.map.fields
        elif atom is not None and element[:2] == "k:" and atom.list is not None:
            inner = atom.list.element
        named = with_named_fields(node, inner)
        out[element] = fieldset.with_member(named) if is_named else named
    return out


def reconcile(items: FieldSet, atom: Atom) -> FieldSet:
    """The set as it is since a list or a map that was owned by its items became atomic: who owned any of them owns it all."""
    return _reconciled(items, atom, is_leaf=False, is_root=True)


def _reconciled(node: FieldSet, atom: Atom, *, is_leaf: bool, is_root: bool = False) -> FieldSet:
    inner = {element: child for element, child in node.items() if element != "."}
    if atom.map is not None:
        if _is_deduced(atom.map):
            return node
        if atom.map.atomic and not is_leaf:
            return node if is_root or not inner else fieldset.EMPTY
        return _descended(node, {element: atom.map.of(element[2:]) for element in inner})
    if atom.scalar or atom.list is None:
        return node
    if not atom.list.associative and not is_leaf:
        return node if is_root else fieldset.EMPTY
    return _descended(node, dict.fromkeys(inner, atom.list.element))


def _descended(node: FieldSet, atoms: Mapping[str, Atom | None]) -> FieldSet:
    out = dict(node)
    for element, atom in atoms.items():
        if atom is not None:
            out[element] = _reconciled(node[element], atom, is_leaf=not node[element])
    return out


def _is_deduced(of: MapType) -> bool:
    """Whether nothing is said of the members: what their lists and maps are is deduced, and does not change with the schema."""
    if of.fields or of.element is None or of.element is UNTYPED:
        return False
    return of.element is DEDUCED or of.element.scalar == "untyped"
