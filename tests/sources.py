"""What stands in a module of tests, read as text: for tests that tables which name other tests name none that is not there."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

__all__ = ["functions"]


@functools.cache
def functions(module: Path) -> frozenset[str]:
    """The names of a module's functions, without those inside of classes and functions."""
    tree = ast.parse(module.read_text("utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
