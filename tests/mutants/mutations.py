"""Where a module can be changed, and the changed text: cosmic-ray's operators, and two more.

Annotations are not evaluated, so changes of them are left out, and so are those that decide nothing: docstrings have no operator,
`TYPE_CHECKING` is False either way, a decorator is noticed by mypy, and the `*` before parameters only says how they are given.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import parso
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator, operator_names

__all__ = ["Mutation", "mutations"]

# RemoveDecorator: see above. ExceptionReplacer names an exception that there is not. The Variable operators have arguments.
_LEFT_OUT = ("RemoveDecorator", "ExceptionReplacer", "VariableReplacer", "VariableInserter")
_Position = tuple[tuple[int, int], tuple[int, int]]


@dataclass(frozen=True)
class Mutation:
    """One change: the occurrence of an operator in the module at `path` below the repository."""

    path: Path
    line: int
    column: int
    operator: str
    occurrence: int

    def changed(self, text: str) -> str | None:
        """The module's text with the change, or None where it makes no difference."""
        after = mutate_code(text, _OPERATORS[self.operator], self.occurrence)
        return None if after is None or after == text else after


def mutations(path: Path, text: str) -> Iterator[Mutation]:
    """All changes of a module."""
    tree, plain = get_ast(text), ast.parse(text)
    silent = [*map(_span, _annotations(plain)), *_stars(tree)]
    for name, operator in _OPERATORS.items():
        positions = (position for node in ast_nodes(tree) for position in operator.mutation_positions(node))
        for occurrence, (start, _) in enumerate(positions):
            if not any(first <= start < last for first, last in silent):
                yield Mutation(path, *start, name, occurrence)


def _annotations(tree: ast.AST) -> Iterable[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            yield node.returns
        elif isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            yield node.annotation
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            yield node.test


def _stars(tree: Any) -> Iterator[_Position]:
    """Where a `*` or `/` stands among the parameters of a function."""
    for node in ast_nodes(tree):
        if node.type == "operator" and node.value in ("*", "/", "**") and node.parent.type in ("parameters", "lambdef", "param"):
            yield node.start_pos, node.end_pos


def _span(node: ast.expr) -> _Position:
    return (node.lineno, node.col_offset), (node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)


class _Replaced(Operator):
    """Replaces nodes by a text of their own."""

    text = ""

    @classmethod
    def fits(cls, node: Any) -> bool:
        raise NotImplementedError

    def mutation_positions(self, node: Any) -> Iterator[_Position]:
        if self.fits(node):
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        before = node.get_first_leaf().prefix
        return parso.python.tree.Name(self.text, node.start_pos, before)

    @classmethod
    def examples(cls) -> tuple[()]:
        return ()


class _StatementGone(_Replaced):
    """A call whose result nobody takes, or an assignment, is left out. Of a name: only where it has a value before."""

    text = "pass"

    @classmethod
    def fits(cls, node: Any) -> bool:
        if node.parent is None or node.parent.type != "simple_stmt":
            return False
        if node.type == "expr_stmt":
            return node.children[0].type in ("atom_expr", "power")
        return node.type in ("atom_expr", "power", "await") and node.get_last_leaf().value == ")"


class _ReturnsNone(_Replaced):
    """The function returns None."""

    text = "return None"

    @classmethod
    def fits(cls, node: Any) -> bool:
        return bool(node.type == "return_stmt" and node.children[1].get_code().strip() != "None")


_OPERATORS: dict[str, Any] = {
    name.partition("/")[2]: get_operator(name)() for name in operator_names() if name.partition("/")[2] not in _LEFT_OUT
} | {"StatementGone": _StatementGone(), "ReturnsNone": _ReturnsNone()}
