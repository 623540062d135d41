"""Writes Python for a checked expression: statements in the order of evaluation.

All names are made up here and every constant is passed in by name, so that nothing of an expression's text is ever run. Costs are
counted where cel-go's interpreter counts them, so that the figures are equal; loops, and calls that may take long, stop once the
budget is spent. Errors are exceptions: `&&`, `||`, `all` and `exists` catch those of their operands. (A call of which an argument
failed is not paid for, and doesn't look at those after it, as it is and does upstream: after an error the cost may be less.)
Called by `program.py`. Pure.
Source: cel-go interpreter/{planner,interpretable,attributes,runtimecost,decorators}.go, v0.26.0, with the options of
k8s.io/apiserver pkg/cel/environment (optimized, `has` for nothing), v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from aggserver.cel import operators
from aggserver.cel.ast import Call, Comprehension, Expr, Ident, List, Literal, Map, Select, Struct, children
from aggserver.cel.checker import Checked
from aggserver.cel.declarations import functions
from aggserver.cel.functions import caller
from aggserver.cel.library import comprehensions
from aggserver.cel.runtime_cost import CREATE_LIST, CREATE_MAP, CREATE_STRUCT, Cost, cost_of, equality, inequality
from aggserver.cel.types import DYN, Kind, Type
from aggserver.cel.values import (
    MISSING,
    NONE,
    CELError,
    CostExceeded,
    EvaluationError,
    Optional,
    TypeValue,
    Uint,
    compare,
    elements,
    equal,
    no_such_overload,
    pairs,
    size,
)
from aggserver.cel.writer import Code, Writer
from aggserver.meta import regexp

__all__ = ["Objects", "ProgramError", "generate"]

# Copying so many elements of lists (a power of two), which costs nothing upstream, takes one from the budget.
_COPIES_BITS = 6

_COMPARISONS = {"_<_": "<", "_<=_": "<=", "_>_": ">", "_>=_": ">="}
_ARITHMETIC = {
    "_+_": operators.add,
    "_-_": operators.subtract,
    "_*_": operators.multiply,
    "_/_": operators.divide,
    "_%_": operators.modulo,
}
_CONVERSIONS = frozenset(("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"))
_REGEX_FUNCTIONS = frozenset(("matches", "find", "findAll"))
_PYTHON_TYPES = {Kind.STRING: "str", Kind.LIST: "list", Kind.MAP: "dict", Kind.INT: "int", Kind.BOOL: "bool", Kind.BYTES: "bytes"}


class Objects(Protocol):
    """How objects of declared types are kept: as dicts, with keys and values that need not be CEL's. Null counts as absent."""

    def field(self, type_name: str, name: str) -> tuple[str, Callable[[Any], Any] | None]:
        """The key of a field, and what makes CEL's value of what is there, unless it is one. That may raise EvaluationError."""


class _PlainObjects:
    def field(self, type_name: str, name: str) -> tuple[str, Callable[[Any], Any] | None]:
        del type_name
        return name, None


class ProgramError(ValueError):
    """The expression is right and yet no program: a conversion of a constant fails. `str()` is what cel-go says."""


def _finished(error: CELError, cost: int, budget: int) -> CELError:
    """What an evaluation that failed says at its end."""
    if cost > budget and not isinstance(error, CostExceeded):
        error = CostExceeded()
    error.cost = cost
    return error


# What generated code calls, besides constants (k1, ...).
_NAMES: Mapping[str, Any] = {
    "CELError": CELError,
    "CostExceeded": CostExceeded,
    "EvaluationError": EvaluationError,
    "MISSING": MISSING,
    "NONE": NONE,
    "Optional": Optional,
    "compare": compare,
    "contains": operators.contains,
    "element": operators.element,
    "elements": elements,
    "entry": operators.entry,
    "equal": equal,
    "equality": equality,
    "field": operators.field,
    "finished": _finished,
    "has": operators.has,
    "index": operators.index,
    "inequality": inequality,
    "insert": comprehensions.insert,
    "insert_all": comprehensions.insert_all,
    "map_key": operators.map_key,
    "look_up": operators.look_up,
    "member": operators.member,
    "negate": operators.negate,
    "no_such_overload": no_such_overload,
    "not_": operators.not_,
    "not_equal": operators.not_equal,
    "opened": operators.opened,
    "pairs": pairs,
    "size": size,
}


