"""Typed: checks a value against a type, finds its fields, and identifies the items of its lists.

Comparing, merging and removing share this. Upstream distinguishes a missing field from null; here `ABSENT` stands for a missing
one. Errors are collected as texts, with the path of the value before them.
Pure. Source: sigs.k8s.io/structured-merge-diff/v6 typed/{helpers,validate,tofieldset}.go, v6.3.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from aggserver.merge import fieldset
from aggserver.merge.atom import Atom, ListType, MapType
from aggserver.merge.fieldset import FieldSet
from aggserver.merge.values import ABSENT
from aggserver.merge.walker import Misfit, walker_of
from aggserver.meta.field import first_that_fit
from aggserver.meta.golang import format_float, quote

__all__ = [
    "TypedError",
    "element_of",
    "field_set",
    "kind_of",
    "lenient_element_of",
    "plain_field_set",
    "plain_validate",
    "scalar_error",
    "validate",
]


class TypedError(ValueError):
    """A value does not fit its type, or an item of a list can't be identified. The text is upstream's."""

    @classmethod
    def of(cls, errors: Iterable[str]) -> TypedError:
        found = list(errors)
        return cls(found[0] if len(found) == 1 else "\n".join(["errors:", *(f"  {error}" for error in found)]))


def at(element: str, error: str) -> str:
    """Put the path element of a value before its error."""
    text = fieldset.element_text(element)
    # A path is followed by a colon; an error without one is of the value itself.
    return f"{text}{error}" if error[:1] in (".", "[") else f"{text}: {error}"


def kind_of(atom: Atom, value: Any) -> str:
    """The kind as which a value is handled: map, scalar or list; '' if the type allows no kind.

    It is the value's own kind if the type allows that, otherwise the first kind that the type allows.
    """
    if isinstance(value, dict):
        if atom.map is not None:
            return "map"
    elif isinstance(value, list):
        if atom.list is not None:
            return "list"
    elif value is not None and value is not ABSENT and atom.scalar:
        return "scalar"
    return "map" if atom.map is not None else "scalar" if atom.scalar else "list" if atom.list is not None else ""


INVALID_ATOM = "schema error: invalid atom: inlined"


def element_of(of: ListType, item: Any) -> str:
    """The path element of an item of an associative list. Raises TypedError."""
    return _key(of, item) if of.keys else _value(item)


def lenient_element_of(of: ListType, item: Any) -> str:
    """As `element_of`, but NO_ELEMENT for items that can't be identified, such as those that a removal left empty."""
    try:
        return element_of(of, item)
    except TypedError:
        return fieldset.NO_ELEMENT


def _key(of: ListType, item: Any) -> str:
    if item is None:
        raise TypedError("associative list with keys may not have a null element")
    if not isinstance(item, dict):
        raise TypedError("associative list with keys may not have non-map elements")
    found: dict[str, Any] = {}
    for name in of.keys:
        if name in item:
            found[name] = item[name]
        elif of.element.map is None:
            raise TypedError(f"couldn't find default value for {name}: associative list may not have non-map types")
        elif (default := of.element.map.defaults.get(name)) is not None:
            found[name] = default
    if not found:
        keys = " ".join(map(quote, of.keys))
        raise TypedError(
            f"associative list with keys has an element that omits all key fields [{keys}] "
            "(and doesn't have default values for any key fields)"
        )
    return fieldset.key(found)


def _value(item: Any) -> str:
    if isinstance(item, dict):
        raise TypedError("associative list without keys has an element that's a map type")
    if isinstance(item, list):
        raise TypedError("not supported: associative list with lists as elements")
    if item is None:
        raise TypedError("associative list without keys has an element that's an explicit null")
    return fieldset.value(item)


# Validation


def validate(value: Any, atom: Atom, *, allow_duplicates: bool = False) -> None:
    """Check that `value` is of the type. Raises TypedError with the reasons why it is not, as many as fit into a response.

    allow_duplicates: sets and list maps may contain an item twice, as in objects that were stored before this was checked.
    """
    if not walker_of(atom).fits(value, allow_duplicates):
        plain_validate(value, atom, allow_duplicates=allow_duplicates)


def plain_validate(value: Any, atom: Atom, *, allow_duplicates: bool = False) -> None:
    """The plain form of `validate`, for all values. Raises TypedError."""
    if errors := first_that_fit(_errors(value, atom, allow_duplicates)):
        raise TypedError.of(errors)


def _errors(value: Any, atom: Atom, allow_duplicates: bool) -> Iterator[str]:
    match kind_of(atom, value):
        case "map":
            assert atom.map is not None
            if isinstance(value, dict):
                yield from _map_errors(value, atom.map, allow_duplicates)
            elif value is not None:
                yield f"expected map, got {_printed(value)}"
        case "scalar":
            if error := scalar_error(value, atom.scalar):
                yield error
        case "list":
            assert atom.list is not None
            if isinstance(value, list):
                yield from _list_errors(value, atom.list, allow_duplicates)
            elif value is not None:
                yield f"expected list, got {_printed(value)}"
        case _:
            yield INVALID_ATOM


