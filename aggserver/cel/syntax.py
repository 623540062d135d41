"""What is wrong with a text that is no expression, in the words of ANTLR.

`parser.py` asks only once it knows that the text is wrong. People search for these messages and tests compare them, and their words follow
from how ANTLR goes on after an error: it drops a token or imagines one where that helps, else skips to what some rule that it is in can
go on with, and stays silent until a token fits again. So this is the grammar a second time, as ANTLR's generated parser walks it, with no
result but its complaints. Which alternative a rule takes is decided by a token or two; what the comments at decisions say was worked out
from the grammar.

Upstream goes on to look into the tree that is left after such errors. Of what it finds there, the names that can't be are told here, the
arguments that a macro can't take are not.
Source: antlr4-go error_strategy.go, v4.13.0; cel-go parser/gen/CEL.g4 and parser/parser.go, v0.26.0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from aggserver.cel.errors import NOWHERE, Errors
from aggserver.cel.lexer import BAD, BYTES, END, FLOAT, IDENTIFIER, INT, QUOTED, STRING, UINT, Token

__all__ = ["MAX_DEPTH", "RESERVED", "explain"]

MAX_DEPTH = 250
"""How often a rule of the grammar may be within itself. cel-go's default, which Kubernetes keeps."""

RESERVED = frozenset(
    "as break const continue else false for function if import in let loop package namespace null return true var void while".split()
)
"""What must not be the name of a variable or function. Fields may have these names, if they are not literals."""

# cel-go's defaults: messages, attempts to go on, and tokens skipped in one of them.
_MOST_ERRORS = 100
_MOST_RECOVERIES = 30
_MOST_SKIPPED = 256

# In the order of ANTLR's token types, in which sets are printed.
_KINDS = (
    *(END, "==", "!=", "in", "<", "<=", ">=", ">", "&&", "||", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":", "+"),
    *("*", "/", "%", "true", "false", "null", FLOAT, INT, UINT, STRING, BYTES, IDENTIFIER, QUOTED),
)
_UNQUOTED = frozenset({END, FLOAT, INT, UINT, STRING, BYTES, IDENTIFIER, QUOTED})

_LITERALS = frozenset({"-", "true", "false", "null", FLOAT, INT, UINT, STRING, BYTES})
_PRIMARY = _LITERALS | {"[", "{", "(", ".", IDENTIFIER}
_EXPR = _PRIMARY | {"!"}
_FIELD = frozenset({"?", IDENTIFIER, QUOTED})
_RELATIONS = frozenset({"==", "!=", "in", "<", "<=", ">=", ">"})
_PRODUCTS = frozenset({"*", "/", "%"})
_CALCULATIONS = _PRODUCTS | {"+", "-"}

# In a set of tokens: the rule may end here.
_RULE_END = "end of rule"
_ENDS = frozenset({_RULE_END})
_MEMBER_ENDS = frozenset({".", "[", _RULE_END})

# The reserved words that are tokens of their own: cel-go has always spoken of them so where a name is wanted.
_KEYWORD_AS_NAME = re.compile("no viable alternative at input '.(true|false|null)'")


class _Mistake(Exception):
    """The rule can't go on."""

    def __init__(self, token: Token, message: str) -> None:
        super().__init__(message)
        self.token = token


class _Stop(Exception):
    """Nothing more is to be said."""


def explain(source: str, read: Iterable[Token], errors: Errors) -> None:
    """Add what is wrong with the syntax. `read` are the tokens of the source."""
    walk = _Walk(source, list(read), errors)
    try:
        walk.start()
    except _Stop:
        return
    for offset, message in walk.names:
        errors.add(offset, message)


