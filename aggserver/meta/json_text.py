"""Go's error for a text that is no JSON, and the repeated keys of a JSON text: the fast decoder reports neither.

Both are needed only for malformed or unusual texts, and both read the text itself, not the decoded value.
Pure. Source: sigs.k8s.io/json internal/golang/encoding/json (scanner.go, decode.go,
kubernetes_patch.go), as of k8s v0.36.3.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn, TypeAlias

from aggserver.meta.golang import quote

__all__ = ["MAX_DEPTH", "MAX_STRICT_CHARACTERS", "MAX_STRICT_ERRORS", "duplicate_fields", "syntax_error"]

# Levels of nesting. The encoder's limit is 254; upstream allows 10,000, which no schema and no client needs.
MAX_DEPTH = 250
TOO_DEEP = "exceeded max depth"

# The most duplicates reported for one text, as in upstream's decoder.
MAX_STRICT_ERRORS = 100
# The most characters in all reported duplicates together, on average some thousands for each. Upstream has no limit, and makes
# hundreds of megabytes of a long key above many duplicates.
MAX_STRICT_CHARACTERS = 256 * 1024
# Places of duplicates that are kept until their paths are known. More than are reported, since a path may occur several times.
_MAX_PLACES = 10_000

_END = "unexpected end of JSON input"
_SPACE = re.compile(rb"[ \t\r\n]*")
# The longest valid start of a string or number; an error is at the character after it.
_STRING = re.compile(rb'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*')
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_HEX = re.compile(rb"u[0-9a-fA-F]{0,3}")
_LITERALS = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}


class _MalformedError(Exception):
    """Ends the scan; its text is the error."""


def syntax_error(body: bytes) -> str:
    """Go's syntax error for `body`, or '' if it is well-formed and not nested too deeply.

    It takes about half a microsecond for each token, so the caller must limit the size of `body`.
    """
    try:
        _scan(body)
    except _MalformedError as error:
        return str(error)
    return ""


def _scan(body: bytes) -> None:
    stack: list[int] = []  # the open brackets
    position = _value(body, _skip(body, 0), stack)
    while True:
        position = _skip(body, position)
        if not stack:
            if position < len(body):
                _fail(body, position, "after top-level value")
            return
        char = body[position : position + 1]
        in_object = stack[-1] == ord("{")
        if char == b",":
            position = _skip(body, position + 1)
            position = _value(body, _key(body, position) if in_object else position, stack)
        elif char == (b"}" if in_object else b"]"):
            stack.pop()
            position += 1
        else:
            _fail(body, position, "after object key:value pair" if in_object else "after array element")


def _value(body: bytes, position: int, stack: list[int]) -> int:
    """Read a scalar, or open containers down to the first scalar, end or next member. Returns the position after that."""
    while True:
        char = body[position] if position < len(body) else 0
        if char not in b"{[" or not char:
            return _scalar(body, position, char)
        stack.append(char)
        if len(stack) > MAX_DEPTH:
            raise _MalformedError(TOO_DEEP)
        position = _skip(body, position + 1)
        if body[position : position + 1] == (b"}" if char == ord("{") else b"]"):
            stack.pop()
            return position + 1
        if char == ord("{"):
            position = _key(body, position)


def _key(body: bytes, position: int) -> int:
    if body[position : position + 1] != b'"':
        _fail(body, position, "looking for beginning of object key string")
    position = _skip(body, _string(body, position))
    if body[position : position + 1] != b":":
        _fail(body, position, "after object key")
    return _skip(body, position + 1)


def _scalar(body: bytes, position: int, char: int) -> int:
    if char == ord('"'):
        return _string(body, position)
    if char in b"-0123456789" and char:
        return _number(body, position)
    literal = _LITERALS.get(char)
    if literal is None:
        _fail(body, position, "looking for beginning of value")
    for offset, wanted in enumerate(literal):
        if body[position + offset : position + offset + 1] != bytes([wanted]):
            _fail(body, position + offset, f"in literal {literal.decode()} (expecting '{chr(wanted)}')", inside=True)
    return position + len(literal)


def _string(body: bytes, position: int) -> int:
    match = _STRING.match(body, position)
    assert match is not None  # the caller has checked the quote
    end = match.end()
    char = body[end : end + 1]
    if char == b'"':
        return end + 1
    if char != b"\\":
        _fail(body, end, "in string literal")
    digits = _HEX.match(body, end + 1)
    if digits is None:
        _fail(body, end + 1, "in string escape code", inside=True)
    raise _malformed(body, digits.end(), "in \\u hexadecimal character escape", inside=True)


def _number(body: bytes, position: int) -> int:
    match = _NUMBER.match(body, position)
    if match is None:
        _fail(body, position + 1, "in numeric literal", inside=True)
    end = match.end()
    rest = body[end : end + 2]
    text = match.group()
    if rest[:1] == b"." and b"." not in text and b"e" not in text.lower():
        _fail(body, end + 1, "after decimal point in numeric literal", inside=True)
    if rest[:1] in (b"e", b"E") and b"e" not in text.lower():
        _fail(body, end + (2 if rest[1:] in (b"+", b"-") else 1), "in exponent of numeric literal", inside=True)
    return end


def _skip(body: bytes, position: int) -> int:
    match = _SPACE.match(body, position)
    assert match is not None  # it also matches an empty text
    return match.end()


def _fail(body: bytes, position: int, where: str, *, inside: bool = False) -> NoReturn:
    raise _malformed(body, position, where, inside=inside)


def _malformed(body: bytes, position: int, where: str, *, inside: bool) -> _MalformedError:
    """The error at a position. inside: within a token, where Go's scanner treats the end of the text as a space."""
    if position >= len(body):
        return _MalformedError(f"invalid character ' ' {where}" if inside else _END)
    return _MalformedError(f"invalid character {_quote_byte(body[position])} {where}")


