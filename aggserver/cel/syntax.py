"""Syntax errors of an invalid expression, with ANTLR's messages.

`parser.py` calls this only for a source that does not parse. People search for these messages and tests compare them, and the
messages depend on the way through the grammar. So this module has the grammar a second time, as ANTLR's generated parser walks
it, and only reports errors. One or two tokens decide which alternative a rule takes, as derived from the grammar.

Upstream then visits the tree that is left after such errors. Of the further errors it finds there, invalid names are reported
here, invalid arguments of macros are not.
Source: cel-go parser/gen/CEL.g4 and the parser generated from it, v0.26.0.
"""

from __future__ import annotations

from collections.abc import Callable

from aggserver.cel.errors import Errors
from aggserver.cel.lexer import BYTES, END, FLOAT, IDENTIFIER, INT, QUOTED, STRING, UINT, Token
from aggserver.cel.recovery import RULE_END, Mistake, Recovery, Stop

__all__ = ["RESERVED", "explain"]

RESERVED = frozenset(
    (
        *("as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop"),
        *("package", "namespace", "null", "return", "true", "var", "void", "while"),
    )
)
"""Reserved names of variables and functions. Fields may have these names, except those that are literals."""

_LITERALS = frozenset({"-", "true", "false", "null", FLOAT, INT, UINT, STRING, BYTES})
_PRIMARY = _LITERALS | {"[", "{", "(", ".", IDENTIFIER}
_EXPR = _PRIMARY | {"!"}
_FIELD = frozenset({"?", IDENTIFIER, QUOTED})
_RELATIONS = frozenset({"==", "!=", "in", "<", "<=", ">=", ">"})
_PRODUCTS = frozenset({"*", "/", "%"})
_CALCULATIONS = _PRODUCTS | {"+", "-"}

_NO_NAME = "unsupported ident kind"

_ENDS = frozenset({RULE_END})
_MEMBER_ENDS = frozenset({".", "[", RULE_END})


def explain(source: str, read: list[Token], errors: Errors) -> None:
    """Add all syntax errors. read: the tokens of the source."""
    walk = _Grammar(source, read, errors)
    try:
        walk.start()
    except Stop:
        return
    for offset, message in walk.names:
        errors.add(offset, message)


