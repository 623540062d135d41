"""The static cost of an expression: the least and the most that evaluating it can cost.

The API server decides by it which rules a CustomResourceDefinition may have, so the figures are upstream's to the digit,
oddities included. A unit is about 50 ns. `call_cost.py` has the cost of calls; this module walks the expression and keeps
track of the sizes of strings, lists and maps, and of the elements of lists and maps.
Source: cel-go checker/cost.go, v0.26.0, where has() costs nothing, as k8s.io/apiserver pkg/cel/environment, v0.36.3, has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from aggserver.cel.ast import Call, Comprehension, Expr, Ident, List, Literal, Map, Select, Struct
from aggserver.cel.call_cost import Node, call_cost
from aggserver.cel.checker import Checked
from aggserver.cel.ranges import ONE, UNKNOWN, ZERO, Range
from aggserver.cel.types import DYN, Kind, Type

__all__ = ["NoSizes", "SizeEstimator", "estimate"]

_CREATE_LIST = Range(10, 10)
_CREATE_MAP = Range(30, 30)
_CREATE_STRUCT = Range(40, 40)
_NOTHING_YET = Range(UNKNOWN.max, 0)
"""The neutral element of a union of ranges."""
_SCALARS = frozenset({Kind.BOOL, Kind.DOUBLE, Kind.DURATION, Kind.INT, Kind.TIMESTAMP, Kind.UINT})


class SizeEstimator(Protocol):
    def size(self, path: tuple[str, ...]) -> Range | None:
        """The size of the value at a path: characters, bytes, elements or entries. None if unknown.

        The path starts with a variable, followed by fields, '@items', '@keys', '@values' and '@indices'. It is empty for a
        value that is not part of a variable.
        """


class NoSizes:
    """An estimator that knows no sizes."""

    def size(self, path: tuple[str, ...]) -> Range | None:
        del path
        return None


@dataclass(frozen=True, slots=True)
class _Entries:
    """The sizes of the keys (or indices) and of the values of a list or map."""

    is_list: bool
    key: Range
    value: Range


@dataclass(frozen=True, slots=True)
class _Local:
    """A variable of a comprehension."""

    path: tuple[str, ...]
    size: Range | None
    entries: _Entries | None = None


def estimate(checked: Checked, sizes: SizeEstimator | None = None) -> Range:
    """The cost of a checked expression; its maximum is ranges.LARGEST where a size is unbounded."""
    return _Estimate(checked, sizes or NoSizes()).cost(checked.expr)


class _Estimate:
    def __init__(self, checked: Checked, sizes: SizeEstimator) -> None:
        self._checked = checked
        self._estimator = sizes
        # Keyed by expression id.
        self._paths: dict[int, tuple[str, ...]] = {}
        self._sizes: dict[int, Range] = {}
        self._entries: dict[int, _Entries] = {}
        # Keyed by name, innermost scope last.
        self._locals: dict[str, list[_Local]] = {}

    def cost(self, expr: Expr) -> Range:
        match expr:
            case Literal():
                return ZERO
            case Ident():
                local = self._local(expr)
                self._paths[expr.id] = local.path if local else (expr.name,)
                return ONE
            case Select():
                return self._select(expr)
            case Call():
                return self._call(expr)
            case List():
                return self._list(expr)
            case Map():
                return self._map(expr)
            case Struct():
                return sum((self.cost(field.value) for field in expr.fields), ZERO) + _CREATE_STRUCT
            case Comprehension():
                return self._bind(expr) if expr.macro == "bind" else self._comprehension(expr)

    def _select(self, expr: Select) -> Range:
        cost = self.cost(expr.operand)
        if expr.test_only:
            return cost
        if self._type(expr.operand).kind in (Kind.MAP, Kind.OBJECT):
            cost += ONE
        self._paths[expr.id] = (*self._path(expr.operand), expr.field)
        return cost

    def _list(self, expr: List) -> Range:
        cost = _CREATE_LIST
        size = _NOTHING_YET if expr.elements else ZERO
        for element in expr.elements:
            cost += self.cost(element)
            size |= self._size(element) or UNKNOWN
        self._entries[expr.id] = _Entries(True, ONE, size)
        return cost

    def _map(self, expr: Map) -> Range:
        cost = _CREATE_MAP
        key = value = _NOTHING_YET if expr.entries else ZERO
        for entry in expr.entries:
            cost += self.cost(entry.key) + self.cost(entry.value)
            key |= self._size(entry.key) or UNKNOWN
            value |= self._size(entry.value) or UNKNOWN
        self._entries[expr.id] = _Entries(False, key, value)
        return cost

    # Calls

    def _call(self, expr: Call) -> Range:
        if expr.function == "dyn":
            cost = ONE + self.cost(expr.args[0])
            self._copy_sizes(expr, expr.args[0])
            return cost
        costs: list[Range] = []
        args: list[Node] = []
        for arg in expr.args:
            costs.append(self.cost(arg))
            args.append(self._node(arg))
        target_cost = self.cost(expr.target) if expr.target else ZERO
        target = self._node(expr.target) if expr.target else None
        own = _NOTHING_YET
        result: Range | None = None
        for overload in self._checked.overloads[expr.id]:
            cost, size = call_cost(expr.function, overload, target, args, costs, self._estimator.size)
            own |= cost
            if size is not None:
                result = size if result is None else result | size
            result = self._track(expr, overload, result)
        if result is not None:
            self._sizes[expr.id] = result
        return target_cost + own

    def _track(self, expr: Call, overload: str, result: Range | None) -> Range | None:
        """Record the path and the element sizes of a call's result; return its size."""
        match overload:
            case "index_list" | "index_map":
                entries = self._entries_of(expr.args[0])
                result = entries.value if entries else None
                self._paths[expr.id] = (*self._path(expr.args[0]), "@items" if overload == "index_list" else "@values")
            case "conditional":
                self._unite_entries(expr, expr.args[1], expr.args[2])
            case "add_list" | "add_string" | "add_bytes":
                self._unite_entries(expr, expr.args[0], expr.args[1])
        return self._size(expr) if result is None else result

    def _unite_entries(self, expr: Expr, first: Expr, second: Expr) -> None:
        left, right = self._entries_of(first), self._entries_of(second)
        if left and right:
            self._entries[expr.id] = _Entries(left.is_list, left.key | right.key, left.value | right.value)

    def _node(self, expr: Expr) -> Node:
        path = self._path(expr)
        if path and path[0] in ("@result", "__result__"):
            path = ()
        return Node(path, self._type(expr), self._size(expr), expr)

    # Comprehensions

    def _comprehension(self, expr: Comprehension) -> Range:
        cost = self.cost(expr.iter_range) + self.cost(expr.accu_init)
        self._push_bound(expr)
        variables = [variable for variable in (expr.iter_var, expr.iter_var2) if variable]
        for index, variable in enumerate(variables):
            self._locals.setdefault(variable, []).append(self._iterated(expr.iter_range, index, len(variables)))
        loop = self.cost(expr.loop_condition) + self.cost(expr.loop_step)
        for variable in variables:
            self._locals[variable].pop()
        cost += self.cost(expr.result)
        self._locals[expr.accu_var].pop()
        count = self._size(expr.iter_range) or UNKNOWN
        cost += count * loop
        if isinstance(expr.accu_init, Literal):
            self._copy_size(expr, expr.accu_init)
        elif isinstance(expr.accu_init, List | Map):
            self._sizes[expr.id] = count
            if entries := self._entries_of(expr.loop_step):
                self._entries[expr.id] = entries
        return cost

    def _iterated(self, iter_range: Expr, index: int, count: int) -> _Local:
        """The iteration variable at `index` of `count`."""
        entries = self._entries_of(iter_range)
        is_list = entries.is_list if entries else self._type(iter_range).kind is Kind.LIST
        if is_list:
            is_key, part = (count == 2 and index == 0), "@items"
        else:
            is_key, part = index == 0, "@values"
        if is_key:
            part = "@indices" if is_list else "@keys"
        size = (entries.key if is_key else entries.value) if entries else None
        return _Local((*self._path(iter_range), part), size)

    def _bind(self, expr: Comprehension) -> Range:
        cost = self.cost(expr.iter_range) + self.cost(expr.accu_init)
        self._push_bound(expr)
        cost += self.cost(expr.result)
        self._locals[expr.accu_var].pop()
        self._copy_sizes(expr, expr.result)
        return cost

    def _push_bound(self, expr: Comprehension) -> None:
        init = expr.accu_init
        local = _Local(self._path(init), self._size(init), self._entries_of(init))
        self._locals.setdefault(expr.accu_var, []).append(local)

    # Types, paths and sizes of expressions

    def _type(self, expr: Expr) -> Type:
        # The checker records no type for the field name in `a.?b`.
        return self._checked.types.get(expr.id, DYN)

    def _local(self, expr: Expr) -> _Local | None:
        found = self._locals.get(expr.name) if isinstance(expr, Ident) else None
        return found[-1] if found else None

    def _path(self, expr: Expr) -> tuple[str, ...]:
        local = self._local(expr)
        return local.path if local else self._paths.get(expr.id, ())

    def _size(self, expr: Expr) -> Range | None:
        """The size of a value: recorded before, of a literal, from the estimator, by type, or of a local variable."""
        if (known := self._sizes.get(expr.id)) is not None:
            return known
        match expr:
            case Literal():
                return Range.of(len(expr.value) if isinstance(expr.value, str | bytes) else 1)
            case List():
                return Range.of(len(expr.elements))
            case Map():
                return Range.of(len(expr.entries))
        if (estimated := self._estimator.size(self._path(expr))) is not None:
            self._sizes[expr.id] = estimated
            return estimated
        if _is_scalar(self._type(expr)):
            return ONE
        local = self._local(expr)
        return local.size if local else None

    def _entries_of(self, expr: Expr) -> _Entries | None:
        if (known := self._entries.get(expr.id)) is not None:
            return known
        local = self._local(expr)
        return local.entries if local else None

    def _copy_sizes(self, expr: Expr, source: Expr) -> None:
        self._copy_size(expr, source)
        if (entries := self._entries_of(source)) is not None:
            self._entries[expr.id] = entries

    def _copy_size(self, expr: Expr, source: Expr) -> None:
        if (size := self._size(source)) is not None:
            self._sizes[expr.id] = size


def _is_scalar(type_: Type) -> bool:
    return type_.kind in _SCALARS or (type_.is_optional and _is_scalar(type_.element))
