"""Printing and parsing values as Go does: %q, %v of a float, json.Marshal, integers of 64 bits.

Error texts and Table cells show values in Go's notation, and clients match on those texts.
Pure. Source: Go's strconv (quote.go, ftoa.go, atoi.go), fmt and encoding/json, 1.26.
"""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

__all__ = [
    "INT64_MAX",
    "INT64_MIN",
    "format_float",
    "from_float",
    "json_kind",
    "parse_int",
    "parse_uint",
    "quote",
    "struct_to_json",
    "to_json",
    "trim_space",
]

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
_UINT64_MAX = 2**64 - 1
_UINT64_DIGITS = len(str(_UINT64_MAX))

_ESCAPES = {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v", "\\": r"\\", '"': r"\""}


# The characters that Go's unicode.IsSpace accepts. Python's strip() removes four more control characters.
_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)


def trim_space(text: str) -> str:
    """The text without leading and trailing white space, as strings.TrimSpace."""
    return text.strip(_SPACE)


def quote(text: str) -> str:
    """Quote as strconv.Quote: double quotes and Go's escapes; printable characters of any script are unchanged."""
    # Python and Go agree on which characters are printable: letters, marks, numbers, punctuation, symbols and the ASCII space.
    if text.isprintable():
        # Two replacements in C are many times faster than a loop over the characters, and a text may be as long as an object.
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return '"' + "".join(_quote_char(char) for char in text) + '"'


def _quote_char(char: str) -> str:
    escaped = _ESCAPES.get(char)
    if escaped is not None:
        return escaped
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def json_kind(value: Any) -> str:
    """The name of a JSON value's type in errors of Go's decoder."""
    if isinstance(value, bool):
        return "bool"
    for kind, name in ((str, "string"), (list, "array"), (dict, "object")):
        if isinstance(value, kind):
            return name
    return "null" if value is None else "number"


def parse_int(text: str) -> int:
    """strconv.ParseInt for decimals of 64 bits, which may have a sign. Raises ValueError with Go's message."""
    return _integer("ParseInt", text, text[1:] if text[:1] in ("+", "-") else text, INT64_MIN, INT64_MAX)


def parse_uint(text: str) -> int:
    """strconv.ParseUint for decimals of 64 bits without a sign. Raises ValueError with Go's message."""
    return _integer("ParseUint", text, text, 0, _UINT64_MAX)


def _integer(function: str, text: str, digits: str, lowest: int, highest: int) -> int:
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"strconv.{function}: parsing {quote(text)}: invalid syntax")
    # The length is checked first, since int() refuses thousands of digits.
    digits = digits.lstrip("0") or "0"
    number = int(digits) if len(digits) <= _UINT64_DIGITS else _UINT64_MAX + 1
    number = -number if text[0] == "-" else number
    if not lowest <= number <= highest:
        raise ValueError(f"strconv.{function}: parsing {quote(text)}: value out of range")
    return number


def format_float(value: float) -> str:
    """%v: the shortest digits that parse to `value`, with an exponent below 0.0001 and from 1e+06 on."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    return _shortest(value, -4, 6)


def from_float(value: float) -> int | float:
    """The value of a float64 after Go wrote it as JSON and read it again: an int if it has no fraction and fits into 64 bits."""
    if not value.is_integer() or not -1e19 < value < 1e19:
        return value
    # Go writes the shortest digits and appends zeros; from 2**53 on that may differ from the float's exact value.
    whole = int(value) if -1e15 < value < 1e15 else int(Decimal(repr(value)))
    return whole if INT64_MIN <= whole <= INT64_MAX else value


def _shortest(value: float, lowest: int, highest: int) -> str:
    """The shortest digits that parse to `value`; with an exponent unless lowest <= exponent < highest."""
    sign, digits, scale = _digits(value)
    exponent = len(digits) + scale - 1
    if lowest <= exponent < highest:
        body = format(Decimal((0, tuple(map(int, digits)), scale)), "f")
    else:
        body = digits[0] + ("." + digits[1:] if len(digits) > 1 else "") + f"e{exponent:+03d}"
    return sign + body


def _digits(value: float) -> tuple[str, str, int]:
    parts = Decimal(repr(value)).as_tuple()
    digits = "".join(map(str, parts.digits))
    stripped = digits.rstrip("0") or "0"
    scale = int(parts.exponent) + len(digits) - len(stripped)
    return ("-" if parts.sign else ""), stripped, (0 if stripped == "0" else scale)


def to_json(value: Any) -> str:
    """json.Marshal: keys sorted, no spaces, `<`, `>` and `&` escaped, integral floats without a point."""
    # All pieces are joined once at the end: joining them at each level would copy the text of deep levels again and again.
    pieces: list[str] = []
    _put_json(value, pieces)
    return "".join(pieces)


def _put_json(value: Any, pieces: list[str]) -> None:
    if isinstance(value, dict):
        pieces.append("{")
        for index, key in enumerate(sorted(value)):
            pieces.append(f",{_json_string(key)}:" if index else f"{_json_string(key)}:")
            _put_json(value[key], pieces)
        pieces.append("}")
    elif isinstance(value, list | tuple):
        pieces.append("[")
        for index, item in enumerate(value):
            if index:
                pieces.append(",")
            _put_json(item, pieces)
        pieces.append("]")
    elif isinstance(value, str):
        pieces.append(_json_string(value))
    elif type(value) is int:
        pieces.append(str(value))
    elif isinstance(value, float):
        # As in ECMAScript: with an exponent below 1e-6 and from 1e21 on; a negative exponent has no leading zero.
        pieces.append(_shortest(value, -6, 21).replace("e-0", "e-"))
    else:
        pieces.append(json.dumps(value))


def struct_to_json(value: Any) -> str:
    """json.Marshal of structs: as `to_json`, but keys stay in their order. value: without floats."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(_HTML)


# Escaped so that the text is safe inside HTML and JavaScript.
_HTML = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def _json_string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).translate(_HTML)
