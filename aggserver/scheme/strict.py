"""Strict decoding: finds unknown and duplicate fields in the JSON text of a Go type, in the text's order.

It reads the text itself, since a decoded value does not have the first value of a repeated key. It is called only if the text has
such a field, or may have one. Nothing is reported from inside an unknown field, or from values that a type reads itself: the
schemas in `items` and `additionalProperties` of a definition, its defaults, managed fields, extensions.
Pure. Source: sigs.k8s.io/json internal/golang/encoding/json (decode.go, kubernetes_patch.go), as of k8s v0.36.3.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress

from aggserver.meta.golang import quote
from aggserver.meta.json_text import MAX_STRICT_CHARACTERS, MAX_STRICT_ERRORS
from aggserver.scheme.types import Type

__all__ = ["ANY", "complaints"]

# An `any` in Go: it can have duplicate fields, but no unknown ones. (A `json` is read by its own type, which reports neither.)
ANY = Type("interface {}", "any")

_SPACE = re.compile(r"[ \t\r\n]*")


def complaints(text: bytes, of: Type) -> list[str]:
    """The errors, `unknown field "spec.foo"` and `duplicate field "spec.bar"`, each once, up to a limit.

    text: well-formed JSON, in which `decode_error` has found nothing. Takes some 0.3 s for a MB. It does not hold the GIL all the
    time, so it can run in a thread; it must not run in an event loop.
    """
    walk = _Walk(text.decode("utf-8", "replace"))
    with suppress(_EnoughError):
        walk.value(walk.after_space(0), of)
    return list(walk.problems)


class _EnoughError(Exception):
    """The limit of errors is reached."""


class _Walk:
    """Walks through the text. Methods take the position of a value, and return the one behind it. `_above`: the value's path."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._read = json.JSONDecoder(strict=False, parse_int=_nothing, parse_float=_nothing).raw_decode
        self._above: list[str] = []
        self._room = MAX_STRICT_CHARACTERS
        self.problems: dict[str, None] = {}

    def after_space(self, at: int) -> int:
        match = _SPACE.match(self._text, at)
        assert match is not None  # it also matches an empty text
        return match.end()

    def value(self, at: int, of: Type) -> int:
        first = self._text[at]
        if first == "{" and of.kind in ("struct", "map", "any"):
            return self._members(at, of)
        if first == "[" and of.kind in ("list", "any"):
            return self._items(at, of)
        end: int = self._read(self._text, at)[1]
        return end

    def _members(self, at: int, of: Type) -> int:
        element = of.element or ANY  # of a map; a struct has types of its own
        is_struct = of.kind == "struct"
        seen: set[str] = set()
        at = self.after_space(at + 1)
        while self._text[at] != "}":
            key, at = self._key(at)
            member = of.members.get(key) if is_struct else None
            if is_struct and member is None:
                self._add_problem("unknown", key)
                at = self._read(self._text, at)[1]
            else:
                if key in seen:
                    self._add_problem("duplicate", key)
                seen.add(key)
                self._above.append(f".{key}" if self._above else key)
                at = self.value(at, element if member is None else member.type)
                self._above.pop()
            at = self._next(at)
        return at + 1

    def _items(self, at: int, of: Type) -> int:
        index, element = 0, of.element or ANY
        at = self.after_space(at + 1)
        while self._text[at] != "]":
            self._above.append(f"[{index}]")
            at = self._next(self.value(at, element))
            self._above.pop()
            index += 1
        return at + 1

    def _key(self, at: int) -> tuple[str, int]:
        """A key, and the position of its value."""
        key, at = self._read(self._text, at)
        return key, self.after_space(self.after_space(at) + 1)

    def _next(self, at: int) -> int:
        """The position of the next member or item, or of the closing bracket, after white space."""
        at = self.after_space(at)
        return self.after_space(at + 1) if self._text[at] == "," else at

    def _add_problem(self, what: str, key: str) -> None:
        path = "".join([*self._above, f".{key}" if self._above else key])
        self.problems[f"{what} field {quote(path)}"] = None
        self._room -= len(path)
        if len(self.problems) == MAX_STRICT_ERRORS or self._room <= 0:
            raise _EnoughError


def _nothing(_: str) -> None:
    """Replaces every number, since numbers are not needed."""
