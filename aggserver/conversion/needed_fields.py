"""The fields of `self` that an expression needs: without them its evaluation fails in any case.

Fields that it reads only in some cases are not needed: in a branch of `?:`, an operand of `&&` and `||`, in a loop, with `.?`, or
as the argument of `has`. So an absent field can be distinguished from an expression that is wrong.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from aggserver.cel.ast import Call, Comprehension, Expr, Ident, Literal, Select, children
from aggserver.conversion.field_path import FieldPath
from aggserver.schema.escaping import unescape

__all__ = ["needed_fields"]

# Functions that need not evaluate their arguments, or ignore errors of these. Their target is always evaluated.
_LAZY = frozenset({"_&&_", "_||_", "or", "orValue"})


def needed_fields(expr: Expr) -> tuple[FieldPath, ...]:
    """The needed fields of a checked expression. For `self.a.b`, only the whole path is returned, not its parents."""
    return tuple(sorted(set(_needed(expr)), key=str))


def _needed(expr: Expr) -> Iterator[FieldPath]:
    path = _path(expr)
    if path is not None:
        if path:
            yield FieldPath(path)
        return
    for part in _evaluated(expr):
        yield from _needed(part)


def _evaluated(expr: Expr) -> tuple[Expr, ...]:
    """The subexpressions that are evaluated in any case."""
    match expr:
        case Call(function="_?_:_"):
            return expr.args[:1]
        case Call(function=function) if function in _LAZY:
            return () if expr.target is None else (expr.target,)
        case Comprehension():
            return (expr.iter_range,)
        case _:
            return children(expr)


def _path(expr: Expr) -> tuple[str, ...] | None:
    """The path of an expression that only selects from `self`; empty for `self`, None for any other."""
    match expr:
        case Ident(name="self"):
            return ()
        case Select(test_only=False):
            above, name = _path(expr.operand), unescape(expr.field) or expr.field
        case Call(function="_[_]", args=(operand, Literal(value=str(key)))):
            above, name = _path(operand), key
        case _:
            return None
    return None if above is None else (*above, name)
