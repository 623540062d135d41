"""Compiles a checked expression to a Python function that gives its value and what that cost.

The function is made as source text: statements in the order of evaluation, names made up here, every constant passed in by name, so
that nothing of an expression's text is ever run. Costs are counted where cel-go's interpreter counts them, step by step, so that
they are equal to its figures; loops and calls stop once the budget is spent. Errors are exceptions within and come out as CELError;
`&&`, `||`, `all` and `exists` catch those of their operands. (A call of which one argument failed doesn't look at those after it, as
cel-go does: where such an error is absorbed, their cost is missing.)
Called by whoever holds rules. Pure.
Source: cel-go interpreter/{planner,interpretable,attributes,runtimecost,decorators}.go, v0.26.0, with the options of k8s.io/apiserver
pkg/cel/environment (optimized, `has` for nothing), v0.36.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from aggserver.cel import operators
from aggserver.cel.ast import Call, Comprehension, Expr, Ident, List, Literal, Map, Select, Struct, children
from aggserver.cel.checker import Checked
from aggserver.cel.declarations import functions
from aggserver.cel.functions import caller
from aggserver.cel.library import comprehensions
from aggserver.cel.runtime_cost import CREATE_LIST, CREATE_MAP, CREATE_STRUCT, cost_of, equality, inequality
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
    show,
    size,
)
from aggserver.meta import regexp

__all__ = ["Program", "ProgramError", "compile_program"]

Program = Callable[[Mapping[str, Any], int], tuple[Any, int]]
"""From the variables and a budget to the value and its cost. Raises CELError, which says the cost too."""

# Python takes 20 loops and tries within each other and 100 levels of indentation: deeper parts become functions of their own.
_DEEPEST_BLOCK, _DEEPEST_LINE = 12, 50
# Copying so many elements of lists, which costs nothing upstream, takes one from the budget.
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


class ProgramError(ValueError):
    """The expression is right and yet no program: a conversion of a constant fails. `str()` is what cel-go says."""


def compile_program(checked: Checked) -> Program:
    """Raises ProgramError."""
    source, names = _Generator(checked).generate()
    exec(compile(source, "<cel>", "exec"), names)  # noqa: S102  (the text is this module's own)
    program: Program = names["evaluate"]
    return program


def _finished(error: CELError, cost: int, budget: int) -> CELError:
    """What an evaluation that failed says at its end."""
    if cost > budget and not isinstance(error, CostExceeded):
        error = CostExceeded()
    error.cost = cost
    return error


def _has(operand: Any, key: Any) -> bool:
    if isinstance(operand, Optional):
        operand = operand.value
    return operators.look_up(operand, key) is not MISSING


def _opened(operand: Any) -> Any:
    """What an optional holds, MISSING if nothing; anything else itself."""
    return operand.value if isinstance(operand, Optional) else operand


def _element(value: Any) -> Any:
    """Of `[?value]` and `{?key: value}`."""
    if isinstance(value, Optional):
        return value.value
    raise EvaluationError(f"cannot initialize optional list element from non-optional value {show(value)}")


def _entry(key: Any, value: Any) -> Any:
    if isinstance(value, Optional):
        return value.value
    raise EvaluationError(f"cannot initialize optional entry '{show(key)}' from non-optional value {show(value)}")


def _key(key: Any) -> Any:
    if isinstance(key, str | bool | int | float):
        return key
    raise EvaluationError(f"unsupported key type: {show(key)}")


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
    "element": _element,
    "elements": elements,
    "entry": _entry,
    "equal": equal,
    "equality": equality,
    "finished": _finished,
    "has": _has,
    "index": operators.index,
    "inequality": inequality,
    "insert": comprehensions.insert,
    "insert_all": comprehensions.insert_all,
    "key": _key,
    "look_up": operators.look_up,
    "member": operators.member,
    "negate": operators.negate,
    "no_such_overload": no_such_overload,
    "not_": operators.not_,
    "not_equal": lambda left, right: _not_equal(left, right),
    "opened": _opened,
    "pairs": pairs,
    "size": size,
}


def _not_equal(left: Any, right: Any) -> bool:
    """What can't be compared is not equal either."""
    try:
        return not equal(left, right)
    except EvaluationError:
        return True


