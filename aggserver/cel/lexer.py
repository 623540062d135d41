"""The tokens of CEL, and the values of its literals.

Text that is no token is not an error here: it becomes a BAD token, so that the parser reports problems in the order of the
source.
Source: cel-go parser/gen/CEL.g4 and parser/unescape.go, v0.26.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

__all__ = [
    "BAD",
    "BYTES",
    "END",
    "FLOAT",
    "IDENTIFIER",
    "INT",
    "QUOTED",
    "STRING",
    "UINT",
    "Token",
    "tokens",
    "unescape",
    "unescape_bytes",
]

# Names of token kinds, as ANTLR's errors list what is expected. The kind of an operator or keyword is its text.
FLOAT = "NUM_FLOAT"
INT = "NUM_INT"
UINT = "NUM_UINT"
STRING = "STRING"
BYTES = "BYTES"
IDENTIFIER = "IDENTIFIER"
QUOTED = "ESC_IDENTIFIER"
END = "<EOF>"
BAD = "BAD"

_KEYWORDS = frozenset({"in", "true", "false", "null"})

_ESCAPE = r"""\\(?:[abfnrtv"'\\?`]|[0-3][0-7][0-7]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"""
# Triple quotes first: they are longer than the empty string that they start with.
_QUOTED_TEXT = "|".join(
    (
        rf'"""(?:{_ESCAPE}|[^\\])*?"""',
        rf"'''(?:{_ESCAPE}|[^\\])*?'''",
        rf'"(?:{_ESCAPE}|[^\\"\n\r])*"',
        rf"'(?:{_ESCAPE}|[^\\'\n\r])*'",
        r'[rR]"""(?:.|\n)*?"""',
        r"[rR]'''(?:.|\n)*?'''",
        r'[rR]"[^"\n\r]*"',
        r"[rR]'[^'\n\r]*'",
    )
)
_TOKEN = re.compile(
    rf"""
    (?P<space>(?:[\t\ \r\n\f]+|//[^\n]*)+)
    |(?P<{FLOAT}>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    |(?P<{UINT}>0x[0-9a-fA-F]+[uU]|[0-9]+[uU])
    |(?P<{INT}>0x[0-9a-fA-F]+|[0-9]+)
    |(?P<{STRING}>{_QUOTED_TEXT})
    |(?P<{BYTES}>[bB](?:{_QUOTED_TEXT}))
    |(?P<{IDENTIFIER}>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<{QUOTED}>`[A-Za-z0-9_.\-/\ ]+`)
    |(?P<operator>==|!=|<=|>=|&&|\|\||[<>\[\]{{}}().,\-!?:+*/%])
    # What a token could begin with, and the character at which it ends to be one.
    |(?P<{BAD}>(?:"(?:{_ESCAPE}|[^\\"\n\r])*|'(?:{_ESCAPE}|[^\\'\n\r])*)
        (?:\\(?:[0-3][0-7]?|[xX][0-9a-fA-F]?|u[0-9a-fA-F]{{0,3}}|U[0-9a-fA-F]{{0,7}})?)?[\s\S]?
        |`[A-Za-z0-9_.\-/\ ]*[\s\S]?|[=&|][\s\S]?|[\s\S])
    """,
    re.VERBOSE,
)


class Token(NamedTuple):
    kind: str
    text: str
    offset: int
    """The place of its first character in the source, in code points."""


def tokens(source: str) -> Iterator[Token]:
    """The tokens, without white space and comments; the last one is END."""
    for match in _TOKEN.finditer(source):
        kind = match.lastgroup
        if kind == "space" or kind is None:
            continue
        text = match.group()
        if kind == "operator" or text in _KEYWORDS:
            kind = text
        yield Token(kind, text, match.start())
    yield Token(END, END, len(source))


_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPED = re.compile(_ESCAPE)


def unescape(text: str) -> str:
    """The value of a string token.

    Raises:
        ValueError: with cel-go's message.
    """
    body, raw = _body(text)
    return body if raw or "\\" not in body else _ESCAPED.sub(_character, body)


def unescape_bytes(text: str) -> bytes:
    """The value of a bytes token: characters become UTF-8, octal and hexadecimal escapes are bytes.

    Raises:
        ValueError: with cel-go's message.
    """
    body, raw = _body(text[1:])
    if raw or "\\" not in body:
        return body.encode()
    parts: list[bytes] = []
    end = 0
    for match in _ESCAPED.finditer(body):
        parts.append(body[end : match.start()].encode())
        sign = match.group()[1]
        if sign in "uU":
            raise ValueError("unable to unescape string")
        parts.append(bytes([_number(match.group())]) if sign in "xX0123" else _character(match).encode())
        end = match.end()
    parts.append(body[end:].encode())
    return b"".join(parts)


def _body(text: str) -> tuple[str, bool]:
    """The text between the quotes with line ends as line feeds, and whether it is raw (has no escapes)."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    raw = text[0] in "rR"
    if raw:
        text = text[1:]
    quotes = 3 if len(text) >= 6 and text[:3] in ('"""', "'''") else 1
    return text[quotes:-quotes], raw


def _character(match: re.Match[str]) -> str:
    sign = match.group()[1]
    if sign not in "xXuU0123":
        return _SIMPLE.get(sign, sign)
    number = _number(match.group())
    if number > 0x10FFFF or 0xD800 <= number < 0xE000:
        raise ValueError("invalid unicode code point")
    return chr(number)


def _number(escape: str) -> int:
    return int(escape[2:], 16) if escape[1] in "xXuU" else int(escape[1:], 8)
