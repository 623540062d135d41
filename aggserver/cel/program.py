"""Compiles a checked expression to a Python function that gives its value and what that cost.

Called by whoever holds rules, once for each; the function then runs on any object. Pure.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from aggserver.cel import operators
from aggserver.cel.checker import Checked
from aggserver.cel.constants import ProgramError
from aggserver.cel.generator import Objects, generate
from aggserver.cel.library import comprehensions
from aggserver.cel.runtime_cost import equality, inequality, weight
from aggserver.cel.values import (
    MISSING,
    NONE,
    CELError,
    CostExceeded,
    EvaluationError,
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
"""From the variables and a budget to the value and its cost. Raises CELError, which has the cost too."""


def _finished(error: CELError, cost: int, budget: int) -> CELError:
    """What an evaluation that failed says at its end."""
    if not isinstance(error, CostExceeded) and cost > budget:
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
    "weight": weight,
}


def compile_program(checked: Checked, objects: Objects | None = None) -> Program:
    """`objects` says how objects of declared types are kept: without it, as dicts of CEL's names and values.

    Raises:
        ProgramError: see there.
    """
    return prepare_program(checked, objects)()


def prepare_program(checked: Checked, objects: Objects | None = None) -> Callable[[], Program]:
    """What makes the program, once all that can be wrong with it is known: Python's compiler takes two fifths of the time, and
    who only checks an expression needs none.

    Raises:
        ProgramError: see there.
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
