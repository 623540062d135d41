"""Regular expressions in Go's syntax, matched in time linear in the text.

Patterns of definitions and rules are Go's: RE2, the same grammar and the same meaning, and no pattern can be made to run for
minutes. Python's `re` differs in both. The one door to google-re2. Called by `schema/` and by whoever checks a pattern that a
user has written. Pure.
Source: Go's regexp/syntax, 1.26; the words of errors are Go's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import re2

__all__ = ["PatternError", "finder", "matcher"]

# Compiled patterns that are remembered, of which a large set of definitions has some hundred that differ; and outcomes.
_REMEMBERED = 4096
# Characters of a text whose outcome is remembered.
_SHORT = 64

# RE2's words for what is wrong -> Go's.
_GO_WORDS = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}
# The bytes of a character after its first.
_CONTINUATION = frozenset(bytes([byte]) for byte in range(0x80, 0xC0))
# Matches a single byte, which Go never had.
_ANY_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\C")


class PatternError(ValueError):
    """The pattern is none. `str()` is what Go's `regexp.Compile` says of it."""


@lru_cache(maxsize=_REMEMBERED)
def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a text has a match anywhere, as a function. Raises PatternError."""
    search = _compiled(pattern).search

    def matches(text: str) -> bool:
        return _found(search, text) if len(text) <= _SHORT else search(text.encode()) is not None

    return matches


@lru_cache(maxsize=_REMEMBERED)
def finder(pattern: str) -> Callable[[str, int], list[str]]:
    """The matches in a text, one after the other; at most so many, or all if negative. Raises PatternError."""
    expression = _compiled(pattern)

    def find(text: str, count: int) -> list[str]:
        encoded = text.encode()
        found: list[str] = []
        end = -1
        for match in expression.finditer(encoded) if count else ():
            start = match.start()
            # As Go: nothing is found right behind a match, nor within a character.
            if start == match.end() and (start == end or encoded[start : start + 1] in _CONTINUATION):
                continue
            end = match.end()
            found.append(encoded[start:end].decode())
            if len(found) == count:
                break
        return found

    return find


def _compiled(pattern: str) -> Any:
    if _ANY_BYTE.search(pattern):
        raise PatternError("error parsing regexp: invalid escape sequence: `\\C`")
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    try:
        # Of bytes, since the library would count the characters before every match.
        return re2.compile(pattern.encode(), options)
    except re2.error as error:
        raise PatternError(_in_go_words(error)) from None


@lru_cache(maxsize=_REMEMBERED)
def _found(search: Callable[[bytes], object], text: str) -> bool:
    """The same short texts come again and again: kinds, hosts, names of what is referred to."""
    return search(text.encode()) is not None


def _in_go_words(error: Exception) -> str:
    said = error.args[0]
    words, _, expression = (said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)).partition(": ")
    if words.startswith("pattern too large"):
        return f"error parsing regexp: expression too large: `{expression}`"
    return f"error parsing regexp: {_GO_WORDS.get(words, words)}: `{expression}`"
