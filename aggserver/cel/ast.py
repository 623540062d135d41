"""The syntax tree of a CEL expression, after macros are expanded.

Nodes are never changed: the checker makes new ones where a name turns out to be qualified. Every node has an `id`, unique in
the expression and numbered as in cel-go (the checker's tables are keyed by it), and an `offset`, the code point of the source
that an error points at.
Source: cel-spec proto/cel/expr/syntax.proto; cel-go common/ast/expr.go, v0.26.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

__all__ = [
    "ACCUMULATOR",
    "Call",
    "Comprehension",
    "Expr",
    "Ident",
    "List",
    "Literal",
    "Map",
    "MapEntry",
    "Numbers",
    "Select",
    "Struct",
    "StructField",
    "children",
    "walk",
]

ACCUMULATOR = "@result"
"""The variable in which a comprehension gathers its result. It is no valid identifier, so sources can't use it."""


class Numbers:
    """Gives out the ids of nodes: 1, 2, ..."""

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> int:
        self._last += 1
        return self._last


@dataclass(frozen=True, slots=True)
class Literal:
    id: int
    offset: int
    value: bool | int | float | str | bytes | None
    kind: str
    """null, bool, int, uint, double, string or bytes."""


@dataclass(frozen=True, slots=True)
class Ident:
    id: int
    offset: int
    name: str
    """As written, with its leading dot if it has one; after the check, the name it was resolved to."""


@dataclass(frozen=True, slots=True)
class Select:
    """`operand.field`, or `has(operand.field)` if test_only. (`operand.?field` is a call of `_?._`.)"""

    id: int
    offset: int
    operand: Expr
    field: str
    test_only: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A function, operator (`_+_`, `_?_:_`, `_[_]`, `_[?_]`, `_?._`, `!_`, `-_`, `@in`) or method with its target."""

    id: int
    offset: int
    function: str
    target: Expr | None
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class List:
    id: int
    offset: int
    elements: tuple[Expr, ...]
    optional_indices: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class MapEntry:
    id: int
    offset: int
    key: Expr
    value: Expr
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Map:
    id: int
    offset: int
    entries: tuple[MapEntry, ...]


@dataclass(frozen=True, slots=True)
class StructField:
    id: int
    offset: int
    name: str
    value: Expr
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Struct:
    id: int
    offset: int
    type_name: str
    fields: tuple[StructField, ...]


@dataclass(frozen=True, slots=True)
class Comprehension:
    """A fold: accu_var starts as accu_init and becomes loop_step for each item while loop_condition holds; the value is result.

    iter_var is the element of a list or the key of a map; where iter_var2 is not empty, iter_var is the index or key and
    iter_var2 the element or value.
    """

    id: int
    offset: int
    iter_range: Expr
    iter_var: str
    iter_var2: str
    accu_var: str
    accu_init: Expr
    loop_condition: Expr
    loop_step: Expr
    result: Expr
    macro: str = ""
    """The macro it was expanded from, so that the generator can write simpler code than a fold.

    all, exists, exists_one (also existsOne), map (two or three arguments), filter, transformList, transformMap,
    transformMapEntry, or bind (optMap, optFlatMap, sortBy), which has no loop: it only binds accu_var to accu_init in result.
    """


Expr: TypeAlias = Literal | Ident | Select | Call | List | Map | Struct | Comprehension


def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct subexpressions, in the order of the source."""
    match expr:
        case Select():
            return (expr.operand,)
        case Call():
            return expr.args if expr.target is None else (expr.target, *expr.args)
        case List():
            return expr.elements
        case Map():
            return tuple(part for entry in expr.entries for part in (entry.key, entry.value))
        case Struct():
            return tuple(field.value for field in expr.fields)
        case Comprehension():
            return (expr.iter_range, expr.accu_init, expr.loop_condition, expr.loop_step, expr.result)
        case _:
            return ()


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and all its subexpressions, parents before children."""
    waiting = [expr]
    while waiting:
        expr = waiting.pop()
        yield expr
        waiting.extend(reversed(children(expr)))
