"""Gnostic's Any: a JSON value as YAML text, in the style of the library that kube-apiserver uses.

OpenAPI's protobuf has no fields for vendor extensions, enums and examples, so it has them as texts, which clients compare. Their
style: block style, lists indented below their key, four spaces for each level, lines of any length, quotes only if a plain text
would be read as another type. (`meta/yaml_output.py` has the style of response bodies.)
Pure. Source: go.yaml.in/yaml/v3 v3.0.4 {encode,emitterc,resolve,yamlprivateh}.go.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import cache
from typing import Any

from aggserver.meta.golang import to_json

__all__ = ["encode"]

_INDENT = 4

# Unquoted texts of these forms would be read as null, a boolean, a number or a time.
_WORDS = frozenset(
    {"", "~", "null", "Null", "NULL", "true", "True", "TRUE", "false", "False", "FALSE"}
    | {f"{sign}.{name}" for sign in ("", "+", "-") for name in ("inf", "Inf", "INF")}
    | {".nan", ".NaN", ".NAN"}
)
_NUMBER = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?0[xX][0-9a-fA-F]{1,16}|[-+]?0[bB][01]{1,64}|[-+]?0[oO][0-7]{1,22}"
)
_TIME = re.compile(
    r"(\d{4}-\d{1,2}-\d{1,2})(?:[Tt](\d{1,2}:\d{1,2}:\d{1,2})(?:\.\d+)?(?:Z|[-+]\d\d:\d\d)| (\d{1,2}:\d{1,2}:\d{1,2})(?:\.\d+)?)?"
)

# A text needs quotes if it starts with one of these, or matches the pattern.
_INDICATORS = frozenset("#,[]{}&*!|>'\"%@`")
_NOT_PLAIN = re.compile(r"\A(?:---|\.\.\.|[-?:](?:[ \t]|\Z)|[ \n])|:(?:[ \t\n]|\Z)|[ \t\n]#|[ \n]\Z|\n")
# Line breaks other than "\n", and characters that count as not printable, among them all beyond 16 bits. Compiled for the
# first text, since that takes milliseconds of a start.
_special = cache(lambda: re.compile("[^\n\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd]|[\u2028\u2029]"))
_ESCAPES = {
    "\0": "0", "\a": "a", "\b": "b", "\t": "t", "\n": "n", "\v": "v", "\f": "f", "\r": "r", "\x1b": "e",
    '"': '"', "\\": "\\", "\x85": "N", "\u2028": "L", "\u2029": "P",
}  # fmt: skip
_escaped = cache(lambda: re.compile(f'["\\\\\n]|{_special().pattern}'))


def encode(value: Any) -> str:
    """The YAML text, with a line break at the end."""
    if isinstance(value, dict | list) and value:
        return "\n".join(_lines(value, 0)) + "\n"
    return _scalar(value, _INDENT) + "\n"


def _lines(value: Any, indent: int) -> list[str]:
    """The lines of a list or object that is not empty, indented by `indent`."""
    lines: list[str] = []
    if isinstance(value, list):
        for item in value:
            lines += _behind(f"{' ' * indent}-", item, indent + 2, same_line=True)
    else:
        deeper = _INDENT * ((indent + _INDENT) // _INDENT)
        for key, member in value.items():
            lines += _behind(f"{' ' * indent}{_key(key)}:", member, deeper, same_line=False)
    return lines


def _behind(head: str, value: Any, indent: int, *, same_line: bool) -> list[str]:
    if not isinstance(value, dict | list) or not value:
        return [f"{head} {_scalar(value, indent)}"]
    inner = _lines(value, indent)
    return [f"{head} {inner[0][indent:]}", *inner[1:]] if same_line else [head, *inner]


def _key(text: str) -> str:
    return _quoted(text) if "\n" in text else _text(text)


def _scalar(value: Any, indent: int) -> str:
    """The text of a scalar. indent: the spaces before each line, if it has several."""
    if not isinstance(value, str):
        return to_json(value)
    return _literal(value, indent) if "\n" in value else _text(value)


def _text(text: str) -> str:
    if _reads_as_another_type(text) or "\t" in text or _special().search(text):
        return _quoted(text)
    if text[0] in _INDICATORS or _NOT_PLAIN.search(text):
        return "'" + text.replace("'", "''") + "'"
    return text


def _reads_as_another_type(text: str) -> bool:
    if text in _WORDS:
        return True
    if text[0] not in "+-.0123456789":
        return False
    plain = text if text[0] == "." else text.replace("_", "")
    return _NUMBER.fullmatch(plain) is not None or _is_time(text)


def _is_time(text: str) -> bool:
    found = _TIME.fullmatch(text)
    if found is None:
        return False
    try:
        year, month, day, hour, minute, second = map(int, re.split("[-:]", f"{found[1]}-{found[2] or found[3] or '0:0:0'}"))
        datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return False
    return True


def _quoted(text: str) -> str:
    return f'"{_escaped().sub(_escape, text)}"'


def _escape(found: re.Match[str]) -> str:
    char = found[0]
    if char in _ESCAPES:
        return "\\" + _ESCAPES[char]
    code = ord(char)
    return f"\\x{code:02X}" if code <= 0xFF else f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"


def _literal(text: str, indent: int) -> str:
    if text.endswith(" ") or " \n" in text or _special().search(text.replace("\t", "")):
        return _quoted(text)
    hint = str(_INDENT) if text[0] in " \n" else ""
    chomp = "-" if not text.endswith("\n") else "+" if text == "\n" or text.endswith("\n\n") else ""
    lines = text.removesuffix("\n").split("\n")
    return "\n".join([f"|{hint}{chomp}", *(" " * indent + line if line else "" for line in lines)])