def generate(checked: Checked, objects: Objects | None = None) -> tuple[str, dict[str, Any]]:
    """The text of a function `evaluate(activation, budget)`, and the names that it needs. Raises ProgramError."""
    generator = _Generator(checked, objects or _PlainObjects())
    generator.write()
    return generator.text(), generator.names


class _Step(NamedTuple):
    """`.field`, `[key]`, `.?field`, `[?key]`; has(.field)."""

    operand: Expr
    key: Expr | str
    is_optional: bool = False
    is_test: bool = False


@dataclass(slots=True)
class _Variable:
    code: str
    kind: str = ""
    thunk: str = ""
    """What to call for the value when it is first asked for; `code` is then a list that holds it from then on."""


class _Nothing:
    """No constant."""


class _Generator(Writer):
    def __init__(self, checked: Checked, objects: Objects) -> None:
        super().__init__(dict(_NAMES))
        self._checked = checked
        self._objects = objects
        self._scope: dict[str, _Variable] = {}
        self._folded: dict[int, Any] = {}

    def write(self) -> None:
        result = self._value(self._checked.expr)
        self.settle()
        self.line("if cost > budget: raise CostExceeded()", f"return {result.text}, cost")

    def _type(self, expr: Expr) -> Type:
        return self._checked.types.get(expr.id, DYN)

    def _python_type(self, expr: Expr) -> str:
        return _PYTHON_TYPES.get(self._type(expr).kind, "")

    def _pay(self, cost: Cost, arguments: str) -> None:
        """For a call, before it is made."""
        if isinstance(cost, int):
            self.charge(cost)
            return
        name = self.constant(cost)
        self.settle()
        self.line(f"cost += {name}({arguments})")
        self.line("if cost > budget: raise CostExceeded()")

    # --- constants ---

    def _fold(self, expr: Expr) -> Any:
        """The constant that cel-go's planner would make of it, which costs nothing; or _Nothing."""
        if expr.id not in self._folded:
            self._folded[expr.id] = self._fold_anew(expr)
        return self._folded[expr.id]

    def _fold_anew(self, expr: Expr) -> Any:
        match expr:
            case Literal():
                return Uint(expr.value) if expr.kind == "uint" and isinstance(expr.value, int) else expr.value
            case Ident():
                named = self._checked.references.get(expr.id)
                return TypeValue(named.runtime_name or named.name) if isinstance(named, Type) else _Nothing
            case List(optional_indices=()):
                items = [self._fold(element) for element in expr.elements]
                return _Nothing if _Nothing in items else items
            case Map() if not any(each.optional for each in expr.entries):
                entries = [(self._fold(each.key), self._fold(each.value)) for each in expr.entries]
                return (
                    _Nothing
                    if any(_Nothing in pair for pair in entries)
                    else {operators.map_key(key): value for key, value in entries}
                )
            case Call(target=None, args=(argument,)) if expr.function in _CONVERSIONS:
                value = self._fold(argument)
                return _Nothing if value is _Nothing else self._convert(expr, value)
            case _:
                return _Nothing

    def _convert(self, expr: Call, value: Any) -> Any:
        try:
            return caller(expr.function, self._overloads(expr))(value)
        except EvaluationError as error:
            raise ProgramError(str(error)) from None

    def _overloads(self, expr: Call) -> tuple[str, ...]:
        return tuple(self._checked.overloads.get(expr.id, ()))

    # --- expressions ---

    def _value(self, expr: Expr, *, bare: bool = False) -> Code:
        """Writes what computes the expression. `bare`: a branch of ?: or an index, where a variable's name costs nothing."""
        constant = self._fold(expr)
        if constant is not _Nothing:
            return Code(self.constant(constant), type(constant).__name__)
        if isinstance(expr, Ident):
            self.charge(not bare)
            return self._variable(expr)
        if self.is_deep:
            return self.risk_set(self._as_function(expr, bare=bare))
        match expr:
            case Select() | Call(function="_[_]" | "_[?_]" | "_?._"):
                return self._attribute(expr, bare=bare)
            case Call(function="_?_:_"):
                return self._conditional(expr)
            case Call(function="_&&_" | "_||_"):
                return self._logical(expr)
            case Call(function="or" | "orValue", target=target) if target is not None:
                return self._or_else(expr, target)
            case Call():
                return self._call(expr)
            case List():
                return self._list(expr)
            case Map():
                return self._map(expr)
            case Struct():
                return self._struct(expr)
            case Comprehension():
                return self._comprehension(expr)
        raise AssertionError(expr)

    def _as_function(self, expr: Expr, *, bare: bool = False) -> str:
        """A function for an expression; gives the code that calls it."""
        parameters = ", ".join(dict.fromkeys(variable.code for variable in self._scope.values()))
        with self.function(parameters) as call:
            result = self._value(expr, bare=bare)
            self.settle()
            self.line(f"return {result.text}")
        return call

    def _variable(self, expr: Ident) -> Code:
        known = self._scope.get(expr.name)
        if known is not None and known.thunk:
            self.risk(f"if not {known.code}: {known.code}.append({known.thunk})")
            return Code(f"{known.code}[0]")
        if known is not None:
            return Code(known.code, known.kind)
        named = self._checked.references.get(expr.id, expr.name)
        variable = named if isinstance(named, str) else expr.name
        key, missing = self.constant(variable), self.constant(f"no such attribute(s): {variable}")
        name = self.temp()
        self.risk("try:")
        self.line(f" {name} = activation[{key}]")
        self.line("except KeyError:")
        self.line(f" raise EvaluationError({missing}) from None")
        return Code(name)

    def _attribute(self, expr: Expr, *, bare: bool) -> Code:
        """A variable or any other value, and the fields, indexes and tests that follow it."""
        base, steps = _steps(expr)
        # Upstream takes the branches of ?: for the attribute: there is none that costs.
        is_conditional = isinstance(base, Call) and base.function == "_?_:_"
        value = self._value(base, bare=True)
        if self._fold(base) is not _Nothing:
            # Python warns of a literal that is indexed.
            value = self.set(value.text, value.kind)
        if is_conditional:
            self.charge(-steps[-1].is_test)
        else:
            self.charge(not bare and not steps[-1].is_test)
        if self._type(base).is_optional or any(step.is_optional for step in steps):
            return self._optional_steps(value, base, steps)
        for step in steps:
            value = self._step(value, step)
        return value

    def _step(self, value: Code, step: _Step) -> Code:
        type_ = self._type(step.operand)
        if isinstance(step.key, str) and type_.kind is Kind.OBJECT:
            return self._field(value, step, type_, step.key)
        key = self._key(step)
        self.charge(1)
        if step.is_test:
            quick = f"{key.text} in {value.text} if type({value.text}) is dict else "
            return self.risk_set(f"{quick}has({value.text}, {key.text})", "bool")
        if isinstance(step.key, str) or (type_.kind is Kind.MAP and self._type(step.key).kind is Kind.STRING):
            # Whatever is no dict with that key comes out as one of these errors.
            name = self.temp()
            self.risk("try:")
            self.line(f" {name} = {value.text}[{key.text}]")
            self.line("except (KeyError, TypeError):")
            self.line(f" {name} = index({value.text}, {key.text})")
            return Code(name)
        return self.risk_set(f"index({value.text}, {key.text})")

    def _key(self, step: _Step) -> Code:
        return Code(self.constant(step.key), "str") if isinstance(step.key, str) else self._value(step.key, bare=True)

    def _field(self, value: Code, step: _Step, type_: Type, field: str) -> Code:
        """Of an object, where null is as good as absent."""
        key, convert = self._objects.field(type_.name, field)
        self.charge(1)
        name = self.temp()
        self.risk("try:")
        self.line(f" {name} = {value.text}[{self.constant(key)}]")
        self.line("except (KeyError, TypeError):")
        self.line(f" {name} = None")
        if step.is_test:
            return self.set(f"{name} is not None", "bool")
        self.line(f"if {name} is None: raise EvaluationError({self.constant(f'no such key: {field}')})")
        return Code(name) if convert is None else self.risk_set(f"{self.constant(convert)}({name})")

    def _optional_steps(self, value: Code, base: Expr, steps: list[_Step]) -> Code:
        """From the first optional step on, what isn't there ends the way; it is not paid for."""
        is_optional = False
        for step in steps:
            if not is_optional and (step.is_optional or (step is steps[0] and self._type(base).is_optional)):
                is_optional = True
                value = self.risk_set(f"opened({value.text})")
            if not is_optional:
                value = self._step(value, step)
                continue
            self.settle()
            with self.block(f"if {value.text} is not MISSING:"):
                self._optional_step(value.text, step)
        is_test = steps[-1].is_test
        code = f"{value.text} is not MISSING" if is_test else f"NONE if {value.text} is MISSING else Optional({value.text})"
        return self.set(code, "bool" if is_test else "Optional")

    def _optional_step(self, name: str, step: _Step) -> None:
        """Changes the variable."""
        type_ = self._type(step.operand)
        type_ = type_.element if type_.is_optional else type_
        convert: Callable[[Any], Any] | None = None
        if isinstance(step.key, str) and type_.kind is Kind.OBJECT:
            key, convert = self._objects.field(type_.name, step.key)
            code = f"field({name}, {self.constant(key)})"
        else:
            code = f"look_up({name}, {self._key(step).text})"
        self.risk(f"{name} = {code}")
        with self.block(f"if {name} is not MISSING:"):
            self.line("cost += 1")
            if convert is not None and not step.is_test:
                self.risk(f"{name} = {self.constant(convert)}({name})")

    def _conditional(self, expr: Call) -> Code:
        condition = self._bool(self._value(expr.args[0]))
        result = self.temp()
        self.settle()
        kinds = set()
        for header, branch in ((f"if {condition}:", expr.args[1]), ("else:", expr.args[2])):
            with self.block(header):
                value = self._value(branch, bare=True)
                self.settle()
                self.line(f"{result} = {value.text}")
                kinds.add(value.kind)
        return Code(result, kinds.pop() if len(kinds) == 1 else "")

    def _bool(self, value: Code) -> str:
        """Raises what isn't a bool."""
        if value.kind != "bool":
            self.risk(f"if {value.text} is not True and {value.text} is not False: raise no_such_overload()")
        return value.text

    def _logical(self, expr: Call) -> Code:
        """Either side decides, even if the other failed."""
        goes_on = "True" if expr.function == "_&&_" else "False"
        result, failed = self.temp(), self.temp("e")
        self.settle()
        with self.caught(f"{failed} = error", f"{result} = {goes_on}") as left:
            self._decide(result, expr.args[0])
        if left.is_risky:
            left.put_before(f"{failed} = None")
        with self.block(f"if {result} is {goes_on}:"):
            if left.is_risky:
                with self.caught(f"raise {failed} or error"):
                    self._decide(result, expr.args[1])
                self.line(f"if {failed} is not None and {result} is {goes_on}: raise {failed}")
            else:
                self._decide(result, expr.args[1])
        return Code(result, "bool")

    def _decide(self, result: str, expr: Expr) -> None:
        decision = self._bool(self._value(expr))
        self.settle()
        self.line(f"{result} = {decision}")

    def _or_else(self, expr: Call, target: Expr) -> Code:
        """`or` and `orValue`: what is on the right is looked at only where the left has nothing."""
        left = self._value(target)
        result = self.temp()
        self.settle()
        with self.block(f"if type({left.text}) is Optional and {left.text}.value is MISSING:"):
            right = self._value(expr.args[0])
            self.settle()
            self.line(f"{result} = {right.text}")
        self.line(f"else: {result} = {left.text if expr.function == 'or' else f'opened({left.text})'}")
        return Code(result)

    def _call(self, expr: Call) -> Code:
        name, overloads = expr.function, self._overloads(expr)
        arguments = expr.args if expr.target is None else (expr.target, *expr.args)
        cost = cost_of(name, overloads[0] if len(overloads) == 1 else "")
        if name in _REGEX_FUNCTIONS:
            self._check_pattern(arguments[1])
        if name == "@in" and overloads == ("in_list",):
            constant = self._fold(arguments[1])
            if constant is not _Nothing and _are_plain(constant):
                return self._member(arguments[0], constant)
        values = [self._value(argument) for argument in arguments]
        codes = ", ".join(value.text for value in values)
        if name in ("_==_", "_!=_"):
            return self._equal(name, arguments, values)
        if name in _COMPARISONS:
            self._pay(cost, codes)
            return self._compare(name, arguments, values)
        self._pay(cost, codes)
        if name in _ARITHMETIC:
            result = self.risk_set(f"{self.constant(_ARITHMETIC[name])}({codes})")
            if name == "_+_" and (len(overloads) != 1 or overloads[0] == "add_list"):
                self.line(f"if isinstance({result.text}, list): budget -= len({result.text}) >> {_COPIES_BITS}")
            return result
        match name:
            case "!_":
                return self.set(f"not {codes}", "bool") if values[0].kind == "bool" else self.risk_set(f"not_({codes})", "bool")
            case "-_":
                return self.risk_set(f"negate({codes})")
            case "@in":
                return self.risk_set(f"contains({codes})", "bool")
            case "size":
                type_ = self._python_type(arguments[0])
                quick = f"len({codes}) if type({codes}) is {type_} else " if type_ else ""
                return self.risk_set(f"{quick}size({codes})", "int")
        return self.risk_set(f"{self.constant(caller(name, overloads))}({codes})", _result_kind(name, overloads))

    def _check_pattern(self, pattern: Expr) -> None:
        constant = self._fold(pattern)
        if isinstance(constant, str):
            try:
                regexp.matcher(constant)
            except regexp.PatternError as error:
                raise ProgramError(str(error)) from None

    def _member(self, item: Expr, constants: list[Any]) -> Code:
        """`in` a list of constants: a set, which costs nothing to look into."""
        value = self._value(item)
        if not constants:
            return Code("False", "bool")
        bools = frozenset(each for each in constants if isinstance(each, bool))
        others = frozenset(each for each in constants if not isinstance(each, bool))
        return self.set(f"member({value.text}, {self.constant(others)}, {self.constant(bools)})", "bool")

    def _equal(self, name: str, arguments: tuple[Expr, ...], values: list[Code]) -> Code:
        left, right = values
        same = left.kind if left.kind == right.kind and left.kind in ("int", "bool") else ""
        if same:
            self.charge(1)
            return self.set(f"{left.text} {'==' if name == '_==_' else '!='} {right.text}", "bool")
        self.settle()
        self.line(f"cost += {'equality' if name == '_==_' else 'inequality'}({left.text}, {right.text})")
        kind = _PYTHON_TYPES.get(self._type(arguments[0]).kind, "")
        quick = ""
        if kind in ("int", "str", "bool") and kind == self._python_type(arguments[1]):
            sign = "==" if name == "_==_" else "!="
            checks = " and ".join(f"type({value.text}) is {kind}" for value in values if value.kind != kind)
            quick = f"{left.text} {sign} {right.text} if {checks or 'True'} else "
        return self.risk_set(f"{quick}{'equal' if name == '_==_' else 'not_equal'}({left.text}, {right.text})", "bool")

    def _compare(self, name: str, arguments: tuple[Expr, ...], values: list[Code]) -> Code:
        left, right = values
        sign = _COMPARISONS[name]
        if left.kind == right.kind == "int":
            return self.set(f"{left.text} {sign} {right.text}", "bool")
        kind = self._python_type(arguments[0])
        quick = ""
        if kind in ("int", "str") and kind == self._python_type(arguments[1]):
            checks = " and ".join(f"type({value.text}) is {kind}" for value in values if value.kind != kind)
            quick = f"{left.text} {sign} {right.text} if {checks or 'True'} else "
        return self.risk_set(f"{quick}compare({left.text}, {right.text}, {self.constant(name)}) {sign} 0", "bool")

    def _list(self, expr: List) -> Code:
        if not expr.optional_indices:
            values = [self._value(element) for element in expr.elements]
            self.charge(CREATE_LIST)
            return self.set(f"[{', '.join(value.text for value in values)}]", "list")
        values = [self._value(element) for element in expr.elements]
        self.charge(CREATE_LIST)
        result = self.set("[]", "list")
        for position, value in enumerate(values):
            if position in expr.optional_indices:
                value = self.risk_set(f"element({value.text})")
                self.line(f"if {value.text} is not MISSING: {result.text}.append({value.text})")
            else:
                self.line(f"{result.text}.append({value.text})")
        return result

    def _map(self, expr: Map) -> Code:
        result = self.set("{}", "dict")
        for each in expr.entries:
            key = self._value(each.key)
            value = self._value(each.value)
            key_code = key.text if key.kind in ("str", "int") else self.risk_set(f"map_key({key.text})").text
            if each.optional:
                value = self.risk_set(f"entry({key_code}, {value.text})")
                self.line(f"if {value.text} is MISSING: {result.text}.pop({key_code}, None)")
                self.line(f"else: {result.text}[{key_code}] = {value.text}")
            else:
                self.line(f"{result.text}[{key_code}] = {value.text}")
        self.charge(CREATE_MAP)
        return result

    def _struct(self, expr: Struct) -> Code:
        result = self.set("{}", "dict")
        for each in expr.fields:
            value, name = self._value(each.value), self.constant(each.name)
            if each.optional:
                value = self.risk_set(f"entry({name}, {value.text})")
                self.line(f"if {value.text} is not MISSING: {result.text}[{name}] = {value.text}")
            else:
                self.line(f"{result.text}[{name}] = {value.text}")
        self.charge(CREATE_STRUCT)
        return result

    # --- macros ---

    def _comprehension(self, expr: Comprehension) -> Code:
        if expr.macro in ("bind", "sortBy"):
            return self._bind(expr)
        items = self._range(expr)
        inside = self._scope
        self._scope = dict(inside)
        for name in (expr.iter_var, expr.iter_var2):
            if name:
                self._scope[name] = _Variable(self.temp("v"))
        match expr.macro:
            case "all" | "exists":
                result = self._quantifier(expr, items)
            case "exists_one":
                result = self._exists_one(expr, items)
            case _:
                result = self._collect(expr, items)
        self._scope = inside
        return result

    def _range(self, expr: Comprehension) -> str:
        value = self._value(expr.iter_range)
        kind = self._type(expr.iter_range).kind
        if expr.iter_var2:
            return self.risk_set(f"pairs({value.text})").text
        if kind is Kind.LIST:
            return self.risk_set(f"{value.text} if type({value.text}) is list else elements({value.text})").text
        return self.risk_set(f"elements({value.text})").text

    @contextmanager
    def _loop(self, expr: Comprehension, items: str) -> Iterator[None]:
        """The body of a loop; its end must leave nothing to pay."""
        self.settle()
        names = ", ".join(self._scope[name].code for name in (expr.iter_var, expr.iter_var2) if name)
        with self.block(f"for {names} in {items}:", counts=True):
            self.line("if cost > budget: raise CostExceeded()")
            yield

    def _quantifier(self, expr: Comprehension, items: str) -> Code:
        """`all` and `exists`. What is looked at before each round costs, even where it ends the loop."""
        assert isinstance(expr.loop_step, Call)
        is_all = expr.macro == "all"
        look = 2 if is_all else 3
        iterator, error = self.set(f"iter({items})").text, self.temp("e")
        result = self.set(str(is_all), "bool")
        self.line(f"{error} = None")
        with self._loop(expr, iterator):
            self.charge(look + 1)
            with self.caught(f"{error} = {error} or error", "continue"):
                predicate = self._bool(self._value(expr.loop_step.args[1]))
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
                predicate = self._bool(self._value(expr.loop_step.args[0]))
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
                    predicate = self._bool(self._value(step.args[0]))
                self.line(f"if not {predicate}: continue")
                step = step.args[1]
                assert isinstance(step, Call)
            # The list or map so far, and the call that adds to it.
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
            if self._fold(added) is _Nothing:
                value = self._value(added.elements[0])
                self.charge(CREATE_LIST)
                self.settle()
            else:
                value = self._value(added.elements[0])
            self.line(f"{result}.append({value.text})")
        else:
            codes = ", ".join(self._value(argument).text for argument in step.args[1:])
            self.risk(f"{'insert' if len(step.args) == 3 else 'insert_all'}({result}, {codes})")

    def _bind(self, expr: Comprehension) -> Code:
        """One variable, computed when it is first asked for: a variable that nobody asks for costs nothing."""
        name = self.temp("v")
        if _is_sure(expr.result, expr.accu_var):
            value = self._value(expr.accu_init)
            self.settle()
            self.line(f"{name} = {value.text}")
            variable = _Variable(name, value.kind)
        else:
            variable = _Variable(name, thunk=self._as_function(expr.accu_init))
            self.line(f"{name} = []")
        inside = self._scope
        self._scope = {**inside, expr.accu_var: variable}
        result = self._value(expr.result)
        self._scope = inside
        return result


