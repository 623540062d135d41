"""Generates Python for a checked expression: statements in the order of evaluation.

All names are made up here and constants are passed in by name, so no text of an expression is ever run as code. Costs are
counted where cel-go's interpreter counts them, so that the figures are equal; loops, and calls that may take long, stop once the
budget is spent. Errors are exceptions. `&&`, `||`, `all` and `exists` catch those of their operands, and a call of two arguments
evaluates the second even if the first failed. Most evaluations meet no error, so only a second form of the function does
that; it is generated and called when the first form has met an error. Pure.
Source: cel-go interpreter/{planner,interpretable,attributes,runtimecost,decorators}.go, v0.26.0, with the options of
k8s.io/apiserver pkg/cel/environment (optimized, no cost for `has`), v0.36.3.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from aggserver.cel import operators
from aggserver.cel.ast import Call, Comprehension, Expr, Ident, List, Literal, Map, Select, Struct
from aggserver.cel.checker import Checked
from aggserver.cel.constants import NOT_CONSTANT, Constants, ProgramError
from aggserver.cel.declarations import functions
from aggserver.cel.folds import Folds
from aggserver.cel.functions import caller
from aggserver.cel.objects import Objects, OnAccess, PlainObjects
from aggserver.cel.runtime_cost import CREATE_LIST, CREATE_MAP, CREATE_STRUCT, Cost, cost_of, equality, inequality
from aggserver.cel.types import DYN, Kind, Type
from aggserver.cel.values import go_type
from aggserver.cel.writer import Code
from aggserver.meta import regexp

__all__ = ["generate"]

# Work that is free upstream but takes time here lowers the budget by one for each 2**bits elements:
# elements copied when lists are concatenated,
_COPIES_BITS = 6
# elements of an object's lists and maps converted to CEL values, which upstream does only for those that are read,
_CONVERTED_BITS = 3
# and elements of nested lists, maps and objects, which a call may traverse though it pays only for the outermost.
_NESTED_BITS = 5

_COMPARISONS = {"_<_": "<", "_<=_": "<=", "_>_": ">", "_>=_": ">="}
_ARITHMETIC = {
    "_+_": operators.add,
    "_-_": operators.subtract,
    "_*_": operators.multiply,
    "_/_": operators.divide,
    "_%_": operators.modulo,
}
# Calls of two arguments where upstream does not evaluate the second if the first failed: this overload, these functions if the
# checker left more than one overload, and all with a constant pattern.
_STOPPING = "string_format"
_STOPPING_IF_DYN = frozenset(
    (
        *("add", "compareTo", "containsCIDR", "containsIP", "indexOf", "isGreaterThan", "isLessThan"),
        *("lastIndexOf", "sub"),
    )
)
# Functions that don't look at the elements of a list or map, so that these need no conversion.
_LOOK_UPS = frozenset(("size", "type"))
# Functions whose results can be much larger than their cost: 2**bits elements or characters lower the budget by one.
_GROWING = {"flatten": _COPIES_BITS, "format": 8, "replace": 8}
_REGEX_FUNCTIONS = frozenset(("matches", "find", "findAll"))
_NESTING = frozenset((Kind.LIST, Kind.MAP, Kind.OBJECT, Kind.DYN))
# Kinds whose values are compared at a cost of 1.
_SIZELESS = frozenset((Kind.BOOL, Kind.INT, Kind.UINT, Kind.DOUBLE, Kind.TIMESTAMP, Kind.DURATION))
_PYTHON_TYPES = {Kind.STRING: "str", Kind.LIST: "list", Kind.MAP: "dict", Kind.INT: "int", Kind.BOOL: "bool", Kind.BYTES: "bytes"}


def generate(checked: Checked, objects: Objects | None = None, *, catches: bool) -> tuple[str, dict[str, Any]]:
    """The text of a function `evaluate(activation, limit)`, and its constants by name. Raises ProgramError.

    If it does not catch errors, it calls `catching(activation, limit)` at the first one.
    """
    generator = _Generator(checked, objects, catches=catches)
    generator.write()
    return generator.text(), generator.constant_names


class _Step(NamedTuple):
    """`.field`, `[key]`, `.?field`, `[?key]` or has(.field). expr: the whole expression up to and including this step."""

    expr: Expr
    operand: Expr
    key: Expr | str
    is_optional: bool = False
    is_test: bool = False


class _Generator(Folds):
    def __init__(self, checked: Checked, objects: Objects | None, *, catches: bool) -> None:
        super().__init__(catches=catches)
        self._checked = checked
        self._objects: Objects = objects or PlainObjects()
        # Whether objects are read by the rules of `Objects`; otherwise as maps.
        self._has_fields = objects is not None
        self.scope = {}
        self.constants = Constants(checked)

    def write(self) -> None:
        result = self.value(self._checked.expr)
        self.settle()
        self.line("if cost > budget: raise CostExceeded()", f"return {result.text}, cost")

    def type_of(self, expr: Expr) -> Type:
        return self._checked.types.get(expr.id, DYN)

    def _python_type(self, expr: Expr) -> str:
        return _PYTHON_TYPES.get(self.type_of(expr).kind, "")

    def _pay(self, cost: str, arguments: str) -> None:
        """Emit the computed cost before the call."""
        self.settle()
        self.line(f"cost += {cost}({arguments})", "if cost > budget: raise CostExceeded()")

    def _arguments(self, arguments: tuple[Expr, ...], cost: Cost, *, stops: bool, is_deep: bool = True) -> list[Code]:
        """Write the arguments' values. A constant cost is charged here; a computed one is charged here only if an argument fails.

        `stops`: an argument that fails ends the call, which is paid for only if it was the last one.
        `is_deep`: lists, maps and objects are converted with all their elements.
        """
        given = self._deep_value if is_deep else self.value
        if isinstance(cost, int) and not stops:
            self.charge(cost)
        function = "" if isinstance(cost, int) else self.constant(cost)
        values: list[Code] = []
        for position, argument in enumerate(arguments):
            is_last = position == len(arguments) - 1
            if isinstance(cost, int) and stops and is_last:
                self.charge(cost)
            if not self.catches or (stops and not is_last):
                values.append(given(argument))
                continue
            then: list[str] = []
            call = ""
            known = [*(value.text for value in values), "None"]
            if not is_last and self.constants.of(arguments[1]) is NOT_CONSTANT:
                call, other = self.as_function(arguments[1], is_deep=is_deep), self.temp()
                then += ["try:", f" {other} = {call}", "except EvaluationError:", f" {other} = None"]
                known.append(other)
            elif not is_last:
                known.append(self.value(arguments[1]).text)
            if function:
                then.append(f"cost += {function}({', '.join(known)})")
            with self.caught(*then, "raise"):
                values.append(given(argument))
            if call:
                with self.caught(*([f"cost += {function}({values[0].text}, None)"] if function else []), "raise"):
                    values.append(self.risk_set(call))
                break
        return values

    def _overloads(self, expr: Call) -> tuple[str, ...]:
        return tuple(self._checked.overloads.get(expr.id, ()))

    def value(self, expr: Expr, *, bare: bool = False) -> Code:
        """Write code that computes the expression. `bare`: a branch of ?: or an index, where reading a variable costs nothing."""
        constant = self.constants.of(expr)
        if constant is not NOT_CONSTANT:
            return Code(self.constant(constant), type(constant).__name__)
        if isinstance(expr, Ident):
            self.charge(not bare)
            return self._variable(expr)
        if self.is_deep:
            return self.risk_set(self.as_function(expr, bare=bare))
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
                return self.comprehension(expr)
        raise AssertionError(expr)

    def as_function(self, expr: Expr, *, bare: bool = False, is_deep: bool = False) -> str:
        """Write a function for the expression; return the code that calls it."""
        parameters = ", ".join(dict.fromkeys(variable.code for variable in self.scope.values()))
        with self.function(parameters) as call:
            result = self._deep_value(expr, bare=bare) if is_deep else self.value(expr, bare=bare)
            self.settle()
            self.line(f"return {result.text}")
        return call

    def _variable(self, expr: Ident) -> Code:
        known = self.scope.get(expr.name)
        if known is not None and known.thunk:
            self.risk(f"if not {known.code}: {known.code}.append({known.thunk})")
            return Code(f"{known.code}[0]")
        if known is not None:
            value = Code(known.code, known.kind)
            return self._convert_element(value, self.type_of(expr)) if known.is_element else value
        named = self._checked.references.get(expr.id, expr.name)
        variable = named if isinstance(named, str) else expr.name
        given = self.from_activation(variable)
        self.risk(f"if {given} is MISSING: raise EvaluationError({self.constant(f'no such attribute(s): {variable}')})")
        type_ = self.type_of(expr)
        if type_.is_optional:
            return self._deep_convert(Code(given), type_)
        # Copied to a variable of its own, since the converted value replaces it there.
        return Code(given) if type_.kind is Kind.OBJECT else self._convert(self.set(given), type_)

    def _convert_element(self, variable: Code, type_: Type) -> Code:
        """Objects need no check on access: reading a field of any other value finds nothing."""
        return variable if type_.kind is Kind.OBJECT else self._convert(variable, type_)

    def _convert(self, variable: Code, type_: Type, *, is_field: bool = False) -> Code:
        """Convert a value of an object in its variable. A field that is present is not null."""
        access = self._objects.on_access(type_)
        if access is None:
            return variable
        self.risk(f"{self._if_other(variable, access)}{variable.text} = {self.constant(access.convert)}({variable.text})")
        is_sure = access.kind is not None and access.is_sure and (is_field or not access.may_be_null)
        return Code(variable.text, access.kind.__name__) if access.kind is not None and is_sure else variable

    def _if_other(self, variable: Code, access: OnAccess) -> str:
        return "" if access.kind is None else f"if type({variable.text}) is not {self.constant(access.kind)}: "

    def _deep_convert(self, value: Code, type_: Type) -> Code:
        if _has_nested(type_) and value.kind not in ("bool", "int", "float", "str", "bytes"):
            self.settle()
            condition = f"if isinstance({value.text}, (list, dict)): " if type_.is_dyn else ""
            weighed = f"weight({value.text}, (budget - cost + 1) << {_NESTED_BITS}) >> {_NESTED_BITS}"
            self.line(f"{condition}budget -= {weighed}", "if cost > budget: raise CostExceeded()")
        convert = self._objects.deep_conversion(type_)
        if convert is None:
            return value
        made = self.set(f"{self.constant(convert)}({value.text})")
        self.line(f"if isinstance({made.text}, (list, dict)): budget -= len({made.text}) >> {_CONVERTED_BITS}")
        return made

    def _deep_value(self, expr: Expr, *, bare: bool = False) -> Code:
        """The value of an expression, converted with all its elements, since it is used for more than access to them."""
        return self._deep_convert(self.value(expr, bare=bare), self.type_of(expr))

    def _branch(self, expr: Expr, into: Type, *, bare: bool = False) -> Code:
        """The value of one of two branches; converted with all its elements if the type of both is dyn, so not known here."""
        return self._deep_value(expr, bare=bare) if into.is_dyn else self.value(expr, bare=bare)

    def _attribute(self, expr: Expr, *, bare: bool) -> Code:
        """A variable or other value, followed by fields, indexes and presence tests."""
        base, steps = _steps(expr)
        # Upstream makes the branches of ?: the attribute, which costs nothing itself.
        is_conditional = isinstance(base, Call) and base.function == "_?_:_"
        self.charge(-steps[-1].is_test if is_conditional else not bare and not steps[-1].is_test)
        value = self.value(base, bare=True)
        if self.constants.of(base) is not NOT_CONSTANT:
            # Assigned to a variable, since Python warns if a literal is indexed.
            value = self.set(value.text, value.kind)
        if self.type_of(base).is_optional or any(step.is_optional for step in steps):
            return self._optional_steps(value, base, steps)
        for step in steps:
            value = self._step(value, step)
        return value

    def _step(self, value: Code, step: _Step) -> Code:
        type_ = self.type_of(step.operand)
        if isinstance(step.key, str) and self._is_object(type_):
            return self._field(value, step, type_, step.key)
        self.charge(1)
        key = self._key(step)
        if step.is_test:
            quick = f"{key.text} in {value.text} if type({value.text}) is dict else "
            return self.risk_set(f"{quick}has({value.text}, {key.text})", "bool")
        if isinstance(step.key, str) or (type_.kind is Kind.MAP and self.type_of(step.key).kind is Kind.STRING):
            # If it is not a dict or lacks the key, this raises one of the two errors.
            name = self.temp()
            self.risk("try:")
            other = (
                ""
                if type_.kind in (Kind.MAP, Kind.OBJECT)
                else f" if type({value.text}) is dict else index({value.text}, {key.text})"
            )
            self.line(f" {name} = {value.text}[{key.text}]{other}")
            self.line("except (KeyError, TypeError):")
            self.line(f" {name} = index({value.text}, {key.text})")
            found = Code(name)
        else:
            found = self.risk_set(f"index({value.text}, {key.text})")
        return self._convert(found, self.type_of(step.expr))

    def _is_object(self, type_: Type) -> bool:
        return self._has_fields and type_.kind is Kind.OBJECT

    def _key(self, step: _Step) -> Code:
        if isinstance(step.key, str):
            return Code(self.constant(step.key), "str")
        constant = self.constants.of(step.key)
        if constant is not NOT_CONSTANT and not isinstance(constant, str | int | float):
            raise ProgramError(f"invalid qualifier type: {go_type(constant)}")
        return self.value(step.key, bare=True)

    def _field(self, value: Code, step: _Step, type_: Type, field: str) -> Code:
        """A field of an object, where null counts as absent."""
        key, field_type = self._objects.field(type_, field)
        self.charge(1)
        name = self.temp()
        self.risk("try:")
        self.line(f" {name} = {value.text}[{self.constant(key)}]")
        self.line("except (KeyError, TypeError):")
        self.line(f" {name} = None")
        if step.is_test:
            if (access := self._objects.on_access(field_type)) is not None:
                # A value that can't be converted is an error for has() too.
                with self.block(f"if {name} is not None:"):
                    self.risk(f"{self._if_other(Code(name), access)}{self.constant(access.convert)}({name})")
            return self.set(f"{name} is not None", "bool")
        self.line(f"if {name} is None: raise EvaluationError({self.constant(f'no such key: {field}')})")
        return self._convert(Code(name), field_type, is_field=True)

    def _optional_steps(self, value: Code, base: Expr, steps: list[_Step]) -> Code:
        """From the first optional step on, a missing value ends the attribute; the steps not taken cost nothing."""
        is_optional = False
        for step in steps:
            if not is_optional and (step.is_optional or (step is steps[0] and self.type_of(base).is_optional)):
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
        """Write one step, which replaces the variable's value."""
        type_ = self.type_of(step.operand)
        type_ = type_.element if type_.is_optional else type_
        if isinstance(step.key, str) and self._is_object(type_):
            code = f"field({name}, {self.constant(self._objects.field(type_, step.key)[0])})"
        else:
            code = f"look_up({name}, {self._key(step).text})"
        self.risk(f"{name} = {code}")
        with self.block(f"if {name} is not MISSING:"):
            self.line("cost += 1")
            if not step.is_test:
                type_ = self.type_of(step.expr)
                self._convert(Code(name), type_.element if type_.is_optional else type_)

    def _conditional(self, expr: Call) -> Code:
        condition = self.bool(self.value(expr.args[0]))
        result = self.temp()
        self.settle()
        kinds = set()
        for header, branch in ((f"if {condition}:", expr.args[1]), ("else:", expr.args[2])):
            with self.block(header):
                value = self._branch(branch, self.type_of(expr), bare=True)
                self.settle()
                self.line(f"{result} = {value.text}")
                kinds.add(value.kind)
        return Code(result, kinds.pop() if len(kinds) == 1 else "")

    def bool(self, value: Code) -> str:
        """Write a check that the value is a bool, unless that is known; return its code."""
        if value.kind not in ("", "bool"):
            self.risk("raise no_such_overload()")
            return "False"
        if not value.kind:
            self.risk(f"if {value.text} is not True and {value.text} is not False: raise no_such_overload()")
        return value.text

    def _logical(self, expr: Call) -> Code:
        """`&&` and `||`: either side can decide the result, even if the other one failed."""
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
        decision = self.bool(self.value(expr))
        self.settle()
        self.line(f"{result} = {decision}")

    def _or_else(self, expr: Call, target: Expr) -> Code:
        """`or` and `orValue`: the right side is evaluated only if the left has no value."""
        left = self.value(target)
        result = self.temp()
        self.settle()
        with self.block(f"if type({left.text}) is Optional and {left.text}.value is MISSING:"):
            right = self._branch(expr.args[0], self.type_of(expr))
            self.settle()
            self.line(f"{result} = {right.text}")
        self.line(f"else: {result} = {left.text if expr.function == 'or' else f'opened({left.text})'}")
        return Code(result)

    def _call(self, expr: Call) -> Code:
        name, overloads = expr.function, self._overloads(expr)
        arguments = expr.args if expr.target is None else (expr.target, *expr.args)
        cost = cost_of(name, overloads[0] if len(overloads) == 1 else "")
        stops = len(arguments) > 2 or (name in _STOPPING_IF_DYN if len(overloads) > 1 else _STOPPING in overloads)
        pattern = self._checked_pattern(arguments[1]) if name in _REGEX_FUNCTIONS else None
        stops = stops or pattern is not None
        if name == "@in" and overloads == ("in_list",):
            constant = self.constants.of(arguments[1])
            if constant is not NOT_CONSTANT and _are_plain(constant):
                return self._member(arguments[0], constant)
        if name in ("_==_", "_!=_"):
            return self._equal(name, arguments)
        is_deep = name not in _LOOK_UPS and overloads != ("in_map",)
        values = self._arguments(arguments, cost, stops=stops, is_deep=is_deep)
        codes = ", ".join(value.text for value in values)
        if not isinstance(cost, int):
            self._pay(self.constant(cost), codes)
        if name in _COMPARISONS:
            return self._compare(name, arguments, values)
        if name in _ARITHMETIC:
            result = self.risk_set(f"{self.constant(_ARITHMETIC[name])}({codes})")
            if name == "_+_" and (len(overloads) != 1 or overloads[0] == "add_list"):
                self.line(f"if isinstance({result.text}, list): budget -= len({result.text}) >> {_COPIES_BITS}")
            return result
        if name in ("find", "findAll") and pattern is not None:
            # cel-go binds a constant pattern to the call, which then has a shorter error for arguments of other types.
            for at, kind, wanted in ((0, Kind.STRING, "str"), (2, Kind.INT, "int")):
                if at < len(values) and self.type_of(arguments[at]).kind is not kind:
                    self.risk(f"if type({values[at].text}) is not {wanted}: raise no_such_overload()")
        match name:
            case "!_":
                return self.set(f"not {codes}", "bool") if values[0].kind == "bool" else self.risk_set(f"not_({codes})", "bool")
            case "-_":
                return self.risk_set(f"negate({codes})")
            case "@in":
                return self.risk_set(f"contains({codes})", "bool")
            case "size":
                type_ = self._python_type(*arguments)
                if type_ and values[0].kind == type_:
                    return self.set(f"len({codes})", "int")
                quick = f"len({codes}) if type({codes}) is {type_} else " if type_ else ""
                return self.risk_set(f"{quick}size({codes})", "int")
        result = self.risk_set(f"{self.constant(caller(name, overloads))}({codes})", _result_kind(name, overloads))
        if name in _GROWING:
            self.line(f"budget -= len({result.text}) >> {_GROWING[name]}", "if cost > budget: raise CostExceeded()")
        return result

    def _checked_pattern(self, pattern: Expr) -> str | None:
        """The pattern if it is constant, else None. Raises ProgramError if it does not compile."""
        constant = self.constants.of(pattern)
        if not isinstance(constant, str):
            return None
        try:
            regexp.matcher(constant)
        except regexp.PatternError as error:
            raise ProgramError(str(error)) from None
        return constant

    def _member(self, item: Expr, constants: list[Any]) -> Code:
        """`in` a list of constants, which becomes a set: the lookup costs nothing."""
        value = self.value(item)
        bools = frozenset(each for each in constants if isinstance(each, bool))
        others = frozenset(each for each in constants if not isinstance(each, bool))
        return self.set(f"member({value.text}, {self.constant(others)}, {self.constant(bools)})", "bool")

    def _equal(self, name: str, arguments: tuple[Expr, ...]) -> Code:
        has_sizes = any(self.type_of(argument).kind not in _SIZELESS for argument in arguments)
        cost = equality if name == "_==_" else inequality
        left, right = self._arguments(arguments, cost if has_sizes else 1, stops=False)
        if has_sizes:
            self.settle()
            self.line(f"cost += {cost.__name__}({left.text}, {right.text})")
        sign = "==" if name == "_==_" else "!="
        if left.kind == right.kind and left.kind in ("int", "str", "bool"):
            return self.set(f"{left.text} {sign} {right.text}", "bool")
        kind = self._python_type(arguments[0])
        quick = ""
        if kind in ("int", "str", "bool") and kind == self._python_type(arguments[1]):
            checks = " and ".join(f"type({value.text}) is {kind}" for value in (left, right) if value.kind != kind)
            quick = f"{left.text} {sign} {right.text} if {checks} else "
        return self.risk_set(f"{quick}{'equal' if name == '_==_' else 'not_equal'}({left.text}, {right.text})", "bool")

    def _compare(self, name: str, arguments: tuple[Expr, ...], values: list[Code]) -> Code:
        left, right = values
        sign = _COMPARISONS[name]
        if left.kind == right.kind and left.kind in ("int", "str"):
            return self.set(f"{left.text} {sign} {right.text}", "bool")
        kind = self._python_type(arguments[0])
        quick = ""
        if kind in ("int", "str") and kind == self._python_type(arguments[1]):
            checks = " and ".join(f"type({value.text}) is {kind}" for value in values if value.kind != kind)
            quick = f"{left.text} {sign} {right.text} if {checks} else "
        return self.risk_set(f"{quick}compare({left.text}, {right.text}, {self.constant(name)}) {sign} 0", "bool")

    def _list(self, expr: List) -> Code:
        self.charge(CREATE_LIST)
        values = [self.value(element) for element in expr.elements]
        if not expr.optional_indices:
            return self.set(f"[{', '.join(value.text for value in values)}]", "list")
        result = self.set("[]", "list")
        for position, value in enumerate(values):
            if position in expr.optional_indices:
                value = self.risk_set(f"element({value.text})")
                self.line(f"if {value.text} is not MISSING: {result.text}.append({value.text})")
            else:
                self.line(f"{result.text}.append({value.text})")
        return result

    def _map(self, expr: Map) -> Code:
        self.charge(CREATE_MAP)
        result = self.set("{}", "dict")
        for each in expr.entries:
            key = self.value(each.key)
            value = self.value(each.value)
            key_code = key.text if key.kind in ("str", "int") else self.risk_set(f"map_key({key.text})").text
            if each.optional:
                value = self.risk_set(f"entry({key_code}, {value.text})")
                self.line(f"if {value.text} is MISSING: {result.text}.pop({key_code}, None)")
                self.line(f"else: {result.text}[{key_code}] = {value.text}")
            else:
                self.line(f"{result.text}[{key_code}] = {value.text}")
        return result

    def _struct(self, expr: Struct) -> Code:
        self.charge(CREATE_STRUCT)
        result = self.set("{}" if self._has_fields else f"Message({self.constant(expr.type_name)})")
        for each in expr.fields:
            value, name = self.value(each.value), self.constant(each.name)
            if each.optional:
                value = self.risk_set(f"entry({name}, {value.text})")
                self.line(f"if {value.text} is not MISSING: {result.text}[{name}] = {value.text}")
            else:
                self.line(f"{result.text}[{name}] = {value.text}")
        return result


