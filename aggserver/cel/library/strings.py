"""Functions of strings: substring, indexOf, join, replace, quote and others. `format` is in `formatting.py`.

Source: cel-go ext/strings.go, version 2 of the library, v0.26.0.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping
from typing import Any

from aggserver.cel.library.formatting import format_string
from aggserver.cel.operators import LARGEST_RESULT
from aggserver.cel.values import CostExceeded, EvaluationError, show

__all__ = ["IMPLEMENTATIONS"]

_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_UPPER = str.maketrans(string.ascii_lowercase, string.ascii_uppercase)
# The spaces of Go's unicode.IsSpace; Python's strip() removes four more control characters.
_SPACES = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)
_ESCAPES = str.maketrans(
    {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v", "\\": r"\\", '"': r"\""}
)


def _out_of_range(position: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {position}")


def _char_at(text: str, position: int) -> str:
    if not 0 <= position <= len(text):
        raise _out_of_range(position)
    return text[position : position + 1]


def _index_of(text: str, part: str, offset: int = 0) -> int:
    if not part:
        return offset
    if offset < 0:
        raise _out_of_range(offset)
    return text.find(part, offset)


def _last_index_of(text: str, part: str) -> int:
    """Searches the reversed strings, since Python's rfind() can take time proportional to the product of both lengths."""
    place = text[::-1].find(part[::-1])
    return place if place < 0 else len(text) - place - len(part)


def _last_index_of_offset(text: str, part: str, offset: int) -> int:
    if not part:
        return offset
    if offset < 0:
        raise _out_of_range(offset)
    return _last_index_of(text[: offset + len(part)], part) if offset < len(text) else -1


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    if len(text) + len(new) * text.count(old) > LARGEST_RESULT:
        raise CostExceeded
    return text.replace(old, new, max(count, -1))


def _split(text: str, separator: str, count: int = -1) -> list[str]:
    """Go's SplitN: at most `count` pieces, or all if `count` is negative."""
    if count == 0:
        return []
    if separator:
        return text.split(separator, count - 1 if count > 0 else -1)
    if 0 < count < len(text):
        return [*text[: count - 1], text[count - 1 :]]
    return list(text)


def _substring(text: str, start: int) -> str:
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    return text[start:]


def _substring_range(text: str, start: int, end: int) -> str:
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    if end > len(text):
        raise _out_of_range(end)
    return text[start:end]


def _join(parts: list[Any], separator: str = "") -> str:
    for part in parts:
        if not isinstance(part, str):
            raise EvaluationError(f"join: invalid input: {show(part)}")
    return separator.join(parts)


def _quote(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


IMPLEMENTATIONS: Mapping[str, Callable[..., Any]] = {
    "string_char_at_int": _char_at,
    "string_format": format_string,
    "string_index_of_string": _index_of,
    "string_index_of_string_int": _index_of,
    "list_join": _join,
    "list_join_string": _join,
    "string_last_index_of_string": _last_index_of,
    "string_last_index_of_string_int": _last_index_of_offset,
    "string_lower_ascii": lambda text: text.translate(_LOWER),
    "string_replace_string_string": _replace,
    "string_replace_string_string_int": _replace,
    "string_split_string": _split,
    "string_split_string_int": _split,
    "strings_quote": _quote,
    "string_substring_int": _substring,
    "string_substring_int_int": _substring_range,
    "string_trim": lambda text: text.strip(_SPACES),
    "string_upper_ascii": lambda text: text.translate(_UPPER),
}