def _quote_byte(byte: int) -> str:
    char = chr(byte)
    if char == "'":
        return r"'\''"
    if char == '"':
        return "'\"'"
    return f"'{quote(char)[1:-1]}'"


class _Object:
    """An object with repeated keys: (key, None) for each of its own, (key, place) for each member that contains some."""

    __slots__ = ("places",)

    def __init__(self, places: list[tuple[str, _Place | None]]) -> None:
        self.places = places


# An array with repeated keys: (index, place) for each item that contains some.
_Array: TypeAlias = "list[tuple[int, _Place]]"
_Place: TypeAlias = "_Object | _Array"


class _Search:
    """Finds the places of repeated keys in a text. Nothing else of its objects is kept, and paths are made at the end only.

    Made at once, the path of each place would repeat the keys above it, which may be long.
    """

    def __init__(self, text: str) -> None:
        self._room = _MAX_PLACES
        # Python's decoder lets other threads run only in its calls of these functions.
        root = json.loads(text, object_pairs_hook=self._object, parse_int=_nothing, parse_float=_nothing)
        self.root = self._place(root)

    def _object(self, pairs: list[tuple[str, Any]]) -> _Object | None:
        seen: set[str] = {key for key, _ in pairs}
        if len(seen) == len(pairs) and self._room == _MAX_PLACES:
            return None
        places: list[tuple[str, _Place | None]] = []
        seen = set()
        reported: set[str] = set()
        for key, member in pairs:
            if key in seen and key not in reported and self._room > 0:
                reported.add(key)
                places.append((key, None))
                self._room -= 1
            seen.add(key)
            if (inside := self._place(member)) is not None:
                places.append((key, inside))
        return _Object(places) if places else None

    def _place(self, value: Any) -> _Place | None:
        if isinstance(value, _Object):
            return value
        if not isinstance(value, list) or self._room == _MAX_PLACES:
            return None
        places = [(index, inside) for index, item in enumerate(value) if (inside := self._place(item)) is not None]
        return places or None


def _nothing(_: str) -> None:
    """Takes the place of a number, whose value does not matter."""


def duplicate_fields(body: bytes) -> list[str]:
    """`duplicate field "spec.foo"` for each repeated key of a well-formed text: each once, in order, up to a limit."""
    root = _Search(body.decode("utf-8", "replace")).root
    found: dict[str, None] = {}
    room = MAX_STRICT_CHARACTERS
    for path in () if root is None else _paths(root, []):
        found[path] = None
        room -= len(path)
        if len(found) == MAX_STRICT_ERRORS or room <= 0:
            break
    return [f"duplicate field {quote(path)}" for path in found]


def _paths(place: _Place, above: list[str]) -> Iterator[str]:
    if isinstance(place, _Object):
        for key, inside in place.places:
            above.append(f".{key}" if above else key)
            if inside is None:
                yield "".join(above)
            else:
                yield from _paths(inside, above)
            above.pop()
    else:
        for index, item in place:
            above.append(f"[{index}]")
            yield from _paths(item, above)
            above.pop()
