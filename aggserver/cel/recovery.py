"""ANTLR's recovery from syntax errors, on which the messages of further errors depend.

It drops or inserts a single token where that helps; otherwise it skips to a token with which some enclosing rule can continue,
and reports nothing until a token matches again. `syntax.py` walks the grammar with it.
Source: antlr4-go error_strategy.go and parser.go, v4.13.0; limits: cel-go parser/parser.go, v0.26.0.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from aggserver.cel.errors import NOWHERE, Errors
from aggserver.cel.lexer import BAD, BYTES, END, FLOAT, IDENTIFIER, INT, QUOTED, STRING, UINT, Token

__all__ = ["MAX_DEPTH", "RULE_END", "Mistake", "Recovery", "Stop"]

MAX_DEPTH = 250
"""How deep a rule of the grammar may be nested in itself. cel-go's default, which Kubernetes keeps."""

RULE_END = "end of rule"
"""In a set of tokens: the rule may end here."""

# cel-go's defaults: messages reported, attempts to recover, and tokens skipped in one attempt.
_MOST_ERRORS = 100
_MOST_RECOVERIES = 30
_MOST_SKIPPED = 256

# The kinds of tokens in the order of ANTLR's token types; errors print sets of them in this order.
_KINDS = (
    *(END, "==", "!=", "in", "<", "<=", ">=", ">", "&&", "||", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":", "+"),
    *("*", "/", "%", "true", "false", "null", FLOAT, INT, UINT, STRING, BYTES, IDENTIFIER, QUOTED),
)
_UNQUOTED = frozenset({END, FLOAT, INT, UINT, STRING, BYTES, IDENTIFIER, QUOTED})

_ENDS = frozenset({RULE_END})

# Reserved words that are tokens of their own. cel-go rewrites this message for them, to keep that of its earlier versions.
_KEYWORD_AS_NAME = re.compile("no viable alternative at input '.(true|false|null)'")


class Mistake(Exception):
    """A syntax error that ends the current rule."""

    def __init__(self, token: Token, message: str) -> None:
        super().__init__(message)
        self.token = token


class Stop(Exception):
    """A limit was reached: no more errors are reported."""


