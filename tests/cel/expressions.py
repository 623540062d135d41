"""Expressions at random: well typed but for a few, over given variables and functions, and texts that are nearly expressions.

All comes from the `random.Random` that is given, so that a seed, or hypothesis, decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

from aggserver.cel.declarations import Overload, functions
from aggserver.cel.parser import parse
from aggserver.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    Kind,
    Type,
    list_of,
    map_of,
    object_type,
    opaque,
    optional_of,
)

# The first expression raises Python's limit of recursion, which hypothesis wants left alone while it runs.
parse("true")

__all__ = ["LEAVES", "PIECES", "SCALARS", "Expressions", "mutated"]

SCALARS = (BOOL, INT, UINT, DOUBLE, STRING, BYTES, TIMESTAMP, DURATION)
_OPAQUE = tuple(map(opaque, ("net.IP", "net.CIDR", "kubernetes.URL", "kubernetes.Quantity", "kubernetes.Semver")))
_KEYS = (STRING, STRING, INT, UINT, BOOL)

LEAVES: Mapping[Type, Sequence[str]] = {
    BOOL: ("true", "false", "b", "1 < i"),
    INT: ("0", "1", "-1", "2", "7", "i", "a.b.c", "o.a", "o.p.x", "9223372036854775807", "-9223372036854775808", "m['x']"),
    UINT: ("0u", "1u", "3u", "u", "18446744073709551615u"),
    DOUBLE: ("0.0", "-0.0", "1.5", "2.0", "f", "1e308", "-1e-7", "9223372036854775807.0", "0.1", "double('NaN')", "1.0 / 0.0"),
    STRING: (
        *("''", "'a'", "'bb'", "s", "o.b", "'é😀'", "'a,b,,c'", "'%d %s %.2f'", "'10.0.0.1'", "'fe80::1'", "'10.0.0.0/8'"),
        *("'1.2.3-rc.1'", "'100Mi'", "'2024-02-29T23:59:59Z'", "'1h30m'", "'http://u@h:80/p?q=1'", "'[a-z]+'", "'true'", "'12'"),
        *("'-1.5'", "'my-name'", "'America/New_York'", "'+02:00'", "ms['x']", "l[0]", "o.lo[0].k", "'line\\nbreak'", "'\\u00e9'"),
    ),
    BYTES: ("b''", "b'a'", "by", "b'\\xff\\x00'", "b'\\303\\251'"),
    TIMESTAMP: ("t", "o.p.t", "timestamp('2024-02-29T23:59:59.5Z')", "timestamp(0)", "timestamp('9999-12-31T23:59:59Z')"),
    DURATION: ("du", "duration('1h30m')", "duration('-1ns')", "duration('0s')", "duration('292y')"),
    NULL: ("null", "d.n"),
    DYN: (
        "d",
        "d.k",
        "d.l",
        "d.s",
        "d.missing",
        "ld[0]",
        "ld[1]",
        "ld[5]",
        "ld[9]",
        "o.d",
        "dyn(1)",
        "dyn('a')",
        "d.n",
        "dyn([1])",
    ),
    TYPE: ("int", "string", "type(d)", "list", "map", "null_type", "google.protobuf.Timestamp", "type"),
    object_type("Obj"): ("o",),
    object_type("Obj.lo.@idx"): ("o.lo[0]", "o.lo[1]", "o.lo[i]"),
    list_of(STRING): ("l", "o.l", "['b', 'a']", "o.m.map(k, k)"),
    list_of(INT): ("li", "[1, 2, 3]", "ll[0]", "o.lo[0].v", "o.lo[1].v"),
    list_of(list_of(INT)): ("ll",),
    list_of(DYN): ("ld", "[]"),
    list_of(object_type("Obj.lo.@idx")): ("o.lo",),
    map_of(STRING, INT): ("m", "{'x': 1, 'y': 2}"),
    map_of(STRING, STRING): ("ms", "o.m"),
    map_of(STRING, DYN): ("{}", "dyn({'a': 1})"),
    optional_of(INT): ("o.?a", "m[?'x']", "li[?5]", "optional.none()"),
    optional_of(STRING): ("o.?b", "l[?0]", "o.?m.k", "o.?lo[0].?k", "o.?m[?'z']"),
    optional_of(DYN): ("d.?k", "d.?missing.x", "ld[?1]", "optional.none()"),
    opaque("net.IP"): ("ip('10.0.0.1')", "ip('::1')", "ip('fe80::1')", "ip('nonsense')"),
    opaque("net.CIDR"): ("cidr('10.0.0.0/8')", "cidr('2001:db8::/32')", "cidr('10.1.2.3/8')"),
    opaque("kubernetes.URL"): ("url('https://user@example.com:80/p%20q?a=1&a=2#f')", "url('/only/path')"),
    opaque("kubernetes.Quantity"): (
        "quantity('100Mi')",
        "quantity('0.5')",
        "quantity('-1e3')",
        "quantity('12345678901234567890Ei')",
    ),
    opaque("kubernetes.Semver"): ("semver('1.2.3')", "semver('1.2.3-rc.1+b')", "semver('v1.2', true)"),
    opaque("kubernetes.NamedFormat"): ("format.dns1123Label()", "format.named('uuid').value()", "format.uri()", "format.date()"),
}
"""By type, what needs no further parts: literals, and the variables of `environment.py`."""

_BINARY = {"_+_", "_-_", "_*_", "_/_", "_%_", "_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "_&&_", "_||_", "@in"}
_HIDDEN = {"cel.@mapInsert", "@not_strictly_false", "@sortByAssociatedKeys"}


class Expressions:
    """`leaves`, `overloads`, `macros` and `fields` (of `has`) are the vocabulary.

    `wrong` is the share of parts that are of another type than is wanted.
    """

    def __init__(
        self,
        random: Random,
        *,
        leaves: Mapping[Type, Sequence[str]] = LEAVES,
        overloads: Mapping[str, Sequence[Overload]] | None = None,
        macros: Sequence[str] = ("one", "two", "optional", "sortBy"),
        fields: Sequence[str] = ("o.a", "o.p.x", "o.m", "d.k", "d.missing", "m.x", "o.m.k"),
        wrong: float = 0.02,
    ) -> None:
        self._random = random
        self._leaves = leaves
        self._overloads = functions() if overloads is None else overloads
        self._macros = macros
        self._fields = fields
        self._wrong = wrong
        self._scope: list[tuple[str, Type]] = []
        self._names = 0
        self._by_result: dict[Type, list[tuple[str, Overload, dict[Type, Type]]]] = {}

    def expression(self, depth: int = 3) -> str:
        return self._of(self._type(2), depth)

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _type(self, depth: int = 1) -> Type:
        """Any type, most often bool."""
        choice = self._random.randrange(12)
        if depth and choice == 0:
            return list_of(self._type(depth - 1))
        if depth and choice == 1:
            return map_of(self._random.choice(_KEYS), self._type(depth - 1))
        if depth and choice == 2 and "optional" in self._macros:
            return optional_of(self._random.choice(SCALARS))
        if choice == 3 and any(type_ in self._leaves for type_ in _OPAQUE):
            return self._random.choice(_OPAQUE)
        return DYN if choice == 4 else BOOL if choice > 9 else self._random.choice([*SCALARS, INT, STRING])

    def _of(self, type_: Type, depth: int) -> str:
        if self._chance(self._wrong):
            other = self._of(self._type(), depth - 1)
            return f"dyn({other})" if "dyn" in self._overloads and self._chance(0.7) else other
        choice = self._random.random()
        if depth <= 0 or choice < 0.1:
            return self._leaf(type_, depth)
        if choice < 0.15:
            return f"({self._of(BOOL, depth - 1)} ? {self._of(type_, depth - 1)} : {self._of(type_, depth - 1)})"
        if choice < 0.4 and (made := self._macro(type_, depth)):
            return made
        if choice < 0.5 and type_.kind in (Kind.LIST, Kind.MAP):
            return self._literal(type_, depth)
        return self._call(type_, depth)

    def _leaf(self, type_: Type, depth: int) -> str:
        local = [name for name, known in self._scope if known == type_]
        if local and self._chance(0.6):
            return self._random.choice(local)
        if type_ in self._leaves:
            return self._random.choice(self._leaves[type_])
        return self._literal(type_, depth)

    def _literal(self, type_: Type, depth: int) -> str:
        count = self._random.randrange(3)
        if type_.kind is Kind.LIST:
            items = [self._of(type_.element, depth - 1) for _ in range(count)]
            return f"[{', '.join(items)}]"
        if type_.kind is Kind.MAP:
            key, value = type_.parameters
            return "{" + ", ".join(f"{self._leaf(key, 0)}: {self._of(value, depth - 1)}" for _ in range(count)) + "}"
        if type_.is_optional:
            return f"optional.of({self._of(type_.element, depth - 1)})"
        return self._random.choice(self._leaves[DYN])

    # Calls

    def _call(self, type_: Type, depth: int) -> str:
        found = self._candidates(type_)
        if not found:
            return self._leaf(type_, depth)
        function, overload, bound = self._random.choice(found)
        own: dict[Type, Type] = dict(bound)
        keys = {arg.parameters[0] for arg in overload.args if arg.kind is Kind.MAP}
        for param in overload.params:
            own.setdefault(param, self._random.choice(_KEYS) if param in keys else self._type())
        args = [self._of(_put(own, arg), depth - 1) for arg in overload.args]
        return _written(function, overload.is_member, args)

    def _candidates(self, type_: Type) -> list[tuple[str, Overload, dict[Type, Type]]]:
        if type_ not in self._by_result:
            self._by_result[type_] = [
                (function, overload, bound)
                for function, overloads in self._overloads.items()
                if function not in _HIDDEN
                for overload in overloads
                if not any("authorization" in arg.name for arg in overload.args)
                and (bound := _match(overload.result, type_, {})) is not None
            ]
        return self._by_result[type_]

    # Macros

    def _macro(self, type_: Type, depth: int) -> str:
        """'' where none gives that type."""
        made: list[Callable[[int], str]] = []
        if "one" in self._macros and type_ == BOOL:
            made += [self._quantifier]
        if "one" in self._macros and type_.kind is Kind.LIST:
            made += [lambda depth: self._map(type_, depth), lambda depth: self._filter(type_, depth)]
        if "two" in self._macros and type_ == BOOL:
            made += [self._quantifier_of_two]
        if "two" in self._macros and type_.kind in (Kind.LIST, Kind.MAP):
            made += [lambda depth: self._transform(type_, depth)]
        if "optional" in self._macros and type_.is_optional:
            made += [lambda depth: self._opt_map(type_, depth)]
        if "sortBy" in self._macros and type_.kind is Kind.LIST:
            made += [lambda depth: self._sort_by(type_, depth)]
        return self._random.choice(made)(depth - 1) if made else ""

    def _within(self, variables: Sequence[tuple[str, Type]], type_: Type, depth: int) -> str:
        self._scope += variables
        text = self._of(type_, depth)
        del self._scope[-len(variables) :]
        return text

    def _name(self) -> str:
        self._names += 1
        return f"x{self._names}"

    def _range(self, depth: int) -> tuple[str, Type, Type]:
        """A list or map, with the types of its indexes or keys and its elements or values."""
        if self._chance(0.7):
            element = self._type()
            return self._of(list_of(element), depth), INT, element
        key, value = self._random.choice(_KEYS), self._type()
        return self._of(map_of(key, value), depth), key, value

    def _quantifier(self, depth: int) -> str:
        if self._chance(0.2):
            return f"has({self._random.choice(self._fields)})"
        range_, key, element = self._range(depth)
        name = self._name()
        macro = self._random.choice(("all", "exists", "exists_one"))
        variable = (name, key if range_.startswith("{") else element)
        return f"{range_}.{macro}({name}, {self._within([variable], BOOL, depth)})"

    def _quantifier_of_two(self, depth: int) -> str:
        range_, key, element = self._range(depth)
        first, second = self._name(), self._name()
        macro = self._random.choice(("all", "exists", "existsOne", "exists_one"))
        return f"{range_}.{macro}({first}, {second}, {self._within([(first, key), (second, element)], BOOL, depth)})"

    def _map(self, type_: Type, depth: int) -> str:
        element, name = self._type(), self._name()
        range_ = self._of(list_of(element), depth)
        filter_ = f"{self._within([(name, element)], BOOL, depth)}, " if self._chance(0.3) else ""
        return f"{range_}.map({name}, {filter_}{self._within([(name, element)], type_.element, depth)})"

    def _filter(self, type_: Type, depth: int) -> str:
        name = self._name()
        return f"{self._of(type_, depth)}.filter({name}, {self._within([(name, type_.element)], BOOL, depth)})"

    def _transform(self, type_: Type, depth: int) -> str:
        range_, key, element = self._range(depth)
        first, second = self._name(), self._name()
        variables = [(first, key), (second, element)]
        filter_ = f"{self._within(variables, BOOL, depth)}, " if self._chance(0.3) else ""
        if type_.kind is Kind.LIST:
            macro, result = "transformList", self._within(variables, type_.element, depth)
        elif self._chance(0.5):
            macro, result = "transformMap", self._within(variables, type_.element, depth)
        else:
            macro, result = "transformMapEntry", self._within(variables, type_, depth)
        return f"{range_}.{macro}({first}, {second}, {filter_}{result})"

    def _opt_map(self, type_: Type, depth: int) -> str:
        element, name = self._type(), self._name()
        macro, wanted = self._random.choice((("optMap", type_.element), ("optFlatMap", type_)))
        target = self._of(optional_of(element), depth)
        return f"{target}.{macro}({name}, {self._within([(name, element)], wanted, depth)})"

    def _sort_by(self, type_: Type, depth: int) -> str:
        name = self._name()
        key = self._random.choice(SCALARS)
        return f"{self._of(type_, depth)}.sortBy({name}, {self._within([(name, type_.element)], key, depth)})"


def _match(pattern: Type, type_: Type, bound: dict[Type, Type]) -> dict[Type, Type] | None:
    """What the parameters of the pattern stand for if it is to be the type; None if it can't."""
    if pattern.kind is Kind.PARAM:
        return bound if bound.setdefault(pattern, type_) == type_ else None
    if pattern.kind is not type_.kind or pattern.name != type_.name or len(pattern.parameters) != len(type_.parameters):
        return None
    for part, wanted in zip(pattern.parameters, type_.parameters, strict=True):
        if _match(part, wanted, bound) is None:
            return None
    return bound


