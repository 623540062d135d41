"""Decoding: what Go's decoder says of an object of a built-in kind with a member of a wrong JSON type.

`json: cannot unmarshal string into Go struct field CustomResourceValidation.spec.versions.schema.openAPIV3Schema of type
v1.JSONSchemaProps`: the struct that has the member, the path without indexes and keys, the type it should have. Of several the
first as written, but a malformed time comes before them: it ends Go's decoder. What Go takes may still lack the form that others
rely on (a null in a list, for one): `form.problems` says that, and says it of files, where all is told at once.
Pure. Source: encoding/json, and the UnmarshalJSON of the types that have one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from aggserver.meta.golang import INT64_MAX, INT64_MIN, json_kind, to_json
from aggserver.meta.times import parse_time
from aggserver.scheme.types import Type

__all__ = ["decode_error"]

# Of the unions only this one complains of a value that is neither (pkg/apis/apiextensions/v1/marshal.go).
_NEITHER = {"v1.JSONSchemaPropsOrBool": "boolean or JSON schema expected"}

# A check gives Go's error for a value that is not None, or ''. `owner` is the struct that has the member, '' for the root; `path`
# is the member as Go names it.
_Check = Callable[[Any, str, str], str]


class _MalformedTimeError(Exception):
    """Ends the check; its text is the answer."""


def decode_error(value: Any, of: Type, owner: str = "", path: str = "") -> str:
    """Go's text for the first misfit in a value, '' if there is none.

    owner, path: the struct and the member that the value is of, where it is not decoded by itself. Unknown members fit.
    """
    if value is None:
        return ""
    try:
        return _check(of)(value, owner, path)
    except _MalformedTimeError as error:
        return str(error)


_CHECKS: dict[Type, _Check] = {}


def _check(of: Type) -> _Check:
    if (made := _CHECKS.get(of)) is None:
        made = _CHECKS[of] = _MAKERS[of.kind](of)
    return made


def _mismatch(value: Any, owner: str, path: str, wanted: str) -> str:
    into = f"struct field {owner}.{path}" if owner else "value"
    return f"json: cannot unmarshal {json_kind(value)} into Go {into} of type {wanted}"


def _plain(of: Type) -> _Check:
    python = bool if of.kind == "bool" else str
    return lambda value, owner, path: "" if isinstance(value, python) else _mismatch(value, owner, path, of.name)


def _number(of: Type) -> _Check:
    limits = _LIMITS.get(of.kind)

    def check(value: Any, owner: str, path: str) -> str:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return _mismatch(value, owner, path, of.name)
        if limits is None or (isinstance(value, int) and limits[0] <= value <= limits[1]):
            return ""
        return f"json: cannot unmarshal number {to_json(value)} into Go struct field {owner}.{path} of type {of.name}"

    return check


# The same few moments come again with every write of an object; errors are not remembered.
_remembered_time = lru_cache(maxsize=1024)(parse_time)


def _time(_: Type) -> _Check:
    def check(value: Any, owner: str, path: str) -> str:
        if not isinstance(value, str):
            raise _MalformedTimeError(_mismatch(value, owner, path, "string"))
        try:
            _remembered_time(value)
        except ValueError as error:
            raise _MalformedTimeError(str(error)) from None
        return ""

    return check


def _anything(_: Type) -> _Check:
    return lambda value, owner, path: ""


def _list(of: Type) -> _Check:
    return _elements(of, list, iter)


def _map(of: Type) -> _Check:
    # Of the 100,000 schemas that a definition may have nearly all are plain, and values of a map.
    return _elements(of, dict, dict.values, of.element.is_plain if of.element is not None else None)


def _elements(
    of: Type, python: type, elements: Callable[[Any], Iterable[Any]], is_plain: Callable[[Any], bool] | None = None
) -> _Check:
    assert of.element is not None
    judge, right = _check(of.element), _RIGHT.get(of.element.kind)

    def check(value: Any, owner: str, path: str) -> str:
        if not isinstance(value, python):
            return _mismatch(value, owner, path, of.name)
        first = ""
        for inner in elements(value):
            if inner.__class__ is not right and inner is not None and (is_plain is None or not is_plain(inner)):
                problem = judge(inner, owner, path)
                first = first or problem
        return first

    return check


def _struct(of: Type) -> _Check:
    checks: Mapping[str, tuple[type | None, _Check]] | None = None
    struct = of.short_name

    def check(value: Any, owner: str, path: str) -> str:
        nonlocal checks
        if checks is None:  # not before, since types contain themselves
            known = ((name, member.type) for name, member in of.members.items() if member.type.kind != "json")
            checks = {name: (_RIGHT.get(type_.kind), _check(type_)) for name, type_ in known}
        if not isinstance(value, dict):
            return _mismatch(value, owner, path, of.name)
        prefix = f"{path}." if path else ""
        # All members are looked at even when one has been found: a time among them ends it.
        first = ""
        for name, inner in value.items():
            if inner is None or name not in checks:
                continue
            right, judge = checks[name]
            if inner.__class__ is not right:
                problem = judge(inner, struct, prefix + name)
                first = first or problem
        return first

    return check


def _union(of: Type) -> _Check:
    def check(value: Any, owner: str, path: str) -> str:
        member = of.alternative(value)
        return _NEITHER.get(of.name, "") if member is None else _check(member.type)(value, owner, path)

    return check


# Python's types that leave nothing to ask: most members are of these, and a call costs more than the question.
_RIGHT: Mapping[str, type] = {"string": str, "bytes": str, "bool": bool}
_LIMITS = {"int32": (-(2**31), 2**31 - 1), "int64": (INT64_MIN, INT64_MAX)}
_MAKERS: Mapping[str, Callable[[Type], _Check]] = {
    **dict.fromkeys(("string", "bytes", "bool"), _plain),
    **dict.fromkeys(("int32", "int64", "float64"), _number),
    "time": _time,
    "json": _anything,
    "list": _list,
    "map": _map,
    "struct": _struct,
    "union": _union,
}
