"""Constant folding: literals, types, lists and maps of them, and conversions are known before the expression runs.

The generator asks for every subexpression; a constant costs nothing at run time.
Source: cel-go interpreter/{planner,decorators}.go, v0.26.0 (OptOptimize).
"""

from __future__ import annotations

from typing import Any

from aggserver.cel.ast import Call, Expr, Ident, List, Literal, Map
from aggserver.cel.checker import Checked
from aggserver.cel.functions import caller
from aggserver.cel.operators import map_key
from aggserver.cel.types import Type
from aggserver.cel.values import EvaluationError, TypeValue, Uint

__all__ = ["NOT_CONSTANT", "Constants", "ProgramError"]

_CONVERSIONS = frozenset(("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"))
NOT_CONSTANT = object()


class ProgramError(ValueError):
    """A checked expression can't become a program, e.g. a conversion of a constant fails. `str()` is cel-go's message."""


class Constants:
    def __init__(self, checked: Checked) -> None:
        self._checked = checked
        self._known: dict[int, Any] = {}

    def of(self, expr: Expr) -> Any:
        """The constant, or NOT_CONSTANT."""
        if expr.id not in self._known:
            self._known[expr.id] = self._fold(expr)
        return self._known[expr.id]

    def _fold(self, expr: Expr) -> Any:
        match expr:
            case Literal():
                return Uint(expr.value) if expr.kind == "uint" and isinstance(expr.value, int) else expr.value
            case Ident():
                named = self._checked.references.get(expr.id)
                return TypeValue(named.runtime_name or named.name) if isinstance(named, Type) else NOT_CONSTANT
            case List(optional_indices=()):
                items = [self.of(element) for element in expr.elements]
                return NOT_CONSTANT if NOT_CONSTANT in items else items
            case Map() if not any(each.optional for each in expr.entries):
                return self._map([(self.of(each.key), self.of(each.value)) for each in expr.entries])
            case Call(function="@in", args=(_, container)) if self._checked.overloads[expr.id] == ("in_list",):
                return False if self.of(container) == [] else NOT_CONSTANT
            case Call(target=None, args=(argument,)) if expr.function in _CONVERSIONS:
                value = self.of(argument)
                return NOT_CONSTANT if value is NOT_CONSTANT else self._convert(expr, value)
            case _:
                return NOT_CONSTANT

    @staticmethod
    def _map(entries: list[tuple[Any, Any]]) -> Any:
        if any(part is NOT_CONSTANT for pair in entries for part in pair):
            return NOT_CONSTANT
        try:
            return {map_key(key): value for key, value in entries}
        except EvaluationError:
            return NOT_CONSTANT

    def _convert(self, expr: Call, value: Any) -> Any:
        try:
            return caller(expr.function, self._checked.overloads[expr.id])(value)
        except EvaluationError as error:
            raise ProgramError(str(error)) from None
