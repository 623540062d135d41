"""Form: has a JSON value the form of a type, and what of it would Go write?

`problems` finds every member of a wrong JSON type, with its path, for files and for those who rely on the form. `prune` drops
what Go's decoder would drop, and what its encoder would leave out.
Pure. Called by the kinds that are declared in `tables/`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from aggserver.meta.field import FieldError, Path, type_invalid
from aggserver.scheme.types import Type, lookup

__all__ = ["problems", "prune"]

_WORDS = {
    **dict.fromkeys(("string", "time"), "a string"),
    "bytes": "base64",
    "bool": "a boolean",
    **dict.fromkeys(("int32", "int64"), "an integer"),
    "float64": "a number",
    "list": "a list",
    **dict.fromkeys(("map", "struct"), "an object"),
}
_PYTHON: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("string", "time", "bytes"), str),
    "bool": bool,
    **dict.fromkeys(("int32", "int64"), int),
    "float64": (int, float),
    "list": list,
    **dict.fromkeys(("map", "struct"), dict),
}
_SCHEMA = "v1.JSONSchemaProps"


Judge = Callable[[Any, Path], Iterable[FieldError]]


def problems(value: Any, of: Type, path: Path, judges: Mapping[Type, Judge] | None = None) -> Iterator[FieldError]:
    """Every member of a wrong type, in the order of the value. None counts as missing; unknown members are passed over.

    judges: who judges the values of some types instead. Metadata is not looked at: it has rules of its own, wherever objects are
    written. Recurses as deep as the value goes.
    """
    yield from _problems(value, of, path, judges or {})


def _problems(value: Any, of: Type, path: Path, judges: Mapping[Type, Judge]) -> Iterator[FieldError]:
    if value is None or of.kind == "json" or of is lookup("meta/v1.ObjectMeta"):
        return
    if of in judges:
        yield from judges[of](value, path)
    elif of.kind == "union":
        # What is neither is told as what it is nearly always meant to be.
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
    # JSON's true is no number, whatever Python says.
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
    """Drops the members that a struct does not know, and those that Go leaves out when it writes it. Mutates.

    Returns the unknown paths, in the order of the value. Relies on `problems` finding nothing; metadata is left as it is.
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
