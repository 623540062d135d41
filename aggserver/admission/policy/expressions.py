"""Expressions: compiles the expressions of a policy, and evaluates them for one request within its budget.

An expression that does not compile has an error, which is reported when it would be evaluated. A variable of the policy is
compiled with those before it, and evaluated when an expression first reads it; its cost counts for that expression. `Evaluation`
is one list of expressions that share a budget and the values of the variables: all match conditions, all validations, and so on.
Pure.
Source: k8s.io/apiserver pkg/admission/plugin/cel/{compile,composition,condition,activation}.go, pkg/apis/cel/config.go,
pkg/cel/lazy/lazy.go, v0.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from aggserver.admission.policy.environment import Inputs, Types, declared
from aggserver.cel.checker import Environment, check
from aggserver.cel.errors import CompileError
from aggserver.cel.program import Program, ProgramError, compile_program
from aggserver.cel.types import DYN, Kind, Type, list_of, map_of
from aggserver.cel.values import CELError, CostExceeded, EvaluationError
from aggserver.meta.golang import quote
from aggserver.meta.json_types import JSONObject

__all__ = [
    "BUDGET",
    "MATCH_BUDGET",
    "Compiler",
    "Evaluation",
    "Expression",
    "OutOfBudgetError",
    "PolicyOutOfPatienceError",
    "Result",
    "field_type",
    "type_text",
]

# The cost limit of one evaluation.
CALL_LIMIT = 1_000_000
# The cost limit of all validations of a policy together with their messages, of all its audit annotations, or of one mutation.
BUDGET = 10_000_000
# The cost limit of all match conditions of a policy or webhook.
MATCH_BUDGET = 2_500_000


# Characters of an error's text that are kept. The text may quote any value; upstream keeps all of it.
_LONGEST_ERROR = 10 * 1024
# Characters and elements in the values of all variables of a policy, which are kept while its expressions are evaluated. Upstream
# has no limit; here larger values count as exceeding the budget.
_MOST_KEPT = 8 * 1024 * 1024


class PolicyOutOfPatienceError(Exception):
    """The expressions cost more than their caller wants to wait for, or nobody waits any more. There is no result."""


class OutOfBudgetError(Exception):
    """The budget of a list of expressions is used up: no further one is evaluated."""

    def __init__(self) -> None:
        super().__init__("validation failed due to running out of cost budget, no further validation rules will be run")


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression. source: as written. program: None if there is an `error`. type: of its value; dyn on error."""

    source: str
    program: Program | None = None
    error: str = ""
    type: Type = DYN


class Result(NamedTuple):
    """The result of an expression. value: None if there is an error. error: '' if there is none."""

    value: Any
    error: str = ""


class Compiler:
    """Compiles the expressions of one policy, its variables first.

    has_params: whether the policy has a paramKind. has_variables: whether there can be variables, which webhooks do not have.
    """

    def __init__(self, *, has_params: bool, has_variables: bool = True) -> None:
        self._has_params = has_params
        self._has_variables = has_variables
        self._fields: dict[str, Type] = {}
        self.variables: dict[str, Expression] = {}

    def variable(self, name: str, source: str) -> None:
        compiled = self.expression(source, None)
        self.variables[name] = compiled
        self._fields[name] = field_type(compiled.type)

    def expression(
        self, source: str, wanted: tuple[Type, ...] | None, *, has_authorizer: bool = True, makes_patches: bool = False
    ) -> Expression:
        """Compile an expression. wanted: the types its value may have; None for any."""
        variables = declared(has_params=self._has_params, has_authorizer=has_authorizer, has_variables=self._has_variables)
        # The fields are copied: a variable added later is not known to this expression.
        types = Types(dict(self._fields), makes_patches=makes_patches)
        try:
            checked = check(source, Environment(variables, types, makes_patches=makes_patches))
        except CompileError as why:
            return Expression(source, error=f"compilation failed: {why}")
        if wanted is not None and checked.type not in wanted:
            texts = [type_text(each) for each in wanted]
            what = texts[0] if len(texts) == 1 else f"one of [{' '.join(texts)}]"
            return Expression(source, error=f"must evaluate to {what} but got {type_text(checked.type)}")
        try:
            program = compile_program(checked)
        except ProgramError as why:
            return Expression(source, error=f"program instantiation failed: {why}")
        return Expression(source, program, type=checked.type)


def type_text(type_: Type) -> str:
    """A type as Go's %v prints it: by the name that `type(x)` has."""
    name = type_.runtime_name or type_.name
    return f"{name}({', '.join(map(type_text, type_.parameters))})" if type_.parameters else name


