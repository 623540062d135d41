"""Email addresses, as Go's mail.ParseAddress accepts them: a single address of RFC 5322, also with a name, comments or a group.

Pure. Source: Go's net/mail and mime (encodedword.go), 1.26.
"""

from __future__ import annotations

import ipaddress
import re

__all__ = ["is_email_address"]

_BLANKS = re.compile("[ \t]*")
# All characters beyond ASCII are allowed.
_ATOM = re.compile(r"""[^\x00-\x20\x7f()<>\[\]:;@\\,"]+""")
_QUOTED = re.compile(r'"((?:[^\x00-\x08\x0a-\x1f\x7f"\\]|\\[^\x00-\x08\x0a-\x1f\x7f])*)"')
_LITERAL = re.compile(r"\[([^\x00-\x20\x7f\[\]\\]*)\]")
_ENCODED_WORD = re.compile(r"=\?([^?]+)\?[bBqQ]\?([!->@-~]*)\?=")
_CHARSETS = ("utf-8", "iso-8859-1", "us-ascii")


def is_email_address(text: str) -> bool:
    """Whether the text is a single address and nothing else."""
    try:
        return _Parser(text).single()
    except _NoAddressError:
        return False


class _NoAddressError(Exception):
    pass


class _Parser:
    """A recursive descent parser. `_at` is the position of the text that is still to be parsed."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def single(self) -> bool:
        count = self._addresses(grouped=True)
        self._skip_comments()
        return count == 1 and self._is_at_end()

    def _addresses(self, *, grouped: bool) -> int:
        """Parse and count addresses: one, or those of a group. Groups can't be nested."""
        self._take(_BLANKS)
        if self._is_at_end():
            raise _NoAddressError
        start = self._at
        try:
            self._address()
        except _NoAddressError:
            self._at = start
            return self._named(grouped=grouped)
        self._take(_BLANKS)
        if self._follows("("):
            self._comment()
        return 1

    def _named(self, *, grouped: bool) -> int:
        if not self._follows("<"):
            self._phrase()
        self._take(_BLANKS)
        if grouped and self._consume(":"):
            return self._group()
        self._expect("<")
        self._address()
        self._expect(">")
        return 1

    def _group(self) -> int:
        self._take(_BLANKS)
        if self._consume(";"):
            return 0
        count = 0
        while True:
            count += self._addresses(grouped=False)
            self._skip_comments()
            if self._consume(";"):
                return count
            self._expect(",")

    def _address(self) -> None:
        """local@domain."""
        self._take(_BLANKS)
        if self._follows('"'):
            if self._take(_QUOTED) == '""':
                raise _NoAddressError
        else:
            self._dotted()
        self._expect("@")
        self._take(_BLANKS)
        if not self._follows("["):
            self._dotted()
            return
        try:
            address = ipaddress.ip_address(self._take(_LITERAL)[1:-1])
        except ValueError:
            raise _NoAddressError from None
        if isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None:
            raise _NoAddressError

    def _dotted(self) -> None:
        atom = self._take(_ATOM)
        if atom.startswith(".") or atom.endswith(".") or ".." in atom:
            raise _NoAddressError

    def _phrase(self) -> None:
        """Parse the words of a name, up to the first text that is not a word."""
        words = 0
        while True:
            if words:
                self._skip_comments()
            self._take(_BLANKS)
            if self._is_at_end():
                return
            try:
                word = self._take(_QUOTED if self._follows('"') else _ATOM)
                encoded = _ENCODED_WORD.fullmatch(word)
                if encoded is not None and encoded[1].lower() not in _CHARSETS:
                    raise _NoAddressError
            except _NoAddressError:
                if not words:
                    raise
                return
            # An encoded word may be empty, and does not count then.
            words += encoded is None or bool(encoded[2])

    def _skip_comments(self) -> None:
        self._take(_BLANKS)
        while self._follows("("):
            self._comment()
            self._take(_BLANKS)

    def _comment(self) -> None:
        """Parse a comment; comments may be nested."""
        depth = 0
        while not self._is_at_end():
            char = self._text[self._at]
            if char == "\\" and self._at + 1 < len(self._text):
                self._at += 1
            elif char in "()":
                depth += 1 if char == "(" else -1
            self._at += 1
            if not depth:
                return
        raise _NoAddressError

    def _take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise _NoAddressError
        self._at = found.end()
        return found[0]

    def _is_at_end(self) -> bool:
        return self._at == len(self._text)

    def _follows(self, char: str) -> bool:
        return self._text.startswith(char, self._at)

    def _consume(self, char: str) -> bool:
        there = self._follows(char)
        self._at += there
        return there

    def _expect(self, char: str) -> None:
        if not self._consume(char):
            raise _NoAddressError