def _map_errors(value: dict[str, Any], of: MapType, allow_duplicates: bool) -> Iterator[str]:
    for name, member in value.items():
        atom = of.of(name)
        if atom is None:
            yield at(fieldset.field(name), "field not declared in schema")
            return
        for error in _errors(member, atom, allow_duplicates):
            yield at(fieldset.field(name), error)


def _list_errors(value: list[Any], of: ListType, allow_duplicates: bool) -> Iterator[str]:
    seen: set[str] = set()
    for index, item in enumerate(value):
        element = f"i:{index}"
        if of.associative:
            try:
                element = element_of(of, item)
            except TypedError as error:
                yield f"element {index}: {error}"
                return
            if element in seen and not allow_duplicates:
                yield f"duplicate entries for key {fieldset.element_text(element)}"
            seen.add(element)
        for text in _errors(item, of.element, allow_duplicates):
            yield at(element, text)


def scalar_error(value: Any, scalar: str) -> str:
    """The error of a value that should be a scalar, '' if there is none. Null fits every type."""
    if value is None or value is ABSENT:
        return ""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if scalar == "numeric" and not is_number:
        return f"expected numeric (int or float), got {_go_type(value)}"
    if scalar == "string" and not isinstance(value, str):
        return f"expected string, got &value.valueUnstructured{{Value:{_go_syntax(value)}}}"
    if scalar == "boolean" and not isinstance(value, bool):
        return f"expected boolean, got {_printed(value)}"
    if scalar == "untyped" and isinstance(value, dict | list):
        return f"expected any scalar, got {_printed(value)}"
    return ""


def _printed(value: Any) -> str:
    """The value as Go's %v prints a pointer to a struct that contains it."""
    return f"&{{{_go_value(value)}}}"


def _go_value(value: Any) -> str:
    if isinstance(value, dict):
        return f"map[{' '.join(f'{name}:{_go_value(value[name])}' for name in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(_go_value, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "<nil>" if value is None else format_float(value) if isinstance(value, float) else str(value)


def _go_type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    names: dict[type, str] = {
        str: "string",
        int: "int64",
        float: "float64",
        list: "[]interface {}",
        dict: "map[string]interface {}",
    }
    return names.get(type(value), "<nil>")


def _go_syntax(value: Any) -> str:
    """The value as Go's %#v prints it."""
    if isinstance(value, dict):
        return "map[string]interface {}{" + ", ".join(f"{quote(k)}:{_go_syntax(value[k])}" for k in sorted(value)) + "}"
    if isinstance(value, list):
        return "[]interface {}{" + ", ".join(map(_go_syntax, value)) + "}"
    if isinstance(value, str):
        return quote(value)
    return "interface {}(nil)" if value is None else _go_value(value)


# The fields of a value


def field_set(value: Any, atom: Atom) -> FieldSet:
    """The leaves of a value and the items of its associative lists. Raises TypedError."""
    try:
        return walker_of(atom).fields(value) or fieldset.EMPTY
    except Misfit:
        return plain_field_set(value, atom)


def plain_field_set(value: Any, atom: Atom) -> FieldSet:
    """The plain form of `field_set`, for all values. Raises TypedError."""
    node = _fields(value, atom)
    if not node or "." not in node:
        return node or fieldset.EMPTY
    return {name: child for name, child in node.items() if name != "."}


def _fields(value: Any, atom: Atom) -> FieldSet | None:
    """The node of a value, with `.` if the value itself is a member; None if there is nothing to own."""
    match kind_of(atom, value):
        case "map":
            assert atom.map is not None
            if atom.map.atomic:
                return fieldset.with_member(None)
            return _fields_of_map(value, atom.map) if isinstance(value, dict) else None
        case "scalar":
            return fieldset.with_member(None)
        case "list":
            assert atom.list is not None
            if not atom.list.associative:
                return fieldset.with_member(None)
            return _fields_of_list(value, atom.list) if isinstance(value, list) else None
        case _:
            raise TypedError(INVALID_ATOM)


def _fields_of_map(value: dict[str, Any], of: MapType) -> FieldSet | None:
    out: dict[str, Any] = {}
    for name, member in value.items():
        atom = of.of(name)
        if atom is None:
            raise TypedError(at(fieldset.field(name), INVALID_ATOM))
        node = _fields(member, atom)
        # Null and empty maps have no leaves that imply them; nor does the content of an undeclared field imply the field.
        if member is None or member == {} or name not in of.fields:
            node = fieldset.with_member(node)
        if node is not None:
            out[fieldset.field(name)] = node
    return out or None


def _fields_of_list(value: list[Any], of: ListType) -> FieldSet | None:
    elements = [lenient_element_of(of, item) for item in value]
    out: dict[str, Any] = {}
    for element, item in zip(elements, value, strict=True):
        # Items that occur twice are owned as a whole.
        out[element] = fieldset.with_member(None) if element in out else fieldset.with_member(_fields(item, of.element))
    return out or None
