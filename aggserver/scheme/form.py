"""Form: checks that a JSON value has the form of a Go type, and prunes it as Go's decoder and encoder do.

`problems` finds all members of a wrong JSON type, with their paths, for files and for modules that rely on the form. `prune`
drops what Go's decoder would drop, and what its encoder would omit. `filled` adds the zero values that missing members have in
Go. Pure.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from aggserver.meta.field import FieldError, Path, type_invalid
from aggserver.meta.json_types import JSONMapping, JSONObject
from aggserver.scheme.types import Type, lookup

__all__ = ["filled", "problems", "prune"]

_WORDS = {
    **dict.fromkeys(("string", "time", "micro-time"), "a string"),
    "quantity": "a quantity",
    "int-or-string": "an integer or a string",
    "bytes": "base64",
    "bool": "a boolean",
    **dict.fromkeys(("int32", "int64"), "an integer"),
    "float64": "a number",
    "list": "a list",
    **dict.fromkeys(("map", "struct"), "an object"),
}
_PYTHON: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("string", "time", "micro-time", "bytes"), str),
    "bool": bool,
    **dict.fromkeys(("int32", "int64"), int),
    "float64": (int, float),
    "quantity": (str, int, float),
    "int-or-string": (str, int),
    "list": list,
    **dict.fromkeys(("map", "struct"), dict),
}
_ZEROS: Mapping[str, Callable[[], Any]] = {
    **dict.fromkeys(("string", "time", "micro-time", "bytes"), str),
    "bool": bool,
    **dict.fromkeys(("int32", "int64", "int-or-string"), int),
    "float64": float,
    "quantity": lambda: "0",
    "list": list,
    "map": dict,
    **dict.fromkeys(("json", "union"), lambda: None),
}
_SCHEMA = "v1.JSONSchemaProps"


Judge = Callable[[Any, Path], Iterable[FieldError]]


def problems(value: Any, of: Type, path: Path, judges: Mapping[Type, Judge] | None = None) -> Iterator[FieldError]:
    """The errors of all members of a wrong type, in the order of the value. None counts as missing; unknown members are ignored.

    judges: functions that check values of the given types in place of this one. Metadata has its own validation, and is skipped.
    Recurses as deep as the value is nested.
    """
    yield from _problems(value, of, path, judges or {})


def _problems(value: Any, of: Type, path: Path, judges: Mapping[Type, Judge]) -> Iterator[FieldError]:
    if value is None or of.kind == "json" or of is lookup("meta/v1.ObjectMeta"):
        return
    if of in judges:
        yield from judges[of](value, path)
    elif of.kind == "union":
        # A value that is no alternative is reported as a malformed schema, which is nearly always intended.
        chosen = of.alternative(value) or of.members["Schema"]
        yield from _problems(value, chosen.type, path, judges)
    elif not _fits(value, of.kind):
        yield type_invalid(path, value, "must be a schema (an object)" if of.name == _SCHEMA else f"must be {_WORDS[of.kind]}")
    elif of.kind == "struct":
        for name, inner in value.items():
            if (member := of.members.get(name)) is not None:
                yield from _problems(inner, member.type, path.child(name), judges)
    elif of.element is not None:
        yield from _of_elements(value, of.element, path, judges)


def _fits(value: Any, kind: str) -> bool:
    # JSON's true is not a number, but in Python it is an int.
    if not isinstance(value, _PYTHON[kind]) or (isinstance(value, bool) and kind != "bool"):
        return False
    return kind != "bytes" or _is_base64(value)


def _is_base64(value: Any) -> bool:
    try:
        base64.b64decode(value, validate=True)
    except ValueError:
        return False
    return True


def _of_elements(value: Any, element: Type, path: Path, judges: Mapping[Type, Judge]) -> Iterator[FieldError]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if not element.is_plain(inner):
                yield from _problems(inner, element, path.key(key), judges)
        return
    for index, inner in enumerate(value):
        if element.is_plain(inner):
            continue
        if inner is None and element.kind != "json":
            yield type_invalid(path.index(index), None, "must not be null")
        yield from _problems(inner, element, path.index(index), judges)


def prune(value: dict[str, Any], of: Type) -> list[str]:
    """Drop unknown members of structs, and members that Go omits when encoding. Mutates `value`.

    Returns the paths of unknown members, in the order of the value. `problems` must find nothing; metadata is not changed.
    """
    return list(_prune(value, of, ""))


def _prune(value: Any, of: Type, path: str) -> Iterator[str]:
    if of.kind == "union":
        member = of.alternative(value)
        if member is not None:
            yield from _prune(value, member.type, path)
    elif of.kind == "struct":
        if of is not lookup("meta/v1.ObjectMeta"):
            yield from _prune_struct(value, of, path)
    elif of.kind == "list" and of.element is not None:
        for index, inner in enumerate(value):
            if not of.element.is_plain(inner):
                yield from _prune(inner, of.element, f"{path}[{index}]")
    elif of.kind == "map" and of.element is not None:
        for key, inner in value.items():
            if of.element.is_plain(inner):
                continue
            if inner is None and of.element.kind in ("struct", "union"):
                value[key] = {}
            yield from _prune(value[key], of.element, f"{path}.{key}")


def _prune_struct(value: dict[str, Any], of: Type, path: str) -> Iterator[str]:
    for name, inner in list(value.items()):
        at = f"{path}.{name}" if path else name
        member = of.members.get(name)
        if member is None:
            del value[name]
            yield at
        elif member.is_omitted(inner):
            del value[name]
        else:
            yield from _prune(inner, member.type, at)


def filled(value: JSONMapping, of: Type, whole: Collection[Type] = ()) -> JSONObject:
    """A struct as Go's decoder returns it: with all its members, which are zero if they are missing or null.

    The zero of a pointer is None; unknown members are left out. whole: types whose values are not changed, but shared with the
    result. `problems` must find nothing.
    """
    return {name: _filled(value.get(name), member.type, member.pointer, whole) for name, member in of.members.items()}


def _filled(value: Any, of: Type, pointer: bool, whole: Collection[Type]) -> Any:
    if value is None:
        if pointer or of in whole:
            return None
        return filled({}, of, whole) if of.kind == "struct" else _ZEROS[of.kind]()
    if of in whole:
        return value
    if of.kind == "struct":
        return filled(value, of, whole)
    if of.element is None:
        return value
    if of.kind == "list":
        return [_filled(inner, of.element, False, whole) for inner in value]
    return {key: _filled(inner, of.element, False, whole) for key, inner in value.items()}
