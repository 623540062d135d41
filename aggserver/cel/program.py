"""Compiles a checked expression to a Python function that gives its value and what that cost.

Called by whoever holds rules, once for each; the function then runs on any object. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from aggserver.cel.checker import Checked
from aggserver.cel.generator import Objects, ProgramError, generate

__all__ = ["Objects", "Program", "ProgramError", "compile_program"]

Program: TypeAlias = Callable[[Mapping[str, Any], int], tuple[Any, int]]
"""From the variables and a budget to the value and its cost. Raises CELError, which has the cost too."""


def compile_program(checked: Checked, objects: Objects | None = None) -> Program:
    """`objects` says how objects of declared types are kept: without it, as dicts of CEL's names and values.

    Raises:
        ProgramError: see there.
    """
    source, names = generate(checked, objects)
    exec(compile(source, "<cel>", "exec"), names)  # noqa: S102  (the text is the generator's own)
    program: Program = names["evaluate"]
    return program
