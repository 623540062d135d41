"""The meaning of YAML scalars, as JSON values and keys, and how go-yaml shows them in errors.

Plain scalars are resolved by their form, as in go-yaml v2 (YAML 1.1): `y` is a boolean, 0o14 a number; dates and `1:30` are text.
Pure.
Source: sigs.k8s.io/yaml v1.6.0 yaml.go; go.yaml.in/yaml/v2 v2.4.3 (decode.go, resolve.go).
"""

from __future__ import annotations

import base64
import math
import re
import struct
from collections.abc import Iterator
from string import ascii_letters
from typing import Any, NoReturn

from aggserver.meta.golang import INT64_MAX, INT64_MIN, format_float, from_float, quote

__all__ = [
    "MERGE_TAG",
    "TEXT",
    "WORDS",
    "ScalarError",
    "YAMLTextError",
    "identity",
    "is_no_text",
    "json_value",
    "key_text",
    "refuse_key",
    "repetition",
    "resolve",
]

_PREFIX = "tag:yaml.org,2002:"
MERGE_TAG = f"{_PREFIX}merge"
_RESOLVED_TAGS = frozenset({"", *(f"{_PREFIX}{name}" for name in ("str", "bool", "int", "float", "null", "timestamp"))})

# Unquoted words that are not text, with their values.
WORDS: dict[str, Any] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_INTEGER = re.compile(r"([+-]?)(?:(0[xX][0-9a-fA-F]+)|(0[bB][01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ].*)?")
# A scalar that starts with one of these is always text.
TEXT = frozenset(ascii_letters) - frozenset("yYnNtTfFoO")
_UINT64_MAX = 2**64 - 1

# The most characters of a value in an error. Upstream shows all: 3 MB of `{}` become a message of 33 MB.
_MAX_SHOWN = 64 * 1024


class YAMLTextError(ValueError):
    """The text is not YAML, or can't be converted to JSON. Its text is upstream's."""


class ScalarError(YAMLTextError):
    """YAML that can't be converted to JSON."""


def _is_int64(value: int) -> bool:
    return INT64_MIN <= value <= INT64_MAX


def json_value(found: Any) -> Any:
    """Convert a decoded scalar or container to a JSON value."""
    if type(found) is float:
        if not math.isfinite(found):
            raise ScalarError(f"json: unsupported value: {format_float(found)}")
        return from_float(found)
    if type(found) is int and not _is_int64(found):
        return float(found)
    return found


def refuse_key(key: Any) -> NoReturn:
    raise ScalarError(f"yaml: invalid map key: {_go_syntax(key)}")


def identity(key: Any) -> Any:
    """A value that distinguishes keys, since 1, 1.0 and True are equal in Python."""
    return key if type(key) is str else (type(key), key)


def repetition(key: Any, line: int) -> str:
    return f"line {line}: key {_go_syntax(key)} already set in map"


def resolve(text: str, tag: str, *, plain: bool) -> str | bool | int | float | None:
    """The value of a scalar; an int may have up to 64 bits unsigned, a float may be infinite."""
    if not tag:
        return _plain(text)[1] if plain else text
    if tag == f"{_PREFIX}binary":
        return _binary(text)
    if tag not in _RESOLVED_TAGS or tag == f"{_PREFIX}str":
        return text
    wanted = tag.removeprefix(_PREFIX)
    actual, found = _plain(text)
    if actual == "str" and _DATE.fullmatch(text):
        actual = "timestamp"
    if actual != wanted and (wanted, actual) != ("float", "int"):
        raise ScalarError(f"yaml: cannot decode !!{actual} `{text}` as a !!{wanted}")
    return found


def _binary(text: str) -> str:
    try:
        data = base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
    except ValueError:
        raise ScalarError("yaml: !!binary value contains invalid base64 data") from None
    return data.decode("utf-8", "replace")


_TYPES = {bool: "bool", float: "float", type(None): "null"}


def _plain(text: str) -> tuple[str, str | bool | int | float | None]:
    """(short tag, value) of an unquoted scalar, determined by its form."""
    if text in WORDS:
        word = WORDS[text]
        return _TYPES[type(word)], word
    if text[0] not in "+-.0123456789":
        return "str", text
    # Only numbers that start with a digit or a sign may contain underscores.
    number = text if text[0] == "." else text.replace("_", "")
    integer = _INTEGER.fullmatch(number)
    if integer is not None:
        value = _integer(*integer.groups())
        if _is_int64(value) or (not integer[1] and value <= _UINT64_MAX):
            return "int", value
    if _FLOAT.fullmatch(number):
        found = float(number)
        if math.isfinite(found):
            return "float", found
    return "str", text


def is_no_text(text: str) -> bool:
    """Whether an unquoted scalar is a number, a boolean or null."""
    return _plain(text)[0] != "str"


def _integer(sign: str, hexadecimal: str | None, binary: str | None, octal: str | None, decimal: str | None) -> int:
    if hexadecimal:
        magnitude = int(hexadecimal, 16)
    elif binary:
        magnitude = int(binary, 2)
    elif octal:
        magnitude = int(octal, 8)
    else:
        # A longer one is beyond 64 bits in any case, and int() refuses thousands of digits.
        magnitude = int((decimal or "")[:30])
    return -magnitude if sign == "-" else magnitude


def key_text(key: Any, value: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int) and _is_int64(key):
        return str(key)
    if isinstance(key, float):
        return _float_key(key)
    kind, text = ("%!s(<nil>)", "<nil>") if key is None else ("uint64", hex(key))
    raise ScalarError(f"unsupported map key of type: {kind}, key: {text}, value: {_go_syntax(value, outermost=True)}")


def _float_key(key: float) -> str:
    """The shortest digits that parse to the same 32-bit float, as upstream."""
    packed = _single(key)
    single = struct.unpack("f", packed)[0]
    if not math.isfinite(single):
        return {"+Inf": ".inf", "-Inf": "-.inf"}.get(format_float(single), ".nan")
    # Nine digits distinguish any two 32-bit floats.
    candidates = (float(f"{single:.{precision}g}") for precision in range(1, 10))
    return format_float(next(short for short in candidates if _single(short) == packed))


def _single(value: float) -> bytes:
    try:
        return struct.pack("f", value)
    except OverflowError:
        return struct.pack("f", math.copysign(math.inf, value))


def _go_syntax(value: Any, *, outermost: bool = False) -> str:
    """A decoded value as Go's %#v prints it, at most _MAX_SHOWN characters of it."""
    if outermost and value is None:
        return "<nil>"
    if type(value) is str:
        return quote(value)
    parts: list[str] = []
    size = 0
    for part in _syntax_parts(value):
        parts.append(part)
        size += len(part)
        if size > _MAX_SHOWN:
            return "".join(parts)[:_MAX_SHOWN] + "..."
    return "".join(parts)


def _syntax_parts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield "map[interface {}]interface {}{"
        for index, key in enumerate(sorted(value)):
            yield f"{', ' if index else ''}{quote(key)}:"
            yield from _syntax_parts(value[key])
        yield "}"
    elif isinstance(value, list):
        yield "[]interface {}{"
        for index, item in enumerate(value):
            if index:
                yield ", "
            yield from _syntax_parts(item)
        yield "}"
    elif value is None:
        yield "interface {}(nil)"
    elif isinstance(value, str):
        yield quote(value)
    elif isinstance(value, bool):
        yield "true" if value else "false"
    else:
        yield format_float(value) if isinstance(value, float) else str(value)