_PLAIN = frozenset(
    (Kind.BOOL, Kind.BYTES, Kind.DOUBLE, Kind.DURATION, Kind.INT, Kind.NULL, Kind.STRING, Kind.TIMESTAMP, Kind.UINT)
)


def field_type(type_: Type) -> Type:
    """The type of a variable for the expressions that read it: objects are of dynamic type there."""
    if type_.kind in _PLAIN:
        return type_
    if type_.kind is Kind.LIST:
        return list_of(field_type(type_.element))
    if type_.kind is Kind.MAP:
        return map_of(field_type(type_.parameters[0]), field_type(type_.element))
    return DYN


class Evaluation:
    """Evaluates expressions one after another. What they cost together is limited by `left`, which goes down."""

    def __init__(
        self,
        inputs: Inputs,
        params: JSONObject | None,
        variables: Mapping[str, Expression],
        budget: int,
        *,
        has_authorizer: bool = True,
    ) -> None:
        self.left = budget
        self._patience = inputs.patience
        self._is_given_up = inputs.is_given_up
        self._limit = CALL_LIMIT if inputs.patience is None else min(CALL_LIMIT, inputs.patience)
        self._values = inputs.values(params, has_authorizer=has_authorizer)
        self._spent_on_variables = 0
        self._kept = 0
        self._variables = variables
        self._values["variables"] = _Variables(self) if variables else {}

    def run(self, expression: Expression) -> Result:
        """Evaluate an expression. Raises OutOfBudgetError, PolicyOutOfPatienceError and UnansweredError."""
        if expression.program is None:
            return Result(None, f"compilation error: {expression.error}")
        if self._is_given_up is not None and self._is_given_up():
            raise PolicyOutOfPatienceError
        failure = ""
        value = None
        try:
            value, cost = expression.program(self._values, self._limit)
        except CELError as error:
            self._give_up_if_slow(error)
            failure, cost = f"expression '{expression.source}' resulted in error: {str(error)[:_LONGEST_ERROR]}", error.cost
        except RecursionError:
            # Variables that read one another, hundreds in a row. Upstream's stack grows.
            failure, cost = f"expression '{expression.source}' resulted in error: too many nested variables", CALL_LIMIT
        self._wait(cost)
        if self._spent_on_variables:
            cost += self._spent_on_variables
            self._spent_on_variables = 0
        self._spend(cost)
        return Result(value, failure)

    @property
    def allowance(self) -> int:
        """The cost that may still be charged."""
        return self.left if self._patience is None else min(self.left, self._patience)

    def charge(self, cost: int) -> None:
        """Charge work with an expression's value to the budget. Raises OutOfBudgetError and PolicyOutOfPatienceError."""
        self._wait(cost)
        self._spend(cost)

    def variable(self, name: str) -> Any:
        """Compute a variable. Raises EvaluationError."""
        expression = self._variables[name]
        if expression.program is None:
            raise EvaluationError(f"composited variable {quote(name)} fails to compile: {expression.error}")
        try:
            value, cost = expression.program(self._values, self._limit)
        except CELError as error:
            self._give_up_if_slow(error)
            self._wait(error.cost)
            self._spent_on_variables += error.cost
            why = str(error)[:_LONGEST_ERROR]
            raise EvaluationError(f"composited variable {quote(name)} fails to evaluate: {why}") from None
        self._wait(cost)
        self._spent_on_variables += cost
        self._kept += len(value) if isinstance(value, str | bytes | list | dict) else 0
        if self._kept > _MOST_KEPT:
            raise OutOfBudgetError
        return value

    def _give_up_if_slow(self, error: CELError) -> None:
        if self._patience is not None and isinstance(error, CostExceeded):
            raise PolicyOutOfPatienceError from None

    def _spend(self, cost: int) -> None:
        if cost > self.left:
            raise OutOfBudgetError
        self.left -= cost

    def _wait(self, cost: int) -> None:
        if self._patience is not None:
            self._patience -= cost
            if self._patience <= 0:
                raise PolicyOutOfPatienceError


class _Variables(dict[str, Any]):
    """The value of `variables`: computes each variable when it is first read, and remembers its value or its error."""

    __slots__ = ("_errors", "_evaluation")

    def __init__(self, evaluation: Evaluation) -> None:
        super().__init__()
        self._evaluation = evaluation
        self._errors: dict[str, str] = {}

    def __missing__(self, name: str) -> Any:
        if name in self._errors:
            raise EvaluationError(self._errors[name])
        try:
            value = self[name] = self._evaluation.variable(name)
        except EvaluationError as error:
            self._errors[name] = str(error)
            raise
        return value

    def get(self, name: str, default: Any = None) -> Any:
        """Computes the variable too, since `has(variables.x)` reads it."""
        try:
            return self[name]
        except KeyError:
            return default