class _Grammar(Recovery):
    """A method for each rule of the grammar. The numbers are ANTLR's states."""

    def __init__(self, source: str, read: list[Token], errors: Errors) -> None:
        super().__init__(source, read, errors)
        # Offsets and messages of invalid names.
        self.names: list[tuple[int, str]] = []
        # The error of the name that was parsed last, if any.
        self._name_problem = ""

    def start(self) -> None:
        try:
            self.call(34, self._expr, frozenset({END}))
            self.match(35, END)
        except Mistake as mistake:
            if not self.recovering:
                self.report(mistake.token, str(mistake))
            self.recover()

    def _expr(self) -> None:
        self.call(37, self._or, frozenset({"?", RULE_END}))
        if self.la() == "?":
            self.match(38, "?")
            self.call(39, self._or, frozenset({":"}))
            self.match(40, ":", _EXPR)
            self.call(41, self._expr, _ENDS)

    def _or(self) -> None:
        self.call(45, self._and, frozenset({"||", RULE_END}))
        while self.la() == "||":
            self.match(46, "||")
            self.call(47, self._and, frozenset({"||", RULE_END}))

    def _and(self) -> None:
        self.call(53, self._relation, frozenset({"&&", RULE_END}))
        while self.la() == "&&":
            self.match(54, "&&")
            self.call(55, self._relation, frozenset({"&&", RULE_END}))

    def _relation(self) -> None:
        self.call(62, self._calc, _RELATIONS | _ENDS)
        while self.la() in _RELATIONS:
            self.match(65, self.la())
            self.call(66, self._right_relation, _RELATIONS | _ENDS)

    def _right_relation(self) -> None:
        self.enter("_relation")
        self.call(62, self._calc, _RELATIONS | _ENDS)

    def _calc(self) -> None:
        self._calculation(_CALCULATIONS)

    def _calculation(self, operators: frozenset[str]) -> None:
        self.call(73, self._unary, _CALCULATIONS | _ENDS)
        while self.la() in operators:
            is_product = self.la() in _PRODUCTS
            self.match(76 if is_product else 79, self.la())
            if is_product:
                self.call(77, self._right_of_product, _CALCULATIONS | _ENDS)
            else:
                self.call(80, self._right_of_sum, _CALCULATIONS | _ENDS)

    def _right_of_product(self) -> None:
        self.enter("_calc")
        self._calculation(frozenset())

    def _right_of_sum(self) -> None:
        self.enter("_calc")
        self._calculation(_PRODUCTS)

    def _unary(self) -> None:
        self.sync(99, _EXPR)
        kind = self.la()
        if kind == "!":
            while self.la() == "!":
                self.match(87, "!")
                self.sync_loop(90, _EXPR)
            self.call(92, self._member, _ENDS)
        elif kind == "-" and self.la(1) not in _PRIMARY:
            raise self.no_viable_alternative(1)
        elif kind == "-" and self.la(1) not in (INT, FLOAT):
            self._negate()
        elif kind in _PRIMARY:
            self.call(86, self._member, _ENDS)
        else:
            raise self.no_viable_alternative(0)

    def _negate(self) -> None:
        while True:
            self.match(93, "-")
            self.sync_loop(96, _PRIMARY)
            # A further minus is another negation rather than the sign of a literal.
            if self.la() not in _PRIMARY:
                raise self.no_viable_alternative(0)
            if self.la() != "-":
                break
            if self.la(1) not in _PRIMARY:
                raise self.no_viable_alternative(1)
        self.call(98, self._member, _ENDS)

    def _member(self) -> None:
        self.call(102, self._primary, _MEMBER_ENDS)
        while self.la() in (".", "["):
            self.state = 126
            if self.la() == "[":
                self.match(119, "[")
                self.sync(121, _EXPR | {"?"})
                if self.la() == "?":
                    self.match(120, "?")
                self.call(123, self._expr, frozenset({"]"}))
                self.match(124, "]", _MEMBER_ENDS)
            elif self.la(1) not in _FIELD:
                raise self.no_viable_alternative(1)
            elif self.la(1) == IDENTIFIER and self.la(2) == "(":
                self.match(111, ".")
                self.match(112, IDENTIFIER)
                self.match(113, "(")
                self._arguments(115)
                self.match(117, ")", _MEMBER_ENDS)
            else:
                self.match(105, ".")
                if self.la() == "?":
                    self.match(106, "?")
                offset = self.token(0).offset
                self._name_problem = _NO_NAME
                self.call(109, self._escape_ident, _MEMBER_ENDS)
                if self._name_problem:
                    self.names.append((offset, self._name_problem))

    def _arguments(self, state: int) -> None:
        self.sync(state, _EXPR | {")"})
        if self.la() in _EXPR:
            self.call(state - 1, self._expr_list, frozenset({")"}))

    def _primary(self) -> None:
        self.sync(184, _PRIMARY)
        kind = self.la()
        if kind in (".", IDENTIFIER):
            self._name()
        elif kind == "(":
            self.match(144, "(")
            self.call(145, self._expr, frozenset({")"}))
            self.match(146, ")")
        elif kind == "[":
            self.match(148, "[")
            self._entries(150, self._list_init, _EXPR | {"?"}, "]")
        elif kind == "{":
            self.match(156, "{")
            self._entries(158, self._map_initializer_list, _EXPR | {"?"}, "}")
        elif kind in _LITERALS:
            self.call(183, self._literal, _ENDS)
        else:
            raise self.no_viable_alternative(0)

    def _name(self) -> None:
        """A variable, a call or an object; it is an object if a brace follows the names and dots."""
        first = 0
        start = self.token(0).offset
        if self.la() == ".":
            if self.la(1) != IDENTIFIER:
                raise self.no_viable_alternative(1)
            first = 1
        last = first
        while self.la(last + 1) == "." and self.la(last + 2) == IDENTIFIER:
            last += 2
        if self.la(last + 1) == "{":
            while self.la() != "{":
                self.match(167, self.la())
            self.match(175, "{")
            self._entries(177, self._field_initializer_list, _FIELD, "}")
            return
        if first:
            self.match(131, ".")
        if self.la() == IDENTIFIER and self.token(0).text in RESERVED:
            self.names.append((start, f"reserved identifier: {self.token(0).text}"))
        self.match(134, IDENTIFIER)
        if self.la() == "(":
            self.match(139, "(")
            self._arguments(141)
            self.match(143, ")")

    def _entries(self, state: int, rule: Callable[[], None], first: frozenset[str], end: str) -> None:
        """The content of brackets or braces: optional entries and an optional comma."""
        ends = frozenset({",", end})
        self.sync(state, first | ends)
        if self.la() in first:
            self.call(state - 1, rule, ends)
        self.sync(state + 3, ends)
        if self.la() == ",":
            self.match(state + 2, ",")
        self.match(state + 5, end)

    def _expr_list(self) -> None:
        self.call(186, self._expr, frozenset({",", RULE_END}))
        while self.la() == ",":
            self.match(187, ",")
            self.call(188, self._expr, frozenset({",", RULE_END}))

    # The following three leave a trailing comma to the caller.

    def _list_init(self) -> None:
        self.call(194, self._opt_expr, frozenset({",", RULE_END}))
        while self.la() == "," and self.la(1) in _EXPR | {"?"}:
            self.match(195, ",")
            self.call(196, self._opt_expr, frozenset({",", RULE_END}))

    def _field_initializer_list(self) -> None:
        start = self.token(0).offset
        self._field(202, start)
        while self.la() == "," and self.la(1) in _FIELD:
            self.match(205, ",")
            self._field(206, start)

    def _field(self, state: int, start: int) -> None:
        self._name_problem = _NO_NAME
        self.call(state, self._opt_field, frozenset({":"}))
        problem = self._name_problem
        self.match(state + 1, ":", _EXPR)
        self.call(state + 2, self._expr, frozenset({",", RULE_END}))
        # Upstream checks only the names of complete fields, and reports all at the place of the first one.
        if problem:
            self.names.append((start, problem))

    def _map_initializer_list(self) -> None:
        self._entry(220)
        while self.la() == "," and self.la(1) in _EXPR | {"?"}:
            self.match(223, ",")
            self._entry(224)

    def _entry(self, state: int) -> None:
        self.call(state, self._opt_expr, frozenset({":"}))
        self.match(state + 1, ":", _EXPR)
        self.call(state + 2, self._expr, frozenset({",", RULE_END}))

    def _opt_field(self) -> None:
        self.sync(216, _FIELD)
        if self.la() == "?":
            self.match(215, "?")
        self.call(218, self._escape_ident, _ENDS)

    def _opt_expr(self) -> None:
        self.sync(238, _EXPR | {"?"})
        if self.la() == "?":
            self.match(237, "?")
        self.call(240, self._expr, _ENDS)

    def _escape_ident(self) -> None:
        names = frozenset({IDENTIFIER, QUOTED})
        self.sync(235, names)
        if self.la() not in names:
            raise self.no_viable_alternative(0)
        self._name_problem = "unsupported syntax: '`'" if self.la() == QUOTED else ""
        self.match(233, self.la())

    def _literal(self) -> None:
        self.sync(256, _LITERALS)
        if self.la() == "-":
            if self.la(1) not in (INT, FLOAT):
                raise self.no_viable_alternative(1)
            self.match(242, "-")
        self.match(245, self.la())
