"""Rewriting: changes a JSON object to what Go writes after it has read the object as a type.

Unknown members are dropped. Missing members that Go always writes are added: a zero value, null for a list or a pointer, `{}` for
a struct. Members that Go omits are dropped. Quantities, times and base64 are written as Go does. An empty list or map that is not
omitted becomes null, since upstream stores objects as protobuf, which does not distinguish it from a missing one.
Pure. Source: encoding/json; the MarshalJSON of the types that have one.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from aggserver.meta import quantity
from aggserver.meta.golang import to_json
from aggserver.meta.json_types import JSONObject
from aggserver.meta.times import format_micro_time, format_time, parse_frequent_time, parse_micro_time
from aggserver.scheme.types import Member, Type

__all__ = ["rewrite"]

# (value that is not None, its path, the list to which paths of unknown members are added) -> the value as Go writes it.
_Rewrite = Callable[[Any, str, list[str]], Any]

_NUMBERS = ("int32", "int64", "float64", "int-or-string")
_ZEROS: Mapping[str, Any] = {"string": "", "bool": False, "quantity": "0", **dict.fromkeys(_NUMBERS, 0)}
# Go writes these although their tags say omitempty, which has no effect on structs.
_NEVER_EMPTY = frozenset({"struct", "time", "micro-time", "quantity", "int-or-string", "json"})


def rewrite(obj: JSONObject, of: Type) -> list[str]:
    """Rewrite an object in place, except for its metadata. Returns the paths of unknown members, in the order of the object.

    of: a struct. `decode_error` must find nothing.
    """
    unknown: list[str] = []
    metadata = obj.pop("metadata", None)
    written = _rewriter(of)(obj, "", unknown)
    obj.clear()
    for name, value in written.items():
        if name != "metadata":
            obj[name] = value
        elif metadata is not None:
            obj[name] = metadata
    return unknown


class _Plan(NamedTuple):
    """How a member is written.

    rewrite: None if its values are not changed. absent: what is written if it is missing: `_OMITTED` for nothing, `_EMPTY` for an
    empty struct. omits: whether zeros are left out. null: whether zeros are written as null.
    """

    name: str
    rewrite: _Rewrite | None
    absent: Any
    omits: bool
    null: bool


_OMITTED, _EMPTY = object(), object()
_REWRITERS: dict[Type, _Rewrite] = {}


def _rewriter(of: Type) -> _Rewrite:
    if (made := _REWRITERS.get(of)) is None:
        made = _REWRITERS[of] = _MAKERS[of.kind](of)
    return made


def _struct(of: Type) -> _Rewrite:
    plans: list[_Plan] | None = None

    def rewrite_struct(value: Any, path: str, unknown: list[str]) -> Any:
        nonlocal plans
        if plans is None:  # not earlier, since types contain themselves
            plans = [_plan(member) for member in of.members.values()]
        prefix = f"{path}." if path else ""
        before = len(unknown)
        written: JSONObject = {}
        met = 0
        for name, change, absent, omits, null in plans:
            inner = value.get(name)
            met += name in value
            if inner is None:
                if absent is not _OMITTED:
                    written[name] = change({}, prefix + name, unknown) if absent is _EMPTY and change is not None else absent
                continue
            if change is not None:
                inner = change(inner, prefix + name, unknown)
            if inner or not (omits or null):
                written[name] = inner
            elif null:
                written[name] = None
        if met < len(value):
            unknown.extend(prefix + name for name in value if name not in of.members)
        if len(unknown) > before + 1:
            _in_order(unknown, before, value, prefix)
        return written

    return rewrite_struct


def _in_order(unknown: list[str], start: int, value: JSONObject, prefix: str) -> None:
    """Sort the paths from `start` on into the order of the members in the struct's text."""
    places = {name: place for place, name in enumerate(value)}

    def place(path: str) -> int:
        first = path.removeprefix(prefix)
        name = first if first in places else first.partition(".")[0].partition("[")[0]
        return places.get(name, 0)

    unknown[start:] = sorted(unknown[start:], key=place)


def _plan(member: Member) -> _Plan:
    kind = member.type.kind
    change = None if kind in _PLAIN else _rewriter(member.type)
    if member.pointer:
        return _Plan(member.name, change, _OMITTED if member.omitempty else None, omits=False, null=False)
    if kind == "struct":
        return _Plan(member.name, change, _EMPTY, omits=False, null=False)
    if kind in _NEVER_EMPTY:
        return _Plan(member.name, change, _OMITTED if member.omitzero else _ZEROS.get(kind), omits=False, null=False)
    absent = _OMITTED if member.omitempty else _ZEROS.get(kind)
    return _Plan(member.name, change, absent, omits=member.omitempty, null=not member.omitempty and kind in ("list", "map"))


_PLAIN = frozenset({"string", "bool", "int32", "int64", "float64", "json", "int-or-string"})


def _list(of: Type) -> _Rewrite:
    assert of.element is not None
    element, zero = of.element, _zero(of.element)
    if element.kind in _PLAIN:
        return lambda value, path, unknown: [zero if inner is None else inner for inner in value] if None in value else value

    def rewrite_list(value: Any, path: str, unknown: list[str]) -> Any:
        change = _rewriter(element)
        return [_element(change, zero, inner, f"{path}[{index}]", unknown) for index, inner in enumerate(value)]

    return rewrite_list


def _map(of: Type) -> _Rewrite:
    assert of.element is not None
    element, zero = of.element, _zero(of.element)
    if element.kind in _PLAIN:
        return lambda value, path, unknown: (
            {key: zero if inner is None else inner for key, inner in value.items()} if None in value.values() else value
        )

    def rewrite_map(value: Any, path: str, unknown: list[str]) -> Any:
        change = _rewriter(element)
        return {key: _element(change, zero, inner, f"{path}.{key}", unknown) for key, inner in value.items()}

    return rewrite_map


def _zero(of: Type) -> Any:
    """What a null item of a list, or null value of a map, becomes. Bytes, lists and maps become empty, since protobuf, from which
    upstream reads the object that it returns, has no null ones.
    """
    if of.kind == "struct":
        return _EMPTY
    return {"bytes": "", "list": [], "map": {}}.get(of.kind, _ZEROS.get(of.kind))


def _element(change: _Rewrite, zero: Any, value: Any, path: str, unknown: list[str]) -> Any:
    if value is not None:
        return change(value, path, unknown)
    return change({}, path, unknown) if zero is _EMPTY else zero


def _union(of: Type) -> _Rewrite:
    def rewrite_alternative(value: Any, path: str, unknown: list[str]) -> Any:
        member = of.alternative(value)
        return value if member is None else _rewriter(member.type)(value, path, unknown)

    return rewrite_alternative


def _text(change: Callable[[Any], Any]) -> Callable[[Type], _Rewrite]:
    return lambda _: lambda value, path, unknown: change(value)


def _unchanged(_: Type) -> _Rewrite:
    return lambda value, path, unknown: value


def _written_quantity(value: Any) -> str:
    return quantity.canonical(value.strip() if isinstance(value, str) else to_json(value))


_MAKERS: Mapping[str, Callable[[Type], _Rewrite]] = {
    **dict.fromkeys(_PLAIN, _unchanged),
    "bytes": _text(lambda value: base64.b64encode(base64.b64decode(value)).decode()),
    "time": _text(lambda value: format_time(parse_frequent_time(value))),
    "micro-time": _text(lambda value: format_micro_time(*parse_micro_time(value))),
    "quantity": _text(_written_quantity),
    "list": _list,
    "map": _map,
    "struct": _struct,
    "union": _union,
}
