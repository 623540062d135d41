"""Merging: adds an applied configuration to the live object.

Merging removes nothing. Where both have a value, the applied one wins. Items of associative lists keep the live order unless the
applied list orders them otherwise.
Pure. Source: sigs.k8s.io/structured-merge-diff/v6 typed/merge.go, v6.3.3.
"""

from __future__ import annotations

from typing import Any

from aggserver.merge import fieldset
from aggserver.merge.atom import Atom, ListType, MapType
from aggserver.merge.typed import INVALID_ATOM, TypedError, at, element_of, kind_of, scalar_error, validate
from aggserver.merge.values import ABSENT
from aggserver.merge.walker import Misfit, walker_of, woven

__all__ = ["merge", "plain_merge"]


def merge(live: Any, applied: Any, atom: Atom) -> Any:
    """The merged object. Unchanged parts are those of `live` itself, new ones those of `applied`. None if nothing is left.

    The caller has checked that `applied` fits the type. Raises TypedError if `live` does not, or if they can't be merged.
    """
    try:
        return walker_of(atom).merge(live, applied)
    except Misfit:
        validate(live, atom, allow_duplicates=True)
    return plain_merge(live, applied, atom)


def plain_merge(live: Any, applied: Any, atom: Atom) -> Any:
    """The plain form of `merge`, for all values. Raises TypedError."""
    errors: list[str] = []
    out = _merge(live, applied, atom, errors)
    if errors:
        raise TypedError.of(errors)
    return None if out is ABSENT else out


def _merge(live: Any, applied: Any, atom: Atom, errors: list[str]) -> Any:
    before, after = kind_of(atom, live), kind_of(atom, applied)
    if applied is ABSENT:
        return _handle(before, live, applied, atom, errors)
    if live is not ABSENT and before != after:
        _handle(before, live, applied, atom, errors)  # only for its errors: the applied value's kind decides
    return _handle(after, live, applied, atom, errors)


def _handle(kind: str, live: Any, applied: Any, atom: Atom, errors: list[str]) -> Any:
    if kind == "map":
        assert atom.map is not None
        left, right = live if isinstance(live, dict) else None, applied if isinstance(applied, dict) else None
        # If both are empty, the applied one decides between empty and null.
        if atom.map.atomic or not (left or right):
            return _applied(live, applied)
        return _merge_maps(left or {}, right or {}, atom.map, errors)
    if kind == "scalar":
        found = [scalar_error(live, atom.scalar), scalar_error(applied, atom.scalar)]
        if all(found):
            errors += [f"lhs: {found[0]}", f"rhs: {found[1]}"]
            return ABSENT
        return _applied(live, applied)
    if kind == "list":
        assert atom.list is not None
        items, applied_items = live if isinstance(live, list) else None, applied if isinstance(applied, list) else None
        if not atom.list.associative or not (items or applied_items):
            return _applied(live, applied)
        return _merge_lists(items or [], applied_items or [], atom.list, errors)
    errors.append(INVALID_ATOM)
    return ABSENT


def _applied(live: Any, applied: Any) -> Any:
    return live if applied is ABSENT else applied


def _merge_at(element: str, live: Any, applied: Any, atom: Atom, errors: list[str]) -> Any:
    found: list[str] = []
    out = _merge(live, applied, atom, found)
    errors += [at(element, error) for error in found]
    return out


def _merge_maps(live: dict[str, Any], applied: dict[str, Any], of: MapType, errors: list[str]) -> Any:
    out: dict[str, Any] = {}
    for name in live | applied:
        atom = of.of(name)
        if atom is None:
            errors.append(at(fieldset.field(name), INVALID_ATOM))
            continue
        # Not by _merge_at, which would take one more frame for each level of a deep object.
        found: list[str] = []
        merged = _merge(live.get(name, ABSENT), applied.get(name, ABSENT), atom, found)
        errors += [at(fieldset.field(name), error) for error in found]
        if merged is not ABSENT:
            out[name] = merged
    return out or ABSENT


def _merge_lists(live: list[Any], applied: list[Any], of: ListType, errors: list[str]) -> Any:
    found: list[str] = []
    # The applied list is indexed first, so that its errors come first.
    right, by_right = _indexed(applied, of, found, allow_duplicates=False)
    left, by_left = _indexed(live, of, found, allow_duplicates=True)
    if found:
        errors += found
        return ABSENT
    out: list[Any] = []
    for element, at_left in woven(left, right):
        ours = by_left.get(element, ABSENT) if at_left < 0 else live[at_left]
        merged = _merge_at(element, ours, by_right.get(element, ABSENT), of.element, errors)
        if merged is not ABSENT:
            out.append(merged)
    return out or ABSENT


def _indexed(items: list[Any], of: ListType, errors: list[str], *, allow_duplicates: bool) -> tuple[list[str], dict[str, Any]]:
    """(the elements in order, element -> item). An item that occurs twice is null there, since nothing is merged with it."""
    elements: list[str] = []
    by: dict[str, Any] = {}
    for index, item in enumerate(items):
        try:
            element = element_of(of, item)
        except TypedError as error:
            errors.append(f"element {index}: {error}")
            continue
        if element in by and not allow_duplicates:
            errors.append(f"duplicate entries for key {fieldset.element_text(element)}")
            continue
        by[element] = None if element in by else item
        elements.append(element)
    return elements, by
