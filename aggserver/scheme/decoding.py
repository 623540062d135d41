"""Decoding: the errors of Go's decoder for members of a wrong JSON type in an object of a built-in kind.

Example: `json: cannot unmarshal string into Go struct field CustomResourceValidation.spec.versions.schema.openAPIV3Schema of type
v1.JSONSchemaProps`, with the struct that has the member, the path without indexes and keys, and the expected type. Only the first
error in the order of the text is returned, but a malformed time has priority, since it ends Go's decoder. Go accepts some values
that other modules do not expect (e.g. a null in a list); `form.problems` reports these, and reports all errors, which is better
for files.
Pure. Source: encoding/json, and the UnmarshalJSON of the types that have one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from aggserver.meta import quantity
from aggserver.meta.golang import INT64_MAX, INT64_MIN, json_kind, to_json
from aggserver.meta.times import parse_frequent_time, parse_micro_time
from aggserver.scheme.types import Type

__all__ = ["NO_TYPE_META", "decode_error", "type_meta_error", "without_kind"]

# Begins the error of a text whose kind and version can't be read.
NO_TYPE_META = "couldn't get version/kind; json parse error: "

# The only union that refuses values of other types (pkg/apis/apiextensions/v1/marshal.go).
_NEITHER = {"v1.JSONSchemaPropsOrBool": "boolean or JSON schema expected"}

# The characters of base64, and the padding after 2 or 3 digits of a group of four.
_BASE64 = re.compile(rb"[A-Za-z0-9+/\r\n]*")
_ALPHABET = re.compile(rb"[A-Za-z0-9+/]+")
_PADDING = {2: re.compile(rb"=[\r\n]*=[\r\n]*"), 3: re.compile(rb"=[\r\n]*")}

# A check returns Go's error for a value that is not None, or ''. owner: Go's struct that has the member, '' for the root. path:
# that of the member in Go's error.
_Check = Callable[[Any, str, str], str]


class _EndOfDecodingError(Exception):
    """An error of a type that reads its JSON itself. It ends the check, and its text is Go's error."""


def decode_error(value: Any, of: Type, owner: str = "", path: str = "") -> str:
    """Go's error for the first wrong type in a value, '' if there is none. Unknown members are ignored.

    owner, path: the struct and the path of the member that has this value; empty if the value is decoded on its own.
    """
    if value is None:
        return ""
    try:
        return _check(of)(value, owner, path)
    except _EndOfDecodingError as error:
        return str(error)


def type_meta_error(obj: Any) -> str:
    """Why apiVersion and kind of an object can't be decoded; '' if they can, or are missing."""
    if not isinstance(obj, dict):
        what = f"json: cannot unmarshal {json_kind(obj)} into Go value of type struct "
        return (
            NO_TYPE_META
            + what
            + '{ APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
        )
    for key in ("apiVersion", "kind"):
        if not isinstance(obj.get(key, ""), str | None):
            return f"{NO_TYPE_META}json: cannot unmarshal {json_kind(obj[key])} into Go struct field .{key} of type string"
    return ""


def without_kind(text: str) -> str:
    """Upstream's message for an object without a kind; `text` is the object."""
    return f"Object 'Kind' is missing in '{text}'"


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


def _bytes(of: Type) -> _Check:
    def check(value: Any, owner: str, path: str) -> str:
        if not isinstance(value, str):
            return _mismatch(value, owner, path, of.name)
        at = _not_base64(value)
        return "" if at is None else f"illegal base64 data at input byte {at}"

    return check


def _not_base64(text: str) -> int | None:
    """The index of the byte that Go's decoder refuses; None for valid base64, in which ends of lines are ignored."""
    data = text.encode("utf-8", "surrogatepass")
    found = _BASE64.match(data)
    assert found is not None
    at = found.end()
    rest = data[at:].replace(b"\r", b"").replace(b"\n", b"")
    pending = _ALPHABET.findall(data[:at])
    count = sum(map(len, pending)) % 4
    if not rest:
        return at - count if count else None
    if rest[:1] != b"=" or count < 2:
        return at
    padding = _PADDING[count].match(data, at)
    if padding is None:
        return len(data) if rest == b"=" else at
    return None if padding.end() == len(data) else padding.end()


def _own(parse: Callable[[str], object], wanted: str = "string") -> Callable[[Type], _Check]:
    """Makes checks for types that parse their text themselves. parse: raises ValueError."""

    def check(value: Any, owner: str, path: str) -> str:
        if not isinstance(value, str):
            raise _EndOfDecodingError(_mismatch(value, owner, path, wanted))
        try:
            parse(value)
        except ValueError as error:
            raise _EndOfDecodingError(str(error)) from None
        return ""

    return lambda _: check


def _quantity(_: Type) -> _Check:
    text = _own(quantity.canonical)(_)
    # Go parses the JSON of any other value like the text in a string.
    return lambda value, owner, path: text(value.strip() if isinstance(value, str) else to_json(value), owner, path)


def _int_or_string(_: Type) -> _Check:
    low, high = _LIMITS["int32"]

    def check(value: Any, owner: str, path: str) -> str:
        if isinstance(value, str) or (value.__class__ is int and low <= value <= high):
            return ""
        what = _mismatch(value, owner, path, "int32")
        if isinstance(value, int | float) and not isinstance(value, bool):
            what = what.replace(" number ", f" number {to_json(value)} ", 1)
        raise _EndOfDecodingError(what)

    return check


def _anything(_: Type) -> _Check:
    return lambda value, owner, path: ""


def _list(of: Type) -> _Check:
    return _elements(of, list, iter)


def _map(of: Type) -> _Check:
    # `is_plain` is tested first, since a definition may have 100,000 schemas, and nearly all of them are plain values of maps.
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
    checks: Mapping[str, tuple[type | None, _Check, str]] | None = None
    struct = of.short_name

    def check(value: Any, owner: str, path: str) -> str:
        nonlocal checks
        if checks is None:  # not earlier, since types contain themselves
            known = (member for member in of.members.values() if member.type.kind != "json")
            checks = {
                member.name: (_RIGHT.get(member.type.kind), _check(member.type), member.embedded + member.name)
                for member in known
            }
        if not isinstance(value, dict):
            return _mismatch(value, owner, path, of.name)
        prefix = f"{path}." if path else ""
        # All members are checked even after the first error, since a malformed time has priority.
        first = ""
        for name, inner in value.items():
            if inner is None or name not in checks:
                continue
            right, judge, where = checks[name]
            if inner.__class__ is not right:
                problem = judge(inner, struct, prefix + where)
                first = first or problem
        return first

    return check


def _union(of: Type) -> _Check:
    def check(value: Any, owner: str, path: str) -> str:
        member = of.alternative(value)
        return _NEITHER.get(of.name, "") if member is None else _check(member.type)(value, owner, path)

    return check


# Python types that need no further check. Most members have these, and testing for them is faster than a call.
_RIGHT: Mapping[str, type] = {"string": str, "bool": bool}
_LIMITS = {"int32": (-(2**31), 2**31 - 1), "int64": (INT64_MIN, INT64_MAX)}
_MAKERS: Mapping[str, Callable[[Type], _Check]] = {
    **dict.fromkeys(("string", "bool"), _plain),
    "bytes": _bytes,
    **dict.fromkeys(("int32", "int64", "float64"), _number),
    "time": _own(parse_frequent_time),
    "micro-time": _own(parse_micro_time),
    "quantity": _quantity,
    "int-or-string": _int_or_string,
    "json": _anything,
    "list": _list,
    "map": _map,
    "struct": _struct,
    "union": _union,
}
