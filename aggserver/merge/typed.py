"""Typed: values under a type: whether they fit it, which fields they have, how their lists' items are told apart.

What all of comparing, merging and removing share. Upstream tells no value (a field that is not there) from null; here `ABSENT` is
the former. Errors are gathered as texts with the path of the value before them.
Pure. Source: sigs.k8s.io/structured-merge-diff/v6 typed/{helpers,validate,tofieldset}.go, v6.3.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Any, Final

import orjson

from aggserver.merge import fieldset
from aggserver.merge.atom import Atom, ListType, MapType
from aggserver.merge.fieldset import FieldSet
from aggserver.meta.golang import format_float, quote

__all__ = [
    "ABSENT",
    "Absent",
    "TypedError",
    "element_of",
    "equal",
    "field_set",
    "kind_of",
    "lenient_element_of",
    "scalar_error",
    "validate",
]


class Absent(Enum):
    ABSENT = 0


ABSENT: Final = Absent.ABSENT


class TypedError(ValueError):
    """A value does not fit its type, or a list's items can't be told apart. The text is upstream's."""

    @classmethod
    def of(cls, errors: Iterable[str]) -> TypedError:
        found = list(errors)
        return cls(found[0] if len(found) == 1 else "\n".join(["errors:", *(f"  {error}" for error in found)]))


def at(element: str, error: str) -> str:
    """The error of a value, told of what contains it at `element`."""
    text = fieldset.element_text(element)
    # A path is followed by a colon; an error without one is of the value itself.
    return f"{text}{error}" if error[:1] in (".", "[") else f"{text}: {error}"


def kind_of(atom: Atom, value: Any) -> str:
    """As which of map, scalar and list a value is handled: by what it is, or else the first that the type can be; '' for none."""
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


def equal(left: Any, right: Any) -> bool:
    """As JSON, where 1 and 1.0 are equal and 1 and true are not. Cheap where they are equal."""
    if left != right:
        return False
    if isinstance(left, dict | list):
        sort = orjson.OPT_SORT_KEYS
        return orjson.dumps(left, option=sort) == orjson.dumps(right, option=sort) or _equal(left, right)
    return isinstance(left, bool) is isinstance(right, bool)


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(member, right[name]) for name, member in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return bool(left == right) and isinstance(left, bool) is isinstance(right, bool)


def element_of(of: ListType, item: Any) -> str:
    """The path element of an item of an associative list. Raises TypedError."""
    return _key(of, item) if of.keys else _value(item)


def lenient_element_of(of: ListType, item: Any) -> str:
    """The same, with one element for all items that can't be told apart: what a removal left empty."""
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
    """Raises TypedError with everything that keeps `value` from being of the type.

    allow_duplicates: items of sets and list maps may be there twice, as in objects that were stored before anybody looked.
    """
    if not _fits(atom, allow_duplicates)(value):
        raise TypedError.of(_errors(value, atom, allow_duplicates))


_Fits = Callable[[Any], bool]


def _fits(atom: Atom, allow_duplicates: bool) -> _Fits:
    """Whether a value has no errors, as a function that is made of the type once: nearly all values have none."""
    found = atom.fits.get(allow_duplicates)
    if found is None:
        # A type that contains itself finds this while it is made.
        atom.fits[allow_duplicates] = lambda value: atom.fits[allow_duplicates](value)
        found = atom.fits[allow_duplicates] = _make_fits(atom, allow_duplicates)
    return found


def _make_fits(atom: Atom, allow_duplicates: bool) -> _Fits:
    if atom.map is None and atom.list is None:
        return _SCALAR_FITS[atom.scalar]
    as_map = None if atom.map is None else _map_fits(atom.map, allow_duplicates)
    as_list = None if atom.list is None else _list_fits(atom.list, allow_duplicates)
    as_scalar = _SCALAR_FITS[atom.scalar] if atom.scalar else None

    def fits(value: Any) -> bool:
        of = value.__class__
        if of is dict:
            return as_map is not None and as_map(value)
        if of is list:
            return as_list is not None and as_list(value)
        return value is None or (as_scalar is not None and as_scalar(value))

    return fits


def _map_fits(of: MapType, allow_duplicates: bool) -> _Fits:
    members = {name: _fits(member, allow_duplicates) for name, member in of.fields.items()}
    other = (lambda _: False) if of.element is None else _fits(of.element, allow_duplicates)
    get = members.get

    def fits(value: dict[str, Any]) -> bool:
        return all(get(name, other)(member) for name, member in value.items())

    return fits


def _list_fits(of: ListType, allow_duplicates: bool) -> _Fits:
    item_fits = _fits(of.element, allow_duplicates)

    def fits(value: list[Any]) -> bool:
        if of.associative:
            try:
                elements = [element_of(of, item) for item in value]
            except TypedError:
                return False
            if not allow_duplicates and len(set(elements)) < len(elements):
                return False
        return all(map(item_fits, value))

    return fits


_NUMBERS = (int, float)
_SCALAR_FITS: dict[str, _Fits] = {
    "": lambda _: False,
    "string": lambda value: value is None or value.__class__ is str,
    "boolean": lambda value: value is None or value.__class__ is bool,
    "numeric": lambda value: value is None or value.__class__ in _NUMBERS,
    "untyped": lambda value: value.__class__ is not dict and value.__class__ is not list,
}


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
    """What is wrong with a value that should be a scalar, '' if nothing: null fits every type."""
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
    """A pointer to a struct of the value, by %v."""
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
    """%#v."""
    if isinstance(value, dict):
        return "map[string]interface {}{" + ", ".join(f"{quote(k)}:{_go_syntax(value[k])}" for k in sorted(value)) + "}"
    if isinstance(value, list):
        return "[]interface {}{" + ", ".join(map(_go_syntax, value)) + "}"
    if isinstance(value, str):
        return quote(value)
    return "interface {}(nil)" if value is None else _go_value(value)


# The fields of a value


def field_set(value: Any, atom: Atom) -> FieldSet:
    """Every leaf of a value, and every item of its associative lists. Raises TypedError."""
    node = _fields(value, atom)
    return {name: child for name, child in node.items() if name != "."} if node else fieldset.EMPTY


def _fields(value: Any, atom: Atom) -> FieldSet | None:
    """What is below a value, its own element included where the value itself counts; None for nothing at all."""
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
        # A null or an empty map has no leaves, and a field that is not declared has no parent that speaks for it.
        if member is None or member == {} or name not in of.fields:
            node = fieldset.with_member(node)
        if node is not None:
            out[fieldset.field(name)] = node
    return out or None


def _fields_of_list(value: list[Any], of: ListType) -> FieldSet | None:
    elements = [lenient_element_of(of, item) for item in value]
    out: dict[str, Any] = {}
    for element, item in zip(elements, value, strict=True):
        # What is there twice is owned as a whole.
        out[element] = fieldset.with_member(None) if element in out else fieldset.with_member(_fields(item, of.element))
    return out or None
