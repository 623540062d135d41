"""Regular expressions in Go's syntax, matched in time linear in the text.

Patterns in definitions and rules are Go's. RE2 has the same syntax and meaning, and no pattern can take minutes to match;
Python's `re` differs in both. This is the only module that imports google-re2. Pure.
Source: Go's regexp/syntax, 1.26, also for error texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import re2

__all__ = ["PatternError", "finder", "matcher"]

# The number of cached patterns (a large set of definitions has some hundred different ones), and of cached results.
_CACHE_SIZE = 4096
# Results are cached for texts of at most this many characters.
_SHORT = 64

# RE2's error -> Go's.
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
# The bytes of a UTF-8 character after its first.
_CONTINUATION = frozenset(bytes([byte]) for byte in range(0x80, 0xC0))
# RE2's escape for a single byte, which Go does not have.
_ANY_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\C")


class PatternError(ValueError):
    """The pattern is invalid. `str()` is the error of Go's `regexp.Compile`."""


@lru_cache(maxsize=_CACHE_SIZE)
def matcher(pattern: str) -> Callable[[str], bool]:
    """A function that returns whether a text has a match anywhere. Raises PatternError."""
    search = _compiled(pattern).search

    def matches(text: str) -> bool:
        return _found(search, text) if len(text) <= _SHORT else search(text.encode()) is not None

    return matches


@lru_cache(maxsize=_CACHE_SIZE)
def finder(pattern: str) -> Callable[[str, int], list[str]]:
    """A function that returns the matches in a text: at most `count`, or all if it is negative. Raises PatternError."""
    expression = _compiled(pattern)

    def find(text: str, count: int) -> list[str]:
        encoded = text.encode()
        found: list[str] = []
        end = -1
        for match in expression.finditer(encoded) if count else ():
            start = match.start()
            # As in Go, there is no empty match right after a match, nor within a character.
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
        # Compiled for bytes, since for str the library would count the characters before every match.
        return re2.compile(pattern.encode(), options)
    except re2.error as error:
        raise PatternError(_in_go_words(error)) from None


@lru_cache(maxsize=_CACHE_SIZE)
def _found(search: Callable[[bytes], object], text: str) -> bool:
    """Whether `search` finds a match. Cached, since the same short texts recur, such as kinds, hosts and names of objects."""
    return search(text.encode()) is not None


def _in_go_words(error: Exception) -> str:
    text = error.args[0]
    words, _, expression = (text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)).partition(": ")
    if words.startswith("pattern too large"):
        return f"error parsing regexp: expression too large: `{expression}`"
    return f"error parsing regexp: {_GO_WORDS.get(words, words)}: `{expression}`"
