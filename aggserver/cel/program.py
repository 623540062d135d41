"""Compiles a checked expression to a Python function that returns its value and cost.

A rule is compiled once; its function then runs on any object. Pure.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from aggserver.cel import operators
from aggserver.cel.checker import Checked
from aggserver.cel.constants import ProgramError
from aggserver.cel.generator import generate
from aggserver.cel.library import comprehensions
from aggserver.cel.objects import Objects
from aggserver.cel.runtime_cost import equality, inequality, weight
from aggserver.cel.values import (
    MISSING,
    NONE,
    CELError,
    CostExceeded,
    EvaluationError,
    Message,
    Optional,
    compare,
    elements,
    equal,
    no_such_overload,
    pairs,
    size,
)

__all__ = ["Objects", "Program", "ProgramError", "compile_program", "prepare_program"]

Program: TypeAlias = Callable[[Mapping[str, Any], int], tuple[Any, int]]
"""Takes the variables and a cost limit; returns the value and its cost. Raises CELError, which has the cost too."""


def _finished(error: CELError, cost: int, budget: int) -> CELError:
    """The error that a failed evaluation raises in the end, with the cost."""
    if not isinstance(error, CostExceeded) and cost > budget:
        error = CostExceeded()
    error.cost = cost
    return error


# The names that generated code may use, besides its constants (k1, ...).
_NAMES: Mapping[str, Any] = {
    "CELError": CELError,
    "CostExceeded": CostExceeded,
    "EvaluationError": EvaluationError,
    "MISSING": MISSING,
    "Message": Message,
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
    "weight": weight,
}


def compile_program(checked: Checked, objects: Objects | None = None) -> Program:
    """Compile to a function. objects: how objects are represented; by default as dicts of CEL field names and values,
    where null is a value like any other.

    Raises:
        ProgramError: e.g. a conversion of a constant fails.
    """
    return prepare_program(checked, objects)()


def prepare_program(checked: Checked, objects: Objects | None = None) -> Callable[[], Program]:
    """Generate the code, and return a function that compiles it. Python's compiler takes two fifths of the time, which
    validating a definition's rules does not need to spend.

    Raises:
        ProgramError: e.g. a conversion of a constant fails.
    """
    source, constants = generate(checked, objects, catches=False)

    @functools.cache
    def catching() -> Program:
        return _function(*generate(checked, objects, catches=True))

    def make() -> Program:
        return _function(source, {**constants, "catching": lambda activation, limit: catching()(activation, limit)})

    return make


def _function(source: str, names: Mapping[str, Any]) -> Program:
    namespace = {**_NAMES, **names}
    exec(compile(source, "<cel>", "exec"), namespace)  # noqa: S102  (the text is the generator's own)
    program: Program = namespace["evaluate"]
    return program
