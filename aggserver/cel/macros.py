"""Macros: calls that the parser expands to presence tests, folds and conditionals.

The arguments are parsed already. New nodes are created in cel-go's order, since it determines their ids; their names and
shapes are cel-go's too, since the cost of an expression is that of its expansion.
Source: cel-go parser/macro.go, ext/comprehensions.go, ext/lists.go (sortBy) and cel/library.go (optMap), v0.26.0; the set of
macros: k8s.io/apiserver pkg/cel/environment/base.go, v0.36.3 (no cel.bind, and existsOne only with two variables).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from aggserver.cel.ast import (
    ACCUMULATOR,
    Call,
    Comprehension,
    Expr,
    Ident,
    List,
    Literal,
    Map,
    MapEntry,
    Numbers,
    Select,
    Struct,
    StructField,
)

__all__ = ["MACROS", "MacroError", "Maker"]

# cel-go renamed its accumulator variable, but still reserves the old name.
_ACCUMULATORS = (ACCUMULATOR, "__result__")
_UNUSED = "#unused"
_SORT_INPUT = "@__sortBy_input__"


class MacroError(Exception):
    """Invalid arguments of a macro. expr: the argument that is wrong."""

    def __init__(self, expr: Expr, message: str) -> None:
        super().__init__(message)
        self.expr = expr


class Maker:
    """Creates the nodes of one expansion, all at the offset of the call."""

    def __init__(self, numbers: Numbers, offset: int) -> None:
        self._numbers = numbers
        self._offset = offset

    def _id(self) -> int:
        return self._numbers.next()

    def literal(self, value: bool | int) -> Literal:
        return Literal(self._id(), self._offset, value, "bool" if isinstance(value, bool) else "int")

    def ident(self, name: str) -> Ident:
        return Ident(self._id(), self._offset, name)

    def accumulator(self) -> Ident:
        return self.ident(ACCUMULATOR)

    def list(self, *elements: Expr) -> List:
        return List(self._id(), self._offset, elements)

    def map(self) -> Map:
        return Map(self._id(), self._offset, ())

    def call(self, function: str, *args: Expr) -> Call:
        return Call(self._id(), self._offset, function, None, args)

    def member(self, function: str, target: Expr, *args: Expr) -> Call:
        return Call(self._id(), self._offset, function, target, args)

    def present(self, operand: Expr, field: str) -> Select:
        return Select(self._id(), self._offset, operand, field, test_only=True)

    def fold(
        self, macro: str, iter_range: Expr, variables: tuple[str, str], init: Expr, condition: Expr, step: Expr, result: Expr
    ) -> Comprehension:
        return Comprehension(
            self._id(), self._offset, iter_range, *variables, ACCUMULATOR, init, condition, step, result, macro=macro
        )

    def bind(self, iter_range: Expr, variable: str, value: Expr, condition: Expr, step: Expr, result: Expr) -> Comprehension:
        """A fold over an empty list, which only binds its accumulator."""
        return Comprehension(
            self._id(), self._offset, iter_range, _UNUSED, "", variable, value, condition, step, result, macro="bind"
        )

    def copy(self, expr: Expr) -> Expr:
        """A copy of the expression with the same offsets and new ids."""
        own = self._id()
        match expr:
            case Select():
                return replace(expr, id=own, operand=self.copy(expr.operand))
            case Call():
                args = tuple(map(self.copy, expr.args))
                return replace(expr, id=own, args=args, target=expr.target and self.copy(expr.target))
            case List():
                return replace(expr, id=own, elements=tuple(map(self.copy, expr.elements)))
            case Map():
                return replace(expr, id=own, entries=tuple(map(self._copy_entry, expr.entries)))
            case Struct():
                return replace(expr, id=own, fields=tuple(map(self._copy_field, expr.fields)))
            case Comprehension():
                return replace(
                    expr,
                    id=own,
                    iter_range=self.copy(expr.iter_range),
                    accu_init=self.copy(expr.accu_init),
                    loop_condition=self.copy(expr.loop_condition),
                    loop_step=self.copy(expr.loop_step),
                    result=self.copy(expr.result),
                )
            case _:
                return replace(expr, id=own)

    def _copy_entry(self, entry: MapEntry) -> MapEntry:
        own = self._id()
        return replace(entry, id=own, offset=self._offset, key=self.copy(entry.key), value=self.copy(entry.value))

    def _copy_field(self, field: StructField) -> StructField:
        own = self._id()
        return replace(field, id=own, offset=self._offset, value=self.copy(field.value))


def _has(make: Maker, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
    if not isinstance(args[0], Select):
        raise MacroError(args[0], "invalid argument to has() macro")
    return make.present(args[0].operand, args[0].field)


def _variables(args: tuple[Expr, ...], count: int, complaint: str = "argument must be a simple name") -> tuple[str, str]:
    """The names of the one or two iteration variables, which are a macro's first arguments."""
    names: list[str] = []
    for arg in args[:count]:
        if not isinstance(arg, Ident):
            raise MacroError(arg, complaint)
        names.append(arg.name)
    if count == 2 and names[0] == names[1]:
        raise MacroError(args[1], f"duplicate variable name: {names[0]}")
    for arg, name in zip(args, names, strict=False):
        if name in _ACCUMULATORS:
            raise MacroError(arg, "iteration variable overwrites accumulator variable")
    return names[0], names[1] if count == 2 else ""


def _all(make: Maker, target: Expr, args: tuple[Expr, ...]) -> Expr:
    variables = _variables(args, len(args) - 1)
    init = make.literal(True)
    condition = make.call("@not_strictly_false", make.accumulator())
    step = make.call("_&&_", make.accumulator(), args[-1])
    return make.fold("all", target, variables, init, condition, step, make.accumulator())