def _steps(expr: Expr) -> tuple[Expr, list[_Step]]:
    """What an attribute starts from, and its steps."""
    steps: list[_Step] = []
    while True:
        match expr:
            case Select() if not (expr.test_only and steps):
                steps.append(_Step(expr.operand, expr.field, is_test=expr.test_only))
                expr = expr.operand
            case Call(function="_?._", args=(operand, Literal(value=str(field)))):
                steps.append(_Step(operand, field, is_optional=True))
                expr = operand
            case Call(function="_[_]" | "_[?_]", args=(operand, key)):
                steps.append(_Step(operand, key, is_optional=expr.function == "_[?_]"))
                expr = operand
            case _:
                return expr, steps[::-1]


def _is_sure(expr: Expr, name: str) -> bool:
    """Whether the variable is surely asked for, unless something fails."""
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


def _are_plain(items: list[Any]) -> bool:
    """Whether cel-go makes a set of a list of constants."""
    return all(isinstance(item, bool | int | float | str) for item in items)


_RESULT_KINDS = {Kind.BOOL: "bool", Kind.INT: "int", Kind.STRING: "str"}


def _result_kind(name: str, overloads: tuple[str, ...]) -> str:
    kinds = {each.result.kind for each in functions().get(name, ()) if each.id in overloads}
    return _RESULT_KINDS.get(kinds.pop(), "") if len(kinds) == 1 else ""
