"""Writes loops for the macros: `all`, `exists`, `map`, `filter`, `transformMap`, and variables for `optMap` and `sortBy`.

The parser has expanded a macro into a fold of a list or map; here it becomes a plain loop, which charges what the steps of the
fold would cost. `generator.py` extends this class: it writes all other expressions, and the parts of a macro.
Source: cel-go parser/macro.go, ext/{comprehensions,lists}.go and interpreter/interpretable.go (evalFold), v0.26.0.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from aggserver.cel.ast import Call, Comprehension, Expr, Ident, List, Map, children
from aggserver.cel.constants import NOT_CONSTANT, Constants
from aggserver.cel.runtime_cost import CREATE_LIST
from aggserver.cel.types import Kind, Type
from aggserver.cel.writer import Code, CodeWriter

__all__ = ["Folds", "Variable"]


@dataclass(slots=True)
class Variable:
    code: str
    kind: str = ""
    thunk: str = ""
    """Code that computes the value on first use; `code` is then a list that holds it from then on."""
    is_element: bool = False
    """Whether it is an element of a list or map, and so may be a value of an object that is not converted to CEL yet."""


class Folds(CodeWriter):
    constants: Constants
    scope: dict[str, Variable]
    """The variables of the enclosing macros, by name."""

    @abstractmethod
    def value(self, expr: Expr, *, bare: bool = False) -> Code:
        """Write code that computes the expression."""

    @abstractmethod
    def as_function(self, expr: Expr, *, bare: bool = False) -> str:
        """Write a function for the expression; return the code that calls it."""

    @abstractmethod
    def type_of(self, expr: Expr) -> Type: ...

    @abstractmethod
    def bool(self, value: Code) -> str:
        """Write a check that the value is a bool, unless that is known; return its code."""

    def comprehension(self, expr: Comprehension) -> Code:
        if expr.macro in ("bind", "sortBy"):
            return self._bind(expr)
        items = self._range(expr)
        inside = self.scope
        self.scope = dict(inside)
        for name in (expr.iter_var, expr.iter_var2):
            if name:
                self.scope[name] = Variable(self.temp("v"), is_element=True)
        match expr.macro:
            case "all" | "exists":
                result = self._quantifier(expr, items)
            case "exists_one":
                result = self._exists_one(expr, items)
            case _:
                result = self._collect(expr, items)
        self.scope = inside
        return result

    def _range(self, expr: Comprehension) -> str:
        value = self.value(expr.iter_range)
        kind = self.type_of(expr.iter_range).kind
        if expr.iter_var2:
            return self.risk_set(f"pairs({value.text})").text
        if kind is Kind.LIST:
            return self.risk_set(f"{value.text} if type({value.text}) is list else elements({value.text})").text
        return self.risk_set(f"elements({value.text})").text

    @contextmanager
    def _loop(self, expr: Comprehension, items: str) -> Iterator[None]:
        """Write a loop; the body's charges are settled within it."""
        self.settle()
        names = ", ".join(self.scope[name].code for name in (expr.iter_var, expr.iter_var2) if name)
        with self.block(f"for {names} in {items}:", counts=True):
            self.line("if cost > budget: raise CostExceeded()")
            yield

    def _quantifier(self, expr: Comprehension, items: str) -> Code:
        """`all` and `exists`. The loop condition is charged before each round, also when it ends the loop."""
        assert isinstance(expr.loop_step, Call)
        is_all = expr.macro == "all"
        look = 2 if is_all else 3
        iterator, error = self.set(f"iter({items})").text, self.temp("e")
        result = self.set(str(is_all), "bool")
        self.line(f"{error} = None")
        with self._loop(expr, iterator):
            self.charge(look + 1)
            with self.caught(f"{error} = {error} or error", "continue"):
                predicate = self.bool(self.value(expr.loop_step.args[1]))
            with self.block(f"if {predicate} is {not is_all}:"):
                self.line(f"{result.text} = {not is_all}")
                self.line(f"for _ in {iterator}:")
                self.line(f" cost += {look}; break")
                self.line("break")
        self.charge(1)
        self.risk(f"if {error} is not None and {result.text} is {is_all}: raise {error}")
        return result

    def _exists_one(self, expr: Comprehension, items: str) -> Code:
        assert isinstance(expr.loop_step, Call)
        error = self.temp("e")
        count = self.set("0", "int").text
        self.line(f"{error} = None")
        with self._loop(expr, items):
            with self.caught(f"{error} = error", "continue"):
                predicate = self.bool(self.value(expr.loop_step.args[0]))
            self.line(f"if {predicate}: {count} += 1; cost += 2")
        self.charge(2)
        self.risk(f"if {error} is not None: raise {error}")
        return self.set(f"{count} == 1", "bool")

    def _collect(self, expr: Comprehension, items: str) -> Code:
        """`map`, `filter`, `transformList`, `transformMap` and `transformMapEntry`: a list or map that grows in place."""
        step = expr.loop_step
        assert isinstance(step, Call)
        is_map = isinstance(expr.accu_init, Map)
        error = self.temp("e")
        result = self.set("{}" if is_map else "[]", "dict" if is_map else "list")
        self.line(f"{error} = None")
        with self._loop(expr, items):
            if step.function == "_?_:_":
                with self.caught(f"{error} = error", "continue"):
                    predicate = self.bool(self.value(step.args[0]))
                self.line(f"if not {predicate}: continue")
                step = step.args[1]
                assert isinstance(step, Call)
            if self.catches and len(step.args) == 3:
                # cel-go does not make a call of three arguments once the first has failed.
                self.line(f"if {error} is not None:", " cost += 1", " continue")
            # One for reading the accumulator, one for the call that adds to it.
            self.charge(2)
            with self.caught(f"{error} = {error} or error"):
                self._add(result.text, step)
        self.charge(1)
        self.risk(f"if {error} is not None: raise {error}")
        return result

    def _add(self, result: str, step: Call) -> None:
        if step.function == "_+_":
            added = step.args[1]
            assert isinstance(added, List)
            if self.constants.of(added) is NOT_CONSTANT:
                self.charge(CREATE_LIST)
            value = self.value(added.elements[0])
            self.line(f"{result}.append({value.text})")
        else:
            codes = ", ".join(self.value(argument).text for argument in step.args[1:])
            self.risk(f"{'insert' if len(step.args) == 3 else 'insert_all'}({result}, {codes})")

    def _bind(self, expr: Comprehension) -> Code:
        """Bind one variable, computed on first use: an unused variable costs nothing."""
        name = self.temp("v")
        if _is_sure(expr.result, expr.accu_var):
            value = self.value(expr.accu_init)
            self.settle()
            self.line(f"{name} = {value.text}")
            variable = Variable(name, value.kind)
        else:
            variable = Variable(name, thunk=self.as_function(expr.accu_init))
            self.line(f"{name} = []")
        inside = self.scope
        self.scope = {**inside, expr.accu_var: variable}
        result = self.value(expr.result)
        self.scope = inside
        return result


def _is_sure(expr: Expr, name: str) -> bool:
    """Whether the variable is always used, unless something fails before."""
    match expr:
        case Ident():
            return expr.name == name
        case Call(function="_&&_" | "_||_" | "_?_:_"):
            return _is_sure(expr.args[0], name)
        case Call(function="or" | "orValue", target=target) if target is not None:
            return _is_sure(target, name)
        case Call(function="_?._" | "_[?_]"):
            return _is_sure(expr.args[0], name)
        case Comprehension():
            if expr.macro in ("bind", "sortBy"):
                return expr.accu_var != name and _is_sure(expr.result, name)
            return _is_sure(expr.iter_range, name)
        case _:
            return any(_is_sure(child, name) for child in children(expr))