class Recovery:
    """A walk through the tokens of an invalid source."""

    def __init__(self, source: str, read: list[Token], errors: Errors) -> None:
        self._source = source
        self._read = read
        self._errors = errors
        # The tokens fetched so far without the BAD ones, and how many were fetched in all.
        self._tokens: list[Token] = []
        self._fetched = 0
        self._at = 0
        self._reported = 0
        self._recoveries = 0
        # While true, errors are not reported; ends when a token matches.
        self.recovering = False
        self._failed_at = -1
        self._failed_in: set[int] = set()
        # ANTLR's number of the current state in the grammar.
        self.state = 0
        # For each rule being walked, the tokens that can follow it in the calling rule.
        self._follows: list[frozenset[str]] = []
        self._depths: dict[str, int] = {}

    # Tokens

    def token(self, ahead: int) -> Token:
        """The token `ahead` places after the next one (0 is the next). Reports the BAD tokens it passes."""
        while len(self._tokens) <= self._at + ahead:
            if self._tokens and self._tokens[-1].kind == END:
                return self._tokens[-1]
            token = self._read[self._fetched]
            self._fetched += 1
            if token.kind == BAD:
                self.report(token, f"token recognition error at: '{token.text}'")
            else:
                self._tokens.append(token)
        return self._tokens[self._at + ahead]

    def la(self, ahead: int = 0) -> str:
        return self.token(ahead).kind

    def _consume(self) -> None:
        if self.la() != END:
            self._at += 1

    def report(self, token: Token, message: str) -> None:
        if self._reported == _MOST_ERRORS:
            message = f"More than {_MOST_ERRORS} syntax errors"
        self._errors.add(token.offset, f"Syntax error: {_KEYWORD_AS_NAME.sub(_as_mismatch, message)}")
        if self._reported == _MOST_ERRORS:
            raise Stop
        self._reported += 1

    # ANTLR's strategy

    def _expected(self, here: frozenset[str]) -> frozenset[str]:
        """The tokens that can come next, given those that can come within the current rule."""
        result = here
        for follow in reversed(self._follows):
            if RULE_END not in result:
                break
            result = (result - _ENDS) | follow
        return (result - _ENDS) | {END} if RULE_END in result else result

    def match(self, state: int, kind: str, behind: frozenset[str] = _ENDS) -> None:
        """Take a token of this kind. behind: the tokens that can follow it in the rule."""
        self.state = state
        if self.la() == kind:
            self._fits()
            self._consume()
            return
        self._count_recovery()
        wanted = frozenset({kind})
        if self._drop(wanted):
            self._consume()
        elif self.la() in self._expected(behind):
            self._complain(f"missing {_show(wanted)} at {_quote(self.token(0))}")
        else:
            raise self._mismatch(wanted)

    def _fits(self) -> None:
        self.recovering = False
        self._failed_at = -1
        self._failed_in = set()

    def _drop(self, expected: frozenset[str]) -> bool:
        """Drop a token, if the one after it is expected."""
        if self.la(1) not in expected:
            return False
        self._complain(f"extraneous input {_quote(self.token(0))} expecting {_show(expected)}")
        self._consume()
        self._fits()
        return True

    def _complain(self, message: str) -> None:
        if not self.recovering:
            self.recovering = True
            self.report(self.token(0), message)

    def _mismatch(self, here: frozenset[str]) -> Mistake:
        token = self.token(0)
        return Mistake(token, f"mismatched input {_quote(token)} expecting {_show(self._expected(here))}")

    def no_viable_alternative(self, ahead: int) -> Mistake:
        """The error if no alternative matches the tokens up to this one."""
        first, last = self.token(0), self.token(ahead)
        if first.kind == END:
            return Mistake(last, "no viable alternative at input '<EOF>'")
        end = last.offset + (0 if last.kind == END else len(last.text))
        text = self._source[first.offset : end]
        # The source between them is quoted with its white space, but without BAD tokens.
        for token in reversed(self._read):
            if token.kind == BAD and first.offset < token.offset < end:
                at = token.offset - first.offset
                text = text[:at] + text[at + len(token.text) :]
        return Mistake(last, f"no viable alternative at input {_escape(text)}")

    def sync(self, state: int, here: frozenset[str]) -> None:
        """Before a choice: make sure that the next token can come here."""
        self.state = state
        if self.recovering or self.la() in here:
            return
        if not self._drop(self._expected(here)):
            raise self._mismatch(here)

    def sync_loop(self, state: int, here: frozenset[str]) -> None:
        """Before another round of a loop: skip tokens that can neither continue nor end it."""
        self.state = state
        if self.recovering or self.la() in here:
            return
        self._complain(f"extraneous input {_quote(self.token(0))} expecting {_show(here)}")
        wanted = self._expected(here) | self._recovery_set()
        while self.la() != END and self.la() not in wanted:
            self._consume()

    def call(self, state: int, rule: Callable[[], None], follow: frozenset[str]) -> bool:
        """Walk a rule and recover from a mistake in it. Returns whether there was none."""
        fits = True
        self.state = state
        self._follows.append(follow)
        depths = dict(self._depths)
        try:
            self.enter(rule.__name__)
            rule()
        except Mistake as mistake:
            fits = False
            if not self.recovering:
                self.recovering = True
                self.report(mistake.token, str(mistake))
            self.recover()
        self._depths = depths
        self._follows.pop()
        self.state = state
        return fits

    def enter(self, rule: str) -> None:
        self._depths[rule] = self._depths.get(rule, 0) + 1
        if self._depths[rule] > MAX_DEPTH:
            self._errors.add(NOWHERE, f"expression recursion limit exceeded: {MAX_DEPTH}")
            raise Stop

    def recover(self) -> None:
        self._count_recovery()
        skipped = 0
        if self._failed_at == self._at and self.state in self._failed_in:
            # The same mistake at the same token: consume it, or this would never end.
            self._consume()
            skipped = 1
        self._failed_at = self._at
        self._failed_in.add(self.state)
        wanted = self._recovery_set()
        while self.la() != END and self.la() not in wanted:
            if skipped == _MOST_SKIPPED:
                self._errors.add(NOWHERE, f"error recovery token lookahead limit exceeded: {_MOST_SKIPPED}")
                raise Stop
            skipped += 1
            self._consume()

    def _recovery_set(self) -> frozenset[str]:
        return frozenset().union(*self._follows) - _ENDS

    def _count_recovery(self) -> None:
        if self._recoveries == _MOST_RECOVERIES:
            self.report(self.token(0), f"error recovery attempt limit exceeded: {_MOST_RECOVERIES}")
            raise Stop
        self._recoveries += 1


def _as_mismatch(match: re.Match[str]) -> str:
    return f"mismatched input '{match[1]}' expecting IDENTIFIER"


def _show(kinds: frozenset[str]) -> str:
    names = [kind if kind in _UNQUOTED else f"'{kind}'" for kind in _KINDS if kind in kinds]
    return names[0] if len(names) == 1 else f"{{{', '.join(names)}}}"


def _quote(token: Token) -> str:
    return _escape(token.text)


def _escape(text: str) -> str:
    return "'" + text.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r") + "'"