def _put(bound: Mapping[Type, Type], type_: Type) -> Type:
    if type_.kind is Kind.PARAM:
        return bound[type_]
    return Type(type_.kind, type_.name, tuple(_put(bound, part) for part in type_.parameters), type_.runtime_name)


def _written(function: str, is_member: bool, args: Sequence[str]) -> str:
    if function in _BINARY:
        return f"({args[0]} {'in' if function == '@in' else function.strip('_')} {args[1]})"
    match function:
        case "_?_:_":
            return f"({args[0]} ? {args[1]} : {args[2]})"
        case "!_" | "-_":
            return f"{function[0]}({args[0]})"
        case "_[_]":
            return f"({args[0]})[{args[1]}]"
        case "_[?_]":
            return f"({args[0]})[?{args[1]}]"
    if is_member:
        return f"({args[0]}).{function}({', '.join(args[1:])})"
    return f"{function}({', '.join(args)})"


PIECES = (
    *(
        "a",
        "i",
        "1",
        "1.5",
        "2u",
        "'s'",
        "b'x'",
        "true",
        "null",
        "in",
        "for",
        "has(",
        "f(",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ".",
        ",",
    ),
    *(
        "-",
        "!",
        "?",
        ":",
        "+",
        "*",
        "&&",
        "||",
        "==",
        "<",
        " ",
        "\n",
        "#",
        "'",
        "`q`",
        ".b",
        ".all(x, ",
        "a.b{",
        "// c\n",
        ".?",
        "[?",
    ),
    *(".map(1, ", ".optMap(", "é", "\x00", "\\", '"""', "r'", "0x", "1e", "__result__", "@result", "\t", "$", "&", "|", "="),
)


def mutated(random: Random, text: str) -> str:
    """The text with a few pieces put in, taken out or doubled."""
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(text) + 1)
        end = min(len(text), at + random.choice((0, 0, 1, 1, 2, 5)))
        choice = random.randrange(4)
        piece = "" if choice == 0 else random.choice(PIECES) if choice < 3 else text[at : at + random.randrange(8)]
        text = text[:at] + piece + text[end:]
    return text
