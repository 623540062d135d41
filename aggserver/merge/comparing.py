"""Comparing: which fields a change removed, modified and added.

Pure. Source: sigs.k8s.io/structured-merge-diff/v6 typed/compare.go, v6.3.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aggserver.merge import fieldset
from aggserver.merge.atom import Atom, ListType, MapType
from aggserver.merge.fieldset import FieldSet
from aggserver.merge.typed import INVALID_ATOM, TypedError, at, element_of, kind_of, scalar_error, validate
from aggserver.merge.values import ABSENT, equal
from aggserver.merge.walker import Misfit, walker_of

__all__ = ["UNCHANGED", "Comparison", "compare", "plain_compare"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The fields that a change removed, modified and added: disjoint sets, all empty if nothing changed."""

    removed: FieldSet
    modified: FieldSet
    added: FieldSet

    def without(self, ignored: FieldSet) -> Comparison:
        """The comparison without the fields of `ignored` and all below them."""
        if not ignored or self is UNCHANGED:
            return self
        leave_out = fieldset.recursive_difference
        return Comparison(leave_out(self.removed, ignored), leave_out(self.modified, ignored), leave_out(self.added, ignored))


class _Sets:
    """The changes found so far below one element; `.` marks the element itself."""

    __slots__ = ("added", "modified", "removed")

    def __init__(self) -> None:
        self.removed: dict[str, Any] = {}
        self.modified: dict[str, Any] = {}
        self.added: dict[str, Any] = {}

    def take(self, element: str, inner: _Sets) -> None:
        """Add the changes found below `element`. A node that has only `.` becomes a leaf."""
        for name in self.__slots__:
            found = getattr(inner, name)
            if found:
                ours = getattr(self, name)
                leaf = fieldset.EMPTY if len(found) == 1 and "." in found else found
                ours[element] = (
                    leaf if element not in ours else fieldset.union({element: ours[element]}, {element: leaf})[element]
                )

    def mark(self, name: str) -> None:
        getattr(self, name)["."] = fieldset.EMPTY


UNCHANGED = Comparison(fieldset.EMPTY, fieldset.EMPTY, fieldset.EMPTY)


def compare(old: Any, new: Any, atom: Atom) -> Comparison:
    """Compare two whole objects of one type. The caller has checked that `new` fits the type.

    Raises TypedError if `old` does not fit, or items of lists can't be identified.
    """
    try:
        changes = walker_of(atom).changes(old, new)
    except Misfit:
        validate(old, atom, allow_duplicates=True)
    else:
        if changes is None:
            return UNCHANGED
        removed, modified, added = changes
        return Comparison(removed or fieldset.EMPTY, modified or fieldset.EMPTY, added or fieldset.EMPTY)
    return plain_compare(old, new, atom)


def plain_compare(old: Any, new: Any, atom: Atom) -> Comparison:
    """The plain form of `compare`, for all values. Raises TypedError."""
    found = _Sets()
    if errors := _compare(old, new, atom, found):
        raise TypedError.of(errors)
    for each in (found.removed, found.modified, found.added):
        each.pop(".", None)  # nobody owns the whole object
    return Comparison(found.removed, found.modified, found.added)


def _compare(old: Any, new: Any, atom: Atom, found: _Sets) -> list[str]:
    before, after = kind_of(atom, old), kind_of(atom, new)
    if new is ABSENT:
        errors = _handle(before, old, new, atom, found)
    else:
        errors = []
        if old is not ABSENT and before != after:
            errors = _handle(before, old, new, atom, found)
        errors += _handle(after, old, new, atom, found)
    if old is ABSENT:
        found.mark("added")
    elif new is ABSENT:
        found.mark("removed")
    return errors


def _handle(kind: str, old: Any, new: Any, atom: Atom, found: _Sets) -> list[str]:
    """The errors."""
    if kind == "map":
        assert atom.map is not None
        old_map, new_map = old if isinstance(old, dict) else None, new if isinstance(new, dict) else None
        if atom.map.atomic or not (old_map or new_map):
            _leaf(old, new, found)
            return []
        return _compare_maps(old_map or {}, new_map or {}, atom.map, found)
    if kind == "scalar":
        errors = [scalar_error(old, atom.scalar), scalar_error(new, atom.scalar)]
        if all(errors):
            return [f"lhs: {errors[0]}", f"rhs: {errors[1]}"]
        _leaf(old, new, found)
        return []
    if kind == "list":
        assert atom.list is not None
        old_list, new_list = old if isinstance(old, list) else None, new if isinstance(new, list) else None
        if not atom.list.associative or not (old_list or new_list):
            _leaf(old, new, found)
            return []
        return _compare_lists(old_list or [], new_list or [], atom.list, found)
    return [INVALID_ATOM]


def _leaf(old: Any, new: Any, found: _Sets) -> None:
    """A value that is owned as a whole. One that is there only before or after counts as every other such value."""
    if old is not ABSENT and new is not ABSENT and not equal(old, new):
        found.mark("modified")


def _compare_maps(old: dict[str, Any], new: dict[str, Any], of: MapType, found: _Sets) -> list[str]:
    errors: list[str] = []
    for name in old.keys() | new.keys() if old.keys() != new.keys() else old:
        atom = of.of(name)
        if atom is None:
            errors.append(at(fieldset.field(name), INVALID_ATOM))
        else:
            # Not by _compare_at, which would take one more frame for each level of a deep object.
            inner, element = _Sets(), fieldset.field(name)
            inside = _compare(old.get(name, ABSENT), new.get(name, ABSENT), atom, inner)
            found.take(element, inner)
            errors += [at(element, error) for error in inside]
    return errors


def _compare_at(element: str, old: Any, new: Any, atom: Atom, found: _Sets) -> list[str]:
    inner = _Sets()
    errors = _compare(old, new, atom, inner)
    found.take(element, inner)
    return [at(element, error) for error in errors]


def _compare_lists(old: list[Any], new: list[Any], of: ListType, found: _Sets) -> list[str]:
    errors: list[str] = []
    before, after = _by_element(old, of, errors), _by_element(new, of, errors)
    for element in before | after:
        left, right = before.get(element, []), after.get(element, [])
        if len(left) <= 1 and len(right) <= 1:
            errors += _compare_at(element, left[0] if left else ABSENT, right[0] if right else ABSENT, of.element, found)
            continue
        # Items that occur twice are compared and owned as a whole.
        marked = _Sets()
        if len(left) > 1 and len(right) > 1:
            if not equal(left, right):
                marked.mark("modified")
        elif len(left) > 1:
            if right:
                errors += _compare_at(element, ABSENT, right[0], of.element, found)
            marked.mark("removed")
        else:
            if left:
                errors += _compare_at(element, left[0], ABSENT, of.element, found)
            marked.mark("added")
        found.take(element, marked)
    return errors


def _by_element(items: list[Any], of: ListType, errors: list[str]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for index, item in enumerate(items):
        try:
            found.setdefault(element_of(of, item), []).append(item)
        except TypedError as error:
            errors.append(f"element {index}: {error}")
    return found