class _Walk:
    def __init__(self, source: str, read: list[Token], errors: Errors) -> None:
        self._source = source
        self._read = read
        self._errors = errors
        # The good tokens that were looked at, and how many tokens that took.
        self._tokens: list[Token] = []
        self._fetched = 0
        self._at = 0
        self._reported = 0
        self._recoveries = 0
        # Silent until a token fits again.
        self._recovering = False
        self._failed_at = -1
        self._failed_in: set[int] = set()
        # The place in the grammar, by the number that ANTLR gave it.
        self._state = 0
        # For each rule that we are in, what can come behind it in the rule that called it.
        self._follows: list[frozenset[str]] = []
        self._depths: dict[str, int] = {}
        # What is wrong with names, and where.
        self.names: list[tuple[int, str]] = []

    # Tokens

    def _token(self, ahead: int) -> Token:
        """The token that is 0, 1, ... behind the next one. What is no token is told on the way."""
        while len(self._tokens) <= self._at + ahead:
            if self._tokens and self._tokens[-1].kind == END:
                return self._tokens[-1]
            token = self._read[self._fetched]
            self._fetched += 1
            if token.kind == BAD:
                self._report(token, f"token recognition error at: '{token.text}'")
            else:
                self._tokens.append(token)
        return self._tokens[self._at + ahead]

    def _la(self, ahead: int = 0) -> str:
        return self._token(ahead).kind

    def _consume(self) -> None:
        if self._la() != END:
            self._at += 1

    def _report(self, token: Token, message: str) -> None:
        if self._reported == _MOST_ERRORS:
            message = f"More than {_MOST_ERRORS} syntax errors"
        self._errors.add(token.offset, f"Syntax error: {_KEYWORD_AS_NAME.sub(_as_mismatch, message)}")
        if self._reported == _MOST_ERRORS:
            raise _Stop
        self._reported += 1

    # ANTLR's strategy

    def _expected(self, here: frozenset[str]) -> frozenset[str]:
        """What can come, given what can come within the rule."""
        result = here
        for follow in reversed(self._follows):
            if _RULE_END not in result:
                break
            result = (result - _ENDS) | follow
        return (result - _ENDS) | {END} if _RULE_END in result else result

    def _match(self, state: int, kind: str, behind: frozenset[str] = _ENDS) -> None:
        """Take a token. behind: what can come behind it in the rule."""
        self._state = state
        if self._la() == kind:
            self._fits()
            self._consume()
            return
        self._count_recovery()
        wanted = frozenset({kind})
        if self._drop(wanted):
            self._consume()
        elif self._la() in self._expected(behind):
            self._complain(f"missing {_show(wanted)} at {_quote(self._token(0))}")
        else:
            raise self._mismatch(wanted)

    def _fits(self) -> None:
        self._recovering = False
        self._failed_at = -1
        self._failed_in = set()

    def _drop(self, expected: frozenset[str]) -> bool:
        """Leave out a token, if the one behind it is wanted."""
        if self._la(1) not in expected:
            return False
        self._complain(f"extraneous input {_quote(self._token(0))} expecting {_show(expected)}")
        self._consume()
        self._fits()
        return True

    def _complain(self, message: str) -> None:
        if not self._recovering:
            self._recovering = True
            self._report(self._token(0), message)

    def _mismatch(self, here: frozenset[str]) -> _Mistake:
        token = self._token(0)
        return _Mistake(token, f"mismatched input {_quote(token)} expecting {_show(self._expected(here))}")

    def _no_way(self, ahead: int) -> _Mistake:
        """No alternative has the tokens up to this one."""
        first, last = self._token(0), self._token(ahead)
        if first.kind == END:
            return _Mistake(last, "no viable alternative at input '<EOF>'")
        end = last.offset + (0 if last.kind == END else len(last.text))
        text = "".join(
            char
            for index, char in enumerate(self._source[first.offset : end], first.offset)
            if not any(token.kind == BAD and token.offset <= index < token.offset + len(token.text) for token in self._read)
        )
        return _Mistake(last, f"no viable alternative at input {_escape(text)}")

    def _sync(self, state: int, here: frozenset[str]) -> None:
        """Before a choice: see that the next token is one of those that can come."""
        self._state = state
        if self._recovering or self._la() in here:
            return
        if not self._drop(self._expected(here)):
            raise self._mismatch(here)

    def _sync_loop(self, state: int, here: frozenset[str]) -> None:
        """Before a loop goes on or ends: skip what is neither."""
        self._state = state
        if self._recovering or self._la() in here:
            return
        self._complain(f"extraneous input {_quote(self._token(0))} expecting {_show(here)}")
        wanted = self._expected(here) | self._recovery_set()
        while self._la() != END and self._la() not in wanted:
            self._consume()

    def _call(self, state: int, rule: Callable[[], None], follow: frozenset[str]) -> bool:
        """Walk a rule; a mistake in it ends it where some rule around it can go on. Whether there was none."""
        fits = True
        self._state = state
        self._follows.append(follow)
        depths = dict(self._depths)
        try:
            self._enter(rule.__name__)
            rule()
        except _Mistake as mistake:
            fits = False
            if not self._recovering:
                self._recovering = True
                self._report(mistake.token, str(mistake))
            self._recover()
        self._depths = depths
        self._follows.pop()
        self._state = state
        return fits

    def _enter(self, rule: str) -> None:
        self._depths[rule] = self._depths.get(rule, 0) + 1
        if self._depths[rule] > MAX_DEPTH:
            self._errors.add(NOWHERE, f"expression recursion limit exceeded: {MAX_DEPTH}")
            raise _Stop

    def _recover(self) -> None:
        self._count_recovery()
        skipped = 0
        if self._failed_at == self._at and self._state in self._failed_in:
            # The same mistake at the same token: go on, or this would never end.
            self._consume()
            skipped = 1
        self._failed_at = self._at
        self._failed_in.add(self._state)
        wanted = self._recovery_set()
        while self._la() != END and self._la() not in wanted:
            if skipped == _MOST_SKIPPED:
                self._errors.add(NOWHERE, f"error recovery token lookahead limit exceeded: {_MOST_SKIPPED}")
                raise _Stop
            skipped += 1
            self._consume()

    def _recovery_set(self) -> frozenset[str]:
        return frozenset().union(*self._follows) - _ENDS

    def _count_recovery(self) -> None:
        if self._recoveries == _MOST_RECOVERIES:
            self._report(self._token(0), f"error recovery attempt limit exceeded: {_MOST_RECOVERIES}")
            raise _Stop
        self._recoveries += 1

    # The grammar. The numbers are ANTLR's.

    def start(self) -> None:
        try:
            self._call(34, self._expr, frozenset({END}))
            self._match(35, END)
        except _Mistake as mistake:
            if not self._recovering:
                self._report(mistake.token, str(mistake))
            self._recover()

    def _expr(self) -> None:
        self._call(37, self._or, frozenset({"?", _RULE_END}))
        if self._la() == "?":
            self._match(38, "?")
            self._call(39, self._or, frozenset({":"}))
            self._match(40, ":", _EXPR)
            self._call(41, self._expr, _ENDS)

    def _or(self) -> None:
        self._call(45, self._and, frozenset({"||", _RULE_END}))
        while self._la() == "||":
            self._match(46, "||")
            self._call(47, self._and, frozenset({"||", _RULE_END}))

    def _and(self) -> None:
        self._call(53, self._relation, frozenset({"&&", _RULE_END}))
        while self._la() == "&&":
            self._match(54, "&&")
            self._call(55, self._relation, frozenset({"&&", _RULE_END}))

    def _relation(self) -> None:
        self._call(62, self._calc, _RELATIONS | _ENDS)
        while self._la() in _RELATIONS:
            self._match(65, self._la())
            self._call(66, self._right_relation, _RELATIONS | _ENDS)

    def _right_relation(self) -> None:
        self._enter("_relation")
        self._call(62, self._calc, _RELATIONS | _ENDS)

    def _calc(self) -> None:
        self._calculation(_CALCULATIONS)

    def _calculation(self, operators: frozenset[str]) -> None:
        self._call(73, self._unary, _CALCULATIONS | _ENDS)
        while self._la() in operators:
            is_product = self._la() in _PRODUCTS
            self._match(76 if is_product else 79, self._la())
            if is_product:
                self._call(77, self._right_of_product, _CALCULATIONS | _ENDS)
            else:
                self._call(80, self._right_of_sum, _CALCULATIONS | _ENDS)

    def _right_of_product(self) -> None:
        self._enter("_calc")
        self._calculation(frozenset())

    def _right_of_sum(self) -> None:
        self._enter("_calc")
        self._calculation(_PRODUCTS)

    def _unary(self) -> None:
        self._sync(99, _EXPR)
        kind = self._la()
        if kind == "!":
            while self._la() == "!":
                self._match(87, "!")
                self._sync_loop(90, _EXPR)
            self._call(92, self._member, _ENDS)
        elif kind == "-" and self._la(1) not in _PRIMARY:
            raise self._no_way(1)
        elif kind == "-" and self._la(1) not in (INT, FLOAT):
            self._negate()
        elif kind in _PRIMARY:
            self._call(86, self._member, _ENDS)
        else:
            raise self._no_way(0)

    def _negate(self) -> None:
        while True:
            self._match(93, "-")
            self._sync_loop(96, _PRIMARY)
            # Another minus is one more of these, rather than the sign of a literal.
            if self._la() not in _PRIMARY:
                raise self._no_way(0)
            if self._la() != "-":
                break
            if self._la(1) not in _PRIMARY:
                raise self._no_way(1)
        self._call(98, self._member, _ENDS)

    def _member(self) -> None:
        self._call(102, self._primary, _MEMBER_ENDS)
        while self._la() in (".", "["):
            self._state = 126
            if self._la() == "[":
                self._match(119, "[")
                self._sync(121, _EXPR | {"?"})
                if self._la() == "?":
                    self._match(120, "?")
                self._call(123, self._expr, frozenset({"]"}))
                self._match(124, "]", _MEMBER_ENDS)
            elif self._la(1) not in _FIELD:
                raise self._no_way(1)
            elif self._la(1) == IDENTIFIER and self._la(2) == "(":
                self._match(111, ".")
                self._match(112, IDENTIFIER)
                self._match(113, "(")
                self._arguments(115)
                self._match(117, ")", _MEMBER_ENDS)
            else:
                self._match(105, ".")
                if self._la() == "?":
                    self._match(106, "?")
                offset = self._token(0).offset
                if not self._call(109, self._escape_ident, _MEMBER_ENDS):
                    self.names.append((offset, "unsupported ident kind"))

    def _arguments(self, state: int) -> None:
        self._sync(state, _EXPR | {")"})
        if self._la() in _EXPR:
            self._call(state - 1, self._expr_list, frozenset({")"}))

    def _primary(self) -> None:
        self._sync(184, _PRIMARY)
        kind = self._la()
        if kind in (".", IDENTIFIER):
            self._name()
        elif kind == "(":
            self._match(144, "(")
            self._call(145, self._expr, frozenset({")"}))
            self._match(146, ")")
        elif kind == "[":
            self._match(148, "[")
            self._entries(150, self._list_init, _EXPR | {"?"}, "]")
        elif kind == "{":
            self._match(156, "{")
            self._entries(158, self._map_initializer_list, _EXPR | {"?"}, "}")
        elif kind in _LITERALS:
            self._call(183, self._literal, _ENDS)
        else:
            raise self._no_way(0)

    def _name(self) -> None:
        """A variable, a call or an object: an object if there is a brace behind names and dots."""
        first = 0
        start = self._token(0).offset
        if self._la() == ".":
            if self._la(1) != IDENTIFIER:
                raise self._no_way(1)
            first = 1
        last = first
        while self._la(last + 1) == "." and self._la(last + 2) == IDENTIFIER:
            last += 2
        if self._la(last + 1) == "{":
            while self._la() != "{":
                self._match(167, self._la())
            self._match(175, "{")
            self._entries(177, self._field_initializer_list, _FIELD, "}")
            return
        if first:
            self._match(131, ".")
        if self._la() == IDENTIFIER and self._token(0).text in RESERVED:
            self.names.append((start, f"reserved identifier: {self._token(0).text}"))
        self._match(134, IDENTIFIER)
        if self._la() == "(":
            self._match(139, "(")
            self._arguments(141)
            self._match(143, ")")

    def _entries(self, state: int, rule: Callable[[], None], first: frozenset[str], end: str) -> None:
        """What is in brackets or braces: nothing, or entries, and perhaps a comma."""
        ends = frozenset({",", end})
        self._sync(state, first | ends)
        if self._la() in first:
            self._call(state - 1, rule, ends)
        self._sync(state + 3, ends)
        if self._la() == ",":
            self._match(state + 2, ",")
        self._match(state + 5, end)

    def _expr_list(self) -> None:
        self._call(186, self._expr, frozenset({",", _RULE_END}))
        while self._la() == ",":
            self._match(187, ",")
            self._call(188, self._expr, frozenset({",", _RULE_END}))

    # In the following three, a comma with no entry behind it is left to who called.

    def _list_init(self) -> None:
        self._call(194, self._opt_expr, frozenset({",", _RULE_END}))
        while self._la() == "," and self._la(1) in _EXPR | {"?"}:
            self._match(195, ",")
            self._call(196, self._opt_expr, frozenset({",", _RULE_END}))

    def _field_initializer_list(self) -> None:
        self._entry(202, self._opt_field)
        while self._la() == "," and self._la(1) in _FIELD:
            self._match(205, ",")
            self._entry(206, self._opt_field)

    def _map_initializer_list(self) -> None:
        self._entry(220, self._opt_expr)
        while self._la() == "," and self._la(1) in _EXPR | {"?"}:
            self._match(223, ",")
            self._entry(224, self._opt_expr)

    def _entry(self, state: int, key: Callable[[], None]) -> None:
        self._call(state, key, frozenset({":"}))
        self._match(state + 1, ":", _EXPR)
        self._call(state + 2, self._expr, frozenset({",", _RULE_END}))

    def _opt_field(self) -> None:
        self._sync(216, _FIELD)
        if self._la() == "?":
            self._match(215, "?")
        self._call(218, self._escape_ident, _ENDS)

    def _opt_expr(self) -> None:
        self._sync(238, _EXPR | {"?"})
        if self._la() == "?":
            self._match(237, "?")
        self._call(240, self._expr, _ENDS)

    def _escape_ident(self) -> None:
        names = frozenset({IDENTIFIER, QUOTED})
        self._sync(235, names)
        if self._la() not in names:
            raise self._no_way(0)
        self._match(233, self._la())

    def _literal(self) -> None:
        self._sync(256, _LITERALS)
        if self._la() == "-":
            if self._la(1) not in (INT, FLOAT):
                raise self._no_way(1)
            self._match(242, "-")
        self._match(245, self._la())


def _as_mismatch(match: re.Match[str]) -> str:
    return f"mismatched input '{match[1]}' expecting IDENTIFIER"


def _show(kinds: frozenset[str]) -> str:
    names = [kind if kind in _UNQUOTED else f"'{kind}'" for kind in _KINDS if kind in kinds]
    return names[0] if len(names) == 1 else f"{{{', '.join(names)}}}"


def _quote(token: Token) -> str:
    return _escape(token.text)


def _escape(text: str) -> str:
    return "'" + text.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r") + "'"