def _exists(make: Maker, target: Expr, args: tuple[Expr, ...]) -> Expr:
    variables = _variables(args, len(args) - 1)
    init = make.literal(False)
    condition = make.call("@not_strictly_false", make.call("!_", make.accumulator()))
    step = make.call("_||_", make.accumulator(), args[-1])
    return make.fold("exists", target, variables, init, condition, step, make.accumulator())


def _exists_one(make: Maker, target: Expr, args: tuple[Expr, ...]) -> Expr:
    variables = _variables(args, len(args) - 1)
    init = make.literal(0)
    condition = make.literal(True)
    step = make.call("_?_:_", args[-1], make.call("_+_", make.accumulator(), make.literal(1)), make.accumulator())
    result = make.call("_==_", make.accumulator(), make.literal(1))
    return make.fold("exists_one", target, variables, init, condition, step, result)


def _map(make: Maker, target: Expr, args: tuple[Expr, ...]) -> Expr:
    variables = _variables(args, 1, "argument is not an identifier")
    init = make.list()
    condition = make.literal(True)
    step = make.call("_+_", make.accumulator(), make.list(args[-1]))
    if len(args) == 3:
        step = make.call("_?_:_", args[1], step, make.accumulator())
    return make.fold("map", target, variables, init, condition, step, make.accumulator())


def _filter(make: Maker, target: Expr, args: tuple[Expr, ...]) -> Expr:
    variables = _variables(args, 1, "argument is not an identifier")
    init = make.list()
    condition = make.literal(True)
    step = make.call("_+_", make.accumulator(), make.list(args[0]))
    step = make.call("_?_:_", args[1], step, make.accumulator())
    return make.fold("filter", target, variables, init, condition, step, make.accumulator())


def _transform_list(make: Maker, target: Expr, args: tuple[Expr, ...]) -> Expr:
    variables = _variables(args, 2)
    step = _filtered(make, args, make.call("_+_", make.accumulator(), make.list(args[-1])))
    return make.fold("transformList", target, variables, make.list(), make.literal(True), step, make.accumulator())


def _transform_map(make: Maker, target: Expr, args: tuple[Expr, ...]) -> Expr:
    variables = _variables(args, 2)
    step = _filtered(make, args, make.call("cel.@mapInsert", make.accumulator(), make.ident(variables[0]), args[-1]))
    return make.fold("transformMap", target, variables, make.map(), make.literal(True), step, make.accumulator())


def _transform_map_entry(make: Maker, target: Expr, args: tuple[Expr, ...]) -> Expr:
    variables = _variables(args, 2)
    step = _filtered(make, args, make.call("cel.@mapInsert", make.accumulator(), args[-1]))
    return make.fold("transformMapEntry", target, variables, make.map(), make.literal(True), step, make.accumulator())


def _filtered(make: Maker, args: tuple[Expr, ...], step: Call) -> Call:
    return make.call("_?_:_", args[2], step, make.accumulator()) if len(args) == 4 else step


def _opt_map(make: Maker, target: Expr, args: tuple[Expr, ...]) -> Expr:
    variable = _optional_variable("optMap", args)
    return make.call(
        "_?_:_",
        make.member("hasValue", target),
        make.call("optional.of", _bind_value(make, target, variable, args[1])),
        make.call("optional.none"),
    )


def _opt_flat_map(make: Maker, target: Expr, args: tuple[Expr, ...]) -> Expr:
    variable = _optional_variable("optFlatMap", args)
    return make.call(
        "_?_:_",
        make.member("hasValue", target),
        _bind_value(make, target, variable, args[1]),
        make.call("optional.none"),
    )


def _optional_variable(macro: str, args: tuple[Expr, ...]) -> str:
    if not isinstance(args[0], Ident):
        raise MacroError(args[0], f"{macro}() variable name must be a simple identifier")
    return args[0].name


def _bind_value(make: Maker, target: Expr, variable: str, result: Expr) -> Comprehension:
    return make.bind(
        make.list(), variable, make.member("value", make.copy(target)), make.literal(False), make.ident(variable), result
    )


def _sort_by(make: Maker, target: Expr, args: tuple[Expr, ...]) -> Expr:
    bound = make.ident(_SORT_INPUT)
    if not isinstance(target, List | Select | Ident | Comprehension | Call):
        raise MacroError(target, "sortBy can only be applied to a list, identifier, comprehension, call or select expression")
    keys = _map(make, make.copy(bound), args)
    result = make.member("@sortByAssociatedKeys", make.copy(bound), keys)
    return make.bind(make.list(), _SORT_INPUT, target, make.literal(False), bound, result)


MACROS: dict[tuple[str, int, bool], Callable[..., Expr]] = {
    ("has", 1, False): _has,
    ("all", 2, True): _all,
    ("all", 3, True): _all,
    ("exists", 2, True): _exists,
    ("exists", 3, True): _exists,
    ("exists_one", 2, True): _exists_one,
    ("exists_one", 3, True): _exists_one,
    ("existsOne", 3, True): _exists_one,
    ("map", 2, True): _map,
    ("map", 3, True): _map,
    ("filter", 2, True): _filter,
    ("transformList", 3, True): _transform_list,
    ("transformList", 4, True): _transform_list,
    ("transformMap", 3, True): _transform_map,
    ("transformMap", 4, True): _transform_map,
    ("transformMapEntry", 3, True): _transform_map_entry,
    ("transformMapEntry", 4, True): _transform_map_entry,
    ("optMap", 2, True): _opt_map,
    ("optFlatMap", 2, True): _opt_flat_map,
    ("sortBy", 2, True): _sort_by,
}
"""Keyed by function, number of arguments and whether there is a target. An expansion takes a Maker, the target and the
arguments, returns the tree, and raises MacroError.
"""
