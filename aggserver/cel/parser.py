"""The parser: source text to a syntax tree, with macros expanded.

A recursive descent parser for valid sources; for an invalid one, `syntax.py` finds the errors with ANTLR's messages. Ids are
given in the order of cel-go's parser, since types and costs are keyed by id and tests compare them with cel-go's.
Source: cel-go parser/parser.go and parser/gen/CEL.g4, v0.26.0, with the options of k8s.io/apiserver pkg/cel/environment,
v0.36.3 (optional syntax, no identifiers in backticks).
"""

from __future__ import annotations

import math
import sys

from aggserver.cel.ast import Call, Expr, Ident, List, Literal, Map, MapEntry, Numbers, Select, Struct, StructField
from aggserver.cel.errors import NOWHERE, CompileError, Errors
from aggserver.cel.lexer import BAD, END, FLOAT, IDENTIFIER, INT, QUOTED, STRING, Token, tokens, unescape, unescape_bytes
from aggserver.cel.macros import MACROS, MacroError, Maker
from aggserver.cel.recovery import MAX_DEPTH
from aggserver.cel.syntax import RESERVED, explain

__all__ = ["MAX_SIZE", "parse"]

MAX_SIZE = 100_000
"""In code points. cel-go's default, which Kubernetes keeps."""

# Python frames, with room for the callers: the rules of the grammar may nest MAX_DEPTH times each, and later walks over the
# tree take up to three frames for a node. Python's default limit of 1,000 would be reached first.
_FRAMES = 10_000
# Calls in a row, as in `s.trim().trim()`, are levels of the tree that cel-go does not count. The first _FREE_CALLS of each row
# are free; an expression may have _MOST_CALLS beyond these in all, so that _FRAMES suffices for the deepest tree.
_FREE_CALLS = 8
_MOST_CALLS = 500

_RELATIONS = {"<": "_<_", "<=": "_<=_", ">": "_>_", ">=": "_>=_", "==": "_==_", "!=": "_!=_", "in": "@in"}
_SUMS = {"+": "_+_", "-": "_-_"}
_PRODUCTS = {"*": "_*_", "/": "_/_", "%": "_%_"}
_CALCULATIONS = {**_SUMS, **_PRODUCTS}
_INT_DIGITS = 20


class _Unexpected(Exception):
    """A token that can't continue an expression."""


class _TooDeep(Exception):
    pass


def parse(source: str) -> Expr:
    """Parse an expression to its syntax tree.

    Raises:
        CompileError: it is too long, too deep or no expression, or has an invalid literal or macro.
    """
    if sys.getrecursionlimit() < _FRAMES:
        sys.setrecursionlimit(_FRAMES)
    errors = Errors(source)
    source = errors.source
    if len(source) > MAX_SIZE:
        errors.add(NOWHERE, f"expression code point size exceeds limit: size: {len(source)}, limit {MAX_SIZE}")
        errors.raise_any()
    read = list(tokens(source))
    try:
        if any(token.kind == BAD for token in read):
            raise _Unexpected
        expr = _Parser(read, errors).parse()
    except _Unexpected:
        # Drop the errors found so far, since `explain` reports those of an invalid source.
        errors = Errors(source)
        explain(source, read, errors)
        raise CompileError(str(errors)) from None
    except _TooDeep as error:
        errors.add(NOWHERE, str(error))
        raise CompileError(str(errors)) from None
    errors.raise_any()
    return expr


