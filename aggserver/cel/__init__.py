"""CEL, the Common Expression Language, as Kubernetes has it: check, estimate the cost, compile to Python, run.

    checked = check(source, Environment({"self": types.INT}))       # parsed, with types; or CompileError
    most = estimate(checked).max                                    # before anything runs
    program = compile_program(checked)
    value, cost = program({"self": 3}, 1_000_000)                   # or CELError

`schema` uses it for validation rules and `admission` for match conditions; it can also be used alone (docs/cel.md). It knows
no schemas or Kubernetes objects: types with fields come from a TypeProvider. Pure.
"""

from aggserver.cel.checker import Checked, Environment, check
from aggserver.cel.cost import SizeEstimator, estimate
from aggserver.cel.errors import CompileError
from aggserver.cel.program import Objects, Program, ProgramError, compile_program
from aggserver.cel.ranges import Range
from aggserver.cel.types import Type, TypeProvider
from aggserver.cel.values import CELError, CostExceeded, Duration, EvaluationError, Optional, Timestamp, Uint

__all__ = [
    "CELError",
    "Checked",
    "CompileError",
    "CostExceeded",
    "Duration",
    "Environment",
    "EvaluationError",
    "Objects",
    "Optional",
    "Program",
    "ProgramError",
    "Range",
    "SizeEstimator",
    "Timestamp",
    "Type",
    "TypeProvider",
    "Uint",
    "check",
    "compile_program",
    "estimate",
]
