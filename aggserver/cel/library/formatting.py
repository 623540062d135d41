"""`"%s: %d".format([...])`: the verbs s, d, f, e, b, x, X and o.

Upstream writes f and e with golang.org/x/text for en_US: thousands are grouped, the exponent is a superscript. The digits after
`%.` are the precision of f and, by a mistake of cel-go, the width of e.
Source: cel-go ext/formatting.go, v0.26.0 (version 2 of the strings library).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from aggserver.cel import conversions
from aggserver.cel.extent import extent
from aggserver.cel.operators import LARGEST_RESULT
from aggserver.cel.values import CostExceeded, Duration, EvaluationError, Timestamp, TypeValue, Uint, type_name
from aggserver.meta.golang import format_float, quote

__all__ = ["format_string"]

_DEFAULT_PRECISION = 6
# In digits. Upstream has no limit and charges nothing for them; here the cost limit counts as exceeded.
_LARGEST_PRECISION = 1000
_PRECISION = re.compile(r"\.([0-9]*)", re.ASCII)
_SUPERSCRIPT = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_SPECIAL = ("NaN", "Infinity", "-Infinity")


def format_string(pattern: str, arguments: list[Any]) -> str:
    """Raises EvaluationError with cel-go's message."""
    written: list[str] = []
    position = taken = size = 0
    while True:
        percent = pattern.find("%", position)
        if percent < 0:
            return "".join([*written, pattern[position:]])
        written.append(pattern[position:percent])
        if pattern.startswith("%%", percent):
            written.append("%")
            position = percent + 2
            continue
        if taken >= len(arguments):
            raise EvaluationError(f"index {taken} out of range")
        if percent + 1 == len(pattern):
            raise EvaluationError("unexpected end of string")
        verb, precision, position = _clause(pattern, percent + 1)
        if extent(arguments[taken], LARGEST_RESULT - size).bytes > LARGEST_RESULT - size:
            raise CostExceeded
        try:
            written.append(verb(arguments[taken], precision))
        except _Unfit as error:
            raise EvaluationError(f"error during formatting: {error}") from None
        size += len(written[-1])
        taken += 1


class _Unfit(Exception):
    """The verb does not accept an argument of this type."""


def _clause(pattern: str, position: int) -> tuple[Callable[[Any, int | None], str], int | None, int]:
    """The verb's formatting function, its precision, and the position after it."""
    precision: int | None = None
    digits = _PRECISION.match(pattern, position)
    if digits is not None:
        position = digits.end()
        if position == len(pattern):
            raise _unparsed("error while parsing precision: could not find end of precision specifier")
        if not digits[1]:
            why = 'error while converting precision to integer: strconv.Atoi: parsing "": invalid syntax'
            raise _unparsed(f"error while parsing precision: {why}")
        precision = int(digits[1][:9])
        if precision > _LARGEST_PRECISION:
            raise CostExceeded
    verb = _VERBS.get(pattern[position])
    if verb is None:
        first_byte = chr(pattern[position].encode("utf-8", "surrogatepass")[0])
        raise _unparsed(f'unrecognized formatting clause "{first_byte}"')
    return verb, precision, position + 1


def _unparsed(why: str) -> EvaluationError:
    return EvaluationError(f"could not parse formatting clause: {why}")


def _string(value: Any, precision: int | None = None) -> str:
    del precision
    match value:
        case list():
            return _list(value)
        case dict():
            return _map(value)
        case None:
            return "null"
        case TypeValue():
            return value.name
        case str():
            return value
        case bool() | int() | float() | bytes() | Timestamp() | Duration():
            try:
                return conversions.to_string(value)
            except EvaluationError as error:
                raise _Unfit(f'could not convert argument "{error}" to string') from None
    raise _Unfit(
        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, "
        f"was given {type_name(value)}"
    )


def _list(value: list[Any]) -> str:
    return f"[{', '.join(map(_element, value))}]"


def _map(value: dict[Any, Any]) -> str:
    pairs = []
    for key, item in value.items():
        if not isinstance(key, str | bool | int):
            raise _Unfit(f"no formatting function for map key of type {type_name(key)}")
        pairs.append((_element(key), _element(item)))
    return "{" + ", ".join(f"{key}:{item}" for key, item in sorted(pairs, key=lambda pair: pair[0])) + "}"


def _element(value: Any) -> str:
    """An element of a list or map: strings are quoted, doubles have six digits."""
    match value:
        case str():
            return quote(value)
        case bytes():
            return f"b{quote(_string(value))}"
        case Timestamp():
            return f"timestamp({quote(_string(value))})"
        case Duration():
            return f"duration({quote(_string(value))})"
        case float():
            return f"{value:.{_DEFAULT_PRECISION}f}" if math.isfinite(value) else quote(format_float(value))
        case None | bool() | int() | list() | dict() | TypeValue():
            return _string(value)
    raise _Unfit(f"no formatting function for {type_name(value)}")


def _decimal(value: Any, precision: int | None) -> str:
    del precision
    if type(value) not in (int, Uint):
        raise _Unfit(f"decimal clause can only be used on integers, was given {type_name(value)}")
    return str(int(value))


def _double(value: Any, clause: str) -> float:
    if isinstance(value, float):
        return value
    if value in _SPECIAL and isinstance(value, str):
        return float(value)
    raise _Unfit(f"{clause} clause can only be used on doubles, was given {type_name(value)}")


def _infinite(value: float) -> str:
    return "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"


def _fixed(value: Any, precision: int | None) -> str:
    number = _double(value, "fixed-point")
    if not math.isfinite(number):
        return _infinite(number)
    return f"{number:,.{_DEFAULT_PRECISION if precision is None else precision}f}"


def _scientific(value: Any, width: int | None) -> str:
    number = _double(value, "scientific")
    if math.isfinite(number):
        mantissa, _, exponent = f"{number:.{_DEFAULT_PRECISION}e}".partition("e")
        text = f"{mantissa}\u00d710{exponent.removeprefix('+').translate(_SUPERSCRIPT)}"
    else:
        text = _infinite(number)
    return text.rjust(_DEFAULT_PRECISION if width is None else width)


def _binary(value: Any, precision: int | None) -> str:
    del precision
    if type(value) not in (int, Uint, bool):
        raise _Unfit(f"only integers and bools can be formatted as binary, was given {type_name(value)}")
    return f"{int(value):b}"


def _octal(value: Any, precision: int | None) -> str:
    del precision
    if type(value) not in (int, Uint):
        raise _Unfit(f"octal clause can only be used on integers, was given {type_name(value)}")
    return f"{int(value):o}"


def _hex(value: Any, precision: int | None) -> str:
    del precision
    match value:
        case str():
            return value.encode("utf-8", "surrogatepass").hex()
        case bytes():
            return value.hex()
        case int() if not isinstance(value, bool):
            return f"{int(value):x}"
    raise _Unfit(f"only integers, byte buffers, and strings can be formatted as hex, was given {type_name(value)}")


_VERBS: dict[str, Callable[[Any, int | None], str]] = {
    "s": _string,
    "d": _decimal,
    "f": _fixed,
    "e": _scientific,
    "b": _binary,
    "o": _octal,
    "x": _hex,
    "X": lambda value, precision: _hex(value, precision).upper(),
}