class _Parser:
    def __init__(self, read: list[Token], errors: Errors) -> None:
        self._tokens = read
        self._at = 0
        self._token = read[0]
        self._errors = errors
        self._numbers = Numbers()
        # The current depth of each recursive rule, as ANTLR's listener counts it.
        self._depths = {"expr": 0, "relation": 0, "calc": 0}
        # The depth of the tree parsed last, as cel-go's visitor counts it: operators, selections and indexes.
        self._depth = 0
        # The calls in rows beyond the free ones, in the whole expression.
        self._calls = 0

    def parse(self) -> Expr:
        result = self._expr()
        if self._token.kind != END:
            raise _Unexpected
        if self._depth > MAX_DEPTH:
            raise _TooDeep("max recursion depth exceeded")
        return result

    def _next(self) -> Token:
        token = self._token
        if token.kind == END:
            raise _Unexpected
        self._at += 1
        self._token = self._tokens[self._at]
        return token

    def _expect(self, kind: str) -> Token:
        if self._token.kind != kind:
            raise _Unexpected
        return self._next()

    def _accept(self, kind: str) -> bool:
        if self._token.kind != kind:
            return False
        self._next()
        return True

    def _enter(self, rule: str) -> None:
        self._depths[rule] += 1
        if self._depths[rule] > MAX_DEPTH:
            raise _TooDeep(f"expression recursion limit exceeded: {MAX_DEPTH}")

    # The rules of the grammar. Each leaves the depth of its tree in self._depth.

    def _expr(self) -> Expr:
        self._enter("expr")
        result = self._or()
        if self._token.kind == "?":
            depth = self._depth
            number, offset = self._operator()
            then = self._or()
            depth = max(depth, self._depth)
            self._expect(":")
            otherwise = self._expr()
            self._depth = 1 + max(depth, self._depth)
            result = Call(number, offset, "_?_:_", None, (result, then, otherwise))
        self._depths["expr"] -= 1
        return result

    def _or(self) -> Expr:
        terms = [self._and()]
        operators: list[tuple[int, int]] = []
        depth = self._depth
        while self._token.kind == "||":
            offset = self._next().offset
            terms.append(self._and())
            operators.append((self._numbers.next(), offset))
            depth = max(depth, self._depth)
        self._depth = depth
        return _balanced("_||_", terms, operators)

    def _and(self) -> Expr:
        terms = [self._relation()]
        operators: list[tuple[int, int]] = []
        depth = self._depth
        while self._token.kind == "&&":
            offset = self._next().offset
            terms.append(self._relation())
            operators.append((self._numbers.next(), offset))
            depth = max(depth, self._depth)
        self._depth = depth
        return _balanced("_&&_", terms, operators)

    def _relation(self) -> Expr:
        self._enter("relation")
        result = self._calc(_CALCULATIONS)
        while function := _RELATIONS.get(self._token.kind):
            depth = self._depth
            number, offset = self._operator()
            # ANTLR counts the right side as a relation too, but it has no relational operators.
            self._enter("relation")
            right = self._calc(_CALCULATIONS)
            self._depths["relation"] -= 1
            self._depth = 1 + max(depth, self._depth)
            result = Call(number, offset, function, None, (result, right))
        self._depths["relation"] -= 1
        return result

    def _calc(self, operators: dict[str, str]) -> Expr:
        """A sum or product with these operators."""
        self._enter("calc")
        result = self._unary()
        while function := operators.get(self._token.kind):
            depth = self._depth
            binds = {} if self._token.kind in _PRODUCTS else _PRODUCTS
            number, offset = self._operator()
            right = self._calc(binds)
            self._depth = 1 + max(depth, self._depth)
            result = Call(number, offset, function, None, (result, right))
        self._depths["calc"] -= 1
        return result

    def _operator(self) -> tuple[int, int]:
        """Take an operator; return its id and offset."""
        return self._numbers.next(), self._next().offset

    def _unary(self) -> Expr:
        kind = self._token.kind
        if kind not in ("!", "-") or (kind == "-" and self._tokens[self._at + 1].kind in (INT, FLOAT)):
            return self._member()
        offset = self._token.offset
        odd = False
        while self._accept(kind):
            odd = not odd
        if not odd:
            return self._member()
        number = self._numbers.next()
        return Call(number, offset, f"{kind}_", None, (self._member(),))

    def _member(self) -> Expr:
        result = self._primary()
        length = 0
        while self._token.kind in (".", "["):
            result = self._index(result) if self._token.kind == "[" else self._select(result)
            length += 1
            self._calls += length > _FREE_CALLS
            if self._calls > _MOST_CALLS:
                raise _TooDeep("max recursion depth exceeded")
        return result

    def _index(self, target: Expr) -> Expr:
        depth = self._depth
        number, offset = self._operator()
        function = "_[?_]" if self._accept("?") else "_[_]"
        index = self._expr()
        self._expect("]")
        self._depth = 1 + max(depth, self._depth)
        return Call(number, offset, function, None, (target, index))

    def _select(self, operand: Expr) -> Expr:
        offset = self._next().offset
        optional = self._accept("?")
        if self._token.kind not in (IDENTIFIER, QUOTED):
            raise _Unexpected
        name = self._next()
        if self._token.kind == "(" and not optional and name.kind == IDENTIFIER:
            depth = self._depth
            number, place = self._operator()
            args = self._arguments()
            self._depth = max(depth, self._depth)
            return self._call(number, place, name.text, operand, args)
        self._depth += 1
        if name.kind == QUOTED:
            self._errors.add(name.offset, "unsupported syntax: '`'")
        if optional:
            field = Literal(self._numbers.next(), name.offset, name.text, "string")
            return Call(self._numbers.next(), offset, "_?._", None, (operand, field))
        return Select(self._numbers.next(), offset, operand, name.text)

    def _arguments(self) -> tuple[Expr, ...]:
        """The arguments up to the closing parenthesis; the opening one has been taken."""
        self._depth = 0
        if self._accept(")"):
            return ()
        args = [self._expr()]
        depth = self._depth
        while self._accept(","):
            args.append(self._expr())
            depth = max(depth, self._depth)
        self._expect(")")
        self._depth = depth
        return tuple(args)

    def _call(self, number: int, offset: int, function: str, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
        macro = MACROS.get((function, len(args), target is not None))
        if macro is None:
            return Call(number, offset, function, target, args)
        try:
            return macro(Maker(self._numbers, offset), target, args)
        except MacroError as error:
            return self._wrong(error.expr.offset, str(error))

    def _primary(self) -> Expr:
        token = self._token
        self._depth = 0
        match token.kind:
            case "(":
                self._next()
                result = self._expr()
                self._expect(")")
                return result
            case "[":
                return self._list()
            case "{":
                return self._map()
            case "." | "IDENTIFIER":
                return self._name()
            case _:
                return self._literal()

    def _name(self) -> Expr:
        """A variable, a function call, or an object, each possibly with a leading dot or a qualified name."""
        first = self._token
        dot = "." if self._accept(".") else ""
        name = self._expect(IDENTIFIER)
        if self._token.kind == "(":
            if name.text in RESERVED:
                self._next()
                self._arguments()
                return self._wrong(first.offset, f"reserved identifier: {name.text}")
            number, offset = self._operator()
            return self._call(number, offset, dot + name.text, None, self._arguments())
        if (end := self._struct_name_end()) is not None:
            parts = [name.text]
            while self._at < end:
                self._next()
                parts.append(self._next().text)
            return self._struct(dot + ".".join(parts))
        if name.text in RESERVED:
            return self._wrong(first.offset, f"reserved identifier: {name.text}")
        return Ident(self._numbers.next(), name.offset, dot + name.text)

    def _struct_name_end(self) -> int | None:
        """The position of an object's opening brace, if the next tokens are the rest of its name; else None."""
        at = self._at
        while self._tokens[at].kind == "." and self._tokens[at + 1].kind == IDENTIFIER:
            at += 2
        return at if self._tokens[at].kind == "{" else None

    def _list(self) -> List:
        number, offset = self._operator()
        elements: list[Expr] = []
        optional: list[int] = []
        depth = 0
        while self._token.kind not in ("]", ","):
            if self._accept("?"):
                optional.append(len(elements))
            elements.append(self._expr())
            depth = max(depth, self._depth)
            if self._token.kind != "," or self._tokens[self._at + 1].kind == "]":
                break
            self._next()
            if self._token.kind == ",":
                raise _Unexpected
        self._accept(",")
        self._expect("]")
        self._depth = depth
        return List(number, offset, tuple(elements), tuple(optional))

    def _map(self) -> Map:
        number, offset = self._operator()
        entries: list[MapEntry] = []
        depth = 0
        while self._token.kind not in ("}", ","):
            optional = self._accept("?")
            # The entry's id comes before those of its key, though its offset is that of the colon after the key.
            own = self._numbers.next()
            key = self._expr()
            depth = max(depth, self._depth)
            place = self._expect(":").offset
            entries.append(MapEntry(own, place, key, self._expr(), optional))
            depth = max(depth, self._depth)
            if not self._another("}"):
                break
        self._accept(",")
        self._expect("}")
        self._depth = depth
        return Map(number, offset, tuple(entries))

    def _struct(self, name: str) -> Struct:
        number, offset = self._operator()
        start = self._token.offset
        fields: list[StructField] = []
        depth = 0
        while self._token.kind not in ("}", ","):
            optional = self._accept("?")
            if self._token.kind not in (IDENTIFIER, QUOTED):
                raise _Unexpected
            field = self._next()
            if field.kind == QUOTED:
                self._errors.add(start, "unsupported syntax: '`'")
            place = self._expect(":").offset
            own = self._numbers.next()
            fields.append(StructField(own, place, field.text, self._expr(), optional))
            depth = max(depth, self._depth)
            if not self._another("}"):
                break
        self._accept(",")
        self._expect("}")
        self._depth = depth
        return Struct(number, offset, name, tuple(fields))

    def _another(self, end: str) -> bool:
        """Whether another entry follows; its comma is taken then."""
        if self._token.kind != "," or self._tokens[self._at + 1].kind == end:
            return False
        self._next()
        if self._token.kind == ",":
            raise _Unexpected
        return True

    def _literal(self) -> Expr:
        token = self._next()
        offset = token.offset
        sign = ""
        if token.kind == "-":
            sign = "-"
            token = self._next()
        text = sign + token.text
        match token.kind:
            case "NUM_INT":
                return self._int(text, offset, "int", -(2**63), 2**63 - 1)
            case "NUM_FLOAT":
                value = float(text)
                if math.isinf(value):
                    return self._wrong(offset, "invalid double literal")
                return Literal(self._numbers.next(), offset, value, "double")
            case _ if sign:
                raise _Unexpected
            case "NUM_UINT":
                return self._int(text[:-1], offset, "uint", 0, 2**64 - 1)
            case "STRING" | "BYTES":
                read = unescape if token.kind == STRING else unescape_bytes
                try:
                    content = read(text)
                except ValueError as error:
                    return self._wrong(offset, str(error))
                return Literal(self._numbers.next(), offset, content, token.kind.lower())
            case "true" | "false":
                return Literal(self._numbers.next(), offset, text == "true", "bool")
            case "null":
                return Literal(self._numbers.next(), offset, None, "null")
            case _:
                raise _Unexpected

    def _int(self, text: str, offset: int, kind: str, lowest: int, highest: int) -> Expr:
        base = 16 if "0x" in text else 10
        # Python refuses to convert thousands of digits, and a number of 64 bits has no more than these.
        digits = text.lstrip("-").removeprefix("0x").lstrip("0") or "0"
        value = int(digits, base) if len(digits) <= _INT_DIGITS else 2**64
        if text.startswith("-"):
            value = -value
        if not lowest <= value <= highest:
            return self._wrong(offset, f"invalid {kind} literal")
        return Literal(self._numbers.next(), offset, value, kind)

    def _wrong(self, offset: int, message: str) -> Literal:
        """Record an error, and continue with a literal that no macro accepts as a variable."""
        self._errors.add(offset, message)
        return Literal(self._numbers.next(), offset, None, "null")


def _balanced(function: str, terms: list[Expr], operators: list[tuple[int, int]]) -> Expr:
    """A balanced tree of `&&` or `||`, to keep it shallow, as cel-go does; the value and the cost stay the same."""
    if not operators:
        return terms[0]
    middle = len(operators) // 2
    left = _balanced(function, terms[: middle + 1], operators[:middle])
    right = _balanced(function, terms[middle + 1 :], operators[middle + 1 :])
    number, offset = operators[middle]
    return Call(number, offset, function, None, (left, right))
