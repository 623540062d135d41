"""Finds YAML texts that would take libyaml a time that grows with the square of their length, before it reads them.

libyaml holds the GIL while it reads a token, so a thread does not help: everything else waits. Each rule here bounds one thing
that go-yaml does in linear time and libyaml does not, or by which a small text takes much memory. No manifest comes near the
limits.
Pure. Source: libyaml 0.2.5 src/parser.c (yaml_parser_append_tag_directive), src/yaml_private.h (CLEAR), src/scanner.c.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["prefix_problem", "problem"]

# The most %TAG directives of a document: libyaml compares each with all before it, and each tag with all directives.
_MAX_DIRECTIVES = 16
# The most characters of all their prefixes together: libyaml copies the prefix for each node with such a tag.
_MAX_PREFIXES = 1024

# libyaml's line breaks.
_LONG_BREAKS = (b"\xc2\x85", b"\xe2\x80\xa8", b"\xe2\x80\xa9")
_LINE_BREAKS = (b"\n", b"\r", *_LONG_BREAKS)

# The most bytes that libyaml may clear between the words and lines of scalars, some 50 ms of work. It collects the blanks between
# two words, and the breaks between two lines, in buffers. Each buffer keeps the size of its longest run so far, and is cleared
# whole at each use.
_MAX_CLEARED = 500_000_000
# A text of so many bytes can't exceed _MAX_CLEARED, even if half of it is one run of blanks and half of it words.
_SMALL = 64 * 1024
# Runs of fewer characters can't exceed it either, in a text of some megabytes.
_LONG_RUN = 64
# With so long a literal prefix, `re` searches as fast as `bytes.find`.
_BLANKS = re.compile(b" " * _LONG_RUN + b" *")
_BREAKS = re.compile(b"\n" * _LONG_RUN + b"\n*")
# Tabs are blanks too. In a line break of two characters, each counts as a break.
_SIMPLIFIED = bytes.maketrans(b"\t\r", b" \n")
# A buffer has up to twice the size of what it holds; a break has up to three bytes.
_BLANK_BYTES, _BREAK_BYTES = 2, 6


def problem(body: bytes) -> str:
    """Why a YAML text must not be given to libyaml; '' if it may."""
    text = _utf8(body)
    if b"%TAG" in text and _too_many_directives(text):
        return f"more than {_MAX_DIRECTIVES} %TAG directives"
    if len(text) > _SMALL and _cleared(text) > _MAX_CLEARED:
        return "too many words and lines beside a long run of spaces or line breaks"
    return ""


def prefix_problem(prefixes: Mapping[str, str] | None) -> str:
    """Why a document with these %TAG directives must not be read further; '' if it may. prefixes: by handle."""
    if prefixes and sum(map(len, prefixes.values())) > _MAX_PREFIXES:
        return f"prefixes of %TAG directives of more than {_MAX_PREFIXES} characters"
    return ""


def _utf8(body: bytes) -> bytes:
    """The text as libyaml reads it, in UTF-8; a byte order mark shows its encoding."""
    if body.startswith((b"\xff\xfe", b"\xfe\xff")):
        return body.decode("utf-16", "replace").encode("utf-8", "replace")
    return body.removeprefix(b"\xef\xbb\xbf")


def _too_many_directives(text: bytes) -> bool:
    # Directives are only read before the line `---`. Later lines of this form are text.
    starts = [at for mark in _LINE_BREAKS if (at := text.find(mark + b"---")) >= 0]
    end = min(starts, default=len(text))
    found = sum(text.count(mark + b"%TAG", 0, end) for mark in _LINE_BREAKS)
    return found + text.startswith(b"%TAG") > _MAX_DIRECTIVES


def _cleared(text: bytes) -> int:
    """An upper bound of the bytes that libyaml clears because of long runs."""
    text = text.translate(_SIMPLIFIED)
    for mark in _LONG_BREAKS:
        text = text.replace(mark, b"\n")
    lines, longest_break = _runs(text.translate(None, b" "), b"\n", _BREAKS)
    words, longest_blank = _runs(text, b" ", _BLANKS)
    return _BLANK_BYTES * longest_blank * (words + lines) + _BREAK_BYTES * longest_break * lines


def _runs(text: bytes, byte: bytes, long: re.Pattern[bytes]) -> tuple[int, int]:
    """(an upper bound of the number of runs of the byte, the length of the longest run, 0 if none is long)."""
    runs, longest = text.count(byte), 0
    for found in long.finditer(text):
        length = found.end() - found.start()
        runs -= length - 1
        # The blanks at the start of a line are not collected.
        if not text.startswith(b"\n", found.start() - 1, found.start()):
            longest = max(longest, length)
    return runs, longest