class _Value(NamedTuple):
    code: str
    kind: str = ""
    """The Python type that it is sure to have, if that is known."""


class _Step(NamedTuple):
    """`.field`, `[key]`, `.?field`, `[?key]`; has(.field)."""

    key: Expr | str
    optional: bool
    is_test: bool = False


@dataclass(slots=True)
class _Variable:
    code: str
    kind: str = ""
    thunk: str = ""
    """What to call for the value when it is first asked for; `code` is then a list that holds it from then on."""


@dataclass(slots=True)
class _Line:
    indent: int
    text: str


class _Nothing:
    """No constant."""


class _Generator:
    def __init__(self, checked: Checked) -> None:
        self._checked = checked
        self._names: dict[str, Any] = dict(_NAMES)
        self._lines: list[_Line] = []
        self._functions: list[_Line] = []
        self._indent = 2
        self._blocks = 1
        # What is to be added to the cost before anything else can happen.
        self._pending = 0
        # Counts the places that may raise an error.
        self._risks = 0
        self._scope: dict[str, _Variable] = {}
        self._last = 0
        self._folded: dict[int, Any] = {}

    def generate(self) -> tuple[str, dict[str, Any]]:
        result = self._value(self._checked.expr)
        self._settle()
        self._line("if cost > budget: raise CostExceeded()")
        self._line(f"return {result.code}, cost")
        lines = [
            _Line(0, "def evaluate(activation, budget):"),
            _Line(1, "cost = 0"),
            *self._functions,
            _Line(1, "try:"),
            *self._lines,
            _Line(1, "except CELError as error:"),
            _Line(2, "raise finished(error, cost, budget) from None"),
        ]
        return "\n".join(" " * line.indent + line.text for line in lines), self._names

    # --- writing ---

    def _line(self, text: str) -> None:
        self._lines.append(_Line(self._indent, text))

    def _risk(self, text: str) -> None:
        """A line that may raise an error: all that has been spent is counted before."""
        self._settle()
        self._risks += 1
        self._line(text)

    @contextmanager
    def _block(self, header: str, *, counts: bool = False) -> Iterator[None]:
        """`counts` for loops and tries."""
        self._line(header)
        self._indent += 1
        self._blocks += counts
        yield
        self._settle()
        self._indent -= 1
        self._blocks -= counts

    def _settle(self) -> None:
        if self._pending:
            self._line(f"cost += {self._pending}")
            self._pending = 0

    def _temp(self, prefix: str = "t") -> str:
        self._last += 1
        return f"{prefix}{self._last}"

    def _constant(self, value: Any) -> str:
        if value is None or isinstance(value, bool) or type(value) is int:
            return f"({value})"
        name = self._temp("k")
        self._names[name] = value
        return name

    def _set(self, code: str, kind: str = "") -> _Value:
        """In a variable, by code that raises nothing."""
        name = self._temp()
        self._line(f"{name} = {code}")
        return _Value(name, kind)

    def _risk_set(self, code: str, kind: str = "") -> _Value:
        name = self._temp()
        self._risk(f"{name} = {code}")
        return _Value(name, kind)

    def _type(self, expr: Expr) -> Type:
        return self._checked.types.get(expr.id, DYN)

    def _python_type(self, expr: Expr) -> str:
        return _PYTHON_TYPES.get(self._type(expr).kind, "")

    def _pay(self, cost: Any, arguments: str) -> None:
        """For a call, before it is made."""
        if isinstance(cost, int):
            self._pending += cost
            return
        name = cost.__name__ if self._names.get(cost.__name__) is cost else self._constant(cost)
        self._settle()
        self._line(f"cost += {name}({arguments})")
        self._line("if cost > budget: raise CostExceeded()")

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
                return _Nothing if any(_Nothing in pair for pair in entries) else {_key(key): value for key, value in entries}
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

    def _value(self, expr: Expr, *, bare: bool = False) -> _Value:
        """Writes what computes the expression. `bare`: a branch of ?: or an index, where a variable's name costs nothing."""
        constant = self._fold(expr)
        if constant is not _Nothing:
            return _Value(self._constant(constant), type(constant).__name__)
        if isinstance(expr, Ident):
            self._pending += not bare
            return self._variable(expr)
        if self._blocks > _DEEPEST_BLOCK or self._indent > _DEEPEST_LINE:
            return self._risk_set(self._function(expr, bare=bare))
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

    def _function(self, expr: Expr, *, bare: bool = False) -> str:
        """A function for an expression; gives the code that calls it."""
        name = self._temp("f")
        parameters = ", ".join(dict.fromkeys(variable.code for variable in self._scope.values()))
        self._settle()
        outside = self._lines, self._indent, self._blocks
        self._lines, self._indent, self._blocks = [], 2, 0
        result = self._value(expr, bare=bare)
        self._settle()
        self._line(f"return {result.code}")
        self._functions += [_Line(1, f"def {name}({parameters}):"), _Line(2, "nonlocal cost, budget"), *self._lines]
        self._lines, self._indent, self._blocks = outside
        return f"{name}({parameters})"

    def _variable(self, expr: Ident) -> _Value:
        known = self._scope.get(expr.name)
        if known is not None and known.thunk:
            self._risk(f"if not {known.code}: {known.code}.append({known.thunk})")
            return _Value(f"{known.code}[0]")
        if known is not None:
            return _Value(known.code, known.kind)
        named = self._checked.references.get(expr.id, expr.name)
        variable = named if isinstance(named, str) else expr.name
        key, missing = self._constant(variable), self._constant(f"no such attribute(s): {variable}")
        name = self._temp()
        self._risk("try:")
        self._line(f" {name} = activation[{key}]")
        self._line("except KeyError:")
        self._line(f" raise EvaluationError({missing}) from None")
        return _Value(name)

    def _attribute(self, expr: Expr, *, bare: bool) -> _Value:
        """A variable or any other value, and the fields, indexes and tests that follow it."""
        base, steps = _steps(expr)
        # Upstream takes the branches of ?: for the attribute: there is none that costs.
        is_conditional = isinstance(base, Call) and base.function == "_?_:_"
        value = self._value(base, bare=True)
        if self._fold(base) is not _Nothing:
            # Python warns of a literal that is indexed.
            value = self._set(value.code, value.kind)
        if is_conditional:
            self._pending -= steps[-1].is_test
        else:
            self._pending += not bare and not steps[-1].is_test
        if self._type(base).is_optional or any(step.optional for step in steps):
            return self._optional_steps(value, base, steps)
        type_ = self._type(base)
        for step in steps:
            key = _Value(self._constant(step.key), "str") if isinstance(step.key, str) else self._value(step.key, bare=True)
            self._pending += 1
            if step.is_test:
                return self._risk_set(
                    f"{key.code} in {value.code} if type({value.code}) is dict else has({value.code}, {key.code})", "bool"
                )
            if isinstance(step.key, str) or (
                type_.kind is Kind.MAP and isinstance(step.key, Ident | Select) and self._type(step.key).kind is Kind.STRING
            ):
                # Whatever is no dict with that key comes out as one of these errors.
                name = self._temp()
                self._risk("try:")
                self._line(f" {name} = {value.code}[{key.code}]")
                self._line("except (KeyError, TypeError):")
                self._line(f" {name} = index({value.code}, {key.code})")
                value = _Value(name)
            else:
                value = self._risk_set(f"index({value.code}, {key.code})")
            type_ = DYN
        return value

    def _optional_steps(self, value: _Value, base: Expr, steps: list[_Step]) -> _Value:
        """From the first optional step on, what isn't there ends the way; it is not paid for."""
        is_test = steps[-1].is_test
        result = self._temp()
        self._settle()
        self._line(f"{result} = {'False' if is_test else 'NONE'}")
        opened = [self._indent, self._blocks]
        is_optional = False
        if self._type(base).is_optional:
            is_optional = True
            value = self._set(f"opened({value.code})")
            self._line(f"if {value.code} is not MISSING:")
            self._indent += 1
        for step in steps:
            if step.optional and not is_optional:
                is_optional = True
                value = self._set(f"opened({value.code})")
                self._line(f"if {value.code} is not MISSING:")
                self._indent += 1
            key = _Value(self._constant(step.key), "str") if isinstance(step.key, str) else self._value(step.key, bare=True)
            if is_optional:
                value = self._risk_set(f"look_up({value.code}, {key.code})")
                self._line(f"if {value.code} is not MISSING:")
                self._indent += 1
                self._pending += 1
                self._settle()
            else:
                self._pending += 1
                value = self._risk_set(f"index({value.code}, {key.code})")
        self._line(f"{result} = {'True' if is_test else f'Optional({value.code})'}")
        self._indent, self._blocks = opened
        return _Value(result, "bool" if is_test else "Optional")

    def _conditional(self, expr: Call) -> _Value:
        condition = self._value(expr.args[0])
        result = self._temp()
        self._settle()
        is_bool = condition.kind == "bool"
        with self._block(f"if {condition.code}:" if is_bool else f"if {condition.code} is True:"):
            first = self._value(expr.args[1], bare=True)
            self._settle()
            self._line(f"{result} = {first.code}")
        with self._block("else:" if is_bool else f"elif {condition.code} is False:"):
            second = self._value(expr.args[2], bare=True)
            self._settle()
            self._line(f"{result} = {second.code}")
        if not is_bool:
            self._risks += 1
            self._line("else: raise no_such_overload()")
        return _Value(result, first.kind if first.kind == second.kind else "")

    def _bool(self, value: _Value) -> str:
        """Raises what isn't a bool."""
        if value.kind != "bool":
            self._risk(f"if {value.code} is not True and {value.code} is not False: raise no_such_overload()")
        return value.code

    def _logical(self, expr: Call) -> _Value:
        """Either side decides, even if the other failed."""
        goes_on = "True" if expr.function == "_&&_" else "False"
        result, error = self._temp(), self._temp("e")
        self._settle()
        start, risks = len(self._lines), self._risks
        with self._block("try:", counts=True):
            left = self._bool(self._value(expr.args[0]))
            self._settle()
            self._line(f"{result} = {left}")
        is_risky = self._risks > risks
        if is_risky:
            self._lines.insert(start, _Line(self._indent, f"{error} = None"))
            self._line("except EvaluationError as error:")
            self._line(f" {error} = error")
            self._line(f" {result} = {goes_on}")
        else:
            del self._lines[start]
            for line in self._lines[start:]:
                line.indent -= 1
        with self._block(f"if {result} is {goes_on}:"):
            if not is_risky:
                right = self._bool(self._value(expr.args[1]))
                self._settle()
                self._line(f"{result} = {right}")
            else:
                with self._block("try:", counts=True):
                    right = self._bool(self._value(expr.args[1]))
                    self._settle()
                    self._line(f"{result} = {right}")
                self._line("except EvaluationError as error:")
                self._line(f" raise {error} or error")
                self._line(f"if {error} is not None and {result} is {goes_on}: raise {error}")
        return _Value(result, "bool")

    def _or_else(self, expr: Call, target: Expr) -> _Value:
        """`or` and `orValue`: what is on the right is looked at only where the left has nothing."""
        left = self._value(target)
        result = self._temp()
        self._settle()
        with self._block(f"if type({left.code}) is Optional and {left.code}.value is MISSING:"):
            right = self._value(expr.args[0])
            self._settle()
            self._line(f"{result} = {right.code}")
        self._line(f"else: {result} = {left.code if expr.function == 'or' else f'opened({left.code})'}")
        return _Value(result)

    def _call(self, expr: Call) -> _Value:
        name, overloads = expr.function, self._overloads(expr)
        arguments = expr.args if expr.target is None else (expr.target, *expr.args)
        cost = cost_of(name, overloads[0] if len(overloads) == 1 else "")
        if name in ("matches", "find", "findAll"):
            self._check_pattern(arguments[1])
        if name == "@in" and overloads == ("in_list",):
            constant = self._fold(arguments[1])
            if constant is not _Nothing and _are_plain(constant):
                return self._member(arguments[0], constant)
        values = [self._value(argument) for argument in arguments]
        codes = ", ".join(value.code for value in values)
        if name in ("_==_", "_!=_"):
            return self._equal(name, arguments, values)
        if name in _COMPARISONS:
            self._pay(cost, codes)
            return self._compare(name, arguments, values)
        self._pay(cost, codes)
        if name in _ARITHMETIC:
            result = self._risk_set(f"{self._constant(_ARITHMETIC[name])}({codes})")
            if name == "_+_" and (len(overloads) != 1 or overloads[0] == "add_list"):
                self._line(f"if isinstance({result.code}, list): budget -= len({result.code}) >> {_COPIES_BITS}")
            return result
        match name:
            case "!_":
                return self._set(f"not {codes}", "bool") if values[0].kind == "bool" else self._risk_set(f"not_({codes})", "bool")
            case "-_":
                return self._risk_set(f"negate({codes})")
            case "@in":
                return self._risk_set(f"contains({codes})", "bool")
            case "size":
                type_ = self._python_type(arguments[0])
                quick = f"len({codes}) if type({codes}) is {type_} else " if type_ else ""
                return self._risk_set(f"{quick}size({codes})", "int")
        return self._risk_set(f"{self._constant(caller(name, overloads))}({codes})", _result_kind(name, overloads))

    def _check_pattern(self, pattern: Expr) -> None:
        constant = self._fold(pattern)
        if isinstance(constant, str):
            try:
                regexp.matcher(constant)
            except regexp.PatternError as error:
                raise ProgramError(str(error)) from None

    def _member(self, item: Expr, constants: list[Any]) -> _Value:
        """`in` a list of constants: a set, which costs nothing to look into."""
        value = self._value(item)
        if not constants:
            return _Value("False", "bool")
        bools = frozenset(each for each in constants if isinstance(each, bool))
        others = frozenset(each for each in constants if not isinstance(each, bool))
        return self._set(f"member({value.code}, {self._constant(others)}, {self._constant(bools)})", "bool")

    def _equal(self, name: str, arguments: tuple[Expr, ...], values: list[_Value]) -> _Value:
        left, right = values
        same = left.kind if left.kind == right.kind and left.kind in ("int", "bool") else ""
        if same:
            self._pending += 1
            return self._set(f"{left.code} {'==' if name == '_==_' else '!='} {right.code}", "bool")
        self._settle()
        self._line(f"cost += {'equality' if name == '_==_' else 'inequality'}({left.code}, {right.code})")
        kind = _PYTHON_TYPES.get(self._type(arguments[0]).kind, "")
        quick = ""
        if kind in ("int", "str", "bool") and kind == self._python_type(arguments[1]):
            sign = "==" if name == "_==_" else "!="
            checks = " and ".join(f"type({value.code}) is {kind}" for value in values if value.kind != kind)
            quick = f"{left.code} {sign} {right.code} if {checks or 'True'} else "
        return self._risk_set(f"{quick}{'equal' if name == '_==_' else 'not_equal'}({left.code}, {right.code})", "bool")

    def _compare(self, name: str, arguments: tuple[Expr, ...], values: list[_Value]) -> _Value:
        left, right = values
        sign = _COMPARISONS[name]
        if left.kind == right.kind == "int":
            return self._set(f"{left.code} {sign} {right.code}", "bool")
        kind = self._python_type(arguments[0])
        quick = ""
        if kind in ("int", "str") and kind == self._python_type(arguments[1]):
            checks = " and ".join(f"type({value.code}) is {kind}" for value in values if value.kind != kind)
            quick = f"{left.code} {sign} {right.code} if {checks or 'True'} else "
        return self._risk_set(f"{quick}compare({left.code}, {right.code}, {self._constant(name)}) {sign} 0", "bool")

    def _list(self, expr: List) -> _Value:
        if not expr.optional_indices:
            values = [self._value(element) for element in expr.elements]
            self._pending += CREATE_LIST
            return self._set(f"[{', '.join(value.code for value in values)}]", "list")
        values = [self._value(element) for element in expr.elements]
        self._pending += CREATE_LIST
        result = self._set("[]", "list")
        for position, value in enumerate(values):
            if position in expr.optional_indices:
                value = self._risk_set(f"element({value.code})")
                self._line(f"if {value.code} is not MISSING: {result.code}.append({value.code})")
            else:
                self._line(f"{result.code}.append({value.code})")
        return result

    def _map(self, expr: Map) -> _Value:
        result = self._set("{}", "dict")
        for each in expr.entries:
            key = self._value(each.key)
            value = self._value(each.value)
            key_code = key.code if key.kind in ("str", "int") else self._risk_set(f"key({key.code})").code
            if each.optional:
                value = self._risk_set(f"entry({key_code}, {value.code})")
                self._line(f"if {value.code} is MISSING: {result.code}.pop({key_code}, None)")
                self._line(f"else: {result.code}[{key_code}] = {value.code}")
            else:
                self._line(f"{result.code}[{key_code}] = {value.code}")
        self._pending += CREATE_MAP
        return result

    def _struct(self, expr: Struct) -> _Value:
        result = self._set("{}", "dict")
        for each in expr.fields:
            value, name = self._value(each.value), self._constant(each.name)
            if each.optional:
                value = self._risk_set(f"entry({name}, {value.code})")
                self._line(f"if {value.code} is not MISSING: {result.code}[{name}] = {value.code}")
            else:
                self._line(f"{result.code}[{name}] = {value.code}")
        self._pending += CREATE_STRUCT
        return result

    # --- macros ---

    def _comprehension(self, expr: Comprehension) -> _Value:
        if expr.macro in ("bind", "sortBy"):
            return self._bind(expr)
        items = self._range(expr)
        inside = self._scope
        self._scope = dict(inside)
        for name in (expr.iter_var, expr.iter_var2):
            if name:
                self._scope[name] = _Variable(self._temp("v"))
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
            return self._risk_set(f"pairs({value.code})").code
        if kind is Kind.LIST:
            return self._risk_set(f"{value.code} if type({value.code}) is list else elements({value.code})").code
        return self._risk_set(f"elements({value.code})").code

    @contextmanager
    def _loop(self, expr: Comprehension, items: str) -> Iterator[None]:
        """The body of a loop; its end must leave nothing to pay."""
        self._settle()
        names = ", ".join(self._scope[name].code for name in (expr.iter_var, expr.iter_var2) if name)
        with self._block(f"for {names} in {items}:", counts=True):
            self._line("if cost > budget: raise CostExceeded()")
            yield

    @contextmanager
    def _caught(self, statements: str) -> Iterator[None]:
        """What fails within does `statements`, in a loop; nothing is written if nothing can fail."""
        start, risks = len(self._lines), self._risks
        pending, self._pending = self._pending, 0
        self._line("try:")
        self._indent += 1
        self._blocks += 1
        self._pending = pending
        yield
        self._settle()
        self._indent -= 1
        self._blocks -= 1
        if self._risks > risks:
            self._line("except EvaluationError as error:")
            self._line(f" {statements}")
        else:
            del self._lines[start]
            for line in self._lines[start:]:
                line.indent -= 1

    def _quantifier(self, expr: Comprehension, items: str) -> _Value:
        """`all` and `exists`. What is looked at before each round costs, even where it ends the loop."""
        assert isinstance(expr.loop_step, Call)
        is_all = expr.macro == "all"
        look = 2 if is_all else 3
        iterator, error = self._set(f"iter({items})").code, self._temp("e")
        result = self._set(str(is_all), "bool")
        self._line(f"{error} = None")
        with self._loop(expr, iterator):
            self._pending += look + 1
            with self._caught(f"{error} = {error} or error; continue"):
                predicate = self._bool(self._value(expr.loop_step.args[1]))
            with self._block(f"if {predicate} is {not is_all}:"):
                self._line(f"{result.code} = {not is_all}")
                self._line(f"for _ in {iterator}:")
                self._line(f" cost += {look}; break")
                self._line("break")
        self._pending += 1
        self._risk(f"if {error} is not None and {result.code} is {is_all}: raise {error}")
        return result

    def _exists_one(self, expr: Comprehension, items: str) -> _Value:
        assert isinstance(expr.loop_step, Call)
        error = self._temp("e")
        count = self._set("0", "int").code
        self._line(f"{error} = None")
        with self._loop(expr, items):
            with self._caught(f"{error} = error; continue"):
                predicate = self._bool(self._value(expr.loop_step.args[0]))
            self._line(f"if {predicate}: {count} += 1; cost += 2")
        self._pending += 2
        self._risk(f"if {error} is not None: raise {error}")
        return self._set(f"{count} == 1", "bool")

    def _collect(self, expr: Comprehension, items: str) -> _Value:
        """`map`, `filter`, `transformList`, `transformMap` and `transformMapEntry`: a list or map that grows in place."""
        step = expr.loop_step
        assert isinstance(step, Call)
        is_map = isinstance(expr.accu_init, Map)
        error = self._temp("e")
        result = self._set("{}" if is_map else "[]", "dict" if is_map else "list")
        self._line(f"{error} = None")
        with self._loop(expr, items):
            if step.function == "_?_:_":
                with self._caught(f"{error} = error; continue"):
                    predicate = self._bool(self._value(step.args[0]))
                self._line(f"if not {predicate}: continue")
                step = step.args[1]
                assert isinstance(step, Call)
            # The list or map so far, and the call that adds to it.
            self._pending += 2
            with self._caught(f"{error} = {error} or error"):
                self._add(result.code, step)
        self._pending += 1
        self._risk(f"if {error} is not None: raise {error}")
        return result

    def _add(self, result: str, step: Call) -> None:
        if step.function == "_+_":
            added = step.args[1]
            assert isinstance(added, List)
            if self._fold(added) is _Nothing:
                value = self._value(added.elements[0])
                self._pending += CREATE_LIST
                self._settle()
            else:
                value = self._value(added.elements[0])
            self._line(f"{result}.append({value.code})")
        else:
            codes = ", ".join(self._value(argument).code for argument in step.args[1:])
            self._risk(f"{'insert' if len(step.args) == 3 else 'insert_all'}({result}, {codes})")

    def _bind(self, expr: Comprehension) -> _Value:
        """One variable, computed when it is first asked for: a variable that nobody asks for costs nothing."""
        name = self._temp("v")
        if _is_sure(expr.result, expr.accu_var):
            value = self._value(expr.accu_init)
            self._settle()
            self._line(f"{name} = {value.code}")
            variable = _Variable(name, value.kind)
        else:
            variable = _Variable(name, thunk=self._function(expr.accu_init))
            self._line(f"{name} = []")
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
                steps.append(_Step(expr.field, False, expr.test_only))
                expr = expr.operand
            case Call(function="_?._", args=(operand, Literal(value=str(field)))):
                steps.append(_Step(field, True))
                expr = operand
            case Call(function="_[_]" | "_[?_]", args=(operand, key)):
                steps.append(_Step(key, expr.function == "_[?_]"))
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
