"""Compile errors of an expression, printed with their source line and a caret.

`Errors` collects what the parser or the checker finds and prints it as cel-go does, sorted by place. The text becomes part of
a CustomResourceDefinition's validation error, where people and tests look for it word by word.
Source: cel-go common/{error,errors,source}.go, v0.26.0.
"""

from __future__ import annotations

import bisect
import re

__all__ = ["NOWHERE", "CompileError", "Errors"]

NOWHERE = -1
"""The offset of an error without a place in the source, such as an exceeded limit."""

# cel-go's limit; it bounds what one expression can put into a response.
_MOST_ERRORS = 100
# Longer lines are not shown. In bytes of UTF-8, as upstream counts them.
_LONGEST_LINE = 16384
_SURROGATES = re.compile("[\ud800-\udfff]")


class CompileError(Exception):
    """An expression that can't be compiled. `str()` is cel-go's text of all errors."""


class Errors:
    def __init__(self, source: str) -> None:
        self.source = _SURROGATES.sub("\ufffd", source)
        """The source to parse and to show. Lone surrogates are replaced, as Go's decoders do."""
        self._found: list[tuple[int, str]] = []
        self._lines = [0, *(match.end() for match in re.finditer("\n", source))]

    def __len__(self) -> int:
        return len(self._found)

    def add(self, offset: int, message: str) -> None:
        """Record an error. offset: its place in the source, in code points, or NOWHERE."""
        self._found.append((offset, message))

    def raise_any(self) -> None:
        """Raise CompileError if there is any error."""
        if self._found:
            raise CompileError(str(self))

    def __str__(self) -> str:
        shown = sorted(self._found[:_MOST_ERRORS], key=lambda error: error[0])
        texts = [self._picture(offset, message) for offset, message in shown]
        if len(self._found) > _MOST_ERRORS:
            texts.append(f"{len(self._found) - _MOST_ERRORS} more errors were truncated")
        return "\n".join(texts)

    def _picture(self, offset: int, message: str) -> str:
        if offset == NOWHERE:
            return f"ERROR: <input>:-1:0: {message}"
        if not self.source:
            return f"ERROR: <input>:1:0: {message}"
        line = bisect.bisect_right(self._lines, offset)
        column = offset - self._lines[line - 1]
        text = f"ERROR: <input>:{line}:{column + 1}: {message}"
        end = self._lines[line] - 1 if line < len(self._lines) else len(self.source)
        shown = self.source[self._lines[line - 1] : end].replace("\t", " ")
        if len(shown.encode()) > _LONGEST_LINE:
            return text
        # Wide characters get wide dots, so that the caret stays below the character that it points at.
        dots = "".join("." if char < "\x80" else "\uff0e" for char in shown[:column])
        caret = "^" if shown[column : column + 1] < "\x80" else "\uff3e"
        return f"{text}\n | {shown}\n | {dots}{caret}"
