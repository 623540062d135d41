"""The environment of the tables of cases, and how they write trees."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from aggserver.cel.ast import Call, Comprehension, Expr, Ident, List, Literal, Map, Select, Struct
from aggserver.cel.checker import Environment
from aggserver.cel.ranges import Range
from aggserver.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_of,
    map_of,
    object_type,
)
from aggserver.cel.values import Duration, Timestamp, Uint

__all__ = ["ENVIRONMENT", "SIZES", "VALUES", "Sizes", "cases", "show"]

_OBJECTS: dict[str, dict[str, Type]] = {
    "Obj": {
        "a": INT,
        "b": STRING,
        "l": list_of(STRING),
        "m": map_of(STRING, STRING),
        "p": object_type("Obj.p"),
        "lo": list_of(object_type("Obj.lo.@idx")),
        "d": DYN,
    },
    "Obj.p": {"x": INT, "t": TIMESTAMP},
    "Obj.lo.@idx": {"k": STRING, "v": list_of(INT)},
}


class _Objects:
    def fields(self, type_name: str) -> Mapping[str, Type] | None:
        return _OBJECTS.get(type_name)


ENVIRONMENT = Environment(
    {
        "s": STRING,
        "i": INT,
        "u": UINT,
        "f": DOUBLE,
        "b": BOOL,
        "by": BYTES,
        "t": TIMESTAMP,
        "du": DURATION,
        "l": list_of(STRING),
        "li": list_of(INT),
        "ll": list_of(list_of(INT)),
        "m": map_of(STRING, INT),
        "ms": map_of(STRING, STRING),
        "d": DYN,
        "ld": list_of(DYN),
        "o": object_type("Obj"),
        "a.b.c": INT,
    },
    _Objects(),
)

VALUES = {
    "s": "tacocat",
    "i": -3,
    "u": Uint(7),
    "f": 2.5,
    "b": True,
    "by": b"123",
    "t": Timestamp(1_234_567_890_123_456_789),
    "du": Duration(5_400_000_000_000),
    "l": ["b", "a", "b"],
    "li": [3, 1, 2],
    "ll": [[1], [2, 3]],
    "m": {"a": 1, "b": 2},
    "ms": {"k": "v"},
    "d": {"n": None, "list": [1, "x"], "yes": True, "deep": {"er": 5}},
    "ld": [1, "a", None, 2.0],
}
"""Of the variables, but for objects, which tests/schema has."""

SIZES = {
    "s": Range(0, 100),
    "l": Range(0, 20),
    "l.@items": Range(0, 10),
    "m": Range(0, 30),
    "o.l": Range(1, 5),
    "o.l.@items": Range(2, 50),
    "o.b": Range(0, 1000),
    "o.lo": Range(0, 7),
    "o.lo.@items.k": Range(0, 9),
    "o.lo.@items.v": Range(0, 3),
    "by": Range(0, 64),
    "o.m": Range(0, 4),
    "o.m.@keys": Range(1, 6),
    "o.m.@values": Range(0, 8),
}


class Sizes:
    """What is in SIZES has these sizes, nothing else has any."""

    def size(self, path: tuple[str, ...]) -> Range | None:
        return SIZES.get(".".join(path))


def cases(name: str) -> list[tuple[str, str, str]]:
    """The rule, expression and expectation of each case of a table."""
    path = Path(__file__).parents[1] / "cases" / "cel" / f"{name}.yaml"
    table = yaml.safe_load(path.read_text("utf-8"))
    return [(rule, source, result) for rule, expected in table.items() for source, result in expected.items()]


def show(expr: Expr) -> str:
    """A tree with the ids and places of its nodes: what#id@offset."""
    at = f"#{expr.id}@{expr.offset}"
    match expr:
        case Literal():
            return f"{expr.value!r}{'u' if expr.kind == 'uint' else ''}{at}"
        case Ident():
            return f"{expr.name}{at}"
        case Select():
            return f"{show(expr.operand)}.{expr.field}{'?' if expr.test_only else ''}{at}"
        case Call():
            target = f"{show(expr.target)}." if expr.target else ""
            return f"{target}{expr.function}{at}({', '.join(map(show, expr.args))})"
        case List():
            marks = ["?" if index in expr.optional_indices else "" for index in range(len(expr.elements))]
            return f"[{', '.join(map(str.__add__, marks, map(show, expr.elements)))}]{at}"
        case Map():
            entries = (
                f"{'?' if entry.optional else ''}{show(entry.key)}: #{entry.id}@{entry.offset} {show(entry.value)}"
                for entry in expr.entries
            )
            return f"{{{', '.join(entries)}}}{at}"
        case Struct():
            fields = (
                f"{'?' if field.optional else ''}{field.name}: #{field.id}@{field.offset} {show(field.value)}"
                for field in expr.fields
            )
            return f"{expr.type_name}{{{', '.join(fields)}}}{at}"
        case Comprehension():
            variables = expr.iter_var + (f", {expr.iter_var2}" if expr.iter_var2 else "")
            parts = (expr.loop_condition, expr.loop_step, expr.result)
            return (
                f"{expr.macro}{at}({variables} in {show(expr.iter_range)}; {expr.accu_var} = {show(expr.accu_init)}; "
                f"{'; '.join(map(show, parts))})"
            )