def _steps(expr: Expr) -> tuple[Expr, list[_Step]]:
    """The expression that an attribute starts from, and its steps."""
    steps: list[_Step] = []
    while True:
        match expr:
            case Select() if not (expr.test_only and steps):
                steps.append(_Step(expr, expr.operand, expr.field, is_test=expr.test_only))
                expr = expr.operand
            case Call(function="_?._", args=(operand, Literal(value=str(field)))):
                steps.append(_Step(expr, operand, field, is_optional=True))
                expr = operand
            case Call(function="_[_]" | "_[?_]", args=(operand, key)):
                steps.append(_Step(expr, operand, key, is_optional=expr.function == "_[?_]"))
                expr = operand
            case _:
                return expr, steps[::-1]


def _has_nested(type_: Type) -> bool:
    """Whether a value can contain lists, maps or objects."""
    if type_.kind in (Kind.LIST, Kind.MAP) and type_.parameters:
        return type_.element.kind in _NESTING
    return type_.kind in _NESTING or type_.is_optional


def _are_plain(items: list[Any]) -> bool:
    """Whether cel-go turns a list of constants into a set."""
    return all(isinstance(item, bool | int | float | str) for item in items)


_RESULT_KINDS = {Kind.BOOL: "bool", Kind.INT: "int", Kind.STRING: "str"}


def _result_kind(name: str, overloads: tuple[str, ...]) -> str:
    kinds = {each.result.kind for each in functions().get(name, ()) if each.id in overloads}
    return _RESULT_KINDS.get(kinds.pop(), "") if len(kinds) == 1 else ""
